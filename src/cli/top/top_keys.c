/* SPDX-License-Identifier: Apache-2.0 */
/* top_keys.c: keys: see top_keys.h. */
#include "cli/top/top_keys.h"

#include <string.h>
#include <unistd.h>

#include "answer/by_label.h"
#include "answer/text_format.h"
#include "cli/control/snapshot.h"
#include "cli/top/top_terminal.h"

#define MOST_KEYS 16 /* of labels */

#define say(v, ...) text_format((v)->message, sizeof((v)->message), __VA_ARGS__)

/* ---- moving ---- */

static void move_to(struct top_view *v, size_t row)
{
	const struct ranking *ranking = &v->t->facts.ranking;

	if (!ranking->rows)
		return;
	v->cursor.row = row < ranking->rows ? row : ranking->rows - 1;
	report_full_key(v->cursor.name, sizeof(v->cursor.name), &v->t->r,
			ranking->row[v->cursor.row], false);
	v->cursor.expanded = false;
}

/* The lines of the stacks scroll; without stacks the next row is chosen. */
static void move_by(struct top_view *v, size_t rows, bool down)
{
	size_t *at = v->cursor.expanded ? &v->cursor.first : &v->cursor.row;
	size_t to = down ? *at + rows : *at > rows ? *at - rows : 0;

	if (v->cursor.expanded)
		*at = to;
	else
		move_to(v, to);
}

static void expand(struct top_view *v)
{
	bool expanded = !v->cursor.expanded;

	move_to(v, v->cursor.row);
	v->cursor.expanded = expanded && v->t->facts.ranking.rows;
}

/* ---- what is asked ---- */

static void restart(struct top_view *v)
{
	v->cursor.row = v->cursor.first = 0;
	v->cursor.name[0] = 0;
	v->cursor.expanded = false;
	v->ask = true;
}

static void sort_by(struct top_view *v, enum top_column column)
{
	if (column == TOP_SINCE && v->t->mark_ns == TOP_NO_MARK) {
		say(v, "There is no mark; m sets one.");
		return;
	}
	v->t->sort = (int)column;
	restart(v);
	v->ask = !top_sort_again(v->t);
}

static void group_by(struct top_view *v, enum mayfly_by by)
{
	struct mayfly_query *q = &v->t->r.q.query;

	q->by = q->by == by ? MAYFLY_BY_FUNCTION : by;
	q->label_key = NULL;
	restart(v);
}

/* By the values of the first key, then of the second one, ... */
static void next_label(struct top_view *v)
{
	struct mayfly_query *q = &v->t->r.q.query;
	const char *key[MOST_KEYS];
	size_t keys = v->t->has_trace ? label_keys(v->t->r.file.trace, key, MOST_KEYS) : 0;
	static char copy[256]; /* the trace goes with the next look */

	if (!keys) {
		say(v, "Nothing has labels here; programs set them with mayfly.h.");
		return;
	}
	if (q->by != MAYFLY_BY_LABEL)
		v->label_key = 0;
	if (v->label_key >= keys) {
		group_by(v, MAYFLY_BY_FUNCTION);
		return;
	}
	snprintf(copy, sizeof(copy), "%s", key[v->label_key++]);
	q->by = MAYFLY_BY_LABEL;
	q->label_key = copy;
	restart(v);
}

static void set_mark(struct top_view *v)
{
	char time[FIGURE_TEXT];

	if (!v->t->has_trace)
		return;
	v->t->mark_ns = top_source_now(v->t);
	sort_by(v, TOP_SINCE);
	v->ask = true;
	say(v, "The mark is at %s; the rows are what was allocated since then.",
	    text_duration(time, sizeof(time), (double)v->t->mark_ns));
}

static void set_filter(struct top_view *v, const char *text)
{
	struct question *q = &v->t->r.q;
	struct pattern focus = {0};
	struct error_line c = {0};

	if (*text && !pattern_add(&focus, "the filter", text, &c)) {
		say(v, "%s", c.text);
		pattern_free(&focus);
		return;
	}
	pattern_free(&q->focus);
	q->focus = focus;
	q->chooses_more = v->other_filters || *text;
	question_check(q, &c);
	restart(v);
	if (*text)
		say(v, "Only stacks with /%s/; c shows all again.", text);
}

static void clear_all(struct top_view *v)
{
	v->t->mark_ns = TOP_NO_MARK;
	v->t->peak = false;
	v->t->r.q.query.by = MAYFLY_BY_FUNCTION;
	v->t->r.q.query.label_key = NULL;
	if (v->t->sort == TOP_SINCE)
		v->t->sort = TOP_LIVE;
	set_filter(v, "");
}

/* ---- snapshots ---- */

/* One that no file has. */
static void begin_snapshot(struct top_view *v)
{
	if (!v->t->source.goes_on) {
		say(v, "The recording is over; its trace is %s.", v->t->source.path);
		return;
	}
	for (unsigned int i = 1; i < 1000; i++) {
		text_format(v->name, sizeof(v->name), "snapshot-%d-%u.mayfly",
			    (int)v->t->source.pid, i);
		if (access(v->name, F_OK) != 0)
			break;
	}
	v->prompt = PROMPT_SNAPSHOT;
	v->typed[0] = 0;
}

static void take_snapshot(struct top_view *v, const char *file)
{
	if (snapshot_write(v->t->source.ongoing.spool, file, false) == 0)
		say(v, "%s has what is recorded so far.", file);
}

/* ---- prompts ---- */

static void end_prompt(struct top_view *v)
{
	enum top_prompt prompt = v->prompt;

	v->prompt = PROMPT_NONE;
	switch (prompt) {
	case PROMPT_FILTER:
		set_filter(v, v->typed);
		break;
	case PROMPT_SNAPSHOT:
		take_snapshot(v, *v->typed ? v->typed : v->name);
		break;
	case PROMPT_NONE:
		break;
	}
}

static void type(struct top_view *v, int key)
{
	size_t used = strlen(v->typed);

	if (key == SCREEN_ENTER) {
		end_prompt(v);
	} else if (key == SCREEN_ESCAPE) {
		v->prompt = PROMPT_NONE;
	} else if (key == SCREEN_BACKSPACE) {
		while (used && (v->typed[used - 1] & 0xc0) == 0x80)
			v->typed[--used] = 0;
		if (used)
			v->typed[used - 1] = 0;
	} else if (key >= ' ' && key < 256 && used + 1 < sizeof(v->typed)) {
		v->typed[used] = (char)key;
		v->typed[used + 1] = 0;
	}
}

/* ---- all ---- */

static bool move_key(struct top_view *v, int key)
{
	switch (key) {
	case SCREEN_UP:
	case 'k':
		move_by(v, 1, false);
		return true;
	case SCREEN_DOWN:
	case 'j':
		move_by(v, 1, true);
		return true;
	case SCREEN_PAGE_UP:
		move_by(v, v->page, false);
		return true;
	case SCREEN_PAGE_DOWN:
		move_by(v, v->page, true);
		return true;
	case SCREEN_HOME:
		move_to(v, 0);
		return true;
	case SCREEN_END:
		move_to(v, SIZE_MAX);
		return true;
	case SCREEN_ENTER:
		expand(v);
		return true;
	case SCREEN_ESCAPE:
		v->cursor.expanded = false;
		return true;
	}
	return false;
}

static void letter_key(struct top_view *v, int key)
{
	switch (key) {
	case '1':
	case '2':
	case '3':
	case '4':
		sort_by(v, (enum top_column)(key - '1'));
		break;
	case 'm':
		set_mark(v);
		break;
	case 'p':
		v->t->peak = !v->t->peak;
		sort_by(v, TOP_LIVE);
		v->ask = true;
		break;
	case 'f':
	case '/':
		v->prompt = PROMPT_FILTER;
		v->typed[0] = 0;
		break;
	case 't':
		group_by(v, MAYFLY_BY_THREAD);
		break;
	case 'o':
		group_by(v, MAYFLY_BY_MODULE);
		break;
	case 'l':
		next_label(v);
		break;
	case 'c':
		clear_all(v);
		break;
	case ' ':
		v->paused = !v->paused;
		break;
	case 's':
		begin_snapshot(v);
		break;
	case 'h':
	case '?':
		v->help = true;
		break;
	case 'q':
		v->quit = true;
		break;
	default:
		break;
	}
}

void top_key(struct top_view *v, int key)
{
	v->message[0] = 0;
	if (v->prompt != PROMPT_NONE) {
		type(v, key);
		return;
	}
	if (v->help) {
		v->help = false;
		v->quit = key == 'q';
		return;
	}
	if (!move_key(v, key))
		letter_key(v, key);
}
