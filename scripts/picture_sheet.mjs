#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// scripts/picture_sheet.mjs MAYFLY FOLDER [TRACE...]: all views of the traces in the folder, or of those named,
// at each width, light and dark: FOLDER/sheet/TRACE-VIEW-WIDTH-THEME.png, and on one sheet FOLDER/sheet.html.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const viewer = fileURLToPath(new URL("../viewer/", import.meta.url));
const { chromium } = createRequire(path.join(viewer, "package.json"))("playwright-core");
const [mayfly, folder, ...named] = process.argv.slice(2);
const views = ["summary", "timeline", "flame", "table", "table?own.by=stack", "heat", "spans", "source", "leaks", "events",
	"rss", "churn", "reallocs", "fragmentation", "survival"];
const widths = [390, 1024, 1440, 1920];
const themes = ["light", "dark"];
const traces = (named.length ? named : readdirSync(folder).filter((name) => name.endsWith(".mayfly"))
	.map((name) => path.join(folder, name))).map((file) => path.resolve(file));
const shots = path.join(folder, "sheet");

function fileOf(trace, view, width, theme) {
	const name = path.basename(trace, ".mayfly");
	return `${name}-${view.replace(/[^a-z]+/g, "-")}-${width}-${theme}.png`;
}

/** The page lays out and draws for a new size with one of the next frames. */
const drawn = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const settled = () => document.querySelector("main, [role=alert]") &&
	!document.querySelector("[aria-busy=true], .loading, .waiting, .total:empty");

mkdirSync(shots, { recursive: true });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const tab = await browser.newPage();
tab.setDefaultTimeout(5 * 60 * 1000);
const wrong = [];
tab.on("pageerror", (error) => wrong.push(error.stack));
for (const trace of traces) {
	const page = path.join(folder, `${path.basename(trace, ".mayfly")}.html`);
	execFileSync(mayfly, ["view", "--force", "--html", page, trace]);
	for (const view of views) {
		await tab.goto("about:blank");
		await tab.goto(`${pathToFileURL(page).href}#v1/${view}`);
		for (const width of widths) {
			await tab.setViewportSize({ width, height: 800 });
			for (const colorScheme of themes) {
				await tab.emulateMedia({ colorScheme });
				await tab.evaluate(drawn);
				await tab.waitForFunction(settled);
				await tab.evaluate(drawn);
				await tab.screenshot({ path: path.join(shots, fileOf(trace, view, width, colorScheme)) });
			}
		}
	}
	console.log(path.basename(trace));
}
const picture = (trace, view, width, theme) => {
	const file = `sheet/${fileOf(trace, view, width, theme)}`;
	return `<a href="${file}"><img loading="lazy" width="${width / 4}" src="${file}" alt="${width} ${theme}"></a>`;
};
const rows = (trace) => views.map((view) => `<h3>${view}</h3>` + themes.map((theme) =>
	widths.map((width) => picture(trace, view, width, theme)).join(" ")).join("<br>")).join("\n");
writeFileSync(path.join(folder, "sheet.html"), `<!doctype html><meta charset="utf-8"><title>Views</title>
${traces.map((trace) => `<h2>${path.basename(trace)}</h2>\n${rows(trace)}`).join("\n")}\n`);
await browser.close();
if (wrong.length) {
	console.error(wrong.join("\n"));
	process.exitCode = 1;
}
