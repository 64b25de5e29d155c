/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs side by side: see coverage_pairs.h. */
#include "coverage_pairs.h"

#include <stdio.h>
#include <stdlib.h>

#include "answer/limits.h"
#include "query/diff.h"

const enum coverage_metric coverage_diffs[COVERAGE_DIFFS] = {COVERAGE_PEAK, COVERAGE_ALLOCATED,
							     COVERAGE_LEAKED, COVERAGE_LIVE};
const enum coverage_metric coverage_checks[COVERAGE_CHECKS] = {COVERAGE_PEAK, COVERAGE_ALLOCATED,
							       COVERAGE_LEAKED};
const double coverage_increases[COVERAGE_INCREASES] = {0, 0.05};

static void check_error(int error)
{
	if (error) {
		fprintf(stderr, "bench_coverage: %s\n", mayfly_error_text(error));
		exit(1);
	}
}

static struct coverage_trace record_run(const struct coverage_stream *s,
					const struct coverage_plan *plan, unsigned run,
					uint32_t grown)
{
	const struct coverage_run how = {plan->interval_log2, plan->sampler, plan->seed + run,
					 grown};

	return coverage_record(s, &how);
}

static struct trace_diff *run_diff(const struct coverage_stream *s,
				   const struct coverage_trace *before,
				   const struct coverage_trace *after, enum coverage_metric metric,
				   enum coverage_by by)
{
	struct mayfly_query q = coverage_query(s, metric, by);
	struct trace_diff *d;

	check_error(trace_diff_run(before->trace, after->trace, &q, (struct diff_per){1, 1}, &d));
	return d;
}

static bool any_real(const struct trace_diff *d)
{
	for (size_t i = 0; i < d->rows; i++)
		if (d->row[i].bytes.verdict == DIFF_REAL)
			return true;
	return false;
}

static bool found_growth(const struct coverage_stream *s, const struct trace_diff *d,
			 uint32_t function)
{
	for (size_t i = 0; i < d->rows; i++) {
		const struct diff_row *row = &d->row[i];

		if (coverage_row_key(s, COVERAGE_FUNCTION, row->after ? row->after : row->before) ==
		    function)
			return row->bytes.verdict == DIFF_REAL && row->bytes.change > 0;
	}
	return false;
}

/* The function with most bytes; COVERAGE_NOBODY: there are no bytes. */
static uint32_t largest_function(const struct coverage_stream *s, enum coverage_metric metric)
{
	struct coverage_truth t = coverage_truth_new(s);
	uint32_t largest = COVERAGE_NOBODY;
	double most = 0;

	coverage_truth_fill(s, metric, coverage_true_peak(s), &t);
	for (uint32_t i = 0; i < s->functions; i++) {
		if (t.row[COVERAGE_FUNCTION][i].bytes > most) {
			most = t.row[COVERAGE_FUNCTION][i].bytes;
			largest = i;
		}
	}
	coverage_truth_free(&t);
	return largest;
}

static void compare_two(const struct coverage_stream *s, enum coverage_metric metric,
			const struct coverage_trace *before, const struct coverage_trace *after,
			struct coverage_pairs *p)
{
	struct trace_diff *d = run_diff(s, before, after, metric, COVERAGE_FUNCTION);

	p->pairs++;
	p->functions += any_real(d);
	p->total += d->bytes.verdict == DIFF_REAL;
	trace_diff_free(d);
	d = run_diff(s, before, after, metric, COVERAGE_STACK);
	p->stacks += any_real(d);
	trace_diff_free(d);
}

void coverage_compare(const struct coverage_stream *s, const struct coverage_plan *plan,
		      struct coverage_pairs *pairs)
{
	uint32_t largest[COVERAGE_DIFFS], grown;

	for (unsigned m = 0; m < COVERAGE_DIFFS; m++)
		largest[m] = largest_function(s, coverage_diffs[m]);
	for (unsigned run = 0; run < plan->runs; run++) {
		struct coverage_trace before = record_run(s, plan, 2 * run, COVERAGE_NOBODY);
		struct coverage_trace after = record_run(s, plan, 2 * run + 1, COVERAGE_NOBODY);
		struct coverage_trace larger = {0};

		grown = COVERAGE_NOBODY;
		for (unsigned m = 0; m < COVERAGE_DIFFS; m++) {
			struct trace_diff *d;

			if (!(plan->metrics >> coverage_diffs[m] & 1))
				continue;
			compare_two(s, coverage_diffs[m], &before, &after, &pairs[m]);
			if (largest[m] == COVERAGE_NOBODY)
				continue;
			if (grown != largest[m]) {
				coverage_close(&larger);
				grown = largest[m];
				larger = record_run(s, plan, 2 * run + 1, grown);
			}
			d = run_diff(s, &before, &larger, coverage_diffs[m], COVERAGE_FUNCTION);
			pairs[m].grown++;
			pairs[m].found += found_growth(s, d, grown);
			trace_diff_free(d);
		}
		coverage_close(&before);
		coverage_close(&after);
		coverage_close(&larger);
	}
}

static void judge_pair(const struct limit_case *c, enum limit_metric metric, double increase,
		       struct coverage_verdicts *v)
{
	struct limits limits = {0};
	struct limit *limit = limits_new(&limits, metric, "check");

	if (!limit)
		check_error(MAYFLY_E_MEMORY);
	limit->relative = true;
	limit->value = increase;
	check_error(limit_judge(limit, c));
	v->pairs++;
	v->failed += limit->exceeded;
	v->above += limit->excess > 0;
	v->surely += limit->excess_low > 0;
	limits_free(&limits, NULL);
}

void coverage_check(const struct coverage_stream *s, const struct coverage_plan *plan,
		    struct coverage_verdicts verdicts[COVERAGE_CHECKS][COVERAGE_INCREASES])
{
	static const enum limit_metric metrics[COVERAGE_CHECKS] = {LIMIT_PEAK, LIMIT_ALLOCATED,
								   LIMIT_LEAKED};

	for (unsigned run = 0; run < plan->runs; run++) {
		struct coverage_trace before = record_run(s, plan, 2 * run, COVERAGE_NOBODY);
		struct coverage_trace after = record_run(s, plan, 2 * run + 1, COVERAGE_NOBODY);
		struct limit_case c = {.trace = after.trace, .baseline = before.trace};

		mayfly_query_defaults(&c.query);
		for (unsigned m = 0; m < COVERAGE_CHECKS; m++)
			for (unsigned i = 0; i < COVERAGE_INCREASES; i++)
				judge_pair(&c, metrics[m], coverage_increases[i], &verdicts[m][i]);
		coverage_close(&before);
		coverage_close(&after);
	}
}
