// SPDX-License-Identifier: Apache-2.0
// Which parts of the question a pane understands: as the option of the report that it is.
import { listOptions, textOptions, withoutPicture } from "../state.ts";
import type { Question } from "../state.ts";
import type { Info } from "../view.ts";

type Key = keyof Question;

const stacks: Key[] = ["focus", "ignore", "hide", "show", "show-from", "thread", "frames"];
const range: Key[] = ["from", "to"];
const blocks: Key[] = ["label", "heap", "min-size", "max-size"];
const lifetimes: Key[] = ["min-lifetime", "max-lifetime"];
const picture: Key[] = ["holder", "type"];

/** Views of times: a picture of the heap has one moment. */
const ofTimes = ["timeline", "heat"];

/** Views that are not here, nor above, understand all. */
const understood: Record<string, readonly Key[]> = {
	spans: [...stacks.filter((key) => key !== "hide" && key !== "show"), ...blocks, ...range, ...lifetimes],
	events: ["thread", ...range],
	leaks: [...stacks, ...blocks, ...range, ...lifetimes, ...picture],
	held: [...stacks, ...blocks, ...range, ...picture],
	rss: [],
	churn: [...stacks, ...blocks, ...range, ...lifetimes],
	reallocs: [...stacks, ...blocks, ...range, ...lifetimes],
	fragmentation: ["hide"],
	survival: [...stacks, "label", "min-size", "max-size", ...range],
};

/** What a view counts whatever the question's metric is; undefined: it counts the metric. */
export function ownMetric(view: { id: string; title: string }, info: Info): string | undefined {
	if (view.id === "leaks") return info.picture ? "Lost and held" : "Never freed";
	if (view.id === "held") return "In the heap's picture";
	return understood[view.id] && view.title;
}

/** The part of the question that the view answers. */
export function applied(view: string, question: Question): Question {
	const keys = understood[view];
	if (ofTimes.includes(view)) return withoutPicture(question);
	if (!keys) return question;
	return Object.fromEntries(
		Object.entries(question).filter(([key]) => keys.includes(key as Key))) as Question;
}

/** The part that has no effect on the view. */
export function ignored(view: string, question: Question): Question {
	const keys = understood[view];
	if (ofTimes.includes(view)) {
		const { holder, type, metric } = question;
		return { holder, type, metric: metric === "picture" ? metric : undefined };
	}
	if (!keys) return {};
	const all: readonly Key[] = [...textOptions, ...listOptions];
	return Object.fromEntries(all.filter((key) => question[key] !== undefined && !keys.includes(key))
		.map((key) => [key, question[key]])) as Question;
}
