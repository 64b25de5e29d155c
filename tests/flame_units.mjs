// SPDX-License-Identifier: Apache-2.0
// node flame_units.mjs VIEWER: the flame graph's walk over the arrays, compared with what a plain
// walk over all nodes finds; its labels; and answers that are damaged. Prints what was checked.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const viewer = process.argv[2];
const { buildSync } = createRequire(join(viewer, "package.json"))("esbuild");
const built = buildSync({
	stdin: {
		contents: ["arrays", "boxes", "label", "matches"]
			.map((name) => `export * from "./src/flame/${name}.ts";`).join("\n"),
		resolveDir: viewer, loader: "ts",
	},
	bundle: true, write: false, format: "esm",
});
const code = Buffer.from(built.outputFiles[0].contents).toString("base64");
const flame = await import(`data:text/javascript;base64,${code}`);

function randomFrom(seed) {
	return () => {
		seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
		return seed / 2 ** 32;
	};
}

const TYPES = { u8: Uint8Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };
const KINDS = {
	parent: "u32", end: "u32", depth: "u32", name: "u32", file: "u32", module: "u32", line: "u32",
	samples: "u32", self_samples: "u32", kind: "u8", self: "f64", total: "f64", left: "f64",
	self_stderr: "f32", total_stderr: "f32",
};

/** A tree as view.h describes it; rest: the last callee of a node may be its widest. */
function randomTree(random, rest) {
	const rows = [];
	const grow = (parent, depth, total, left) => {
		const i = rows.length;
		const row = { parent, depth, total, left, self: 0, name: 1 + Math.floor(random() * 5), line: i };
		rows.push(row);
		const count = depth > 7 ? 0 : Math.floor(random() * 6);
		const shares = Array.from({ length: count }, () => random() ** 6 + 1e-6).sort((a, b) => b - a);
		if (rest && count > 2) shares.push(shares.shift());
		const sum = shares.reduce((a, b) => a + b, 0);
		let x = left;
		for (const share of shares) {
			const part = total * 0.95 * (share / sum);
			grow(i, depth + 1, part, x);
			x += part;
		}
		row.end = rows.length;
	};
	grow(2 ** 32 - 1, 0, 1000, 0);
	return rows;
}

function encode(rows, change = (places) => places) {
	const places = {};
	let at = 8192;
	for (const [name, type] of Object.entries(KINDS)) {
		places[name] = { type, offset: at, count: rows.length };
		at += Math.ceil((rows.length * TYPES[type].BYTES_PER_ELEMENT) / 8) * 8;
	}
	const buffer = new ArrayBuffer(at);
	for (const [name, { type, offset }] of Object.entries(places)) {
		new TYPES[type](buffer, offset, rows.length).set(rows.map((row) => row[name] ?? 0));
	}
	const texts = ["", "main", "parse", "a::b<int>::parse(int)", "malloc", "(12 smaller)"];
	const json = new TextEncoder().encode(JSON.stringify({ arrays: change(places), texts }));
	new DataView(buffer).setUint32(0, json.length, true);
	new Uint8Array(buffer, 4, json.length).set(json);
	return buffer;
}

/** The pixels of each row that belong to a box at least a pixel wide. */
function plainPixels(t, w) {
	const scale = w.pixels / (w.to - w.from);
	const owner = new Map();
	for (let i = 0; i < t.count; i++) {
		const wide = t.width[i] * scale;
		if (wide < 2 || t.depth[i] < w.firstRow || t.depth[i] > w.lastRow) continue;
		const x = (t.left[i] - w.from) * scale;
		for (let p = Math.max(0, Math.ceil(x + 0.5)); p < Math.min(w.pixels, x + wide - 1); p++) {
			owner.set(`${t.depth[i]} ${p}`, i);
		}
	}
	return owner;
}

function compareWalks(random, rest) {
	const t = flame.decodeTree(encode(randomTree(random, rest)));
	const walk = new flame.Walk();
	for (let round = 0; round < 8; round++) {
		const from = random() * 900;
		const to = from + (1000 - from) * random() ** 4;
		const firstRow = Math.floor(random() * 3);
		const w = { from, to, pixels: 700, firstRow, lastRow: firstRow + Math.floor(random() * 9) };
		const seen = new Map();
		const filled = new Map();
		walk.visit(t, w, (node, x, right) => {
			const i = node < 0 ? -1 - node : node;
			assert(t.depth[i] >= w.firstRow && t.depth[i] <= w.lastRow, "a row outside the window");
			assert(right > x, "an empty box");
			const before = filled.get(t.depth[i]) ?? -Infinity;
			assert(x >= before - 1, "boxes of a row come from left to right");
			filled.set(t.depth[i], right);
			if (node < 0) return;
			for (let p = Math.max(0, x); p < Math.min(w.pixels, right); p++) {
				seen.set(`${t.depth[i]} ${p}`, i);
			}
		});
		for (const [place, i] of plainPixels(t, w)) assert.equal(seen.get(place), i, `pixel ${place}`);
	}
	for (let i = 0; i < t.count; i++) {
		const middle = t.left[i] + t.width[i] / 2;
		const exact = t.width[i] > 1e-9; // thinner ones are lost among the digits of left
		if (exact) assert.equal(flame.nodeAt(t, middle, t.depth[i]), i, "the node under a place");
		if (i % 61 === 0) assert.equal(flame.findKey(t, flame.nodeKey(t, i)), i, "a link's node");
		const next = flame.nextSibling(t, i);
		if (next >= 0) assert.equal(flame.previousSibling(t, next), i, "neighbours");
	}
	return t;
}

const random = randomFrom(12);
let nodes = 0;
for (let round = 0; round < 16; round++) nodes += compareWalks(random, round % 2 === 1).count;
console.log(`trees: ${nodes} nodes`);

const rows = randomTree(randomFrom(3), false);
const damaged = (change, why) => assert.throws(() => flame.decodeTree(change()), /damaged/, why);
damaged(() => new ArrayBuffer(2), "too short");
damaged(() => encode(rows).slice(0, 9000), "cut");
damaged(() => encode(rows, ({ total, ...others }) => others), "no totals");
for (const place of [{ offset: 4 }, { offset: -8 }, { offset: 2 ** 40 }, { count: 2 ** 31 },
	{ count: 1.5 }, { type: "f64x" }, { type: "u8" }]) {
	const moved = (all) => ({ ...all, end: { ...all.end, ...place } });
	damaged(() => encode(rows, moved), JSON.stringify(place));
}
for (const [key, value] of [["end", 0], ["end", 2 ** 31], ["depth", 9], ["parent", 3], ["name", 6],
	["total", NaN], ["total", -1], ["left", NaN]]) {
	const changed = rows.map((row, i) => (i === 2 ? { ...row, [key]: value } : row));
	damaged(() => encode(changed), `${key} ${value}`);
}
assert.equal(flame.decodeTree(encode([])).count, 0);
console.log("damaged answers: refused");

const labels = [
	["a::b::parse(int, char const*)", 40, "a::b::parse(int, char const*)"],
	["a::b::parse(int, char const*)", 12, "a::b::parse"],
	["a::b::parse(int, char const*)", 9, "b::parse"],
	["a::b::parse(int, char const*)", 5, "parse"],
	["a::b::parse(int, char const*)", 4, "par…"],
	["a::b::parse(int, char const*)", 3, ""],
	["std::vector<std::pair<int, int>>::push_back(int&&)", 22, "std::vector::push_back"],
	["void std::__sort<int*>(int*, int*)", 12, "std::__sort"],
	["Foo::operator()(int) const", 16, "Foo::operator()"],
	["llvm::User::operator new(unsigned long, unsigned int)", 24, "llvm::User::operator new"],
	["operator new(unsigned long)", 14, "operator new"],
	["ns::(anonymous namespace)::helper(int)", 12, "ns::helper"],
	["<alloc::vec::Vec<T> as core::ops::Drop>::drop", 12, "Vec::drop"],
	["<alloc::vec::Vec<T> as core::ops::Drop>::drop", 4, "drop"],
	["main::{lambda(int)#1}::operator()(int) const", 40, "main::{lambda(int)#1}::operator()"],
	["core::ops::function::FnOnce::call_once{{vtable.shim}}", 30, "call_once{{vtable.shim}}"],
	["demo/io.(*Reader).Push[go.shape.int]", 22, "demo/io.(*Reader).Push"],
	["(anonymous)(int, int)", 12, "(anonymous)"],
	["outer.<locals>.inner(a, b)", 21, "outer.<locals>.inner"],
	["Stdlib.List.map", 9, "List.map"],
	["parse.constprop.0", 14, "parse.con…op.0"],
	["libLLVM-14.so.1+0x39dccfc", 10, "+0x39dccfc"],
];
for (const [name, columns, wanted] of labels) {
	const got = flame.fit(flame.spellings(name), columns);
	assert(got.length <= columns, `${got} is too long`);
	assert.equal(got, wanted, `${name} in ${columns}`);
}
console.log(`labels: ${labels.length}`);

const t = flame.decodeTree(encode(rows));
const found = flame.findMatches(t, flame.searchPattern("parse"));
const isParse = (i) => rows[i].name === 2 || rows[i].name === 3;
const matching = rows.map((row, i) => i).filter((i) => i && isParse(i));
assert.equal(found.count, matching.length);
for (const i of matching) {
	assert(found.nodes.some((m) => m <= i && i < t.end[m]), "an outermost match");
}
for (let k = 1; k < found.nodes.length; k++) {
	assert(t.total[found.nodes[k - 1]] >= t.total[found.nodes[k]], "largest first");
}
assert.equal(typeof flame.searchPattern("("), "string");
console.log(`search: ${found.count} nodes`);
