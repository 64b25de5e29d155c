/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of the page, taken apart: "rows?by=function&focus=parse" -> a name, a question, and what
 * the one request takes besides.
 */
#ifndef MAYFLY_REQUEST_H
#define MAYFLY_REQUEST_H

#include "question/question.h"
#include "view/view.h"

#define VIEW_DEFAULT_TOP    100
#define VIEW_DEFAULT_POINTS 400
#define VIEW_MOST_POINTS    4096
#define VIEW_DEFAULT_WIDTH  1200

struct request {
	const struct view *view;
	const struct mayfly_trace *trace; /* view->trace */
	const struct mayfly_info *info;
	const char *name;
	struct question q;
	size_t top, skip, points, width, depth;
	int classes;  /* 0: of sizes, 1: of lifetimes */
	int merge;    /* enum request_merge */
	double least; /* share of the total */
	const char *function, *file, *format;
	bool top_given, invert, recursion, blocks, extremes;
	/* The request's own. */
	char *text; /* that the above point into */
};

enum request_merge { REQUEST_MERGE_NONE, REQUEST_MERGE_FUNCTION, REQUEST_MERGE_LINE };

/* False: *c says what is wrong. request_free() in both cases. */
bool request_parse(struct request *r, const struct view *view, const char *request,
		   struct error_line *c);
void request_free(struct request *r);

#endif
