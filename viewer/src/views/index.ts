// SPDX-License-Identifier: Apache-2.0
// The views, in the order of their tabs. A view is one file; its default export is the component.
import type { ComponentType } from "preact";
import type { State } from "../state.ts";
import { onlyPicture } from "../view.ts";
import type { Info, ViewProps } from "../view.ts";

export interface View {
	id: string; // in the URL
	title: string;
	/** The key that shows it; none: it is in the menu "More". */
	key?: string;
	component(): Promise<{ default: ComponentType<ViewProps> }>;
	/** Whether it is only there for traces with a picture of the heap; else it needs more than such a picture. */
	ofPicture?: "only" | "too";
	/** Why it can show nothing of this trace; undefined: it can. */
	absent?(info: Info): string | undefined;
	/** The words after `mayfly`, without the question's options; FILE stands for the trace. */
	terminal?(state: State): string[];
}

/** Views of panes.tsx: one request, which is an option of the report. */
function pane(id: string, title: string, more: Partial<View> = {}): View {
	return {
		id,
		title,
		component: () => import("./panes.tsx"),
		terminal: () => ["report", `--${id}`, "FILE"],
		...more,
	};
}

/** Whether it has a tab, or a place in the menu, for this trace. */
export function isOffered(view: View, info: Info): boolean {
	if (view.ofPicture === "only") return info.picture !== null;
	return view.ofPicture === "too" || !onlyPicture(info);
}

function hasBlocks(info: Info): string | undefined {
	return info.info.snapshot_ns > 0 ? "Snapshots have no single blocks" : undefined;
}

export const views: View[] = [
	{
		id: "summary",
		title: "Summary",
		key: "1",
		component: () => import("./summary.tsx"),
		terminal: () => ["report", "FILE"],
	},
	{
		id: "timeline",
		title: "Timeline",
		key: "2",
		component: () => import("./timeline.tsx"),
		absent: (info) => (info.info.duration_ns > 0 ? undefined : "The trace has no times"),
		terminal: ({ own }) => ["report", "--series", "60", "--by", own.by ?? "function", "FILE"],
	},
	{
		id: "flame",
		title: "Flame graph",
		key: "3",
		component: () => import("./flame.tsx"),
		terminal: () => ["export", "--to", "flamegraph", "FILE"],
	},
	{
		id: "table",
		title: "Table",
		ofPicture: "too",
		key: "4",
		component: () => import("./table.tsx"),
		terminal: ({ own }) => {
			const words = ["report", "--by", own.by ?? "function"];
			if (own.sort === "total") words.push("--sort", "total");
			return [...words, "FILE"];
		},
	},
	{
		id: "heat",
		title: "Size × lifetime",
		key: "5",
		component: () => import("./heat.tsx"),
		absent: hasBlocks,
		terminal: () => ["report", "--by", "size", "--histogram", "lifetime", "FILE"],
	},
	pane("spans", "Spans", {
		key: "6",
		component: () => import("./spans.tsx"),
		absent: (info) => (info.info.spans > 0 ? undefined : "No spans: programs make them with mayfly.h"),
	}),
	{
		id: "source",
		title: "Source",
		key: "7",
		component: () => import("./source.tsx"),
		terminal: () => ["report", "--by", "line", "FILE"],
	},
	{
		id: "held",
		title: "Held by",
		key: "8",
		component: () => import("./held.tsx"),
		ofPicture: "only",
		absent: (info) => (info.picture ? undefined
			: "The trace has no picture of the heap; 'mayfly ctl PID heap' takes one while the program is recorded"),
		terminal: () => ["report", "--by", "holder", "FILE"],
	},
	{
		id: "difference",
		title: "Difference",
		component: () => import("./difference.tsx"),
		absent: (info) => (info.base ? undefined : "No trace to compare with"),
		terminal: () => ["diff", "BASE", "FILE"],
	},
	pane("events", "Events", {
		absent: (info) => (info.info.track_events > 0 ? undefined : "No spans, instants or counters"),
	}),
	pane("leaks", "Leaks", {
		component: () => import("./leaks.tsx"), ofPicture: "too", terminal: () => ["leaks", "FILE"],
	}),
	pane("rss", "Resident memory", {
		absent: (info) => (info.info.counters > 0 ? undefined : "It was not recorded"),
	}),
	pane("churn", "Churn", { absent: hasBlocks }),
	pane("reallocs", "Chains of realloc", {
		absent: (info) =>
			info.info.mode === "exact" ? hasBlocks(info) : "Only in traces of every allocation (--exact)",
	}),
	pane("fragmentation", "Fragmentation", {
		absent: (info) =>
			info.info.mode === "exact" ? hasBlocks(info) : "Only in traces of every allocation (--exact)",
	}),
	pane("survival", "Survival in OCaml", { absent: hasBlocks }),
];
