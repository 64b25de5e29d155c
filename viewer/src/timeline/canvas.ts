// SPDX-License-Identifier: Apache-2.0
// What drawing on a canvas needs: its size, colours of the page, and when these change.
import { useEffect, useState } from "preact/hooks";
import type { RefObject } from "preact";
import { onResize } from "../shell/resized.ts";

/** The value of a custom property. */
export function colour(name: string): string {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A number that grows when the page turns dark or light: draw again. */
export function useTheme(): number {
	const [turn, setTurn] = useState(0);
	useEffect(() => {
		const changed = () => setTurn((n) => n + 1);
		const dark = matchMedia("(prefers-color-scheme: dark)");
		const observer = new MutationObserver(changed);
		dark.addEventListener("change", changed);
		observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
		return () => {
			dark.removeEventListener("change", changed);
			observer.disconnect();
		};
	}, []);
	return turn;
}

function contentWidth(box: HTMLElement): number {
	const { paddingLeft, paddingRight } = getComputedStyle(box);
	return box.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
}

/** The width of an element; 0 until it is known. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
	const [width, setWidth] = useState(0);
	useEffect(() => {
		const box = element.current;
		return box ? onResize(box, () => setWidth(Math.floor(contentWidth(box)))) : undefined;
	}, []);
	return width;
}

/** The canvas as sharp as the screen, empty, with the unit of a CSS pixel. */
export function clearCanvas(canvas: HTMLCanvasElement, width: number, height: number) {
	const ratio = devicePixelRatio || 1;
	const context = canvas.getContext("2d")!;
	canvas.width = Math.max(1, Math.round(width * ratio));
	canvas.height = Math.max(1, Math.round(height * ratio));
	canvas.style.width = `${width}px`;
	canvas.style.height = `${height}px`;
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	return context;
}

/** Where the plots begin and end, in pixels from the left, so that all have one time axis. */
export interface Plot {
	left: number;
	width: number;
}
