// SPDX-License-Identifier: Apache-2.0
// The page's data blocks: traces are base64; its own code is gzip or zstd, in an alphabet of 85 characters
// that HTML takes as they are, as five of them for four bytes are less than base64's.

const CHARACTERS = 4 << 20; // decoded at a time: a multiple of 4

export function decode(text: string): Uint8Array<ArrayBuffer> {
	const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
	const bytes = new Uint8Array(text.length / 4 * 3 - padding);
	let at = 0;
	for (let begin = 0; begin < text.length; begin += CHARACTERS) {
		const part = atob(text.slice(begin, begin + CHARACTERS));
		for (let i = 0; i < part.length; i++) bytes[at++] = part.charCodeAt(i);
	}
	return bytes;
}

/** 33 to 126 without these, which mean something in HTML or to build.mjs. */
const digits = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i))
	.filter((one) => !"\"&'<>\\`{}".includes(one));
const BASE = digits.length; // 85

export function encodePacked(bytes: Uint8Array): string {
	let text = "";
	for (let at = 0; at < bytes.length; at += 4) {
		const count = Math.min(4, bytes.length - at);
		let word = 0;
		for (let i = 0; i < 4; i++) word = word * 256 + (bytes[at + i] ?? 0);
		let group = "";
		for (let i = 0; i < 5; i++) {
			group = digits[word % BASE]! + group;
			word = Math.floor(word / BASE);
		}
		text += group.slice(0, count + 1);
	}
	return text;
}

export function decodePacked(text: string): Uint8Array<ArrayBuffer> {
	const value = new Uint8Array(128);
	digits.forEach((one, i) => (value[one.charCodeAt(0)] = i));
	const bytes = new Uint8Array(Math.floor(text.length * 4 / 5));
	let at = 0;
	for (let begin = 0; begin < text.length; begin += 5) {
		let word = 0;
		for (let i = 0; i < 5; i++) word = word * BASE + (begin + i < text.length ? value[text.charCodeAt(begin + i)]! : BASE - 1);
		for (let shift = 24; shift >= 0 && at < bytes.length; shift -= 8) bytes[at++] = word / 2 ** shift & 255;
	}
	return bytes;
}

/** The content of gzip. */
export function unpack(bytes: Uint8Array<ArrayBuffer>): Response {
	return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}
