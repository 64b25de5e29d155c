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
	uint64_t *number = malloc((5 * n + 1) * sizeof(*number));
	struct bytes head = {0};
	uint32_t next = 0;

	if (!number) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		const struct mayfly_fragment *e = &f->entry[i];

		number[i] = e->node - next;
		next = e->node + 1;
		number[n + i] = e->blocks;
		number[2 * n + i] = e->bytes;
		number[3 * n + i] = e->pages;
		number[4 * n + i] = e->held_bytes;
	}
	bytes_put_u(&head, kind);
	bytes_put_u(&head, UNIT_NS);
	bytes_put_s(&head, f->time_ns / UNIT_NS);
	bytes_put_u(&head, FRAGMENT_PAGE_BYTES);
	bytes_put_u(&head, f->blocks);
	bytes_put_u(&head, f->bytes);
	bytes_put_u(&head, f->pages);
	bytes_put_u(&head, n);
	const struct column column[] = {
	    {COLUMN_FRAGMENT_NODE, number, n},		{COLUMN_FRAGMENT_BLOCKS, number + n, n},
	    {COLUMN_FRAGMENT_BYTES, number + 2 * n, n}, {COLUMN_FRAGMENT_PAGES, number + 3 * n, n},
	    {COLUMN_FRAGMENT_HELD, number + 4 * n, n},
	};
	out->failed |= head.failed;
	chunk_write(columns, out, TRACE_FRAGMENTS, &head, column, sizeof(column) / sizeof(*column));
	bytes_free(&head);
	free(number);
}
