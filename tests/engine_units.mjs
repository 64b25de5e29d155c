// SPDX-License-Identifier: Apache-2.0
// node engine_units.mjs VIEWER: the engine of the page with workers that answer when they are told to.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const viewer = process.argv[2];
const { buildSync } = createRequire(join(viewer, "package.json"))("esbuild");
const built = buildSync({
	entryPoints: [join(viewer, "src/engine/local.ts")], bundle: true, write: false, format: "esm",
});
const code = Buffer.from(built.outputFiles[0].contents).toString("base64");
const { LocalEngine } = await import(`data:text/javascript;base64,${code}`);

let workers = [];
globalThis.Worker = class {
	posted = []; // what it has to answer, in order
	ended = false;
	constructor() {
		workers.push(this);
	}
	postMessage(message) {
		this.posted.push(message.request ?? message.kind);
	}
	terminate() {
		this.ended = true;
	}
};
Object.defineProperty(globalThis, "navigator", { value: { hardwareConcurrency: 2 }, configurable: true });
const turn = () => new Promise((done) => setTimeout(done));

async function reply(worker, expected, data) {
	await turn();
	assert.equal(worker.posted.shift(), expected);
	worker.onmessage({ data });
	await turn();
}

function answer(expected, text, worker = workers[0]) {
	const bytes = text && new TextEncoder().encode(JSON.stringify(text));
	return reply(worker, expected, { answer: text ? { status: 200, bytes } : null });
}

/* What was asked while another trace was read is answered first, and not taken for the answer to something else. */
const trace = { name: "trace", bytes: new Uint8Array(1) };
const opening = LocalEngine.open("", {}, { trace });
await answer("open");
const engine = await opening;
const comparing = engine.compare({ name: "base", arrayBuffer: () => Promise.resolve(new ArrayBuffer(1)) });
await turn();
const before = [engine.ask("rows"), engine.ask("series")];
await answer("compare");
const after = (await comparing).ask("info");
await answer("rows", "rows");
await answer("series", "series");
await answer("info", "info");
assert.deepEqual(await Promise.all([...before, after]), ["rows", "series", "info"]);
assert.equal(workers.length, 1);
assert.deepEqual(workers[0].posted, []);

/* Two workers read a large trace, each with bytes of its own; the one with less to do is asked. */
async function openLarge(second) {
	workers = [];
	const large = { name: "large", bytes: new Uint8Array(1 << 20) };
	const opened = LocalEngine.open("", {}, { trace: large });
	await answer("open");
	await reply(workers[1], "open", second);
	return opened;
}
const both = await openLarge({ answer: null });
const asked = ["rows", "tree", "curve"].map((request) => both.ask(request));
await answer("tree", "tree", workers[1]);
const last = both.ask("heat");
await answer("heat", "heat", workers[1]);
await answer("rows", "rows");
await answer("curve", "curve");
assert.deepEqual(await Promise.all([...asked, last]), ["rows", "tree", "curve", "heat"]);

/* Both get what the trace is compared with. A second worker that cannot read it still answers what it was asked. */
const compared = both.compare({ name: "base", arrayBuffer: () => Promise.resolve(new ArrayBuffer(1)) });
await answer("compare");
await turn();
const meanwhile = ["rows", "tree", "heat"].map((request) => both.ask(request));
await reply(workers[1], "compare", { error: "no memory" });
await answer("heat", "heat", workers[1]);
await answer("rows", "rows");
await answer("tree", "tree");
assert.deepEqual(await Promise.all(meanwhile), ["rows", "tree", "heat"]);
assert.deepEqual(workers.map((one) => one.ended), [false, true]);
const differences = await compared;
const alone = [differences.ask("diff"), differences.ask("changes")];
await answer("diff", "diff");
await answer("changes", "changes");
assert.deepEqual(await Promise.all(alone), ["diff", "changes"]);

/* A trace of which the tab cannot hold two copies is read by one. */
const single = await openLarge({ error: "no memory" });
assert.deepEqual(workers.map((one) => one.ended), [false, true]);
const questions = [single.ask("rows"), single.ask("tree")];
await answer("rows", "rows");
await answer("tree", "tree");
assert.deepEqual(await Promise.all(questions), ["rows", "tree"]);
