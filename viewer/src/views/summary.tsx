// SPDX-License-Identifier: Apache-2.0
// The first view: what the report without options says. Each row leads to more of it.
import type { ComponentChildren } from "preact";
import { requestText } from "../engine/engine.ts";
import type { Estimate } from "../engine/engine.ts";
import {
	bytesOf, bytesText, countsText, durationText, errorText, intervalText, percentText,
	valueText,
} from "../format.ts";
import { useKeys } from "../keyboard.ts";
import { useAnswer } from "../shell/answer.ts";
import { metricTitle, phrases } from "../shell/filter_kinds.ts";
import { questionParameters, withoutPicture } from "../state.ts";
import type { Change, Question } from "../state.ts";
import { rangeOf } from "../timeline/times.ts";
import type { ViewProps } from "../view.ts";
import { Answered, blocksColumn, Bytes, isNoise, Name, Reading, SmallTable } from "./cells.tsx";
import type { Column } from "./cells.tsx";
import { ResidentBar } from "./resident.tsx";
import type { Rss } from "./resident.tsx";
import { rowKey, rowName } from "./row.ts";
import type { Row } from "./row.ts";
import { Sparkline } from "./sparkline.tsx";
import type { Curve } from "./sparkline.tsx";
import { Stacks } from "./stacks.tsx";
import { Changes } from "./changes.tsx";
import "./summary.css";

const POINTS = 400; // of the curve

interface Overview {
	headline?: string;
	time_ns: number | null;
	total: Estimate;
	functions: Row[];
	callers: Row[];
	stacks: Row[];
}

interface TileProps {
	title: string;
	of: Estimate | null; // null: the file that the trace comes from does not have it
	more?: ComponentChildren;
	current: boolean;
	onChoose(): void;
}

function Tile(props: TileProps) {
	const { of } = props;
	if (!of)
		return (
			<div class="tile">
				<span class="tile-title">{props.title}</span>
				<span class="tile-figure"><strong>–</strong></span>
				<span class="tile-more">not recorded</span>
			</div>
		);
	return (
		<button
			type="button"
			class="tile"
			aria-pressed={props.current}
			title={intervalText(of)}
			onClick={props.onChoose}
		>
			<span class="tile-title">{props.title}</span>
			<span class="tile-figure">
				<strong>{valueText(of.bytes, of.samples)}</strong>{" "}
				<span class="error">{errorText(of.bytes, of.samples)}</span>
			</span>
			<span class="tile-more">{countsText(of)}</span>
			<span class="tile-more">{props.more}</span>
		</button>
	);
}

function Tiles(props: ViewProps) {
	const { summary } = props.info;
	const title = metricTitle(props.state.question);
	const tile = (name: string, of: Estimate | null, metric: string | undefined, shown: string, more: string) => (
		<Tile title={name} of={of} more={more} current={title === shown}
			onChoose={() => props.go({ question: { metric, at: undefined } as Partial<Question> })} />
	);
	const share = (of: Estimate | null) => of
		? `${percentText(bytesOf(of), bytesOf(summary.allocated))} of all allocated` : "";
	return (
		<div class="tiles" role="group" aria-label="The whole recording">
			{tile("Peak", summary.peak, undefined, "Live at the peak",
				`at ${durationText(summary.peak_time_ns)}`)}
			{tile("Live at the end", summary.live_at_end, "live", "Live at the end",
				`after ${durationText(props.info.info.duration_ns ?? 0)}`)}
			{tile("Allocated", summary.allocated, "allocated", "Allocated", "in the whole run")}
			{tile("Temporary", summary.temporary, "temporary", "Temporary", share(summary.temporary))}
			{phrases(props.state.question).length > 0 && (
				<p class="dim">These four are of the whole recording; below is what the filters leave.</p>
			)}
		</div>
	);
}

function LiveCurve(props: ViewProps) {
	const question = withoutPicture(props.state.question);
	const ofAll = Boolean(props.state.question.holder ?? props.state.question.type);
	const parameters = { ...questionParameters(question), points: POINTS };
	const answer = useAnswer<Curve>(props.engine, requestText("curve", parameters), props.generation);
	return (
		<section class="card curve">
			<h2>Live bytes{ofAll && <span class="dim"> of all holders and types</span>}</h2>
			<Answered answer={answer} waiting={<div class="sparkline"><Reading /></div>}>
				{(curve) => (
					<Sparkline curve={curve} range={rangeOf(question, props.info.info.duration_ns ?? 0)}
						peakTime={props.info.summary.peak_time_ns ?? null}
						onOpen={() => props.go({ view: "timeline" })} />
				)}
			</Answered>
		</section>
	);
}

/** RSS against the heap; absent where it was not recorded. */
function ResidentCard(props: ViewProps) {
	const recorded = props.info.info.counters > 0;
	const answer = useAnswer<Rss>(props.engine, recorded ? "rss" : null, props.generation);
	const moments = answer.value?.moments ?? [];
	if (!moments.length) return null;
	const whole = Math.max(1, ...moments.map((moment) => moment.rss));
	return (
		<section class="card">
			<h2>
				Resident memory against the heap{" "}
				{props.info.resident && <span class="dim">{props.info.resident}</span>}
			</h2>
			{moments.map((moment) => (
				<div class="against" key={moment.which}>
					<span class="dim">{moment.which === "peak" ? "At the peak" : "At the end"}</span>
					<ResidentBar moment={moment} whole={whole} />
					<span>
						<strong>{bytesText(moment.rss)}</strong> resident,{" "}
						{bytesText(bytesOf(moment.live))} live in malloc's heap
					</span>
				</div>
			))}
			{moments.at(-1)?.advice && <p class="advice">{moments.at(-1)!.advice}</p>}
			<button type="button" class="more" onClick={() => props.go({ view: "rss" })}>
				What it consists of
			</button>
		</section>
	);
}

function functionColumns(rows: readonly Row[], all: number, of: (row: Row) => Estimate): Column<Row>[] {
	return [
		{ title: "Bytes", number: true, width: "figure", cell: (row) => <Bytes of={of(row)} />,
			share: (row) => bytesOf(of(row)) / (all || 1) },
		{ title: "%", number: true, width: 8, cell: (row) => percentText(bytesOf(of(row)), all) },
		blocksColumn(rows, of),
		{ title: "Function", cell: (row) => <Name of={rowName(row, "function")} /> },
	];
}

function More(props: { to: string; own: Change["own"]; go(change: Change): void }) {
	return (
		<button type="button" class="more" onClick={() => props.go({ view: "table", own: props.own })}>
			{props.to}
		</button>
	);
}

function Functions(props: ViewProps & { overview: Overview }) {
	const { overview, go } = props;
	const all = bytesOf(overview.total);
	const show = (sort?: string) => (row: Row) =>
		go({ view: "table", own: { by: undefined, sort, search: undefined, row: rowKey(row, "function") } });
	return (
		<div class="pair">
			<section class="card">
				<h2>Functions <span class="dim">by what they allocate themselves</span></h2>
				<SmallTable caption="Functions" rows={overview.functions} onChoose={show()}
					chooseTitle="Callers and callees" dim={(row) => isNoise(row.self)}
					none="No block matches" columns={functionColumns(overview.functions, all, (row) => row.self)} />
				<More to="All functions" go={go} own={{ by: undefined, sort: undefined, row: undefined }} />
			</section>
			<section class="card">
				<h2>Their callers <span class="dim">with all that they call</span></h2>
				<SmallTable caption="Callers" rows={overview.callers} onChoose={show("total")}
					chooseTitle="Callers and callees" dim={(row) => isNoise(row.total)}
					none="No callers of the program's own"
					columns={functionColumns(overview.callers, all, (row) => row.total)} />
				<More to="All callers" go={go} own={{ by: undefined, sort: "total", row: undefined }} />
			</section>
		</div>
	);
}

export default function Summary(props: ViewProps) {
	const { engine, info, state, go } = props;
	const request = requestText("overview", questionParameters(state.question));
	const answer = useAnswer<Overview>(engine, request, props.generation);
	const { notes } = info;
	useKeys("Summary", [
		{ keys: ["Enter"], does: "open the table", run: () => go({ view: "table" }) },
	]);
	return (
		<div class="summary">
			{info.base && <Changes {...props} />}
			{answer.value?.headline && <p class="headline">{answer.value.headline}</p>}
			{info.picture?.headline && (
				<p class="headline">
					{`In the picture of the heap, ${info.picture.headline} `}
					<button type="button" class="more" onClick={() => go({ view: "held" })}>Who holds what</button>
				</p>
			)}
			<Tiles {...props} />
			<LiveCurve {...props} />
			<Answered answer={answer} waiting={<div class="waiting"><Reading /></div>}>
				{(overview) => (
					<>
						<Functions {...props} overview={overview} />
						<section class="card">
							<h2>Stacks <span class="dim">with the most memory</span></h2>
							<Stacks rows={overview.stacks} all={bytesOf(overview.total)} go={go} />
							<More to="All stacks" go={go} own={{ by: "stack", row: undefined }} />
						</section>
					</>
				)}
			</Answered>
			<ResidentCard {...props} />
			{notes.length > 0 && (
				<section class="card">
					<h2>Notes</h2>
					<ul class="notes">{notes.map((note) => <li key={note}>{note}</li>)}</ul>
				</section>
			)}
		</div>
	);
}
