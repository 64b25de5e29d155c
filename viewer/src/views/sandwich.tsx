// SPDX-License-Identifier: Apache-2.0
// The chosen row: what can be done with it, its callers above it and its callees below.
import { useState } from "preact/hooks";
import { requestText } from "../engine/engine.ts";
import { bytesOf, countsText, estimateText, percentText } from "../format.ts";
import { useAnswer } from "../shell/answer.ts";
import { copyText } from "../shell/copy.ts";
import { exactly } from "../shell/patterns.ts";
import { questionParameters } from "../state.ts";
import type { Question } from "../state.ts";
import type { ViewProps } from "../view.ts";
import { Answered, Breakable, Bytes, isNoise, Name, SmallTable } from "./cells.tsx";
import type { Column } from "./cells.tsx";
import { rowCopy, rowFilter, rowKey, rowName, sourceOf } from "./row.ts";
import type { Row } from "./row.ts";

interface Callers {
	function: Row | null;
	callers: Row[];
	callees: Row[];
}

interface SandwichProps extends ViewProps {
	row: Row;
	by: string;
	/** Bytes of all rows together. */
	all: number;
}

function Neighbours(props: SandwichProps & { name: string }) {
	const { engine, state, name, go } = props;
	const parameters = { ...questionParameters(state.question), function: name };
	const answer = useAnswer<Callers>(engine, requestText("callers", parameters), props.generation);
	const columns: Column<Row>[] = [
		{ title: "Bytes", number: true, width: "figure", cell: (row) => <Bytes of={row.total} />,
			share: (row) => bytesOf(row.total) / (bytesOf(props.row.total) || 1) },
		{ title: "Function", cell: (row) => <Name of={rowName(row, "function")} /> },
	];
	const follow = (row: Row) => go({ own: { row: rowKey(row, "function"), by: undefined, sort: "total" } });
	const table = (caption: string, rows: Row[], none: string) => (
		<section>
			<h3>{caption}</h3>
			<SmallTable caption={caption} columns={columns} rows={rows} none={none}
				dim={(row) => isNoise(row.total)} onChoose={follow} chooseTitle="Show this function" />
		</section>
	);
	return (
		<Answered answer={answer}>
			{(value) => (
				<>
					{table("Called by", value.callers, "No caller: it is at the root of its stacks")}
					{table("Calls", value.callees, "It calls nothing that allocates")}
				</>
			)}
		</Answered>
	);
}

function Actions(props: SandwichProps & { name?: string }) {
	const { row, by, name, go } = props;
	const filter = rowFilter(row, by, props.info.info.processes > 1);
	const add = (key: "ignore" | "hide", value: string) => {
		const before = props.state.question[key] ?? [];
		go({ question: { [key]: [...before, value] } as Partial<Question> });
	};
	const whole = rowCopy(row, by);
	const [copied, setCopied] = useState("");
	return (
		<div class="buttons">
			{filter && <button type="button" onClick={() => go({ question: filter })}>Only this</button>}
			{name && <button type="button" onClick={() => add("ignore", exactly(name))}>Without it</button>}
			{name && <button type="button" onClick={() => add("hide", exactly(name))}>Hide its frames</button>}
			{filter && (
				<button type="button" onClick={() => go({ view: "flame", question: filter })}>Flame graph</button>
			)}
			{row.file && (
				<button
					type="button"
					onClick={() => go({ view: "source", own: sourceOf(row) })}
				>
					Show source
				</button>
			)}
			<button type="button" title="Key c" onClick={async () => setCopied((await copyText(whole)) ? whole : "")}>
				{copied === whole ? "Copied" : "Copy name"}
			</button>
		</div>
	);
}

export function Sandwich(props: SandwichProps) {
	const { row, by, go } = props;
	const { name, detail } = rowName(row, by);
	const calls = by === "function" || by === "line";
	const called = calls ? row.function : undefined;
	return (
		<aside class="side" aria-label={`Chosen: ${name}`}>
			<header>
				<h2><Breakable name={name} /></h2>
				<button type="button" class="plain" aria-label="Close" title="Close (Backspace)"
					onClick={() => go({ own: { row: undefined } })}>
					×
				</button>
			</header>
			{(row.file ?? detail) && <p class="dim path">{row.file ?? detail}{row.file && row.line ? `:${row.line}` : ""}</p>}
			<dl class="figures">
				<dt>Self</dt>
				<dd>{estimateText(row.self)}, {percentText(bytesOf(row.self), props.all)}</dd>
				{calls && <dt>Total</dt>}
				{calls && <dd>{estimateText(row.total)}, {percentText(bytesOf(row.total), props.all)}</dd>}
				<dt>Blocks</dt>
				<dd>{countsText(calls ? row.total : row.self)}</dd>
			</dl>
			<Actions {...props} name={called ?? undefined} />
			{calls && called && <Neighbours {...props} name={called} />}
		</aside>
	);
}
