// SPDX-License-Identifier: Apache-2.0
// The picture for screen readers: a tree with the path to the selected node, what it calls, and its
// neighbours; only these, however large the tree is.
import { firstCallee, nextSibling, pathTo, previousSibling, type Tree } from "./arrays.ts";
import { percentText } from "../format.ts";
import { amountText } from "./label.ts";
import { place } from "./tip.tsx";

const NEIGHBOURS = 8;

export function said(t: Tree, node: number, blocks: boolean): string {
	const name = node === 0 ? "all" : t.texts[t.name[node]!] || "no name";
	const total = blocks ? `${amountText(t.total[node]!, true)} blocks` : amountText(t.total[node]!, false);
	if (t.before && t.significant) {
		const change = t.total[node]! - t.before[node]!;
		const more = t.significant[node] ? (change > 0 ? "more" : "less") : "within noise";
		return `${name}, ${total}, before ${amountText(t.before[node]!, blocks)}, ${more}`;
	}
	return `${name}, ${total}, ${percentText(t.total[node]!, t.total[0]!)}`;
}

export function mirrorId(node: number): string {
	return `flame-node-${node}`;
}

function around(t: Tree, node: number): number[] {
	const all = [node];
	for (let i = previousSibling(t, node); i >= 0 && all.length <= NEIGHBOURS;
	     i = previousSibling(t, i)) all.unshift(i);
	const most = all.length + NEIGHBOURS;
	for (let i = nextSibling(t, node); i >= 0 && all.length < most; i = nextSibling(t, i)) all.push(i);
	return all;
}

function callees(t: Tree, node: number): number[] {
	const all: number[] = [];
	for (let i = firstCallee(t, node); i >= 0 && all.length < NEIGHBOURS; i = nextSibling(t, i)) {
		all.push(i);
	}
	return all;
}

export function Mirror({ tree, node, blocks }: { tree: Tree; node: number; blocks: boolean }) {
	const chosen = node < 0 ? 0 : node;
	const rows = new Set<number>(pathTo(tree, chosen));
	for (const one of around(tree, chosen)) rows.add(one);
	for (const one of callees(tree, chosen)) rows.add(one);
	return (
		<div class="flame-mirror">
			{[...rows].sort((a, b) => a - b).map((i) => (
				<div
					key={i}
					id={mirrorId(i)}
					role="treeitem"
					aria-level={tree.depth[i]! + 1}
					aria-selected={i === chosen}
					aria-expanded={firstCallee(tree, i) < 0 ? undefined
						: i <= chosen && tree.end[i]! > chosen}
				>
					{said(tree, i, blocks)}{place(tree, i) && `, ${place(tree, i)}`}
				</div>
			))}
		</div>
	);
}
