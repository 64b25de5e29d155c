// SPDX-License-Identifier: Apache-2.0
// How figures read: as src/answer/figures.c writes them for the terminal, digit by digit, except
// that units of bytes have their IEC names.
import type { Estimate, Figure } from "./engine/engine.ts";

/** As printf's %.*f: ties, which only eighths can be here, go to the even digit. */
function fixed(value: number, decimals: number): string {
	const scale = 10 ** decimals;
	const tie = Number.isInteger(value * 8) && (value * scale) % 1 === 0.5;
	if (!tie) return value.toFixed(decimals);
	const below = Math.floor(value * scale);
	return ((below % 2 ? below + 1 : below) / scale).toFixed(decimals);
}

/** Three significant digits, never four: what rounds to 1000 is in the next unit. */
function withUnit(value: number, step: number, units: readonly string[]): string {
	if (value < 0) return `-${withUnit(-value, step, units)}`;
	if (!(value >= 0)) value = 0;
	let unit = 0;
	while (unit < units.length - 1 && value >= 999.5) {
		value /= step;
		unit++;
	}
	if (unit === 0) value = Math.round(value);
	let decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	if (unit === 0 && Number.isInteger(value) && value < 1000) decimals = 0;
	return fixed(value, decimals) + (units[unit] ? `\u00a0${units[unit]}` : "");
}

export function bytesText(bytes: number): string {
	return withUnit(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
}

/** A change has its sign. */
export function changeText(bytes: number): string {
	return `${bytes > 0 ? "+" : ""}${bytesText(bytes)}`;
}

export function countText(count: number): string {
	if (count > 0 && count < 0.5) count = 1; // part of a block is a block that was there
	return withUnit(count, 1000, ["", "k", "M", "G", "T"]);
}

/** A rate is no number of things: 2.34. */
export function rateText(rate: number): string {
	return rate < 100 ? fixed(rate, rate < 9.995 ? 2 : 1) : countText(rate);
}

export function durationText(ns: number): string {
	if (ns < 600e9) return withUnit(ns, 1000, ["ns", "µs", "ms", "s"]);
	if (ns < 7200e9) return `${fixed(ns / 60e9, 0)}\u00a0min`;
	return `${fixed(ns / 3600e9, 1)}\u00a0h`;
}

export function percentText(part: number, whole: number): string {
	const percent = whole > 0 ? (100 * part) / whole : 0;
	if (!(percent > 0)) return "0\u00a0%";
	if (percent < 0.095) return "<0.1\u00a0%";
	return `${fixed(percent, percent < 99.95 ? 1 : 0)}\u00a0%`;
}

/** How sure a figure is, which decides how it is shown. */
export type Confidence =
	| "nothing" // no sample: "< 1.5 MiB"
	| "few" // "≤ 3.8 MiB"
	| "range" // "1.1..6.2 MiB"
	| "good" // "12.3 MiB ±18 %"
	| "exact"; // "12.3 MiB"

function halfInterval(f: Figure): number {
	return (f.high - f.low) / 2;
}

export function confidence(f: Figure | null, samples: number): Confidence {
	if (!f) return "nothing";
	if (!(f.estimate > 0)) return f.high > 0 ? "nothing" : "exact";
	if (f.stderr <= 0) return "exact";
	if (halfInterval(f) <= (samples >= 10 ? 1 : 0.7) * f.estimate) return "good";
	return samples >= 4 ? "range" : "few";
}

function rangeText(low: string, high: string): string {
	const [first, firstUnit] = low.split("\u00a0");
	const secondUnit = high.split("\u00a0")[1];
	return `${firstUnit === secondUnit ? first : low}..${high}`;
}

/** What an import does not have is a dash. `text`: of a number in the figure's unit. */
export function valueText(f: Figure | null, samples: number, text = bytesText): string {
	if (!f) return "–";
	switch (confidence(f, samples)) {
	case "nothing":
		return `<\u00a0${text(f.high)}`;
	case "few":
		return `≤\u00a0${text(f.high)}`;
	case "range":
		return rangeText(text(f.low), text(f.high));
	case "good":
	case "exact":
		return text(f.estimate);
	}
}

/** "±18 %", or "" where the value itself says how sure it is. */
export function errorText(f: Figure | null, samples: number): string {
	if (!f || confidence(f, samples) !== "good") return "";
	const percent = (100 * halfInterval(f)) / f.estimate;
	if (percent < 0.05) return "";
	return `±${fixed(percent, percent < 0.95 ? 1 : 0)}\u00a0%`;
}

export function figureText(f: Figure | null, samples: number): string {
	const error = errorText(f, samples);
	return valueText(f, samples) + (error ? ` ${error}` : "");
}

export function plural(count: number, one: string, many = `${one}s`): string {
	return `${countText(count)} ${count === 1 ? one : many}`;
}

export function bytesOf(e: Estimate): number {
	return e.bytes?.estimate ?? 0;
}

/** "43.3 k", "41..95 k", or nothing where blocks were not counted. */
export function blocksText(e: Estimate): string {
	return e.blocks ? valueText(e.blocks, e.samples, countText) : "";
}

/** "43.3 k blocks, 110 samples": samples are only said where not all was recorded. */
export function countsText(e: Estimate): string {
	const parts = [];
	if (e.blocks) parts.push(`${blocksText(e)} ${blocksText(e) === "1" ? "block" : "blocks"}`);
	if ((e.bytes?.stderr ?? 0) > 0) parts.push(plural(e.samples, "sample"));
	return parts.join(", ");
}

/** An estimate in a sentence. */
export function estimateText(e: Estimate): string {
	if (!e.bytes || confidence(e.bytes, e.samples) !== "few") return figureText(e.bytes, e.samples);
	return `at most ${bytesText(e.bytes.high)}, ${plural(e.samples, "sample")}`;
}

/** For tooltips: what the 95 % interval is. */
export function intervalText(e: Estimate): string {
	const f = e.bytes;
	if (!f) return "not recorded";
	if (f.stderr <= 0 && f.low === f.high) return `${exactText(f.estimate)} bytes, exact`;
	const samples = plural(e.samples, "sample");
	return `${bytesText(f.estimate)}; 95 % interval ${bytesText(f.low)} to ${bytesText(f.high)}; ${samples}`;
}

export function exactText(value: number): string {
	return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

/** A thread's number in the system; "" for a line of a recording that is no thread, such as a domain of OCaml 5. */
export function threadNumber(tid: number): string {
	return tid < 0x40000000 ? `${tid}` : "";
}
