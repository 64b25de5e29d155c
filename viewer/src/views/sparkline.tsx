// SPDX-License-Identifier: Apache-2.0
// Live bytes over the time that is shown as one small area, with the peak marked.
import { bytesText, durationText } from "../format.ts";
import type { Range } from "../timeline/times.ts";

export interface Curve {
	times_ns: number[];
	live_bytes: number[];
}

const WIDTH = 1000;
const HEIGHT = 100;

function area(curve: Curve, range: Range, highest: number): string {
	const span = range.to - range.from || 1;
	const points = curve.times_ns.map((time, at) => {
		const x = Math.max(0, (time - range.from) / span) * WIDTH;
		const y = HEIGHT - (curve.live_bytes[at]! / highest) * (HEIGHT - 4);
		return `${x.toFixed(1)},${y.toFixed(1)}`;
	});
	const last = points.at(-1) ?? `0,${HEIGHT}`;
	return [points[0]?.replace(/^[^,]*/, "0") ?? `0,${HEIGHT}`, ...points,
		last.replace(/^[^,]*/, `${WIDTH}`)].join(" L");
}

/** The peak of the recording; beside the curve where the part that is shown does not have it. */
function PeakMark({ time, range }: { time: number; range: Range }) {
	const share = (100 * (time - range.from)) / (range.to - range.from || 1);
	const text = `peak at ${durationText(time)}`;
	if (share < 0) return <span class="peak-aside">{`← ${text}`}</span>;
	if (share > 100) return <span class="peak-aside right">{`${text} →`}</span>;
	return (
		<span class="peak-mark" style={{ left: `${share.toFixed(2)}%` }}>
			<span class={share > 50 ? "left" : ""}>{text}</span>
		</span>
	);
}

interface SparklineProps {
	curve: Curve;
	range: Range;
	peakTime: number | null;
	onOpen(): void;
}

export function Sparkline(props: SparklineProps) {
	const { curve, range, peakTime } = props;
	const highest = Math.max(0, ...curve.live_bytes);
	const line = area(curve, range, highest || 1);
	const fromText = range.from ? durationText(range.from) : "0 s";
	const label = `Live bytes from ${fromText} to ${durationText(range.to)}, at most ${bytesText(highest)}`;
	return (
		<button type="button" class="sparkline" title="Open the timeline" onClick={props.onOpen}>
			<svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
				<path class="area" d={`M0,${HEIGHT} L${line} L${WIDTH},${HEIGHT} Z`} />
				<path class="edge" d={`M${line}`} vector-effect="non-scaling-stroke" />
			</svg>
			{peakTime !== null && <PeakMark time={peakTime} range={range} />}
			<span class="axis">
				<span>{fromText}</span>
				<span>{durationText(range.to)}</span>
			</span>
		</button>
	);
}
