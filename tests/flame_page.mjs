// SPDX-License-Identifier: Apache-2.0
// node flame_page.mjs VIEWER PAGE TRACE FUNCTION TOTALS: opens the page from its file, drops the
// trace on it and works in the flame graph with the keyboard alone. TOTALS are the bytes that the
// report has for all of the trace and for what passes through FUNCTION. Prints what was seen.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [viewer, page, trace, wanted, totals] = process.argv.slice(2);
const [all, through] = JSON.parse(totals);
const need = createRequire(join(viewer, "package.json"));
const built = need("esbuild").buildSync({
	entryPoints: [join(viewer, "src/format.ts")], bundle: true, write: false, format: "esm",
});
const { bytesText, percentText } = await import(
	`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].contents).toString("base64")}`);
const { chromium } = need("playwright-core");

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"],
});
const errors = [];
const tab = await browser.newPage({ reducedMotion: "reduce" });
tab.setDefaultTimeout(5 * 60 * 1000); // as long as a step of drive_page.mjs has
tab.on("pageerror", (error) => errors.push(String(error)));
tab.on("console", (message) => message.type() === "error" && errors.push(message.text()));
tab.on("request", (request) => /^https?:/.test(request.url()) && errors.push(request.url()));

async function open(hash) {
	await tab.goto("about:blank");
	await tab.goto(pathToFileURL(page) + hash);
	await tab.setInputFiles("input[type=file]", trace);
	await tab.waitForSelector("[role=tree]");
}

/** Waits until the text is there: a node of the tree, as a screen reader hears it. */
async function item(text) {
	await tab.waitForFunction((wanted) =>
		[...document.querySelectorAll("[role=treeitem]")]
			.some((one) => one.textContent.startsWith(wanted)), text);
}

/** The chosen node's text, after it has become what the test waits for. */
async function chosen(text) {
	await tab.waitForFunction((wanted) => {
		const id = document.querySelector("[role=tree]")?.getAttribute("aria-activedescendant");
		return document.getElementById(id ?? "")?.textContent.startsWith(wanted);
	}, text);
}

const hashHas = (text) => tab.waitForFunction((wanted) => location.hash.includes(wanted), text);
const hashLacks = (text) => tab.waitForFunction((wanted) => !location.hash.includes(wanted), text);

await open("#v1/flame?metric=allocated");
await item(`all, ${bytesText(all)}, 100`);

// A search: its share is what the report has with --focus; Enter chooses the largest match.
await tab.keyboard.press("/");
await tab.keyboard.type(`^${wanted}$`);
const share = percentText(through, all);
await tab.waitForFunction((text) =>
	document.querySelector("#flame-found").textContent.startsWith(text), `${share} in `);
await tab.keyboard.press("Enter");
await chosen(wanted);

// Out of the search, zoomed to the match, back; the link shows the same.
await tab.locator("[role=tree]").focus();
await tab.keyboard.press("Enter");
await hashHas("own.zoom=");
const hash = await tab.evaluate(() => location.hash);
await open(hash);
await chosen(wanted);
await tab.locator("[role=tree]").focus();
for (let i = 0; i < 50 && (await tab.evaluate(() => location.hash.includes("own.zoom="))); i++) {
	await tab.keyboard.press("Backspace");
}
await hashLacks("own.zoom=");

// Focus: the tree is what the report has.
await tab.locator(".flame-search input").focus();
await tab.keyboard.press("Enter");
await chosen(wanted);
await tab.locator("[role=tree]").focus();
await tab.keyboard.press("f");
await hashHas("focus=");
await item(`all, ${bytesText(through)}, 100`);

// The menu by keyboard, and its end.
await tab.keyboard.press("ArrowDown");
await tab.keyboard.press("m");
await tab.waitForSelector("[role=menu] [role=menuitem]:focus");
await tab.keyboard.press("Escape");
await tab.waitForSelector("[role=menu]", { state: "detached" });

// Nothing to see: it says so, and the way out works.
await tab.evaluate(() => { location.hash = "#v1/flame?metric=allocated&min-size=1000000000000"; });
await tab.waitForSelector(".flame-empty");
await tab.locator(".flame-empty button").click();
await item(`all, ${bytesText(all)}, 100`);
await browser.close();
assert.deepEqual(errors, []);
console.log(JSON.stringify({ share, hash }));
