// SPDX-License-Identifier: Apache-2.0
// Lanes of threads on a canvas that is as large as what is visible of them.
//
//	v worker-3              header
//	|-- request -------|    rows of spans, by depth
//	  |- parse -|
//	  '    ''    '          instants
import { threadNumber } from "../format.ts";
import { clearCanvas, colour, type Plot } from "./canvas.ts";
import type { Boxes, Lane, TrackType } from "./answers.ts";
import type { Range } from "./times.ts";

export const HEADER = 20;
export const ROW = 17;
const FOLDED = 9;
const GAP = 5;
const NAMED = 24; // pixels from which on a span has its name in it
const COLOURS = [0, 2, 3, 4, 6, 7, 9]; // of the bands; the orange ones are near that of pauses

/** Where a lane lies below the top of all. */
export interface Place {
	lane: number; // index in the answer's lanes
	top: number;
	height: number;
	folded: boolean;
}

export function places(lanes: Lane[], folded: (lane: Lane, index: number) => boolean): Place[] {
	let top = 0;
	return lanes.map((lane, i) => {
		const is = folded(lane, i);
		const height = HEADER + (is ? FOLDED : lane.rows * ROW) + GAP;
		const place = { lane: i, top, height, folded: is };
		top += height;
		return place;
	});
}

export function laneName(lane: Lane): string {
	if (lane.thread === null) return "Process";
	if (!lane.thread) return `thread ${lane.tid}`;
	const number = threadNumber(lane.tid!);
	return number ? `${lane.thread} (${number})` : lane.thread;
}

/** The same name has the same colour in each trace. */
function typeColour(type: TrackType): string {
	if (type.pause) return "--timeline-pause";
	let hash = 7;
	for (const c of type.name) hash = (hash * 31 + c.codePointAt(0)!) >>> 0;
	return `--timeline-band${COLOURS[hash % COLOURS.length]}`;
}

export interface Scene {
	plot: Plot;
	range: Range;
	end: number; // of the recording
	types: TrackType[];
	lanes: Lane[];
	places: Place[];
	/** The rows of a lane; undefined: not known yet. */
	rows(lane: number): Boxes[] | undefined;
	top: number; // of what is visible
	height: number;
	chosen: Hit | null;
}

/** A box: where it is in the answer. */
export interface Hit {
	lane: number;
	row: number;
	box: number;
}

class Painter {
	readonly colours = new Map<string, string>();
	readonly context: CanvasRenderingContext2D;
	readonly scene: Scene;

	constructor(context: CanvasRenderingContext2D, scene: Scene) {
		this.context = context;
		this.scene = scene;
	}

	x(ns: number): number {
		const { plot, range } = this.scene;
		return plot.left + ((ns - range.from) / (range.to - range.from)) * plot.width;
	}

	colour(name: string): string {
		let value = this.colours.get(name);
		if (value === undefined) this.colours.set(name, (value = colour(name)));
		return value;
	}

	/** The ground of a name in this colour. */
	pale(name: string): string {
		const key = `pale ${name}`;
		let value = this.colours.get(key);
		if (value === undefined) {
			value = `color-mix(in oklab, ${this.colour(name)} 45%, ${this.colour("--panel")})`;
			this.colours.set(key, value);
		}
		return value;
	}

	text(text: string, x: number, y: number, width: number) {
		const { context } = this;
		let shown = text;
		if (width < 14) return;
		if (context.measureText(shown).width > width) {
			const each = context.measureText(text).width / text.length;
			shown = text.slice(0, Math.max(0, Math.floor(width / each) - 1));
			if (!shown) return;
			shown += "…";
		}
		context.fillText(shown, x, y);
	}

	span(boxes: Boxes, i: number, y: number, height: number, names: boolean) {
		const { context, scene } = this;
		const end = boxes.end_ns[i] ?? scene.end;
		const left = Math.max(scene.plot.left, this.x(boxes.start_ns[i]!));
		const right = Math.min(scene.plot.left + scene.plot.width, Math.max(left + 1, this.x(end)));
		const type = scene.types[boxes.type[i]!]!;
		const many = boxes.count[i]! > 1;
		const wide = !many && right - left >= NAMED;
		const busy = boxes.busy_ns[i]! / Math.max(1, end - boxes.start_ns[i]!);
		context.fillStyle = wide && !type.pause ? this.pale(typeColour(type))
			: this.colour(typeColour(type));
		context.globalAlpha = many ? 0.35 + 0.65 * busy : 1;
		context.fillRect(left, y, right - left - (right - left > 3 ? 0.5 : 0), height);
		context.globalAlpha = 1;
		if (!names || !wide) return;
		context.fillStyle = this.colour(type.pause ? "--timeline-pause-text" : "--text");
		this.text(type.name, left + 4, y + height / 2 + 0.5, right - left - 8);
	}

	instants(boxes: Boxes, y: number, height: number) {
		const { context } = this;
		for (let i = 0; i < boxes.start_ns.length; i++) {
			const type = this.scene.types[boxes.type[i]!]!;
			const left = this.x(boxes.start_ns[i]!);
			const right = this.x(boxes.end_ns[i] ?? boxes.start_ns[i]!);
			context.fillStyle = this.colour(type.category === "thread" ? "--accent" : "--dim");
			context.fillRect(left - 0.75, y + 2, Math.max(1.5, right - left), height - 4);
		}
	}

	lane(place: Place) {
		const { context, scene } = this;
		const lane = scene.lanes[place.lane]!;
		const rows = scene.rows(place.lane);
		const { plot } = scene;
		let y = place.top - scene.top + HEADER;
		context.fillStyle = this.colour("--line");
		context.fillRect(0, place.top - scene.top, plot.left + plot.width, 1);
		this.lifetime(lane, y, place.height - HEADER - GAP);
		if (!rows) return;
		context.save();
		context.beginPath();
		context.rect(plot.left, place.top - scene.top, plot.width, place.height);
		context.clip();
		rows.forEach((boxes, k) => {
			if (place.folded && k > 0) return;
			const height = place.folded ? FOLDED - 2 : ROW - 1;
			if (boxes.kind === "instants") this.instants(boxes, y, height);
			else
				for (let i = 0; i < boxes.start_ns.length; i++)
					this.span(boxes, i, y, height, !place.folded);
			const { chosen } = scene;
			if (chosen?.lane === place.lane && chosen.row === k) this.outline(boxes, chosen.box, y, height);
			y += ROW;
		});
		context.restore();
	}

	/** The ground of a lane, as long as its thread was known to exist. */
	lifetime(lane: Lane, y: number, height: number) {
		const { context, scene } = this;
		const { plot } = scene;
		const left = Math.max(plot.left, lane.began_ns === null ? plot.left : this.x(lane.began_ns));
		const end = plot.left + plot.width;
		const right = Math.min(end, lane.ended_ns === null ? end : this.x(lane.ended_ns));
		if (right <= left) return;
		context.fillStyle = this.colour("--panel");
		context.fillRect(left, y, right - left, height);
	}

	outline(boxes: Boxes, i: number, y: number, height: number) {
		const left = this.x(boxes.start_ns[i]!);
		const right = Math.max(left + 2, this.x(boxes.end_ns[i] ?? this.scene.end));
		this.context.strokeStyle = this.colour("--text");
		this.context.lineWidth = 1.5;
		this.context.strokeRect(left, y, right - left, height);
	}
}

export function drawLanes(canvas: HTMLCanvasElement, scene: Scene) {
	const width = scene.plot.left + scene.plot.width;
	const context = clearCanvas(canvas, width, scene.height);
	const painter = new Painter(context, scene);
	context.font = "11px system-ui, sans-serif";
	context.textBaseline = "middle";
	for (const place of scene.places)
		if (place.top < scene.top + scene.height && place.top + place.height > scene.top)
			painter.lane(place);
}

/** The box at a place of the canvas; small ones are found from two pixels away. */
export function boxAt(scene: Scene, x: number, y: number): Hit | null {
	const place = scene.places.find((p) =>
		y + scene.top >= p.top + HEADER && y + scene.top < p.top + p.height);
	const rows = place && scene.rows(place.lane);
	if (!place || !rows || x < scene.plot.left) return null;
	const row = place.folded ? 0 : Math.floor((y + scene.top - place.top - HEADER) / ROW);
	const boxes = rows[row];
	if (!boxes) return null;
	const perPixel = (scene.range.to - scene.range.from) / scene.plot.width;
	const ns = scene.range.from + (x - scene.plot.left) * perPixel;
	let nearest = -1;
	let distance = 3 * perPixel;
	for (let i = 0; i < boxes.start_ns.length; i++) {
		const start = boxes.start_ns[i]!;
		const end = boxes.end_ns[i] ?? scene.end;
		const away = ns < start ? start - ns : ns > end ? ns - end : 0;
		if (away < distance) {
			distance = away;
			nearest = i;
		}
	}
	return nearest < 0 ? null : { lane: place.lane, row, box: nearest };
}
