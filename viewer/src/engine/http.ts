// SPDX-License-Identifier: Apache-2.0
// The native reader, which served this page: requests go to ask/ below the page's own address,
// which holds the token.
import { type Engine, errorOf } from "./engine.ts";

export class HttpEngine implements Engine {
	readonly live = false;

	async #get(request: string, signal?: AbortSignal): Promise<Response> {
		let response: Response;
		try {
			response = await fetch("ask/" + request, { signal: signal ?? null, cache: "no-store" });
		} catch (error) {
			if (signal?.aborted) throw error;
			throw new Error("'mayfly view' does not answer any more; start it again");
		}
		if (!response.ok) throw errorOf(response.status, await response.text());
		return response;
	}

	async ask<T>(request: string, signal?: AbortSignal): Promise<T> {
		return await (await this.#get(request, signal)).json() as T;
	}

	async bytes(request: string, signal?: AbortSignal): Promise<ArrayBuffer> {
		return (await this.#get(request, signal)).arrayBuffer();
	}

	close(): void {}
}
