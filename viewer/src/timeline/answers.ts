// SPDX-License-Identifier: Apache-2.0
// The answers that these views draw: src/view/view_lanes.c, view_counters.c and view_heat.c say what
// the members are.
import type { Estimate } from "../engine/engine.ts";
import type { Row } from "../views/row.ts";

export interface Points {
	live_bytes: number[];
	live_blocks: number[];
	allocated_bytes: number[];
	allocated_blocks: number[];
}

export interface Series {
	by: string;
	times_ns: number[];
	rows: (Row & Points)[];
	/** For each row without a name the nearest caller that has one. */
	callers: (string | null)[];
	others: Points;
}

export interface Curve extends Points {
	times_ns: number[];
}

export interface Counter {
	name: string;
	unit: string | null;
	kind: "process" | "events";
	rss: boolean;
	largest: boolean;
	most: number;
	values: (number | null)[];
}

export interface Counters {
	times_ns: number[];
	counters: Counter[];
}

export interface TrackType {
	name: string;
	category: string | null;
	pause: boolean;
}

export interface Boxes {
	kind: "spans" | "instants";
	start_ns: number[];
	end_ns: (number | null)[];
	type: number[];
	count: number[];
	busy_ns: number[];
	fields: (Record<string, unknown> | null)[];
}

export interface Lane {
	thread: string | null; // null: the process
	tid?: number;
	began_ns: number | null;
	ended_ns: number | null;
	rows: number;
	spans: number;
	deeper_spans: number;
	unmatched_ends: number;
	instants: number;
}

export interface Lanes {
	from_ns: number;
	to_ns: number;
	end_ns: number;
	types: TrackType[];
	lanes: Lane[];
	lanes_count: number;
	shown: Boxes[][];
}

export interface SizeClass {
	low: number;
	high: number | null;
	min_size: string | null;
	max_size: string | null;
	sum: Estimate;
}

export interface LifetimeClass {
	never: boolean;
	low_ns: number | null;
	high_ns: number | null;
	min_lifetime: string | null;
	max_lifetime: string | null;
	sum: Estimate;
}

export interface Cells {
	bytes: number[];
	bytes_stderr: number[];
	bytes_low: number[];
	bytes_high: number[];
	blocks: number[];
	samples: number[];
}

export interface Heat {
	metric: string;
	time_ns: number;
	total: Estimate;
	sizes: SizeClass[];
	lifetimes: LifetimeClass[];
	cells: Cells;
}
