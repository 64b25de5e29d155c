// SPDX-License-Identifier: Apache-2.0
// What the page shows: all of it is in the URL's fragment, so that a link shows the same.
import type { Parameters } from "./engine/engine.ts";

/** Which blocks, and when: the options of `mayfly report` that have the same names. */
export interface Question {
	metric?: string; // live, peak, allocated, leaked, temporary, survived
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
	heap?: string;
	"min-size"?: string;
	"max-size"?: string;
	"min-lifetime"?: string;
	"max-lifetime"?: string;
	"all-frames"?: boolean;
}

export interface State {
	view: string; // "summary", "timeline", "flame", "table", "heat", "source", ...
	question: Question; // shared by all views
	own: Record<string, string>; // the view's own: sort, by, the chosen row, zoom
}

export function questionParameters(q: Question): Parameters {
	return { ...q };
}
