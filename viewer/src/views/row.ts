// SPDX-License-Identifier: Apache-2.0
// Rows as `mayfly report --json` writes them: what each is called, and the filter that means it.
import type { Estimate } from "../engine/engine.ts";
import { bytesText, durationText } from "../format.ts";
import { exactly } from "../shell/patterns.ts";
import type { Question } from "../state.ts";

export interface Frame {
	function: string | null;
	file: string | null;
	line: number | null;
	module: string | null;
	inlined?: boolean;
}

export interface Row extends Partial<Frame> {
	stack?: Frame[];
	size?: { low: number | null; high: number | null };
	lifetime?: { low_ns: number | null; high_ns: number | null };
	thread?: string | null;
	tid?: number | null;
	freeing_thread?: string | null;
	freeing_tid?: number | null;
	heap?: string;
	label?: string | null;
	holder?: string | null; // of the picture of the heap; null: malloc's heap did not have the blocks
	kind?: string | null;
	place?: string | null;
	retained_bytes?: number | null; // of all blocks that it holds, recorded or not
	retained_blocks?: number | null;
	type?: string | null;
	self: Estimate;
	total: Estimate;
}

export interface Rows {
	metric?: string;
	by: string;
	sort: string;
	time_ns: number | null;
	total: Estimate;
	rows: Row[];
	rows_count?: number;
}

export interface RowName {
	name: string;
	/** Beside the name: its file, line or module. */
	detail?: string;
	/** All that is known, for the tooltip and for copying: lines of text. */
	full?: string;
}

/** The last two parts, as the terminal shows paths. */
export function shortPath(path: string): string {
	return path.split("/").slice(-2).join("/");
}

function detailOf(frame: Partial<Frame>, name: string): string | undefined {
	if (frame.file) return `${shortPath(frame.file)}${frame.line ? `:${frame.line}` : ""}`;
	const module = frame.module?.split("/").pop();
	// An address without a name is named after its module.
	return module && !name.startsWith(`${module}+`) ? module : undefined;
}

export function frameName(frame: Partial<Frame>): RowName {
	const name = frame.function ?? "unknown function";
	const place = frame.file ? `${frame.file}${frame.line ? `:${frame.line}` : ""}` : undefined;
	return { name, detail: detailOf(frame, name), full: [name, place, frame.module].filter(Boolean).join("\n") };
}

/** What is copied of a row: its whole name, or all frames of a stack. */
export function rowCopy(row: Row, by: string): string {
	const of = (one: RowName) => one.full ?? (one.detail ? `${one.name} ${one.detail}` : one.name);
	if (row.stack) return row.stack.map((frame) => of(frameName(frame)).replaceAll("\n", "  ")).join("\n");
	return of(rowName(row, by));
}

function threadName(name: string | null | undefined, tid: number | null | undefined): string {
	return name || (tid ? `thread ${tid}` : "unknown thread");
}

function freeingName(row: Row): string {
	if (row.freeing_tid == null && row.freeing_thread == null) return "never freed";
	return threadName(row.freeing_thread, row.freeing_tid);
}

function rangeName(low: string | undefined, high: string | undefined): string {
	if (low === undefined) return high === undefined ? "all" : `below ${high}`;
	return high === undefined ? `${low} and more` : `${low} to ${high}`;
}

function bound(value: number | null, text: (value: number) => string): string | undefined {
	return value === null ? undefined : text(value);
}

export function rowName(row: Row, by: string): RowName {
	if (row.stack) return frameName(row.stack[0] ?? {});
	if (by === "holder") return { name: row.holder ?? "not in malloc's heap", detail: row.place ?? undefined };
	if (by === "type" && row.type) return { name: row.type };
	if (row.size) return { name: rangeName(bound(row.size.low, bytesText), bound(row.size.high, bytesText)) };
	if (row.lifetime) {
		const { low_ns, high_ns } = row.lifetime;
		if (low_ns === null && high_ns === null) return { name: "never freed" };
		return { name: rangeName(bound(low_ns, durationText), bound(high_ns, durationText)) };
	}
	if (row.heap !== undefined) return { name: row.heap };
	if (by === "threads")
		return { name: `${threadName(row.thread, row.tid)} → ${freeingName(row)}` };
	if (by === "freeing-thread") return { name: freeingName(row) };
	if (by === "thread")
		return { name: threadName(row.thread, row.tid), detail: row.tid ? `${row.tid}` : undefined };
	if (by.startsWith("label")) return { name: row.label ?? "no label" };
	if (by === "module") return { name: row.module ?? "unknown module" };
	if (by === "function") return frameName({ ...row, line: null });
	return frameName(row);
}

/** All that is said of the row, to be searched in. */
export function rowText(row: Row, by: string): string {
	if (row.stack) return row.stack.map((f) => `${f.function} ${f.file}:${f.line}`).join(";");
	const { name, detail } = rowName(row, by);
	if (!row.function) return detail ? `${name} ${detail}` : name;
	return `${name} ${row.file ? `${row.file}${row.line ? `:${row.line}` : ""}` : (row.module ?? "")}`.trim();
}

/** FNV-1a: stacks are too long for a URL. */
function shortHash(text: string): string {
	let hash = 0x811c9dc5;
	for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
	return (hash >>> 0).toString(16);
}

/** A key for lists and the URL that stays the same when the figures change. */
export function rowKey(row: Row, by: string): string {
	const text = rowText(row, by);
	return row.stack ? `${row.stack[0]?.function ?? ""} ${shortHash(text)}` : text;
}

/** The filter that leaves this row; undefined: no filter says that. merged: a thread's row has the threads of several
 * processes with its name; else each thread has a row, also where others have its name. */
export function rowFilter(row: Row, by: string, merged: boolean): Partial<Question> | undefined {
	if (by === "holder") return row.holder ? { holder: [exactly(row.holder)] } : undefined;
	if (by === "type") return row.type ? { type: [exactly(row.type)] } : undefined;
	if (row.size) {
		const { low, high } = row.size;
		return {
			"min-size": low ? String(low + 1) : undefined, // sizes of a class are above its `low`
			"max-size": high ? String(high) : undefined,
		};
	}
	if (row.lifetime) {
		const { low_ns, high_ns } = row.lifetime;
		if (low_ns === null && high_ns === null) return undefined;
		return {
			"min-lifetime": low_ns ? `${low_ns}ns` : undefined,
			"max-lifetime": high_ns ? `${high_ns - 1}ns` : undefined,
		};
	}
	if (row.heap !== undefined) return { heap: row.heap };
	if (by === "thread" && merged && row.thread) return { thread: [exactly(row.thread)] };
	if (by === "thread" && row.tid) return { thread: [`${row.tid}`] };
	if (by === "label") // several filters for labels mean "or", so sets cannot be said
		return row.label && !row.label.includes(", ") ? { label: [exactly(row.label)] } : undefined;
	if (by.startsWith("label:") && row.label) return { label: [exactly(`${by.slice(6)}=${row.label}`)] };
	const name = row.stack ? row.stack[0]?.function : (row.function ?? row.module);
	return name ? { focus: [exactly(name)] } : undefined;
}

/** What the source view is to show of a function, or of its line. */
export function sourceOf(of: Partial<Frame>): Record<string, string | undefined> {
	return {
		file: of.file ?? undefined,
		line: of.line ? `${of.line}` : undefined,
		function: of.line ? undefined : (of.function ?? undefined),
	};
}
