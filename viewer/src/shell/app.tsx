// SPDX-License-Identifier: Apache-2.0
// The frame of the page: it holds the engine and the state, and shows one view at a time.
import type { ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Engine } from "../engine/engine.ts";
import { listenToKeys, useKeys } from "../keyboard.ts";
import type { Info, ViewProps } from "../view.ts";
import { Reading } from "../views/cells.tsx";
import { ignored, ownMetric } from "../views/applies.ts";
import { isOffered, views } from "../views/index.ts";
import type { View } from "../views/index.ts";
import { errorMessage, useAnswer } from "./answer.ts";
import { Dialog, KeySheet } from "./dialogs.tsx";
import { ignoredText, questionText } from "./filter_kinds.ts";
import { Recording, Tabs } from "./header.tsx";
import { useShown } from "./location.ts";
import { Sentence } from "./sentence.tsx";
import { baseName, CompareTool, ShareTool, TerminalTool, ThemeTool } from "./tools.tsx";
import { DropTarget, Welcome } from "./welcome.tsx";

const viewNames = views.map((view) => view.id);

/** Of a view that was loaded once. */
const loaded = new Map<string, ComponentType<ViewProps>>();

function useView(view: View): ComponentType<ViewProps> | undefined {
	const [, redraw] = useState(0);
	useEffect(() => {
		if (loaded.has(view.id)) return;
		void view.component().then((module) => {
			loaded.set(view.id, module.default);
			redraw((n) => n + 1);
		});
	}, [view]);
	return loaded.get(view.id);
}

function Notice(props: { text: string; onClose(): void }) {
	return (
		<div class="notice" role="alert">
			<span>{props.text}</span>
			<button type="button" class="plain" aria-label="Close" onClick={props.onClose}>
				×
			</button>
		</div>
	);
}

function Notes(props: { notes: string[]; onClose(): void }) {
	return (
		<Dialog title="Notes of the recording" onClose={props.onClose}>
			<ul class="notes">
				{props.notes.map((note) => <li key={note}>{note}</li>)}
			</ul>
		</Dialog>
	);
}

interface OpenedProps {
	engine: Engine;
	info: Info;
	generation: number;
	onProblem(message: string): void;
	openAnother(): void;
	/** With a file that is to be chosen, or with one that the serving program reads. */
	compare(path?: string): void;
}

function Opened(props: OpenedProps) {
	const { engine, info, generation } = props;
	const { state, problem, go, set } = useShown(viewNames);
	const [dialog, setDialog] = useState<"keys" | "notes">();
	const [closedProblem, setClosedProblem] = useState<string>();
	const view = views.find((one) => one.id === state.view) ?? views[0]!;
	const Component = useView(view);
	const absent = view.absent?.(info);
	const notApplied = ignoredText(ignored(view.id, state.question));
	const { notes } = info;
	const show = (id: string) => go({ view: id });
	useKeys("Everywhere", [
		...views.filter((one) => one.key && isOffered(one, info)).map((one) => ({
			keys: [one.key!],
			does: one.title,
			run: () => (one.absent?.(info) === undefined ? show(one.id) : undefined),
		})),
		{ keys: ["?"], does: "this list", run: () => setDialog("keys") },
		{ keys: ["r"], does: "without filters", run: () => set({ ...state, question: {} }) },
	], true);
	useEffect(() => {
		const program = baseName(info.program) || "trace";
		document.title = `${view.title} of ${program}: ${questionText(state.question, ownMetric(view, info))} - mayfly`;
	}, [state, view, info]);
	return (
		<>
			<a class="skip" href="#view" onClick={(event) => {
				event.preventDefault();
				document.getElementById("view")?.focus();
			}}>
				Skip to the view
			</a>
			<header class="top">
				<Recording info={info} live={engine.live} openAnother={props.openAnother} />
				<div class="tools">
					<CompareTool engine={engine} compare={props.compare} />
					{notes.length > 0 && (
						<button type="button" class="plain warning" onClick={() => setDialog("notes")}>
							{`Notes ${notes.length}`}
						</button>
					)}
					<TerminalTool info={info} state={state} view={view} />
					<ShareTool engine={engine} info={info} state={state} onProblem={props.onProblem} />
					<ThemeTool view={view} />
					<button type="button" class="plain icon" title="Keys (?)" aria-label="Keys"
						onClick={() => setDialog("keys")}>
						?
					</button>
				</div>
				<Tabs info={info} current={view} show={show} />
			</header>
			<Sentence engine={engine} info={info} question={state.question} counts={ownMetric(view, info)}
				generation={generation} go={go} />
			{problem && problem !== closedProblem && (
				<Notice text={problem} onClose={() => setClosedProblem(problem)} />
			)}
			{notApplied && absent === undefined && (
				<p class="not-applied" role="status">{`Without effect on this view: ${notApplied}`}</p>
			)}
			<main id="view" class={`view view-${view.id}${info.info.mode === "exact" ? " exact" : ""}`} tabIndex={-1} aria-label={view.title}>
				{absent !== undefined ? (
					<p class="empty">{absent}</p>
				) : Component ? (
					<Component engine={engine} info={info} state={state} go={go} generation={generation} />
				) : <Reading />}
			</main>
			{dialog === "keys" && <KeySheet onClose={() => setDialog(undefined)} />}
			{dialog === "notes" && <Notes notes={notes} onClose={() => setDialog(undefined)} />}
		</>
	);
}

function Loaded(props: Omit<OpenedProps, "info" | "generation">) {
	const [generation, setGeneration] = useState(0);
	const { engine } = props;
	useEffect(() => {
		setGeneration(0);
		engine.onChange = setGeneration;
		return () => void (engine.onChange = undefined);
	}, [engine]);
	const info = useAnswer<Info>(engine, "info", generation);
	if (info.value) return <Opened {...props} info={info.value} generation={generation} />;
	if (info.error) return <p class="empty" role="alert">{info.error}</p>;
	return <Reading />;
}

export interface AppProps {
	/** Of the page itself: served, or with a trace inside; undefined: it has none. */
	openPage(): Promise<Engine | undefined>;
	openFile(trace: File): Promise<Engine>;
}

export function App(props: AppProps) {
	/** null: there is none; undefined: not yet known. */
	const [engine, setEngine] = useState<Engine | null>();
	const [opening, setOpening] = useState(false);
	const [problem, setProblem] = useState<string>();
	const [dropped, setDropped] = useState<File>();
	const input = useRef<HTMLInputElement>(null);
	const asBase = useRef(false); // what the chosen file will be
	useEffect(listenToKeys, []);
	useEffect(() => {
		props.openPage().then((engine) => setEngine(engine ?? null), (error: unknown) => {
			setEngine(null);
			setProblem(errorMessage(error));
		});
	}, []);
	/** What was open stays until a file is known to be good. */
	const open = async (file: File) => {
		setOpening(true);
		setProblem(undefined);
		try {
			const opened = await props.openFile(file);
			engine?.close();
			setEngine(opened);
		} catch (error) {
			setProblem(errorMessage(error));
		}
		setOpening(false);
	};
	/** What is open becomes what is compared with another, and shows how they differ. */
	const compare = async (base: File | string) => {
		if (!engine) return;
		setOpening(true);
		setProblem(undefined);
		try {
			const compared = typeof base === "string" ? await engine.comparePath!(base) : await engine.compare(base);
			setEngine(compared);
			location.hash = "#v1/summary";
		} catch (error) {
			setProblem(errorMessage(error));
		}
		setOpening(false);
	};
	const choose = (base: boolean) => {
		asBase.current = base;
		input.current?.click();
	};
	const chosen = (found: File) => (asBase.current ? compare(found) : open(found));
	const answer = (run: (file: File) => void) => {
		if (dropped) run(dropped);
		setDropped(undefined);
	};
	return (
		<DropTarget onFile={(file) => (engine ? setDropped(file) : void open(file))}>
			{dropped && (
				<Dialog title={dropped.name} onClose={() => setDropped(undefined)}>
					<div class="buttons">
						<button type="button" class="primary" onClick={() => answer((file) => void compare(file))}>
							Compare with it
						</button>
						<button type="button" onClick={() => answer((file) => void open(file))}>Open it instead</button>
					</div>
				</Dialog>
			)}
			{problem !== undefined && <Notice text={problem} onClose={() => setProblem(undefined)} />}
			{engine && (
				<Loaded engine={engine} onProblem={setProblem} openAnother={() => choose(false)}
					compare={(path) => (path === undefined ? choose(true) : void compare(path))} />
			)}
			{engine === null && <Welcome opening={opening} onChoose={() => choose(false)} />}
			<input
				ref={input}
				type="file"
				hidden
				aria-label="Trace"
				onChange={(event) => {
					const found = event.currentTarget.files?.[0];
					event.currentTarget.value = "";
					if (found) void chosen(found);
				}}
			/>
		</DropTarget>
	);
}
