// SPDX-License-Identifier: Apache-2.0
// The parts that a question's sentence can have: how each reads and how it is entered.
import { bytesText, durationText } from "../format.ts";
import type { Question } from "../state.ts";
import type { Info } from "../view.ts";
import { patternText } from "./patterns.ts";

export interface FilterKind {
	option: Exclude<keyof Question, "metric" | "at" | "frames">;
	/** In the menu. */
	title: string;
	/** In the sentence, before the value. */
	words: string;
	/** The same when the filter before it has a value: "size at least 1 KiB, at most 4 KiB". */
	wordsAfter?: string;
	list: boolean;
	hint: string;
	/** Only the picture of the heap tells. */
	ofPicture?: boolean;
	/** info: to say more of what the value means. */
	show(value: string, info?: Info): string;
	suggest?(info: Info): string[];
}

const UNITS: Record<string, number> = { K: 1024, M: 1024 ** 2, G: 1024 ** 3 };
const TIMES: Record<string, number> = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 };

export function sizeText(value: string): string {
	const match = /^(\d+(?:\.\d+)?)([KMG]?)$/i.exec(value);
	if (!match) return value;
	return bytesText(Number(match[1]) * (UNITS[match[2]!.toUpperCase()] ?? 1));
}

export function timeText(value: string): string {
	const match = /^(\d+(?:\.\d+)?)(ns|us|ms|s|m|h)?$/.exec(value);
	if (!match) return value;
	return durationText(Number(match[1]) * TIMES[match[2] ?? "s"]!);
}

/** The keys of the labels that the program gave its blocks. */
export function labelKeys(info: Info): string[] {
	return info.info.label_keys ?? [];
}

/** A number says little: its name goes first. */
function threadText(value: string, info?: Info): string {
	const threads = info?.info.thread_list as { tid: number; name: string }[] | undefined;
	const name = threads?.find(({ tid }) => `${tid}` === value)?.name;
	return name ? `${name} (${value})` : patternText(value);
}

const pattern = "a regular expression; matches functions, files and modules";
const size = "bytes, or 4K, 1M, 2G";
const time = "seconds, or 10us, 5ms, 2m";

export const filterKinds: FilterKind[] = [
	{ option: "focus", title: "Inside a function", words: "inside", list: true, hint: pattern,
		show: patternText },
	{ option: "ignore", title: "Not inside a function", words: "not inside", list: true,
		hint: pattern, show: patternText },
	{ option: "hide", title: "Leave frames out", words: "without frames of", list: true,
		hint: pattern, show: patternText },
	{ option: "show", title: "Keep only some frames", words: "showing only frames of", list: true,
		hint: pattern, show: patternText },
	{ option: "show-from", title: "Stacks from a function on", words: "with stacks from", list: true,
		hint: pattern, show: patternText },
	{ option: "thread", title: "Thread", words: "allocated in thread", list: true,
		hint: "a regular expression for the name, or a thread ID", show: threadText,
		suggest: (info) => [...new Set((info.info.thread_list as { name: string }[]).map((thread) => thread.name))] },
	{ option: "label", title: "Label", words: "labelled", list: true,
		hint: "a regular expression for KEY=VALUE", show: patternText,
		suggest: (info) => labelKeys(info).map((key) => `^${key}=`) },
	{ option: "holder", title: "Held by", words: "held by", list: true, ofPicture: true,
		hint: "a regular expression for the holder's name", show: patternText },
	{ option: "type", title: "Type", words: "of type", list: true, ofPicture: true,
		hint: "a regular expression for the type's name", show: patternText },
	{ option: "heap", title: "Heap", words: "in heap", list: false,
		hint: "one or several, separated by commas", show: (value) => value.replaceAll(",", " or "),
		suggest: () => ["malloc", "ocaml", "ocaml-minor", "ocaml-major", "external", "pool",
			"pool-mapped", "mmap", "all"] },
	{ option: "min-size", title: "Size, at least", words: "size at least", list: false, hint: size,
		show: sizeText },
	{ option: "max-size", title: "Size, at most", words: "size at most",
		wordsAfter: "at most", list: false, hint: size,
		show: sizeText },
	{ option: "min-lifetime", title: "Lifetime, at least", words: "lifetime at least", list: false,
		hint: time, show: timeText },
	{ option: "max-lifetime", title: "Lifetime, at most", words: "lifetime at most",
		wordsAfter: "at most", list: false,
		hint: time, show: timeText },
	{ option: "from", title: "Allocated at or after", words: "allocated from", list: false,
		hint: time, show: timeText },
	{ option: "to", title: "Allocated before", words: "allocated before",
		wordsAfter: "before", list: false, hint: time,
		show: timeText },
];

/** Those that this trace can be asked. */
export function filterKindsOf(info: Info): FilterKind[] {
	return info.picture ? filterKinds : filterKinds.filter((kind) => !kind.ofPicture);
}

export interface Metric {
	title: string;
	hint: string;
	question: Partial<Question>;
}

/** What is asked: the metric together with its moment. */
export const metrics: Metric[] = [
	{ title: "Live at the peak", hint: "at the moment with the most live bytes",
		question: { metric: undefined, at: undefined } },
	{ title: "Live at the end", hint: "not freed when the recording ended",
		question: { metric: "live", at: undefined } },
	{ title: "Allocated", hint: "all that was allocated", question: { metric: "allocated", at: undefined } },
	{ title: "Never freed", hint: "leaks, and what is kept on purpose",
		question: { metric: "leaked", at: undefined } },
	{ title: "Temporary", hint: "freed before its thread allocated again",
		question: { metric: "temporary", at: undefined } },
	{ title: "Survived", hint: "allocated in the chosen time and still live at its end",
		question: { metric: "survived", at: undefined } },
	{ title: "In the heap's picture", hint: "live when the picture of the heap was taken",
		question: { metric: "picture", at: undefined } },
];

export function metricsOf(info: Info): Metric[] {
	return info.picture ? metrics : metrics.filter((one) => one.question.metric !== "picture");
}

export function metricTitle(question: Question): string {
	const { metric, at } = question;
	if (at && at !== "peak" && at !== "end") return `Live at ${timeText(at)}`;
	if (metric === undefined || metric === "peak") return at === "end" ? "Live at the end" : "Live at the peak";
	if (metric === "live") return at === "peak" ? "Live at the peak" : "Live at the end";
	return metrics.find((one) => one.question.metric === metric)?.title ?? metric;
}

/** The filters that are set, in order, with what stands before their values. */
export function phrases(question: Question): { kind: FilterKind; words: string; values: string[] }[] {
	const all = [];
	for (const [index, kind] of filterKinds.entries()) {
		const value = question[kind.option];
		if (!value?.length) continue;
		const after = kind.wordsAfter && question[filterKinds[index - 1]!.option];
		const words = after ? kind.wordsAfter! : kind.words;
		all.push({ kind, words, values: Array.isArray(value) ? value : [value] });
	}
	return all;
}

/** Whose frames are shown, unless they are the program's own. */
export function framesText(question: Question): string | undefined {
	if (question.frames === "python") return "with interpreted frames alone";
	return question.frames === "all" ? "with all frames" : undefined;
}

/** What of the question a view leaves out of account, as text; undefined: nothing. */
export function ignoredText(question: Question): string | undefined {
	const parts = phrases(question).map(({ kind, words, values }) =>
		`${words} ${values.map((value) => kind.show(value)).join(" or ")}`);
	if (question.metric !== undefined || question.at !== undefined)
		parts.unshift(metricTitle(question).toLowerCase());
	const frames = framesText(question);
	if (frames) parts.push(frames);
	return parts.length ? parts.join(", ") : undefined;
}

/** The whole sentence as text, for the window's title and for screen readers. */
export function questionText(question: Question, counts = metricTitle(question)): string {
	const parts = [counts];
	for (const { kind, words, values } of phrases(question))
		parts.push(`${words} ${values.map((value) => kind.show(value)).join(" or ")}`);
	const frames = framesText(question);
	if (frames) parts.push(frames);
	return parts.join(", ");
}
