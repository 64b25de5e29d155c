// SPDX-License-Identifier: Apache-2.0
// Types of spans, such as requests: how long they take and what one of them allocates. The chosen type
// shows how its spans differ, and its worst ones, each of which leads to its stacks.
import { requestText } from "../engine/engine.ts";
import type { Estimate } from "../engine/engine.ts";
import { bytesText, countText, durationText, exactText, plural, threadNumber } from "../format.ts";
import { useAnswer } from "../shell/answer.ts";
import { questionParameters } from "../state.ts";
import type { ViewProps } from "../view.ts";
import { applied } from "./applies.ts";
import { Answered, Bytes, Name, SmallTable } from "./cells.tsx";
import type { Column } from "./cells.tsx";
import "./panes.css";

const ENOUGH = 10; // samples in a span, on average, so that single spans say something

interface Worst {
	thread: string;
	tid: number;
	begin_ns: number;
	end_ns: number;
	first_ns: number; // of its blocks
	last_ns: number;
	bytes: number;
	samples: number;
}

/** What one span allocates. */
interface Each {
	mean: number;
	p50: number;
	p99: number;
	max: number;
	classes: { low: number; high: number | null; count: number }[];
	worst: Worst[];
}

export interface Span {
	name: string;
	category: string | null;
	count: number;
	open: number;
	total_ns: number;
	self_ns: number;
	mean_ns: number;
	p50_ns: number;
	p90_ns: number;
	p99_ns: number;
	max_ns: number;
	allocated?: Estimate;
	live?: Estimate;
	each?: Each;
}

export function spanName(span: { name: string; category: string | null }) {
	return <Name of={{ name: span.name, detail: span.category ?? undefined }} />;
}

export function longestOf(spans: Span[]): number {
	return spans.reduce((most, span) => Math.max(most, span.total_ns), 1);
}

export function spanTimes(longest: number): Column<Span>[] {
	return [
		{ title: "Count", number: true, width: 8, cell: (row) => countText(row.count) },
		{ title: "Total", number: true, width: 10, cell: (row) => durationText(row.total_ns),
			share: (row) => row.total_ns / longest },
		{ title: "Self", number: true, width: 10, minor: true, cell: (row) => durationText(row.self_ns),
			hint: "without spans that were opened inside" },
		{ title: "Median", number: true, width: 10, minor: true, cell: (row) => durationText(row.p50_ns) },
		{ title: "99 %", number: true, width: 10, minor: true, cell: (row) => durationText(row.p99_ns),
			hint: "99 of 100 spans are shorter" },
		{ title: "Longest", number: true, width: 10, minor: true, cell: (row) => durationText(row.max_ns) },
	];
}

/** In a sampled trace a span has the weights of its samples: with few of them, that is chance. */
function singleSpansSay(span: Span): boolean {
	const allocated = span.allocated;
	if (!allocated || !span.each) return false;
	return (allocated.bytes?.stderr ?? 0) === 0 || allocated.samples >= ENOUGH * span.count;
}

function quantile(span: Span, value: number) {
	if (singleSpansSay(span)) return bytesText(value);
	return <span class="dim" title="Too few samples in a span to say what single ones allocate">–</span>;
}

/** Where no quantile is known, their columns go first when there is little room. */
function blockColumns(spans: Span[]): Column<Span>[] {
	const said = spans.some(singleSpansSay);
	return [
		{ title: "Allocated", number: true, width: "figure", minor: said,
			cell: (row) => row.allocated && <Bytes of={row.allocated} /> },
		{ title: "Each", number: true, width: 10, needed: true, hint: "bytes that one span allocates, on average",
			cell: (row) => row.each && bytesText(row.each.mean) },
		{ title: "Each: median", number: true, width: 12, minor: !said, hint: "half of the spans allocate less",
			cell: (row) => row.each && quantile(row, row.each.p50) },
		{ title: "Each: 99 %", number: true, width: 11, minor: !said, hint: "99 of 100 spans allocate less",
			cell: (row) => row.each && quantile(row, row.each.p99) },
		{ title: "Live", number: true, width: "figure", minor: said, hint: "of that, at the end",
			cell: (row) => row.live && <Bytes of={row.live} /> },
	];
}

interface Spans {
	spans: Span[];
}

function classText({ low, high }: { low: number; high: number | null }): string {
	if (high !== null && high <= 1) return "nothing";
	return high === null ? `${bytesText(low)} and more` : `${bytesText(low)} to ${bytesText(high)}`;
}

function Histogram({ span, each }: { span: Span; each: Each }) {
	const most = Math.max(1, ...each.classes.map(({ count }) => count));
	return (
		<section class="pane-section">
			<h2>{`Bytes of one ${span.name}`}</h2>
			<p class="dim about">
				{`${plural(span.count, "span")}: ${bytesText(each.mean)} on average, at most ${bytesText(each.max)}.`}
			</p>
			<SmallTable caption={`Bytes of one ${span.name}`} rows={each.classes} columns={[
				{ title: "Spans", number: true, width: 10, cell: ({ count }) => exactText(count),
					share: ({ count }) => count / most },
				{ title: "Bytes", cell: classText },
			]} />
		</section>
	);
}

function WorstSpans(props: ViewProps & { span: Span; each: Each }) {
	const { span, each, go } = props;
	const show = (worst: Worst) => go({
		view: "table",
		question: { metric: "allocated", at: undefined, from: `${worst.first_ns}ns`, to: `${worst.last_ns + 1}ns`,
			thread: [`${worst.tid}`] },
		own: { by: "stack", row: undefined, sort: undefined },
	});
	return (
		<section class="pane-section">
			<h2>{`The worst of ${span.name}`}</h2>
			<p class="dim about">Choose one to see the stacks at which its thread allocated meanwhile.</p>
			<SmallTable caption={`The worst of ${span.name}`} rows={each.worst} none="None allocated anything"
				onChoose={show} chooseTitle="Its stacks" columns={[
					{ title: "Bytes", number: true, width: 10, needed: true, cell: (row) => bytesText(row.bytes),
						share: (row) => row.bytes / (each.max || 1) },
					{ title: "Took", number: true, width: 10, cell: (row) => durationText(row.end_ns - row.begin_ns) },
					{ title: "Began", number: true, width: 10, cell: (row) => durationText(row.begin_ns) },
					{ title: "Thread", cell: (row) => <Name of={{ name: row.thread || `${row.tid}`,
						detail: threadNumber(row.tid) }} /> },
				]} />
		</section>
	);
}

function Listed(props: ViewProps & { value: Spans }) {
	const { spans } = props.value;
	const withBlocks = spans.some((span) => span.each);
	const keyOf = (span: Span) => `${span.category ?? ""}/${span.name}`;
	const chosen = spans.find((span) => keyOf(span) === props.state.own.row) ?? spans[0];
	return (
		<>
			<section class="pane-section">
				<h2>Spans</h2>
				<p class="dim about">
					Allocated: what its thread allocated while a span was open, spans inside it included. Each: what
					one span allocated. Live: what of that was still live at the end.
				</p>
				<SmallTable caption="Spans" rows={spans} none="No spans" chooseTitle="What single ones allocate"
					onChoose={withBlocks ? (span) => props.go({ own: { row: keyOf(span) } }, true) : undefined}
					columns={[
						...spanTimes(longestOf(spans)),
						...(withBlocks ? blockColumns(spans) : []),
						{ title: "Span", cell: spanName },
					]} />
			</section>
			{chosen?.each && (singleSpansSay(chosen) ? (
				<div class="pane-pair">
					<Histogram span={chosen} each={chosen.each} />
					<WorstSpans {...props} span={chosen} each={chosen.each} />
				</div>
			) : (
				<p class="dim about">
					{`There are too few samples to say what a single ${chosen.name} allocates; only the average is known. `}
					A shorter interval (<code>record&nbsp;&#8209;&#8209;interval</code>) or{" "}
					<code>&#8209;&#8209;exact</code> tells more.
				</p>
			))}
		</>
	);
}

export default function SpansView(props: ViewProps) {
	const request = requestText("spans", questionParameters(applied("spans", props.state.question)));
	const answer = useAnswer<Spans>(props.engine, request, props.generation);
	return (
		<div class="pane wide">
			<Answered answer={answer}>{(value) => <Listed {...props} value={value} />}</Answered>
		</div>
	);
}
