/* SPDX-License-Identifier: Apache-2.0 */
/* Whose blocks hold nearly empty pages: see page_holders.h. */
#include "answer/page_holders.h"

#include <stdlib.h>
#include <string.h>

#include "answer/trace_names.h"

#define PLACE_BYTES 4096

/* The inner-most place on the stack that is worth showing. */
static void find_holder(const struct mayfly_trace *trace, const struct mayfly_match *hide,
			uint32_t node, struct page_holder *row)
{
	for (; node; node = mayfly_trace_node(trace, node).parent) {
		const struct mayfly_node n = mayfly_trace_node(trace, node);
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, n.frame);

		for (size_t i = 0; frame && i < frame->locations; i++) {
			const struct mayfly_location *l = &frame->location[i];

			row->frame = frame;
			row->location = l;
			if (!*l->function || !hide->matches ||
			    !hide->matches(hide->context, l->function))
				return;
		}
	}
}

static int compare_text(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a, b);
}

/* By function and line; of unknown functions by address. */
static int compare_places(const void *a, const void *b)
{
	const struct page_holder *x = a, *y = b;
	int order;

	if (!x->location || !y->location)
		return (x->location != NULL) - (y->location != NULL);
	order = compare_text(x->location->function, y->location->function);
	if (!order)
		order = compare_text(x->location->file, y->location->file);
	if (!order)
		order = (x->location->line > y->location->line) -
			(x->location->line < y->location->line);
	if (!order && !*x->location->function)
		order = x->frame->module != y->frame->module
			    ? (x->frame->module > y->frame->module ? 1 : -1)
			    : (x->frame->address > y->frame->address) -
				  (x->frame->address < y->frame->address);
	return order;
}

int64_t page_waste(const struct page_holder *r)
{
	return (int64_t)(r->held - r->bytes);
}

static int compare_waste(const void *a, const void *b)
{
	int64_t x = page_waste(a), y = page_waste(b);

	return x != y ? (x < y) - (x > y) : compare_places(a, b);
}

struct page_holder *page_holders(const struct mayfly_trace *trace,
				 const struct mayfly_fragmentation *m,
				 const struct mayfly_match *hide, size_t *rows)
{
	struct page_holder *row = calloc(m->count + 1, sizeof(*row));
	size_t used = 0;

	if (!row)
		return NULL;
	for (size_t i = 0; i < m->count; i++) {
		const struct mayfly_fragment *e = &m->fragment[i];

		row[i] = (struct page_holder){
		    .blocks = e->blocks, .bytes = e->bytes, .held = e->held_bytes};
		find_holder(trace, hide, e->node, &row[i]);
	}
	qsort(row, m->count, sizeof(*row), compare_places);
	for (size_t i = 0; i < m->count; i++) {
		if (used && !compare_places(&row[used - 1], &row[i])) {
			row[used - 1].blocks += row[i].blocks;
			row[used - 1].bytes += row[i].bytes;
			row[used - 1].held += row[i].held;
		} else {
			row[used++] = row[i];
		}
	}
	qsort(row, used, sizeof(*row), compare_waste);
	*rows = used;
	return row;
}

/* ---- JSON ---- */

static void put_holder(struct json *j, const struct mayfly_trace *trace,
		       const struct page_holder *row)
{
	const struct mayfly_location *l = row->location;
	char name[PLACE_BYTES] = "[unknown]";

	if (row->frame)
		frame_name(name, sizeof(name), trace, row->frame, l);
	json_text(j, "function", l && *l->function ? l->function : name);
	json_text_or_null(j, "file", l ? l->file : "");
	json_integer(j, "line", l ? l->line : 0);
	json_unsigned(j, "blocks", row->blocks);
	json_unsigned(j, "bytes", row->bytes);
	json_unsigned(j, "held_bytes", row->held);
}

void json_page_holders(struct json *j, const char *key, const struct mayfly_trace *trace,
		       const struct mayfly_fragmentation *m, const struct mayfly_match *hide,
		       size_t top)
{
	struct page_holder *row;
	size_t rows;

	if (!m) {
		json_null(j, key);
		return;
	}
	row = page_holders(trace, m, hide, &rows);
	j->bytes.failed |= !row;
	json_object(j, key);
	json_integer(j, "time_ns", m->time_ns);
	json_unsigned(j, "blocks", m->blocks);
	json_unsigned(j, "bytes", m->bytes);
	json_unsigned(j, "pages", m->pages);
	json_unsigned(j, "page_bytes", m->page_bytes);
	JSON_ROWS(j, "rows", i, row && i < rows && (!top || i < top))
		put_holder(j, trace, &row[i]);
	json_end(j);
	free(row);
}
