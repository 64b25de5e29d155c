/* SPDX-License-Identifier: Apache-2.0 */
/* A difference between two fleets: see diff_hosts.h. */
#include "query/diff_hosts.h"

#include <math.h>
#include <stdlib.h>

#include "query/student.h"

static void add(struct host_sums *s, double value, double processes)
{
	s->sum += value;
	s->squares += value * value;
	s->products += value * processes;
}

static void add_estimate(struct host_estimate *to, const struct mayfly_estimate *e,
			 double processes)
{
	add(&to->bytes, e->bytes.estimate, processes);
	add(&to->blocks, e->blocks.estimate, processes);
}

/* ---- one figure ---- */

/* The variance of a side's sum. */
static double variance_of(const struct host_sums *s, const struct diff_hosts *hosts)
{
	double processes = 0, squares = 0, each;

	if (hosts->groups < 2)
		return 0;
	for (size_t i = 0; i < hosts->groups; i++) {
		processes += hosts->group[i].processes;
		squares += hosts->group[i].processes * hosts->group[i].processes;
	}
	each = processes > 0 ? s->sum / processes : 0;
	return fmax(0, s->squares - 2 * each * s->products + each * each * squares) *
	       (double)hosts->groups / (double)(hosts->groups - 1);
}

/* What a side adds to the denominator of Welch's degrees of freedom. */
static double share_of(double variance, const struct diff_hosts *hosts)
{
	return hosts->groups < 2 ? 0 : variance * variance / (double)(hosts->groups - 1);
}

static void widen(struct diff_figure *f, const struct host_sums *before,
		  const struct host_sums *after, const struct diff_hosts hosts[2],
		  struct diff_per per)
{
	double a = variance_of(before, &hosts[0]) / (per.before * per.before);
	double b = variance_of(after, &hosts[1]) / (per.after * per.after);
	double share = share_of(a, &hosts[0]) + share_of(b, &hosts[1]), error = sqrt(a + b), within;
	double freedom;

	if (share <= 0)
		return;
	freedom = (a + b) * (a + b) / share;
	within = student_quantile(DIFF_LEVEL, freedom) * error;
	f->stderror = fmax(f->stderror, error);
	f->low = fmin(f->low, f->change - within);
	f->high = fmax(f->high, f->change + within);
	if (f->verdict != DIFF_NOISE && f->verdict != DIFF_REAL)
		return;
	f->p = fmax(f->p, student_tail(f->change / error, freedom));
	f->adjusted = f->p;
	f->verdict = f->p <= DIFF_LEVEL ? DIFF_REAL : DIFF_NOISE;
}

void diff_widen(struct diff_figure *bytes, struct diff_figure *blocks,
		const struct host_estimate of[2], const struct diff_hosts hosts[2],
		struct diff_per per)
{
	widen(bytes, &of[0].bytes, &of[1].bytes, hosts, per);
	widen(blocks, &of[0].blocks, &of[1].blocks, hosts, per);
}

/* ---- totals ---- */

int host_totals_find(const struct diff_hosts hosts[2], struct host_totals *totals)
{
	*totals = (struct host_totals){0};
	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < hosts[side].groups; i++) {
			const struct diff_host_group *g = &hosts[side].group[i];
			struct mayfly_summary s;
			int error = mayfly_trace_summary(g->trace, &s);

			if (error)
				return error;
			add_estimate(&totals->allocated[side], &s.allocated, g->processes);
			add_estimate(&totals->live_at_end[side], &s.live_at_end, g->processes);
		}
	}
	return 0;
}

/* ---- rows ---- */

/* What the groups of a side have of each row of its answer, and last of the total. */
static int find_rows(const struct mayfly_trace *trace, const struct mayfly_result *answer,
		     const struct mayfly_query *query, const struct diff_hosts *hosts,
		     struct host_estimate **found)
{
	struct host_estimate *of = calloc(answer->rows + 1, sizeof(*of));
	bool total = query->sort == MAYFLY_SORT_TOTAL;
	int error = of ? 0 : MAYFLY_E_MEMORY;

	for (size_t i = 0; i < hosts->groups && !error; i++) {
		const struct diff_host_group *g = &hosts->group[i];
		struct mayfly_result *part = NULL;
		size_t *pair = NULL;

		error = mayfly_query_run(g->trace, query, &part);
		if (!error) {
			pair = diff_align(trace, answer, g->trace, part, query->by);
			error = pair ? 0 : MAYFLY_E_MEMORY;
		}
		for (size_t k = 0; !error && k < answer->rows; k++) {
			const struct mayfly_row *row =
			    pair[k] == SIZE_MAX ? NULL : &part->row[pair[k]];

			if (row)
				add_estimate(&of[k], total ? &row->total : &row->self,
					     g->processes);
		}
		if (!error)
			add_estimate(&of[answer->rows], &part->total, g->processes);
		free(pair);
		mayfly_result_free(part);
	}
	*found = of;
	return error;
}

int diff_between_hosts(struct trace_diff *d, const struct mayfly_trace *const side[2],
		       const struct mayfly_query *query, const struct diff_hosts hosts[2],
		       struct diff_per per)
{
	struct host_estimate *before = NULL, *after = NULL, both[2];
	int error = find_rows(side[0], d->before, query, &hosts[0], &before);

	if (!error)
		error = find_rows(side[1], d->after, query, &hosts[1], &after);
	for (size_t i = 0; !error && i < d->rows; i++) {
		struct diff_row *r = &d->row[i];

		both[0] =
		    r->before ? before[r->before - d->before->row] : (struct host_estimate){0};
		both[1] = r->after ? after[r->after - d->after->row] : (struct host_estimate){0};
		diff_widen(&r->bytes, &r->blocks, both, hosts, per);
	}
	if (!error) {
		both[0] = before[d->before->rows];
		both[1] = after[d->after->rows];
		diff_widen(&d->bytes, &d->blocks, both, hosts, per);
		error = trace_diff_order(d) ? 0 : MAYFLY_E_MEMORY;
	}
	free(before);
	free(after);
	return error;
}
