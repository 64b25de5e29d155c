// SPDX-License-Identifier: Apache-2.0
// Which rows of a long list are in sight. All rows have the same height; the rest is empty space.
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

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

export function useVirtual(count: number, height: number, head: number): Virtual {
	const box = useRef<HTMLDivElement>(null);
	const [seen, setSeen] = useState({ top: 0, height: 800 });
	useLayoutEffect(() => {
		const element = box.current;
		if (!element) return;
		let frame = 0;
		const look = () => {
			frame = 0;
			setSeen((before) => {
				const top = Math.floor(element.scrollTop / height) * height;
				const same = before.top === top && before.height === element.clientHeight;
				return same ? before : { top, height: element.clientHeight };
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
	}, [height]);
	const fit = Math.max(1, Math.floor((seen.height - head) / height));
	const first = Math.max(0, Math.min(Math.floor(seen.top / height), count - fit) - BEYOND);
	const end = Math.min(count, first + fit + 2 * BEYOND);
	const reveal = (row: number) => {
		const element = box.current;
		if (!element || row < 0) return;
		const top = row * height;
		const room = element.clientHeight - head;
		if (top < element.scrollTop) element.scrollTop = top;
		else if (top + height > element.scrollTop + room) element.scrollTop = top + height - room;
	};
	return { box, first, end, above: first * height, below: (count - end) * height, fit, reveal };
}
