// SPDX-License-Identifier: Apache-2.0
// zstd for the reader in the page: the WebAssembly of npm's zstddec, without its JavaScript, which
// fetches a data: address (the page's policy forbids that) and does not tell damaged data.

interface ZstdExports {
	memory: WebAssembly.Memory;
	malloc(size: number): number;
	free(pointer: number): void;
	ZSTD_decompress(to: number, room: number, from: number, size: number): number;
}

export class Zstd {
	#module: WebAssembly.Module;
	#exports: ZstdExports | undefined;

	constructor(module: WebAssembly.Module) {
		this.#module = module;
	}

	/** The decoder; a fresh one after it has failed in an unknown state. */
	#decoder(): ZstdExports {
		if (!this.#exports) {
			const imports = { env: { emscripten_notify_memory_growth: () => {} } };
			const instance = new WebAssembly.Instance(this.#module, imports);
			this.#exports = instance.exports as unknown as ZstdExports;
		}
		return this.#exports;
	}

	/** Runs `use` with room for both sides; false when there is no memory or the code trapped. */
	#with(from: Uint8Array, room: number, use: (d: ZstdExports, to: number, at: number) => boolean): boolean {
		try {
			const d = this.#decoder();
			const at = d.malloc(from.length) >>> 0;
			const to = d.malloc(room) >>> 0;
			let done = false;
			if (at && to) {
				new Uint8Array(d.memory.buffer).set(from, at);
				done = use(d, to, at);
			}
			if (at) d.free(at);
			if (to) d.free(to);
			return done;
		} catch {
			this.#exports = undefined;
			return false;
		}
	}

	/** Fills `to` from a frame. False: it is damaged, or it has another size. */
	expand(from: Uint8Array, to: Uint8Array): boolean {
		return this.#with(from, Math.max(to.length, 1), (d, room, at) => {
			// Error codes are larger than any size.
			if (d.ZSTD_decompress(room, to.length, at, from.length) >>> 0 !== to.length) return false;
			to.set(new Uint8Array(d.memory.buffer, room, to.length));
			return true;
		});
	}
}
