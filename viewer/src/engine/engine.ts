// SPDX-License-Identifier: Apache-2.0
// Who answers the page's requests: the native reader that serves it, or the same code as
// WebAssembly in a worker. src/view/view.h lists the requests.

import type { Opening } from "./wasm.ts";

export interface Engine {
	/**
	 * The answer as JSON. Throws an Error whose message is meant for the user. A request that is
	 * aborted while it waits is never answered: the promise fails with the signal's reason.
	 */
	ask<T>(request: string, signal?: AbortSignal): Promise<T>;
	/** Answers that are arrays, and files. */
	bytes(request: string, signal?: AbortSignal): Promise<ArrayBuffer>;
	/** Whether the program still runs: then `changed` is called when there is more to see. */
	readonly live: boolean;
	/** The files that are open, as they are. */
	files(): Promise<Opening>;
	/** The same trace compared with another file; this engine is of no use any more then. */
	compare(base: File): Promise<Engine>;
	/** The same with a file that the program which serves the page reads; undefined: it serves none. */
	comparePath?(path: string): Promise<Engine>;
	onChange?: (generation: number) => void;
	close(): void;
}

export type Parameters = Record<string, string | number | boolean | string[] | undefined>;

/** "rows?by=function&focus=a&focus=b"; undefined, false and "" are left out. */
export function requestText(name: string, parameters: Parameters = {}): string {
	const search = new URLSearchParams();
	for (const [key, value] of Object.entries(parameters)) {
		if (value === undefined || value === false || value === "") continue;
		if (Array.isArray(value)) for (const one of value) search.append(key, one);
		else search.append(key, value === true ? "1" : String(value));
	}
	const text = search.toString();
	return text ? `${name}?${text}` : name;
}

/** A figure with its 95 % interval, as `mayfly report --json` writes it. */
export interface Figure {
	estimate: number;
	stderr: number;
	low: number;
	high: number;
}

export interface Estimate {
	bytes: Figure | null;
	blocks: Figure | null;
	samples: number;
}

/** The error that an answer with another status than 200 stands for. */
export function errorOf(status: number, text: string): Error {
	try {
		const answer = JSON.parse(text) as { error?: unknown };
		if (typeof answer.error === "string") return new Error(answer.error);
	} catch {
		// Not an answer of ours: a proxy's, perhaps.
	}
	return new Error(`no answer (status ${status})`);
}
