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
static int read_back(const struct trace_buffer *trace)
{
	struct mayfly_trace *t;
	int error = mayfly_trace_open(trace->bytes, trace->used, &t);

	if (error)
		return error;
	if (!mayfly_trace_picture(t))
		error = MAYFLY_E_TOO_LARGE;
	mayfly_trace_close(t);
	return error;
}

static int write_page(const struct picture *p, const struct trace_buffer *trace, const char *output)
{
	const struct view_html how = {.output = output, .path = name_of(p), .state = "#v1/held"};
	const struct opened_trace opened = {.file = {.data = trace->bytes, .size = trace->used}};
	char blocks[FIGURE_TEXT];
	int error = read_back(trace);

	if (error == MAYFLY_E_TOO_LARGE)
		return cli_error("--html: %s blocks are too many for one page",
				 text_count(blocks, sizeof(blocks), (double)p->graph.all.blocks));
	if (error)
		return cli_error("--html: %s", mayfly_error_text(error));
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
