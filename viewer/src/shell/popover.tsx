// SPDX-License-Identifier: Apache-2.0
// A button that opens a small panel below it: menus, pickers, the editing of a filter.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface PopoverProps {
	label: ComponentChildren;
	title?: string;
	class?: string;
	/** "dialog": also has other things than the items of a menu. */
	role?: "menu" | "dialog";
	children(close: () => void): ComponentChildren;
}

const reachable = "button:not(:disabled), input, select, a[href]";

function move(panel: HTMLElement, event: KeyboardEvent) {
	const items = [...panel.querySelectorAll<HTMLElement>(reachable)];
	const at = items.indexOf(document.activeElement as HTMLElement);
	const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
	const to = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : undefined;
	if ((!step && to === undefined) || !items.length) return;
	items[to ?? (at + step + items.length) % items.length]!.focus();
	event.preventDefault();
}

/** Keeps the panel inside the window. */
function place(panel: HTMLElement) {
	panel.style.translate = "";
	const box = panel.getBoundingClientRect();
	const over = box.right + 8 - document.documentElement.clientWidth;
	if (over > 0) panel.style.translate = `${-Math.min(over, box.left - 8)}px 0`;
}

export function Popover(props: PopoverProps) {
	const [open, setOpen] = useState(false);
	const whole = useRef<HTMLDivElement>(null);
	const button = useRef<HTMLButtonElement>(null);
	const panel = useRef<HTMLDivElement>(null);
	const role = props.role ?? "menu";
	const close = () => {
		setOpen(false);
		button.current?.focus();
	};
	useLayoutEffect(() => {
		if (!open || !panel.current) return;
		place(panel.current);
		const first = panel.current.querySelector<HTMLElement>("[aria-checked=true], [data-first]");
		(first ?? panel.current.querySelector<HTMLElement>(reachable))?.focus();
	}, [open]);
	useEffect(() => {
		if (!open) return;
		const outside = (event: Event) => {
			if (!whole.current?.contains(event.target as Node)) setOpen(false);
		};
		document.addEventListener("pointerdown", outside);
		document.addEventListener("focusin", outside);
		return () => {
			document.removeEventListener("pointerdown", outside);
			document.removeEventListener("focusin", outside);
		};
	}, [open]);
	const keys = (event: KeyboardEvent) => {
		if (!open) return;
		if (event.key === "Escape") {
			close();
			event.preventDefault();
		} else if (panel.current?.querySelector("[role^=menuitem]")) move(panel.current, event);
	};
	return (
		<div class="popover" ref={whole} onKeyDown={keys}>
			<button
				ref={button}
				type="button"
				class={props.class}
				title={props.title}
				aria-haspopup={role}
				aria-expanded={open}
				onClick={() => setOpen(!open)}
			>
				{props.label}
			</button>
			{open && (
				<div class="panel-below" role={role} aria-label={props.title} ref={panel}>
					{props.children(close)}
				</div>
			)}
		</div>
	);
}

export interface ItemProps {
	onChoose(): void;
	/** Whether it is the current one, of those that exclude each other. */
	checked?: boolean;
	children: ComponentChildren;
	hint?: ComponentChildren;
	disabled?: boolean;
}

export function MenuItem(props: ItemProps) {
	const radio = props.checked !== undefined;
	return (
		<button
			type="button"
			class="menu-item"
			role={radio ? "menuitemradio" : "menuitem"}
			aria-checked={radio ? props.checked : undefined}
			disabled={props.disabled}
			onClick={props.onChoose}
		>
			<span>{props.children}</span>
			{props.hint && <span class="hint">{props.hint}</span>}
		</button>
	);
}
