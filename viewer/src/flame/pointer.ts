// SPDX-License-Identifier: Apache-2.0
// Mouse, pen and fingers on the picture: drag and two fingers move it, a click chooses, a wheel
// scrolls, with ctrl it zooms, with shift it goes sideways.
import type { Camera } from "./camera.ts";
import type { Scene } from "./scene.ts";

export interface Touched {
	hover(node: number, x: number, y: number): void;
	click(node: number): void;
	doubleClick(node: number): void;
	menu(node: number, x: number, y: number): void;
}

interface Point {
	x: number;
	y: number;
}

const SLACK = 4; // pixels that a click may move
const DOUBLE = 350; // ms
const LINE = 40; // pixels that a line of a wheel scrolls

export function followPointer(canvas: HTMLElement, scene: Scene, camera: Camera, touched: Touched,
			      signal: AbortSignal): void {
	const down = new Map<number, Point>();
	let origin: Point = { x: 0, y: 0 };
	let moved = false;
	let last = { time: 0, node: -1, x: 0, y: 0 };
	const place = (event: MouseEvent): Point => {
		const box = canvas.getBoundingClientRect();
		return { x: event.clientX - box.left, y: event.clientY - box.top };
	};
	const on = <K extends keyof HTMLElementEventMap>(
		type: K, run: (event: HTMLElementEventMap[K]) => void,
	) => canvas.addEventListener(type, run, { signal, passive: false });

	on("pointerdown", (event) => {
		if (event.button !== 0) return;
		canvas.setPointerCapture(event.pointerId);
		down.set(event.pointerId, place(event));
		if (down.size === 1) {
			origin = place(event);
			moved = false;
		} else {
			moved = true;
		}
	});
	on("pointermove", (event) => {
		const now = place(event);
		const before = down.get(event.pointerId);
		if (!before) {
			touched.hover(scene.nodeUnder(now.x, now.y), now.x, now.y);
			return;
		}
		if (!moved && Math.hypot(now.x - origin.x, now.y - origin.y) < SLACK) return;
		if (!moved) touched.hover(-1, 0, 0);
		moved = true;
		if (down.size === 2) pinch(event.pointerId, before, now);
		else if (down.size === 1) camera.pan(before.x - now.x, before.y - now.y);
		down.set(event.pointerId, now);
	});
	const pinch = (id: number, before: Point, now: Point) => {
		const other = [...down].find(([one]) => one !== id)![1];
		const wide = (p: Point) => Math.max(8, Math.abs(p.x - other.x));
		camera.zoom((now.x + other.x) / 2, wide(before) / wide(now));
	};
	const click = (event: PointerEvent, now: Point) => {
		const again = event.timeStamp - last.time < DOUBLE &&
			Math.hypot(now.x - last.x, now.y - last.y) < SLACK;
		// The first click moves the picture: the second one means the same box.
		const node = again ? last.node : scene.nodeUnder(now.x, now.y);
		last = { time: again ? 0 : event.timeStamp, node, ...now };
		if (node < 0) return;
		if (again) touched.doubleClick(node);
		else touched.click(node);
	};
	on("pointerup", (event) => {
		const was = down.delete(event.pointerId);
		if (was && !moved) click(event, place(event));
	});
	on("pointercancel", (event) => void down.delete(event.pointerId));
	on("pointerleave", () => touched.hover(-1, 0, 0));
	on("contextmenu", (event) => {
		const now = place(event);
		const node = scene.nodeUnder(now.x, now.y);
		if (node < 0) return;
		event.preventDefault();
		touched.menu(node, now.x, now.y);
	});
	on("wheel", (event) => {
		const unit = event.deltaMode === 1 ? LINE : event.deltaMode === 2 ? scene.height : 1;
		if (event.ctrlKey || event.metaKey) {
			event.preventDefault();
			const by = Math.max(-120, Math.min(120, event.deltaY * unit));
			camera.zoom(place(event).x, Math.exp(by * (event.deltaMode === 0 && Math.abs(by) < 50
				? 0.01 : 0.003)));
			return;
		}
		const sideways = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
		if (sideways === 0) return; // the browser scrolls
		event.preventDefault();
		camera.pan(sideways * unit, event.shiftKey ? 0 : event.deltaY * unit);
	});
}
