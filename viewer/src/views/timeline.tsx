// SPDX-License-Identifier: Apache-2.0
// Memory over time: the whole recording in a strip, the window as stacked bands with lines over them,
// and below, on the same time axis, what the threads did.
import { useMemo, useRef, useState } from "preact/hooks";
import { requestText, type Estimate } from "../engine/engine.ts";
import { bytesOf, estimateText, figureText } from "../format.ts";
import { useKeys } from "../keyboard.ts";
import { useAnswer } from "../shell/answer.ts";
import { questionParameters, withoutPicture } from "../state.ts";
import "../timeline.css";
import type { Counter, Counters, Curve, Points, Series } from "../timeline/answers.ts";
import { useWidth, type Plot } from "../timeline/canvas.ts";
import { Chart, type Band, type Line } from "../timeline/chart.tsx";
import { descend, descentOf } from "../timeline/descent.ts";
import { Lanes } from "../timeline/lanes.tsx";
import { Legend } from "../timeline/legend.tsx";
import { Moment } from "../timeline/moment.tsx";
import { Overview } from "../timeline/overview.tsx";
import { Selection } from "../timeline/selection.tsx";
import { moved, parseTime, rangeOf, rangeOptions, tickText, timeOption, type Range }
	from "../timeline/times.ts";
import { phrases } from "../shell/filter_kinds.ts";
import type { ViewProps } from "../view.ts";
import { rowName } from "./row.ts";

const BANDS = 12;
const LEGEND = 290; // pixels, where there is room for it beside the chart
const GAP = 10;
const LINE_COLOURS = ["--timeline-line0", "--timeline-line1", "--timeline-line2", "--timeline-line3"];
const groups: [string, string][] = [
	["function", "function"], ["line", "line"], ["module", "module"], ["stack", "stack"],
	["thread", "thread"], ["size", "size"], ["label", "label"], ["heap", "heap"],
];

/** Cumulated values as a rate: what each step added, per second. */
function rates(values: number[], times: number[], from: number): number[] {
	return values.map((value, i) => {
		const seconds = (times[i]! - (i ? times[i - 1]! : from)) / 1e9;
		const added = value - (i ? values[i - 1]! : 0);
		return seconds > 0 ? Math.max(0, added) / seconds : 0;
	});
}

interface Choices {
	allocated: boolean;
	blocks: boolean;
}

function pointsOf(points: Points, times: number[], from: number, choices: Choices): number[] {
	if (choices.allocated)
		return rates(choices.blocks ? points.allocated_blocks : points.allocated_bytes, times, from);
	return choices.blocks ? points.live_blocks : points.live_bytes;
}

/** A function without a name is said with the caller that has one. */
function bandName(series: Series, i: number): string {
	const { name } = rowName(series.rows[i]!, series.by);
	const caller = series.callers[i];
	return caller ? `${name} in ${caller}` : name;
}

/** The lowest band is that of the first row; all others lie on top. */
function bandsOf(series: Series, from: number, choices: Choices): { bands: Band[]; rows: number[] } {
	const bands: Band[] = [];
	const rows: number[] = [];
	series.rows.forEach((row, i) => {
		const values = pointsOf(row, series.times_ns, from, choices);
		if (!values.some((value) => value > 0)) return;
		bands.push({ name: bandName(series, i), colour: `--timeline-band${i % BANDS}`, values });
		rows.push(i);
	});
	const values = pointsOf(series.others, series.times_ns, from, choices);
	if (values.some((value) => value > 0)) {
		bands.push({ name: "all others", colour: "--timeline-others", values });
		rows.push(-1);
	}
	return { bands, rows };
}

/** The moment at which all bands together are highest. */
function highestOf(bands: Band[]): number {
	const sums = (bands[0]?.values ?? []).map((_, i) =>
		bands.reduce((sum, band) => sum + band.values[i]!, 0));
	return Math.max(0, sums.indexOf(Math.max(...sums)));
}

/** What the bands are at the peak, as the report has it: the moments that are drawn lie beside it. */
function peakValues(series: Series, rows: number[], peak: Estimate): number[] {
	const named = rows.filter((row) => row >= 0).map((row) => bytesOf(series.rows[row]!.self));
	const rest = bytesOf(peak) - named.reduce((sum, value) => sum + value, 0);
	return named.length < rows.length ? [...named, Math.max(0, rest)] : named;
}

/** The bands have other moments: a line has at each the value of the step that it is in. */
function lineOf(counter: Counter, i: number, steps: number[], times: number[]): Line {
	let step = 0;
	const values = times.map((time) => {
		while (step + 1 < steps.length && steps[step]! < time) step++;
		return counter.values[step] ?? null;
	});
	return {
		name: counter.rss ? "RSS" : counter.name,
		colour: counter.rss ? "--text" : LINE_COLOURS[i % LINE_COLOURS.length]!,
		dashed: counter.rss,
		unit: counter.unit ?? "",
		values,
	};
}

/** Moments at which the curve is larger than on both sides by a tenth of its largest value. */
function peaksOf(curve: Curve | undefined): number[] {
	if (!curve) return [];
	const values = curve.live_bytes;
	const least = Math.max(...values) / 10;
	const peaks: number[] = [];
	let top = 0;
	let lowest = 0;
	let rising = true;
	values.forEach((value, i) => {
		if (rising) {
			if (value > values[top]!) top = i;
			if (values[top]! - value > least) {
				peaks.push(curve.times_ns[top]!);
				rising = false;
				lowest = i;
			}
		} else {
			if (value < values[lowest]!) lowest = i;
			if (value - values[lowest]! > least) {
				rising = true;
				top = i;
			}
		}
	});
	if (rising && values.length && values[top]! > least) peaks.push(curve.times_ns[top]!);
	return peaks;
}

function Choice({ label, value, options, onValue }: {
	label: string; value: string; options: [string, string][]; onValue(value: string): void;
}) {
	return (
		<label class="timeline-field">
			{label}
			<select value={value} onChange={(event) => onValue(event.currentTarget.value)}>
				{options.map(([id, text]) => <option key={id} value={id}>{text}</option>)}
			</select>
		</label>
	);
}

function CounterMenu({ counters, chosen, onChosen }: {
	counters: Counter[]; chosen: string[]; onChosen(names: string[]): void;
}) {
	if (!counters.length) return null;
	return (
		<details class="timeline-menu">
			<summary>Lines: {chosen.length || "none"}</summary>
			<fieldset>
				<legend>Lines over the bands</legend>
				{counters.map((counter) => (
					<label key={`${counter.kind} ${counter.name}`}>
						<input
							type="checkbox"
							checked={chosen.includes(counter.name)}
							onChange={(event) => onChosen(event.currentTarget.checked
								? [...chosen, counter.name]
								: chosen.filter((name) => name !== counter.name))}
						/>
						{counter.rss ? "RSS (process.resident)" : counter.name}
						{counter.unit && <small>{counter.unit}</small>}
					</label>
				))}
			</fieldset>
		</details>
	);
}

/** Lines that are shown unless the user chooses: RSS, where it does not dwarf the bands. */
function usualLines(counters: Counter[], most: number): string[] {
	return counters.filter((c) => c.rss && c.most <= 4 * most).map((c) => c.name);
}

export default function Timeline(props: ViewProps) {
	const { engine, info, state, go, generation } = props;
	const { own } = state;
	const question = withoutPicture(state.question);
	const duration = Math.max(1, Number(info.info.duration_ns ?? 0));
	const host = useRef<HTMLDivElement>(null);
	const width = useWidth(host);
	const wide = width > 860;
	const [plot, setPlot] = useState<Plot>({ left: 0, width: 0 });
	const [point, setPoint] = useState<number | null>(null);
	const [lit, setLit] = useState<number | null>(null);
	const [draft, setDraft] = useState<Range | null>(null);
	const choices = { allocated: own.show === "allocated", blocks: own.unit === "blocks" };
	const unit = (choices.blocks ? "blocks" : "bytes") + (choices.allocated ? "/s" : "");
	// While a moment is looked at, the window is only what is shown, and no filter.
	const [zoomFrom, zoomTo] = (own.zoom ?? "").split(" ");
	const zoomed = own.zoom ? { from: zoomFrom || undefined, to: zoomTo || undefined } : undefined;
	const range = rangeOf(zoomed ?? question, duration);
	const by = own.by ?? "function";
	// What is live is drawn at the moments with the least and the most of it in each step; a rate needs
	// steps that are long enough to count in.
	const points = Math.min(1024, Math.round(width / 100) * (choices.allocated ? 10 : 50) + 10);

	const filters = questionParameters(question);
	const ranking = { metric: choices.allocated ? "allocated" : "peak", at: undefined };
	const ask = width > 0;
	const series = useAnswer<Series>(engine, ask
		? requestText("series", { ...filters, ...zoomed, ...ranking, by, points, top: BANDS,
			extremes: choices.allocated ? undefined : "1" }) : null, generation);
	const counters = useAnswer<Counters>(engine, ask
		? requestText("counters", { from: question.from, to: question.to, ...zoomed, points }) : null, generation);
	const wholeCurve = useAnswer<Curve>(engine, ask ? requestText("curve", {
		...filters, metric: "peak", at: undefined, from: undefined, to: undefined, points: 500,
	}) : null, generation);
	const curve = wholeCurve.value;

	const { bands, rows } = useMemo(
		() => series.value ? bandsOf(series.value, range.from, choices) : { bands: [], rows: [] },
		[series.value, choices.allocated, choices.blocks]);
	const known = counters.value?.counters ?? [];
	const most = Math.max(1, ...(curve?.live_bytes ?? []));
	const chosen = own.lines === undefined ? usualLines(known, most)
		: own.lines.split(" ").filter((name) => known.some((c) => c.name === name));
	const lines = useMemo(
		() => known.filter((c) => chosen.includes(c.name))
			.map((c, i) => lineOf(c, i, counters.value!.times_ns, series.value?.times_ns ?? [])),
		[counters.value, series.value, chosen.join(" ")]);

	// What was live at one moment says little about a range: a range shows what was allocated in
	// it, until it is given up.
	const window = (next: { from?: string; to?: string }) => {
		const chosen = next.from !== undefined || next.to !== undefined;
		const live = [undefined, "peak", "live"].includes(question.metric);
		if (chosen && live)
			go({
				question: { ...next, metric: "allocated", at: undefined },
				own: { zoom: undefined, until: undefined, was: [question.metric ?? "peak", question.at ?? ""].join(" ").trim() },
			});
		else if (!chosen && own.was && question.metric === "allocated") {
			const [metric, at] = own.was.split(" ");
			go({ question: { ...next, metric: metric === "peak" ? undefined : metric, at },
				own: { was: undefined } });
		} else go({ question: next, own: { zoom: undefined } });
	};
	const whole = () => window({ from: undefined, to: undefined });
	const show = (next: Range) => {
		setDraft(null);
		window(rangeOptions(next, duration, plot.width));
	};
	const moment = (ns: number) => go({
		question: { metric: "live", at: timeOption(ns, (range.to - range.from) / plot.width),
			from: undefined, to: undefined },
		own: { until: undefined,
			zoom: zoomed ? own.zoom : question.from || question.to ? `${question.from ?? ""} ${question.to ?? ""}` : undefined },
	});
	/** The first moment, or the second; a third one begins anew. */
	const pick = (ns: number) => {
		if (at === undefined || own.until !== undefined) return moment(ns);
		const [first, second] = at < ns ? [question.at!, timeOption(ns, (range.to - range.from) / plot.width)]
			: [timeOption(ns, (range.to - range.from) / plot.width), question.at!];
		if (first !== second) go({ question: { at: first }, own: { until: second } });
	};
	const peak = info.summary.peak_time_ns == null ? null : Number(info.summary.peak_time_ns);
	const at = question.metric === "live" && question.at ? parseTime(question.at) : undefined;
	const markers = useMemo(() => {
		const marked = [];
		const { bytes, samples } = info.summary.peak;
		if (peak !== null && bytes)
			marked.push({ ns: peak, text: `peak ${figureText(bytes, samples)}`, colour: "--text" });
		if (info.picture)
			marked.push({ ns: info.picture.time_ns, text: "picture of the heap", colour: "--timeline-line0" });
		if (at !== undefined) marked.push({ ns: at, text: `at ${question.at}`, colour: "--accent" });
		const until = at !== undefined && own.until ? parseTime(own.until) : undefined;
		if (until !== undefined) marked.push({ ns: until, text: `to ${own.until}`, colour: "--accent" });
		return marked;
	}, [info, peak, at, own.until]);

	const peaks = useMemo(() => peaksOf(curve), [curve]);
	const toPeak = (next: boolean) => {
		const now = at ?? (next ? -1 : duration + 1);
		const slack = duration / 250;
		const found = next ? peaks.find((ns) => ns > now + slack)
			: [...peaks].reverse().find((ns) => ns < now - slack);
		if (found !== undefined) moment(found);
	};
	useKeys("Timeline", [
		{ keys: ["["], does: "go to the peak before", run: () => toPeak(false) },
		{ keys: ["]"], does: "go to the next peak", run: () => toPeak(true) },
		{ keys: ["+", "="], does: "zoom in", run: () => show(moved(range, 0, 0.5, duration)) },
		{ keys: ["-"], does: "zoom out", run: () => show(moved(range, 0, 2, duration)) },
		{ keys: ["ArrowLeft"], does: "earlier", run: () => show(moved(range, -0.25, 1, duration)) },
		{ keys: ["ArrowRight"], does: "later", run: () => show(moved(range, 0.25, 1, duration)) },
		{ keys: ["0"], does: "show the whole time", run: whole },
		{ keys: ["Backspace"], does: "back to the callee", run: () => back(path.length - 1) },
	]);

	const path = descentOf(state);
	const back = (length: number) => {
		if (length >= 0 && length < path.length) go(descend(state, path.slice(0, length)));
	};
	const rowOf = (band: number) => series.value?.rows[rows[band] ?? -1];
	const descends = (band: number) => by === "function" && Boolean(rowOf(band)?.function);
	const down = (band: number) => {
		const name = rowOf(band)?.function;
		setLit(null);
		if (name && descends(band)) go(descend(state, [...path, name]));
	};
	const highest = useMemo(() => highestOf(bands), [bands]);
	const times = series.value?.times_ns ?? [];
	// The report's peak is not the largest sum of samples, which is mostly one whose samples were lucky.
	const ofAll = phrases({ ...question, from: undefined, to: undefined }).length === 0;
	const atPeak = point === null && peak !== null && unit === "bytes" && ofAll &&
		peak >= range.from && peak <= range.to;
	const drawn = atPeak ? times.filter((ns) => ns <= peak).length - 1 : (point ?? highest);
	const index = Math.max(0, Math.min(drawn, times.length - 1));
	const time = atPeak ? peak : (times[index] ?? 0);
	const when = tickText(time, range, (range.to - range.from) / 500);

	return (
		<section class="timeline" ref={host}>
			<div class="timeline-tools">
				<Choice label="Show" value={choices.allocated ? "allocated" : "live"}
					options={[["live", "live"], ["allocated", "allocated per second"]]}
					onValue={(show) => go({ own: { show: show === "live" ? undefined : show } })} />
				<Choice label="in" value={choices.blocks ? "blocks" : "bytes"}
					options={[["bytes", "bytes"], ["blocks", "blocks"]]}
					onValue={(unit) => go({ own: { unit: unit === "bytes" ? undefined : unit } })} />
				<Choice label="by" value={by} options={groups}
					onValue={(by) => go({ own: { by: by === "function" ? undefined : by } })} />
				<CounterMenu counters={known} chosen={chosen}
					onChosen={(names) => go({ own: { lines: names.join(" ") || "none" } })} />
				{path.length > 0 && (
					<nav class="timeline-path" aria-label="Way to these callers">
						<button type="button" onClick={() => back(0)}>all</button>
						{path.map((name, i) => (
							<button key={name} type="button" disabled={i === path.length - 1}
								onClick={() => back(i + 1)}>callers of {name}</button>
						))}
					</nav>
				)}
				<Selection engine={engine} question={question} generation={generation} range={range}
					duration={duration}
					onWindow={({ from, to }) => window({ from, to })} />
			</div>
			<Overview curve={curve} failed={wholeCurve.error !== undefined} duration={duration} range={draft ?? range} peak={peak} plot={plot}
				onRange={(next, dragging) => dragging ? setDraft(next)
					: next.to - next.from >= duration ? whole() : show(next)} />
			{series.error ? <p class="timeline-note" role="alert">{series.error}</p> : (
				<div class="timeline-main" style={{
					gridTemplateColumns: wide ? `minmax(0, 1fr) ${LEGEND}px` : "minmax(0, 1fr)",
				}}>
					<Chart times={times} bands={bands} lines={lines}
						unit={unit} steps={choices.allocated} range={range} markers={markers} lit={lit} loading={series.loading} reading={!series.value}
						width={Math.max(300, width - (wide ? LEGEND + GAP : 0))}
						onPlot={(next) => {
							if (next.left !== plot.left || next.width !== plot.width) setPlot(next);
						}}
						onPoint={setPoint} onLit={setLit} onRange={show} onMoment={pick} onWhole={whole} />
					<Legend bands={bands} lines={lines} unit={unit} index={index}
						when={atPeak ? `peak, at ${when}` : point === null ? `most, at ${when}` : `at ${when}`}
						values={atPeak && series.value && !zoomed && !question.from && !question.to
							? peakValues(series.value, rows, info.summary.peak) : undefined}
						total={atPeak ? estimateText(info.summary.peak) : undefined}
						reading={!series.value} lit={lit}
						descends={descends} onLit={setLit} onBand={down} />
				</div>
			)}
			{at !== undefined && !choices.allocated ? (
				<Moment engine={engine} question={question} generation={generation} at={question.at!}
					until={own.until} by={own.rows ?? "function"} go={go} />
			) : (
				<p class="timeline-hint">
					Click into the picture for what was live at that moment; a second click shows what grew between
					the two. A name leads to its callers.
				</p>
			)}
			<Lanes engine={engine} question={question} generation={generation} range={range}
				plot={plot} turned={own.lanes ? own.lanes.split("\n") : []}
				onTurn={(turned) => go({ own: { lanes: turned.join("\n") || undefined } }, true)}
				onRange={show} />
		</section>
	);
}
