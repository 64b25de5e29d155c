// SPDX-License-Identifier: Apache-2.0
// The page before it has a trace, and the dropping of files onto it at any time.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export function Welcome(props: { opening: boolean; onChoose(): void }) {
	return (
		<main class="welcome">
			<h1>mayfly</h1>
			<p>
				mayfly shows where a program's memory is: what was live at the peak, who allocated it,
				what leaks and what dies young.
			</p>
			<div class="drop">
				<p>
					<strong>Drop a trace here</strong>, or
				</p>
				<button type="button" class="primary" disabled={props.opening} onClick={props.onChoose}>
					{props.opening ? "Opening…" : "Choose a file"}
				</button>
			</div>
			<p class="dim">
				To record one: <code>mayfly record -o program.mayfly -- ./program</code>
				<br />
				The file stays on this machine.
			</p>
		</main>
	);
}

/** A file may be dropped anywhere on the page. */
export function DropTarget(props: { onFile(file: File): void; children: ComponentChildren }) {
	const [over, setOver] = useState(false);
	const take = useRef(props.onFile);
	take.current = props.onFile;
	useEffect(() => {
		let depth = 0;
		const files = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
		const enter = (event: DragEvent) => files(event) && setOver(++depth > 0);
		const leave = (event: DragEvent) => files(event) && setOver((depth = Math.max(0, depth - 1)) > 0);
		const hover = (event: DragEvent) => files(event) && event.preventDefault();
		const drop = (event: DragEvent) => {
			if (!files(event)) return;
			event.preventDefault();
			setOver(((depth = 0), false));
			const file = event.dataTransfer?.files[0];
			if (file) take.current(file);
		};
		const listeners = { dragenter: enter, dragleave: leave, dragover: hover, drop } as const;
		for (const [name, listener] of Object.entries(listeners))
			document.addEventListener(name, listener as EventListener);
		return () => {
			for (const [name, listener] of Object.entries(listeners))
				document.removeEventListener(name, listener as EventListener);
		};
	}, []);
	return (
		<>
			{props.children}
			{over && <div class="drop-here">Drop the trace to open it</div>}
		</>
	);
}
