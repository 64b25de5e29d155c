// SPDX-License-Identifier: Apache-2.0
// Asks for the tree. While a new one is on its way, the old one stays.
import { useEffect, useRef, useState } from "preact/hooks";
import { requestText, type Estimate, type Parameters } from "../engine/engine.ts";
import { questionParameters } from "../state.ts";
import type { ViewProps } from "../view.ts";
import { decodeTree, type Tree } from "./arrays.ts";
import { searchPattern } from "./matches.ts";

export interface Asked {
	tree: Tree | null;
	loading: boolean;
	problem: string;
}

export function useTree({ engine, state, generation }: ViewProps, difference: boolean): Asked {
	const [asked, setAsked] = useState<Asked>({ tree: null, loading: true, problem: "" });
	const { own, question } = state;
	const request = requestText(difference ? "difftree" : "tree", {
		...questionParameters(question), invert: own["invert"], merge: own["merge"],
		recursion: own["recursion"], blocks: own["blocks"],
	});
	useEffect(() => {
		let current = true;
		setAsked((before) => ({ ...before, loading: true }));
		engine.bytes(request).then(decodeTree).then(
			(tree) => current && setAsked({ tree, loading: false, problem: "" }),
			(error) => current && setAsked((before) => ({
				...before, loading: false, problem: error instanceof Error ? error.message : String(error),
			})),
		);
		return () => void (current = false);
	}, [engine, request, generation]);
	return asked;
}

interface Rows {
	total: Estimate;
}

/** How much of the memory a search finds: by bytes or blocks; null: no answer yet. */
export function useFound({ engine, state, generation }: ViewProps, text: string): number | null {
	const [found, setFound] = useState<number | null>(null);
	const { question, own } = state;
	const key = JSON.stringify([question, text, own["blocks"]]);
	const timer = useRef(0);
	useEffect(() => {
		let current = true;
		setFound(null);
		clearTimeout(timer.current);
		if (!text || typeof searchPattern(text) === "string") return;
		const total = async (more: Parameters): Promise<number> => {
			const asked = { ...questionParameters(question), by: "function", top: 1, ...more };
			const rows = await engine.ask<Rows>(requestText("rows", asked));
			return (own["blocks"] ? rows.total.blocks : rows.total.bytes).estimate;
		};
		// Several --focus add up: inside a focus, what is found is what is left out without it.
		const ask = async () => question.focus?.length
			? (await total({})) - (await total({ ignore: [...(question.ignore ?? []), text] }))
			: total({ focus: [text] });
		timer.current = window.setTimeout(() => {
			ask().then((value) => current && setFound(value), () => current && setFound(null));
		}, 150);
		return () => void (current = false);
	}, [engine, key, generation]);
	return found;
}
