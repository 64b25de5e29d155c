// SPDX-License-Identifier: Apache-2.0
// node engine_units.mjs VIEWER: the engine of the page with a worker that answers when it is told to.
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

const posted = []; // what the worker has to answer, in order
let worker;
globalThis.Worker = class {
	constructor() {
		worker = this;
	}
	postMessage(message) {
		posted.push(message.request ?? message.kind);
	}
};
const turn = () => new Promise((done) => setTimeout(done));

async function answer(expected, text) {
	await turn();
	assert.equal(posted.shift(), expected);
	const bytes = text && new TextEncoder().encode(JSON.stringify(text));
	worker.onmessage({ data: { answer: text ? { status: 200, bytes } : null } });
	await turn();
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
assert.deepEqual(posted, []);
