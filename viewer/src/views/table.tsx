// SPDX-License-Identifier: Apache-2.0
// Rows by any key. The chosen function has its callers and callees beside it; stacks open.
import type { RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { requestText } from "../engine/engine.ts";
import type { Estimate } from "../engine/engine.ts";
import { blocksText, bytesOf, countText, exactText, percentText } from "../format.ts";
import { useKeys } from "../keyboard.ts";
import { useAnswer } from "../shell/answer.ts";
import { copyText } from "../shell/copy.ts";
import { labelKeys } from "../shell/filter_kinds.ts";
import { questionParameters } from "../state.ts";
import type { Info, ViewProps } from "../view.ts";
import { barStyle, Bytes, isNoise, Name } from "./cells.tsx";
import { NamesGrip, namesStyle, useNames } from "./names.tsx";
import type { Names } from "./names.tsx";
import { frameName, rowCopy, rowFilter, rowKey, rowName, rowText } from "./row.ts";
import type { Frame, Row, Rows } from "./row.ts";
import { fitting, useRoom } from "./room.ts";
import type { Sized } from "./room.ts";
import { Sandwich } from "./sandwich.tsx";
import { Space } from "./space.tsx";
import { useVirtual } from "./virtual.ts";
import "./table.css";

const FIRST = 1000; // rows that are asked for at first

interface Grouping {
	by: string;
	title: string;
	head: string;
	/** Rows have callees: self and total differ. */
	calls?: boolean;
}

const groupings: Grouping[] = [
	{ by: "function", title: "functions", head: "Function", calls: true },
	{ by: "line", title: "lines", head: "Line", calls: true },
	{ by: "stack", title: "stacks", head: "Stack" },
	{ by: "module", title: "modules", head: "Module", calls: true },
	{ by: "thread", title: "threads", head: "Allocated by" },
	{ by: "freeing-thread", title: "freeing threads", head: "Freed by" },
	{ by: "threads", title: "allocating and freeing threads", head: "Allocated by, freed by" },
	{ by: "size", title: "sizes", head: "Size" },
	{ by: "lifetime", title: "lifetimes", head: "Lifetime" },
	{ by: "heap", title: "heaps", head: "Heap" },
];

const ofPicture: Grouping[] = [
	{ by: "holder", title: "holders, in the heap's picture", head: "Held by" },
	{ by: "type", title: "types, in the heap's picture", head: "Type" },
];

function groupingsOf(info: Info): Grouping[] {
	const known = info.picture ? [...groupings, ...ofPicture] : groupings;
	const labels = labelKeys(info);
	if (!labels.length) return known;
	const keys = labels.map((key) => ({ by: `label:${key}`, title: `label ${key}`, head: key }));
	return [...known, { by: "label", title: "labels", head: "Label" }, ...keys];
}

/** A line of the list: a row, or a frame of an opened stack. */
type Item = { row: Row; key: string; rank: number; frame?: Frame };

function itemsOf(rows: Row[], by: string, opened: ReadonlySet<string>, search: string): Item[] {
	const items: Item[] = [];
	const wanted = search.toLowerCase();
	rows.forEach((row, rank) => {
		const key = rowKey(row, by);
		if (wanted && !rowText(row, by).toLowerCase().includes(wanted)) return;
		items.push({ row, key, rank });
		if (row.stack && opened.has(key))
			for (const frame of row.stack.slice(1)) items.push({ row, key, rank, frame });
	});
	return items;
}

/** A column beside the names. */
interface Column extends Sized {
	key: "self" | "total" | "shares" | "blocks" | "samples";
}

/** The bars say the shares, too, so these go first. What the rows are sorted by stays. Where every allocation is
 * recorded, samples are blocks. */
function columnsOf(calls: boolean, sort: string, exact: boolean): Column[] {
	const columns: Column[] = [
		{ key: "self", width: "figure", needed: sort === "self" },
		{ key: "total", width: "figure", needed: sort === "total" },
		{ key: "shares", width: calls ? 16 : 7, minor: true },
		{ key: "blocks", width: exact ? 11 : 14 },
		{ key: "samples", width: 11 },
	];
	return columns.filter(({ key }) => (calls || key !== "total") && !(exact && key === "samples"));
}

/** Which of them are there. */
type Shown = ReadonlySet<Column["key"]>;

/** How many columns stand beside the names. */
function beside(shown: Shown): number {
	const figures = Number(shown.has("self")) + Number(shown.has("total"));
	return figures * (shown.has("shares") ? 2 : 1) + Number(shown.has("blocks")) +
		Number(shown.has("samples"));
}

interface LineProps {
	item: Item;
	by: string;
	index: number;
	all: number;
	calls: boolean;
	shown: Shown;
	/** What the list is sorted by is counted, too. */
	byTotal: boolean;
	chosen: boolean;
	opened: boolean;
	onChoose(): void;
	onOpen(): void;
}

function Amount(props: { of: Estimate; all: number; shares: boolean }) {
	const bytes = bytesOf(props.of);
	const dim = isNoise(props.of) ? " dim" : "";
	return (
		<>
			<td class={`number bar${dim}`} style={barStyle(bytes / props.all)}><Bytes of={props.of} /></td>
			{props.shares && <td class={`number${dim}`}>{percentText(bytes, props.all)}</td>}
		</>
	);
}

function Line(props: LineProps) {
	const { item, by, all, calls, shown } = props;
	const shares = shown.has("shares");
	const { row, frame } = item;
	const id = `line-${props.index}`;
	if (frame)
		return (
			<tr class="frame" id={id} aria-rowindex={props.index + 2}>
				<td class="names frame-name">
					<Name of={frameName(frame)} />
					{frame.inlined && <span class="detail">inlined</span>}
				</td>
				<td colSpan={beside(shown)} />
			</tr>
		);
	const noise = isNoise(row.self) && (!calls || isNoise(row.total));
	const counted = props.byTotal ? row.total : row.self;
	return (
		<tr
			id={id}
			class={`${noise ? "noise" : ""}${props.chosen ? " chosen" : ""}`}
			aria-rowindex={props.index + 2}
			aria-selected={props.chosen}
			onClick={props.onChoose}
			onDblClick={props.onOpen}
		>
			<td class="names">
				{row.stack && row.stack.length > 1 && (
					<button
						type="button"
						class="opener"
						tabIndex={-1}
						aria-expanded={props.opened}
						aria-label="Frames"
						onClick={(event) => {
							event.stopPropagation();
							props.onOpen();
						}}
					>
						{props.opened ? "▾" : "▸"}
					</button>
				)}
				<Name of={rowName(row, by)} title={rowCopy(row, by)} />
				{row.stack && !props.opened && <span class="callers-short">{callersShort(row.stack)}</span>}
			</td>
			{shown.has("self") && <Amount of={row.self} all={all} shares={shares} />}
			{shown.has("total") && <Amount of={row.total} all={all} shares={shares} />}
			{shown.has("blocks") && <td class="number">{blocksText(counted)}</td>}
			{shown.has("samples") && <td class="number dim">{countText(counted.samples)}</td>}
		</tr>
	);
}

function callersShort(stack: Frame[]): string {
	return stack.slice(1, 6).map((frame) => `← ${frame.function ?? "?"}`).join(" ");
}

interface HeadProps {
	grouping: Grouping;
	sort: string;
	shown: Shown;
	names: Names;
	box: RefObject<HTMLElement | null>;
	onSort(sort: string): void;
}

function Head(props: HeadProps) {
	const { grouping, sort, shown } = props;
	const sortable = (key: string, title: string, hint: string) => (
		<>
			<th scope="col" class="number" aria-sort={sort === key ? "descending" : "none"} title={hint}>
				<button type="button" onClick={() => props.onSort(key)}>
					{title} <span aria-hidden="true">{sort === key ? "▼" : ""}</span>
				</button>
			</th>
			{shown.has("shares") && <th scope="col" class="number">%</th>}
		</>
	);
	return (
		<thead>
			<tr>
				<th scope="col" class="names">
					{grouping.head}
					<NamesGrip names={props.names} box={props.box} />
				</th>
				{grouping.calls ? (
					<>
						{shown.has("self") && sortable("self", "Self", "What it allocates itself")}
						{shown.has("total") && sortable("total", "Total", "With all that it calls")}
					</>
				) : (
					<>
						<th scope="col" class="number" aria-sort="descending">Bytes</th>
						{shown.has("shares") && <th scope="col" class="number">%</th>}
					</>
				)}
				{shown.has("blocks") && (
					<th scope="col" class="number">{grouping.calls ? "Self blocks" : "Blocks"}</th>
				)}
				{shown.has("samples") && (
					<th scope="col" class="number">{grouping.calls ? "Self samples" : "Samples"}</th>
				)}
			</tr>
		</thead>
	);
}

export default function Table(props: ViewProps) {
	const { engine, info, state, go } = props;
	const by = state.own.by ?? "function";
	const grouping = groupingsOf(info).find((one) => one.by === by) ?? { by, title: by, head: by };
	const calls = grouping.calls ?? false;
	const sort = calls && state.own.sort === "total" ? "total" : "self";
	const search = state.own.search ?? "";
	const [whole, setWhole] = useState(false);
	const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
	const [said, setSaid] = useState("");
	const input = useRef<HTMLInputElement>(null);
	const request = requestText("rows", {
		...questionParameters(state.question), by, sort,
		top: whole || search ? "0" : FIRST,
	});
	const answer = useAnswer<Rows>(engine, request, props.generation);
	// Until the new rows are there, the old ones are drawn as what they are.
	const rows = answer.value?.rows ?? [];
	const drawnBy = answer.value?.by ?? by;
	const items = useMemo(() => itemsOf(rows, drawnBy, opened, search), [rows, drawnBy, opened, search]);
	const height = matchMedia("(pointer: coarse)").matches ? 36 : 24;
	const virtual = useVirtual(items.length, height, height + 4);
	const room = useRoom(virtual.box, true);
	const names = useNames("table");
	const exact = info.info.mode === "exact" && !info.info.thinned;
	const shown: Shown = new Set(fitting(columnsOf(calls, sort, exact), room, names.share).map(({ key }) => key));
	const share = shown.has("shares") && <col class="share-column" />;
	const count = answer.value?.rows_count ?? rows.length;
	const all = answer.value ? bytesOf(answer.value.total) : 0;
	const chosen = items.findIndex((item) => !item.frame && item.key === state.own.row);
	const chosenRow = chosen >= 0 ? items[chosen]!.row : undefined;
	const sandwich = chosenRow && !chosenRow.stack;

	useEffect(() => {
		if (virtual.end >= rows.length && rows.length < count) setWhole(true);
	}, [virtual.end, rows.length, count]);
	useEffect(() => setWhole(false), [by, sort]);

	const choose = (index: number, replace = true) => {
		const item = items[Math.max(0, Math.min(index, items.length - 1))];
		if (!item) return;
		virtual.reveal(items.indexOf(item));
		go({ own: { row: item.key } }, replace);
	};
	const step = (by: number) => () => {
		let at = chosen < 0 && by > 0 ? 0 : chosen + by;
		while (items[at]?.frame) at += Math.sign(by);
		choose(at);
	};
	const open = (key: string) => {
		const next = new Set(opened);
		if (!next.delete(key)) next.add(key);
		setOpened(next);
	};
	const keepOnly = (row: Row | undefined) => {
		const filter = row && rowFilter(row, drawnBy, info.info.processes > 1);
		if (filter) go({ question: filter });
		return filter !== undefined;
	};
	useKeys("Table", [
		{ keys: ["ArrowDown", "j"], does: "next row", run: step(1) },
		{ keys: ["ArrowUp", "k"], does: "row before", run: step(-1) },
		{ keys: ["PageDown"], does: "a page down", run: step(virtual.fit) },
		{ keys: ["PageUp"], does: "a page up", run: step(-virtual.fit) },
		{ keys: ["Home"], does: "first row", run: () => choose(0) },
		{ keys: ["End"], does: "last row", run: () => choose(items.length - 1) },
		{
			keys: ["Enter"],
			does: "only this row; a stack opens",
			run: () => {
				if (chosenRow?.stack) return open(state.own.row!);
				return keepOnly(chosenRow) ? undefined : false;
			},
		},
		{
			keys: ["Backspace", "Escape"],
			does: "no row is chosen",
			run: () => (state.own.row ? go({ own: { row: undefined } }) : false),
		},
		{
			keys: ["c"],
			does: "copy the row's whole name",
			run: () => {
				if (!chosenRow) return false;
				void copyText(rowCopy(chosenRow, drawnBy)).then((done) =>
					setSaid(done ? "Copied" : "The browser does not allow copying"));
				return undefined;
			},
		},
		{ keys: ["t"], does: "sort by self or total", run: () => setSort(sort === "self" ? "total" : "self") },
		{ keys: ["/"], does: "search", run: () => input.current?.focus() },
	]);
	const setSort = (next: string) => go({ own: { sort: next === "self" ? undefined : next } });

	return (
		<div class="table-view">
			<div class="view-bar">
				<label>
					Rows are{" "}
					<select
						value={by}
						onChange={(event) => go({ own: { by: event.currentTarget.value, row: undefined } })}
					>
						{groupingsOf(info).map((one) => (
							<option key={one.by} value={one.by}>{one.title}</option>
						))}
					</select>
				</label>
				<input
					ref={input}
					type="search"
					placeholder="Search (/)"
					aria-label="Search in the rows"
					value={search}
					onInput={(event) => go({ own: { search: event.currentTarget.value } }, true)}
					onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
				/>
				<span class="dim" aria-live="polite">
					{said ? `${said}. ` : ""}
					{search ? `${exactText(items.length)} of ` : ""}{exactText(count)} {count === 1 ? "row" : "rows"}
				</span>
			</div>
			{answer.error && <p class="empty" role="status">{answer.error}</p>}
			<div class={`table-and-side${sandwich ? " with-side" : ""}`}>
				<div class={`rows${answer.loading ? " loading" : ""}`} ref={virtual.box} aria-busy={answer.loading}>
					<table
						role="grid"
						class={calls ? "calls" : ""}
						tabIndex={0}
						aria-label={grouping.title}
						aria-rowcount={items.length + 1}
						aria-activedescendant={chosen >= 0 ? `line-${chosen}` : undefined}
						style={{ "--row": `${height}px` } as never}
					>
						<colgroup>
							<col style={namesStyle(names)} />
							{shown.has("self") && <><col class="figure-column" />{share}</>}
							{shown.has("total") && <><col class="figure-column" />{share}</>}
							{shown.has("blocks") && <col class={exact ? "count-column" : "blocks-column"} />}
							{shown.has("samples") && <col class="count-column" />}
						</colgroup>
						<Head grouping={grouping} sort={sort} shown={shown} names={names} box={virtual.box}
							onSort={setSort} />
						<tbody>
							<Space height={virtual.above} />
							{items.slice(virtual.first, virtual.end).map((item, at) => {
								const index = virtual.first + at;
								return (
									<Line
										key={item.frame ? `${item.key} ${index}` : item.key}
										item={item}
										by={drawnBy}
										index={index}
										all={all}
										calls={calls}
										shown={shown}
										byTotal={sort === "total"}
										chosen={index === chosen}
										opened={opened.has(item.key)}
										onChoose={() => choose(index, false)}
										onOpen={() => (item.row.stack ? open(item.key) : keepOnly(item.row))}
									/>
								);
							})}
							<Space height={virtual.below} />
						</tbody>
					</table>
					{answer.value && !items.length && (
						<p class="empty">{search ? "No row has this in its name" : "No block matches the filters"}</p>
					)}
				</div>
				{sandwich && <Sandwich {...props} row={chosenRow} by={drawnBy} all={all} />}
			</div>
		</div>
	);
}
