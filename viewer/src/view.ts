// SPDX-License-Identifier: Apache-2.0
// What each view is given.
import type { Engine } from "./engine/engine.ts";
import type { State } from "./state.ts";

export interface ViewProps {
	engine: Engine;
	info: Info;
	state: State;
	/** Shows another state; replace: without a new entry in the history (while dragging). */
	go(change: { view?: string; question?: Partial<State["question"]>; own?: Record<string, string | undefined> },
	   replace?: boolean): void;
	/** Grows when a running program's trace has more: ask again. */
	generation: number;
}

/** The answer to "info". */
export interface Info {
	program: string;
	command: string[];
	info: Record<string, any>;
	summary: Record<string, any>;
	threads: { tid: number; name: string }[];
	label_keys: string[];
	counters: { name: string; unit: string }[];
	notes: string[];
	sources: boolean;
	base: Info | null;
}
