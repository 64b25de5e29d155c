/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the program's texts: see names.h. Chunks are filled from their start; the first one is
 * static, and so also there when no memory can be mapped.
 */
#include "agent/names.h"

#include <string.h>
#include <sys/mman.h>

#include "agent/cpu/sys.h"

#define CHUNK_BYTES 65536u

struct chunk {
	_Atomic uint64_t used;
	char bytes[CHUNK_BYTES - sizeof(uint64_t)];
};

static struct chunk first;
static _Atomic(struct chunk *) current = &first;

uint32_t names_length(const char *text)
{
	return text ? (uint32_t)strnlen(text, SPOOL_TEXT_BYTES) : 0;
}

/* Makes a chunk to follow a full one, unless another thread was faster. */
static bool next_chunk(struct chunk *full)
{
	struct chunk *chunk = agent_sandboxed ? NULL : sys_memory(sizeof(*chunk));

	if (!chunk)
		return false;
	if (!atomic_compare_exchange_strong(&current, &full, chunk))
		sys_munmap(chunk, sizeof(*chunk));
	return true;
}

const char *names_keep(const char *text, uint32_t length)
{
	for (;;) {
		struct chunk *chunk = atomic_load(&current);
		uint64_t at = atomic_fetch_add(&chunk->used, length + 1);

		if (at + length + 1 <= sizeof(chunk->bytes)) {
			memcpy(chunk->bytes + at, text, length);
			return chunk->bytes + at;
		}
		if (!next_chunk(chunk))
			return NULL;
	}
}
