// SPDX-License-Identifier: Apache-2.0
// Views that are one request and simple tables: events, survival, churn, chains of realloc, resident
// memory, fragmentation.
import type { ComponentChildren, ComponentType } from "preact";
import { requestText } from "../engine/engine.ts";
import type { Estimate, Figure } from "../engine/engine.ts";
import { bytesOf, bytesText, countText, durationText, estimateText, percentText, plural, rateText, threadNumber } from "../format.ts";
import { useAnswer } from "../shell/answer.ts";
import { exactly } from "../shell/patterns.ts";
import { questionParameters } from "../state.ts";
import type { ViewProps } from "../view.ts";
import { applied } from "./applies.ts";
import { Answered, Bytes, isNoise, Name, SmallTable } from "./cells.tsx";
import type { Column } from "./cells.tsx";
import { Resident } from "./resident.tsx";
import type { Rss } from "./resident.tsx";
import { frameName, rowName } from "./row.ts";
import type { Frame, Row } from "./row.ts";
import { longestOf, spanName, spanTimes } from "./spans.tsx";
import type { Span } from "./spans.tsx";
import "./panes.css";

/** A pane's request has only the parts of the question that it understands. */
function paneRequest({ state }: ViewProps): string {
	return requestText(state.view, questionParameters(applied(state.view, state.question)));
}

interface PaneProps<T> {
	props: ViewProps;
	request: string;
	children(value: T): ComponentChildren;
}

function Pane<T>(pane: PaneProps<T>) {
	const answer = useAnswer<T>(pane.props.engine, pane.request, pane.props.generation);
	return <div class="pane"><Answered answer={answer}>{pane.children}</Answered></div>;
}

function Section(props: { title: string; about?: ComponentChildren; children: ComponentChildren }) {
	return (
		<section class="pane-section">
			<h2>{props.title}</h2>
			{props.about && <p class="dim about">{props.about}</p>}
			{props.children}
		</section>
	);
}

function number<R>(title: string, width: number | "figure", cell: (row: R) => ComponentChildren,
	more: Partial<Column<R>> = {}): Column<R> {
	return { title, width, number: true, cell, ...more };
}

interface Spans {
	spans: Span[];
}

interface Instant {
	name: string;
	category: string | null;
	count: number;
	first_ns: number;
	last_ns: number;
}

interface Counter extends Instant {
	unit: string | null;
	min: number;
	mean: number;
	max: number;
	last: number;
}

interface ThreadTime {
	thread: string | null;
	tid: number;
	cpu_ns: number;
}

interface Pauses {
	name: string;
	count: number;
	total_ns: number;
	max_ns: number;
}

/** Each thread has the same pauses, in the same order. */
interface ThreadPauses {
	thread: string | null;
	tid: number;
	pauses: Pauses[];
}

interface Events extends Spans {
	instants: Instant[];
	counters: Counter[];
	cpu_by_thread: ThreadTime[];
	pauses_by_thread: ThreadPauses[];
	dropped_events: number;
}

function counterText(value: number, unit: string | null): string {
	if (unit === "bytes") return bytesText(value);
	if (unit === "ns") return durationText(value);
	return value < 0 ? `-${countText(-value)}` : countText(value);
}

function pauseColumns(kinds: Pauses[]): Column<ThreadPauses>[] {
	return kinds.flatMap((kind, k) => [
		number<ThreadPauses>(kind.name, 8, (row) => countText(row.pauses[k]!.count)),
		number<ThreadPauses>("Total", 10, (row) => durationText(row.pauses[k]!.total_ns)),
		number<ThreadPauses>("Longest", 10, (row) => durationText(row.pauses[k]!.max_ns)),
	]);
}

export function EventsPane(props: ViewProps) {
	const request = paneRequest(props);
	const at = (title: string, of: (row: Counter) => number): Column<Counter> =>
		number(title, 10, (row) => counterText(of(row), row.unit));
	return (
		<Pane<Events> props={props} request={request}>
			{(value) => (
				<>
					<Section title="Spans">
						<SmallTable caption="Spans" rows={value.spans} none="No spans"
							columns={[...spanTimes(longestOf(value.spans)), { title: "Span", cell: spanName }]} />
					</Section>
					<Section title="Instants">
						<SmallTable caption="Instants" rows={value.instants} none="No instants"
							columns={[
								number<Instant>("Count", 8, (row) => countText(row.count)),
								number<Instant>("First", 10, (row) => durationText(row.first_ns)),
								number<Instant>("Last", 10, (row) => durationText(row.last_ns)),
								{ title: "Instant", cell: spanName },
							]} />
					</Section>
					<Section title="Counters">
						<SmallTable caption="Counters" rows={value.counters} none="No counters"
							columns={[
								number<Counter>("Values", 8, (row) => countText(row.count)),
								at("Least", (row) => row.min), at("Mean", (row) => row.mean),
								at("Most", (row) => row.max), at("Last", (row) => row.last),
								{ title: "Counter", cell: spanName },
							]} />
					</Section>
					<Section title="CPU time of threads">
						<SmallTable caption="CPU time of threads" rows={value.cpu_by_thread} none="Not recorded"
							columns={[
								number<ThreadTime>("CPU", 10, (row) => durationText(row.cpu_ns)),
								{ title: "Thread", cell: (row) => <Name of={{ name: row.thread ?? `${row.tid}`,
									detail: `${row.tid}` }} /> },
							]} />
					</Section>
					{value.pauses_by_thread.length > 1 && (
						<Section title="Pauses for OCaml's collector">
							<SmallTable caption="Pauses for OCaml's collector, by thread"
								rows={value.pauses_by_thread} none="No pauses"
								columns={[
									...pauseColumns(value.pauses_by_thread[0]!.pauses),
									{ title: "Thread", cell: (row) => <Name of={{ name: row.thread || `${row.tid}`,
										detail: threadNumber(row.tid) }} /> },
								]} />
						</Section>
					)}
				</>
			)}
		</Pane>
	);
}

interface Time {
	estimate: number | null;
	low: number | null;
	high: number | null;
	samples: number;
}

interface SurvivalRow extends Partial<Frame> {
	stack?: Frame[];
	allocated: Estimate;
	promoted: Figure;
	died_young: Figure;
	promotion_median_ns: Time | null;
	promotion_p90_ns: Time | null;
	lifetime_median_ns: Time | null;
}

function Share(props: { of: Figure }) {
	const { estimate, low, high } = props.of;
	const title = `95 % interval ${percentText(low, 1)} to ${percentText(high, 1)}`;
	return <span title={title}>{percentText(estimate, 1)}</span>;
}

function timeCell(time: Time | null): ComponentChildren {
	if (!time) return "";
	const text = (value: number | null) => (value === null ? "end" : durationText(value));
	const title = `95 % interval ${text(time.low)} to ${text(time.high)}; ${plural(time.samples, "sample")}`;
	return <span title={title}>{text(time.estimate)}</span>;
}

export function SurvivalPane(props: ViewProps) {
	const request = paneRequest(props);
	return (
		<Pane<{ by: string; total: SurvivalRow; rows: SurvivalRow[] }> props={props} request={request}>
			{(value) => (
				<Section title="Blocks of OCaml's minor heap" about={value.rows.length > 0 && `Promoted: the share of
					the bytes that reached the major heap. After and 90 %: the times in which half and nine tenths of
					these reached it. Life: the time that half of all bytes outlived; "end" means that these were
					still live when the recording ended.`}>
					<SmallTable caption="Survival" rows={value.rows} none="No blocks of the minor heap"
						onChoose={(row) => row.function && props.go({ view: "table",
							question: { focus: [exactly(row.function)] } })}
						columns={[
							number<SurvivalRow>("Allocated", "figure", (row) => <Bytes of={row.allocated} />, { share: (row) =>
								bytesOf(row.allocated) / (bytesOf(value.total.allocated) || 1) }),
							number<SurvivalRow>("Promoted", 9, (row) => <Share of={row.promoted} />),
							number<SurvivalRow>("After", 9, (row) => timeCell(row.promotion_median_ns)),
							number<SurvivalRow>("90 %", 9, (row) => timeCell(row.promotion_p90_ns)),
							number<SurvivalRow>("Life", 9, (row) => timeCell(row.lifetime_median_ns)),
							number<SurvivalRow>("Died young", 11, (row) => <Share of={row.died_young} />),
							{ title: "Line", cell: (row) => <Name of={frameName(row)} /> },
						]} />
				</Section>
			)}
		</Pane>
	);
}

interface ChurnRow extends Row {
	mean_live_bytes: number;
	churn: number | null;
	mean_lifetime_ns: number | null;
}

interface Churn {
	total: Estimate;
	rows: ChurnRow[];
	mean_live_bytes: number;
}

export function ChurnPane(props: ViewProps) {
	const request = paneRequest(props);
	return (
		<Pane<Churn> props={props} request={request}>
			{(value) => (
				<Section title="Churn" about={`${estimateText(value.total)} allocated, ${bytesText(
					value.mean_live_bytes)} of it live on average. Churn: bytes allocated for each byte that is
					live on average. High values show where reuse of memory saves the most.`}>
					<SmallTable caption="Churn by function" rows={value.rows.filter((row) => bytesOf(row.self) > 0)}
						none="Nothing is allocated"
						dim={(row) => isNoise(row.self)}
						onChoose={(row) => row.function && props.go({ view: "table",
							question: { metric: "allocated", focus: [exactly(row.function)] } })}
						columns={[
							number<ChurnRow>("Allocated", "figure", (row) => <Bytes of={row.self} />,
								{ share: (row) => bytesOf(row.self) / (bytesOf(value.total) || 1) }),
							number<ChurnRow>("Mean live", 10, (row) => bytesText(row.mean_live_bytes)),
							number<ChurnRow>("Churn", 9, (row) => (row.churn === null ? "–" : rateText(row.churn))),
							number<ChurnRow>("Lifetime", 10, (row) => row.mean_lifetime_ns === null ? "" :
								durationText(row.mean_lifetime_ns), { hint: "of a byte, on average" }),
							{ title: "Function", cell: (row) => <Name of={rowName(row, "function")} /> },
						]} />
				</Section>
			)}
		</Pane>
	);
}

interface Chains extends Partial<Frame> {
	chains: number;
	reallocs: number;
	longest_chain: number;
	copied_bytes: number;
	first_bytes: number;
	last_bytes: number;
}

export function ReallocsPane(props: ViewProps) {
	const request = paneRequest(props);
	const mean = (bytes: number, row: Chains) => bytesText(row.chains ? bytes / row.chains : 0);
	return (
		<Pane<{ total: Chains; rows: Chains[] }> props={props} request={request}>
			{({ total, rows }) => (
				<Section title="Chains of realloc" about={`${plural(total.chains, "chain")}, ${plural(
					total.reallocs, "realloc")}, at most ${bytesText(total.copied_bytes)} copied; by the function
					of the last block.`}>
					<SmallTable caption="Chains of realloc" rows={rows.filter((row) => row.chains > 0)}
						none="No block was grown" columns={[
							number<Chains>("Copied, at most", 16, (row) => bytesText(row.copied_bytes),
								{ share: (row) => row.copied_bytes / (total.copied_bytes || 1) }),
							number<Chains>("Reallocs", 9, (row) => countText(row.reallocs)),
							number<Chains>("Chains", 8, (row) => countText(row.chains)),
							number<Chains>("Longest", 8, (row) => countText(row.longest_chain)),
							number<Chains>("First size", 11, (row) => mean(row.first_bytes, row), { hint: "on average" }),
							number<Chains>("Last size", 11, (row) => mean(row.last_bytes, row), { hint: "on average" }),
							{ title: "Function", cell: (row) => <Name of={frameName({ ...row, line: null })} /> },
						]} />
				</Section>
			)}
		</Pane>
	);
}

export function RssPane(props: ViewProps) {
	return (
		<Pane<Rss> props={props} request="rss">
			{(value) => (
				<Section title="Resident memory" about={props.info.resident && `${props.info.resident}. The parts are those
					of the moments at which the mappings were read.`}>
					<Resident rss={value} />
				</Section>
			)}
		</Pane>
	);
}

interface PageHolder extends Partial<Frame> {
	blocks: number;
	bytes: number;
	held_bytes: number;
}

interface Holders {
	time_ns: number;
	bytes: number;
	pages: number;
	page_bytes: number;
	rows: PageHolder[];
}

export function FragmentationPane(props: ViewProps) {
	const columns: Column<PageHolder>[] = [
		number("Empty", 10, (row) => bytesText(row.held_bytes - row.bytes)),
		number("Held", 10, (row) => bytesText(row.held_bytes)),
		number("Live", 10, (row) => bytesText(row.bytes)),
		number("Filled", 8, (row) => percentText(row.bytes, row.held_bytes),
			{ share: (row) => row.bytes / (row.held_bytes || 1) }),
		number("Blocks", 8, (row) => countText(row.blocks)),
		{ title: "Place", cell: (row) => <Name of={frameName(row)} /> },
	];
	const table = (title: string, holders: Holders | null) => holders && (
		<Section title={`${title} (${durationText(holders.time_ns)})`} about={`${bytesText(holders.bytes)} of
			live blocks in ${bytesText(holders.pages * holders.page_bytes)} of pages, filled to ${percentText(
			holders.bytes, holders.pages * holders.page_bytes)}. Held: a page is divided among its blocks.`}>
			<SmallTable caption={title} columns={columns} rows={holders.rows} none="No live blocks" />
		</Section>
	);
	const request = paneRequest(props);
	return (
		<Pane<{ peak: Holders | null; end: Holders | null }> props={props} request={request}>
			{(value) => (
				<>
					{table("Pages near the peak", value.peak)}
					{table("Pages at the end", value.end)}
				</>
			)}
		</Pane>
	);
}

const panes: Record<string, ComponentType<ViewProps>> = {
	events: EventsPane, survival: SurvivalPane, churn: ChurnPane,
	reallocs: ReallocsPane, rss: RssPane, fragmentation: FragmentationPane,
};

export default function AnyPane(props: ViewProps) {
	const One = panes[props.state.view]!;
	return <One key={props.state.view} {...props} />;
}
