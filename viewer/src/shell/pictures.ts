// SPDX-License-Identifier: Apache-2.0
// Pictures of what is shown, as SVG or PNG, and printing. A view that draws itself gives a picture of its
// own (usePicture); any other is its elements with the page's style in an SVG.
import { options } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** An SVG of the whole picture, as it is turned, zoomed and filtered. */
type Picture = () => string;

const given: { current: Picture }[] = [];

export function usePicture(make: Picture) {
	const picture = useRef(make);
	picture.current = make;
	useEffect(() => {
		given.push(picture);
		return () => void given.splice(given.indexOf(picture), 1);
	}, []);
}

export function escaped(text: string): string {
	const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
	// XML takes no control characters, not even as references.
	return text.replace(/[&<>"]/g, (one) => names[one]!).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "\ufffd");
}

/** As the page looks now, whatever the system has where the picture is looked at. */
function themeNow(): string {
	return document.documentElement.dataset.theme ??
		(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function copyOf(view: HTMLElement): HTMLElement {
	const copy = view.cloneNode(true) as HTMLElement;
	const drawn = view.querySelectorAll("canvas");
	copy.querySelectorAll("canvas").forEach((canvas, i) => {
		const image = document.createElement("img");
		image.src = drawn[i]!.toDataURL();
		image.setAttribute("style", `${canvas.getAttribute("style") ?? ""};width:${drawn[i]!.clientWidth}px;height:${
			drawn[i]!.clientHeight}px`);
		image.className = canvas.className;
		canvas.replaceWith(image);
	});
	const chosen = view.querySelectorAll("select");
	copy.querySelectorAll("select").forEach((select, i) =>
		select.options[chosen[i]!.selectedIndex]?.setAttribute("selected", ""));
	return copy;
}

function svgOfElements(): string {
	const view = document.getElementById("view")!;
	const style = [...document.querySelectorAll("style")].map((one) => one.textContent).join("\n");
	const { fontFamily, fontSize, lineHeight, color, backgroundColor } = getComputedStyle(document.body);
	const width = view.clientWidth;
	const height = Math.max(view.clientHeight, view.scrollHeight);
	const text = new XMLSerializer().serializeToString(copyOf(view));
	const body = `font:${fontSize}/${lineHeight} ${fontFamily};color:${color};background:${backgroundColor};width:${
		width}px;height:${height}px;overflow:hidden`;
	return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" data-theme="${themeNow()}">` +
		`<style>${escaped(style)}</style><foreignObject width="100%" height="100%">` +
		`<div xmlns="http://www.w3.org/1999/xhtml" style="${escaped(body)}">${text}</div></foreignObject></svg>`;
}

export function svgOfView(): string {
	return given.at(-1)?.current() ?? svgOfElements();
}

export async function pngOfView(): Promise<ArrayBuffer> {
	const image = new Image();
	image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOfView())}`;
	await image.decode();
	const canvas = document.createElement("canvas");
	const ratio = Math.min(devicePixelRatio || 1, 16_000 / Math.max(image.naturalWidth, image.naturalHeight));
	canvas.width = Math.round(image.naturalWidth * ratio);
	canvas.height = Math.round(image.naturalHeight * ratio);
	canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
	const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
	if (!blob) throw new Error("the picture is too large for this browser");
	return blob.arrayBuffer();
}

/** Whether the page is being printed: then nothing is left out. */
export function usePrinting(): boolean {
	const [printing, setPrinting] = useState(false);
	useEffect(() => {
		// The browser prints as soon as its event is handled.
		const atOnce = (on: boolean) => () => {
			const before = options.debounceRendering;
			options.debounceRendering = (render) => render();
			setPrinting(on);
			options.debounceRendering = before;
		};
		const [begin, end] = [atOnce(true), atOnce(false)];
		addEventListener("beforeprint", begin);
		addEventListener("afterprint", end);
		return () => {
			removeEventListener("beforeprint", begin);
			removeEventListener("afterprint", end);
		};
	}, []);
	return printing;
}

/** Tables ask for the rest of their rows before they are printed. */
export async function printView() {
	dispatchEvent(new Event("beforeprint"));
	do await new Promise((done) => setTimeout(done, 100));
	while (document.querySelector("[aria-busy=true], .loading"));
	print();
	dispatchEvent(new Event("afterprint"));
}
