// SPDX-License-Identifier: Apache-2.0
// Cells and small tables that several views draw alike.
import { Fragment } from "preact";
import type { ComponentChildren, CSSProperties } from "preact";
import { useRef } from "preact/hooks";
import type { Estimate } from "../engine/engine.ts";
import { blocksText, errorText, intervalText, confidence, valueText } from "../format.ts";
import type { Answer } from "../shell/answer.ts";
import { NamesGrip, namesStyle, useNames } from "./names.tsx";
import { fitting, useRoom } from "./room.ts";
import type { Sized } from "./room.ts";
import type { RowName } from "./row.ts";

/** Whether the figure is only noise: it is shown, but dim. */
export function isNoise(estimate: Estimate): boolean {
	const sure = confidence(estimate.bytes, estimate.samples);
	return sure === "nothing" || sure === "few";
}

/** A bar behind a number: `share` of 1. */
export function barStyle(share: number): CSSProperties {
	const width = Math.max(0, Math.min(1, share || 0)) * 100;
	return { "--share": `${width.toFixed(2)}%` } as CSSProperties;
}

/** Value and error each have their place, so that columns are aligned. */
export function Bytes(props: { of: Estimate }) {
	const { bytes, samples } = props.of;
	const range = confidence(bytes, samples) === "range"; // takes the place of the error too
	return (
		<span class="figure" title={intervalText(props.of)}>
			<span class="value">{valueText(bytes, samples)}</span>{" "}
			{!range && <span class="error">{errorText(bytes, samples)}</span>}
		</span>
	);
}

/** What a function is called, and its parameters, which matter less. */
function FunctionText(props: { name: string }) {
	const match = /^(.*?[^\s(])(\((?!anonymous).*\).*)$/s.exec(props.name);
	if (!match || match[1]!.endsWith("operator")) return <>{props.name}</>;
	return <>{match[1]}<span class="parameters">{match[2]}</span></>;
}

/** A long name may be broken after "::", "(", "<" and ",". */
export function Breakable(props: { name: string }) {
	const parts = props.name.split(/(?<=::|[(,<])/);
	return <>{parts.map((part, index) => <Fragment key={index}>{part}<wbr /></Fragment>)}</>;
}

export function Name(props: { of: RowName; title?: string }) {
	const { name, detail } = props.of;
	return (
		<span class="name" title={props.title ?? props.of.full ?? (detail ? `${name}  ${detail}` : name)}>
			<span class="name-text"><FunctionText name={name} /></span>
			{detail && <span class="detail">{detail}</span>}
		</span>
	);
}

/** A column of a small table. The one without a width has the names, and is shown first. */
export interface Column<R> extends Sized {
	title: string;
	hint?: string;
	/** Numbers are at the right. */
	number?: boolean;
	cell(row: R): ComponentChildren;
	/** Of 1: a bar behind the cell. */
	share?(row: R): number;
}

/** How many blocks. Ranges such as "99.9 k..99.9 M" have room only where there are some. */
export function blocksColumn<R>(rows: readonly R[], of: (row: R) => Estimate, minor = false): Column<R> {
	const width = rows.reduce((most, row) => Math.max(most, blocksText(of(row)).length), 8);
	return { title: "Blocks", number: true, width, minor, cell: (row) => blocksText(of(row)) };
}

function widthStyle(width: number | "figure" | undefined): CSSProperties | undefined {
	if (width === undefined) return undefined;
	return { width: `calc(${width === "figure" ? "var(--figure)" : `${width}ch`} + 16px)` };
}

export interface SmallTableProps<R> {
	caption: string;
	columns: Column<NoInfer<R>>[];
	rows: R[];
	/** What the table says when it has no row. */
	none?: string;
	dim?(row: R): boolean;
	onChoose?(row: R): void;
	chooseTitle?: string;
}

export function SmallTable<R>(props: SmallTableProps<R>) {
	const { rows, onChoose } = props;
	const box = useRef<HTMLDivElement>(null);
	const names = useNames("small");
	const namesFirst = [...props.columns].sort((a, b) =>
		Number(a.width !== undefined) - Number(b.width !== undefined));
	const columns = fitting(namesFirst, useRoom(box, rows.length > 0), names.share);
	if (!rows.length) return <p class="empty">{props.none ?? "Nothing"}</p>;
	const left = props.columns.filter((column) => !columns.includes(column));
	return (
		<div class="scroll-x" ref={box}>
			<table class="small" aria-label={props.caption}>
				<thead>
					<tr>
						{columns.map((column, at) => (
							<th
								key={column.title}
								scope="col"
								class={column.number ? "number" : at === 0 ? "names" : undefined}
								title={column.hint}
								style={column.width === undefined ? namesStyle(names) : widthStyle(column.width)}
							>
								{column.title}
								{at === 0 && column.width === undefined && <NamesGrip names={names} box={box} />}
							</th>
						))}
					</tr>
				</thead>
				<tbody>
					{rows.map((row, index) => (
						<tr
							key={index}
							class={`${props.dim?.(row) ? "noise" : ""}${onChoose ? " choosable" : ""}`}
							title={onChoose && props.chooseTitle}
							onClick={onChoose && (() => onChoose(row))}
						>
							{columns.map((column, at) => {
								const share = column.share?.(row);
								const inside = column.cell(row);
								return (
									<td
										key={column.title}
										class={`${column.number ? "number" : ""}${share === undefined ? "" : " bar"}`}
										style={share === undefined ? undefined : barStyle(share)}
									>
										{at === 0 && onChoose ? (
											<button type="button" class="row-button">{inside}</button>
										) : (
											inside
										)}
									</td>
								);
							})}
						</tr>
					))}
				</tbody>
			</table>
			{left.length > 0 && (
				<p class="dim left-out">{`In a wider window, also: ${left.map(({ title }) => title).join(", ")}`}</p>
			)}
		</div>
	);
}

/** Stands for what is not there yet. */
export function Reading() {
	return <p class="empty reading" role="status" aria-busy>Reading…</p>;
}

/** Content of an answer: dimmed while another is on its way. */
export function Answered<T>(props: {
	answer: Answer<T>;
	children(value: T): ComponentChildren;
	waiting?: ComponentChildren;
}) {
	const { value, error, loading } = props.answer;
	if (error !== undefined) return <p class="empty" role="status">{error}</p>;
	if (value === undefined)
		return <>{props.waiting ?? <Reading />}</>;
	return <div class={loading ? "answered loading" : "answered"} aria-busy={loading}>{props.children(value)}</div>;
}
