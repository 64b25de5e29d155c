// SPDX-License-Identifier: Apache-2.0
// Texts for the clipboard.

/** False: the browser does not allow it. */
export async function copyText(text: string): Promise<boolean> {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		return false;
	}
}
