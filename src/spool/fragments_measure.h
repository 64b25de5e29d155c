/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stacks' blocks hold nearly empty pages. This needs the blocks' addresses, which are known
 * while a spool of exact mode is read.
 *
 *	page	|aa      b   |            |  a         |   a and b: blocks of two stacks
 *	held	 a 2/3, b 1/3	(nobody)	a all		of a page each
 *
 * The stacks of a page's live blocks hold the page in proportion to their bytes in it. So the sum
 * over all stacks is the number of pages that have live blocks.
 */
#ifndef MAYFLY_FRAGMENTS_MEASURE_H
#define MAYFLY_FRAGMENTS_MEASURE_H

#include "spool/live_table.h"
#include "trace/write/fragments.h"

/* False: no memory. Keys are addresses; nodes are below `nodes`. */
bool fragments_measure(struct fragments *f, const struct live_table *live, size_t nodes,
		       int64_t time_ns);

#endif
