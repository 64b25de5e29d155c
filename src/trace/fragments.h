/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stacks' blocks hold nearly empty pages. Known where blocks have addresses: while a spool of
 * exact mode is read.
 *
 *	page	|aa      b   |            |  a         |   a and b: blocks of two stacks
 *	held	 a 2/3, b 1/3	(nobody)	a all		of a page each
 *
 * A page is held by the stacks of its live blocks, in proportion to their bytes in it. So what all
 * stacks hold adds up to the pages that have live blocks.
 */
#ifndef MAYFLY_FRAGMENTS_H
#define MAYFLY_FRAGMENTS_H

#include "spool/live_table.h"
#include "trace/reader.h"

#define FRAGMENT_PAGE_BYTES 4096u
#define FRAGMENTS_MOST	    4096u /* stacks that are kept: those that waste most */

enum fragments_kind { FRAGMENTS_PEAK = 0, FRAGMENTS_END = 1, FRAGMENTS_KINDS };

struct fragments {
	int64_t time_ns;
	uint64_t blocks, bytes, pages; /* in all */
	struct mayfly_fragment *entry; /* by node; of a recording: of its tables */
	size_t entries;
};

/* False: no memory. Keys are addresses; nodes are below `nodes`. */
bool fragments_measure(struct fragments *f, const struct live_table *live, size_t nodes,
		       int64_t time_ns);
void fragments_free(struct fragments *f);

/* ---- the `frag` chunk ---- */

/* Entries by ascending node of the file. */
void fragments_write(const struct fragments *f, enum fragments_kind kind,
		     struct column_writer *columns, struct bytes *out);
void fragments_read(struct mayfly_trace *t, struct chunk_reader *c);
void fragments_close(struct mayfly_trace *t);

#endif
