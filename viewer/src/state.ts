// SPDX-License-Identifier: Apache-2.0
// What the page shows: all of it is in the URL's fragment, so that a link shows the same.
//
//	#v1/table?metric=live&at=2s&focus=parse&own.by=line
import type { Parameters } from "./engine/engine.ts";

/** Which blocks, and when: the options of `mayfly report` that have the same names. */
export interface Question {
	metric?: string; // live, peak, allocated, leaked, temporary, survived, picture
	at?: string; // "peak", "end", "1.5s"
	from?: string;
	to?: string;
	focus?: string[];
	ignore?: string[];
	hide?: string[];
	show?: string[];
	"show-from"?: string[];
	thread?: string[];
	label?: string[];
	holder?: string[];
	type?: string[];
	heap?: string;
	"min-size"?: string;
	"max-size"?: string;
	"min-lifetime"?: string;
	"max-lifetime"?: string;
	frames?: string; // own, python, all
}

export interface State {
	view: string; // "summary", "timeline", "flame", "table", "heat", "source", ...
	question: Question; // shared by all views
	own: Record<string, string>; // the view's own: sort, by, the chosen row, zoom
}

/** undefined removes a value; what is not named stays. */
export interface Change {
	view?: string;
	question?: Partial<Question>;
	own?: Record<string, string | undefined>;
}

export const firstState: State = { view: "summary", question: {}, own: {} };

/** Options that may be given several times: one match is enough. */
export const listOptions = ["focus", "ignore", "hide", "show", "show-from", "thread", "label",
	"holder", "type"] as const;
export const textOptions = ["metric", "at", "from", "to", "heap", "min-size", "max-size",
	"min-lifetime", "max-lifetime", "frames"] as const;

export function questionParameters(q: Question): Parameters {
	return { ...q };
}

/** What only the picture of the heap knows: filters, and keys of rows that have the same names. */
const ofPicture: readonly string[] = ["holder", "type"];
/** What the picture does not know: it has one moment, and does not tell when blocks are freed. */
const notOfPicture = ["at", "min-lifetime", "max-lifetime"] as const;

/** The question without the picture, for what has times. */
export function withoutPicture(q: Question): Question {
	const { holder: _, type: __, ...rest } = q;
	return rest.metric === "picture" ? { ...rest, metric: undefined } : rest;
}

/** The latest word counts: a holder asks for the picture, and another metric or moment leaves it. */
function agreed(state: State, change: Change): State {
	const question = { ...state.question };
	const own = { ...state.own };
	const asked = change.question ?? {};
	const leaves = ("metric" in asked && asked.metric !== "picture") || notOfPicture.some((key) => asked[key]);
	const wants = question.holder ?? question.type ?? (ofPicture.includes(own.by ?? "") || undefined);
	if (leaves && !asked.holder && !asked.type) {
		if (question.metric === "picture") delete question.metric;
		delete question.holder;
		delete question.type;
		if (ofPicture.includes(own.by ?? "")) delete own.by;
	} else if (wants || question.metric === "picture") {
		question.metric = "picture";
		for (const key of notOfPicture) delete question[key];
	}
	return { ...state, question, own };
}

export function changed(state: State, change: Change): State {
	const question: Record<string, unknown> = { ...state.question, ...change.question };
	for (const [key, value] of Object.entries(question))
		if (!value || (Array.isArray(value) && !value.length)) delete question[key];
	const view = change.view ?? state.view;
	const own: Record<string, string> = view === state.view ? { ...state.own } : {};
	for (const [key, value] of Object.entries(change.own ?? {}))
		if (value === undefined || value === "") delete own[key];
		else own[key] = value;
	return agreed({ view, question: question as Question, own }, change);
}

export function formatHash(state: State): string {
	const search = new URLSearchParams();
	for (const [key, value] of Object.entries(state.question))
		if (Array.isArray(value)) for (const one of value) search.append(key, one);
		else if (value) search.append(key, value === true ? "1" : String(value));
	for (const [key, value] of Object.entries(state.own)) search.append(`own.${key}`, value);
	const text = search.toString();
	return `#v1/${encodeURIComponent(state.view)}${text ? `?${text}` : ""}`;
}

/** What a fragment says; `problem` says what of it was not understood. */
export function parseHash(hash: string, views: readonly string[]): { state: State; problem?: string } {
	if (hash === "" || hash === "#") return { state: firstState };
	const match = /^#v(\d+)\/([^?]*)(?:\?(.*))?$/s.exec(hash);
	if (!match) return { state: firstState, problem: "The link could not be read" };
	if (match[1] !== "1")
		return { state: firstState, problem: "The link was made by another version of mayfly" };
	const state: State = { view: match[2]!, question: {}, own: {} };
	const unknown: string[] = [];
	const question = state.question as Record<string, unknown>;
	if (!views.includes(state.view)) {
		unknown.push(state.view || "no view");
		state.view = firstState.view;
	}
	for (const [key, value] of new URLSearchParams(match[3] ?? "")) {
		if (key.startsWith("own.")) state.own[key.slice(4)] = value;
		else if ((textOptions as readonly string[]).includes(key)) question[key] = value;
		else if ((listOptions as readonly string[]).includes(key))
			question[key] = [...((question[key] as string[]) ?? []), value];
		else unknown.push(key);
	}
	const whole = agreed(state, {});
	if (!unknown.length) return { state: whole };
	return { state: whole, problem: `The link has parts that this page does not know: ${unknown.join(", ")}` };
}
