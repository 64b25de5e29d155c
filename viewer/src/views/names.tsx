// SPDX-License-Identifier: Apache-2.0
// The column of names: the first of each table, at least two fifths of its width, as wide as the user made it.
import type { RefObject } from "preact";
import { useState } from "preact/hooks";

export const LEAST_NAMES = 0.42; // of the width
const MOST_NAMES = 0.9;
const STEP = 0.02; // of an arrow key
const KEY = "mayfly.names";

/** Shares of the width, by kind of table. */
function storedShares(): Record<string, number> {
	try {
		const shares: unknown = JSON.parse(localStorage.getItem(KEY) ?? "{}");
		return shares && typeof shares === "object" ? shares as Record<string, number> : {};
	} catch {
		return {}; // a page without storage
	}
}

function storeShare(kind: string, share: number | undefined) {
	const shares = storedShares();
	if (share === undefined) delete shares[kind];
	else shares[kind] = share;
	try {
		localStorage.setItem(KEY, JSON.stringify(shares));
	} catch {
		// it holds until the page is closed
	}
}

function bounded(share: number): number {
	return Math.min(MOST_NAMES, Math.max(LEAST_NAMES, share));
}

export interface Names {
	/** Of the table's width; undefined: what the figures leave. */
	share: number | undefined;
	set(share: number | undefined): void;
}

/** kind: tables of one kind have their names equally wide. */
export function useNames(kind: string): Names {
	const [share, setShare] = useState(() => {
		const stored = storedShares()[kind];
		return typeof stored === "number" && stored > 0 ? bounded(stored) : undefined;
	});
	return {
		share,
		set: (next) => {
			const kept = next === undefined ? undefined : bounded(next);
			storeShare(kind, kept);
			setShare(kept);
		},
	};
}

/** The border behind the head of the names, which is dragged. `box`: what the table is seen in. */
export function NamesGrip({ names, box }: { names: Names; box: RefObject<HTMLElement | null> }) {
	const left = () => box.current!.getBoundingClientRect().left;
	const width = () => Math.max(1, box.current?.clientWidth ?? 1);
	const now = (handle: HTMLElement) =>
		names.share ?? (handle.parentElement!.getBoundingClientRect().right - left()) / width();
	return (
		<span
			class="names-grip"
			role="separator"
			aria-orientation="vertical"
			aria-label="Width of the names"
			aria-valuemin={LEAST_NAMES * 100}
			aria-valuemax={MOST_NAMES * 100}
			aria-valuenow={Math.round((names.share ?? LEAST_NAMES) * 100)}
			title="Drag to make the names wider; double click: as wide as there is room"
			tabIndex={0}
			onClick={(event) => event.stopPropagation()}
			onDblClick={() => names.set(undefined)}
			onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
			onPointerMove={(event) => {
				if (event.currentTarget.hasPointerCapture(event.pointerId))
					names.set((event.clientX - left()) / width());
			}}
			onKeyDown={(event) => {
				const by = event.key === "ArrowRight" ? STEP : event.key === "ArrowLeft" ? -STEP : 0;
				if (!by) return;
				event.preventDefault();
				event.stopPropagation();
				names.set(now(event.currentTarget) + by);
			}}
		/>
	);
}

/** For the column of names. */
export function namesStyle({ share }: Names) {
	return share === undefined ? undefined : { width: `${(share * 100).toFixed(2)}%` };
}
