// SPDX-License-Identifier: Apache-2.0
// What a box says: of a C++ or Rust name that does not fit, the function stays and its namespaces,
// arguments and template arguments go.
import { bytesText, countText } from "../format.ts";

export function amountText(value: number, blocks: boolean): string {
	return blocks ? countText(value) : bytesText(value);
}

export function changeText(change: number, blocks: boolean): string {
	if (change === 0) return "unchanged";
	return `${change < 0 ? "−" : "+"}${amountText(Math.abs(change), blocks)}`;
}

/** Where the bracket at `from` is closed; -1: nowhere. */
function closing(name: string, from: number): number {
	const open = name[from]!;
	const close = open === "(" ? ")" : open === "{" ? "}" : ">";
	let depth = 0;
	for (let i = from; i < name.length; i++) {
		if (name[i] === open) depth++;
		else if (name[i] === close && --depth === 0) return i;
	}
	return -1;
}

/** A bracket that holds no arguments but is a part of the name, as in "{lambda}", "a::<impl>", Go's
 *  "io.(*Reader).Push", JavaScript's "(anonymous)" and Python's "f.<locals>.g". */
function isName(name: string, i: number): boolean {
	const before = name[i - 1];
	if (name[i] === "{" || (name[i] === "(" && i === 0)) return true;
	if (before === "." && name[i - 2] !== ".") return name[i] === "(" || name[i] === "<";
	return (name[i] === "<" && (i === 0 || before === ":")) || name.startsWith("(anonymous", i);
}

/** The name without what is in (), <> and [], but with "operator()" and "<lambda>" whole. */
function withoutArguments(name: string): string {
	let out = "";
	let inside = 0;
	for (let i = 0; i < name.length; i++) {
		const c = name[i]!;
		if (inside === 0 && name.startsWith("operator", i)) {
			const sign = /^operator(?:\(\)|[^\w\s(]+|\s+(?:new|delete)(?:\[\])?|\s+[\w:]+)?/
				.exec(name.slice(i, i + 40))![0];
			out += sign;
			i += sign.length - 1;
		} else if (inside === 0 && name.startsWith("(anonymous namespace)::", i)) {
			i += "(anonymous namespace)::".length - 1;
		} else if (inside === 0 && isName(name, i)) {
			const close = closing(name, i);
			if (close < 0) return name;
			out += name.slice(i, close + 1);
			i = close;
		} else if (c === "(" || c === "<" || c === "[") {
			inside++;
		} else if (c === ")" || c === ">" || c === "]") {
			if (inside > 0 && name[i - 1] !== "-") inside--;
		} else if (inside === 0) {
			out += c;
		}
	}
	return out.replace(/ (const|volatile|&|noexcept)+$/g, "").trim() || name;
}

function lastParts(name: string, parts: number): string {
	const mark = /^[A-Z]\w*(\.[\w']+)+$/.test(name) ? "." : "::"; // Stdlib.List.map
	return name.split(mark).slice(-parts).join(mark);
}

/** From the whole name to the function's alone. */
export function spellings(name: string): string[] {
	const address = /\+0x[0-9a-f]+$/.exec(name);
	if (address) return [name, address[0]]; // no name is known: "libc.so.6+0x12345"
	const implementation = /^<(.+) as .+>::(\w+)/.exec(name); // of a Rust trait
	const plain = withoutArguments(implementation
		? `${implementation[1]}::${implementation[2]}` : name);
	const space = plain.lastIndexOf(" ");
	const typed = space > 0 && !/operator|\(|\{/.test(plain.slice(0, space));
	const named = typed && plain.includes("::") ? plain.slice(space + 1) : plain;
	const path = named.startsWith("/") ? named.slice(named.lastIndexOf("/") + 1) : named;
	const all = [name, plain, named, path, lastParts(path, 2), lastParts(path, 1)];
	return all.filter((one, i) => one !== "" && all.indexOf(one) === i);
}

/** What of it fits into so many columns of text; "" when that would say nothing. */
export function fit(all: string[], columns: number): string {
	for (const one of all) if (one.length <= columns) return one;
	const last = all[all.length - 1]!;
	if (columns < 4) return "";
	if (columns < 12) return `${last.slice(0, columns - 1)}…`;
	const tail = Math.floor((columns - 1) / 3); // names of a family often differ at their end
	return `${last.slice(0, columns - 1 - tail)}…${last.slice(last.length - tail)}`;
}

/** The file's last parts: what tells files apart. */
export function shortPath(path: string, parts = 2): string {
	const all = path.split("/").filter((part) => part !== "");
	return all.length <= parts ? path : `…/${all.slice(-parts).join("/")}`;
}
