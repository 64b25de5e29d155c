// SPDX-License-Identifier: Apache-2.0
// What each view is given.
import type { Engine, Estimate } from "./engine/engine.ts";
import type { Change, State } from "./state.ts";

export interface ViewProps {
	engine: Engine;
	info: Info;
	state: State;
	/** Shows another state; replace: without a new entry in the history (while dragging). */
	go(change: Change, replace?: boolean): void;
	/** Grows when a running program's trace has more: ask again. */
	generation: number;
}

/** The answer to "info". */
export interface Info {
	program: string;
	command: string[] | null; // null: the file that the trace comes from does not have it
	/** The trace, as the user named it. */
	file: string;
	info: Record<string, any>;
	summary: Summary;
	counters: { name: string; unit: string }[];
	/** What is missing or uncertain, and what to do: all that the report says. */
	notes: string[];
	/** How much memory was resident; null: it was not recorded. */
	resident: string | null;
	/** The picture of the heap: who held which block; null: the trace has none. */
	picture: Picture | null;
	/** The language of its interpreted frames, "Python"; null: there are none. */
	interpreted: string | null;
	sources: boolean;
	base: Info | null;
}

/** Whether there is nothing but a picture of the heap, which has no stacks. */
export function onlyPicture(info: Info): boolean {
	return info.picture !== null && !(info.info.frames > 0);
}

export interface Picture {
	/** Who holds the most, in a sentence. */
	headline: string | null;
	time_ns: number;
	stopped_ns: number;
	/** What malloc had in use, recorded or not. */
	bytes: number;
	blocks: number;
}

export interface Summary {
	allocated: Estimate;
	peak: Estimate;
	peak_time_ns: number;
	live_at_end: Estimate;
	temporary: Estimate | null; // imports may not have it
	[key: string]: any;
}
