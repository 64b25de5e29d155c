// SPDX-License-Identifier: Apache-2.0
// The buttons at the right of the header: the terminal's command, files to take away, the theme.
import { useState } from "preact/hooks";
import { requestText } from "../engine/engine.ts";
import type { Engine } from "../engine/engine.ts";
import { questionParameters } from "../state.ts";
import type { State } from "../state.ts";
import type { Info } from "../view.ts";
import { applied } from "../views/applies.ts";
import type { View } from "../views/index.ts";
import { errorMessage } from "./answer.ts";
import { commandText } from "./commands.ts";
import { MenuItem, Popover } from "./popover.tsx";
import { applyTheme, storedTheme } from "./theme.ts";
import type { Theme } from "./theme.ts";

export function baseName(path: string | null): string {
	if (!path) return "";
	return path.replace(/\/+$/, "").split("/").pop() || path;
}

async function copy(text: string): Promise<boolean> {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		return false; // not allowed: the text is there to be marked
	}
}

export function TerminalTool(props: { info: Info; state: State; view: View }) {
	const [copied, setCopied] = useState("");
	const words = props.view.terminal?.(props.state) ?? ["report", "FILE"];
	const text = commandText(words, applied(props.view.id, props.state.question), props.info.file || "FILE");
	return (
		<Popover label="Terminal" title="The same in the terminal" class="plain" role="dialog">
			{() => (
				<div class="terminal">
					<p>The same in the terminal:</p>
					<pre tabIndex={0}>{text}</pre>
					<div class="buttons">
						<button
							type="button"
							class="primary"
							data-first
							onClick={async () => setCopied((await copy(text)) ? text : "")}
						>
							Copy
						</button>
						<span role="status">{copied === text && "copied"}</span>
					</div>
				</div>
			)}
		</Popover>
	);
}

/** The trace that is open is the later one. */
export function CompareTool(props: { engine: Engine; compare(path?: string): void }) {
	const [path, setPath] = useState("");
	return (
		<Popover label="Compare with…" title="Compare with an earlier trace" class="plain" role="dialog">
			{(close) => {
				const then = (given?: string) => {
					close();
					props.compare(given);
				};
				return (
					<form class="editor compare" onSubmit={(event) => {
						event.preventDefault();
						if (path.trim()) then(path.trim());
					}}>
						<p>What changed since an earlier trace: drop it onto the page, or</p>
						<div class="buttons">
							<button type="button" class="primary" data-first onClick={() => then()}>Choose a file</button>
						</div>
						{props.engine.comparePath && !props.engine.live && (
							<label>
								<span>or its path, as in the terminal that serves this page</span>
								<input value={path} placeholder="earlier.mayfly" spellcheck={false}
									onInput={(event) => setPath(event.currentTarget.value)} />
							</label>
						)}
					</form>
				);
			}}
		</Popover>
	);
}

interface Export {
	to: string;
	title: string;
	hint: string;
	suffix: string;
}

const exports: Export[] = [
	{ to: "folded", title: "Folded stacks", hint: "flamegraph.pl, speedscope", suffix: "folded.txt" },
	{ to: "csv", title: "Table of stacks", hint: "CSV", suffix: "csv" },
	{ to: "pprof", title: "pprof", hint: "go tool pprof", suffix: "pb.gz" },
	{ to: "flamegraph", title: "Flame graph", hint: "SVG", suffix: "svg" },
];

export function saveFile(bytes: ArrayBuffer, name: string) {
	const link = document.createElement("a");
	link.href = URL.createObjectURL(new Blob([bytes]));
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function ExportTool(props: {
	engine: Engine;
	info: Info;
	state: State;
	onProblem(message: string): void;
}) {
	const save = async (one: Export) => {
		try {
			const parameters = { ...questionParameters(props.state.question), format: one.to };
			const bytes = await props.engine.bytes(requestText("export", parameters));
			saveFile(bytes, `${baseName(props.info.program)}.${one.suffix}`);
		} catch (error) {
			props.onProblem(`${one.title} could not be made: ${errorMessage(error)}`);
		}
	};
	return (
		<Popover label="Export" title="Save what is shown as a file" class="plain">
			{(close) =>
				exports.map((one) => (
					<MenuItem
						key={one.to}
						hint={one.hint}
						onChoose={() => {
							close();
							void save(one);
						}}
					>
						{one.title}
					</MenuItem>
				))
			}
		</Popover>
	);
}

const themes: [Theme, string][] = [["auto", "As the system"], ["light", "Light"], ["dark", "Dark"]];

export function ThemeTool() {
	const [theme, setTheme] = useState(storedTheme);
	return (
		<Popover label={<span aria-hidden="true">◐</span>} title="Light or dark" class="plain icon">
			{(close) =>
				themes.map(([one, title]) => (
					<MenuItem
						key={one}
						checked={theme === one}
						onChoose={() => {
							applyTheme(one);
							setTheme(one);
							close();
						}}
					>
						{title}
					</MenuItem>
				))
			}
		</Popover>
	);
}
