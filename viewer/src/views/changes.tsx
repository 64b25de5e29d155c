// SPDX-License-Identifier: Apache-2.0
// Before and after, where there is a trace to compare with: the most significant change comes first. Each
// card leads to the functions that changed.
import type { Estimate, Figure } from "../engine/engine.ts";
import { changeText, figureText, intervalText } from "../format.ts";
import { useAnswer } from "../shell/answer.ts";
import { baseName } from "../shell/tools.tsx";
import type { Question } from "../state.ts";
import type { ViewProps } from "../view.ts";
import { Answered } from "./cells.tsx";

export interface Change {
	verdict: "same" | "few_samples" | "unknown" | "noise" | "significant";
	bytes: Omit<Figure, "estimate"> & { before: number; after: number; change: number };
}

interface Total {
	metric: string;
	title: string;
	before: Estimate;
	after: Estimate;
	relative: string;
	change: Change;
}

const verdicts: Record<Change["verdict"], string> = {
	same: "no change", few_samples: "few samples", unknown: "not tested", noise: "within noise",
	significant: "significant",
};

export function changeClass({ verdict, bytes }: Change): string {
	if (verdict !== "significant") return "change";
	return `change ${bytes.change > 0 ? "more-of-it" : "less-of-it"}`;
}

/** The metric of a question, as `mayfly diff` asks it. */
function question(metric: string): Partial<Question> {
	return { metric: metric === "peak" ? undefined : metric, at: undefined };
}

function Card(props: { of: Total; onChoose(): void }) {
	const { title, before, after, relative, change } = props.of;
	const { low, high } = change.bytes;
	const interval = low === high ? "" : `95 % interval of the change: ${changeText(low)} to ${changeText(high)}`;
	return (
		<button type="button" class="tile change-card" onClick={props.onChoose} title={interval || undefined}>
			<span class="tile-title">{title}</span>
			<span class={`tile-figure ${changeClass(change)}`}>
				<strong>{relative}</strong>{" "}
				<span>{changeText(change.bytes.change)}</span>
			</span>
			<span class="tile-more">
				<span title={intervalText(before)}>{figureText(before.bytes, before.samples)}</span>
				{" → "}
				<span title={intervalText(after)}>{figureText(after.bytes, after.samples)}</span>
			</span>
			<span class="tile-more">{verdicts[change.verdict]}</span>
		</button>
	);
}

export function Changes(props: ViewProps) {
	const { engine, info, go } = props;
	const answer = useAnswer<{ headline?: string; changes: Total[] }>(engine, "changes", props.generation);
	return (
		<section class="changes" aria-label="What changed">
			<Answered answer={answer}>
				{({ headline, changes }) => (
					<>
						{headline && <p class="headline">{headline}</p>}
						<div class="tiles" role="group" aria-label={`Since ${baseName(info.base!.file)}`}>
							{changes.map((one) => (
								<Card key={one.metric} of={one}
									onChoose={() => go({ view: "difference", question: question(one.metric) })} />
							))}
						</div>
						<p class="dim">
							{`Before: ${baseName(info.base!.file)}. Choose a figure to see which functions changed it.`}
						</p>
					</>
				)}
			</Answered>
		</section>
	);
}
