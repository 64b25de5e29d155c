// SPDX-License-Identifier: Apache-2.0
// What resident memory consists of, and what the allocator says of its blocks.
import type { Estimate } from "../engine/engine.ts";
import { bytesText, durationText, percentText } from "../format.ts";
import { Name, SmallTable } from "./cells.tsx";
import type { RowName } from "./row.ts";

interface ResidentRow {
	kind: string;
	name: string | null;
	function: string | null;
	resident: number;
	several: boolean;
}

interface Moment {
	which: string;
	time_ns: number;
	rss: number;
	live: Estimate;
	arenas: number;
	advice: string | null;
	parts: Record<string, number>;
	rows: ResidentRow[];
	blocks: Record<string, number | null>;
}

export interface Rss {
	allocator: string | null;
	highest_rss: number | null;
	moments: Moment[];
}

const kinds: Record<string, string> = {
	heap: "heap (brk)", arenas: "heap: arenas of threads", allocator: "heap: mapped by the allocator",
	anonymous: "anonymous", static_data: "static data", stacks: "stacks",
	changed_file_pages: "changed file pages", files: "file pages", shared: "shared memory",
	other: "other mappings", mayfly: "mayfly's own", not_explained: "not explained",
};

const figures: [string, string][] = [
	["live", "live blocks"], ["ocaml_sampler", "of that tables of OCaml's sampler, for mayfly"],
	["in_use", "in use"],
	["in_own_mappings", "of that in mappings of their own"], ["free", "free, kept"],
	["free_at_top", "of that at the end of the heap"], ["free_in_caches", "free, in caches"],
	["free_in_used_pages", "free, in pages with live blocks"],
	["metadata", "tables of the allocator"], ["committed", "committed for blocks"],
	["live_not_resident", "live blocks that are not resident"],
	["returnable", "whole free pages that are resident"],
];

/** Heap, other memory of the program, files, the rest: four shades are enough for one bar. */
const shades: Record<string, string> = {
	heap: "a", arenas: "a", allocator: "a", anonymous: "b", static_data: "b", stacks: "b",
	changed_file_pages: "c", files: "c", shared: "c", other: "d", mayfly: "d", not_explained: "d",
};

export function ResidentBar(props: { moment: Moment; whole: number }) {
	const { moment, whole } = props;
	const parts = Object.entries(moment.parts).filter(([, bytes]) => bytes > 0);
	return (
		<div class="resident-bar" role="img" aria-label={parts.map(([kind, bytes]) =>
			`${kinds[kind] ?? kind} ${bytesText(bytes)}`).join(", ")}>
			{parts.map(([kind, bytes]) => (
				<span
					key={kind}
					class={`shade-${shades[kind] ?? "d"}`}
					style={{ width: `${(100 * bytes) / whole}%` }}
					title={`${kinds[kind] ?? kind}: ${bytesText(bytes)}, ${percentText(bytes, moment.rss)}`}
				/>
			))}
		</div>
	);
}

/** A path begins with its file: a cell that is cut still tells it from others. */
function residentName(row: ResidentRow): RowName {
	const kind = kinds[row.kind] ?? row.kind;
	const who = row.several ? "mapped by several" : (row.function ?? row.name);
	const [, folder, file] = /^(\/.*)\/([^/]+)$/.exec(who ?? "") ?? [];
	if (!who) return { name: kind };
	return file ? { name: `${kind}: ${file}`, detail: folder!, full: `${kind}: ${who}` } : { name: `${kind}: ${who}` };
}

function momentTitle(moment: Moment): string {
	return `${moment.which === "peak" ? "At the peak" : "At the end"} (${durationText(moment.time_ns)})`;
}

export function Resident(props: { rss: Rss }) {
	const { moments } = props.rss;
	const whole = Math.max(1, ...moments.map((moment) => moment.rss));
	return (
		<div class="resident">
			{moments.map((moment) => (
				<section key={moment.which}>
					<h3>{momentTitle(moment)}: <strong>{bytesText(moment.rss)}</strong> resident</h3>
					<ResidentBar moment={moment} whole={whole} />
					{moment.advice && <p class="advice">{moment.advice}</p>}
					<SmallTable caption={`Resident ${momentTitle(moment)}`} rows={moment.rows} columns={[
						{ title: "Resident", number: true, width: 11, cell: (row) => bytesText(row.resident),
							share: (row) => Math.max(0, row.resident / (moment.rss || 1)) },
						{ title: "%", number: true, width: 7, cell: (row) =>
							row.resident >= 0 ? percentText(row.resident, moment.rss) : "" },
						{ title: "Pages of", cell: (row) => <Name of={residentName(row)} /> },
					]} />
					<SmallTable caption={`Blocks ${momentTitle(moment)}`} none="The allocator reported nothing"
						rows={figures.filter(([key]) => moment.blocks[key] != null)} columns={[
							{ title: "Bytes", number: true, width: 11, cell: ([key]) => bytesText(moment.blocks[key]!) },
							{ title: "Blocks, resident or not", cell: ([, title]) => title },
						]} />
				</section>
			))}
		</div>
	);
}
