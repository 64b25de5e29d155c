/* SPDX-License-Identifier: Apache-2.0 */
/* Writing nearly empty pages by stack: see fragments.h, and doc/FORMAT.md, "frag". */
#include "trace/write/fragments.h"

#include <stdlib.h>

#include "format/format.h"

#define UNIT_NS 1000

void fragments_free(struct fragments *f)
{
	free(f->entry);
	*f = (struct fragments){0};
}

void fragments_write(const struct fragments *f, enum fragments_kind kind,
		     struct column_writer *columns, struct bytes *out)
{
	size_t n = f->entries;
	struct chunk_maker c = {0};
	uint64_t *node = chunk_add(&c, COLUMN_FRAGMENT_NODE, n);
	uint64_t *blocks = chunk_add(&c, COLUMN_FRAGMENT_BLOCKS, n);
	uint64_t *bytes = chunk_add(&c, COLUMN_FRAGMENT_BYTES, n);
	uint64_t *pages = chunk_add(&c, COLUMN_FRAGMENT_PAGES, n);
	uint64_t *held = chunk_add(&c, COLUMN_FRAGMENT_HELD, n);
	uint64_t *runs = chunk_add(&c, COLUMN_FRAGMENT_RUNS, 1);
	uint32_t next = 0;

	for (size_t i = 0; i < n && !c.failed; i++) {
		const struct mayfly_fragment *e = &f->entry[i];

		node[i] = e->node - next;
		next = e->node + 1;
		blocks[i] = e->blocks;
		bytes[i] = e->bytes;
		pages[i] = e->pages;
		held[i] = e->held_bytes;
	}
	if (!c.failed)
		*runs = f->runs;
	bytes_put_u(&c.head, kind);
	bytes_put_u(&c.head, UNIT_NS);
	bytes_put_s(&c.head, f->time_ns / UNIT_NS);
	bytes_put_u(&c.head, FRAGMENT_PAGE_BYTES);
	bytes_put_u(&c.head, f->blocks);
	bytes_put_u(&c.head, f->bytes);
	bytes_put_u(&c.head, f->pages);
	bytes_put_u(&c.head, n);
	chunk_finish(&c, columns, TRACE_FRAGMENTS, out);
}
