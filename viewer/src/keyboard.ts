// SPDX-License-Identifier: Apache-2.0
// Keys of the whole page. Each part registers its own while it is shown; `?` lists them all.
import { useEffect, useRef } from "preact/hooks";

export interface Key {
	/** KeyboardEvent.key, several where they do the same. */
	keys: string[];
	does: string;
	/** false: the key is left to the browser. */
	run(event: KeyboardEvent): void | false;
}

export interface KeyGroup {
	title: string;
	keys: Key[];
}

const groups: { current: KeyGroup }[] = [];

/** ofPage: the keys of the page, which those of a view win over. */
export function useKeys(title: string, keys: Key[], ofPage = false) {
	const group = useRef<KeyGroup>({ title, keys });
	group.current = { title, keys };
	useEffect(() => {
		if (ofPage) groups.unshift(group);
		else groups.push(group);
		return () => void groups.splice(groups.indexOf(group), 1);
	}, []);
}

export function keyGroups(): KeyGroup[] {
	return groups.map((group) => group.current).filter((group) => group.keys.length);
}

/** Whether the element itself needs this key. */
function taken(target: EventTarget | null, key: string): boolean {
	if (!(target instanceof Element)) return false;
	if (target.closest("input, textarea, select, [contenteditable], dialog, [role=menu], [data-keys]"))
		return true;
	if (key === "Enter" || key === " ") return target.closest("button, a, summary") !== null;
	return false;
}

function pressed(event: KeyboardEvent) {
	if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
	if (taken(event.target, event.key) || document.querySelector("dialog[open]")) return;
	for (const group of [...groups].reverse())
		for (const key of group.current.keys)
			if (key.keys.includes(event.key) && key.run(event) !== false) {
				event.preventDefault();
				return;
			}
}

export function listenToKeys(): () => void {
	document.addEventListener("keydown", pressed);
	return () => document.removeEventListener("keydown", pressed);
}

const names: Record<string, string> = {
	ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc", " ": "Space",
};

export function keyName(key: string): string {
	return names[key] ?? key;
}
