// SPDX-License-Identifier: Apache-2.0
// What was recorded, and the tabs.
import { bytesText, durationText, exactText } from "../format.ts";
import { onlyPicture } from "../view.ts";
import type { Info } from "../view.ts";
import { isOffered, views } from "../views/index.ts";
import type { View } from "../views/index.ts";
import { quoted } from "./commands.ts";
import { MenuItem, Popover } from "./popover.tsx";
import { baseName } from "./tools.tsx";

function modeText(info: Info): string {
	const facts = info.info;
	if (onlyPicture(info)) return "picture of the heap";
	if (facts.snapshot_ns > 0) return "snapshots";
	if (facts.mode === "exact") return "every allocation";
	if (facts.interval_bytes > 1) return `sampled, 1 byte in ${bytesText(facts.interval_bytes)}`;
	return String(facts.mode ?? "");
}

/** A sample stands for many allocations. */
function eventsName(facts: Record<string, any>): string {
	return facts.mode === "exact" && !facts.thinned ? "allocations" : "samples";
}

function recordedText(facts: Record<string, any>): string {
	const start = facts.start_time ? new Date(facts.start_time) : undefined;
	const parts = [];
	if (start && start.getTime() > 0)
		parts.push(start.toISOString().slice(0, 16).replace("T", "\u00a0") + "\u00a0UTC");
	if (facts.duration_ns > 0) parts.push(durationText(facts.duration_ns));
	return parts.join(", ");
}

/** The program's own name is said before it. */
function argumentsText(info: Info): string {
	return (info.command ?? []).slice(1).map(quoted).join(" ");
}

function endingText(ending: { reason?: string; code?: number } | null): string {
	if (!ending?.reason) return "";
	if (ending.reason === "exited") return `exit status ${ending.code ?? 0}`;
	if (ending.reason === "killed") return `killed by signal ${ending.code ?? 0}`;
	return ending.reason;
}

interface RecordingProps {
	info: Info;
	live: boolean;
	openAnother(): void;
}

/** All that fits into no line. */
function Facts(props: RecordingProps & { close(): void }) {
	const { info } = props;
	const facts: [string, string][] = [
		["File", info.file],
		["Command", (info.command ?? []).map(quoted).join(" ")],
		["Process", info.info.pid ? String(info.info.pid) : ""],
		["Recorded", recordedText(info.info)],
		["How", modeText(info)],
		["Ended", endingText(info.info.ending)],
		["Events", info.info.samples > 0
			? `${exactText(info.info.samples)} ${eventsName(info.info)}, ${
				exactText(info.info.frees)} of them freed` : ""],
		["Size", info.info.file_bytes > 0 ? bytesText(info.info.file_bytes) : ""],
	];
	const then = (run: () => void) => () => {
		props.close();
		run();
	};
	return (
		<div class="facts">
			<dl>
				{facts.filter(([, text]) => text).map(([title, text]) => (
					<div key={title}>
						<dt>{title}</dt>
						<dd>{text}</dd>
					</div>
				))}
			</dl>
			<div class="buttons">
				<button type="button" data-first onClick={then(props.openAnother)}>Open another trace</button>
			</div>
		</div>
	);
}

export function Recording(props: RecordingProps) {
	const { info } = props;
	const words = argumentsText(info);
	const command = (info.command ?? []).map(quoted).join(" ");
	return (
		<div class="recording">
			<Popover label={<strong>{baseName(info.program) || "trace"}</strong>} class="plain program"
				title="The recording" role="dialog">
				{(close) => <Facts {...props} close={close} />}
			</Popover>
			{words && <span class="command" title={command}>{words}</span>}
			<span class="dim when">{recordedText(info.info)}</span>
			<span class="chip">{modeText(info)}</span>
			{props.live && <span class="chip live">running</span>}
			{info.base && (
				<span class="chip base" title={info.base.file}>{`compared with ${baseName(info.base.file)}`}</span>
			)}
		</div>
	);
}

interface TabsProps {
	info: Info;
	current: View;
	show(view: string): void;
}

export function Tabs(props: TabsProps) {
	const tabs = views.filter((view) => view.key && isOffered(view, props.info));
	const more = views.filter((view) => !view.key && isOffered(view, props.info));
	const inMore = more.find((view) => view === props.current);
	return (
		<nav class="tabs" aria-label="Views">
			{tabs.map((view) => {
				const absent = view.absent?.(props.info);
				return (
					<button
						key={view.id}
						type="button"
						aria-current={view === props.current ? "page" : undefined}
						disabled={absent !== undefined}
						title={absent ?? `Key ${view.key}`}
						onClick={() => props.show(view.id)}
					>
						{view.title}
					</button>
				);
			})}
			{more.length > 0 && (
				<Popover
					label={<>{inMore ? inMore.title : "More"} <span aria-hidden="true">▾</span></>}
					title="More views"
					class={inMore ? "current" : undefined}
				>
					{(close) =>
						more.map((view) => {
							const absent = view.absent?.(props.info);
							return (
								<MenuItem
									key={view.id}
									checked={view === props.current}
									disabled={absent !== undefined}
									hint={absent}
									onChoose={() => {
										close();
										props.show(view.id);
									}}
								>
									{view.title}
								</MenuItem>
							);
						})
					}
				</Popover>
			)}
		</nav>
	);
}
