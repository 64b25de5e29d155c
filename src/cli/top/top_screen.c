/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_screen.c: the terminal, until the user ends it.
 *
 *	pid 4711 ...		the head: the whole process, and the titles of the table
 *	Live ...
 *	LIVE ... FUNCTION
 *	12 MiB    parse		the table, from cursor.first on
 *	 9 MiB    load
 *	1-4 sort ...		the keys, a message, or what the user types
 */
#include "cli/top/top_keys.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "terminal/terminal.h"
#include "cli/top/top_terminal.h"
#include "base/system/clock.h"

#define LEAST_BODY 3  /* lines of the table: in a low window the head gets shorter */
#define COST_SHARE 10 /* looking may take one part in this of a CPU */

/* ---- drawing ---- */

static const char *const help[] = {
    "mayfly top: where the memory is, while the program runs",
    "",
    "  1 2 3 4       sort: live, allocated, freed, allocated since the mark",
    "  m             set the mark here; the rows are what was allocated since then",
    "  p             what was live at the peak instead of now, and back",
    "  t  l  o       one row for each thread, value of a label (again: the next label), module;",
    "                again: for each function",
    "  f  /          only stacks with a function, file or module that matches (an RE)",
    "  c             no filter, no mark, no peak; by function",
    "  Up, Down      choose a row; Page Up, Page Down, Home, End, and k, j",
    "  Enter         the stacks of this row; Up and Down then scroll; Enter closes them",
    "  Space         stop here; again: go on",
    "  s             write a snapshot: a trace of what is recorded so far",
    "  q             end (the program and its recording go on)",
    "",
    "  +- and a..b: 95 % interval; <=: its upper end; -: no sample.",
    "  Libraries and runtimes are folded into their callers (--frames all: not).",
    NULL,
};

static void draw_help(size_t lines)
{
	size_t i;

	for (i = 0; help[i] && i + 1 < lines; i++)
		screen_put(i, help[i], false);
	for (; i + 1 < lines; i++)
		screen_put(i, "", false);
	screen_put(lines - 1, "Any key closes this.", false);
	screen_show(SIZE_MAX);
}

static void fit_cursor(struct top_view *v, const struct top_frame *f, size_t body)
{
	size_t row = f->selected ? f->selected - f->head : 0, all = f->lines - f->head;
	struct top_cursor *c = &v->cursor;

	if (c->expanded) { /* any part of the row and its stacks */
		size_t last = row + f->expanded + 1 > body ? row + f->expanded + 1 - body : 0;

		if (last < row)
			last = row;
		if (c->first > last)
			c->first = last;
		if (c->first < row)
			c->first = f->expanded + 1 > body || c->first + body < row + 1 + f->expanded
				       ? row
				       : c->first;
	} else if (c->first + body <= row) {
		c->first = row + 1 - body;
	} else if (c->first > row) {
		c->first = row;
	}
	if (c->first && c->first + body > all && !c->expanded)
		c->first = all > body ? all - body : 0;
}

static const char keys[] =
    "1-4 sort  m mark  p peak  f filter  Enter stacks  t/l/o group  s save  h help  q";

/* The last line. Returns whether the user types there. */
static bool draw_bottom(const struct top_view *v, size_t line)
{
	char text[1200];

	switch (v->prompt) {
	case PROMPT_FILTER:
		snprintf(text, sizeof(text), "Only stacks that match (an RE; nothing: all): %s",
			 v->typed);
		break;
	case PROMPT_SNAPSHOT:
		snprintf(text, sizeof(text), "Snapshot to (nothing: %s): %s", v->name, v->typed);
		break;
	case PROMPT_NONE:
		snprintf(text, sizeof(text), "%s",
			 *v->message	      ? v->message
			 : v->cursor.expanded ? "Up and Down scroll, Enter closes the stacks"
			 : v->paused	      ? "Stopped here; Space goes on"
					      : keys);
		break;
	}
	screen_put(line, text, false);
	return v->prompt != PROMPT_NONE;
}

/* Draws the first line of the head, and as many of its last ones as there is room for. */
static size_t draw_head(const struct top_frame *f, size_t lines)
{
	size_t room = lines > LEAST_BODY + 1 ? lines - LEAST_BODY - 1 : 0;
	size_t left_out = f->head > room ? f->head - room : 0, at = 0;

	for (size_t i = 0; i < f->head && at < room; i++)
		if (!i || i > left_out)
			screen_put(at++, f->line[i], false);
	return at;
}

static void draw_frame(struct top_view *v, struct top_frame *f, size_t lines)
{
	size_t at = draw_head(f, lines), body = lines - 1 > at ? lines - 1 - at : 1;
	bool typing;

	v->page = body > 1 ? body - 1 : 1;
	fit_cursor(v, f, body);
	for (size_t i = 0; at + 1 < lines; i++, at++) {
		size_t line = f->head + v->cursor.first + i;

		screen_put(at, line < f->lines ? f->line[line] : "",
			   v->t->facts.ranking.rows && line == f->selected);
	}
	typing = draw_bottom(v, lines - 1);
	screen_show(typing ? lines - 1 : SIZE_MAX);
}

static bool draw(struct top_view *v)
{
	struct top_frame *f;
	size_t columns, lines;
	bool good;

	screen_size(&columns, &lines);
	v->t->r.out.width = (int)columns;
	if (v->help) {
		draw_help(lines);
		return true;
	}
	f = calloc(1, sizeof(*f));
	good = f && frame_make(f, v->t, &v->cursor);
	if (good)
		draw_frame(v, f, lines);
	if (f)
		frame_free(f);
	return good;
}

/* ---- the loop ---- */

/* By function there is always an answer, if there is any. */
static void ask(struct top_view *v)
{
	struct top *t = v->t;
	int error;

	v->ask = false;
	if (!t->has_trace)
		return;
	error = top_ask(t);
	if (!error)
		return;
	report_failed(&t->r, error);
	if (t->r.q.query.by == MAYFLY_BY_FUNCTION)
		return;
	t->r.q.query.by = MAYFLY_BY_FUNCTION;
	top_ask(t);
}

/* Looks and asks. Returns the time until the next look is due. */
static int64_t look(struct top_view *v, bool *good)
{
	int64_t from = clock_ns(CLOCK_PROCESS_CPUTIME_ID), took;

	*good = top_source_look(v->t, false);
	if (*good)
		ask(v);
	took = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - from) * (COST_SHARE - 1);
	return took > v->t->every_ns ? took : v->t->every_ns;
}

static int wait_ms(const struct top_view *v, int64_t next)
{
	int64_t left = (next - now_ns()) / 1000000 + 1;

	if (v->paused || !v->t->source.goes_on)
		return -1;
	return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static int run(struct top_view *v)
{
	int64_t next = 0;
	bool good = true, shown = true;
	int key;

	if (!v->t->source.goes_on)
		ask(v);
	while (good && shown && !v->quit) {
		char said[sizeof(v->message)];

		if (v->t->source.goes_on && !v->paused && now_ns() >= next)
			next = now_ns() + look(v, &good);
		else if (v->ask)
			ask(v);
		if (!good)
			break;
		screen_said(said, sizeof(said));
		if (*said)
			memcpy(v->message, said, sizeof(said));
		shown = draw(v);
		if (!shown)
			break;
		key = screen_key(wait_ms(v, next));
		/* Time that passes closes no help, and takes no message away. */
		if (key != SCREEN_NONE && key != SCREEN_REDRAW)
			top_key(v, key);
	}
	return good && shown ? CLI_OK : CLI_FAILED;
}

int top_show(struct top *t)
{
	struct top_view *v = calloc(1, sizeof(*v));
	char said[sizeof(v->message)] = "";
	int status;

	if (!v)
		return cli_error("out of memory");
	v->t = t;
	v->other_filters = t->r.q.chooses_more && !t->r.q.focus.count;
	if (!screen_begin(terminal_has_colour())) {
		free(v);
		return CLI_FAILED;
	}
	t->r.out.colour = false;
	status = run(v);
	screen_said(said, sizeof(said));
	screen_end();
	if (status)
		fprintf(stderr, "%s\n", *said ? said : "mayfly: out of memory");
	free(v);
	return status;
}
