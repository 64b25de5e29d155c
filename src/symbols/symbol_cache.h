/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session of symbols has answered: the same addresses come again in the trace of each
 * process that runs the same program.
 *
 *	(file, address) -> symbols
 *
 * `file` is an interned text (demangle.h) that names one content of one file; it is compared by its
 * address. When the answers reach a limit, all are forgotten.
 */
#ifndef MAYFLY_SYMBOL_CACHE_H
#define MAYFLY_SYMBOL_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/interner.h"
#include "symbols/symbols.h"

struct symbol_slot {
	const char *file; /* NULL: there was no memory for the answer */
	uint64_t address;
	struct symbol *list;
	size_t count;
};

struct symbol_cache {
	struct interner places;	  /* of files and addresses */
	struct symbol_slot *slot; /* by number */
	size_t room, symbols;
};

/* NULL: not known. The answer lives until the next symbol_cache_put(). */
const struct symbol_slot *symbol_cache_find(const struct symbol_cache *c, const char *file,
					    uint64_t address);

/* The strings in list must live as long as the cache. Out of memory, the answer is not kept. */
void symbol_cache_put(struct symbol_cache *c, const char *file, uint64_t address,
		      const struct symbol *list, size_t count);

void symbol_cache_free(struct symbol_cache *c);

#endif
