#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// How fast the viewer's flame graph pans: a tree of a million nodes in headless Chromium without a
// GPU. Prints, for each shape of tree and each zoom, frames per second and the milliseconds that a
// frame's JavaScript takes. Needs viewer/node_modules (npm ci) and Chromium.
//
//	bench/viewer_flame.mjs [NODES]
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const viewer = path.join(path.dirname(fileURLToPath(import.meta.url)), "../viewer");
const need = createRequire(path.join(viewer, "package.json"));
const { buildSync } = need("esbuild");
const { chromium } = need("playwright-core");
const NODES = Number(process.argv[2] ?? 1e6);
const FRAMES = 120;

function randomFrom(seed) {
	return () => {
		seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
		return seed / 2 ** 32;
	};
}

const SHAPES = {
	// [most callees of a node, how unequal they are, depth]
	"like a program": [4, 2.5, 120],
	"wide and even": [40, 0.3, 30],
	"deep": [2, 1.5, 800],
};

/** The answer to "tree" (src/view/view.h), of so many nodes. */
function treeAnswer([most, unequal, deepest]) {
	const random = randomFrom(7);
	const u32 = () => new Uint32Array(NODES);
	const arrays = { parent: u32(), end: u32(), depth: u32(), name: u32(), file: u32(), module: u32(),
		line: u32(), samples: u32(), self_samples: u32(), kind: new Uint8Array(NODES),
		self: new Float64Array(NODES), total: new Float64Array(NODES), left: new Float64Array(NODES),
		self_stderr: new Float32Array(NODES), total_stderr: new Float32Array(NODES) };
	const texts = [""];
	for (let i = 0; i < 8; i++) texts.push(`/usr/lib/libpart${i}.so`);
	for (let i = 0; i < 20000; i++) texts.push(`space${i % 40}::Class${i % 900}<int>::function${i}(int)`);
	let next = 0;
	const grow = (parent, depth, budget, total, left) => {
		const i = next++;
		Object.entries({ parent, depth, total, left }).forEach(([key, value]) => (arrays[key][i] = value));
		arrays.module[i] = 1 + Math.floor(random() ** 2 * 8);
		arrays.kind[i] = random() < 0.75 ? 0 : 1 + Math.floor(random() * 2);
		arrays.name[i] = 9 + Math.floor(random() * 20000);
		arrays.samples[i] = budget;
		let rest = budget - 1;
		const self = rest ? total * 0.02 * random() : total;
		const count = depth >= deepest ? rest : Math.min(rest, 1 + Math.floor(random() * most));
		const shares = Array.from({ length: count }, () => random() ** (1 + unequal) + 1e-3)
			.sort((a, b) => b - a);
		const sum = shares.reduce((a, b) => a + b, 0);
		for (let k = 0, x = left; k < count; k++) {
			const part = (total - self) * (shares[k] / sum);
			const fair = Math.round((rest * shares[k]) / shares.slice(k).reduce((a, b) => a + b, 0));
			const others = count - 1 - k;
			const nodes = others === 0 ? rest : Math.min(rest - others, Math.max(1, fair));
			grow(i, depth + 1, nodes, part, x);
			rest -= nodes;
			x += part;
		}
		arrays.self[i] = self;
		arrays.end[i] = next;
	};
	grow(0, 0, NODES, 1e9, 0);
	return encode(arrays, texts);
}

function encode(arrays, texts) {
	const TYPES = { Uint32Array: "u32", Uint8Array: "u8", Float64Array: "f64", Float32Array: "f32" };
	const places = {};
	let at = 2 ** 21;
	for (const [name, array] of Object.entries(arrays)) {
		places[name] = { type: TYPES[array.constructor.name], offset: at, count: array.length };
		at += Math.ceil(array.byteLength / 8) * 8;
	}
	const json = Buffer.from(JSON.stringify({ arrays: places, texts }));
	if (json.length > 2 ** 21 - 4) throw new Error("too many texts");
	const answer = Buffer.alloc(at);
	answer.writeUInt32LE(json.length, 0);
	json.copy(answer, 4);
	for (const [name, array] of Object.entries(arrays)) {
		Buffer.from(array.buffer).copy(answer, places[name].offset);
	}
	return answer;
}

const PAGE = `
import { render, h } from "preact";
import { useState } from "preact/hooks";
import Flame from "./src/views/flame.tsx";
import { changed, firstState } from "./src/state.ts";
const engine = {
	live: false,
	bytes: async () => (await fetch("tree")).arrayBuffer(),
	ask: async () => ({ total: { bytes: { estimate: 0 }, blocks: { estimate: 0 }, samples: 0 } }),
	close() {},
};
function Page() {
	const [state, set] = useState({ ...firstState, view: "flame" });
	return h(Flame, { engine, info: {}, state, go: (change) => set((s) => changed(s, change)), generation: 0 });
}
const native = window.requestAnimationFrame.bind(window);
window.spent = 0;
window.requestAnimationFrame = (run) => native((now) => {
	const begin = performance.now();
	run(now);
	window.spent += performance.now() - begin;
});
window.pan = (frames, dx, dy) => new Promise((done) => {
	const canvas = document.querySelector("canvas");
	const all = [];
	let last = 0;
	window.spent = 0;
	const step = (now) => {
		if (last) all.push(now - last);
		last = now;
		const by = all.length % 40 < 20 ? 1 : -1;
		canvas.dispatchEvent(new WheelEvent("wheel",
			{ deltaX: dx * by, deltaY: dy * by, cancelable: true, bubbles: true }));
		if (all.length < frames) native(step);
		else done({ frames: all, script: window.spent / frames });
	};
	native(step);
});
render(h(Page), document.body);
`;

function page() {
	const built = buildSync({
		stdin: { contents: PAGE, resolveDir: viewer, loader: "tsx" }, bundle: true, write: false,
		outdir: "/page", jsx: "automatic", jsxImportSource: "preact", minify: true, format: "iife",
		define: { "process.env.NODE_ENV": '"production"' },
	});
	const file = (end) => built.outputFiles.find((one) => one.path.endsWith(end))?.text ?? "";
	const colours = buildSync({ entryPoints: [path.join(viewer, "src/colours.css")], write: false });
	return `<!doctype html><meta charset=utf-8><link rel=icon href=data:,><style>
		html, body { height: 100%; margin: 0 }
		${colours.outputFiles[0].text}${file(".css")}</style><body><script>${file(".js")}</script>`;
}

function median(all) {
	return [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)];
}

let answer = Buffer.alloc(0);
const html = page();
const server = http.createServer((request, reply) => {
	reply.setHeader("content-type", request.url === "/tree" ? "application/octet-stream" : "text/html");
	reply.end(request.url === "/tree" ? answer : html);
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const browser = await chromium.launch({
	executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
	args: ["--no-sandbox", "--disable-gpu"],
});
console.log(`${NODES} nodes, 1920 x 1080, software rendering: pan for ${FRAMES} frames`);
console.log("tree             zoom      frames/s   script ms   median ms   worst ms");
for (const [name, shape] of Object.entries(SHAPES)) {
	answer = treeAnswer(shape);
	const tab = await browser.newPage({ viewport: { width: 1920, height: 1080 } });
	tab.on("pageerror", (error) => console.error(error));
	await tab.goto(`http://127.0.0.1:${server.address().port}/`);
	await tab.waitForSelector("canvas");
	await tab.waitForTimeout(500);
	for (const [zoom, steps] of [["out", 0], ["x 10", 7], ["x 1000", 20]]) {
		if (steps) {
			await tab.mouse.move(700, 400);
			await tab.keyboard.down("Control");
			for (let i = 0; i < (steps === 20 ? 13 : 7); i++) await tab.mouse.wheel(0, -120);
			await tab.keyboard.up("Control");
			await tab.waitForTimeout(800);
		}
		const { frames, script } = await tab.evaluate((n) => window.pan(n, 23, 9), FRAMES);
		const mean = frames.reduce((a, b) => a + b, 0) / frames.length;
		console.log(name.padEnd(16), zoom.padEnd(8), (1000 / mean).toFixed(1).padStart(9),
			script.toFixed(2).padStart(11), median(frames).toFixed(1).padStart(11),
			Math.max(...frames).toFixed(1).padStart(10));
		if (process.env.SHOTS) await tab.screenshot({ path: `${process.env.SHOTS}/${name}-${zoom}.png` });
	}
	await tab.close();
}
await browser.close();
server.close();
