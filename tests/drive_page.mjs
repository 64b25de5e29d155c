// SPDX-License-Identifier: Apache-2.0
// node drive_page.mjs PAGE STEPS.json: opens the page, a file or an address, in Chromium, does the
// steps, and prints what they found as a JSON array. With - for STEPS.json, steps are lines of
// standard input, and each is answered by a line. tests/test_page.py and tests/test_views.py say
// what the steps are to find.
//
// A step is [name, ...arguments], see `steps`. Fails when a step fails, which is then named, when the page
// writes an error to its console, or when it asks for anything but itself.
import { copyFileSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";

const viewer = fileURLToPath(new URL("../viewer/", import.meta.url));
const require = createRequire(viewer);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

// What waits for something that never comes must end some day: no step takes five minutes, also on a busy machine,
// and a page that rests for one will not change any more.
const STEP_MS = Number(process.env.STEP_MS ?? 5 * 60 * 1000);
const REST_MS = STEP_MS / 5;

const [page_path, steps_path] = process.argv.slice(2);
const address = /^http:/.test(page_path) ? page_path : pathToFileURL(page_path).href;
const own = new URL(address);
const wrong = [];
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, bypassCSP: true });
page.setDefaultTimeout(STEP_MS);
const crashed = new Promise((_, failed) => page.on("crash", () => failed(new Error("the page has crashed"))));
crashed.catch(() => {}); // whoever waits for a step hears of it
page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
page.on("pageerror", (error) => wrong.push(error.stack));
page.on("request", (request) => {
	const url = new URL(request.url());
	const served = own.protocol === "http:" && url.host === own.host;
	if (!served && !/^(file|blob|data):/.test(request.url())) wrong.push(`asks for ${request.url()}`);
});

/** In the page: whether nothing is on its way any more. */
const rests = () => document.querySelector("main, [role=alert]") &&
	!document.querySelector("[aria-busy=true], .loading, .waiting, .total:empty");

/** Until what the last input asked for is shown: the page draws it with one of the next frames. */
async function settled() {
	await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
	await page.waitForFunction(rests);
}

async function texts(selector) {
	await settled();
	const all = await page.locator(selector).allInnerTexts();
	return all.map((text) => text.replace(/\s+/g, " ").trim());
}

/** Where an element is. One that the page draws anew at this moment has no place. */
async function boxOf(selector) {
	for (;;) {
		await page.waitForSelector(selector);
		const box = await page.locator(selector).boundingBox();
		if (box) return box;
	}
}

const steps = {
	async open(hash = "") {
		await page.goto("about:blank");
		await page.goto(address + hash);
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
	focus: (selector) => page.focus(selector),
	async choose(selector, value) {
		await page.selectOption(selector, value);
		await settled();
	},
	async give(...paths) {
		await page.setInputFiles("input[type=file]", paths);
	},
	/** A file that is dragged onto the page. */
	async drop(path) {
		const name = path.split("/").pop();
		const data = await page.evaluateHandle(([text, name]) => {
			const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
			const transfer = new DataTransfer();
			transfer.items.add(new File([bytes], name));
			return transfer;
		}, [readFileSync(path).toString("base64"), name]);
		await page.dispatchEvent("body", "dragenter", { dataTransfer: data });
		await page.dispatchEvent("body", "drop", { dataTransfer: data });
	},
	async wait(selector) {
		await page.waitForSelector(selector);
		await settled();
	},
	async gone(selector) {
		await page.waitForSelector(selector, { state: "detached" });
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
		// What is laid out by script follows a frame later.
		await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
		await settled();
	},
	/** From one place of an element to another, in shares of its width, at half of its height. */
	async drag(selector, from, to) {
		const box = await boxOf(selector);
		const y = box.y + box.height / 2;
		await page.mouse.move(box.x + from * box.width, y);
		await page.mouse.down();
		for (let i = 1; i <= 4; i++)
			await page.mouse.move(box.x + (from + (i / 4) * (to - from)) * box.width, y);
		await page.mouse.up();
		await settled();
	},
	/** At a place of an element, in shares of its width and height. */
	async clickAt(selector, x, y) {
		const box = await boxOf(selector);
		await page.mouse.click(box.x + x * box.width, box.y + y * box.height);
		await settled();
	},
	/** An element to this place, in pixels from the left. */
	async dragTo(selector, x) {
		const box = await boxOf(selector);
		const y = box.y + box.height / 2;
		await page.mouse.move(box.x + box.width / 2, y);
		await page.mouse.down();
		await page.mouse.move(x, y, { steps: 3 });
		await page.mouse.up();
		await settled();
	},
	double: (selector) => page.dblclick(selector),
	clipboard: () => page.context().grantPermissions(["clipboard-read", "clipboard-write"]),
	copied: () => page.evaluate(() => navigator.clipboard.readText()),
	async scrollRight(selector) {
		await page.locator(selector).evaluate((box) => (box.scrollLeft = box.scrollWidth));
		await page.waitForFunction((selector) => document.querySelector(selector).scrollLeft > 0, selector);
	},
	/** Where the figures of the chosen line of the source are, its end, and the end of what is seen. */
	places: () => page.locator(".rows [aria-selected=true]").evaluate((row) => {
		const box = row.closest(".rows");
		const range = document.createRange();
		range.selectNodeContents(row.querySelector("code"));
		return {
			figures: [...row.querySelectorAll(".stay")].map((cell) => Math.round(cell.getBoundingClientRect().left)),
			end: range.getBoundingClientRect().right,
			seen: box.getBoundingClientRect().left + box.clientWidth,
		};
	}),
	async fill(selector, text) {
		await page.fill(selector, text);
		await page.press(selector, "Enter");
		await settled();
	},
	/** Waits until an element's text or title holds this. */
	async until(selector, text) {
		await page.waitForFunction(([selector, text]) => [...document.querySelectorAll(selector)]
			.some((one) => `${one.textContent} ${one.title}`.replace(/\s+/g, " ").includes(text)),
		[selector, text]);
	},
	async hashHas(text) {
		await page.waitForFunction((text) =>
			decodeURIComponent(location.hash.replaceAll("+", " ")).includes(text), text);
		await settled();
	},
	async save(selector, path) {
		const [file] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
		copyFileSync(await file.path(), path);
	},
	/** As paper gets it, once the browser has said that it prints. */
	async paper(on) {
		if (on) await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
		await page.emulateMedia({ media: on ? "print" : "screen" });
		if (!on) await page.evaluate(() => dispatchEvent(new Event("afterprint")));
		await settled();
	},
	/** Whether each element's text is whole: not cut off by a box that is too narrow. */
	whole: (selector) => page.locator(selector).evaluateAll((all) =>
		all.every((one) => one.scrollWidth <= one.clientWidth + 1 || getComputedStyle(one).overflow === "visible")),
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
	/** The number of columns that a grid is laid out in. */
	columns: (selector) => page.locator(selector).first().evaluate((grid) =>
		getComputedStyle(grid).gridTemplateColumns.split(" ").length),
	/** For each table: its name, how many rows it has and how many are drawn, whether others are not, the share of
	 * its visible width that its names have, whether they are first, and whether all that are cut have a tooltip. */
	tables: () => page.locator("main table").evaluateAll((all) => all.map((table) => {
		const heads = [...table.querySelectorAll("thead th")];
		const names = table.querySelector("thead .names") ?? heads[0];
		const seen = table.parentElement.getBoundingClientRect();
		const box = names.getBoundingClientRect();
		const inside = Math.min(box.right, seen.right) - Math.max(box.left, seen.left);
		return {
			name: table.getAttribute("aria-label") ?? table.caption?.textContent,
			rows: table.querySelectorAll("tbody tr:not(.space)").length,
			more: table.querySelector(".space") !== null,
			share: inside / seen.width,
			all: Number(table.getAttribute("aria-rowcount")) - 1,
			first: names === heads[0],
			whole: [...table.querySelectorAll("tbody .name-text")].every((name) =>
				name.scrollWidth <= name.clientWidth || name.parentElement.title.startsWith(name.textContent)),
		};
	})),
	/** Whether no element of the one selector reaches into one of the other. */
	apart: (one, other) => page.evaluate((selectors) => {
		const [these, those] = selectors.map((selector) =>
			[...document.querySelectorAll(selector)].map((element) => element.getBoundingClientRect()));
		return these.every((a) => those.every((b) =>
			a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top));
	}, [one, other]),
	/** Whether something is wider than the window. */
	overflow: () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth),
	async axe() {
		await page.evaluate(axe);
		const { violations } = await page.evaluate(() => globalThis.axe.run(document));
		return violations.filter((one) => ["serious", "critical"].includes(one.impact))
			.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join("  ")}`);
	},
};

/** What the page shows, if it can still say so. */
const shown = () => Promise.race([
	page.evaluate(() => document.body.innerText),
	sleep(10_000, "nothing", { ref: false }),
]).catch((error) => error.message);

/** Ends with an error when a step cannot succeed any more. */
async function hopeless(signal) {
	const end = Date.now() + STEP_MS + 5000; // a wait for an element ends before, and says more
	for (let last, since = 0; Date.now() < end;) {
		await sleep(1000, undefined, { signal });
		const now = await Promise.race([sleep(1000, undefined, { signal }), page.evaluate(`(${rests})() && !document
			.querySelector(".live") ? document.body.innerHTML : undefined`).catch(() => {})]);
		if (now === undefined || now !== last) [last, since] = [now, Date.now()];
		else if (Date.now() - since > REST_MS) throw new Error(`nothing has changed for ${REST_MS / 1000} s`);
	}
	throw new Error(`still not done after ${STEP_MS / 1000} s`);
}

async function done([name, ...parameters]) {
	const over = new AbortController();
	try {
		return await Promise.race([steps[name](...parameters), crashed, hopeless(over.signal)]);
	} catch (error) {
		throw new Error([`step ${JSON.stringify([name, ...parameters])}: ${error.message}`, ...wrong,
			`${page.url()} shows:`, await shown()].join("\n"), { cause: error });
	} finally {
		over.abort();
	}
}

const found = [];
if (steps_path === "-") {
	for await (const line of createInterface({ input: process.stdin }))
		console.log(JSON.stringify((await done(JSON.parse(line))) ?? null));
} else {
	for (const step of JSON.parse(readFileSync(steps_path, "utf8"))) {
		const result = await done(step);
		if (result !== undefined) found.push(result);
	}
}
await browser.close();
if (wrong.length) {
	console.error(wrong.join("\n"));
	process.exitCode = 1;
}
if (steps_path !== "-") console.log(JSON.stringify(found));
