// SPDX-License-Identifier: Apache-2.0
// The reader as WebAssembly (src/page/wasm.h): traces in its memory, requests and answers.
import { Zstd } from "./zstd.ts";

export interface Answer {
	status: number;
	type: string;
	bytes: Uint8Array<ArrayBuffer>;
}

/** A trace as it comes from a file; messages call it by its name. */
export interface TraceFile {
	name: string;
	bytes: Uint8Array;
}

export interface Opening {
	trace: TraceFile;
	base?: TraceFile | undefined; // to compare with
	sources?: Record<string, string> | undefined; // texts of source files, by path
}

export interface ReaderCode {
	reader: WebAssembly.Module;
	zstd: WebAssembly.Module;
}

/** What src/page/wasm.h exports. Numbers are addresses, sizes and states. */
interface ReaderExports {
	memory: WebAssembly.Memory;
	_initialize(): void;
	reader_room(size: number): number;
	reader_open(which: number, data: number, size: number, name: number): number;
	reader_error(): number;
	reader_source(path: number, text: number, size: number): number;
	reader_ask(request: number): number;
	reader_release(): void;
	reader_type(): number;
	reader_answer(): number;
	reader_answer_size(): number;
}

const IN_A_TERMINAL = "; 'mayfly view FILE' in a terminal reads the trace outside of the browser";
const NO_MEMORY = "no memory is left for the trace in this tab" + IN_A_TERMINAL;

/** A reader with one trace open. After an error of open() it is of no use any more. */
export class Reader {
	#zstd: Zstd;
	#exports: ReaderExports;
	#opening: Opening | undefined;

	constructor(code: ReaderCode) {
		this.#zstd = new Zstd(code.zstd);
		const env = {
			zstd_decompress: (to: number, room: number, from: number, size: number): number =>
				this.#zstd.expand(this.#view(from, size), this.#view(to, room)) ? 1 : 0,
		};
		const instance = new WebAssembly.Instance(code.reader, { env });
		this.#exports = instance.exports as unknown as ReaderExports;
		this.#exports._initialize();
	}

	#view(at: number, size: number): Uint8Array<ArrayBuffer> {
		const memory = this.#exports.memory.buffer as ArrayBuffer;
		return new Uint8Array(memory, at >>> 0, size >>> 0);
	}

	#text(at: number): string {
		const rest = this.#view(at, this.#exports.memory.buffer.byteLength - (at >>> 0));
		return new TextDecoder().decode(rest.subarray(0, rest.indexOf(0)));
	}

	/** Copies bytes, and a zero after them, into the reader's memory, where they stay. */
	#put(bytes: Uint8Array): number {
		const at = this.#exports.reader_room(bytes.length + 1);
		if (!at) throw new Error(NO_MEMORY);
		const room = this.#view(at, bytes.length + 1);
		room.set(bytes);
		room[bytes.length] = 0;
		return at;
	}

	#putText(text: string): number {
		return this.#put(new TextEncoder().encode(text));
	}

	/** Returns the file as it lies in the reader's memory, which may have moved before its use. */
	#open(which: number, file: TraceFile): TraceFile {
		const at = this.#put(file.bytes);
		const size = file.bytes.length;
		const view = (): Uint8Array => this.#view(at, size);
		if (this.#exports.reader_open(which, at, size, this.#putText(file.name)))
			throw new Error(`${file.name}: ${this.#text(this.#exports.reader_error())}`);
		return { name: file.name, get bytes() { return view(); } };
	}

	/** Throws an Error that is meant for the user. */
	open(opening: Opening): void {
		try {
			const trace = this.#open(0, opening.trace);
			const base = opening.base && this.#open(1, opening.base);
			this.#opening = { trace, base, sources: opening.sources };
			for (const [path, text] of Object.entries(opening.sources ?? {})) {
				const bytes = new TextEncoder().encode(text);
				if (this.#exports.reader_source(this.#putText(path), this.#put(bytes), bytes.length))
					throw new Error(NO_MEMORY);
			}
		} catch (error) {
			throw error instanceof WebAssembly.RuntimeError || error instanceof RangeError
				? new Error(`${opening.trace.name}: cannot be read here (${error.message})${IN_A_TERMINAL}`)
				: error;
		}
	}

	/** What was opened, for another reader, when the code of this one has trapped. */
	get opening(): Opening | undefined {
		return this.#opening;
	}

	/** The answer, an error's as well. */
	ask(request: string): Answer {
		const at = this.#putText(request);
		const status = this.#exports.reader_ask(at);
		const answer = this.#view(this.#exports.reader_answer(), this.#exports.reader_answer_size());
		const type = this.#text(this.#exports.reader_type());
		const bytes = answer.slice();
		this.#exports.reader_release();
		return { status, type, bytes };
	}
}
