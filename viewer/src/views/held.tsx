// SPDX-License-Identifier: Apache-2.0
// Who holds the memory: the picture of the heap as an icicle on its side, holders at the left and the types of what
// they hold at the right, so that names lie flat; below, all holders as a table. Each leads to the stacks that allocated.
//
//	+---------------------------+----------------------+
//	| g_sessions                | Session              |
//	|                           +----------------------+
//	|                           | std::string          |
//	+---------------------------+----------------------+
//	| s_cache                   | 65 B to 128 B        |
import type { CSSProperties } from "preact";
import { requestText, type Estimate } from "../engine/engine.ts";
import { bytesOf, bytesText, countText, durationText, estimateText, exactText, intervalText, percentText, plural }
	from "../format.ts";
import { useAnswer } from "../shell/answer.ts";
import { questionParameters, type Question } from "../state.ts";
import { onlyPicture, type Picture, type ViewProps } from "../view.ts";
import { applied } from "./applies.ts";
import { Answered, Bytes, isNoise, Name, SmallTable, type Column } from "./cells.tsx";
import { rowFilter, rowName, type Row } from "./row.ts";
import "./panes.css";
import "./held.css";

interface Holder extends Row {
	lost: boolean;
	types: Row[];
	types_count: number;
}

interface Held {
	time_ns: number;
	bytes: number;
	blocks: number;
	/** Recorded, and kept by the filters. */
	total: Estimate;
	rows: Holder[];
	rows_count: number;
	elsewhere: Estimate | null;
}

type Lead = (question: Partial<Question> | undefined) => void;

const HEIGHT = 400; // pixels, as in held.css
const LABEL = 17; // a box that is lower has no words in it
const LEAST = 3; // what would be lower is one box with others
const COLOURS = 7;

function retained(holder: Holder): number {
	return holder.retained_bytes ?? 0;
}

/** The filter that leaves what a holder has of one type, or of one size where none of its types are known; else, as
 * no filter says the size of blocks without a type, all that it holds. */
function typeFilter(holder: Holder, type: Row): Partial<Question> | undefined {
	const held = rowFilter(holder, "holder", false);
	const sizes = holder.types.some((one) => one.type) ? undefined : rowFilter(type, "size", false);
	return held && { ...held, ...(type.type ? rowFilter(type, "type", false) : sizes) };
}

interface BoxProps {
	class?: string;
	name: string;
	detail?: string;
	figure: string;
	title: string;
	/** Its part of the height of what it lies in. */
	share: number;
	/** Its height. */
	pixels: number;
	style?: CSSProperties;
	onChoose?: () => void;
}

function Box(props: BoxProps) {
	const label = props.pixels >= LABEL && (
		<>
			<span class="held-name">
				{props.name}
				{props.detail && <span class="detail">{props.detail}</span>}
			</span>
			<span class="held-figure">{props.figure}</span>
		</>
	);
	const style = { ...props.style, height: `${(props.share * 100).toFixed(3)}%` };
	const about = { class: `held-box ${props.class ?? ""}`, style, title: props.title };
	if (!props.onChoose) return <div {...about}>{label}</div>;
	return <button type="button" {...about} aria-label={label ? undefined : props.title}
		onClick={props.onChoose}>{label}</button>;
}

function Types({ holder, pixels, lead }: { holder: Holder; pixels: number; lead: Lead }) {
	const types = holder.types.filter((type) => bytesOf(type.self) > 0);
	const recorded = types.reduce((sum, type) => sum + bytesOf(type.self), 0);
	// Estimates may be above what is retained.
	const whole = Math.max(retained(holder), recorded, 1);
	const shown = types.filter((type) => (bytesOf(type.self) / whole) * pixels >= LEAST);
	const rest = whole - shown.reduce((sum, type) => sum + bytesOf(type.self), 0);
	const others = recorded - (whole - rest);
	return (
		<div class="held-types">
			{shown.map((type, i) => {
				const { name } = rowName(type, "type");
				const filter = typeFilter(holder, type);
				const share = bytesOf(type.self) / whole;
				const said = type.type ? name : `type not known, ${name}`;
				return <Box key={i} name={name} detail={type.type ? undefined : "type not known"} share={share}
					pixels={share * pixels} figure={estimateText(type.self)}
					style={{ "--shade": `${Math.max(40, 80 - 10 * i)}%` } as CSSProperties}
					title={`${said}, held by ${holder.holder}: ${intervalText(type.self)}`}
					onChoose={filter && (() => lead(filter))} />;
			})}
			{rest > 0 && (
				<Box class="held-unknown" name={others > rest / 2 ? "other types" : "not recorded"} share={rest / whole}
					pixels={(rest / whole) * pixels} figure={bytesText(rest)}
					title={`${bytesText(rest)} of other types, not recorded, left out by the filters, or the ends of blocks`} />
			)}
		</div>
	);
}

function Icicle({ value, lead }: { value: Held; lead: Lead }) {
	const all = value.rows.reduce((sum, holder) => sum + retained(holder), 0) || 1;
	const high = value.rows.filter((holder) => (retained(holder) / all) * HEIGHT >= LEAST);
	const low = value.rows.slice(high.length);
	const smaller = low.reduce((sum, holder) => sum + retained(holder), 0);
	return (
		<div class="held-icicle" role="group" aria-label="Holders, and the types of what they hold">
			{high.map((holder, i) => {
				const share = retained(holder) / all;
				const { name, detail } = rowName(holder, "holder");
				const filter = rowFilter(holder, "holder", false);
				const figure = `${bytesText(retained(holder))}  ${percentText(retained(holder), value.bytes)}`;
				return (
					<div key={i} class={`held-row${holder.lost ? " held-lost" : ""}`}
						style={{ height: `${(share * 100).toFixed(3)}%`, "--held": `var(--base${i % COLOURS})` } as CSSProperties}>
						<Box name={name} detail={detail} figure={figure} share={1} pixels={share * HEIGHT}
							title={`${name}${detail ? `, ${detail}` : ""}: ${figure}, ${plural(holder.retained_blocks ?? 0, "block")}`}
							onChoose={filter && (() => lead(filter))} />
						<Types holder={holder} pixels={share * HEIGHT} lead={lead} />
					</div>
				);
			})}
			{smaller > 0 && (
				<div class="held-row" style={{ height: `${((smaller / all) * 100).toFixed(3)}%` }}>
					<Box class="held-unknown" name={`${low.length} smaller`} share={1} pixels={(smaller / all) * HEIGHT}
						figure={bytesText(smaller)} title={`${low.length} smaller: ${bytesText(smaller)}`} />
				</div>
			)}
		</div>
	);
}

/** The largest types, in words. */
function mostly(holder: Holder): string {
	const all = bytesOf(holder.self);
	return holder.types.filter((type) => all > 0 && bytesOf(type.self) > all / 10).slice(0, 2)
		.map((type) => `${rowName(type, "type").name} ${percentText(bytesOf(type.self), all)}`).join(", ");
}

function columnsOf(value: Held, recorded: boolean): Column<Holder>[] {
	const all = value.bytes || 1;
	const columns: Column<Holder>[] = [
		{ title: "Held by", cell: (holder) => <Name of={rowName(holder, "holder")} /> },
		{ title: "Retained", number: true, width: 10, needed: true,
			hint: "what would be freed with the holder: all blocks, recorded or not",
			cell: (holder) => <span title={`${exactText(retained(holder))} bytes`}>{bytesText(retained(holder))}</span>,
			share: (holder) => retained(holder) / all },
		{ title: "%", number: true, width: 8, cell: (holder) => percentText(retained(holder), all) },
		{ title: "Blocks", number: true, width: 8, cell: (holder) => countText(holder.retained_blocks ?? 0) },
		{ title: "Recorded", number: true, width: "figure",
			hint: "what was recorded of that and fits the filters: only this has types and stacks",
			cell: (holder) => <Bytes of={holder.self} /> },
		{ title: "Mostly", width: 34, minor: true, hint: "the types, or sizes, of most of what was recorded",
			cell: (holder) => <span class="held-mostly" title={mostly(holder)}>{mostly(holder)}</span> },
	];
	return recorded ? columns : columns.filter(({ title }) => title !== "Recorded");
}

function About({ value, picture, recorded }: { value: Held; picture: Picture; recorded: boolean }) {
	const stopped = picture.stopped_ns > 0 ? `the program was stopped for ${durationText(picture.stopped_ns)}` : "";
	const when = [recorded ? durationText(value.time_ns) : "", stopped].filter(Boolean).join("; ");
	return (
		<p class="dim about">
			{`${bytesText(value.bytes)} were in ${plural(value.blocks, "block")} when the picture was taken${when && ` (${when})`}. `}
			{recorded ? `Recorded of that: ${estimateText(value.total)}; only this has types and stacks. A click on a part shows the
				stacks that allocated it.` : "A click on a part shows its blocks by type and size."}
			{value.elsewhere && ` Recorded outside of malloc's heap: ${estimateText(value.elsewhere)}; the picture does not
				tell who holds it.`}
		</p>
	);
}

export default function HeldView(props: ViewProps) {
	const { state, info, go } = props;
	const request = requestText("held", questionParameters(applied("held", state.question)));
	const answer = useAnswer<Held>(props.engine, request, props.generation);
	// A picture that was not recorded has no stacks.
	const recorded = !onlyPicture(info);
	const lead: Lead = (question) => question && go(recorded ? { view: "flame", question }
		: { view: "table", question, own: { by: "type" } });
	return (
		<div class="pane wide">
			<Answered answer={answer}>
				{(value) => (
					<>
						<section class="pane-section">
							{info.picture!.headline && <p class="headline">{info.picture!.headline}</p>}
							<About value={value} picture={info.picture!} recorded={recorded} />
							{value.rows.length > 0 && <Icicle value={value} lead={lead} />}
						</section>
						<section class="pane-section">
							<h2>Holders</h2>
							<SmallTable caption="Holders" rows={value.rows} columns={columnsOf(value, recorded)}
								none="Nothing is held"
								dim={(holder) => isNoise(holder.self) && holder.retained_bytes === 0}
								chooseTitle={recorded ? "What allocated it, as a flame graph" : "Its blocks, by type and size"}
								onChoose={(holder) => lead(rowFilter(holder, "holder", false))} />
							{value.rows_count > value.rows.length && (
								<p class="dim">{`${countText(value.rows_count - value.rows.length)} more hold less than these.`}</p>
							)}
						</section>
					</>
				)}
			</Answered>
		</div>
	);
}
