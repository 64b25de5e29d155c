// SPDX-License-Identifier: Apache-2.0
// Filters take POSIX extended regular expressions; a click on a row means exactly its name.

export function exactly(name: string): string {
	return `^${name.replace(/[.[\]()*+?{}|^$\\]/g, "\\$&")}$`;
}

/** As the sentence shows it: the name, where the pattern is exactly a name; else /pattern/. */
export function patternText(pattern: string): string {
	const inner = /^\^(.*)\$$/s.exec(pattern)?.[1];
	if (inner !== undefined && !/(?<!\\)(?:\\\\)*[.[\]()*+?{}|^$]/.test(inner))
		return inner.replace(/\\(.)/gs, "$1");
	return /[.[\]()*+?{}|^$\\]/.test(pattern) ? `/${pattern}/` : pattern;
}
