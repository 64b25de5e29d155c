// SPDX-License-Identifier: Apache-2.0
// Which columns of a table there is room for. Names say what a row is, so they get a fixed share of
// the width; figures that do not fit beside them are left out.
import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { onResize } from "../shell/resized.ts";
import { LEAST_NAMES } from "./names.tsx";

const PADDING = 16; // of a cell, in pixels

export interface Sized {
	/** In digits, or as wide as a figure with its error; none: the names, which get what is left. */
	width?: number | "figure";
	/** Goes before the others when there is little room. */
	minor?: boolean;
	/** Stays. */
	needed?: boolean;
}

export interface Room {
	/** All in pixels. */
	width: number;
	digit: number;
	figure: number;
}

function measure(element: HTMLElement): Room {
	const probe = document.createElement("span");
	probe.style.cssText = "position:absolute;visibility:hidden;width:100ch";
	element.append(probe);
	const digit = probe.getBoundingClientRect().width / 100;
	probe.style.width = "var(--figure)";
	const figure = probe.getBoundingClientRect().width;
	probe.remove();
	return { width: element.clientWidth, digit, figure };
}

/** The room in an element, also when it changes. `key`: of what decides whether it is there. */
export function useRoom(box: RefObject<HTMLElement | null>, key: unknown): Room | undefined {
	const [room, setRoom] = useState<Room>();
	useLayoutEffect(() => {
		const element = box.current;
		if (!element) return;
		const look = () => setRoom((before) => {
			const now = measure(element);
			const same = before && before.width === now.width && before.digit === now.digit &&
				before.figure === now.figure;
			return same ? before : now;
		});
		look();
		return onResize(element, look);
	}, [key]);
	return room;
}

function widthOf(column: Sized, room: Room): number {
	if (column.width === undefined) return 0;
	return PADDING + (column.width === "figure" ? room.figure : column.width * room.digit);
}

/** The columns that fit beside the names' share of the width: minor ones go first, then the others, from the right;
 * one figure stays. */
export function fitting<C extends Sized>(columns: C[], room: Room | undefined, names = LEAST_NAMES): C[] {
	if (!room || !room.width) return columns;
	let kept = columns;
	while (kept.reduce((sum, column) => sum + widthOf(column, room), 0) > (1 - names) * room.width) {
		const figures = kept.filter((column) => column.width !== undefined);
		const left = figures.filter((column) => !column.needed);
		const goes = left.filter((column) => column.minor).at(-1) ?? left.at(-1);
		if (!goes || figures.length === 1) break;
		kept = kept.filter((column) => column !== goes);
	}
	return kept;
}
