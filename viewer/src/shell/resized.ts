// SPDX-License-Identifier: Apache-2.0

/** Calls `changed` when the element has another size, in the next frame: what it does may change that size
 *  again, which browsers report as an error when it happens in the same frame. Returns how to end it. */
export function onResize(element: Element, changed: () => void): () => void {
	let frame = 0;
	const observer = new ResizeObserver(() => {
		cancelAnimationFrame(frame);
		frame = requestAnimationFrame(changed);
	});
	observer.observe(element);
	return () => {
		cancelAnimationFrame(frame);
		observer.disconnect();
	};
}
