// SPDX-License-Identifier: Apache-2.0
// This page as one file with the trace in it, as `mayfly view --html` writes it, that opens with the same
// view and filters.
import type { Engine } from "./engine.ts";
import type { TraceFile } from "./wasm.ts";

/** Blocks that were taken out of the page when its reader was loaded. */
export const takenBlocks: HTMLElement[] = [];

const CHUNK = 3 << 16; // bytes: base64 has no padding in between

function base64(bytes: Uint8Array): string[] {
	const parts = [];
	for (let at = 0; at < bytes.length; at += CHUNK)
		parts.push(btoa(String.fromCharCode(...bytes.subarray(at, Math.min(at + CHUNK, bytes.length)).values())));
	return parts;
}

function attribute(text: string): string {
	return text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
}

function traceBlock(id: string, file: TraceFile | undefined): string[] {
	if (!file) return [];
	return [`<script type="application/octet-stream" id="${id}" data-name="${attribute(file.name)}">`,
		...base64(file.bytes), "</script>\n"];
}

export async function savedPage(engine: Engine, hash: string): Promise<Blob> {
	const { trace, base, sources } = await engine.files();
	const copy = document.documentElement.cloneNode(true) as HTMLElement;
	copy.removeAttribute("data-theme");
	copy.querySelectorAll("head > style").forEach((one) => one.remove());
	const body = copy.querySelector("body")!;
	for (const one of [...body.children])
		if (one.id === "page") one.replaceChildren();
		else if (one.tagName !== "SCRIPT" || one.id === "state") one.remove();
	for (const block of takenBlocks) body.append(block.cloneNode(true));
	const text = `<!doctype html>\n${copy.outerHTML}`;
	const end = text.lastIndexOf("</body>");
	const json = sources && JSON.stringify(sources).replaceAll("<", "\\u003c");
	return new Blob([
		text.slice(0, end),
		...traceBlock("trace", trace), ...traceBlock("base", base),
		...(json ? [`<script type="application/json" id="sources">${json}</script>\n`] : []),
		`<script type="text/plain" id="state" data-name="${attribute(hash)}">.</script>\n`,
		text.slice(end),
	], { type: "text/html" });
}
