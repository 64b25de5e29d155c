/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of a heap as a page: see heap_html.h. */
#include "cli/heap/heap_html.h"

#include <stdlib.h>
#include <string.h>

#include "answer/figures.h"
#include "cli/view/view_html.h"
#include "record/heap_trace.h"
#include "terminal/message.h"

static const char *name_of(const struct picture *p)
{
	const char *slash = strrchr(p->program, '/');

	return slash ? slash + 1 : *p->program ? p->program : "heap";
}

/* Readers limit the memory that a file may take by its size, and a heap of many equal blocks becomes a small one. */
static bool can_be_read(const struct trace_buffer *trace)
{
	struct mayfly_trace *t;
	bool good;

	if (mayfly_trace_open(trace->bytes, trace->used, &t) != 0)
		return false;
	good = mayfly_trace_picture(t) != NULL;
	mayfly_trace_close(t);
	return good;
}

static int write_page(const struct picture *p, const struct trace_buffer *trace, const char *output)
{
	const struct view_html how = {.output = output, .path = name_of(p), .state = "#v1/held"};
	const struct opened_trace opened = {.file = {.data = trace->bytes, .size = trace->used}};
	char blocks[FIGURE_TEXT];

	if (!can_be_read(trace))
		return cli_error("--html: %s blocks are too many for one page",
				 text_count(blocks, sizeof(blocks), (double)p->graph.all.blocks));
	return view_write_html(&how, &opened, NULL);
}

int heap_write_html(const struct picture *p, const char *output)
{
	struct trace_buffer trace;
	int error = heap_trace_write(p, &trace), status;

	status = error ? cli_error("--html: %s", mayfly_error_text(error))
		       : write_page(p, &trace, output);
	free(trace.bytes);
	return status;
}
