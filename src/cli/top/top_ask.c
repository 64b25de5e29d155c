/* SPDX-License-Identifier: Apache-2.0 */
/* top_ask.c: the questions. */
#include "cli/top/top.h"

#include <stdlib.h>
#include <string.h>

#include "answer/counter_values.h"
#include "base/system/process_file.h"

#define RATE_NS	  5000000000ll
#define LAG_NS	  2500000000ll /* a recorder writes what it has about once a second */
#define MOST_ROWS 300	       /* that can be scrolled to */

const char *const top_column_names[] = {"live", "allocated", "freed", "mark", NULL};

/* ---- columns ---- */

struct mayfly_query top_column_query(const struct top *t, enum top_column column)
{
	struct mayfly_query q = t->r.q.query;

	switch (column) {
	case TOP_LIVE:
		q.metric = t->peak ? MAYFLY_PEAK : MAYFLY_LIVE;
		q.at_ns = MAYFLY_AT_END;
		break;
	case TOP_FREED:
		/* What did not live for ever of all that was allocated. */
		if (q.max_lifetime_ns == INT64_MAX)
			q.max_lifetime_ns--;
		q.metric = MAYFLY_ALLOCATED;
		break;
	case TOP_SINCE:
		if (t->mark_ns > q.from_ns)
			q.from_ns = t->mark_ns;
		q.metric = MAYFLY_ALLOCATED;
		break;
	case TOP_ALLOCATED:
	case TOP_COLUMNS:
		q.metric = MAYFLY_ALLOCATED;
		break;
	}
	return q;
}

/* What the trace does not tell is left out. */
static int ask_columns(const struct top *t, struct top_facts *f)
{
	for (enum top_column c = TOP_LIVE; c < TOP_COLUMNS; c++) {
		struct mayfly_query q = top_column_query(t, c);
		int error;

		if (c == TOP_SINCE && t->mark_ns == TOP_NO_MARK)
			continue;
		q.stack_rows = report_stacks_needed(&t->r, MOST_ROWS);
		error = mayfly_query_run(t->r.file.trace, &q, &f->of[c]);
		if (error && (error != MAYFLY_E_ABSENT || c == TOP_ALLOCATED))
			return error;
		if (error)
			f->of[c] = NULL;
	}
	return 0;
}

static int rank(const struct top *t, struct top_facts *f)
{
	size_t top = t->once || t->r.json ? t->r.top : MOST_ROWS;
	struct mayfly_query q;

	f->sorted = (enum top_column)t->sort;
	if (!f->of[f->sorted])
		f->sorted = TOP_ALLOCATED;
	q = top_column_query(t, f->sorted);
	return rank_rows(&q, f->of[f->sorted], report_rank_options(&t->r, top), &f->ranking)
		   ? 0
		   : MAYFLY_E_MEMORY;
}

static bool same_place(const struct mayfly_place *a, const struct mayfly_place *b)
{
	return a->kind == b->kind && a->address == b->address && a->line == b->line &&
	       !strcmp(a->function, b->function) && !strcmp(a->module, b->module);
}

/* What is not part of the key, such as the file of a function, differs with the blocks. */
static bool same_key(enum mayfly_by by, const struct mayfly_row *a, const struct mayfly_row *b)
{
	if (a->line != b->line || a->thread != b->thread || a->free_thread != b->free_thread ||
	    a->low != b->low || a->high != b->high || a->stack_length != b->stack_length)
		return false;
	for (size_t i = 0; i < a->stack_length; i++)
		if (!same_place(&a->stack[i], &b->stack[i]))
			return false;
	return !strcmp(a->function, b->function) &&
	       (by != MAYFLY_BY_MODULE || !strcmp(a->module, b->module)) &&
	       (by != MAYFLY_BY_LINE || !strcmp(a->file, b->file));
}

const struct mayfly_estimate *top_cell(const struct top *t, const struct mayfly_row *row,
				       enum top_column column)
{
	const struct mayfly_result *result = t->facts.of[column];

	if (!result || column == t->facts.sorted)
		return result ? &row->self : NULL;
	for (size_t i = 0; i < result->rows; i++)
		if (same_key(t->r.q.query.by, &result->row[i], row))
			return &result->row[i].self;
	return &result->nothing;
}

/* ---- the whole ---- */

/* Rates in the last seconds of a recording, or in all of a finished one. Filters do not count here. */
static int ask_rates(const struct top *t, struct top_facts *f)
{
	const struct mayfly_info *info = t->r.file.info;
	int64_t end = info->duration_ns, window = end / 2 < RATE_NS ? end / 2 : RATE_NS, idle;
	struct mayfly_query q;
	struct mayfly_series *s;
	double seconds;
	int error;

	if (info->absent & (MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_ALLOCATED | MAYFLY_ABSENT_LIVE) ||
	    window <= 0)
		return 0;
	mayfly_query_defaults(&q);
	q.metric = MAYFLY_ALLOCATED;
	if (t->source.goes_on)
		q.from_ns = end - 2 * window;
	else
		window = end / 2;
	error = mayfly_series_run(t->r.file.trace, &q, 2, 0, &s);
	if (error)
		return error == MAYFLY_E_ABSENT ? 0 : error;
	seconds = (double)window / 1e9;
	f->rate_ns = window;
	f->allocated_rate = s->allocated_bytes[1] - s->allocated_bytes[0];
	f->freed_rate = f->allocated_rate - (s->live_bytes[1] - s->live_bytes[0]);
	if (!t->source.goes_on) { /* both halves */
		f->rate_ns = end;
		seconds *= 2;
		f->allocated_rate = s->allocated_bytes[1];
		f->freed_rate = f->allocated_rate - s->live_bytes[1];
	}
	idle = top_source_now(t) - end;
	if (idle > LAG_NS) {
		seconds += (double)idle / 1e9;
		f->rate_ns += idle;
	}
	mayfly_series_free(s);
	f->allocated_rate = f->allocated_rate > 0 ? f->allocated_rate / seconds : 0;
	f->freed_rate = f->freed_rate > 0 ? f->freed_rate / seconds : 0;
	return 0;
}

static double resident_now(const struct top *t)
{
	const struct mayfly_counter *c = counter_named(t->r.file.trace, "process.resident");
	uint64_t now = t->source.goes_on ? process_resident(t->source.pid) : 0;

	if (now)
		return (double)now;
	return c ? last_value(c) : -1;
}

static void ask_curve(const struct top *t, struct top_facts *f)
{
	size_t room = t->r.out.width > 24 ? (size_t)t->r.out.width - 20 : 4;

	f->steps = room < TOP_STEPS ? room : TOP_STEPS;
	if (t->r.file.info->duration_ns <= 0 ||
	    mayfly_timeline(t->r.file.trace, f->steps, f->live) != 0)
		f->steps = 0;
}

static int ask_whole(const struct top *t, struct top_facts *f)
{
	int error = mayfly_trace_summary(t->r.file.trace, &f->summary);

	if (!error)
		error = ask_rates(t, f);
	return error;
}

int top_ask(struct top *t)
{
	struct top_facts f = {0};
	int error = 0;

	t->r.exact = t->r.file.info->mode == MAYFLY_EXACT;
	if (t->facts.known) { /* of this trace; only the questions are others */
		f = t->facts;
		memset(f.of, 0, sizeof(f.of));
		f.ranking = (struct ranking){0};
	} else {
		error = ask_whole(t, &f);
	}
	if (!error)
		error = ask_columns(t, &f);
	if (!error)
		error = rank(t, &f);
	if (error) {
		top_answers_free(&f);
		return error;
	}
	f.known = true;
	ask_curve(t, &f);
	f.rss = resident_now(t);
	top_answers_free(&t->facts);
	t->facts = f;
	return 0;
}

bool top_sort_again(struct top *t)
{
	struct ranking before = t->facts.ranking;

	if (!t->facts.known || !t->facts.of[t->sort])
		return false;
	if (rank(t, &t->facts)) {
		t->facts.ranking = before;
		return false;
	}
	free(before.row);
	return true;
}
