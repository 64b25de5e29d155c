// SPDX-License-Identifier: Apache-2.0
// Which boxes of the tree are in the window, in preorder. A frame's cost is the number of boxes that
// it shows, not the size of the tree:
//   - the first box is found by binary search: lefts never fall in preorder. Of the nodes before it
//     only its ancestors reach into the window;
//   - a box thinner than half a pixel is not entered. Callees come by descending size, so its
//     siblings after it are thin too: they are one sliver, and the walk goes on after them;
//   - the last visible row is not entered.
import { firstRightOf, type Tree } from "./arrays.ts";

export interface Window {
	from: number; // in the tree's unit
	to: number;
	pixels: number; // wide
	firstRow: number; // depths
	lastRow: number;
}

/** One box or sliver: pixels from x to right of this node; rest: the end of the nodes it stands for. */
export type Visit = (node: number, x: number, right: number, rest: number) => void;

const THINNEST = 0.5; // pixels

function lastSibling(t: Tree, i: number): number {
	let last = t.end[t.parent[i]!]! - 1;
	while (t.depth[last]! > t.depth[i]!) last = t.parent[last]!;
	return last;
}

export class Walk {
	/** Where the last drawn box of each row ends: slivers that share a pixel are drawn once. */
	private filled = new Int32Array(0);

	visit(t: Tree, w: Window, visit: Visit): void {
		if (t.count === 0 || !(w.to > w.from)) return;
		if (this.filled.length < t.deepest) this.filled = new Int32Array(t.deepest);
		this.filled.fill(-1);
		const scale = w.pixels / (w.to - w.from);
		const begin = firstRightOf(t, w.from) - 1;
		const above: number[] = [];
		for (let i = begin; i >= 0; i = i === 0 ? -1 : t.parent[i]!) above.push(i);
		let next = begin + 1;
		for (const i of above.reverse()) {
			if (t.left[i]! + t.width[i]! <= w.from) continue;
			const after = this.one(t, w, scale, i, visit);
			if (after === i + 1) continue;
			next = Math.max(next, after); // what is below it is not visible
			break;
		}
		const stop = firstRightOf(t, w.to, next);
		for (let i = next; i < stop; ) i = this.one(t, w, scale, i, visit);
	}

	/** Shows node i; the answer is the node to go on with. */
	private one(t: Tree, w: Window, scale: number, i: number, visit: Visit): number {
		const depth = t.depth[i]!;
		const x = (t.left[i]! - w.from) * scale;
		const wide = t.width[i]! * scale;
		if (wide < THINNEST && i > 0) {
			const last = t.descending ? lastSibling(t, i) : i;
			// What C adds up as "(12 smaller)" is the last, and may be wide.
			const isRest = last !== i && t.width[last]! * scale >= THINNEST;
			const end = isRest ? last : t.end[last]!;
			const reach = isRest ? t.left[last]! : t.left[last]! + t.width[last]!;
			if (depth >= w.firstRow) this.sliver(depth, i, x, (reach - w.from) * scale, end, visit);
			return end;
		}
		if (depth >= w.firstRow) {
			const [from, to] = [Math.round(x), Math.max(Math.round(x) + 1, Math.round(x + wide))];
			visit(i, from, to, t.end[i]!);
			this.filled[depth] = to;
		}
		return depth >= w.lastRow ? t.end[i]! : i + 1;
	}

	private sliver(depth: number, i: number, x: number, right: number, rest: number, visit: Visit): void {
		const from = Math.max(Math.floor(x), this.filled[depth]!);
		const to = Math.max(Math.round(right), Math.floor(x) + 1);
		if (to <= from) return;
		visit(-1 - i, from, to, rest);
		this.filled[depth] = to;
	}
}
