#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// scripts/picture_views.mjs PAGE FOLDER: a picture of each view that README.md shows.
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const viewer = fileURLToPath(new URL("../viewer/", import.meta.url));
const { chromium } = createRequire(path.join(viewer, "package.json"))("playwright-core");
const [page, folder] = process.argv.slice(2);
const pictures = [
	["summary", "summary", "dark", ".tile-figure"],
	["timeline", "timeline", "light", ".timeline-legend-row"],
	["flame", "flame?metric=peak", "light", "[role=treeitem]"],
	["heat", "heat?metric=allocated", "light", ".heat-cell"],
];
const browser = await chromium.launch({
	executablePath: "/usr/bin/chromium", args: ["--no-sandbox"],
});
for (const [name, hash, colorScheme, sign] of pictures) {
	const tab = await browser.newPage({ viewport: { width: 1200, height: 720 }, colorScheme });
	tab.setDefaultTimeout(5 * 60 * 1000);
	await tab.goto(`${pathToFileURL(page).href}#v1/${hash}`);
	await tab.waitForSelector(sign);
	await tab.waitForFunction(() =>
		!document.querySelector("[aria-busy=true], .loading, .waiting, .total:empty"));
	await tab.waitForTimeout(500);
	await tab.screenshot({ path: path.join(folder, `${name}.png`) });
	await tab.close();
}
await browser.close();
