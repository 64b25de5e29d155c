// SPDX-License-Identifier: Apache-2.0
// What can be done with a node: right click, or Enter on the selected one.
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

export interface Action {
	group: string;
	name: string;
	hint?: string;
	run(): void;
}

interface Props {
	title: string;
	actions: Action[];
	x: number;
	y: number;
	close(): void;
}

export function Menu({ title, actions, x, y, close }: Props) {
	const box = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const element = box.current!;
		const around = element.parentElement!.getBoundingClientRect();
		const { width, height } = element.getBoundingClientRect();
		element.style.left = `${Math.max(4, Math.min(x, around.width - width - 8))}px`;
		element.style.top = `${Math.max(4, Math.min(y, around.height - height - 8))}px`;
		element.querySelector<HTMLElement>("[role=menuitem]")?.focus();
	}, [x, y]);
	useEffect(() => {
		const outside = (event: Event) => {
			if (!box.current?.contains(event.target as Node)) close();
		};
		document.addEventListener("pointerdown", outside, true);
		return () => document.removeEventListener("pointerdown", outside, true);
	}, [close]);
	const keys = (event: KeyboardEvent) => {
		const items = [...box.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
		const at = items.indexOf(document.activeElement as HTMLElement);
		const to: Record<string, number> = {
			ArrowDown: (at + 1) % items.length, ArrowUp: (at + items.length - 1) % items.length,
			Home: 0, End: items.length - 1,
		};
		event.stopPropagation();
		if (event.key === "Escape" || event.key === "Tab") close();
		else if (to[event.key] !== undefined) items[to[event.key]!]!.focus();
		else return;
		event.preventDefault();
	};
	const groups = [...new Set(actions.map((one) => one.group))];
	return (
		<div class="flame-menu" role="menu" aria-label={title} ref={box} onKeyDown={keys}>
			<div class="flame-menu-title" title={title} aria-hidden="true">{title}</div>
			{groups.map((group) => (
				<div role="group" aria-label={group} key={group}>
					{actions.filter((one) => one.group === group).map((one) => (
						<button
							type="button"
							role="menuitem"
							tabIndex={-1}
							key={one.name}
							onClick={() => {
								close();
								one.run();
							}}
						>
							<span>{one.name}</span>
							{one.hint && <kbd aria-hidden="true">{one.hint}</kbd>}
						</button>
					))}
				</div>
			))}
		</div>
	);
}
