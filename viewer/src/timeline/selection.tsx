// SPDX-License-Identifier: Apache-2.0
// The window as text: two fields, and what was allocated in it.
import { useEffect, useState } from "preact/hooks";
import { requestText, type Engine, type Estimate } from "../engine/engine.ts";
import { durationText, estimateText, intervalText } from "../format.ts";
import { useAnswer } from "../shell/answer.ts";
import { questionParameters, type Question } from "../state.ts";
import { parseTime, timeOption, type Range } from "./times.ts";

interface FieldProps {
	label: string;
	value: string;
	placeholder: string;
	onValue(value: string | undefined): void;
}

/** A time, taken with Enter or when the field is left. */
function TimeField({ label, value, placeholder, onValue }: FieldProps) {
	const [text, setText] = useState(value);
	useEffect(() => setText(value), [value]);
	const wrong = text.trim() !== "" && parseTime(text) === undefined;
	const take = () => {
		if (!wrong && text.trim() !== value) onValue(text.trim() || undefined);
	};
	return (
		<label class="timeline-field">
			{label}
			<input
				type="text"
				size={9}
				value={text}
				placeholder={placeholder}
				aria-invalid={wrong}
				title={wrong ? "A time: 1.5s, 250ms, 2m; a plain number is seconds" : undefined}
				spellcheck={false}
				onInput={(event) => setText(event.currentTarget.value)}
				onBlur={take}
				onKeyDown={(event) => {
					if (event.key === "Enter") take();
					else if (event.key === "Escape") setText(value);
				}}
			/>
		</label>
	);
}

interface Props {
	engine: Engine;
	question: Question;
	generation: number;
	range: Range;
	duration: number;
	onWindow(window: { from?: string; to?: string }): void;
}

interface Total {
	total: Estimate;
}

function Amount({ estimate }: { estimate: Estimate }) {
	return <b title={intervalText(estimate)}>{estimateText(estimate)}</b>;
}

/** What a window's blocks are, as `mayfly report --metric METRIC --from A --to B` says it. */
function useTotal(props: Props, metric: string, asked: boolean): Total | undefined {
	const { engine, question, generation } = props;
	const request = requestText("rows", {
		...questionParameters({ ...question, metric, at: undefined }), by: "module", top: 1,
	});
	return useAnswer<Total>(engine, asked ? request : null, generation).value;
}

export function Selection(props: Props) {
	const { question, range, duration, onWindow } = props;
	const whole = !question.from && !question.to;
	const allocated = useTotal(props, "allocated", !whole);
	const survived = useTotal(props, "survived", !whole);
	return (
		<div class="timeline-selection">
			<TimeField label="From" value={question.from ?? ""} placeholder="0s"
				onValue={(from) => onWindow({ from, to: question.to })} />
			<TimeField label="to" value={question.to ?? ""}
				placeholder={timeOption(duration, duration / 1e4)}
				onValue={(to) => onWindow({ from: question.from, to })} />
			<button type="button" disabled={whole} onClick={() => onWindow({})}>
				Whole time
			</button>
			<p aria-live="polite">
				{whole ? (
					<span class="timeline-hint">
						{durationText(duration)} in all. Drag to choose a part: all views then
						show what was allocated in it.
					</span>
				) : (
					<>
						{durationText(range.to - range.from)} chosen
						{allocated && <>: <Amount estimate={allocated.total} /> allocated</>}
						{survived && <>, of which <Amount estimate={survived.total} /> were
							live at its end</>}
						.
					</>
				)}
			</p>
		</div>
	);
}
