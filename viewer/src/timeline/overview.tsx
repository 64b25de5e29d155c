// SPDX-License-Identifier: Apache-2.0
// The strip that keeps the whole recording in sight, with the window marked. Dragging makes a new
// window, moves the one there is, or one of its ends.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Curve } from "./answers.ts";
import { clearCanvas, colour, useTheme, type Plot } from "./canvas.ts";
import { moved, type Range } from "./times.ts";

const HEIGHT = 44;
const GRIP = 6; // pixels around an end of the window

interface Props {
	curve: Curve | undefined;
	failed: boolean; // there will be no curve
	duration: number;
	range: Range;
	peak: number | null;
	plot: Plot;
	onRange(range: Range, dragging: boolean): void;
}

interface Drag {
	kind: "new" | "move" | "from" | "to";
	at: number; // where it began, in ns
	range: Range; // and the window then
}

function draw(canvas: HTMLCanvasElement, props: Props, width: number) {
	const { curve, duration, range, peak, plot } = props;
	const context = clearCanvas(canvas, width, HEIGHT);
	const x = (ns: number) => plot.left + (ns / Math.max(1, duration)) * plot.width;
	context.fillStyle = colour("--panel");
	context.fillRect(plot.left, 0, plot.width, HEIGHT);
	if (curve) {
		const most = Math.max(1, ...curve.live_bytes);
		context.beginPath();
		context.moveTo(plot.left, HEIGHT);
		curve.times_ns.forEach((ns, i) =>
			context.lineTo(x(ns), HEIGHT - (curve.live_bytes[i]! / most) * (HEIGHT - 6)));
		const last = curve.live_bytes.at(-1) ?? 0;
		context.lineTo(plot.left + plot.width, HEIGHT - (last / most) * (HEIGHT - 6));
		context.lineTo(plot.left + plot.width, HEIGHT);
		context.globalAlpha = 0.45;
		context.fillStyle = colour("--live");
		context.fill();
		context.globalAlpha = 1;
	} else if (!props.failed) {
		context.fillStyle = colour("--dim");
		context.textAlign = "center";
		context.font = getComputedStyle(canvas).font;
		context.fillText("Reading…", plot.left + plot.width / 2, HEIGHT / 2 + 4);
	}
	if (peak !== null) {
		context.fillStyle = colour("--text");
		context.fillRect(Math.round(x(peak)), 0, 1, 6);
	}
	const left = Math.max(plot.left, x(range.from));
	const right = Math.min(plot.left + plot.width, Math.max(left + 2, x(range.to)));
	context.fillStyle = colour("--ground");
	context.globalAlpha = 0.7;
	context.fillRect(plot.left, 0, left - plot.left, HEIGHT);
	context.fillRect(right, 0, plot.left + plot.width - right, HEIGHT);
	context.globalAlpha = 1;
	context.strokeStyle = colour("--accent");
	context.lineWidth = 1.5;
	context.strokeRect(left + 0.75, 0.75, Math.max(1, right - left - 1.5), HEIGHT - 1.5);
}

export function Overview(props: Props) {
	const canvas = useRef<HTMLCanvasElement>(null);
	const drag = useRef<Drag | null>(null);
	const [cursor, setCursor] = useState("crosshair");
	const theme = useTheme();
	const { curve, duration, plot, range } = props;
	const width = plot.left + plot.width;
	useEffect(() => {
		if (canvas.current && plot.width) draw(canvas.current, props, width);
	}, [curve, props.failed, duration, range.from, range.to, plot.left, plot.width, props.peak, theme]);

	const time = (event: PointerEvent) => {
		const x = event.clientX - canvas.current!.getBoundingClientRect().left - plot.left;
		return Math.min(1, Math.max(0, x / plot.width)) * duration;
	};
	const kindAt = (ns: number): Drag["kind"] => {
		const grip = (GRIP / plot.width) * duration;
		const whole = range.to - range.from >= duration;
		if (whole) return "new";
		if (Math.abs(ns - range.from) < grip) return "from";
		if (Math.abs(ns - range.to) < grip) return "to";
		return ns > range.from && ns < range.to ? "move" : "new";
	};
	const dragged = (d: Drag, ns: number): Range => {
		if (d.kind === "move")
			return moved(d.range, (ns - d.at) / (d.range.to - d.range.from), 1, duration);
		const fixed = d.kind === "from" ? d.range.to : d.kind === "to" ? d.range.from : d.at;
		return { from: Math.min(fixed, ns), to: Math.max(fixed, ns) };
	};
	return (
		<canvas
			ref={canvas}
			class="timeline-overview"
			style={{ cursor, height: `${HEIGHT}px` }}
			role="img"
			aria-label="Live bytes over the whole recording, with the part that is shown"
			aria-busy={!curve && !props.failed}
			title="Drag to choose a part of the recording; double click shows all of it"
			onPointerDown={(event) => {
				const at = time(event);
				drag.current = { kind: kindAt(at), at, range };
				canvas.current!.setPointerCapture(event.pointerId);
			}}
			onPointerMove={(event) => {
				const ns = time(event);
				const kind = drag.current?.kind ?? kindAt(ns);
				setCursor(kind === "new" ? "crosshair" : kind === "move" ? "grab" : "ew-resize");
				if (drag.current && Math.abs(ns - drag.current.at) > (2 / plot.width) * duration)
					props.onRange(dragged(drag.current, ns), true);
			}}
			onPointerUp={(event) => {
				const d = drag.current;
				drag.current = null;
				const ns = time(event);
				if (d && Math.abs(ns - d.at) > (2 / plot.width) * duration)
					props.onRange(dragged(d, ns), false);
			}}
			onDblClick={() => props.onRange({ from: 0, to: duration }, false)}
		/>
	);
}
