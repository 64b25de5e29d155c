// SPDX-License-Identifier: Apache-2.0
// A source file, with what each of its lines allocates. Where the text cannot be read, only the lines
// that allocate are there.
import { useEffect, useMemo } from "preact/hooks";
import { requestText } from "../engine/engine.ts";
import type { Estimate } from "../engine/engine.ts";
import { bytesOf, bytesText, exactText, percentText } from "../format.ts";
import { useKeys } from "../keyboard.ts";
import { useAnswer } from "../shell/answer.ts";
import { questionParameters } from "../state.ts";
import type { ViewProps } from "../view.ts";
import { barStyle, Bytes, isNoise, Name } from "./cells.tsx";
import { fitting, useRoom } from "./room.ts";
import type { Sized } from "./room.ts";
import { shortPath } from "./row.ts";
import type { Row } from "./row.ts";
import { Space } from "./space.tsx";
import { useVirtual } from "./virtual.ts";
import "./table.css";
import "./source.css";

interface File {
	file: string;
	self: Estimate;
	most: Estimate;
}

interface Source {
	file: string;
	total: Estimate;
	lines: Row[];
	text: string | null;
}

/** A line of the list: a line of the text; a further function of that line; or only figures. */
interface Item {
	line: number;
	text: string;
	row?: Row;
}

const HOT = 0.01; // of all bytes
const LONGEST = 2000; // characters of a line that are shown
const TAB = 8;
const BEFORE = 8; // lines above one that was jumped to

function compare(a: Row, b: Row): number {
	return a.line! - b.line! || bytesOf(b.total) - bytesOf(a.total);
}

function itemsOf(source: Source): Item[] {
	const rows = source.lines.filter((row) => row.line).sort(compare);
	if (source.text === null) return rows.map((row) => ({ line: row.line!, text: "", row }));
	const items: Item[] = [];
	const texts = source.text.split(/\r?\n/);
	if (texts.at(-1) === "") texts.pop();
	let at = 0;
	texts.forEach((text, index) => {
		const line = index + 1;
		if (rows[at]?.line !== line) items.push({ line, text });
		for (let first = true; rows[at]?.line === line; first = false)
			items.push({ line, text: first ? text : "", row: rows[at++]! });
	});
	// The text is another version's.
	for (const row of rows.slice(at)) items.push({ line: row.line!, text: "", row });
	return items;
}

/** In characters, as wide as the longest line. */
function widthOf(items: Item[]): number {
	let most = 0;
	for (const { text } of items) {
		let width = 0;
		for (const character of text.slice(0, LONGEST))
			width = character === "\t" ? (Math.floor(width / TAB) + 1) * TAB : width + 1;
		most = Math.max(most, width);
	}
	return most;
}

/** Which of the items allocates most: itself, or else with all that it calls. */
function hottest(items: Item[], of?: string): number {
	let best = -1;
	items.forEach(({ row }, index) => {
		if (!row || (of !== undefined && row.function !== of)) return;
		const before = best < 0 ? undefined : items[best]!.row!;
		const more = !before || bytesOf(row.self) > bytesOf(before.self) ||
			(bytesOf(row.self) === bytesOf(before.self) && bytesOf(row.total) > bytesOf(before.total));
		if (more) best = index;
	});
	return best;
}

/** The columns before the text, which stay where they are when the text is moved. What a line allocates itself is in
 * its total, too. */
const figureColumns: (Sized & { key: "self" | "total" })[] = [
	{ key: "self", width: "figure" },
	{ key: "total", width: "figure", needed: true },
];
const LINE: Sized = { width: 6, needed: true };

type Shown = ReadonlySet<"self" | "total">;

function Amount({ of, all, column }: { of?: Estimate; all: number; column: string }) {
	if (!of) return <td class={`number stay stay-${column}`} />;
	if (!(bytesOf(of) > 0))
		return <td class={`number dim stay stay-${column}`}>{of.samples ? <Bytes of={of} /> : ""}</td>;
	return (
		<td class={`number bar${isNoise(of) ? " dim" : ""} stay stay-${column}`} style={barStyle(bytesOf(of) / all)}>
			<Bytes of={of} />
		</td>
	);
}

interface LineProps {
	item: Item;
	index: number;
	all: number;
	shown: Shown;
	chosen: boolean;
	onChoose(): void;
}

function Line({ item, index, all, shown, chosen, onChoose }: LineProps) {
	const { row, text } = item;
	return (
		<tr id={`line-${index}`} class={chosen ? "chosen" : ""} aria-rowindex={index + 2}
			aria-selected={chosen} onClick={onChoose}>
			{shown.has("self") && <Amount of={row?.self} all={all} column="self" />}
			<Amount of={row?.total} all={all} column="total" />
			<td class="number dim stay stay-line">{item.line}</td>
			<td class="source-text">
				<code>{text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text}</code>
				{row && text === "" && <Name of={{ name: row.function ?? "unknown function" }} />}
			</td>
		</tr>
	);
}

function Missing() {
	return (
		<p class="source-missing" role="status">
			The text of this file is not here, so this lists only the lines that allocate. To see the
			text, run <code>mayfly view</code> where the sources are, or make the page there with{" "}
			<code>mayfly view --html OUT --embed-sources</code>.
		</p>
	);
}

function fileTitle(file: File, all: number): string {
	return `${shortPath(file.file)}  ${bytesText(bytesOf(file.self))}, ${percentText(bytesOf(file.self), all)}`;
}

export default function SourceView(props: ViewProps) {
	const { engine, state, go, generation } = props;
	const { own } = state;
	const filters = { ...questionParameters(state.question), sort: undefined };
	const files = useAnswer<{ total: Estimate; files: File[] }>(engine,
		requestText("source", filters), generation);
	const list = files.value?.files ?? [];
	const file = own.file ?? list[0]?.file;
	const answer = useAnswer<Source>(engine,
		file === undefined ? null : requestText("source", { ...filters, file }), generation);
	const source = answer.value?.file === file ? answer.value : undefined;
	const items = useMemo(() => (source ? itemsOf(source) : []), [source]);
	const width = useMemo(() => widthOf(items), [items]);
	const all = bytesOf((source ?? files.value)?.total ?? { bytes: null, blocks: null, samples: 0 });
	const height = matchMedia("(pointer: coarse)").matches ? 36 : 20;
	const virtual = useVirtual(items.length, height, height + 8);
	const room = useRoom(virtual.box, source);
	const shown: Shown = new Set(fitting([...figureColumns, LINE], room)
		.flatMap((column) => ("key" in column ? [column.key as "self" | "total"] : [])));
	const wanted = own.line ? items.findIndex((item) => `${item.line}` === own.line) : -1;
	const hot = useMemo(() => hottest(items, own.function), [items, own.function]);
	const chosen = wanted >= 0 ? wanted : hot >= 0 ? hot : hottest(items);
	const chosenRow = items[chosen]?.row;

	const show = (index: number, room = BEFORE) => {
		const box = virtual.box.current;
		if (!box || index < 0) return;
		const top = index * height;
		if (top < box.scrollTop || top + 3 * height > box.scrollTop + box.clientHeight)
			box.scrollTop = Math.max(0, top - room * height);
	};
	useEffect(() => show(chosen), [source?.file, source !== undefined, own.line, own.function]);

	const choose = (index: number) => {
		const item = items[Math.max(0, Math.min(index, items.length - 1))];
		if (item) go({ own: { file, line: `${item.line}`, function: undefined } }, true);
	};
	/** Lines of the same number are one step. */
	const step = (by: number) => {
		let at = chosen;
		while (items[at] && items[at]!.line === items[chosen]?.line) at += Math.sign(by);
		choose(at + by - Math.sign(by));
	};
	const isHot = ({ row }: Item) => row !== undefined && bytesOf(row.total) >= HOT * all;
	const next = (by: 1 | -1) => {
		let at = chosen + by;
		while (items[at] && (!isHot(items[at]!) || items[at]!.line === items[chosen]?.line)) at += by;
		if (items[at]) choose(at);
	};
	const toHottest = () => choose(hottest(items));
	const chooseFile = (name: string) =>
		go({ own: { file: name, line: undefined, function: undefined } });
	useKeys("Source", [
		{ keys: ["n"], does: "next hot line", run: () => next(1) },
		{ keys: ["p"], does: "hot line before", run: () => next(-1) },
		{ keys: ["h"], does: "the hottest line", run: toHottest },
		{ keys: ["ArrowDown", "j"], does: "next line", run: () => step(1) },
		{ keys: ["ArrowUp", "k"], does: "line before", run: () => step(-1) },
		{ keys: ["PageDown"], does: "a page down", run: () => step(virtual.fit) },
		{ keys: ["PageUp"], does: "a page up", run: () => step(-virtual.fit) },
		{ keys: ["Home"], does: "first line", run: () => choose(0) },
		{ keys: ["End"], does: "last line", run: () => choose(items.length - 1) },
	]);

	const problem = files.error ?? answer.error;
	if (problem !== undefined) return <p class="empty" role="status">{problem}</p>;
	if (files.value && file === undefined)
		return (
			<p class="empty" role="status">
				No source line is known of what is shown. Lines need debug information: build the
				program with -g.
			</p>
		);
	const loading = files.loading || answer.loading;
	return (
		<div class="table-view source-view">
			<div class="view-bar">
				<label>
					File{" "}
					<select value={file} title={file}
						onChange={(event) => chooseFile(event.currentTarget.value)}>
						{file !== undefined && !list.some((one) => one.file === file) && (
							<option value={file}>{shortPath(file)}</option>
						)}
						{list.map((one) => (
							<option key={one.file} value={one.file} title={one.file}>{fileTitle(one, all)}</option>
						))}
					</select>
				</label>
				<button type="button" title="Key h" disabled={!items.length} onClick={toHottest}>
					Hottest line
				</button>
				<button type="button" title="Key p" aria-label="Hot line before" onClick={() => next(-1)}>
					↑
				</button>
				<button type="button" title="Key n" aria-label="Next hot line" onClick={() => next(1)}>
					↓
				</button>
				<span class="dim source-said" aria-live="polite">
					{chosenRow && `line ${exactText(chosenRow.line!)}: ${chosenRow.function ?? "unknown function"}`}
				</span>
			</div>
			{source?.text === null && <Missing />}
			<div class="table-and-side">
				<div class={`rows${loading ? " loading" : ""}`} ref={virtual.box} aria-busy={loading}>
					<table role="grid" tabIndex={0} aria-label={`Lines of ${file ?? "a file"}`}
						aria-rowcount={items.length + 1}
						aria-activedescendant={chosen >= 0 ? `line-${chosen}` : undefined}
						style={{ "--row": `${height}px`, "--text-width": `${(width * 0.6).toFixed(1)}em`, "--figures": shown.size } as never}>
						<colgroup>
							{shown.has("self") && <col class="figure-column" />}
							<col class="figure-column" />
							<col class="line-column" /><col />
						</colgroup>
						<thead>
							<tr>
								{shown.has("self") && (
									<th scope="col" class="number stay stay-self" title="What it allocates itself">Self</th>
								)}
								<th scope="col" class="number stay stay-total" title="With all that it calls">Total</th>
								<th scope="col" class="number stay stay-line">Line</th>
								<th scope="col" class="names">{file ?? "Source"}</th>
							</tr>
						</thead>
						<tbody>
							<Space height={virtual.above} />
							{items.slice(virtual.first, virtual.end).map((item, at) => {
								const index = virtual.first + at;
								return (
									<Line key={index} item={item} index={index} all={all} shown={shown}
										chosen={index === chosen} onChoose={() => choose(index)} />
								);
							})}
							<Space height={virtual.below} />
						</tbody>
					</table>
					{source && !source.lines.length && (
						<p class="empty">No line of this file allocates what is shown</p>
					)}
				</div>
			</div>
		</div>
	);
}
