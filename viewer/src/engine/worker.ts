// SPDX-License-Identifier: Apache-2.0
// The worker that the reader runs in: opens a trace, then answers one request after the other.
import { type Answer, type Opening, Reader, type ReaderCode, type TraceFile } from "./wasm.ts";

export type ToWorker =
	| { kind: "open"; code: ReaderCode; opening: Opening }
	| { kind: "compare"; base: TraceFile }
	| { kind: "files" }
	| { kind: "ask"; request: string };

/** Each message to the worker has one answer. */
export type FromWorker = { error: string } | { answer: Answer | Opening | null };

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

/** What was open stays until both are known to be good. */
function compare(base: TraceFile): void {
	const before = reader;
	try {
		open({ ...before.opening!, base });
	} catch (error) {
		reader = before;
		throw error;
	}
}

function copyOf(file: TraceFile): TraceFile {
	return { name: file.name, bytes: file.bytes.slice() };
}

function files(): Opening {
	const { trace, base, sources } = reader.opening!;
	return { trace: copyOf(trace), base: base && copyOf(base), sources };
}

function handle(message: ToWorker): Answer | Opening | null {
	if (message.kind === "ask") return ask(message.request);
	if (message.kind === "files") return files();
	if (message.kind === "compare") {
		compare(message.base);
		return null;
	}
	code = message.code;
	open(message.opening);
	return null;
}

self.onmessage = (event: MessageEvent<ToWorker>) => {
	let reply: FromWorker;
	let moved: Transferable[] = [];
	try {
		const answer = handle(event.data);
		if (answer && "bytes" in answer) moved = [answer.bytes.buffer];
		reply = { answer };
	} catch (error) {
		reply = { error: error instanceof Error ? error.message : String(error) };
	}
	(self as unknown as Worker).postMessage(reply, moved);
};
