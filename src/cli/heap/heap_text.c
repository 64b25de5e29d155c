/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of a heap as text. */
#include "cli/heap/heap_print.h"

#include <string.h>

#include "answer/text_format.h"
#include "answer/trace_names.h"
#include "terminal/message.h"

#define WHERE_COLUMNS	24
#define THROUGH_COLUMNS 36 /* and what says that there are more steps */
#define STEP_COLUMNS	28 /* of one step */

/* ---- sentences ---- */

static void print_how(const struct picture *p, const struct output *o)
{
	char bytes[FIGURE_TEXT], blocks[FIGURE_TEXT], time[FIGURE_TEXT], libc[32] = "";
	char python[FIGURE_TEXT + 64] = "";
	char how[FREEZE_WHY + 200];

	text_duration(time, sizeof(time), (double)p->stopped_ns);
	if (!p->pid)
		text_format(how, sizeof(how), "from a core file of %s",
			    *p->program ? p->program : "a process");
	else
		switch (p->how) {
		case FROZEN_COPY:
		case FROZEN_HELD:
			text_format(how, sizeof(how), "the program was stopped for %s", time);
			break;
		case FROZEN_MEMORY:
			text_format(how, sizeof(how),
				    "the program was stopped for %s, as no copy of it could be "
				    "made: %s",
				    time, p->why_no_copy);
			break;
		case FROZEN_RUNNING:
			text_format(how, sizeof(how),
				    "approximate: it was read while the program ran");
			break;
		}
	if (p->libc_version)
		text_format(libc, sizeof(libc), " (glibc 2.%u)", p->libc_version % 100);
	if (p->graph.python.arenas)
		text_format(python, sizeof(python), " and of Python %u.%u (%s in its arenas)",
			    p->python.version / 100, p->python.version % 100,
			    text_bytes(bytes, sizeof(bytes), (double)p->graph.python.bytes));
	print_wrapped(o, STYLE_BOLD, 2, "%s in %s blocks of malloc%s%s; %s",
		      text_bytes(bytes, sizeof(bytes), (double)p->graph.all.bytes),
		      text_count(blocks, sizeof(blocks), (double)p->graph.all.blocks), libc, python,
		      how);
	puts("");
}

static void describe(char *buffer, size_t size, const struct picture *p, const struct heap_row *row)
{
	char name[HEAP_NAME_TEXT], where[HEAP_NAME_TEXT];
	const struct holder *h;

	heap_row_text(name, sizeof(name), p, row);
	if (row->kind != HEAP_ROW_HOLDER) {
		text_format(buffer, size, "%s", name);
		return;
	}
	h = &p->holders.holder[row->holder];
	holder_where(where, sizeof(where), &p->holders.holder[row->holder]);
	switch (h->kind) {
	case HOLDER_VARIABLE:
		text_format(buffer, size, "%s, a variable of %s", name, h->module);
		break;
	case HOLDER_THREAD_LOCAL:
		text_format(buffer, size, "%s, a thread-local variable of '%s' %d", name, h->thread,
			    (int)h->tid);
		break;
	case HOLDER_STACK:
		text_format(buffer, size, "the %s, in %s", name, where);
		break;
	case HOLDER_UNNAMED:
	case HOLDER_REGISTERS:
	case HOLDER_THREAD:
	case HOLDER_MAPPING:
		text_format(buffer, size, "%s", name);
		break;
	}
}

static void print_headline(const struct picture *p, const struct heap_rows *rows,
			   const struct output *o)
{
	const struct heap_row *first = &rows->row[0], *lost = &rows->row[rows->count - 1];
	char part[FIGURE_TEXT], what[2 * HEAP_NAME_TEXT];

	if (!p->graph.all.bytes)
		return;
	if (lost->total.bytes > first->total.bytes)
		first = lost;
	text_percent(part, sizeof(part), (double)first->total.bytes, (double)p->graph.all.bytes);
	if (first->kind == HEAP_ROW_LOST) {
		print_wrapped(o, STYLE_PLAIN, 2, "%s is lost: nothing points to it", part);
	} else {
		describe(what, sizeof(what), p, first);
		print_wrapped(o, STYLE_PLAIN, 2, "%s is held by %s", part, what);
	}
	puts("");
}

static void print_notes(const struct picture *p, const struct output *o)
{
	char bytes[FIGURE_TEXT], blocks[FIGURE_TEXT];
	const struct heap_graph *g = &p->graph;

	if (g->lost_indirectly.blocks)
		print_wrapped(o, STYLE_DIM, 2,
			      "Lost: %s blocks have no pointer to them; the others hang on these.",
			      text_count(blocks, sizeof(blocks), (double)g->lost_directly.blocks));
	if (g->sums.mapped_missing)
		print_wrapped(o, STYLE_NOTE, 2,
			      "malloc counts %s more in mappings of single blocks than was found.",
			      text_bytes(bytes, sizeof(bytes), (double)g->sums.mapped_missing));
	if (p->has_python == PYTHON_UNKNOWN)
		print_wrapped(
		    o, STYLE_NOTE, 2,
		    "This Python's objects are not known: its arenas count as mappings that "
		    "hold what they point to. Those of Python %u.%u to %u.%u are known, "
		    "unless it is free-threaded.",
		    PYTHON_OLDEST / 100, PYTHON_OLDEST % 100, PYTHON_NEWEST / 100,
		    PYTHON_NEWEST % 100);
	if (g->python.damaged)
		print_wrapped(
		    o, STYLE_NOTE, 2,
		    "%s of Python's pools were being changed: all of their blocks count as "
		    "used.",
		    text_count(blocks, sizeof(blocks), (double)g->python.damaged));
	/* Another allocator beside malloc, or one on top of it. */
	if (p->anonymous_bytes >
	    4 * (g->all.bytes + g->sums.free_bytes + (64 << 20)) + g->python.arena_bytes)
		print_wrapped(
		    o, STYLE_NOTE, 2,
		    "%s of anonymous memory are mapped: most of what is used of it is not "
		    "malloc's, but another allocator's or the program's own.",
		    text_bytes(bytes, sizeof(bytes), (double)p->anonymous_bytes));
	if (p->unstopped)
		print_wrapped(o, STYLE_NOTE, 2,
			      "%zu threads did not stop in time: what only their registers hold "
			      "counts as lost.",
			      p->unstopped);
}

/* ---- tables ---- */

static void put_figures(struct table *t, const char *title, int drop, const struct picture *p,
			const struct heap_total *total)
{
	table_bytes(COLUMN(t, title, true), (double)total->bytes);
	table_percent(COLUMN(t, "", true, drop, STYLE_PLAIN, true), (double)total->bytes,
		      (double)p->graph.all.bytes);
	table_count(COLUMN(t, "BLOCKS", true, 1), (double)total->blocks);
}

/* "7.82 KiB -> 72 B -> Session"; as many steps as fit. */
static char *through_text(char *buffer, size_t size, const struct picture *p,
			  const struct heap_view *view, const struct heap_row *row)
{
	*buffer = '\0';
	for (unsigned int i = 0; i < HEAP_STAGES && row->stage[i].kinds.blocks; i++) {
		const struct heap_stage *s = &row->stage[i];
		char bytes[FIGURE_TEXT], fitted[NAME_BYTES];

		text_bytes(bytes, sizeof(bytes), (double)s->kinds.bytes / (double)s->kinds.blocks);
		name_fit(fitted, sizeof(fitted), &view->out,
			 s->kind.type ? p->type_name[s->kind.type - 1] : bytes, STEP_COLUMNS);
		if (i && !view->out.wide &&
		    text_columns(buffer) + text_columns(fitted) > THROUGH_COLUMNS)
			return text_append(buffer, size, " -> ...");
		text_append(buffer, size, "%s%s", i ? " -> " : "", fitted);
	}
	return buffer;
}

static void put_row(struct table *t, const struct picture *p, const struct heap_view *view,
		    const struct heap_row *row)
{
	char name[HEAP_NAME_TEXT], where[HEAP_NAME_TEXT] = "", through[4 * HEAP_NAME_TEXT];

	heap_row_text(name, sizeof(name), p, row);
	if (row->kind == HEAP_ROW_HOLDER)
		holder_where(where, sizeof(where), &p->holders.holder[row->holder]);
	table_row(t);
	heap_put_name(COLUMN(t, "HELD BY"), view, name, HEAP_NAME_COLUMNS);
	heap_put_name(COLUMN(t, "", false, 2, STYLE_DIM), view, where, WHERE_COLUMNS);
	put_figures(t, "RETAINED", 3, p, &row->total);
	table_cell(COLUMN(t, "THROUGH", false, 4, STYLE_DIM),
		   through_text(through, sizeof(through), p, view, row));
}

static bool print_holders(const struct picture *p, const struct heap_view *view,
			  const struct heap_rows *rows)
{
	struct table *t = table_new(&view->out);
	size_t shown = rows->count - 1 < view->top ? rows->count - 1 : view->top;
	struct heap_total rest = {0};

	for (size_t i = 0; i < shown; i++)
		put_row(t, p, view, &rows->row[i]);
	for (size_t i = shown; i + 1 < rows->count; i++) {
		rest.bytes += rows->row[i].total.bytes;
		rest.blocks += rows->row[i].total.blocks;
	}
	if (rest.blocks) {
		table_row(t);
		table_format(COLUMN(t, "HELD BY"), "%zu others", rows->count - 1 - shown);
		table_cell(COLUMN(t, "", false, 2, STYLE_DIM), "");
		put_figures(t, "RETAINED", 3, p, &rest);
		table_cell(COLUMN(t, "THROUGH", false, 4, STYLE_DIM), "");
	}
	put_row(t, p, view, &rows->row[rows->count - 1]);
	return table_end(t, 2);
}

static void put_kind(struct table *t, const struct picture *p, const struct heap_view *view,
		     const struct heap_kind_sum *sum)
{
	char name[HEAP_NAME_TEXT], lost[FIGURE_TEXT] = "", holder[HEAP_NAME_TEXT];
	uint32_t top = heap_graph_holder_of(&p->graph, sum->top);

	heap_kind_text(name, sizeof(name), p, sum->kind, NULL);
	if (sum->lost.bytes)
		text_bytes(lost, sizeof(lost), (double)sum->lost.bytes);
	if (top == HEAP_NONE)
		text_format(holder, sizeof(holder), "several");
	else if (top == p->holders.count)
		text_format(holder, sizeof(holder), "nothing");
	else
		holder_text(holder, sizeof(holder), &p->holders.holder[top]);
	table_row(t);
	heap_put_name(COLUMN(t, "TYPE OR SIZE"), view, name, HEAP_NAME_COLUMNS);
	put_figures(t, "BYTES", 2, p, &sum->own);
	table_cell(COLUMN(t, "LOST", true, 3), lost);
	table_cell(COLUMN(t, "MOST HELD BY", false, 4, STYLE_DIM), holder);
}

static bool print_kinds(const struct picture *p, const struct heap_view *view)
{
	struct table *t;
	struct heap_kinds kinds;

	if (!heap_kinds_find(&p->graph, &kinds))
		return false;
	t = table_new(&view->out);
	for (size_t i = 0; i < kinds.count && i < view->top; i++)
		put_kind(t, p, view, &kinds.sum[i]);
	heap_kinds_free(&kinds);
	return table_end(t, 2);
}

int heap_print_text(const struct picture *p, const struct heap_view *view)
{
	struct heap_rows rows;
	bool good = heap_rows_make(&rows, p, view->top);

	if (good) {
		print_how(p, &view->out);
		if (view->waste) {
			good = heap_print_waste(p, view, &rows);
		} else {
			print_headline(p, &rows, &view->out);
			good = view->by == HEAP_BY_TYPE ? print_kinds(p, view)
							: print_holders(p, view, &rows);
		}
		if (good)
			print_notes(p, &view->out);
		heap_rows_free(&rows);
	}
	return good ? cli_finish() : cli_error("out of memory");
}
