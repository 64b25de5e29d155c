// SPDX-License-Identifier: Apache-2.0
// Starts the page: its script and style lie packed in it, which makes the page a third smaller.
import { decodePacked, unpack } from "./engine/unpack.ts";

function part(id: string): Response {
	return unpack(decodePacked(document.getElementById(id)?.textContent ?? ""));
}

async function begin(): Promise<void> {
	const style = document.createElement("style");
	style.textContent = await part("style").text();
	document.head.append(style);
	const script = await part("main").blob();
	const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
	await import(url);
	URL.revokeObjectURL(url);
}

begin().catch((error: unknown) => {
	document.body.prepend("This page needs a newer browser: ", String(error));
});
