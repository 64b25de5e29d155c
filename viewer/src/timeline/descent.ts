// SPDX-License-Identifier: Apache-2.0
// Descending from a band to its callers: the stacks that go through the function are kept, and its
// frames are taken out, so that blocks stand at whoever called it. Both are filters of the question,
// so all views follow; the way down is kept beside them, for the way back.
import { exactly } from "../shell/patterns.ts";
import type { Question, State } from "../state.ts";

const BETWEEN = "\n"; // is in no name

export function descentOf(state: State): string[] {
	return state.own.descent ? state.own.descent.split(BETWEEN) : [];
}

function without(patterns: string[] | undefined, removed: string[]): string[] {
	return (patterns ?? []).filter((pattern) => !removed.includes(pattern));
}

function some(patterns: string[]): string[] | undefined {
	return patterns.length ? patterns : undefined;
}

/** The change of state that leads to these functions; []: back to the start. */
export function descend(state: State, functions: string[]):
	{ question: Partial<Question>; own: Record<string, string | undefined> } {
	const before = descentOf(state).map(exactly);
	const now = functions.map(exactly);
	const { question } = state;
	return {
		question: {
			focus: some([...without(question.focus, before), ...now.slice(-1)]),
			hide: some([...without(question.hide, before), ...now]),
		},
		own: { descent: functions.length ? functions.join(BETWEEN) : undefined },
	};
}
