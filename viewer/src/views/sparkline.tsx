// SPDX-License-Identifier: Apache-2.0
// Live bytes over the whole run as one small area, with the peak marked.
import { bytesText, durationText } from "../format.ts";

export interface Curve {
	times_ns: number[];
	live_bytes: number[];
}

const WIDTH = 1000;
const HEIGHT = 100;

function area(curve: Curve, from: number, span: number, highest: number): string {
	const points = curve.times_ns.map((time, at) => {
		const x = ((time - from) / span) * WIDTH;
		const y = HEIGHT - (curve.live_bytes[at]! / highest) * (HEIGHT - 4);
		return `${x.toFixed(1)},${y.toFixed(1)}`;
	});
	return [points[0]?.replace(/^[^,]*/, "0") ?? `0,${HEIGHT}`, ...points].join(" L");
}

export function Sparkline(props: { curve: Curve; peakTime: number; onOpen(): void }) {
	const { curve } = props;
	// The first point is the end of the first step.
	const [first = 0, second = 2 * first] = curve.times_ns;
	const from = Math.max(0, 2 * first - second);
	const to = curve.times_ns.at(-1) ?? 1;
	const span = to - from || 1;
	const highest = Math.max(1, ...curve.live_bytes);
	const line = area(curve, from, span, highest);
	const peak = Math.max(0, Math.min(100, (100 * (props.peakTime - from)) / span));
	const fromText = from ? durationText(from) : "0 s";
	const label = `Live bytes from ${fromText} to ${durationText(to)}, at most ${bytesText(highest)}`;
	return (
		<button type="button" class="sparkline" title="Open the timeline" onClick={props.onOpen}>
			<svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
				<path class="area" d={`M0,${HEIGHT} L${line} L${WIDTH},${HEIGHT} Z`} />
				<path class="edge" d={`M${line}`} vector-effect="non-scaling-stroke" />
			</svg>
			<span class="peak-mark" style={{ left: `${peak.toFixed(2)}%` }}>
				<span class={peak > 50 ? "left" : ""}>{`peak at ${durationText(props.peakTime)}`}</span>
			</span>
			<span class="axis">
				<span>{fromText}</span>
				<span>{durationText(to)}</span>
			</span>
		</button>
	);
}
