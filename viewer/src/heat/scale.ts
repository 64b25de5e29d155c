// SPDX-License-Identifier: Apache-2.0
// One hue, more of it for more: the eye compares lightness well, and every eye can. Values span
// decades, so the share of ink is that of their square roots.

export const STEPS = 6;

/** 0 to 1. */
export function stepShare(value: number, most: number): number {
	return most > 0 && value > 0 ? Math.sqrt(value / most) : 0;
}

/** The colour of a share: mixed in a perceptual space between the ground and the full hue. */
export function inkShare(share: number): string {
	return `color-mix(in oklab, var(--heat-full) ${Math.round(6 + 94 * share)}%, var(--heat-least))`;
}
