/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was never freed, told apart by the picture of the heap: three questions.
 *
 *	------------ picture ------------ end
 *	lost, by the asked key		 |	nothing pointed to it
 *	held, by holder			 |
 *		     | later: allocated afterwards and never freed; not known which of the two
 */
#ifndef MAYFLY_LEAK_PARTS_H
#define MAYFLY_LEAK_PARTS_H

#include <mayfly/trace.h>

struct leak_parts {
	struct mayfly_query lost_query, held_query, later_query;
	struct mayfly_result *lost, *held; /* NULL until they are asked */
	struct mayfly_result *later;	   /* NULL also if the trace has no times */
};

/* NULL: there is no picture, or the query asks what no picture tells: when, and by whom, blocks are freed. */
const struct mayfly_picture *leak_parts_picture(const struct mayfly_trace *trace,
						const struct mayfly_query *query);

/* query: of the metric LEAKED, or IN_PICTURE where it has holders or types: then nothing counts as later. It
 * ignores what is suppressed, too; what is held is no leak, so there only `ignored` is left out. */
void leak_parts_begin(struct leak_parts *parts, const struct mayfly_query *query,
		      struct mayfly_match ignored, const struct mayfly_picture *picture);
/* 0 or a negative enum mayfly_error; leak_parts_free() in both cases. */
int leak_parts_ask(struct leak_parts *parts, const struct mayfly_trace *trace);
void leak_parts_free(struct leak_parts *parts);

#endif
