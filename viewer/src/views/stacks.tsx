// SPDX-License-Identifier: Apache-2.0
// Stacks one below the other, each with its figures, as the terminal lists them.
import { useState } from "preact/hooks";
import { bytesOf, countsText, estimateText, percentText } from "../format.ts";
import { exactly } from "../shell/patterns.ts";
import type { Change } from "../state.ts";
import { isNoise, Name } from "./cells.tsx";
import { frameName } from "./row.ts";
import type { Row } from "./row.ts";

const SHORT = 8; // frames before the rest is folded

const CALLERS = 3; // beside the name of a stack

/** A stack in one line: where it allocates, and its callers. */
export function StackName({ row }: { row: Row }) {
	const frames = row.stack ?? [];
	const names = frames.map((frame) => frameName(frame).name);
	const callers = names.slice(1, 1 + CALLERS).join(" ← ");
	const more = names.length > 1 + CALLERS ? " ← …" : "";
	return <Name of={{ name: names[0] ?? "no stack", detail: callers ? `← ${callers}${more}` : undefined }}
		title={names.join("\n")} />;
}

function Stack(props: { row: Row; all: number; go(change: Change): void }) {
	const { row, all, go } = props;
	const [whole, setWhole] = useState(false);
	const frames = row.stack ?? [];
	const folded = whole ? 0 : Math.max(0, frames.length - SHORT);
	return (
		<li class={isNoise(row.self) ? "noise" : undefined}>
			<p class="stack-figures">
				<strong>{estimateText(row.self)}</strong>
				{` ${percentText(bytesOf(row.self), all)}, ${countsText(row.self)}`}
			</p>
			<ol class="stack">
				{frames.slice(0, frames.length - folded).map((frame, index) => (
					<li key={index}>
						{frame.function ? (
							<button
								type="button"
								class="row-button"
								title="Only what is inside this function"
								onClick={() => go({ question: { focus: [exactly(frame.function!)] } })}
							>
								<Name of={frameName(frame)} />
							</button>
						) : (
							<Name of={frameName(frame)} />
						)}
						{frame.inlined && <span class="detail">inlined</span>}
					</li>
				))}
				{folded > 0 && (
					<li>
						<button type="button" class="more" onClick={() => setWhole(true)}>
							{`${folded} more ${folded === 1 ? "frame" : "frames"}`}
						</button>
					</li>
				)}
			</ol>
		</li>
	);
}

export function Stacks(props: { rows: Row[]; all: number; go(change: Change): void }) {
	if (!props.rows.length) return <p class="empty">No stacks</p>;
	return (
		<ol class="stacks">
			{props.rows.map((row, index) => <Stack key={index} row={row} all={props.all} go={props.go} />)}
		</ol>
	);
}
