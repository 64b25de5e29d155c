/* SPDX-License-Identifier: Apache-2.0 */
/* The difference of two traces as JSON. */
#ifndef MAYFLY_JSON_DIFF_H
#define MAYFLY_JSON_DIFF_H

#include "answer/json_writer.h"
#include "query/diff.h"

struct json_diff {
	const struct mayfly_trace *before, *after;
	const struct mayfly_query *query; /* to both */
	struct diff_per per;
	bool per_given;	 /* then bytes are not whole */
	uint32_t absent; /* in one of the traces */
};

/* A figure of both, as the summary has them. */
struct diff_figure json_diff_figure(const struct json_diff *c, const struct mayfly_figure *before,
				    uint64_t n_before, const struct mayfly_figure *after,
				    uint64_t n_after);

/* Members of an object that is open; the first `top` rows, 0: all. 0 or a negative enum
 * mayfly_error. */
int json_diff(struct json *j, const struct json_diff *c, const struct trace_diff *d, size_t top);

#endif
