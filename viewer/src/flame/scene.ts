// SPDX-License-Identifier: Apache-2.0
// The picture: a canvas as large as the window onto it, however large the tree. Redrawn whole, at
// most once a frame.
import { escaped } from "../shell/pictures.ts";
import { percentText } from "../format.ts";
import { hashText, nodeAt, type Tree } from "./arrays.ts";
import { Walk, type Window } from "./boxes.ts";
import { amountText, changeText, fit, spellings } from "./label.ts";
import { isMatch, type Matches } from "./matches.ts";
import {
	LIBRARY, OTHER, RUNTIME, SHADES, STRENGTHS, moduleSlot, type Paint, type Palette,
} from "./palette.ts";
import { Strips } from "./strips.ts";

export const ROW = 20;
const FONT_SIZE = 11.5;
const LABEL_LEAST = 24; // pixels

interface Label {
	node: number;
	x: number;
	y: number;
	width: number;
	color: string;
}

export interface Shown {
	from: number;
	to: number;
	top: number; // pixels from the picture's top to the window's
}

/** What is drawn differently for each tree, made once. */
class Looks {
	readonly shade: Uint8Array;
	readonly slot: Uint8Array;
	readonly names: (string[] | undefined)[];
	readonly largest: number;
	private tree: Tree;

	constructor(t: Tree) {
		this.tree = t;
		this.shade = Uint8Array.from(t.texts, (text) => hashText(text) % SHADES);
		this.slot = new Uint8Array(t.texts.length).fill(255);
		this.names = new Array<string[] | undefined>(t.texts.length);
		let largest = 0;
		for (let i = 1; i < t.count; i++) {
			const module = t.module[i]!;
			if (t.kind[i] === 0 && this.slot[module] === 255) {
				this.slot[module] = moduleSlot(t.texts[module]!);
			}
			if (t.significant?.[i]) {
				largest = Math.max(largest, Math.abs(t.total[i]! - t.before![i]!));
			}
		}
		this.largest = largest;
	}

	spelled(text: number): string[] {
		return (this.names[text] ??= spellings(this.tree.texts[text]!));
	}

	paint(palette: Palette, i: number): Paint {
		const t = this.tree;
		if (t.before && t.significant) {
			const change = t.total[i]! - t.before[i]!;
			const share = this.largest > 0 ? Math.sqrt(Math.abs(change) / this.largest) : 0;
			const strength = t.significant[i] ? Math.max(1, Math.round(share * (STRENGTHS - 1))) : 0;
			return palette.changes[change > 0 ? 1 : 0][Math.min(strength, STRENGTHS - 1)]!;
		}
		const kind = t.kind[i]!;
		if (i === 0 || kind > 2) return palette.modules[OTHER]![1]!;
		const slot = kind === 1 ? LIBRARY : kind === 2 ? RUNTIME : this.slot[t.module[i]!]!;
		return palette.modules[slot]![this.shade[t.name[i]!]!]!;
	}
}

/** A box where the reader has chosen the colours: few, so that it is its outline that shows. */
function outlined(context: CanvasRenderingContext2D, palette: Palette, paint: Paint, x: number, y: number,
		  wide: number, tall: number): void {
	context.fillStyle = wide > 3 ? paint.fill : palette.line;
	context.fillRect(x, y, Math.max(1, wide - 1), tall);
	if (wide <= 3) return;
	context.strokeStyle = palette.line;
	context.lineWidth = 1;
	context.strokeRect(x + 0.5, y + 0.5, wide - 2, tall - 1);
}

/** A pixel of an ImageData. */
function pixelText(pixel: number): string {
	const hex = (shift: number) => (pixel >>> shift & 255).toString(16).padStart(2, "0");
	return `#${hex(0)}${hex(8)}${hex(16)}`;
}

function rectText(x: number, y: number, wide: number, tall: number, fill: string, title: string): string {
	return `<rect x="${x}" y="${y}" width="${wide}" height="${tall}" fill="${fill}"><title>${escaped(title)}</title></rect>`;
}

function textText(x: number, y: number, said: string, fill: string): string {
	return `<text x="${x}" y="${y}" fill="${fill}" dominant-baseline="central" xml:space="preserve">${escaped(said)}</text>`;
}

export class Scene {
	tree: Tree | null = null;
	palette: Palette | null = null;
	shown: Shown = { from: 0, to: 1, top: 0 };
	width = 0; // pixels of the page
	height = 0;
	upright = false; // the root at the bottom
	blocks = false;
	byLine = false;
	zoomed = 0;
	selected = -1;
	hovered = -1;
	ring = false;
	matches: Matches | null = null;
	/** The modules (texts) of own code that the last picture shows, by the pixels they cover. */
	readonly modules = new Map<number, number>();
	onPaint: (() => void) | null = null;
	private looks: Looks | null = null;
	private walk = new Walk();
	private strips = new Strips();
	private labels: Label[] = [];
	private family = "monospace";
	private column = 7;
	private frame = 0;

	/** While a drawing is made: its elements. */
	private drawing: string[] | null = null;

	readonly canvas: HTMLCanvasElement;

	constructor(canvas: HTMLCanvasElement) {
		this.canvas = canvas;
	}

	setTree(tree: Tree): void {
		this.tree = tree;
		this.looks = new Looks(tree);
		this.zoomed = 0;
		this.selected = this.hovered = -1;
		this.matches = null;
	}

	setPalette(palette: Palette): void {
		this.palette = palette;
		this.family = getComputedStyle(this.canvas).fontFamily;
		const context = this.canvas.getContext("2d")!;
		context.font = `${FONT_SIZE}px ${this.family}`;
		this.column = context.measureText("0".repeat(100)).width / 100;
	}

	get pictureHeight(): number {
		return Math.max((this.tree?.deepest ?? 0) * ROW, this.height);
	}

	rowTop(depth: number): number {
		return this.upright ? this.pictureHeight - (depth + 1) * ROW : depth * ROW;
	}

	xOf(value: number): number {
		return ((value - this.shown.from) / (this.shown.to - this.shown.from)) * this.width;
	}

	valueAt(x: number): number {
		return this.shown.from + (x / this.width) * (this.shown.to - this.shown.from);
	}

	/** The node under a place in the window, or -1. */
	nodeUnder(x: number, y: number): number {
		if (!this.tree) return -1;
		const row = Math.floor((y + this.shown.top) / ROW);
		const depth = this.upright ? Math.floor((this.pictureHeight - y - this.shown.top) / ROW) : row;
		return depth < 0 || depth >= this.tree.deepest ? -1 : nodeAt(this.tree, this.valueAt(x), depth);
	}

	invalidate(): void {
		if (this.frame) return;
		this.frame = requestAnimationFrame(() => {
			this.frame = 0;
			this.paint();
		});
	}

	stop(): void {
		cancelAnimationFrame(this.frame);
		this.frame = 0;
	}

	private resize(): number {
		const ratio = window.devicePixelRatio || 1;
		const [w, h] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
		if (this.canvas.width !== w || this.canvas.height !== h) {
			this.canvas.width = w;
			this.canvas.height = h;
			this.canvas.style.height = `${this.height}px`;
		}
		return ratio;
	}

	private window(): Window {
		const { top, from, to } = this.shown;
		const bottom = top + this.height;
		const [first, last] = this.upright
			? [this.pictureHeight - bottom, this.pictureHeight - top]
			: [top, bottom];
		return {
			from, to, pixels: this.canvas.width,
			firstRow: Math.max(0, Math.floor(first / ROW)), lastRow: Math.ceil(last / ROW) - 1,
		};
	}

	paint(): void {
		const { tree, palette, looks } = this;
		const context = this.canvas.getContext("2d", { alpha: false });
		if (!tree || !palette || !looks || !context || !this.width || !this.height) return;
		const ratio = this.resize();
		context.setTransform(1, 0, 0, 1, 0, 0);
		context.fillStyle = palette.ground;
		context.fillRect(0, 0, this.canvas.width, this.canvas.height);
		this.paintBoxes(context, tree, palette, looks, ratio);
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		this.paintLabels(context, tree, looks, ratio);
		this.outline(context, this.hovered, palette.text, 1);
		const chosen = this.matches ? palette.text : palette.accent; // found boxes have the accent
		if (this.selected >= 0) this.outline(context, this.selected, chosen, this.ring ? 3 : 2);
		this.onPaint?.();
	}

	private paintBoxes(context: CanvasRenderingContext2D, t: Tree, palette: Palette, looks: Looks,
			   ratio: number): void {
		this.labels.length = 0;
		this.modules.clear();
		const view = this.window();
		const rows = view.lastRow - view.firstRow + 1;
		const tall = Math.round(ROW * ratio) - 1;
		const top = (depth: number) => Math.round((this.rowTop(depth) - this.shown.top) * ratio);
		const rest = palette.modules[OTHER]![0]!;
		this.strips.begin(view.pixels, rows, palette.groundPixel);
		this.walk.visit(t, view, (node, x, right, end) => {
			const i = node < 0 ? -1 - node : node;
			const left = Math.max(x, 0);
			const wide = Math.min(right, view.pixels) - left;
			if (wide <= 0) return;
			const found = this.isFound(t, i, end, node < 0 || wide < 3);
			const paint = found ? palette.match : node < 0 && !t.before ? rest : looks.paint(palette, i);
			const fading = this.fading(t, i, found);
			const depth = t.depth[i]!;
			if (this.drawing) {
				this.drawing.push(rectText(left / ratio, top(depth) / ratio, (wide - (right - x > 3 ? 1 : 0)) / ratio,
					tall / ratio, pixelText(paint.pixels[fading]), node < 0 ? "" : t.texts[t.name[i]!]!));
			} else if (palette.forced) {
				outlined(context, palette, paint, left, top(depth), wide, tall);
			} else {
				const to = left + wide - (right - x > 3 ? 1 : 0);
				this.strips.box(depth - view.firstRow, left, to, paint.pixels[fading]);
			}
			if (node <= 0 && i > 0) return;
			if (t.kind[i] === 0 && i > 0) {
				const module = t.module[i]!;
				this.modules.set(module, (this.modules.get(module) ?? 0) + wide);
			}
			if (wide / ratio < LABEL_LEAST) return;
			this.labels.push({ node: i, x: left / ratio, y: top(depth) / ratio, width: wide / ratio,
				color: fading && !palette.forced ? palette.text : paint.text });
		});
		if (!palette.forced && !this.drawing) this.strips.draw(context, rows, tall, (row) => top(row + view.firstRow));
	}

	/** 1: callers of the zoomed node and what is beside it; 2: what a search does not find. */
	private fading(t: Tree, i: number, found: boolean): 0 | 1 | 2 {
		if (this.matches) return found || i === 0 ? 0 : 2;
		const outside = i < this.zoomed || i >= t.end[this.zoomed]!;
		return outside ? 1 : 0;
	}

	/** Whether a search finds the node; inside: or one of those up to end, which have no box. */
	private isFound(t: Tree, i: number, end: number, inside: boolean): boolean {
		if (!this.matches) return false;
		if (inside) return this.matches.before[end]! > this.matches.before[i]!;
		return isMatch(t, this.matches.texts, i);
	}

	private paintLabels(context: CanvasRenderingContext2D, t: Tree, looks: Looks, ratio: number): void {
		context.font = `${FONT_SIZE}px ${this.family}`;
		context.textBaseline = "middle";
		const { column } = this;
		let style = "";
		for (const label of this.labels) {
			const columns = Math.floor((label.width - 8) / column);
			let said = fit(looks.spelled(t.name[label.node]!), columns);
			if (said === "") continue;
			if (label.color !== style) context.fillStyle = style = label.color;
			const line = this.byLine ? t.line[label.node]! : 0;
			if (line && said.length + 7 <= columns) said += `:${line}`;
			// Half a pixel lower than the middle: names have more ascenders than descenders.
			const y = Math.round((label.y + ROW / 2 + 0.5) * ratio) / ratio;
			this.drawing?.push(textText(label.x + 4, y, said, label.color));
			context.fillText(said, label.x + 4, y);
			const share = this.share(t, label.node);
			if (said.length + share.length + 3 > columns) continue;
			this.drawing?.push(textText(label.x + label.width - 5 - share.length * column, y, share, label.color));
			context.globalAlpha = 0.72;
			context.fillText(share, label.x + label.width - 5 - share.length * column, y);
			context.globalAlpha = 1;
		}
	}

	/** All rows, also those that the window does not show, in the width that it has. */
	drawn(): string {
		const { height, shown, selected, hovered } = this;
		this.height = 0;
		this.height = this.pictureHeight;
		this.shown = { ...shown, top: 0 };
		this.selected = this.hovered = -1;
		this.drawing = [];
		this.paint();
		const elements = this.drawing;
		const tall = this.height;
		Object.assign(this, { height, shown, selected, hovered, drawing: null });
		this.paint();
		return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${tall}" font-size="${
			FONT_SIZE}" font-family="${escaped(this.family)}"><rect width="100%" height="100%" fill="${
			this.palette!.ground}"/>${elements.join("\n")}</svg>`;
	}

	private share(t: Tree, i: number): string {
		if (t.before) {
			const change = t.total[i]! - t.before[i]!;
			return changeText(change, this.blocks);
		}
		return `${amountText(t.total[i]!, this.blocks)}  ${percentText(t.total[i]!, t.total[0]!)}`;
	}

	private outline(context: CanvasRenderingContext2D, node: number, color: string, wide: number): void {
		const t = this.tree!;
		if (node < 0 || node >= t.count) return;
		const x = Math.max(this.xOf(t.left[node]!), 0);
		const right = Math.min(this.xOf(t.left[node]! + t.width[node]!), this.width);
		if (right < 0 || x > this.width) return;
		context.strokeStyle = color;
		context.lineWidth = wide;
		const y = this.rowTop(t.depth[node]!) - this.shown.top;
		context.strokeRect(x + wide / 2 - 0.5, y + wide / 2 - 0.5,
			Math.max(2, right - x - wide), ROW - wide);
	}
}
