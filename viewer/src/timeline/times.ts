// SPDX-License-Identifier: Apache-2.0
// Times as options take them ("1.5s", "250ms"), and the part of the recording that is shown.
import type { Question } from "../state.ts";

/** [from, to) in nanoseconds since the start of the program. */
export interface Range {
	from: number;
	to: number;
}

const units: Record<string, number> = {
	ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, "": 1e9, m: 60e9, h: 3600e9,
};

/** undefined: it is none. */
export function parseTime(text: string): number | undefined {
	const parts = /^\s*(\d+\.?\d*|\.\d+)\s*(ns|us|µs|ms|s|m|h|)\s*$/.exec(text);
	return parts ? Number(parts[1]) * units[parts[2]!]! : undefined;
}

/** The shortest text of a time, right to `step` ns. */
export function timeOption(ns: number, step: number): string {
	const unit = ns >= 1e9 ? "s" : ns >= 1e6 ? "ms" : ns >= 1e3 ? "us" : "ns";
	const decimals = Math.ceil(Math.log10(units[unit]! / Math.max(step, 1)));
	return Number((ns / units[unit]!).toFixed(Math.min(9, Math.max(0, decimals)))) + unit;
}

export function wholeRange(duration: number): Range {
	return { from: 0, to: Math.max(1, duration) };
}

/** What the question's window shows; the whole recording where it has none. */
export function rangeOf(question: Question, duration: number): Range {
	const whole = wholeRange(duration);
	const from = Math.min((question.from && parseTime(question.from)) || 0, whole.to - 1);
	const to = Math.min((question.to && parseTime(question.to)) || whole.to, whole.to);
	return { from: Math.max(0, from), to: to > from ? to : whole.to };
}

/** A window as options, as fine as its pixels; its ends are left out where they are the recording's. */
export function rangeOptions(range: Range, duration: number, pixels: number): Pick<Question, "from" | "to"> {
	const step = (range.to - range.from) / Math.max(1, pixels);
	return {
		from: range.from > step / 2 ? timeOption(range.from, step) : undefined,
		to: range.to < duration - step / 2 ? timeOption(range.to, step) : undefined,
	};
}

/** The window moved and scaled, within the recording. */
export function moved(range: Range, by: number, factor: number, duration: number): Range {
	const whole = wholeRange(duration);
	const length = Math.min(whole.to, Math.max(1, (range.to - range.from) * factor));
	const middle = (range.from + range.to) / 2 + by * (range.to - range.from);
	const from = Math.min(Math.max(0, middle - length / 2), whole.to - length);
	return { from, to: from + length };
}

/** Ticks of a time axis: "1.25 s", all in the unit that suits the window. */
export function tickText(ns: number, range: Range, step: number): string {
	const largest = Math.max(Math.abs(range.to), 1);
	const unit = largest >= 1e9 ? "s" : largest >= 1e6 ? "ms" : largest >= 1e3 ? "us" : "ns";
	const scale = units[unit]!;
	const decimals = Math.min(9, Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9)));
	return `${(ns / scale).toFixed(decimals)}\u00a0${unit === "us" ? "µs" : unit}`;
}

/** A bound of a class or an axis is round: "12 MiB", not "12.0 MiB". */
export function roundText(text: string): string {
	return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}
