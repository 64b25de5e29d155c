// SPDX-License-Identifier: Apache-2.0
// What was never freed, by stack: how much, since when, and whether it still grew. Those that still grew
// come first. The chosen one shows its stack. A trace with a picture of the heap tells what was lost then, as
// nothing pointed to it, from what was held, and by whom.
import { requestText } from "../engine/engine.ts";
import type { Estimate } from "../engine/engine.ts";
import { bytesOf, bytesText, changeText, countText, durationText, estimateText, percentText, plural } from "../format.ts";
import { useAnswer } from "../shell/answer.ts";
import { questionParameters } from "../state.ts";
import type { ViewProps } from "../view.ts";
import { applied } from "./applies.ts";
import { Answered, blocksColumn, Bytes, isNoise, Name, SmallTable } from "./cells.tsx";
import type { Column } from "./cells.tsx";
import { rowFilter, rowKey, rowName } from "./row.ts";
import type { Row, Rows } from "./row.ts";
import { StackName, Stacks } from "./stacks.tsx";
import "./panes.css";

interface Suppression {
	pattern: string;
	bytes: number;
	blocks: number;
}

interface LeakTime {
	first_ns: number | null;
	last_ns: number | null;
	growth: number;
	growing: boolean;
	live_bytes: number[];
}

interface Leaks {
	total: Estimate;
	rows: Row[];
	over_time: { times_ns: number[]; rows: LeakTime[] } | null;
	/** What Python's interpreter freed from then on counts as never freed. */
	python_end_ns?: number;
	suppressed?: { suppressions: Suppression[] };
}

/** With a picture of the heap. */
interface Parts {
	time_ns: number;
	lost: Rows;
	held: Rows;
	/** After the picture; null: it was not recorded. */
	allocated_later: Estimate | null;
	suppressed?: { suppressions: Suppression[] };
}

interface Leak {
	row: Row;
	time?: LeakTime;
}

const WIDTH = 120;
const HEIGHT = 18;

/** Each on a scale of its own: it is about the shape. */
function Curve({ values }: { values: number[] }) {
	const most = Math.max(1, ...values);
	const points = values.map((value, i) =>
		`${((i + 1) / values.length * WIDTH).toFixed(1)},${(HEIGHT - (value / most) * (HEIGHT - 1)).toFixed(1)}`);
	return (
		<svg class="leak-curve" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
			aria-label={`Live bytes over time, at most ${bytesText(most)}`}>
			<path d={`M0,${HEIGHT} L${points.join(" ")} L${WIDTH},${HEIGHT} Z`} />
		</svg>
	);
}

function timeText(ns: number | null | undefined): string {
	return ns == null ? "" : durationText(ns);
}

function leaksOf(value: Leaks): Leak[] {
	const leaks = value.rows.map((row, i) => ({ row, time: value.over_time?.rows[i] }));
	const rank = ({ time }: Leak) => (time?.growing ? time.growth : 0);
	return leaks.map((leak, i) => ({ leak, i }))
		.sort((a, b) => rank(b.leak) - rank(a.leak) || a.i - b.i).map(({ leak }) => leak);
}

function columnsOf(value: Leaks, leaks: readonly Leak[]): Column<Leak>[] {
	const all = bytesOf(value.total) || 1;
	const columns: Column<Leak>[] = [
		{ title: "Never freed", number: true, width: "figure", needed: true,
			cell: ({ row }) => <Bytes of={row.self} />, share: ({ row }) => bytesOf(row.self) / all },
		{ title: "%", number: true, width: 8, minor: true, cell: ({ row }) => percentText(bytesOf(row.self), all) },
		blocksColumn(leaks, ({ row }) => row.self, true),
	];
	if (value.over_time)
		columns.push(
			{ title: "Growth", number: true, width: 12, needed: true,
				hint: "of its live bytes, over the second half of the recording",
				cell: ({ time }) => time && <span class={time.growing ? "growing" : "dim"}
					title={time.growing ? "Its live bytes rose in each of the last quarters" : "It stopped growing"}>
					{`${changeText(time.growth)}/s`}</span> },
			{ title: "Live over time", width: 15, cell: ({ time }) => time && <Curve values={time.live_bytes} /> },
			{ title: "First", number: true, width: 9, hint: "when the first block of these was allocated",
				cell: ({ time }) => timeText(time?.first_ns) },
			{ title: "Last", number: true, width: 9, hint: "when the last block of these was allocated",
				cell: ({ time }) => timeText(time?.last_ns) },
		);
	columns.push({ title: "Stack", cell: ({ row }) => <StackName row={row} /> });
	return columns;
}

function Suppressed({ of }: { of: { suppressed?: { suppressions: Suppression[] } } }) {
	return (
		<section class="pane-section">
			<h2>Suppressed</h2>
			<SmallTable caption="Suppressed" rows={of.suppressed?.suppressions ?? []}
				none="Nothing was suppressed"
				columns={[
					{ title: "Bytes", number: true, width: 10, cell: (row: Suppression) => bytesText(row.bytes) },
					{ title: "Blocks", number: true, width: 8, cell: (row: Suppression) => countText(row.blocks) },
					{ title: "Pattern", cell: (row: Suppression) => <code>{row.pattern}</code> },
				]} />
		</section>
	);
}

function partColumns(title: string, part: Rows, name: Column<Row>): Column<Row>[] {
	return [
		{ title, number: true, width: "figure", needed: true, cell: (row) => <Bytes of={row.self} />,
			share: (row) => bytesOf(row.self) / (bytesOf(part.total) || 1) },
		{ title: "%", number: true, width: 8, minor: true, cell: (row) => percentText(bytesOf(row.self), bytesOf(part.total)) },
		blocksColumn(part.rows, (row) => row.self, true),
		name,
	];
}

function seen(of: Rows): Row[] {
	return of.rows.filter((row) => bytesOf(row.self) > 0);
}

/** What nothing pointed to, and what something did. */
function Apart(props: ViewProps & { value: Parts }) {
	const { state, go } = props;
	const { lost, held, allocated_later: later, time_ns } = props.value;
	const leaks = seen(lost);
	const chosen = leaks.find((row) => rowKey(row, lost.by) === state.own.row) ?? leaks[0];
	const when = time_ns > 0 ? ` (${durationText(time_ns)})` : "";
	return (
		<>
			<section class="pane-section">
				<h2>Lost</h2>
				<p class="dim about">
					{bytesOf(lost.total) > 0
						? `When the picture of the heap was taken${when}, nothing pointed to ${estimateText(lost.total)}, or only
							lost blocks did; without what is suppressed.`
						: `No recorded block was lost when the picture of the heap was taken${when}.`}
				</p>
				{leaks.length > 0 && (
					<SmallTable caption="Lost" rows={leaks} dim={(row) => isNoise(row.self)}
						columns={partColumns("Lost", lost, { title: "Stack", cell: (row) => <StackName row={row} /> })}
						chooseTitle="Show its stack" onChoose={(row) => go({ own: { row: rowKey(row, lost.by) } }, true)} />
				)}
			</section>
			{chosen && (
				<section class="pane-section">
					<h2>Stack</h2>
					<Stacks rows={[chosen]} all={bytesOf(lost.total)} go={go} />
				</section>
			)}
			<section class="pane-section">
				<h2>Held</h2>
				<p class="dim about">
					{`${estimateText(held.total)} could still be reached from these.`}
					{later && bytesOf(later) > 0 && ` ${estimateText(later)} came after the picture and was never freed: whether
						something points to it is not known.`}
				</p>
				<SmallTable caption="Held" rows={seen(held)} none="Nothing was held" dim={(row) => isNoise(row.self)}
					columns={partColumns("Held", held, { title: "Held by", cell: (row) =>
						<Name of={rowName(row, held.by)} /> })}
					chooseTitle="What allocated it, as a flame graph"
					onChoose={(row) => go({ view: "flame", question: rowFilter(row, held.by, false) })} />
			</section>
			<Suppressed of={props.value} />
		</>
	);
}

/** Whether the listed stacks still grew. */
function growthText(growing: number, stacks: number, rate: number): string {
	if (!growing) return stacks === 1 ? "This stack did not grow any more at the end." : "None of these stacks still grew at the end.";
	const by = `still grew at the end, by ${bytesText(rate)} a second`;
	if (stacks === 1) return `This stack ${by}.`;
	return `${countText(growing)} of these ${plural(stacks, "stack")} ${by}${growing > 1 ? " together" : ""}.`;
}

function Listed(props: ViewProps & { value: Leaks }) {
	const { value, state, go } = props;
	const leaks = leaksOf(value);
	const keyOf = (leak: Leak) => rowKey(leak.row, "stack");
	const chosen = leaks.find((leak) => keyOf(leak) === state.own.row) ?? leaks[0];
	const growing = leaks.filter(({ time }) => time?.growing);
	const rate = growing.reduce((sum, { time }) => sum + time!.growth, 0);
	return (
		<>
			<section class="pane-section">
				<h2>Never freed</h2>
				<p class="dim about">
					{`${estimateText(value.total)}, without what is suppressed.`}
					{value.over_time && leaks.length > 0 && ` ${growthText(growing.length, leaks.length, rate)}`}
					{value.python_end_ns !== undefined && ` Python: what its interpreter freed after it began to end (${
						durationText(value.python_end_ns)}) counts as never freed.`}
				</p>
				<SmallTable caption="Never freed" rows={leaks} columns={columnsOf(value, leaks)} none="No leaks"
					dim={({ row }) => isNoise(row.self)} chooseTitle="Show its stack"
					onChoose={(leak) => go({ own: { row: keyOf(leak) } }, true)} />
			</section>
			{chosen && (
				<section class="pane-section">
					<h2>Stack</h2>
					<Stacks rows={[chosen.row]} all={bytesOf(value.total)} go={go} />
				</section>
			)}
			<Suppressed of={value} />
		</>
	);
}

export default function LeaksView(props: ViewProps) {
	const request = requestText("leaks", questionParameters(applied("leaks", props.state.question)));
	const answer = useAnswer<Leaks | Parts>(props.engine, request, props.generation);
	return (
		<div class="pane wide">
			<Answered answer={answer}>{(value) => "lost" in value ? <Apart {...props} value={value} />
				: <Listed {...props} value={value} />}</Answered>
		</div>
	);
}
