// SPDX-License-Identifier: Apache-2.0
// The row above the picture: how the tree is made (C makes it anew) and drawn, and the search.
import type { RefObject } from "preact";
import type { ViewProps } from "../view.ts";

export interface SearchState {
	text: string;
	problem: string;
	said: string; // "14.5 % in 12 boxes"
}

interface Props extends Pick<ViewProps, "state" | "go" | "info"> {
	search: SearchState;
	onSearch(text: string): void;
	onStep(by: number): void;
	searchBox: RefObject<HTMLInputElement | null>;
}

interface Choice {
	value: string;
	name: string;
	title?: string;
}

function Choices({ label, choices, value, choose }: {
	label: string;
	choices: Choice[];
	value: string;
	choose(value: string): void;
}) {
	return (
		<div class="flame-choices" role="group" aria-label={label}>
			{choices.map((one) => (
				<button
					type="button"
					key={one.value}
					title={one.title}
					aria-pressed={one.value === value}
					onClick={() => choose(one.value)}
				>
					{one.name}
				</button>
			))}
		</div>
	);
}

function Search({ search, onSearch, onStep, searchBox }: Props) {
	const keys = (event: KeyboardEvent) => {
		if (event.key === "Enter") onStep(event.shiftKey ? -1 : 1);
		else if (event.key === "Escape" && search.text) onSearch("");
		else return;
		event.preventDefault();
		event.stopPropagation();
	};
	return (
		<div class="flame-search">
			<input
				ref={searchBox}
				type="search"
				placeholder="Search: regular expression"
				aria-label="Search functions, files and modules by regular expression"
				aria-describedby="flame-found"
				aria-invalid={search.problem !== ""}
				spellcheck={false}
				value={search.text}
				onInput={(event) => onSearch(event.currentTarget.value)}
				onKeyDown={keys}
			/>
			<output id="flame-found" aria-live="polite" class={search.problem ? "flame-problem" : ""}>
				{search.problem || search.said}
			</output>
		</div>
	);
}

export function Controls(props: Props) {
	const { state, go } = props;
	const { own, question } = state;
	const language = props.info.interpreted;
	/** Another tree: nodes of the old one are not in it. */
	const anew = (key: string, value: string) =>
		go({ own: { [key]: value || undefined, zoom: undefined, range: undefined } });
	const toggle = (key: string, name: string, title: string) => (
		<button
			type="button"
			title={title}
			aria-pressed={own[key] === "1"}
			onClick={() => anew(key, own[key] === "1" ? "" : "1")}
		>
			{name}
		</button>
	);
	return (
		<div class="flame-controls">
			<Choices
				label="Direction"
				value={own["root"] ?? ""}
				choices={[
					{ value: "", name: "Icicle", title: "Callers above what they call" },
					{ value: "bottom", name: "Flame", title: "Callers below what they call" },
				]}
				choose={(value) => go({ own: { root: value || undefined } }, true)}
			/>
			<Choices
				label="What a box is"
				value={own["merge"] ?? ""}
				choices={[
					{ value: "", name: "Functions" },
					{ value: "line", name: "Lines", title: "Calls from different lines apart" },
				]}
				choose={(value) => anew("merge", value)}
			/>
			<Choices
				label="Frames"
				value={question.frames === "own" ? "" : question.frames ?? ""}
				choices={[
					{ value: "", name: "My code", title: "Frames of libraries and runtimes are folded" },
					...(language ? [{ value: "python", name: language, title: "Frames of C are folded" }] : []),
					{ value: "all", name: "All frames" },
				]}
				choose={(value) => go({
					question: { frames: value || undefined },
					own: { zoom: undefined, range: undefined },
				})}
			/>
			<Choices
				label="Unit"
				value={own["blocks"] ?? ""}
				choices={[{ value: "", name: "Bytes" }, { value: "1", name: "Blocks" }]}
				choose={(value) => anew("blocks", value)}
			/>
			<div class="flame-choices" role="group" aria-label="Tree">
				{toggle("invert", "Invert", "Begin with the functions that allocate, then their callers")}
				{toggle("recursion", "Fold recursion", "Calls of a function by itself become one box")}
			</div>
			<Search {...props} />
		</div>
	);
}
