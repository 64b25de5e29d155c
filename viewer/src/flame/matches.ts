// SPDX-License-Identifier: Apache-2.0
// Which nodes a search finds. How much of the memory that is, C answers.
import type { Tree } from "./arrays.ts";

export interface Matches {
	/** By text: whether it matches. */
	texts: Uint8Array;
	/** The number of nodes before i that match: a sliver shows whether one is in it. */
	before: Uint32Array;
	/** The outermost ones, largest first; at most so many as anybody steps through. */
	nodes: number[];
	count: number;
}

const MOST = 10000;

/** The expression, or why it is none. Like the reports' patterns, it tells capitals apart. */
export function searchPattern(text: string): RegExp | string {
	try {
		return new RegExp(text);
	} catch (error) {
		return error instanceof Error ? error.message.replace(/^Invalid regular expression: /, "") : "";
	}
}

/** As --focus: the function, file or module matches. */
export function findMatches(t: Tree, pattern: RegExp): Matches {
	const texts = Uint8Array.from(t.texts, (text) => (pattern.test(text) ? 1 : 0));
	const before = new Uint32Array(t.count + 1);
	let nodes: number[] = [];
	let count = 0;
	let inside = 0;
	for (let i = 0; i < t.count; i++) {
		before[i] = count;
		if (i === 0 || !isMatch(t, texts, i)) continue;
		count++;
		if (i < inside) continue;
		nodes.push(i);
		inside = t.end[i]!;
	}
	before[t.count] = count;
	nodes.sort((a, b) => t.width[b]! - t.width[a]! || a - b);
	nodes = nodes.slice(0, MOST);
	return { texts, before, nodes, count };
}

export function isMatch(t: Tree, texts: Uint8Array, i: number): boolean {
	return (texts[t.name[i]!]! | texts[t.file[i]!]! | texts[t.module[i]!]!) !== 0;
}
