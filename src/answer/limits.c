/* SPDX-License-Identifier: Apache-2.0 */
/* Limits, and verdicts on them: see limits.h. */
#include "answer/limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/json_parts.h"
#include "base/array.h"
#include "query/diff.h"

const char *const limit_metric_names[] = {"peak",      "allocated", "leaked",
					  "temporary", "blocks",    NULL};

/* ---- the list ---- */

struct limit *limits_new(struct limits *l, enum limit_metric metric, const char *where)
{
	struct limit *item;

	if (!array_reserve(&l->item, &l->room, l->count, sizeof(*item)))
		return NULL;
	item = &l->item[l->count];
	*item = (struct limit){.metric = metric, .where = strdup(where)};
	if (!item->where)
		return NULL;
	l->count++;
	return item;
}

void limits_free(struct limits *l, void (*end_focus)(void *context))
{
	for (size_t i = 0; i < l->count; i++) {
		struct limit *limit = &l->item[i];

		free(limit->guilt);
		mayfly_result_free(limit->result);
		trace_diff_free(limit->growth);
		free(limit->function);
		free(limit->where);
		if (limit->focus.context)
			end_focus(limit->focus.context);
	}
	free(l->item);
	*l = (struct limits){0};
}

bool limits_are_relative(const struct limits *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->item[i].relative)
			return true;
	return false;
}

size_t limits_exceeded(const struct limits *l)
{
	size_t count = 0;

	for (size_t i = 0; i < l->count; i++)
		count += l->item[i].exceeded;
	return count;
}

size_t limits_undecided(const struct limits *l)
{
	size_t count = 0;

	for (size_t i = 0; i < l->count; i++)
		count += l->item[i].undecided;
	return count;
}

bool limit_metric_named(const char *text, size_t length, enum limit_metric *metric)
{
	for (size_t i = 0; limit_metric_names[i]; i++) {
		if (strlen(limit_metric_names[i]) == length &&
		    memcmp(limit_metric_names[i], text, length) == 0) {
			*metric = (enum limit_metric)i;
			return true;
		}
	}
	return false;
}

/* ---- verdicts ---- */

struct mayfly_query limit_query(const struct limit *limit, const struct limit_case *c)
{
	static const enum mayfly_metric metrics[LIMIT_METRICS] = {
	    MAYFLY_PEAK, MAYFLY_ALLOCATED, MAYFLY_LEAKED, MAYFLY_TEMPORARY, MAYFLY_ALLOCATED};
	struct mayfly_query q = c->query;

	q.metric = metrics[limit->metric];
	q.by = MAYFLY_BY_STACK;
	/* Rows come by bytes: those with the most blocks may be any of them. */
	if (limit->metric != LIMIT_BLOCKS)
		q.stack_rows = c->top ? c->top : 1;
	q.focus = limit->focus;
	if (limit->metric == LIMIT_LEAKED)
		q.ignore = c->suppressed;
	return q;
}

static bool add_guilt(struct limit *limit, const struct mayfly_row *row, double change)
{
	return ARRAY_ADD(limit->guilt, limit->guilt_room, limit->guilty,
			 (struct guilt){row, change});
}

/* How far the figure is above its bound. False: a change whose size is certain may be chance. */
static bool measure_excess(struct limit *limit, const struct trace_diff *increase)
{
	const struct mayfly_figure *found = limit_figure(limit, &limit->found);
	const struct diff_figure *d;

	if (!increase) {
		limit->bound = limit->value;
		limit->excess = found->estimate - limit->value;
		limit->excess_low = found->low - limit->value;
		limit->excess_high = found->high - limit->value;
		return true;
	}
	d = limit->metric == LIMIT_BLOCKS ? &increase->blocks : &increase->bytes;
	limit->bound = d->before;
	limit->excess = d->change;
	limit->excess_low = d->low;
	limit->excess_high = d->high;
	return d->verdict == DIFF_REAL;
}

/*
 * With one margin, the figure x whose interval would begin at the bound. Its margin m = x - bound is made
 * of the figure's own error, whose square grows with x, and of the baseline's, which stays:
 *
 *	m^2 = own^2 x / found + rest
 *
 * Nothing found has no error to scale; its upper end, 3 intervals, is near the variance per byte.
 */
double limit_find_seen(const struct limit *limit, double margins)
{
	const struct mayfly_figure *found = limit_figure(limit, &limit->found);
	double margin = limit->excess - limit->excess_low;
	double own = fmin(margin, found->estimate - found->low);
	double rest = margin * margin - own * own;
	double slope = found->estimate > 0 ? own * own / found->estimate : found->high;

	slope *= margins * margins;
	rest *= margins * margins;
	return limit->bound + (slope + sqrt(slope * slope + 4 * (slope * limit->bound + rest))) / 2;
}

static void judge(const struct limit_case *c, struct limit *limit,
		  const struct trace_diff *increase)
{
	bool real = measure_excess(limit, increase);

	limit->blind =
	    mayfly_trace_info(c->trace)->absent & MAYFLY_ABSENT_ERRORS ||
	    (limit->relative && mayfly_trace_info(c->baseline)->absent & MAYFLY_ABSENT_ERRORS);
	limit->certain_from = limit_find_seen(limit, 1);
	limit->sees_from = limit_find_seen(limit, LIMIT_SEEN_MARGINS);
	limit->certain =
	    !limit->blind && (limit->excess_high <= 0 || (limit->excess_low > 0 && real));
	limit->exceeded = limit->excess > 0 && (c->strict || limit->blind || limit->certain);
	limit->undecided = !limit->exceeded && !limit->certain && !limit->blind && !c->strict;
}

static int compare_growth(const void *x, const void *y)
{
	const struct diff_row *a = x, *b = y;

	return (a->bytes.change < b->bytes.change) - (a->bytes.change > b->bytes.change);
}

static int compare_growth_of_blocks(const void *x, const void *y)
{
	const struct diff_row *a = x, *b = y;

	return (a->blocks.change < b->blocks.change) - (a->blocks.change > b->blocks.change);
}

static int compare_blocks(const void *x, const void *y)
{
	const struct mayfly_row *const *a = x, *const *b = y;
	double m = (*a)->self.blocks.estimate, n = (*b)->self.blocks.estimate;

	return m != n ? (m < n) - (m > n) : (*a > *b) - (*a < *b);
}

/* The stacks that grew most, largest first. */
static int find_growth(const struct limit_case *c, struct limit *limit,
		       const struct mayfly_query *query)
{
	struct mayfly_query all = *query;
	struct trace_diff *d;
	bool done = true;
	int error;

	all.stack_rows = 0;
	error = trace_diff_run(c->baseline, c->trace, &all, (struct diff_per){1, 1}, &d);
	if (error)
		return error;
	limit->growth = d;
	qsort(d->row, d->rows, sizeof(*d->row),
	      limit->metric == LIMIT_BLOCKS ? compare_growth_of_blocks : compare_growth);
	for (size_t i = 0; done && i < d->rows && limit->guilty < c->top; i++) {
		const struct diff_row *row = &d->row[i];
		double change =
		    limit->metric == LIMIT_BLOCKS ? row->blocks.change : row->bytes.change;

		if (row->after && change > 0)
			done = add_guilt(limit, row->after, change);
	}
	return done ? 0 : MAYFLY_E_MEMORY;
}

/* The stacks with most blocks, the most first. */
static int find_most_blocks(const struct limit_case *c, struct limit *limit,
			    const struct mayfly_result *result)
{
	const struct mayfly_row **row = calloc(result->rows + 1, sizeof(*row));
	bool done = row;

	for (size_t i = 0; done && i < result->rows; i++)
		row[i] = &result->row[i];
	if (done)
		qsort(row, result->rows, sizeof(*row), compare_blocks);
	for (size_t i = 0; done && i < result->rows && i < c->top; i++)
		done = add_guilt(limit, row[i], 0);
	free(row);
	return done ? 0 : MAYFLY_E_MEMORY;
}

/* The largest stacks. */
static int find_guilt(const struct limit_case *c, struct limit *limit,
		      const struct mayfly_result *result)
{
	if (limit->metric == LIMIT_BLOCKS)
		return find_most_blocks(c, limit, result);
	for (size_t i = 0; i < result->rows && i < c->top; i++)
		if (!add_guilt(limit, &result->row[i], 0))
			return MAYFLY_E_MEMORY;
	return 0;
}

/* The baseline counts 1 + value times: as if it were per 1 / (1 + value). */
static int judge_increase(const struct limit_case *c, struct limit *limit,
			  const struct mayfly_query *query)
{
	struct mayfly_query totals = *query;
	struct trace_diff *increase;
	int error;

	totals.stack_rows = 1;
	error = trace_diff_run(c->baseline, c->trace, &totals,
			       (struct diff_per){1 / (1 + limit->value), 1}, &increase);
	if (error)
		return error;
	limit->base = increase->before->total;
	limit->found = increase->after->total;
	judge(c, limit, increase);
	trace_diff_free(increase);
	return limit->exceeded ? find_growth(c, limit, query) : 0;
}

double limit_increase(const struct limit *limit, double figure)
{
	const struct mayfly_figure *base = limit_figure(limit, &limit->base);

	if (!limit->relative || limit->blind || !(base->estimate > 0))
		return NAN;
	return figure / base->estimate - 1;
}

int limit_judge(struct limit *limit, const struct limit_case *c)
{
	struct mayfly_query query = limit_query(limit, c);
	int error;

	if (limit->relative)
		return judge_increase(c, limit, &query);
	error = mayfly_query_run(c->trace, &query, &limit->result);
	if (error)
		return error;
	limit->found = limit->result->total;
	judge(c, limit, NULL);
	return limit->exceeded ? find_guilt(c, limit, limit->result) : 0;
}

/* ---- JSON ---- */

static int64_t whole(double value)
{
	return fabs(value) < 0x1p62 ? llround(value) : INT64_MAX;
}

static void put_guilt(struct json *j, const struct limit *limit)
{
	bool blocks = limit->metric == LIMIT_BLOCKS;

	JSON_ROWS(j, "stacks", i, i < limit->guilty) {
		const struct guilt *g = &limit->guilt[i];
		const char *known = blocks ? "change_blocks" : "change_bytes";

		json_places(j, "stack", g->row->stack, g->row->stack_length);
		json_estimate(j, "self", &g->row->self);
		if (blocks)
			json_null(j, "change_bytes");
		if (limit->relative)
			json_integer(j, known, whole(g->change));
		else
			json_null(j, known);
		if (!blocks)
			json_null(j, "change_blocks");
	}
}

static void put_plan(struct json *j, const struct limit *limit)
{
	json_unsigned_or_null(j, "deciding_interval_bytes",
			      limit->planned && limit->decides < LIMIT_INTERVALS,
			      limit_interval(limit->decides));
	JSON_ROWS(j, "intervals", i, limit->planned && i < LIMIT_INTERVALS) {
		json_unsigned(j, "interval_bytes", limit_interval(i));
		json_integer(j, "sees_from", whole(limit->sees_with[i]));
		json_real(j, "sees_from_increase", limit_increase(limit, limit->sees_with[i]));
	}
}

static void put_seen(struct json *j, const struct limit *limit)
{
	if (limit->blind) {
		json_null(j, "certain_from");
		json_null(j, "sees_from");
	} else {
		json_integer(j, "certain_from", whole(limit->certain_from));
		json_integer(j, "sees_from", whole(limit->sees_from));
	}
	json_real(j, "certain_from_increase", limit_increase(limit, limit->certain_from));
	json_real(j, "sees_from_increase", limit_increase(limit, limit->sees_from));
	put_plan(j, limit);
}

static void put_limit(struct json *j, const struct limit *limit)
{
	json_text(j, "metric", limit_metric_names[limit->metric]);
	json_text_or_null(j, "function", limit->function);
	json_text(j, "where", limit->where);
	json_integer(j, "limit", whole(limit->bound));
	json_real(j, "max_increase", limit->relative ? limit->value : NAN);
	json_estimate(j, "found", &limit->found);
	json_estimate(j, "baseline", limit->relative ? &limit->base : NULL);
	json_object(j, "excess");
	json_integer(j, "estimate", whole(limit->excess));
	json_integer(j, "low", whole(limit->excess_low));
	json_integer(j, "high", whole(limit->excess_high));
	json_end(j);
	put_seen(j, limit);
	json_bool(j, "exceeded", limit->exceeded);
	json_bool(j, "undecided", limit->undecided);
	json_bool(j, "certain", limit->certain);
	put_guilt(j, limit);
}

void json_limits(struct json *j, const struct limits *l, const struct limit_case *c)
{
	size_t exceeded = limits_exceeded(l), undecided = limits_undecided(l);

	json_bool(j, "passed", !exceeded && !(undecided && l->undecided_fails));
	json_bool(j, "strict", c->strict);
	json_unsigned(j, "exceeded", exceeded);
	json_unsigned(j, "undecided", undecided);
	json_bool(j, "complete", mayfly_trace_info(c->trace)->complete);
	JSON_ROWS(j, "limits", i, i < l->count)
		put_limit(j, &l->item[i]);
}
