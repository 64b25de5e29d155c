// SPDX-License-Identifier: Apache-2.0
// The worker that the reader runs in: opens a trace, then answers one request after the other.
import { type Answer, type Opening, Reader, type ReaderCode } from "./wasm.ts";

export type ToWorker =
	| { kind: "open"; code: ReaderCode; opening: Opening }
	| { kind: "ask"; request: string };

/** Each message to the worker has one answer. */
export type FromWorker = { error: string } | { answer: Answer | null };

let code: ReaderCode;
let reader: Reader;

function open(opening: Opening): void {
	reader = new Reader(code);
	reader.open(opening);
}

function ask(request: string): Answer {
	try {
		return reader.ask(request);
	} catch (error) {
		// Its code has trapped, for lack of memory for example: its state is of no use any more.
		if (reader.opening) open(reader.opening);
		throw error;
	}
}

function handle(message: ToWorker): Answer | null {
	if (message.kind === "ask") return ask(message.request);
	code = message.code;
	open(message.opening);
	return null;
}

self.onmessage = (event: MessageEvent<ToWorker>) => {
	let reply: FromWorker;
	let moved: Transferable[] = [];
	try {
		const answer = handle(event.data);
		if (answer) moved = [answer.bytes.buffer];
		reply = { answer };
	} catch (error) {
		reply = { error: error instanceof Error ? error.message : String(error) };
	}
	(self as unknown as Worker).postMessage(reply, moved);
};
