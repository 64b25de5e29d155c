// SPDX-License-Identifier: Apache-2.0
// What part of the picture the window shows, and how it gets there: each frame goes a part of the
// way that is left. Who prefers no motion is there at once.
import type { Scene, Shown } from "./scene.ts";

const HALF_LIFE = 38; // ms
const NARROWEST = 1e-9; // of all

export class Camera {
	private goal: Shown | null = null;
	private frame = 0;
	private last = 0;
	private put = -1; // the scroll position that came from here
	private still = matchMedia("(prefers-reduced-motion: reduce)");

	private scene: Scene;
	private scroller: HTMLElement;
	private settled: () => void;

	constructor(scene: Scene, scroller: HTMLElement, settled: () => void) {
		this.scene = scene;
		this.scroller = scroller;
		this.settled = settled;
	}

	stop(): void {
		cancelAnimationFrame(this.frame);
		this.frame = 0;
		this.goal = null;
	}

	get aim(): Shown {
		return this.goal ?? this.scene.shown;
	}

	private get all(): number {
		return this.scene.tree?.width[0] || 1;
	}

	private clamped(from: number, to: number, top: number): Shown {
		const all = this.all;
		const wide = Math.min(all, Math.max(to - from, all * NARROWEST));
		const middle = (from + to) / 2;
		const begin = Math.min(Math.max(0, middle - wide / 2), all - wide);
		const most = Math.max(0, this.scene.pictureHeight - this.scene.height);
		return { from: begin, to: begin + wide, top: Math.min(Math.max(0, top), most) };
	}

	/** Goes there; at once: without the way between. */
	go(from: number, to: number, top: number, atOnce = false): void {
		this.goal = this.clamped(from, to, top);
		if (atOnce || this.still.matches) {
			this.arrive();
		} else if (!this.frame) {
			this.last = performance.now();
			this.frame = requestAnimationFrame((now) => this.step(now));
		}
	}

	pan(dx: number, dy: number): void {
		const { from, to, top } = this.aim;
		const by = (dx / this.scene.width) * (to - from);
		const wide = to - from;
		const begin = Math.min(Math.max(0, from + by), this.all - wide);
		this.go(begin, begin + wide, top + dy, true);
	}

	/** The value under x stays where it is. */
	zoom(x: number, factor: number): void {
		const { from, to, top } = this.aim;
		const share = x / this.scene.width;
		const wide = Math.min(this.all, Math.max((to - from) * factor, this.all * NARROWEST));
		const begin = from + share * (to - from) - share * wide;
		const clamped = Math.min(Math.max(0, begin), this.all - wide);
		this.go(clamped, clamped + wide, top);
	}

	/** The reader scrolled: the row that they see is the one to stay at. */
	scrolled(): void {
		const top = this.scroller.scrollTop;
		if (Math.abs(top - this.put) < 1) return;
		this.put = -1;
		if (this.goal) this.goal.top = top;
		this.scene.shown.top = top;
		this.scene.invalidate();
	}

	private show(shown: Shown): void {
		this.scene.shown = shown;
		if (Math.abs(this.scroller.scrollTop - shown.top) >= 0.5) {
			this.scroller.scrollTop = shown.top;
			this.put = this.scroller.scrollTop;
		}
		this.scene.invalidate();
	}

	private arrive(): void {
		cancelAnimationFrame(this.frame);
		this.frame = 0;
		if (this.goal) this.show({ ...this.goal });
		this.goal = null;
		this.settled();
	}

	private step(now: number): void {
		const { goal, scene } = this;
		this.frame = 0;
		if (!goal) return;
		const part = 1 - 0.5 ** (Math.max(now - this.last, 1) / HALF_LIFE);
		this.last = now;
		const { from, to, top } = scene.shown;
		const pixel = (goal.to - goal.from) / Math.max(1, scene.width);
		if (Math.abs(goal.from - from) < pixel / 2 && Math.abs(goal.to - to) < pixel / 2 &&
		    Math.abs(goal.top - top) < 1) {
			this.arrive();
			return;
		}
		this.show({
			from: from + (goal.from - from) * part,
			to: to + (goal.to - to) * part,
			top: top + (goal.top - top) * part,
		});
		this.frame = requestAnimationFrame((later) => this.step(later));
	}
}
