// SPDX-License-Identifier: Apache-2.0
// The sheet of keys, and the notes of the recording.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { keyGroups, keyName } from "../keyboard.ts";

export function Dialog(props: { title: string; onClose(): void; children: ComponentChildren }) {
	const dialog = useRef<HTMLDialogElement>(null);
	// Before anything is painted: a key that comes right after the one that opened it is the dialog's.
	useLayoutEffect(() => {
		const before = document.activeElement as HTMLElement | null;
		dialog.current?.showModal();
		return () => before?.focus?.();
	}, []);
	return (
		<dialog
			ref={dialog}
			aria-label={props.title}
			onClose={props.onClose}
			onClick={(event) => event.target === dialog.current && dialog.current?.close()}
		>
			<div class="dialog-body">
				<header>
					<h2 tabIndex={-1} autofocus>{props.title}</h2>
					<button type="button" class="plain" aria-label="Close" onClick={() => dialog.current?.close()}>
						×
					</button>
				</header>
				{props.children}
			</div>
		</dialog>
	);
}

export function KeySheet(props: { onClose(): void }) {
	return (
		<Dialog title="Keys" onClose={props.onClose}>
			<div class="key-groups">
				{keyGroups().map((group) => (
					<section key={group.title}>
						<h3>{group.title}</h3>
						<dl>
							{group.keys.map((key) => (
								<div key={key.does}>
									<dt>{key.keys.map((name) => <kbd key={name}>{keyName(name)}</kbd>)}</dt>
									<dd>{key.does}</dd>
								</div>
							))}
						</dl>
					</section>
				))}
			</div>
		</Dialog>
	);
}
