#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// How long a page takes in headless Chromium without a GPU. Prints JSON; bench/viewer.py runs it.
//
//	bench/viewer_speed.mjs page URL VIEW [FROM TO]	milliseconds until the view is painted, and from
//							the choice of a range until all answers to it are
//	bench/viewer_speed.mjs svg URL			until it is painted, and its number of boxes
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const viewer = path.join(path.dirname(fileURLToPath(import.meta.url)), "../viewer");
const { chromium } = createRequire(path.join(viewer, "package.json"))("playwright-core");
const [what, url, view, from, to] = process.argv.slice(2);
// What a view has when its figures are there.
const SIGNS = { summary: ".tile-figure", flame: "[role=treeitem]", table: ".rows .figure" };

const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-gpu"],
	timeout: 0,
});
const tab = await browser.newPage({ viewport: { width: 1440, height: 900 } });
tab.setDefaultTimeout(0);

/** In the page: the time at which the sign is there, nothing is awaited, and that is painted. */
function painted(sign) {
	const waits = "[aria-busy=true], .loading, .waiting, .total:empty";
	return new Promise((done) => {
		const look = () => {
			if (document.querySelector(sign)?.getClientRects().length && !document.querySelector(waits))
				requestAnimationFrame(() => setTimeout(() => done(performance.now())));
			else requestAnimationFrame(look);
		};
		look();
	});
}

const found = {};
if (what === "svg") {
	// The first paint after which the browser answers: the drawing is one frame.
	await tab.goto(url, { waitUntil: "load", timeout: 0 });
	found.painted_ms = await tab.evaluate(() => new Promise((done) =>
		requestAnimationFrame(() => setTimeout(() => done(performance.now())))));
	found.boxes = await tab.evaluate(() => document.querySelectorAll("rect").length);
} else {
	await tab.addInitScript(`window.painted = ${painted};
		window.first = new Promise((done) => addEventListener("DOMContentLoaded",
			() => painted(${JSON.stringify(SIGNS[view])}).then(done)));`);
	await tab.goto(`${url}#v1/${view}`);
	found.painted_ms = await tab.evaluate(() => window.first);
	if (from) {
		await tab.waitForTimeout(1000);
		found.range_ms = await tab.evaluate(([hash, sign]) => {
			const begin = performance.now();
			location.hash = hash;
			// Two frames later the requests are on their way.
			return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
				painted(sign).then((end) => done(end - begin)))));
		}, [`#v1/${view}?metric=allocated&from=${from}&to=${to}`, SIGNS[view]]);
	}
}
console.log(JSON.stringify(found));
await browser.close();
