// SPDX-License-Identifier: Apache-2.0
// A rectangle of classes, and the filters that keep its blocks. The filters' values are the answer's.
import { bytesText, durationText } from "../format.ts";
import type { Question } from "../state.ts";
import { roundText } from "../timeline/times.ts";
import type { Heat, LifetimeClass, SizeClass } from "../timeline/answers.ts";

/** Numbers of classes in the answer. */
export interface Cell {
	size: number;
	lifetime: number;
}

/** Two opposite corners. */
export interface Brush {
	from: Cell;
	to: Cell;
}

export function ordered({ from, to }: Brush): Brush {
	return {
		from: { size: Math.min(from.size, to.size), lifetime: Math.min(from.lifetime, to.lifetime) },
		to: { size: Math.max(from.size, to.size), lifetime: Math.max(from.lifetime, to.lifetime) },
	};
}

type Filter = Pick<Question, "min-size" | "max-size" | "min-lifetime" | "max-lifetime">;

/** null: all blocks. A side that reaches the first or last class is left open. */
export function filterOf(brush: Brush | null, heat: Heat | undefined): Filter {
	const filter: Filter = {
		"min-size": undefined, "max-size": undefined,
		"min-lifetime": undefined, "max-lifetime": undefined,
	};
	if (!brush || !heat) return filter;
	const { from, to } = ordered(brush);
	const sizes = heat.sizes;
	const lifetimes = heat.lifetimes;
	if (from.size > 0) filter["min-size"] = sizes[from.size]!.min_size ?? undefined;
	if (to.size < sizes.length - 1) filter["max-size"] = sizes[to.size]!.max_size ?? undefined;
	if (from.lifetime > 0) filter["min-lifetime"] = lifetimes[from.lifetime]!.min_lifetime ?? undefined;
	if (to.lifetime < lifetimes.length - 1)
		filter["max-lifetime"] = lifetimes[to.lifetime]!.max_lifetime ?? undefined;
	return filter;
}

function indexOr(index: number, otherwise: number): number {
	return index < 0 ? otherwise : index;
}

/** The rectangle of the question's filters, where they are those of classes; null: there are none. */
export function chosenOf(question: Question, heat: Heat): Brush | null {
	const filters: (keyof Filter)[] = ["min-size", "max-size", "min-lifetime", "max-lifetime"];
	if (!filters.some((filter) => question[filter])) return null;
	const { sizes, lifetimes } = heat;
	return {
		from: {
			size: indexOr(sizes.findIndex((c) => c.min_size === question["min-size"]), 0),
			lifetime: indexOr(
				lifetimes.findIndex((c) => c.min_lifetime === question["min-lifetime"]), 0),
		},
		to: {
			size: indexOr(sizes.findIndex((c) => c.max_size === question["max-size"]),
				sizes.length - 1),
			lifetime: indexOr(
				lifetimes.findIndex((c) => c.max_lifetime === question["max-lifetime"]),
				lifetimes.length - 1),
		},
	};
}

/** A size class is above its lower bound, up to its upper one. */
export function sizeText(c: SizeClass): string {
	if (c.high === null) return `above ${roundText(bytesText(c.low))}`;
	return `≤ ${roundText(bytesText(c.high))}`;
}

/** short: only where the class ends, for an axis. */
export function lifetimeText(c: LifetimeClass, short = false): string {
	if (c.never) return "never freed";
	const low = roundText(durationText(c.low_ns ?? 0));
	if (c.high_ns === null) return `${low} and more`;
	const high = roundText(durationText(c.high_ns));
	return short ? `< ${high}` : `lived ${low} to ${high}`;
}
