// SPDX-License-Identifier: Apache-2.0
// The buttons at the right of the header: the terminal's command, files to take away, the theme.
import { useState } from "preact/hooks";
import { requestText } from "../engine/engine.ts";
import type { Engine } from "../engine/engine.ts";
import { savedPage } from "../engine/save.ts";
import { formatHash, questionParameters } from "../state.ts";
import type { State } from "../state.ts";
import type { Info } from "../view.ts";
import { applied } from "../views/applies.ts";
import type { View } from "../views/index.ts";
import { errorMessage } from "./answer.ts";
import { commandText } from "./commands.ts";
import { copyText } from "./copy.ts";
import { storedView, storeView } from "./location.ts";
import { pngOfView, printView, svgOfView } from "./pictures.ts";
import { MenuItem, Popover } from "./popover.tsx";
import { applyTheme, storedTheme } from "./theme.ts";
import type { Theme } from "./theme.ts";

export function baseName(path: string | null): string {
	if (!path) return "";
	return path.replace(/\/+$/, "").split("/").pop() || path;
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
							onClick={async () => setCopied((await copyText(text)) ? text : "")}
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

export function saveFile(bytes: ArrayBuffer | Blob, name: string) {
	const link = document.createElement("a");
	link.href = URL.createObjectURL(new Blob([bytes]));
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Whatever leaves the page: a link, the page itself, pictures, paper, files for other tools. */
export function ShareTool(props: {
	engine: Engine;
	info: Info;
	state: State;
	onProblem(message: string): void;
}) {
	const { engine, info, state } = props;
	const [link, setLink] = useState("");
	const name = baseName(info.program) || "trace";
	const attempt = (what: string, run: () => Promise<void>) => async () => {
		try {
			await run();
		} catch (error) {
			props.onProblem(`${what} could not be made: ${errorMessage(error)}`);
		}
	};
	const exported = (one: Export) => attempt(one.title, async () => {
		const parameters = { ...questionParameters(state.question), format: one.to };
		saveFile(await engine.bytes(requestText("export", parameters)), `${name}.${one.suffix}`);
	});
	const items: { title: string; hint: string; run(): Promise<void> }[] = [
		{ title: "Save this page", hint: "HTML with this very view", run: attempt("The page", async () =>
			saveFile(await savedPage(engine, formatHash(state)), `${name}.html`)) },
		{ title: "Picture", hint: "PNG", run: attempt("The picture", async () =>
			saveFile(await pngOfView(), `${name}-${state.view}.png`)) },
		{ title: "Drawing", hint: "SVG", run: attempt("The drawing", async () =>
			saveFile(new TextEncoder().encode(svgOfView()).buffer, `${name}-${state.view}.svg`)) },
		{ title: "Print", hint: "all rows, or a PDF", run: attempt("The print", printView) },
		...exports.map((one) => ({ title: one.title, hint: one.hint, run: exported(one) })),
	];
	return (
		<Popover label="Share" title="Take what is shown elsewhere" class="plain">
			{(close) => (
				<>
					<MenuItem hint="this view, these filters" onChoose={async () => {
						setLink("");
						if (await copyText(location.href)) close();
						else setLink(location.href);
					}}>
						Copy link
					</MenuItem>
					{link && <pre class="link" tabIndex={0}>{link}</pre>}
					{items.map((one) => (
						<MenuItem key={one.title} hint={one.hint} onChoose={() => {
							close();
							void one.run();
						}}>
							{one.title}
						</MenuItem>
					))}
				</>
			)}
		</Popover>
	);
}

const themes: [Theme, string][] = [["auto", "As the system"], ["light", "Light"], ["dark", "Dark"]];

export function ThemeTool(props: { view: View }) {
	const [theme, setTheme] = useState(storedTheme);
	const { id, title } = props.view;
	const first = storedView() || "summary";
	return (
		<Popover label={<span aria-hidden="true">◐</span>} title="Light or dark, and the first view" class="plain icon">
			{(close) => [
				...themes.map(([one, title]) => (
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
				)),
				<MenuItem key="view" hint={first === id ? "as now" : undefined} onChoose={() => {
					storeView(id === "summary" ? "" : id);
					close();
				}}>
					{`Begin with: ${title}`}
				</MenuItem>,
			]}
		</Popover>
	);
}
