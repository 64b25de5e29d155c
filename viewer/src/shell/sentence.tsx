// SPDX-License-Identifier: Apache-2.0
// The question as a sentence. Each part of it opens an editor; the last button adds a part.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { requestText } from "../engine/engine.ts";
import type { Engine, Estimate } from "../engine/engine.ts";
import { countsText, estimateText, intervalText } from "../format.ts";
import { questionParameters } from "../state.ts";
import type { Change, Question } from "../state.ts";
import type { Info } from "../view.ts";
import { useAnswer } from "./answer.ts";
import { filterKinds, filterKindsOf, metricsOf, metricTitle, phrases, questionText } from "./filter_kinds.ts";
import type { FilterKind } from "./filter_kinds.ts";
import { MenuItem, Popover } from "./popover.tsx";

interface SentenceProps {
	engine: Engine;
	info: Info;
	question: Question;
	/** Of the view, which counts something else than the metric: so its total is not shown. */
	counts?: string;
	generation: number;
	go(change: Change): void;
}

function values(question: Question, kind: FilterKind): string[] {
	const value = question[kind.option];
	return value === undefined ? [] : Array.isArray(value) ? value : [value];
}

/** The question with another value in place of `before`; "" removes it. */
function withValue(question: Question, kind: FilterKind, before: string | undefined, value: string) {
	if (!kind.list) return { [kind.option]: value || undefined } as Partial<Question>;
	const list = values(question, kind).filter((one) => one !== before && one !== value);
	return { [kind.option]: value ? [...list, value] : list } as Partial<Question>;
}

function Editor(props: {
	kind: FilterKind;
	info: Info;
	value?: string;
	onDone(value: string): void;
}) {
	const { kind, value } = props;
	const [text, setText] = useState(value ?? "");
	const suggestions = kind.suggest?.(props.info) ?? [];
	const list = `suggest-${kind.option}`;
	const input = useRef<HTMLInputElement>(null);
	useLayoutEffect(() => {
		input.current?.focus();
		input.current?.select();
	}, []);
	return (
		<form
			class="editor"
			onSubmit={(event) => {
				event.preventDefault();
				props.onDone(text.trim());
			}}
		>
			<label>
				<span>{kind.title}</span>
				<input
					ref={input}
					data-first
					value={text}
					list={suggestions.length ? list : undefined}
					spellcheck={false}
					autocomplete="off"
					onInput={(event) => setText(event.currentTarget.value)}
				/>
			</label>
			{suggestions.length > 0 && (
				<datalist id={list}>
					{suggestions.map((one) => <option key={one} value={one} />)}
				</datalist>
			)}
			<p class="hint">{kind.hint}</p>
			<div class="buttons">
				<button type="submit" class="primary">{value === undefined ? "Add" : "Change"}</button>
				{value !== undefined && (
					<button type="button" onClick={() => props.onDone("")}>Remove</button>
				)}
			</div>
		</form>
	);
}

function Part(props: SentenceProps & { kind: FilterKind; value: string }) {
	const { kind, value } = props;
	const change = (next: string) =>
		props.go({ question: withValue(props.question, kind, value, next) });
	return (
		<span class="part">
			<Popover label={kind.show(value, props.info)} class="part-value" title={`${kind.title}: change`} role="dialog">
				{(close) => (
					<Editor
						kind={kind}
						info={props.info}
						value={value}
						onDone={(next) => {
							close();
							change(next);
						}}
					/>
				)}
			</Popover>
			<button
				type="button"
				class="part-remove"
				aria-label={`Remove: ${kind.words} ${kind.show(value, props.info)}`}
				title="Remove"
				onClick={() => change("")}
			>
				×
			</button>
		</span>
	);
}

function MetricMenu(props: SentenceProps) {
	const [time, setTime] = useState("");
	const title = metricTitle(props.question);
	return (
		<Popover label={title} class="part-value metric" title="What is counted, and when" role="dialog">
			{(close) => (
				<>
					<div role="menu" aria-label="What is counted">
						{metricsOf(props.info).map((metric) => (
							<MenuItem
								key={metric.title}
								checked={metric.title === title}
								hint={metric.hint}
								onChoose={() => {
									close();
									props.go({ question: metric.question });
								}}
							>
								{metric.title}
							</MenuItem>
						))}
					</div>
					<form
						class="editor"
						onSubmit={(event) => {
							event.preventDefault();
							if (!time.trim()) return;
							close();
							props.go({ question: { metric: undefined, at: time.trim() } });
						}}
					>
						<label>
							<span>Live at another time</span>
							<input
								value={time}
								placeholder="1.5s"
								spellcheck={false}
								onInput={(event) => setTime(event.currentTarget.value)}
							/>
						</label>
					</form>
				</>
			)}
		</Popover>
	);
}

function AddPanel(props: SentenceProps & { close(): void }) {
	const [kind, setKind] = useState<FilterKind>();
	const { close, question, go } = props;
	const add = (change: Partial<Question>) => {
		close();
		go({ question: change });
	};
	if (kind)
		return (
			<Editor
				kind={kind}
				info={props.info}
				onDone={(value) => (value ? add(withValue(question, kind, undefined, value)) : close())}
			/>
		);
	const free = filterKindsOf(props.info).filter((one) => one.list || question[one.option] === undefined);
	return (
		<div role="menu" aria-label="Filters">
			{free.map((one) => (
				<MenuItem key={one.option} hint={`--${one.option}`} onChoose={() => setKind(one)}>
					{one.title}
				</MenuItem>
			))}
			{question.frames !== "all" && (
				<MenuItem hint="--frames all" onChoose={() => add({ frames: "all" })}>
					With all frames
				</MenuItem>
			)}
			{props.info.interpreted && question.frames !== "python" && (
				<MenuItem hint="--frames python" onChoose={() => add({ frames: "python" })}>
					{`With ${props.info.interpreted} frames alone`}
				</MenuItem>
			)}
		</div>
	);
}

function AddMenu(props: SentenceProps) {
	return (
		<Popover label="+ filter" class="add" title="Add a filter" role="dialog">
			{(close) => <AddPanel {...props} close={close} />}
		</Popover>
	);
}

interface Total {
	total: Estimate;
}

/** How much it is. Read aloud when it changes. */
function TotalText(props: SentenceProps) {
	const request = requestText("rows", { ...questionParameters(props.question), top: 1 });
	const answer = useAnswer<Total>(props.engine, request, props.generation);
	const total = answer.value?.total;
	return (
		<output class={`total${answer.loading ? " loading" : ""}`} aria-live="polite">
			{answer.error && <span class="problem">{answer.error}</span>}
			{!total && answer.loading && <span class="dim" aria-busy>Reading…</span>}
			{total && (
				<span title={intervalText(total)}>
					<strong>{estimateText(total)}</strong>
					<span class="dim">
						{countsText(total) && ` in ${countsText(total)}`}
					</span>
				</span>
			)}
		</output>
	);
}

export function Sentence(props: SentenceProps) {
	const { question, go } = props;
	const shown = phrases(question);
	const frames = question.frames === "python" ? `${props.info.interpreted ?? "interpreted"} frames alone`
		: question.frames === "all" && "all frames";
	const filtered = shown.length > 0 || frames;
	const clear = () => {
		const none = Object.fromEntries(filterKinds.map((kind) => [kind.option, undefined]));
		go({ question: { ...none, frames: undefined } });
	};
	return (
		<section class="sentence" aria-label="What is shown">
			<span class="visually-hidden">{questionText(question, props.counts)}</span>
			<div class="parts">
				{props.counts === undefined ? <MetricMenu {...props} />
					: <span class="counts">{props.counts}</span>}
				{shown.map(({ kind, words, values }) => (
					<span class="phrase" key={kind.option}>
						<span class="words">{`${words} `}</span>
						{values.map((value, index) => (
							<span class="phrase" key={value}>
								{index > 0 && <span class="words">or </span>}
								<Part {...props} kind={kind} value={value} />
							</span>
						))}
					</span>
				))}
				{frames && (
					<span class="phrase">
						<span class="words">with </span>
						<span class="part">
							<span class="part-value">{frames}</span>
							<button
								type="button"
								class="part-remove"
								aria-label={`Remove: ${frames}`}
								onClick={() => go({ question: { frames: undefined } })}
							>
								×
							</button>
						</span>
					</span>
				)}
				<AddMenu {...props} />
				{filtered && (
					<button type="button" class="add" onClick={clear}>
						clear
					</button>
				)}
			</div>
			{props.counts === undefined && <TotalText {...props} />}
		</section>
	);
}
