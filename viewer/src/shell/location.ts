// SPDX-License-Identifier: Apache-2.0
// The state of the page as the URL has it. Back and Forward work because the URL is all there is.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { changed, formatHash, parseHash } from "../state.ts";
import type { Change, State } from "../state.ts";

export interface Shown {
	state: State;
	problem?: string;
	go(change: Change, replace?: boolean): void;
	/** All of it, for instance without filters. */
	set(state: State): void;
}

export function useShown(views: readonly string[]): Shown {
	const [shown, setShown] = useState(() => parseHash(location.hash, views));
	const current = useRef(shown.state);
	const remembered = useRef(new Map<string, State["own"]>());
	current.current = shown.state;
	useEffect(() => {
		const read = () => setShown(parseHash(location.hash, views));
		addEventListener("popstate", read);
		addEventListener("hashchange", read);
		return () => {
			removeEventListener("popstate", read);
			removeEventListener("hashchange", read);
		};
	}, []);
	const set = useCallback((state: State, replace = false) => {
		const hash = formatHash(state);
		if (hash !== location.hash)
			if (replace) history.replaceState(null, "", hash);
			else history.pushState(null, "", hash);
		current.current = state;
		setShown({ state });
	}, []);
	const go = useCallback((change: Change, replace = false) => {
		const now = current.current;
		remembered.current.set(now.view, now.own);
		const view = change.view ?? now.view;
		// A view that was left is shown as it was.
		const own = view === now.view ? change.own : { ...remembered.current.get(view), ...change.own };
		set(changed(now, { ...change, own }), replace);
	}, []);
	return { ...shown, go, set };
}

const FIRST_VIEW = "mayfly.view";

/** The view that the user wants at first: its id, or "" for the summary. */
export function storedView(): string {
	try {
		return localStorage.getItem(FIRST_VIEW) ?? "";
	} catch {
		return ""; // a page without storage
	}
}

export function storeView(view: string) {
	try {
		if (view) localStorage.setItem(FIRST_VIEW, view);
		else localStorage.removeItem(FIRST_VIEW);
	} catch {
		// it holds for this page alone
	}
}

/** What a page without a fragment begins with. */
export function firstHash(): string {
	const view = storedView();
	return view && `#v1/${encodeURIComponent(view)}`;
}
