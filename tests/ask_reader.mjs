// SPDX-License-Identifier: Apache-2.0
// node ask_reader.mjs FOLDER TRACE [--base TRACE] REQUEST...: as view_ask.c, but the reader is the
// page's WebAssembly, which with its script lies in FOLDER. A request "@FILE" opens FILE instead.
import { readFileSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { basename, join } from "node:path";

const [folder, path, ...rest] = process.argv.slice(2);
const { Reader } = await import(pathToFileURL(join(folder, "viewer.mjs")));
const module = (name) => new WebAssembly.Module(readFileSync(join(folder, name)));
const code = { reader: module("reader.wasm"), zstd: module("zstd.wasm") };
const file = (name) => name && { name, bytes: new Uint8Array(readFileSync(name)) };
const base = rest[0] === "--base" ? rest.splice(0, 2)[1] : undefined;

function print(bytes) {
	for (let at = 0; at < bytes.length;) at += writeSync(1, bytes, at);
}

function open(trace, other) {
	const reader = new Reader(code);
	reader.open({ trace: file(trace), base: file(other) });
	return reader;
}

let reader;
for (const request of [`@${path}`, ...rest]) {
	try {
		if (request[0] === "@") {
			reader = undefined;
			reader = open(request.slice(1), base);
			continue;
		}
		const { status, type, bytes } = reader.ask(request);
		print(Buffer.from(`${status} ${type} ${bytes.length}\n`));
		print(bytes);
		print(Buffer.from("\n"));
	} catch (error) {
		print(Buffer.from(`0 ${basename(error.constructor.name)} 0\n\n`));
		console.error(error.message);
	}
}
