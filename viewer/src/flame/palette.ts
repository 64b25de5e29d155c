// SPDX-License-Identifier: Apache-2.0
// Colours of boxes, made from the page's custom properties. A module keeps its colour; its functions
// differ by shade, so that neighbours can be told apart.
import { hashText } from "./arrays.ts";

type Rgb = [number, number, number];

export interface Paint {
	fill: string;
	text: string;
	/** For an ImageData: as it is, of what is not in the zoomed node, of what a search leaves out. */
	pixels: [number, number, number];
}

export interface Palette {
	ground: string;
	groundPixel: number;
	text: string;
	line: string;
	accent: string;
	match: Paint;
	/** [module slot][shade]; the last slots are LIBRARY, RUNTIME and OTHER. */
	modules: Paint[][];
	/** [less, more][strength]; strength 0 is what is not significant. */
	changes: [Paint[], Paint[]];
	forced: boolean;
}

export const SHADES = 4;
export const STRENGTHS = 5;
const BASES = 7;
export const LIBRARY = BASES; // --base7 is grey
export const RUNTIME = BASES + 1;
export const OTHER = BASES + 2;

function reader(element: Element): (name: string) => Rgb {
	const style = getComputedStyle(element);
	const canvas = document.createElement("canvas");
	canvas.width = canvas.height = 1;
	const context = canvas.getContext("2d", { willReadFrequently: true })!;
	return (name) => {
		context.fillStyle = name.startsWith("--") ? style.getPropertyValue(name).trim() : name;
		context.fillRect(0, 0, 1, 1);
		const [r, g, b] = context.getImageData(0, 0, 1, 1).data;
		return [r!, g!, b!];
	};
}

function blend(a: Rgb, b: Rgb, share: number): Rgb {
	return [0, 1, 2].map((i) => a[i]! + (b[i]! - a[i]!) * share) as Rgb;
}

function css(c: Rgb): string {
	return `rgb(${c.map((one) => Math.round(one)).join(",")})`;
}

/** Relative luminance, as WCAG defines it. */
function luminance(c: Rgb): number {
	const [r, g, b] = c.map((one) => {
		const s = one / 255;
		return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
	});
	return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

const littleEndian = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

function pixel(c: Rgb): number {
	const [r, g, b] = c.map((one) => Math.round(one)) as Rgb;
	return (littleEndian ? (255 << 24) | (b << 16) | (g << 8) | r
		: (r << 24) | (g << 16) | (b << 8) | 255) >>> 0;
}

function painted(fill: Rgb, ground: Rgb): Paint {
	return {
		fill: css(fill),
		// Black and white have equal contrast at this luminance.
		text: luminance(fill) > 0.179 ? "#101418" : "#ffffff",
		pixels: [pixel(fill), pixel(blend(fill, ground, 0.45)), pixel(blend(fill, ground, 0.58))],
	};
}

export function readPalette(element: Element): Palette {
	const read = reader(element);
	if (matchMedia("(forced-colors: active)").matches) return forcedPalette(read);
	const ground = read("--ground");
	const text = read("--text");
	const dark = luminance(ground) < 0.18;
	const shades = (base: Rgb): Paint[] => Array.from({ length: SHADES }, (_, i) =>
		painted(blend(base, dark ? [0, 0, 0] : [255, 255, 255], i * (dark ? 0.09 : 0.13)), ground));
	const modules = Array.from({ length: BASES + 1 }, (_, i) => shades(read(`--base${i}`)));
	const grey = read("--base7");
	modules.push(shades(blend(grey, ground, 0.4)));
	modules.push(shades(blend(grey, ground, 0.62)));
	const change = (name: string): Paint[] =>
		Array.from({ length: STRENGTHS }, (_, i) => i === 0
			? painted(blend(grey, ground, 0.45), ground)
			: painted(blend(ground, read(name), 0.25 + (0.75 * i) / (STRENGTHS - 1)), ground));
	return {
		ground: css(ground), groundPixel: pixel(ground), text: css(text), line: css(read("--line")),
		accent: css(read("--accent")), match: painted(blend(read("--accent"), ground, 0.2), ground), modules,
		changes: [change("--significant-less"), change("--significant-more")], forced: false,
	};
}

function forcedPalette(read: (name: string) => Rgb): Palette {
	const [ground, text, accent] = [read("Canvas"), read("CanvasText"), read("Highlight")];
	const plain = { ...painted(ground, ground), text: css(text) };
	const chosen = { ...painted(accent, ground), text: css(read("HighlightText")) };
	const rows = (n: number): Paint[] => Array.from({ length: n }, () => plain);
	return {
		ground: css(ground), groundPixel: pixel(ground), text: css(text), line: css(text),
		accent: css(accent),
		match: chosen, modules: Array.from({ length: OTHER + 1 }, () => rows(SHADES)),
		changes: [rows(STRENGTHS), rows(STRENGTHS).map((one, i) => (i ? chosen : one))],
		forced: true,
	};
}

const taken = new Map<string, number>();

/** The module's place among --base0..7: by hash, or the next one that no other module has. */
export function moduleSlot(module: string): number {
	const known = taken.get(module);
	if (known !== undefined) return known;
	const used = new Set(taken.values());
	let slot = hashText(module.replace(/^.*\//, "")) % BASES;
	for (let i = 0; i < BASES && used.has(slot); i++) slot = (slot + 3) % BASES;
	taken.set(module, slot);
	return slot;
}
