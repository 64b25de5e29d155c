// SPDX-License-Identifier: Apache-2.0
// node drive_page.mjs PAGE STEPS.json: opens the page in Chromium, does the steps, and prints what
// they found as a JSON array. tests/test_page.py says what the steps are to find.
//
// A step is [name, ...arguments], see `steps`. Fails when the page writes an error to its console,
// or asks for anything but itself.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const viewer = fileURLToPath(new URL("../viewer/", import.meta.url));
const require = createRequire(viewer);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [page_path, steps_path] = process.argv.slice(2);
const wrong = [];
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, bypassCSP: true });
page.setDefaultTimeout(Number(process.env.STEP_MS ?? 0)); // no time decides a test: tests/harness.py ends what hangs
page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
page.on("pageerror", (error) => wrong.push(error.stack));
page.on("request", (request) => {
	if (!/^(file|blob|data):/.test(request.url())) wrong.push(`asks for ${request.url()}`);
});

/** Nothing is on its way any more. */
async function settled() {
	await page.waitForFunction(() =>
		document.querySelector("main, [role=alert]") &&
		!document.querySelector("[aria-busy=true], .loading, .waiting, .total:empty"));
}

async function texts(selector) {
	await settled();
	const all = await page.locator(selector).allInnerTexts();
	return all.map((text) => text.replace(/\s+/g, " ").trim());
}

const steps = {
	async open(hash = "") {
		await page.goto("about:blank");
		await page.goto(pathToFileURL(page_path).href + hash);
		await settled();
	},
	async press(...keys) {
		for (const key of keys) await page.keyboard.press(key);
		await settled();
	},
	async type(text) {
		await page.keyboard.type(text);
		await settled();
	},
	async click(selector) {
		await page.click(selector);
		await settled();
	},
	async choose(selector, value) {
		await page.selectOption(selector, value);
		await settled();
	},
	async give(...paths) {
		await page.setInputFiles("input[type=file]", paths);
	},
	async wait(selector) {
		await page.waitForSelector(selector);
		await settled();
	},
	async back() {
		await page.goBack();
		await settled();
	},
	async scheme(colorScheme) {
		await page.emulateMedia({ colorScheme });
	},
	async size(width, height) {
		await page.setViewportSize({ width, height });
		await settled();
	},
	async picture(path) {
		await page.screenshot({ path });
	},
	texts,
	async titles(selector) {
		await settled();
		return page.locator(selector).evaluateAll((all) => all.map((one) => one.title));
	},
	hash: () => page.evaluate(() => decodeURIComponent(location.hash.replaceAll("+", " "))),
	ground: () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor),
	/** Whether something is wider than the window. */
	overflow: () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth),
	async axe() {
		await page.evaluate(axe);
		const { violations } = await page.evaluate(() => globalThis.axe.run(document));
		return violations.filter((one) => ["serious", "critical"].includes(one.impact))
			.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join("  ")}`);
	},
};

const found = [];
for (const [name, ...parameters] of JSON.parse(readFileSync(steps_path, "utf8"))) {
	const result = await steps[name](...parameters);
	if (result !== undefined) found.push(result);
}
await browser.close();
if (wrong.length) {
	console.error(wrong.join("\n"));
	process.exitCode = 1;
}
console.log(JSON.stringify(found));
