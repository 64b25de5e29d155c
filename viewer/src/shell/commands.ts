// SPDX-License-Identifier: Apache-2.0
// "The same in the terminal": the command that prints what the page shows.
import type { Question } from "../state.ts";

/** A word as a shell reads it back. */
export function quoted(word: string): string {
	if (/^[\w@%+=:,./-]+$/.test(word)) return word;
	return `'${word.replaceAll("'", "'\\''")}'`;
}

export function questionWords(question: Question): string[] {
	const words: string[] = [];
	for (const [key, value] of Object.entries(question))
		if (Array.isArray(value)) for (const one of value) words.push(`--${key}`, one);
		else if (value === true) words.push(`--${key}`);
		else if (value) words.push(`--${key}`, String(value));
	return words;
}

/** `words`: of the view, "FILE" is the trace; options come before it. */
export function commandText(words: string[], question: Question, path: string): string {
	const at = words.indexOf("FILE");
	const all = [...words.slice(0, at), ...questionWords(question), "FILE", ...words.slice(at + 1)];
	return ["mayfly", ...all.map((word) => quoted(word === "FILE" ? path : word))].join(" ");
}
