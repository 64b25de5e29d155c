// SPDX-License-Identifier: Apache-2.0
// Where the page gets its trace from: it lies in the page (mayfly view --html), the native reader
// serves it, or the user gives a file. The page's data blocks:
//
//	#main		what begin.ts starts		#worker		the worker's script
//	#zstd		WebAssembly, packed as #main is (unpack.ts)
//	#reader		WebAssembly that zstd has packed: data-size bytes
//	#trace, #base	traces: base64; data-name	#sources	{path: text}, JSON
//	#state		data-name: the view and its filters
import { HttpEngine } from "./http.ts";
import { decode, decodePacked, unpack } from "./unpack.ts";
import { takenBlocks } from "./save.ts";
import { LocalEngine, readFile } from "./local.ts";
import type { Engine } from "./engine.ts";
import type { Opening, ReaderCode, TraceFile } from "./wasm.ts";
import { Zstd } from "./zstd.ts";

/** The text of a data block, which is removed: a trace is large. "": there is none. */
function take(id: string): { text: string; name: string } {
	const element = document.getElementById(id);
	const text = element?.textContent?.trim() ?? "";
	const name = element?.dataset["name"] ?? id;
	element?.remove();
	return { text, name };
}

/** The bytes of a block with code; it goes into a saved page as it is. */
function takeCode(id: string): { bytes: Uint8Array<ArrayBuffer>; size: number } {
	const block = document.getElementById(id);
	if (block) takenBlocks.push(block);
	return { bytes: decodePacked(take(id).text), size: Number(block?.dataset["size"]) };
}

let local: Promise<{ script: string; code: ReaderCode }> | undefined;

async function loadLocal(): Promise<{ script: string; code: ReaderCode }> {
	const script = document.getElementById("worker")?.textContent ?? "";
	const zstd = await WebAssembly.compile(await unpack(takeCode("zstd").bytes).arrayBuffer());
	const packed = takeCode("reader");
	const reader = new Uint8Array(packed.size);
	if (!new Zstd(zstd).expand(packed.bytes, reader)) throw new Error("this page is damaged: its reader cannot be unpacked");
	return { script, code: { reader: await WebAssembly.compile(reader), zstd } };
}

export async function openLocal(opening: Opening): Promise<Engine> {
	local ??= loadLocal();
	const { script, code } = await local;
	return LocalEngine.open(script, code, opening);
}

function taken(id: string): TraceFile | undefined {
	const { text, name } = take(id);
	return text ? { name, bytes: decode(text) } : undefined;
}

/** Where `mayfly view` serves the page: below its token. */
const servedPath = /^\/[0-9a-f]{32}\/$/;

/** The page is read to its end: what follows the scripts is there. */
async function whole(): Promise<void> {
	if (document.readyState !== "loading") return;
	await new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));
}

/** What a page that was saved begins with: see save.ts. */
export function savedState(): string {
	return take("state").name.replace(/^state$/, "");
}

/** The trace that the page or its server has; undefined: the user gives one (openFile). */
export async function openPage(): Promise<Engine | undefined> {
	await whole();
	const trace = taken("trace");
	if (trace) {
		const sources = take("sources").text;
		return openLocal({
			trace,
			base: taken("base"),
			sources: sources ? JSON.parse(sources) as Record<string, string> : undefined,
		});
	}
	return servedPath.test(location.pathname) ? HttpEngine.open() : undefined;
}

/** A trace that the user chose or dropped. */
export async function openFile(trace: File): Promise<Engine> {
	return openLocal({ trace: await readFile(trace) });
}
