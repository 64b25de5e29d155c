// SPDX-License-Identifier: Apache-2.0
// What the bands and lines are, the top one first, with their values where the cursor is.
import { Reading } from "../views/cells.tsx";
import { valueText, type Band, type Line } from "./chart.tsx";

interface Props {
	bands: Band[];
	lines: Line[];
	unit: string;
	/** The moment whose values are shown, and how to say which. */
	index: number;
	when: string;
	/** What the bands are then; undefined: what is drawn there. */
	values?: number[];
	/** What they are together; undefined: their sum. */
	total?: string;
	/** Nothing is known yet. */
	reading: boolean;
	lit: number | null;
	/** Whether a band can be descended into; the last one is the sum of all others. */
	descends(band: number): boolean;
	onLit(band: number | null): void;
	onBand(band: number): void;
}

export function Legend(props: Props) {
	const { bands, lines, unit, index } = props;
	if (props.reading) return <div class="timeline-legend"><Reading /></div>;
	const values = props.values ?? bands.map((band) => band.values[index] ?? 0);
	const total = props.total ?? valueText(values.reduce((sum, value) => sum + value, 0), unit);
	const order = bands.map((_, i) => i).reverse();
	return (
		<div class="timeline-legend">
			<div class="timeline-legend-head">
				<span>{props.when}</span>
				<b>{total}</b>
			</div>
			<ul>
				{lines.map((line) => (
					<li key={`line ${line.name}`} class="timeline-legend-row">
						<span class="timeline-line" style={{
							borderTopColor: `var(${line.colour})`,
							borderTopStyle: line.dashed ? "dashed" : "solid",
						}} />
						<span class="timeline-name">{line.name}</span>
						<span class="timeline-value">
							{line.values[index] == null ? "" : valueText(line.values[index]!, line.unit)}
						</span>
					</li>
				))}
				{order.map((i) => {
					const band = bands[i]!;
					const descends = props.descends(i);
					return (
						<li key={`band ${band.name}`}>
							<button
								type="button"
								class={`timeline-legend-row${props.lit === i ? " timeline-lit" : ""}`}
								disabled={!descends}
								title={descends ? `${band.name}\nShow its callers` : band.name}
								onMouseEnter={() => props.onLit(i)}
								onMouseLeave={() => props.onLit(null)}
								onFocus={() => props.onLit(i)}
								onBlur={() => props.onLit(null)}
								onClick={() => props.onBand(i)}
							>
								<span class="timeline-swatch" style={{ background: `var(${band.colour})` }} />
								<span class="timeline-name">{band.name}</span>
								<span class="timeline-value">{valueText(values[i]!, unit)}</span>
							</button>
						</li>
					);
				})}
			</ul>
		</div>
	);
}
