// SPDX-License-Identifier: Apache-2.0
// Starts the page: its script lies packed in it, which makes the page a third smaller.
import { decode, unpack } from "./engine/unpack.ts";

async function begin(): Promise<void> {
	const packed = document.getElementById("main")?.textContent ?? "";
	const script = await unpack(decode(packed)).blob();
	const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
	await import(url);
	URL.revokeObjectURL(url);
}

begin().catch((error: unknown) => {
	document.body.prepend("This page needs a newer browser: ", String(error));
});
