/* SPDX-License-Identifier: Apache-2.0 */
/* Nearly empty pages by stack, as the `frag` chunk has them: doc/FORMAT.md. */
#ifndef MAYFLY_FRAGMENTS_H
#define MAYFLY_FRAGMENTS_H

#include <mayfly/trace.h>

#include "format/columns.h"
#include "format/format.h"

#define FRAGMENT_PAGE_BYTES 4096u
#define FRAGMENTS_MOST	    4096u /* the most stacks that are kept: those that waste most */

struct fragments {
	int64_t time_ns;
	uint64_t blocks, bytes, pages, runs; /* in all */
	struct mayfly_fragment *entry; /* by node: the file's, or of a recording, its tables' */
	size_t entries;
};

void fragments_free(struct fragments *f);

/* Appends the chunk. Entries by ascending node of the file. */
void fragments_write(const struct fragments *f, enum fragments_kind kind,
		     struct column_writer *columns, struct bytes *out);

#endif
