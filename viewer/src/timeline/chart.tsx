// SPDX-License-Identifier: Apache-2.0
// Memory over time: bands stacked by row, and lines over them. uPlot draws; a band is the area below
// the sum of the rows up to it, painted before those of lower sums.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { bytesText, countText, durationText } from "../format.ts";
import { colour, useTheme, type Plot } from "./canvas.ts";
import { roundText, tickText, type Range } from "./times.ts";

export const CHART_HEIGHT = 340;
const AXIS = 78; // room for "1023 MiB"
const TICKS = 34;

export interface Band {
	name: string;
	colour: string; // a custom property
	values: number[];
}

export interface Line {
	name: string;
	colour: string;
	values: (number | null)[];
	unit: string; // "bytes": on the axis of the bands when those are bytes
	dashed?: boolean;
}

interface Marker {
	ns: number;
	text: string;
	colour: string;
}

interface Props {
	times: number[]; // ns
	bands: Band[]; // the lowest first
	lines: Line[];
	unit: string; // of the bands: "bytes", "blocks", "bytes/s", "blocks/s"
	steps: boolean; // values are those of the time from the moment before
	range: Range;
	markers: Marker[];
	lit: number | null; // the band that is pointed at, here or in the legend
	loading: boolean;
	reading: boolean; // nothing is known yet
	onPlot(plot: Plot): void;
	onPoint(index: number | null): void;
	onLit(band: number | null): void;
	onRange(range: Range): void;
	onMoment(ns: number): void;
	onWhole(): void;
	width: number;
}

export function valueText(value: number, unit: string): string {
	if (unit === "bytes") return bytesText(value);
	if (unit === "bytes/s") return `${bytesText(value)}/s`;
	if (unit === "ns") return durationText(value);
	if (unit === "blocks/s") return `${countText(value)}/s`;
	return countText(value) + (unit && unit !== "blocks" ? ` ${unit}` : "");
}

/** The sums of the bands up to each one. */
function stack(bands: Band[]): number[][] {
	const sums: number[][] = [];
	for (const band of bands) {
		const below = sums[sums.length - 1];
		sums.push(band.values.map((value, i) => value + (below?.[i] ?? 0)));
	}
	return sums;
}

/** For times: without 2.5, whose multiples have one digit more than the step. */
const roundSteps = Array.from({ length: 15 }, (_, i) => [1, 2, 5].map((digit) => digit * 10 ** i)).flat();
const powersOfTwo = Array.from({ length: 60 }, (_, i) => 2 ** i);

/** known: there are values, so that its numbers mean something. */
function valueAxis(unit: string, scale: string, side: 1 | 3, known: boolean): uPlot.Axis {
	return {
		scale,
		side,
		size: AXIS,
		stroke: colour("--dim"),
		font: "12px system-ui, sans-serif",
		grid: { show: side === 3, stroke: colour("--line"), width: 1 },
		ticks: { stroke: colour("--line"), width: 1, size: 4 },
		...(unit.startsWith("bytes") ? { incrs: powersOfTwo } : {}),
		values: (_, splits) => splits.map((value) => known ? roundText(valueText(value, unit)) : ""),
	};
}

function timeAxis(range: Range): uPlot.Axis {
	return {
		size: TICKS,
		space: 90,
		incrs: roundSteps,
		stroke: colour("--dim"),
		font: "12px system-ui, sans-serif",
		grid: { stroke: colour("--line"), width: 1 },
		ticks: { stroke: colour("--line"), width: 1, size: 4 },
		values: (_, splits) => {
			const step = splits.length > 1 ? splits[1]! - splits[0]! : range.to - range.from;
			return splits.map((ns) => tickText(ns, range, step));
		},
	};
}

function drawMarkers(plot: uPlot, props: Props) {
	const { left, top, width, height } = plot.bbox;
	const ratio = devicePixelRatio || 1;
	const context = plot.ctx;
	let clear = left; // to the left of this, a text is already there
	context.save();
	context.font = `${12 * ratio}px system-ui, sans-serif`;
	context.textBaseline = "top";
	context.textAlign = "left";
	for (const marker of [...props.markers].sort((a, b) => a.ns - b.ns)) {
		if (marker.ns < props.range.from || marker.ns > props.range.to) continue;
		const x = Math.round(plot.valToPos(marker.ns, "x", true));
		context.strokeStyle = context.fillStyle = colour(marker.colour);
		context.lineWidth = ratio;
		context.setLineDash([4 * ratio, 3 * ratio]);
		context.beginPath();
		context.moveTo(x, top);
		context.lineTo(x, top + height);
		context.stroke();
		const text = context.measureText(marker.text).width;
		let at = x + 4 * ratio;
		if (at + text > left + width) at = x - text - 4 * ratio;
		if (at < clear) continue;
		clear = at + text + 8 * ratio;
		context.globalAlpha = 0.85;
		context.fillStyle = colour("--panel");
		context.fillRect(at - 2 * ratio, top + ratio, text + 4 * ratio, 15 * ratio);
		context.globalAlpha = 1;
		context.fillStyle = colour(marker.colour);
		context.fillText(marker.text, at, top + 2 * ratio);
	}
	context.restore();
}

/** Lines of other units have an axis each, of which the first is shown, on the right. */
function scaleOf(line: Line, unit: string): string {
	return line.unit === unit ? "y" : `unit ${line.unit}`;
}

/** lit: asked at each drawing. */
function bandSeries(props: Props, lit: () => number | null): uPlot.Series[] {
	return [...props.bands].reverse().map((band, turned) => {
		const i = props.bands.length - 1 - turned;
		const full = colour(band.colour);
		const dim = `color-mix(in srgb, ${full} 35%, ${colour("--panel")})`;
		return {
			scale: "y",
			width: 1,
			points: { show: false },
			...(props.steps ? { paths: uPlot.paths.stepped!({ align: -1 }) } : {}),
			stroke: colour("--panel"),
			fill: () => (lit() !== null && lit() !== i ? dim : full),
		};
	});
}

function lineSeries(props: Props): uPlot.Series[] {
	return props.lines.map((line) => ({
		scale: scaleOf(line, props.unit),
		width: 1.75,
		points: { show: false },
		stroke: colour(line.colour),
		...(line.dashed ? { dash: [6, 3] } : {}),
	}));
}

interface Choice {
	from: number;
	to: number;
	left: number;
}

function options(props: Props, lit: () => number | null,
	choose: (choice: Choice | null) => void): uPlot.Options {
	const other = props.lines.find((line) => line.unit !== props.unit);
	const positive: uPlot.Range.Function = (_, __, most) => [0, most > 0 ? most * 1.06 : 1];
	const scales: uPlot.Scales = {
		x: { time: false, range: () => [props.range.from, props.range.to] },
		y: { range: positive },
	};
	for (const line of props.lines) scales[scaleOf(line, props.unit)] ??= { range: positive };
	const chosen = (u: uPlot): Choice => ({
		from: u.posToVal(u.select.left, "x"),
		to: u.posToVal(u.select.left + u.select.width, "x"),
		left: u.select.left + u.bbox.left / devicePixelRatio,
	});
	return {
		width: props.width,
		height: CHART_HEIGHT,
		padding: [8, other ? 0 : 30, 0, 0],
		legend: { show: false },
		cursor: {
			y: false,
			points: { show: false },
			drag: { x: true, y: false, setScale: false, dist: 4 },
			bind: { dblclick: () => () => (props.onWhole(), null) },
		},
		scales,
		axes: [
			timeAxis(props.range),
			valueAxis(props.unit, "y", 3, !props.reading),
			...(other ? [valueAxis(other.unit, scaleOf(other, props.unit), 1, true)] : []),
		],
		series: [{}, ...bandSeries(props, lit), ...lineSeries(props)],
		hooks: {
			ready: [(u) => props.onPlot({
				left: u.bbox.left / devicePixelRatio,
				width: u.bbox.width / devicePixelRatio,
			})],
			draw: [(u) => drawMarkers(u, props)],
			setCursor: [(u) => {
				props.onPoint(u.cursor.idx ?? null);
				if (u.select.width > 0) choose(chosen(u));
			}],
			setSelect: [(u) => {
				if (u.select.width <= 0) return;
				const { from, to } = chosen(u);
				choose(null);
				u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
				props.onRange({ from, to });
			}],
		},
	};
}

/** The band at a place of the plot. */
function bandAt(u: uPlot, sums: number[][], x: number, y: number): number | null {
	const index = u.posToIdx(x);
	const value = u.posToVal(y, "y");
	if (value < 0) return null;
	const band = sums.findIndex((sum) => (sum[index] ?? 0) >= value);
	return band < 0 ? null : band;
}

export function Chart(props: Props) {
	const host = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | null>(null);
	const latest = useRef(props);
	const pressed = useRef<{ x: number; y: number } | null>(null);
	const [choice, setChoice] = useState<Choice | null>(null);
	const theme = useTheme();
	latest.current = props;
	const sums = stack(props.bands);

	useEffect(() => {
		if (!host.current || !props.width) return;
		const now = () => latest.current;
		const made = new uPlot(
			options({
				...props,
				onPlot: (p) => now().onPlot(p),
				onPoint: (i) => now().onPoint(i),
				onRange: (r) => now().onRange(r),
				onWhole: () => now().onWhole(),
			}, () => now().lit, setChoice),
			[props.times, ...[...sums].reverse(), ...props.lines.map((line) => line.values)],
			host.current,
		);
		plot.current = made;
		return () => {
			made.destroy();
			plot.current = null;
		};
	}, [props.times, props.bands, props.lines, props.unit, props.range.from, props.range.to,
		props.width, props.markers, props.reading, theme]);
	useEffect(() => plot.current?.redraw(false, false), [props.lit]);

	const place = (event: MouseEvent) => {
		const u = plot.current;
		if (!u) return undefined;
		const box = u.over.getBoundingClientRect();
		return { u, x: event.clientX - box.left, y: event.clientY - box.top, box };
	};
	const onClick = (event: MouseEvent) => {
		const at = place(event);
		const from = pressed.current;
		if (!at || !from || Math.abs(event.clientX - from.x) > 3 || at.x < 0 || at.x > at.box.width)
			return;
		if (at.y >= 0) props.onMoment(at.u.posToVal(at.x, "x"));
	};
	const onMove = (event: MouseEvent) => {
		const at = place(event);
		if (!at || event.buttons) return;
		const inside = at.x >= 0 && at.x <= at.box.width && at.y >= 0 && at.y <= at.box.height;
		const band = inside ? bandAt(at.u, sums, at.x, at.y) : null;
		if (band !== props.lit) props.onLit(band);
	};
	return (
		<div
			class={`timeline-chart${props.loading ? " timeline-old" : ""}`}
			ref={host}
			style={{ height: `${CHART_HEIGHT}px` }}
			role="img"
			aria-busy={props.loading}
			aria-label={`${props.unit} over time: ${props.bands.length} bands, listed beside`}
			onMouseDown={(event) => (pressed.current = { x: event.clientX, y: event.clientY })}
			onClick={onClick}
			onMouseMove={onMove}
			onMouseLeave={() => (props.onLit(null), props.onPoint(null))}
		>
			{props.reading && <div class="timeline-reading">Reading…</div>}
			{choice && (
				<div class="timeline-choice" style={{ left: `${choice.left}px` }}>
					{tickText(choice.from, props.range, (choice.to - choice.from) / 50)}
					{" to "}
					{tickText(choice.to, props.range, (choice.to - choice.from) / 50)}
					{": "}
					<b>{durationText(choice.to - choice.from)}</b>
				</div>
			)}
		</div>
	);
}
