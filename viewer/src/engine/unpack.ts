// SPDX-License-Identifier: Apache-2.0
// The page's data blocks: base64, and those of its own code gzip in that.

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

/** The content of gzip. */
export function unpack(bytes: Uint8Array<ArrayBuffer>): Response {
	return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}
