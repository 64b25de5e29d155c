// SPDX-License-Identifier: Apache-2.0
// A request's answer while a component is shown. The last answer stays, dimmed, until the next is
// there, so that nothing jumps.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Engine } from "../engine/engine.ts";

export interface Answer<T> {
	value?: T;
	error?: string;
	loading: boolean;
}

const KEPT = 40; // answers of an engine, so that Back is immediate
const kept = new WeakMap<Engine, Map<string, unknown>>();

function keptOf(engine: Engine): Map<string, unknown> {
	let map = kept.get(engine);
	if (!map) kept.set(engine, (map = new Map()));
	return map;
}

function keep(engine: Engine, key: string, value: unknown) {
	const map = keptOf(engine);
	map.set(key, value);
	if (map.size > KEPT) map.delete(map.keys().next().value!);
}

interface Known<T> {
	engine?: Engine;
	key?: string;
	value?: T;
	error?: string;
}

/** request: null asks nothing. */
export function useAnswer<T>(engine: Engine, request: string | null, generation = 0): Answer<T> {
	const [, redraw] = useState(0);
	const key = request === null ? undefined : `${generation} ${request}`;
	const known = useRef<Known<T>>({});
	if (known.current.engine !== engine) known.current = { engine };
	const wanted = useRef(key);
	wanted.current = key;
	const before = key === undefined ? undefined : (keptOf(engine).get(key) as T | undefined);
	if (before !== undefined && known.current.key !== key)
		known.current = { engine, key, value: before };
	useEffect(() => {
		if (key === undefined || request === null || known.current.key === key) return undefined;
		const abort = new AbortController();
		const done = (next: Known<T>) => {
			if (abort.signal.aborted || wanted.current !== key) return;
			known.current = { ...known.current, ...next, engine, key };
			redraw((n) => n + 1);
		};
		engine.ask<T>(request, abort.signal).then(
			(value) => {
				keep(engine, key, value);
				done({ value, error: undefined });
			},
			(error: unknown) => done({ value: undefined, error: errorMessage(error) }),
		);
		return () => abort.abort(); // nobody waits for it any more
	}, [engine, key]);
	if (key === undefined) return { loading: false };
	const { value, error } = known.current;
	return { value, error, loading: known.current.key !== key };
}

export function errorMessage(error: unknown): string {
	return error instanceof Error ? error.message : String(error);
}
