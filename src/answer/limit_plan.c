/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which interval would decide a limit: see limits.h. The variance of a figure with another interval is the
 * smallest of these, each of which is right or too large:
 *
 *	- With a Poisson sampler of the interval R, a block of z bytes is taken with p = 1 - exp(-z / R), so its
 *	  bytes add z^2 (1 - p) / p, and its number (1 - p) / p. The stratified sampler takes all blocks of R
 *	  bytes and more, and is at least as certain about the others. The blocks are those of the trace, by
 *	  classes of their size.
 *	- From an exact trace, what query/plan.h computes from the order of the blocks, for the figures it knows.
 *	- From a sampled trace, for finer intervals, the variance that it has. With r times the interval it is
 *	  at most r times as large.
 */
#include "answer/limits.h"

#include <math.h>
#include <stdlib.h>

#include "answer/trace_facts.h"
#include "query/plan.h"

#define WITHIN 1.96 /* standard errors, to each side: the 95 % interval */
#define UNSEEN 3    /* intervals, of which nothing may be seen */
/* A limit that is this share away from the figure is still to be told from it. */
#define CLOSE 0.1

_Static_assert(LIMIT_INTERVALS == PLAN_LEVELS, "the same intervals");

/* The variance with each of the intervals that a plan looks at. */
struct plan_variance {
	double of[LIMIT_INTERVALS];
};

static double share_taken(double size, double interval, uint32_t sampler)
{
	if (sampler == MAYFLY_STRATIFIED && size >= interval)
		return 1;
	return -expm1(-size / interval);
}

static void at_most(struct plan_variance *v, size_t l, double variance)
{
	if (variance < v->of[l])
		v->of[l] = variance;
}

static int measure_by_size(const struct limit *limit, const struct limit_case *c,
			   const struct mayfly_trace *trace, struct plan_variance *v)
{
	struct mayfly_query query = limit_query(limit, c);
	struct mayfly_result *result;
	int error;

	query.by = MAYFLY_BY_SIZE;
	query.stack_rows = 0;
	error = mayfly_query_run(trace, &query, &result);
	if (error)
		return error;
	for (size_t i = 0; i < result->rows; i++) {
		const struct mayfly_estimate *e = &result->row[i].self;
		double blocks = e->blocks.estimate, size;

		if (!(blocks > 0) || !(e->bytes.estimate > 0))
			continue;
		size = e->bytes.estimate / blocks;
		for (size_t l = 0; l < LIMIT_INTERVALS; l++) {
			double p = share_taken(size, (double)limit_interval(l), c->sampler);
			double odds = blocks * (1 - p) / p;

			v->of[l] += limit->metric == LIMIT_BLOCKS ? odds : odds * size * size;
		}
	}
	mayfly_result_free(result);
	return 0;
}

/* An exact trace. */
static int measure_by_order(const struct limit *limit, const struct limit_case *c,
			    const struct mayfly_trace *trace, struct plan_variance *v)
{
	struct mayfly_query query = limit_query(limit, c);
	struct plan *plan;
	int error;

	if ((limit->metric != LIMIT_PEAK && limit->metric != LIMIT_ALLOCATED) || limit->function)
		return 0;
	error = plan_make(trace, &query, &plan);
	if (error)
		return error;
	for (size_t l = 0; l < LIMIT_INTERVALS; l++) {
		const struct plan_scheme *s = &plan->scheme[l][c->sampler];

		at_most(v, l,
			limit->metric == LIMIT_PEAK ? s->peak_variance : s->allocated_variance);
	}
	plan_free(plan);
	return 0;
}

static int measure(const struct limit *limit, const struct limit_case *c,
		   const struct mayfly_trace *trace, const struct mayfly_figure *figure,
		   struct plan_variance *v)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	double error = (figure->estimate - figure->low) / WITHIN;
	int failed;

	*v = (struct plan_variance){{0}};
	failed = measure_by_size(limit, c, trace, v);
	if (failed || trace_is_exact(info))
		return failed ? failed : measure_by_order(limit, c, trace, v);
	for (size_t l = 0; l < LIMIT_INTERVALS && limit_interval(l) <= info->interval_bytes; l++)
		at_most(v, l,
			error * error * (double)limit_interval(l) / (double)info->interval_bytes);
	return 0;
}

/* With the errors that interval l has. */
static double sees_at(const struct limit *limit, size_t l, double own_variance,
		      double base_variance)
{
	const struct mayfly_figure *found = limit_figure(limit, &limit->found);
	double times = limit->relative ? 1 + limit->value : 0;
	struct limit other = *limit;
	struct mayfly_figure *f =
	    limit->metric == LIMIT_BLOCKS ? &other.found.blocks : &other.found.bytes;

	f->low = found->estimate - WITHIN * sqrt(own_variance);
	if (!(found->estimate > 0)) /* blocks of any size may be unseen, of 16 bytes at least */
		f->high =
		    UNSEEN * (double)limit_interval(l) / (limit->metric == LIMIT_BLOCKS ? 16 : 1);
	other.excess_low =
	    limit->excess - WITHIN * sqrt(own_variance + times * times * base_variance);
	return limit_find_seen(&other, LIMIT_SEEN_MARGINS);
}

/* What is to be seen: an increase of twice as much as is allowed, or what the figure is away from its limit. */
static double wanted(const struct limit *limit, bool finer)
{
	double away = fabs(limit->excess), allowed;

	if (!limit->relative)
		return fmin(away, CLOSE * limit->bound);
	allowed = limit->value * limit_figure(limit, &limit->base)->estimate;
	return finer ? fmin(away, allowed) : allowed;
}

static bool can_plan(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	return !info->absent && !info->snapshot_ns && !info->ocaml_interval_bytes;
}

/* The larger interval of the trace and its baseline, as they were recorded. */
static uint64_t coarsest(const struct limit *limit, const struct limit_case *c)
{
	uint64_t interval = mayfly_trace_info(c->trace)->interval_bytes, other;

	other = limit->relative ? mayfly_trace_info(c->baseline)->interval_bytes : 0;
	return interval > other ? interval : other;
}

/* The coarsest interval that sees enough. */
static size_t deciding(const struct limit *limit, double most, uint64_t below)
{
	for (size_t l = LIMIT_INTERVALS; most > 0 && l--;)
		if (limit_interval(l) < below && limit->sees_with[l] - limit->bound <= most)
			return l;
	return LIMIT_INTERVALS;
}

int limit_plan(struct limit *limit, const struct limit_case *c, bool finer)
{
	struct plan_variance own, base = {{0}};
	int error;

	limit->planned = false;
	if (!can_plan(c->trace) || (limit->relative && !can_plan(c->baseline)))
		return 0;
	error = measure(limit, c, c->trace, limit_figure(limit, &limit->found), &own);
	if (!error && limit->relative)
		error = measure(limit, c, c->baseline, limit_figure(limit, &limit->base), &base);
	if (error)
		return error;
	limit->planned = true;
	for (size_t l = 0; l < LIMIT_INTERVALS; l++)
		limit->sees_with[l] = sees_at(limit, l, own.of[l], base.of[l]);
	limit->decides =
	    deciding(limit, wanted(limit, finer), finer ? coarsest(limit, c) : UINT64_MAX);
	return 0;
}
