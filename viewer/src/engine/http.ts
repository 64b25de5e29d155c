// SPDX-License-Identifier: Apache-2.0
// The native reader, which served this page: requests go to ask/ below the page's own address,
// which holds the token.
import { type Engine, errorOf } from "./engine.ts";
import { readFile } from "./local.ts";
import type { Opening, TraceFile } from "./wasm.ts";

const EVERY_MS = 1000;

/** The answer to "changes". */
interface Changes {
	generation: number;
	live: boolean;
}

export class HttpEngine implements Engine {
	live = false;
	onChange?: (generation: number) => void;
	#generation = 0;
	#timer: ReturnType<typeof setTimeout> | undefined;

	static async open(): Promise<Engine> {
		const engine = new HttpEngine();
		await engine.#look();
		return engine;
	}

	/** Asks whether there is more to see, and later again, as long as the program runs. */
	async #look(): Promise<void> {
		const { generation, live } = await (await this.#get("changes")).json() as Changes;
		const changed = this.#generation !== 0 && generation !== this.#generation;
		this.live = live;
		this.#generation = generation;
		if (changed) this.onChange?.(generation);
		// A server that has ended says so with the user's next request.
		if (live) this.#timer = setTimeout(() => this.#look().catch(() => {}), EVERY_MS);
	}

	async #get(path: string, signal?: AbortSignal): Promise<Response> {
		let response: Response;
		try {
			response = await fetch(path, { signal: signal ?? null, cache: "no-store" });
		} catch (error) {
			if (signal?.aborted) throw error;
			throw new Error("'mayfly view' does not answer any more; start it again");
		}
		if (!response.ok) throw errorOf(response.status, await response.text());
		return response;
	}

	async ask<T>(request: string, signal?: AbortSignal): Promise<T> {
		return await (await this.#get("ask/" + request, signal)).json() as T;
	}

	async bytes(request: string, signal?: AbortSignal): Promise<ArrayBuffer> {
		return (await this.#get("ask/" + request, signal)).arrayBuffer();
	}

	async files(): Promise<Opening> {
		const info = await this.ask<{ file: string; base: { file: string } | null }>("info");
		const named = async (path: string, request: string): Promise<TraceFile> =>
			({ name: path.split("/").pop() || "trace", bytes: new Uint8Array(await this.bytes(request)) });
		return {
			trace: await named(info.file, "file"),
			base: info.base ? await named(info.base.file, "basefile") : undefined,
		};
	}

	/** A file of the browser: both are read in this tab. */
	async compare(base: File): Promise<Engine> {
		const { trace } = await this.files();
		const { openLocal } = await import("./open.ts");
		const engine = await openLocal({ trace, base: await readFile(base) });
		this.close();
		return engine;
	}

	async comparePath(path: string): Promise<Engine> {
		const answer = await (await this.#get("compare/" + encodeURIComponent(path))).json() as { error?: string };
		if (answer.error) throw new Error(`${path}: ${answer.error}`);
		this.close();
		return HttpEngine.open();
	}

	close(): void {
		clearTimeout(this.#timer);
	}
}
