// SPDX-License-Identifier: Apache-2.0
// Size by lifetime: which sizes live how long, as a map that is also a filter. Dragging over cells, or
// moving with the arrows, chooses a rectangle; so do the sums beside it. What lies in it is below.
import { useEffect, useRef, useState } from "preact/hooks";
import { requestText, type Estimate } from "../engine/engine.ts";
import { blocksText, bytesOf, bytesText, countText, estimateText, figureText, intervalText } from "../format.ts";
import "../heat.css";
import { useAnswer } from "../shell/answer.ts";
import { questionParameters, withoutPicture, type Question } from "../state.ts";
import { chosenOf, filterOf, lifetimeText, ordered, sizeText, type Brush, type Cell }
	from "../heat/brush.ts";
import { inkShare, stepShare, STEPS } from "../heat/scale.ts";
import type { Heat as Answer } from "../timeline/answers.ts";
import type { ViewProps } from "../view.ts";
import { blocksColumn, Bytes, isNoise, Name, SmallTable } from "./cells.tsx";
import { rowName, type Rows } from "./row.ts";

type Measure = "bytes" | "blocks" | "samples";

const measures: [Measure, string][] = [
	["bytes", "bytes"], ["blocks", "blocks"], ["samples", "samples"],
];

function measured(value: number, measure: Measure): string {
	return measure === "bytes" ? bytesText(value) : countText(value);
}

function sumOf(estimate: Estimate, measure: Measure): number {
	return measure === "samples" ? estimate.samples : (estimate[measure]?.estimate ?? 0);
}

/** The cell as an estimate, for its text. */
function estimateAt(answer: Answer, index: number): Estimate {
	const { cells } = answer;
	return {
		bytes: {
			estimate: cells.bytes[index]!, stderr: cells.bytes_stderr[index]!,
			low: cells.bytes_low[index]!, high: cells.bytes_high[index]!,
		},
		blocks: { estimate: cells.blocks[index]!, stderr: 0, low: 0, high: 0 },
		samples: cells.samples[index]!,
	};
}

function CellText({ answer, cell }: { answer: Answer; cell: Cell }) {
	const size = answer.sizes[cell.size]!;
	const lifetime = answer.lifetimes[cell.lifetime]!;
	const estimate = estimateAt(answer, cell.size * answer.lifetimes.length + cell.lifetime);
	return (
		<>
			<b>{sizeText(size)}, {lifetimeText(lifetime)}</b>
			{": "}
			{estimate.samples
				? `${estimateText(estimate)} in ${blocksText(estimate)} blocks; ${intervalText(estimate)}`
				: "nothing seen"}
		</>
	);
}

interface MapProps {
	answer: Answer;
	measure: Measure;
	brush: Brush | null;
	onBrush(brush: Brush | null, apply: boolean): void;
}

/** The largest of a list, at least 1. */
function largest(values: number[]): number {
	return Math.max(1, ...values);
}

function inside(brush: Brush | null, size: number, lifetime: number): boolean {
	if (!brush) return false;
	const b = ordered(brush);
	return size >= b.from.size && size <= b.to.size && lifetime >= b.from.lifetime &&
		lifetime <= b.to.lifetime;
}

/** Largest sizes on top; never freed blocks in a column of their own, on the right. */
function HeatMap({ answer, measure, brush, onBrush }: MapProps) {
	const { sizes, lifetimes, cells } = answer;
	const dragged = useRef<Brush | null>(null); // while the button is down
	const grid = useRef<HTMLDivElement>(null);
	const [hover, setHover] = useState<Cell | null>(null);
	const [cursor, setCursor] = useState<Cell>({ size: sizes.length - 1, lifetime: 0 });
	const values = cells[measure];
	const most = largest(values);
	const never = lifetimes.length > 0 && lifetimes[lifetimes.length - 1]!.never;
	const freed = lifetimes.length - (never ? 1 : 0);
	const order = sizes.map((_, i) => i).reverse();
	const bottom = 0;
	const top = sizes.length - 1;
	const end = lifetimes.length - 1;
	const limited = (cell: Cell): Cell => ({
		size: Math.min(top, Math.max(bottom, cell.size)),
		lifetime: Math.min(end, Math.max(0, cell.lifetime)),
	});

	useEffect(() => {
		const up = () => {
			if (dragged.current) onBrush(dragged.current, true);
			dragged.current = null;
		};
		addEventListener("pointerup", up);
		return () => removeEventListener("pointerup", up);
	});
	const drag = (next: Brush) => {
		dragged.current = next;
		onBrush(next, false);
	};
	const press = (from: Cell, to: Cell = from) => {
		setCursor(from);
		drag({ from, to });
	};
	const reach = (to: Cell) => {
		if (dragged.current) drag({ from: dragged.current.from, to });
	};
	const onKeyDown = (event: KeyboardEvent) => {
		const steps: Record<string, Cell> = {
			ArrowUp: { size: 1, lifetime: 0 }, ArrowDown: { size: -1, lifetime: 0 },
			ArrowLeft: { size: 0, lifetime: -1 }, ArrowRight: { size: 0, lifetime: 1 },
		};
		const edges: Record<string, Cell> = {
			Home: { ...cursor, lifetime: 0 }, End: { ...cursor, lifetime: end },
			PageUp: { ...cursor, size: top }, PageDown: { ...cursor, size: bottom },
		};
		const step = steps[event.key];
		const next = edges[event.key] ?? (step && limited({
			size: cursor.size + step.size, lifetime: cursor.lifetime + step.lifetime,
		}));
		if (next) {
			const from = event.shiftKey && brush ? brush.from : event.shiftKey ? cursor : next;
			setCursor(next);
			onBrush({ from, to: next }, false);
			grid.current?.querySelector<HTMLElement>(`[data-cell="${next.size} ${next.lifetime}"]`)?.focus();
		} else if (event.key === "Enter") onBrush(brush ?? { from: cursor, to: cursor }, true);
		else if (event.key === "Escape") onBrush(null, true);
		else return;
		event.preventDefault();
	};
	const mostSize = largest(sizes.map((c) => sumOf(c.sum, measure)));
	const mostLifetime = largest(lifetimes.map((c) => sumOf(c.sum, measure)));
	const whole = (size: number): [Cell, Cell] => [{ size, lifetime: 0 }, { size, lifetime: end }];
	const tall = (lifetime: number): [Cell, Cell] =>
		[{ size: top, lifetime }, { size: bottom, lifetime }];
	const shown = hover ?? (brush ? brush.to : null);
	return (
		<div class="heat-map">
			<div
				ref={grid}
				class="heat-grid"
				role="grid"
				data-keys
				aria-label="Blocks by size and lifetime"
				aria-multiselectable="true"
				onKeyDown={onKeyDown}
				onPointerLeave={() => setHover(null)}
				style={{ gridTemplateColumns: "auto" + // repeat(0, ...) is invalid
					(freed ? ` repeat(${freed}, minmax(22px, 1fr))` : "") + (never ? " 10px minmax(32px, 1.2fr)" : "") + " minmax(66px, 160px)" }}
			>
				<div role="presentation" class="heat-row" aria-hidden="true">
					<span class="heat-corner">size</span>
					{lifetimes.map((c, k) => [
						c.never && <span key="gap" />,
						<span
							key={k}
							class="heat-sum heat-sum-top"
							title={`${lifetimeText(c)}: ${estimateText(c.sum)}`}
							onPointerDown={() => press(...tall(k))}
							onPointerEnter={() => reach({ size: bottom, lifetime: k })}
						>
							<span class="heat-bar" style={{
								height: `${(100 * sumOf(c.sum, measure)) / mostLifetime}%`,
							}} />
						</span>,
					])}
					<span />
				</div>
				{order.map((size) => (
					<div role="row" class="heat-row" key={size}>
						<span role="rowheader" class="heat-size">{sizeText(sizes[size]!)}</span>
						{lifetimes.map((c, lifetime) => {
							const index = size * lifetimes.length + lifetime;
							const value = values[index]!;
							const share = stepShare(value, most);
							return [
								c.never && <span key="gap" />,
								<span
									key={lifetime}
									role="gridcell"
									data-cell={`${size} ${lifetime}`}
									tabIndex={cursor.size === size && cursor.lifetime === lifetime ? 0 : -1}
									aria-selected={inside(brush, size, lifetime)}
									aria-label={`${sizeText(sizes[size]!)}, ${lifetimeText(c)}: ${
										cells.samples[index] ? measured(value, measure) : "nothing"}`}
									class={`heat-cell${cells.samples[index] ? "" : " heat-none"}${
										share > 0.71 ? " heat-strong" : share > 0.5 ? " heat-middle" : ""}`}
									style={cells.samples[index]
										? { background: inkShare(share) } : undefined}
									onPointerDown={(event) => {
										event.preventDefault();
										(event.currentTarget as HTMLElement).focus();
										press({ size, lifetime });
									}}
									onPointerEnter={() => {
										setHover({ size, lifetime });
										reach({ size, lifetime });
									}}
								>
									<span>{cells.samples[index] ? measured(value, measure) : ""}</span>
								</span>,
							];
						})}
						<span
							role="presentation"
							class="heat-sum heat-sum-side"
							title={`${sizeText(sizes[size]!)}: ${estimateText(sizes[size]!.sum)}`}
							onPointerDown={() => press(...whole(size))}
							onPointerEnter={() => reach({ size, lifetime: end })}
						>
							<span class="heat-bar" style={{
								width: `calc((100% - 62px) * ${sumOf(sizes[size]!.sum, measure) / mostSize})`,
							}} />
							<small>{measured(sumOf(sizes[size]!.sum, measure), measure)}</small>
						</span>
					</div>
				))}
				<div role="row" class="heat-row heat-axis">
					<span role="columnheader" class="heat-corner">lifetime</span>
					{lifetimes.map((c, k) => [
						c.never && <span key="gap" />,
						<span role="columnheader" key={k}>{lifetimeText(c, true)}</span>,
					])}
					<span />
				</div>
			</div>
			<p class="heat-pointed" aria-live="polite">
				{shown ? <CellText answer={answer} cell={shown} /> : (
					<span class="heat-hint">
						Drag over cells or bars to keep just those blocks. Keys: arrows, Home,
						End and the page keys, with Shift to extend; Enter applies, Escape shows all.
					</span>
				)}
			</p>
		</div>
	);
}

function Scale({ most, measure }: { most: number; measure: Measure }) {
	return (
		<div class="heat-scale" role="img"
			aria-label={`The darker, the more: up to ${measured(most, measure)}`}>
			<span>0</span>
			{Array.from({ length: STEPS }, (_, i) => (
				<i key={i} style={{ background: inkShare((i + 1) / STEPS) }} />
			))}
			<span>{measured(most, measure)}</span>
			<small>shade by the square root</small>
		</div>
	);
}

function TopFunctions({ props, question }: { props: ViewProps; question: Question }) {
	const { engine, generation } = props;
	const request = requestText("rows",
		{ ...questionParameters(question), by: "function", top: 12 });
	const { value, error, loading } = useAnswer<Rows>(engine, request, generation);
	if (error) return <p class="heat-hint" role="alert">{error}</p>;
	const rows = (value?.rows ?? []).filter((row) => bytesOf(row.self) > 0);
	const most = largest(rows.map((row) => bytesOf(row.self)));
	return (
		<section class={`heat-functions${loading ? " heat-old" : ""}`}>
			<h2>
				{value ? `${figureText(value.total.bytes!, value.total.samples)} by function` : "Reading…"}
			</h2>
			<SmallTable caption="By function" rows={rows} none="No block fits the filters"
				dim={(row) => isNoise(row.self)} columns={[
					{ title: "Function", cell: (row) => <Name of={rowName(row, "function")} /> },
					{ title: "Bytes", number: true, width: "figure", cell: (row) => <Bytes of={row.self} />,
						share: (row) => bytesOf(row.self) / most },
					blocksColumn(rows, (row) => row.self),
				]} />
		</section>
	);
}

export default function HeatView(props: ViewProps) {
	const { engine, state, go, generation } = props;
	const { own } = state;
	const question = withoutPicture(state.question);
	const measure = (own.measure ?? "bytes") as Measure;
	// The map shows all sizes and lifetimes; the chosen ones are marked in it.
	const all: Question = {
		...question, "min-size": undefined, "max-size": undefined,
		"min-lifetime": undefined, "max-lifetime": undefined,
	};
	const { value, error, loading } = useAnswer<Answer>(
		engine, requestText("heat", questionParameters(all)), generation);
	const [draft, setDraft] = useState<Brush | null>(null);
	useEffect(() => setDraft(null), [
		question["min-size"], question["max-size"], question["min-lifetime"], question["max-lifetime"],
	]);
	if (error) return <p class="heat-hint" role="alert">{error}</p>;
	const brush = draft ?? (value ? chosenOf(question, value) : null);
	return (
		<section class="heat">
			<div class="heat-tools">
				<label>
					Colour shows{" "}
					<select value={measure} onChange={(event) => go({ own: {
						measure: event.currentTarget.value === "bytes" ? undefined : event.currentTarget.value,
					} })}>
						{measures.map(([id, text]) => <option key={id} value={id}>{text}</option>)}
					</select>
				</label>
				{value && <Scale most={largest(value.cells[measure])} measure={measure} />}
				<button type="button" disabled={!brush}
					onClick={() => (setDraft(null), go({ question: filterOf(null, value) }))}>
					All sizes and lifetimes
				</button>
			</div>
			<div class={loading ? "heat-old" : ""} aria-busy={loading}>
				{value && value.sizes.length > 0 && (
					<HeatMap answer={value} measure={measure} brush={brush} onBrush={(next, apply) => {
						setDraft(next);
						if (apply) go({ question: filterOf(next, value) });
					}} />
				)}
				{value && !value.sizes.length && <p class="heat-hint">No blocks fit the filters.</p>}
			</div>
			<TopFunctions props={props} question={question} />
		</section>
	);
}
