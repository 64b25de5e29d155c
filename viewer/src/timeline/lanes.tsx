// SPDX-License-Identifier: Apache-2.0
// Spans, instants and pauses by thread, on the time axis of the chart above. Only the lanes that are
// in sight are asked for and drawn.
import { useEffect, useRef, useState } from "preact/hooks";
import { requestText, type Engine } from "../engine/engine.ts";
import { durationText } from "../format.ts";
import { useAnswer } from "../shell/answer.ts";
import { questionParameters, type Question } from "../state.ts";
import type { Boxes, Lane, Lanes as Answer } from "./answers.ts";
import { useTheme, type Plot } from "./canvas.ts";
import { boxAt, drawLanes, HEADER, laneName, places, type Hit, type Scene } from "./lane_draw.ts";
import { tickText, type Range } from "./times.ts";

const MOST_HEIGHT = 420; // or half of the window, where that is more
const BLOCK = 16; // lanes are asked for in blocks of this many
const EXPANDED = 8; // lanes that are open at first

interface Props {
	engine: Engine;
	question: Question;
	generation: number;
	range: Range;
	plot: Plot;
	/** Lanes that the user opened or closed, by name. */
	turned: string[];
	onTurn(turned: string[]): void;
	onRange(range: Range): void;
}

function Field({ name, value }: { name: string; value: unknown }) {
	return (
		<tr>
			<th>{name}</th>
			<td>{String(value)}</td>
		</tr>
	);
}

function BoxTip({ answer, boxes, box, range }:
	{ answer: Answer; boxes: Boxes; box: number; range: Range }) {
	const type = answer.types[boxes.type[box]!]!;
	const start = boxes.start_ns[box]!;
	const end = boxes.end_ns[box] ?? null;
	const count = boxes.count[box]!;
	const step = (range.to - range.from) / 1000;
	const spans = boxes.kind === "spans";
	return (
		<>
			<b>{count > 1 ? `${count} ${spans ? "spans" : "events"}` : type.name}</b>
			{type.pause && count === 1 && <span> (the program waits)</span>}
			<table>
				{count > 1 && <Field name={spans ? "longest" : "among them"} value={type.name} />}
				<Field name="at" value={tickText(start, range, step)} />
				{spans && count === 1 && (
					<Field name="takes" value={end === null
						? "not ended" : durationText(end - start)} />
				)}
				{spans && count > 1 && <Field name="open for" value={durationText(boxes.busy_ns[box]!)} />}
				{type.category && <Field name="category" value={type.category} />}
				{Object.entries(boxes.fields[box] ?? {}).map(([name, value]) =>
					<Field key={name} name={name} value={value} />)}
			</table>
		</>
	);
}

function laneTitle(lane: Lane): string {
	const parts = [];
	if (lane.spans) parts.push(`${lane.spans} span${lane.spans === 1 ? "" : "s"}`);
	if (lane.instants) parts.push(`${lane.instants} event${lane.instants === 1 ? "" : "s"}`);
	if (lane.deeper_spans) parts.push(`${lane.deeper_spans} too deep to show`);
	return parts.join(", ");
}

export function Lanes(props: Props) {
	const { engine, question, generation, range, plot } = props;
	const canvas = useRef<HTMLCanvasElement>(null);
	const scroller = useRef<HTMLDivElement>(null);
	const scene = useRef<Scene | null>(null);
	const [top, setTop] = useState(0);
	const [hit, setHit] = useState<(Hit & { x: number; y: number }) | null>(null);
	const [first, setFirst] = useState(0);
	const theme = useTheme();
	const width = Math.max(1, Math.round(plot.width));
	const { value: answer, error, loading } = useAnswer<Answer>(engine, plot.width
		? requestText("lanes", { from: question.from, to: question.to,
			thread: questionParameters(question).thread as string[] | undefined,
			width, skip: first, top: 3 * BLOCK })
		: null, generation);
	const skipped = useRef(first);
	if (!loading) skipped.current = first;

	const lanes = answer?.lanes ?? [];
	const folded = (lane: Lane, i: number) =>
		props.turned.includes(laneName(lane)) !== (i >= EXPANDED);
	const all = places(lanes, folded);
	const total = all.reduce((sum, place) => sum + place.height, 0);
	const height = Math.min(Math.max(MOST_HEIGHT, innerHeight / 2), total);
	const visible = all.find((place) => place.top + place.height > top)?.lane ?? 0;
	const wanted = Math.max(0, Math.floor((visible - BLOCK) / BLOCK) * BLOCK);
	useEffect(() => {
		if (wanted !== first) setFirst(wanted);
	}, [wanted]);
	useEffect(() => {
		if (!answer || !canvas.current) return;
		scene.current = {
			plot, range, end: answer.end_ns, types: answer.types, lanes, places: all,
			rows: (lane) => answer.shown[lane - skipped.current],
			top, height, chosen: hit,
		};
		drawLanes(canvas.current, scene.current);
	}, [answer, top, height, hit, plot.left, plot.width, props.turned, range.from, range.to, theme]);

	if (error) return <p class="timeline-note">{error}</p>;
	if (answer && !lanes.length)
		return (
			<p class="timeline-note">
				The trace has no spans or events. Programs make them with mayfly.h.
			</p>
		);
	const point = (event: MouseEvent) => {
		const box = canvas.current!.getBoundingClientRect();
		const x = event.clientX - box.left;
		const y = event.clientY - box.top;
		const found = scene.current && boxAt(scene.current, x, y);
		setHit(found ? { ...found, x: event.clientX, y: event.clientY } : null);
	};
	const boxes = hit && answer?.shown[hit.lane - skipped.current]?.[hit.row];
	return (
		<div
			class={`timeline-lanes${loading ? " timeline-old" : ""}`}
			ref={scroller}
			style={{ height: `${height}px` }}
			onScroll={() => setTop(scroller.current!.scrollTop)}
			role="group"
			aria-label="Spans and events by thread"
			aria-busy={loading}
			tabIndex={answer && total <= height ? -1 : 0}
		>
			<div style={{ height: `${total}px`, position: "relative" }}>
				<canvas
					ref={canvas}
					class="timeline-lanes-canvas"
					aria-hidden="true"
					onMouseMove={point}
					onMouseLeave={() => setHit(null)}
					onDblClick={() => {
						if (!hit || !boxes || !answer) return;
						const from = boxes.start_ns[hit.box]!;
						const to = boxes.end_ns[hit.box] ?? answer.end_ns;
						if (to > from) props.onRange({ from, to });
					}}
				/>
				{all.filter((p) => p.top < top + height && p.top + p.height > top).map((place) => {
					const lane = lanes[place.lane]!;
					const name = laneName(lane);
					return (
						<button
							key={place.lane}
							type="button"
							class="timeline-lane-name"
							style={{ top: `${place.top}px`, height: `${HEADER}px` }}
							aria-expanded={!place.folded}
							onClick={() => props.onTurn(props.turned.includes(name)
								? props.turned.filter((one) => one !== name)
								: [...props.turned, name])}
						>
							<span class="timeline-fold" aria-hidden="true">{place.folded ? "▸" : "▾"}</span>
							{name}
							<small>{laneTitle(lane)}</small>
						</button>
					);
				})}
			</div>
			{hit && boxes && answer && (
				<div class="timeline-tip" style={{
					left: `${Math.min(hit.x + 14, innerWidth - 300)}px`,
					top: `${Math.min(hit.y + 14, innerHeight - 160)}px`,
				}}>
					<BoxTip answer={answer} boxes={boxes} box={hit.box} range={range} />
				</div>
			)}
		</div>
	);
}
