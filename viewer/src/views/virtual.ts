// SPDX-License-Identifier: Apache-2.0
// Which rows of a long list are in sight. All rows have the same height; the rest is empty space.
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { usePrinting } from "../shell/pictures.ts";

const BEYOND = 12; // rows above and below that are drawn too, for smooth scrolling

export interface Virtual {
	box: RefObject<HTMLDivElement | null>;
	/** The first row, and the one after the last. */
	first: number;
	end: number;
	/** Heights of what is not drawn. */
	above: number;
	below: number;
	/** Rows that fit into the box. */
	fit: number;
	reveal(row: number): void;
}

export function useVirtual(count: number, step: number, head: number): Virtual {
	const box = useRef<HTMLDivElement>(null);
	const [seen, setSeen] = useState({ top: 0, height: 800 });
	// The box may come later than the first answer, and go with it.
	const [element, setElement] = useState<HTMLDivElement | null>(null);
	useLayoutEffect(() => {
		if (box.current !== element) setElement(box.current);
	});
	useLayoutEffect(() => {
		if (!element) return;
		let frame = 0;
		const look = () => {
			frame = 0;
			setSeen((before) => {
				const top = Math.floor(element.scrollTop / step) * step;
				const height = element.clientHeight;
				const same = before.top === top && before.height === height;
				return same ? before : { top, height };
			});
		};
		const later = () => (frame ||= requestAnimationFrame(look));
		element.addEventListener("scroll", later, { passive: true });
		const observer = new ResizeObserver(later);
		observer.observe(element);
		look();
		return () => {
			cancelAnimationFrame(frame);
			element.removeEventListener("scroll", later);
			observer.disconnect();
		};
	}, [element, step]);
	const printing = usePrinting();
	if (printing) return { box, first: 0, end: count, above: 0, below: 0, fit: count, reveal: () => {} };
	const fit = Math.max(1, Math.floor((seen.height - head) / step));
	const first = Math.max(0, Math.min(Math.floor(seen.top / step), count - fit) - BEYOND);
	const end = Math.min(count, first + fit + 2 * BEYOND);
	const reveal = (row: number) => {
		const element = box.current;
		if (!element || row < 0) return;
		const top = row * step;
		const room = element.clientHeight - head;
		if (top < element.scrollTop) element.scrollTop = top;
		else if (top + step > element.scrollTop + room) element.scrollTop = top + step - room;
	};
	const above = first * step;
	const below = (count - end) * step;
	return { box, first, end, above, below, fit, reveal };
}
