// SPDX-License-Identifier: Apache-2.0
// An answer that consists of arrays (src/view/view.h), and the call tree in it. Nodes are numbers:
// a tree of a million nodes stays a dozen typed arrays, and no object is made for a node.
//
//	        0 all              end[0] = 6
//	   1 main      5 start     end[1] = 5, end[5] = 6
//	  2 f  4 g                 end[2] = 4
//	  3 h                      the subtree of i is [i, end[i]): one jump skips it

type Numbers = Uint8Array | Uint32Array | Float32Array | Float64Array;

export interface Answer {
	json: Record<string, unknown>;
	arrays: Map<string, Numbers>;
}

export interface Tree {
	count: number;
	parent: Uint32Array;
	end: Uint32Array;
	depth: Uint32Array;
	name: Uint32Array;
	file: Uint32Array;
	module: Uint32Array;
	line: Uint32Array;
	samples: Uint32Array;
	selfSamples: Uint32Array;
	kind: Uint8Array;
	self: Float64Array;
	total: Float64Array;
	left: Float64Array;
	selfError: Float32Array;
	totalError: Float32Array;
	/** Only in a difference: the total in the base, and whether the change is more than noise. */
	before: Float64Array | null;
	significant: Uint8Array | null;
	/** The width of a box: total, or in a difference what the answer lays out. */
	width: Float64Array;
	texts: string[];
	deepest: number;
	/** Whether callees come by descending width, except the last: then those after a thin one are. */
	descending: boolean;
}

const TYPES = { u8: Uint8Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };

function damaged(what: string): Error {
	return new Error(`the answer is damaged: ${what}`);
}

export function decodeAnswer(buffer: ArrayBuffer): Answer {
	if (buffer.byteLength < 4) throw damaged("too short");
	const length = new DataView(buffer).getUint32(0, true);
	if (length > buffer.byteLength - 4) throw damaged("its text is cut");
	const text = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
	const json = JSON.parse(text) as Record<string, unknown>;
	const arrays = new Map<string, Numbers>();
	for (const [name, place] of Object.entries((json["arrays"] ?? {}) as object)) {
		const { type, offset, count } = place as Record<string, unknown>;
		const kind = TYPES[type as keyof typeof TYPES];
		if (!kind || !Number.isSafeInteger(offset) || !Number.isSafeInteger(count)) {
			throw damaged(name);
		}
		const [at, n] = [offset as number, count as number];
		if (at < 0 || n < 0 || at % 8 !== 0 || n > buffer.byteLength ||
		    at + n * kind.BYTES_PER_ELEMENT > buffer.byteLength) {
			throw damaged(`${name} lies outside`);
		}
		arrays.set(name, new kind(buffer, at, n));
	}
	return { json, arrays };
}

/** Throws unless each walk over the tree ends and stays inside. */
function checkShape(t: Tree): void {
	const { parent, end, depth, count, width, left } = t;
	if (count === 0) return;
	if (depth[0] !== 0 || end[0] !== count || !(width[0]! >= 0)) throw damaged("its root");
	const open: number[] = [0];
	for (let i = 1; i < count; i++) {
		while (open.length && end[open[open.length - 1]!]! <= i) open.pop();
		const above = open[open.length - 1];
		if (above === undefined || parent[i] !== above || depth[i] !== open.length) {
			throw damaged(`node ${i}`);
		}
		if (end[i]! <= i || end[i]! > end[above]!) throw damaged(`end of node ${i}`);
		if (!(width[i]! >= 0) || !Number.isFinite(left[i]!)) throw damaged(`size of node ${i}`);
		open.push(i);
		if (open.length > t.deepest) t.deepest = open.length;
	}
}

function checkTexts(t: Tree): void {
	for (const numbers of [t.name, t.file, t.module]) {
		for (let i = 0; i < t.count; i++) {
			if (numbers[i]! >= t.texts.length) throw damaged(`text of node ${i}`);
		}
	}
}

function isDescending(t: Tree): boolean {
	for (let i = 1; i < t.count; i++) {
		const next = t.end[i]!;
		const all = t.end[t.parent[i]!]!;
		if (next >= all || t.end[next]! >= all) continue;
		if (t.width[next]! > t.width[i]! * (1 + 1e-9)) return false;
	}
	return true;
}

export function decodeTree(buffer: ArrayBuffer): Tree {
	const { json, arrays } = decodeAnswer(buffer);
	const count = arrays.get("parent")?.length ?? 0;
	const get = <T extends Numbers>(name: string, kind: new (...all: any[]) => T): T => {
		const found = arrays.get(name);
		if (!(found instanceof kind) || found.length !== count) throw damaged(name);
		return found;
	};
	const isDifference = arrays.has("before");
	const total = get("total", Float64Array);
	const texts = json["texts"];
	if (!Array.isArray(texts)) throw damaged("texts");
	const t: Tree = {
		count,
		parent: get("parent", Uint32Array),
		end: get("end", Uint32Array),
		depth: get("depth", Uint32Array),
		name: get("name", Uint32Array),
		file: get("file", Uint32Array),
		module: get("module", Uint32Array),
		line: get("line", Uint32Array),
		samples: get("samples", Uint32Array),
		selfSamples: get("self_samples", Uint32Array),
		kind: get("kind", Uint8Array),
		self: get("self", Float64Array),
		total,
		left: get("left", Float64Array),
		selfError: get("self_stderr", Float32Array),
		totalError: get("total_stderr", Float32Array),
		before: isDifference ? get("before", Float64Array) : null,
		significant: isDifference ? get("significant", Uint8Array) : null,
		width: arrays.has("width") ? get("width", Float64Array) : total,
		texts: texts.map((text) => (typeof text === "string" ? text : "")),
		deepest: count ? 1 : 0,
		descending: false,
	};
	checkShape(t);
	checkTexts(t);
	t.descending = isDescending(t);
	return t;
}

/** The first node in [from, to) whose left is more than x; lefts never fall in preorder. */
export function firstRightOf(t: Tree, x: number, from = 0, to = t.count): number {
	while (from < to) {
		const middle = (from + to) >>> 1;
		if (t.left[middle]! > x) to = middle;
		else from = middle + 1;
	}
	return from;
}

/** The node of this depth that x lies in, or -1. */
export function nodeAt(t: Tree, x: number, depth: number): number {
	let i = firstRightOf(t, x) - 1;
	if (i < 0) return -1;
	while (t.depth[i]! > depth) i = t.parent[i]!;
	return t.depth[i] === depth && x < t.left[i]! + t.width[i]! ? i : -1;
}

export function pathTo(t: Tree, node: number): number[] {
	const path = [node];
	while (node > 0) path.push((node = t.parent[node]!));
	return path.reverse();
}

export function nextSibling(t: Tree, node: number): number {
	if (node === 0) return -1;
	const next = t.end[node]!;
	return next < t.end[t.parent[node]!]! ? next : -1;
}

export function previousSibling(t: Tree, node: number): number {
	if (node === 0 || node - 1 === t.parent[node]) return -1;
	let before = node - 1;
	while (t.depth[before]! > t.depth[node]!) before = t.parent[before]!;
	return before;
}

export function firstCallee(t: Tree, node: number): number {
	return node + 1 < t.end[node]! ? node + 1 : -1;
}

/** Names a node in a link: its depth, and a hash of the names from the root to it. */
export function nodeKey(t: Tree, node: number): string {
	let hash = 0;
	for (const one of pathTo(t, node).slice(1)) hash = mix(hash, t.texts[t.name[one]!]!, t.line[one]!);
	return `${t.depth[node]}-${hash.toString(36)}`;
}

export function hashText(text: string, hash = 0): number {
	for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) >>> 0;
	return hash;
}

function mix(above: number, text: string, line: number): number {
	const hash = Math.imul(above ^ hashText(text) ^ line, 0x9e3779b1);
	return (hash ^ (hash >>> 15)) >>> 0;
}

/** The node that nodeKey() named so, or -1: this tree may not have it. */
export function findKey(t: Tree, key: string): number {
	const wanted = Number.parseInt(key, 10);
	if (!(wanted > 0) || wanted >= t.deepest || !key.includes("-")) return key === "0-0" ? 0 : -1;
	const hashes = t.texts.map((text) => hashText(text));
	const above = new Uint32Array(t.deepest + 1);
	for (let i = 1; i < t.count; ) {
		const depth = t.depth[i]!;
		const hash = Math.imul(above[depth - 1]! ^ hashes[t.name[i]!]! ^ t.line[i]!, 0x9e3779b1);
		above[depth] = (hash ^ (hash >>> 15)) >>> 0;
		if (depth === wanted && `${depth}-${above[depth]!.toString(36)}` === key) return i;
		i = depth >= wanted ? t.end[i]! : i + 1;
	}
	return -1;
}
