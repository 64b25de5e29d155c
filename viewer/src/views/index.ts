// SPDX-License-Identifier: Apache-2.0
// The views, in the order of their tabs. A view is one file; its default export is the component.
import type { ComponentType } from "preact";
import type { State } from "../state.ts";
import type { Info, ViewProps } from "../view.ts";

export interface View {
	id: string; // in the URL
	title: string;
	/** The key that shows it; none: it is in the menu "More". */
	key?: string;
	component(): Promise<{ default: ComponentType<ViewProps> }>;
	/** undefined: it can show something of this trace; else why it cannot. */
	absent?(info: Info): string | undefined;
	/** The words after `mayfly`, without the question's options; FILE stands for the trace. */
	terminal?(state: State): string[];
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
		id: "table",
		title: "Table",
		key: "4",
		component: () => import("./table.tsx"),
	},
];
