// SPDX-License-Identifier: Apache-2.0
// Asks for the tree. While a new one is on its way, the old one stays.
import { useEffect, useState } from "preact/hooks";
import { requestText, type Estimate } from "../engine/engine.ts";
import { errorMessage, useAnswer } from "../shell/answer.ts";
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
				...before, loading: false, problem: errorMessage(error),
			})),
		);
		return () => void (current = false);
	}, [engine, request, generation]);
	return asked;
}

interface Rows {
	total: Estimate;
}

function useLater(text: string): string {
	const [later, setLater] = useState(text);
	useEffect(() => {
		const timer = setTimeout(() => setLater(text), 150);
		return () => clearTimeout(timer);
	}, [text]);
	return later;
}

/** How much of the tree's memory a search finds, in its unit; undefined: no answer yet. */
export function useFound(props: ViewProps, text: string, tree: Tree | null): number | undefined {
	const { engine, state: { question, own }, generation } = props;
	const asked = useLater(text);
	// Several --focus add up. So inside a focus, what is found is what its absence takes away.
	const inside = (question.focus?.length ?? 0) > 0;
	const filter = inside ? { ignore: [...(question.ignore ?? []), asked] } : { focus: [asked] };
	const request = asked && typeof searchPattern(asked) !== "string"
		? requestText("rows", { ...questionParameters(question), by: "function", top: 1, ...filter })
		: null;
	const { value, loading } = useAnswer<Rows>(engine, request, generation);
	if (!value || !tree || loading || asked !== text) return undefined;
	const figure = own["blocks"] ? value.total.blocks : value.total.bytes;
	if (!figure) return undefined;
	return inside ? Math.max(0, tree.total[0]! - figure.estimate) : figure.estimate;
}
