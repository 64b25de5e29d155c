// SPDX-License-Identifier: Apache-2.0
// The flame graph, and the difference of two traces as one: what belongs around the picture.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { percentText } from "../format.ts";
import { copyText } from "../shell/copy.ts";
import { exactly } from "../shell/patterns.ts";
import type { ViewProps } from "../view.ts";
import { rowKey, sourceOf, type Row } from "../views/row.ts";
import { findKey, nodeKey, type Tree } from "./arrays.ts";
import { Controls } from "./controls.tsx";
import { Crumbs } from "./crumbs.tsx";
import { Legend } from "./legend.tsx";
import { findMatches, searchPattern, type Matches } from "./matches.ts";
import type { Action } from "./menu.tsx";
import type { Palette } from "./palette.ts";
import { Stage } from "./stage.tsx";
import { useFound, useTree } from "./use_tree.ts";
import "./flame.css";

/** As the table of functions has it. */
function rowOf(t: Tree, node: number): Row {
	const text = (of: Uint32Array) => t.texts[of[node]!] || null;
	return { function: text(t.name), file: text(t.file), line: null, module: text(t.module) } as Row;
}

function actionsOf(props: ViewProps, t: Tree, node: number, zoom: (node: number) => void): Action[] {
	const { state, go } = props;
	const name = t.texts[t.name[node]!]!;
	const module = t.texts[t.module[node]!]!;
	const fresh = { zoom: undefined, range: undefined };
	const add = (key: "ignore" | "hide", pattern: string) => () =>
		go({ question: { [key]: [...(state.question[key] ?? []), pattern] }, own: fresh });
	const actions: Action[] = [
		{ group: "Zoom", name: "Zoom in", hint: "click, z", run: () => zoom(node) },
	];
	if (node === 0) return actions;
	actions.push(
		{ group: "Focus", name: "Only what passes through it", hint: "double click, f",
		  run: () => go({ question: { focus: [exactly(name)] }, own: fresh }) },
		{ group: "Focus", name: "Begin stacks with it",
		  run: () => go({ question: { "show-from": [exactly(name)] }, own: fresh }) },
		{ group: "Ignore", name: "Without what passes through it", run: add("ignore", exactly(name)) },
		{ group: "Hide", name: "Leave it out of stacks", run: add("hide", exactly(name)) },
	);
	if (module) {
		actions.push({ group: "Hide", name: "Leave its module out of stacks",
			run: add("hide", exactly(module)) });
	}
	actions.push(
		{ group: "Show", name: "Callers and callees", hint: "c",
		  run: () => go({ view: "table", own: { row: rowKey(rowOf(t, node), "function"), sort: "total" } }) },
	);
	if (rowOf(t, node).file) {
		actions.push({ group: "Show", name: "Show source",
			run: () => go({ view: "source", own: sourceOf(rowOf(t, node)) }) });
	}
	actions.push(
		{ group: "Copy", name: "Copy name", run: () => void copyText(name) },
	);
	return actions;
}

/** Why there is nothing to see, and what to do. */
function Empty({ state, go }: ViewProps) {
	const q = state.question;
	const filters = Object.keys(q).filter((key) => !["metric", "at", "frames"].includes(key));
	const range = q.from !== undefined || q.to !== undefined;
	return (
		<div class="flame-empty">
			<p>
				<strong>No samples {range ? "in this range" : filters.length ? "with these filters" : "here"}.
				</strong>{" "}
				{range ? "Choose a longer range" : filters.length ? "Widen a filter" :
					"Nothing was live at this moment, or the program allocated less than one sampling interval"}.
			</p>
			{filters.length > 0 && (
				<button
					type="button"
					onClick={() => go({
						question: Object.fromEntries(filters.map((key) => [key, undefined])),
					})}
				>
					Remove all filters
				</button>
			)}
		</div>
	);
}

function useMatches(tree: Tree | null, text: string): { matches: Matches | null; problem: string } {
	return useMemo(() => {
		if (!tree || !text) return { matches: null, problem: "" };
		const pattern = searchPattern(text);
		if (typeof pattern === "string") return { matches: null, problem: pattern };
		return { matches: findMatches(tree, pattern), problem: "" };
	}, [tree, text]);
}

function foundText(tree: Tree | null, matches: Matches | null, found: number | undefined): string {
	if (!tree || !matches) return "";
	const boxes = matches.count === 1 ? "1 box" : `${matches.count.toLocaleString("en-US")} boxes`;
	if (matches.count === 0) return "no match";
	return found === undefined ? boxes : `${percentText(found, tree.total[0]!)} in ${boxes}`;
}

export function FlameView(props: ViewProps & { difference: boolean }) {
	const { state, go, difference } = props;
	const { own } = state;
	const { tree, loading, problem } = useTree(props, difference);
	const searchText = own["search"] ?? "";
	const { matches, problem: badPattern } = useMatches(tree, searchText);
	const found = useFound(props, searchText, tree);
	const [step, setStep] = useState(-1);
	const [modules, setModules] = useState<string[]>([]);
	const [palette, setPalette] = useState<Palette | null>(null);
	const searchBox = useRef<HTMLInputElement>(null);
	const zoomed = useMemo(() => {
		const node = tree && own["zoom"] ? findKey(tree, own["zoom"]) : 0;
		return Math.max(0, node);
	}, [tree, own["zoom"]]);
	const zoom = useCallback((node: number) => {
		if (!tree) return;
		go({ own: { zoom: node > 0 ? nodeKey(tree, node) : undefined, range: undefined } });
	}, [tree, go]);
	useEffect(() => setStep(-1), [matches]);
	const stepBy = (by: number) => {
		const count = matches?.nodes.length ?? 0;
		if (count) setStep((at) => (at < 0 && by < 0 ? count - 1 : (at + by + count) % count));
	};
	const search = {
		text: searchText, problem: badPattern,
		said: foundText(tree, matches, found) + (step >= 0 && matches && step < matches.nodes.length
			? ` · ${step + 1} of ${matches.nodes.length.toLocaleString("en-US")}` : ""),
	};
	const empty = tree !== null && !loading && (tree.count <= 1 || !(tree.width[0]! > 0));
	return (
		<section class="flame" aria-label={difference ? "Difference, flame graph" : "Flame graph"}
			 aria-busy={loading}>
			<Controls
				state={state}
				info={props.info}
				go={go}
				search={search}
				searchBox={searchBox}
				onSearch={(text) => go({ own: { search: text || undefined } }, true)}
				onStep={stepBy}
			/>
			{tree && !empty && <Crumbs tree={tree} node={zoomed} zoom={zoom} />}
			{problem && <p class="flame-failed" role="alert">{problem}</p>}
			{empty && !problem && <Empty {...props} />}
			{tree && !empty && (
				<Stage
					tree={tree}
					state={state}
					go={go}
					loading={loading}
					zoomed={zoomed}
					zoom={zoom}
					matches={matches}
					match={matches && step >= 0 ? matches.nodes[step] ?? -1 : -1}
					step={stepBy}
					actions={(node) => actionsOf(props, tree, node, zoom)}
					toSearch={() => searchBox.current?.focus()}
					onModules={setModules}
					onPalette={setPalette}
				/>
			)}
			{!tree && !problem && <div class="flame-waiting">Reading…</div>}
			{palette && tree && !empty &&
				<Legend palette={palette} modules={modules} difference={difference} />}
		</section>
	);
}
