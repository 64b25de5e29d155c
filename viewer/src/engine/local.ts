// SPDX-License-Identifier: Apache-2.0
// The reader in a worker of the page, or in two where the trace is large: views ask several questions at
// a time. Each worker is asked one request at a time, in order, so that those that wait can be given up.
import { type Engine, errorOf } from "./engine.ts";
import type { Answer, Opening, ReaderCode, TraceFile } from "./wasm.ts";
import type { FromWorker, ToWorker } from "./worker.ts";

interface Waiting {
	message: ToWorker;
	done(answer: Answer | Opening | null): void;
	failed(error: unknown): void;
}

/** A worker's turns. */
class Turns {
	#worker: Worker;
	#waiting: Waiting[] = [];
	#asked: Waiting | undefined;
	#retires = false;

	constructor(script: string) {
		const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
		this.#worker = new Worker(url);
		URL.revokeObjectURL(url);
		this.#worker.onmessage = (event: MessageEvent<FromWorker>) => this.#answered(event.data);
		this.#worker.onerror = (event) => {
			event.preventDefault();
			this.#answered({ error: event.message || "the reader cannot be started in this browser" });
		};
	}

	#answered(reply: FromWorker): void {
		const asked = this.#asked;
		this.#asked = undefined;
		if (asked) {
			if ("error" in reply) asked.failed(new Error(reply.error));
			else asked.done(reply.answer);
		}
		this.#next();
	}

	#next(): void {
		if (this.#asked) return;
		this.#asked = this.#waiting.shift();
		if (!this.#asked) return this.#retires ? this.close() : undefined;
		const { message } = this.#asked;
		const moved = message.kind === "open" ? buffers(message.opening) : [];
		this.#worker.postMessage(message, moved);
	}

	get length(): number {
		return this.#waiting.length + (this.#asked ? 1 : 0);
	}

	send(message: ToWorker, signal?: AbortSignal): Promise<Answer | Opening | null> {
		return new Promise((done, failed) => {
			const waiting = { message, done, failed };
			if (signal?.aborted) return failed(signal.reason);
			signal?.addEventListener("abort", () => {
				this.#waiting = this.#waiting.filter((one) => one !== waiting);
				failed(signal.reason);
			}, { once: true });
			this.#waiting.push(waiting);
			this.#next();
		});
	}

	/** Closes when what was sent is answered. */
	retire(): void {
		this.#retires = true;
		this.#next();
	}

	close(): void {
		this.#worker.terminate();
		for (const one of [this.#asked, ...this.#waiting]) one?.failed(new Error("closed"));
		this.#waiting = [];
		this.#asked = undefined;
	}
}

/** The workers that have the trace open, which all engines of this trace share. */
class Readers {
	#first: Turns;
	#second: Turns | undefined;

	private constructor(first: Turns, second: Turns | undefined) {
		this.#first = first;
		this.#second = second;
	}

	/** The opening's bytes are moved to the first worker. A second one that cannot have them is done without. */
	static async open(script: string, code: ReaderCode, opening: Opening): Promise<Readers> {
		const again = isForTwo(opening) ? copyOf(opening) : undefined;
		const readers = new Readers(new Turns(script), again && new Turns(script));
		const second = again && readers.#second?.send({ kind: "open", code, opening: again });
		second?.catch(() => readers.#drop());
		try {
			await readers.#first.send({ kind: "open", code, opening });
		} catch (error) {
			readers.close();
			throw error;
		}
		await second?.catch(() => {});
		return readers;
	}

	#drop(): void {
		this.#second?.retire();
		this.#second = undefined;
	}

	ask(request: string, signal?: AbortSignal): Promise<Answer | Opening | null> {
		const second = this.#second && this.#second.length < this.#first.length;
		return (second ? this.#second! : this.#first).send({ kind: "ask", request }, signal);
	}

	async files(): Promise<Opening> {
		return await this.#first.send({ kind: "files" }) as Opening;
	}

	/** If the second worker alone cannot read the base, it goes. */
	async compare(base: TraceFile): Promise<void> {
		await this.#first.send({ kind: "compare", base });
		await this.#second?.send({ kind: "compare", base }).catch(() => this.#drop());
	}

	close(): void {
		this.#first.close();
		this.#second?.close();
	}
}

const SECOND_FROM = 1 << 20; // bytes of a trace: smaller ones are read faster than a worker starts
const SECOND_TO = 1 << 28; // larger ones may take all memory that a tab gets

function isForTwo(opening: Opening): boolean {
	const size = opening.trace.bytes.length;
	return size >= SECOND_FROM && size <= SECOND_TO && navigator.hardwareConcurrency > 1;
}

function copyOf(opening: Opening): Opening {
	const copy = (file: TraceFile): TraceFile => ({ name: file.name, bytes: file.bytes.slice() });
	return { ...opening, trace: copy(opening.trace), base: opening.base && copy(opening.base) };
}

export class LocalEngine implements Engine {
	readonly live = false;
	#readers: Readers;

	private constructor(readers: Readers) {
		this.#readers = readers;
	}

	/** Opens a trace. Its bytes are moved to the worker. */
	static async open(script: string, code: ReaderCode, opening: Opening): Promise<Engine> {
		return new LocalEngine(await Readers.open(script, code, opening));
	}

	async bytes(request: string, signal?: AbortSignal): Promise<ArrayBuffer> {
		const answer = await this.#readers.ask(request, signal) as Answer | null;
		if (!answer) throw errorOf(500, "");
		if (answer.status !== 200)
			throw errorOf(answer.status, new TextDecoder().decode(answer.bytes));
		return answer.bytes.buffer;
	}

	async ask<T>(request: string, signal?: AbortSignal): Promise<T> {
		return JSON.parse(new TextDecoder().decode(await this.bytes(request, signal))) as T;
	}

	files(): Promise<Opening> {
		return this.#readers.files();
	}

	/** What this engine was asked meanwhile is still answered. */
	async compare(file: File): Promise<Engine> {
		const base = await readFile(file);
		await this.#readers.compare(base);
		return new LocalEngine(this.#readers);
	}

	close(): void {
		this.#readers.close();
	}
}

export async function readFile(file: File): Promise<TraceFile> {
	let bytes: Uint8Array;
	try {
		bytes = new Uint8Array(await file.arrayBuffer());
	} catch {
		throw new Error(`${file.name}: cannot be read; is it a file, and not too large?`);
	}
	if (!bytes.length) throw new Error(`${file.name}: empty file; record again`);
	return { name: file.name, bytes };
}

function buffers(opening: Opening): Transferable[] {
	const files = opening.base ? [opening.trace, opening.base] : [opening.trace];
	return files.map((file) => file.bytes.buffer as ArrayBuffer);
}
