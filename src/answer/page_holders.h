/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose blocks hold nearly empty pages:
 *
 *	stacks' shares of pages --inner-most function that is shown, and line--> rows by waste
 */
#ifndef MAYFLY_PAGE_HOLDERS_H
#define MAYFLY_PAGE_HOLDERS_H

#include <mayfly/trace.h>

#include "answer/json_writer.h"

struct page_holder {
	const struct mayfly_frame *frame; /* NULL: none is known */
	const struct mayfly_location *location;
	uint64_t blocks, bytes, held;
};

/* Bytes of the pages that its blocks do not fill. */
int64_t page_waste(const struct page_holder *r);

/* Rows, the most waste first, to be freed; NULL: out of memory. hide: frames that are not the place
 * of an allocation. */
struct page_holder *page_holders(const struct mayfly_trace *trace,
				 const struct mayfly_fragmentation *m,
				 const struct mayfly_match *hide, size_t *rows);

/* m: may be NULL. The first `top` rows; 0: all. */
void json_page_holders(struct json *j, const char *key, const struct mayfly_trace *trace,
		       const struct mayfly_fragmentation *m, const struct mayfly_match *hide,
		       size_t top);

#endif
