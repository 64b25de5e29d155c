// SPDX-License-Identifier: Apache-2.0
// What was live at the moment that was chosen, or, once there are two, what grew between them.
import { requestText, type Engine, type Estimate } from "../engine/engine.ts";
import { bytesOf, changeText, durationText, estimateText, intervalText, percentText } from "../format.ts";
import { useAnswer } from "../shell/answer.ts";
import { questionParameters, type Change, type Question } from "../state.ts";
import { Answered, blocksColumn, Bytes, isNoise, Name, SmallTable, type Column } from "../views/cells.tsx";
import { rowKey, rowName, type Row, type Rows } from "../views/row.ts";
import { StackName } from "../views/stacks.tsx";
import { parseTime } from "./times.ts";

const ROWS = 25;

interface Props {
	engine: Engine;
	question: Question;
	generation: number;
	/** Moments as options; `until` after `at`, or undefined. */
	at: string;
	until?: string;
	by: string; // "function" or "stack"
	go(change: Change): void;
}

interface GrownRow extends Row {
	before: Estimate;
	survived: Estimate;
	freed: Estimate;
	change: number;
}

interface Grown {
	before: Estimate;
	after: Estimate;
	survived: Estimate;
	freed: Estimate;
	rows_count: number;
	rows: GrownRow[];
}

function RowName({ row, by }: { row: Row; by: string }) {
	return by === "stack" ? <StackName row={row} /> : <Name of={rowName(row, by)} />;
}

function head(by: string): string {
	return by === "stack" ? "Stack" : "Function";
}

function Amount({ of }: { of: Estimate }) {
	return <b title={intervalText(of)}>{estimateText(of)}</b>;
}

function showRow(props: Props, question: Partial<Question>) {
	return (row: Row) => props.go({
		view: "table", question,
		own: { by: props.by === "stack" ? "stack" : undefined, sort: undefined, search: undefined,
			row: rowKey(row, props.by) },
	});
}

function AtMoment(props: Props) {
	const { question, by, at } = props;
	const asked = { ...question, metric: "live", at };
	const answer = useAnswer<Rows>(props.engine,
		requestText("rows", { ...questionParameters(asked), by, top: ROWS }), props.generation);
	return (
		<Answered answer={answer}>
			{({ rows, total }) => {
				const seen = rows.filter((row) => bytesOf(row.self) > 0);
				const all = bytesOf(total) || 1;
				const columns: Column<Row>[] = [
					{ title: "Live", number: true, width: "figure", needed: true, cell: (row) => <Bytes of={row.self} />,
						share: (row) => bytesOf(row.self) / all },
					{ title: "%", number: true, width: 8, cell: (row) => percentText(bytesOf(row.self), all) },
					blocksColumn(seen, (row) => row.self, true),
					{ title: head(by), cell: (row) => <RowName row={row} by={by} /> },
				];
				return (
					<>
						<p class="moment-total">
							<Amount of={total} />
							{" were live. Choose another moment to see what grew between the two."}
						</p>
						<SmallTable caption="Live at this moment" rows={seen} columns={columns}
							none="Nothing was live" dim={(row) => isNoise(row.self)} chooseTitle="In the table"
							onChoose={showRow(props, { metric: "live", at })} />
					</>
				);
			}}
		</Answered>
	);
}

function Between(props: Props & { until: string }) {
	const { question, by, at, until } = props;
	const answer = useAnswer<Grown>(props.engine, requestText("grown", {
		...questionParameters({ ...question, metric: undefined, at: undefined }), from: at, to: until, by, top: ROWS,
	}), props.generation);
	/** What was allocated after the first moment and is live at the second. */
	const young = { metric: "live", at: until, from: `${Math.round(parseTime(at) ?? 0) + 1}ns`, to: undefined };
	const columns: Column<GrownRow>[] = [
		{ title: "Grew by", number: true, width: 11, needed: true, cell: (row) => changeText(row.change) },
		{ title: "Allocated, survived", number: true, width: "figure", hint: "allocated between the two, live at the second",
			cell: (row) => <Bytes of={row.survived} /> },
		{ title: "Freed", number: true, width: "figure", hint: "live at the first, freed before the second",
			cell: (row) => <Bytes of={row.freed} /> },
		{ title: head(by), cell: (row) => <RowName row={row} by={by} /> },
	];
	return (
		<Answered answer={answer}>
			{(value) => (
				<>
					<p class="moment-total">
						<Amount of={value.before} />{" live at first, "}<Amount of={value.after} />{" in the end: "}
						<Amount of={value.survived} />{" were allocated between and survived, "}
						<Amount of={value.freed} />{" were freed. "}
						<button type="button" class="more" onClick={() => props.go({ view: "flame", question: young })}>
							What survived, as a flame graph
						</button>
					</p>
					<SmallTable caption="What grew between the two" rows={value.rows} columns={columns}
						none="Nothing changed" chooseTitle="What survived, in the table" onChoose={showRow(props, young)} />
				</>
			)}
		</Answered>
	);
}

export function Moment(props: Props) {
	const { at, until, by, go } = props;
	const between = until !== undefined && `${durationText((parseTime(until) ?? 0) - (parseTime(at) ?? 0))} from ${at} to ${until}`;
	return (
		<section class="moment" aria-label={until === undefined ? "Live at this moment" : "What grew between the two"}>
			<header>
				<h2>{between ? `What grew in ${between}` : `Live at ${at}`}</h2>
				<div class="choices" role="group" aria-label="Rows">
					{["function", "stack"].map((one) => (
						<button key={one} type="button" aria-pressed={by === one}
							onClick={() => go({ own: { rows: one === "function" ? undefined : one } })}>
							{`by ${one}`}
						</button>
					))}
				</div>
				<button type="button" class="plain" onClick={() => go({
					question: { metric: undefined, at: undefined }, own: { until: undefined, zoom: undefined },
				})}>
					Close
				</button>
			</header>
			{until === undefined ? <AtMoment {...props} /> : <Between {...props} until={until} />}
		</section>
	);
}
