// SPDX-License-Identifier: Apache-2.0
// The reader in a worker of the page. The worker is asked one request at a time, in order, so that
// those that wait can be given up.
import { type Engine, errorOf } from "./engine.ts";
import type { Answer, Opening, ReaderCode, TraceFile } from "./wasm.ts";
import type { FromWorker, ToWorker } from "./worker.ts";

interface Waiting {
	message: ToWorker;
	done(answer: Answer | Opening | null): void;
	failed(error: unknown): void;
}

/** The worker's turns, which all engines that ask this worker share. */
class Turns {
	#worker: Worker;
	#waiting: Waiting[] = [];
	#asked: Waiting | undefined;

	constructor(worker: Worker) {
		this.#worker = worker;
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
		if (!this.#asked) return;
		const { message } = this.#asked;
		const moved = message.kind === "open" ? buffers(message.opening) : [];
		this.#worker.postMessage(message, moved);
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

	close(): void {
		this.#worker.terminate();
		for (const one of [this.#asked, ...this.#waiting]) one?.failed(new Error("closed"));
		this.#waiting = [];
		this.#asked = undefined;
	}
}

export class LocalEngine implements Engine {
	readonly live = false;
	#turns: Turns;

	private constructor(turns: Turns) {
		this.#turns = turns;
	}

	/** Opens a trace. Its bytes are moved to the worker. */
	static async open(script: string, code: ReaderCode, opening: Opening): Promise<Engine> {
		const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
		const turns = new Turns(new Worker(url));
		URL.revokeObjectURL(url);
		try {
			await turns.send({ kind: "open", code, opening });
		} catch (error) {
			turns.close();
			throw error;
		}
		return new LocalEngine(turns);
	}

	async bytes(request: string, signal?: AbortSignal): Promise<ArrayBuffer> {
		const answer = await this.#turns.send({ kind: "ask", request }, signal) as Answer | null;
		if (!answer) throw errorOf(500, "");
		if (answer.status !== 200)
			throw errorOf(answer.status, new TextDecoder().decode(answer.bytes));
		return answer.bytes.buffer;
	}

	async ask<T>(request: string, signal?: AbortSignal): Promise<T> {
		return JSON.parse(new TextDecoder().decode(await this.bytes(request, signal))) as T;
	}

	async files(): Promise<Opening> {
		return await this.#turns.send({ kind: "files" }) as Opening;
	}

	/** What this engine was asked meanwhile is still answered. */
	async compare(file: File): Promise<Engine> {
		const base = await readFile(file);
		await this.#turns.send({ kind: "compare", base });
		return new LocalEngine(this.#turns);
	}

	close(): void {
		this.#turns.close();
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
