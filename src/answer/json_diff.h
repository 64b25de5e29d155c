/* SPDX-License-Identifier: Apache-2.0 */
/* The difference of two traces as JSON. */
#ifndef MAYFLY_JSON_DIFF_H
#define MAYFLY_JSON_DIFF_H

#include "answer/json_writer.h"
#include "query/diff_hosts.h"

struct json_diff {
	const struct mayfly_trace *before, *after;
	const struct mayfly_query *query; /* to both */
	struct diff_per per;
	bool per_given;
	const struct diff_hosts *hosts;	  /* of both; NULL: one process each, or not known */
	const struct host_totals *totals; /* of these */
	uint32_t absent;		  /* in one of the traces */
};

/* The figures of an estimate of both, as the summary has them; hosts: what those of both have, or NULL. */
void json_diff_figures(const struct json_diff *c, const struct mayfly_estimate *before,
		       const struct mayfly_estimate *after, const struct host_estimate *hosts,
		       struct diff_figure *bytes, struct diff_figure *blocks);

/* An object: "verdict", "bytes", "blocks". */
void json_change(struct json *j, const char *key, const struct json_diff *c,
		 const struct diff_figure *bytes, const struct diff_figure *blocks);

/* Members of an object that is open; the first `top` rows, 0: all. 0 or a negative enum
 * mayfly_error. */
int json_diff(struct json *j, const struct json_diff *c, const struct trace_diff *d, size_t top);

#endif
