/* SPDX-License-Identifier: Apache-2.0 */
/* Answers against the truth: see coverage_score.h. */
#include "coverage_score.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const coverage_class_names[COVERAGE_CLASSES] = {"0",     "1",     "2-3",  "4-9",
							    "10-29", "30-99", "100+", "total"};
const char *const coverage_figure_names[COVERAGE_FIGURES] = {"bytes", "blocks"};

/* Where strata and blocks are aligned there is next to no error. */
#define MOST_RATIO 100

/* Sums over runs of one row. */
struct sums {
	double n, error, square, variance;
	double least; /* estimate */
	unsigned scored;
};

struct scorer {
	const struct coverage_stream *s;
	const struct coverage_plan *plan;
	struct coverage_sheet *sheet;
	struct coverage_truth truth[COVERAGE_METRICS];
	/* [keys of all groupings, then the total] */
	struct sums *sums[COVERAGE_METRICS][COVERAGE_FIGURES];
	size_t first_key[COVERAGE_BYS + 1];
	uint32_t *seen; /* by key: the number of the latest answer that has it */
	uint32_t answers;
};

static void *need(void *p)
{
	if (!p) {
		fputs("bench_coverage: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

static unsigned class_of(double samples)
{
	static const double from[] = {0.5, 1.5, 3.5, 9.5, 29.5, 99.5};
	unsigned number = 0;

	while (number < sizeof(from) / sizeof(*from) && samples > from[number])
		number++;
	return number;
}

static void score_figure(struct coverage_cell *cell, struct sums *sums,
			 const struct mayfly_figure *f, double samples, double truth)
{
	double error = f->estimate - truth;

	cell->rows++;
	if (truth < f->low - 1e-9 * truth)
		cell->below++;
	else if (truth > f->high + 1e-9 * truth)
		cell->above++;
	else
		cell->covered++;
	if (sums->scored++ == 0 || f->estimate < sums->least)
		sums->least = f->estimate;
	sums->n += samples;
	sums->error += error;
	sums->square += error * error;
	sums->variance += f->stderror * f->stderror;
}

/* key: of all groupings. */
static void score_estimate(struct scorer *c, enum coverage_metric metric, unsigned class,
			   size_t key, const struct mayfly_estimate *e,
			   const struct coverage_figures *truth)
{
	struct coverage_cell(*cell)[COVERAGE_CLASSES] = c->sheet->cell[metric];
	double samples = (double)e->samples;

	if (truth->blocks == 0 && e->samples == 0)
		return;
	score_figure(&cell[COVERAGE_BYTES][class], &c->sums[metric][COVERAGE_BYTES][key], &e->bytes,
		     samples, truth->bytes);
	score_figure(&cell[COVERAGE_BLOCKS][class], &c->sums[metric][COVERAGE_BLOCKS][key],
		     &e->blocks, samples, truth->blocks);
}

static void score_answer(struct scorer *c, enum coverage_metric metric, enum coverage_by by,
			 const struct mayfly_result *r)
{
	const struct coverage_figures *truth = c->truth[metric].row[by];
	size_t keys = coverage_keys(c->s, by);

	c->answers++;
	for (size_t i = 0; i < r->rows; i++) {
		size_t key = coverage_row_key(c->s, by, &r->row[i]);
		const struct mayfly_estimate *e =
		    by == COVERAGE_TOTAL ? &r->row[i].total : &r->row[i].self;

		if (key >= keys)
			continue;
		c->seen[key] = c->answers;
		score_estimate(c, metric, class_of((double)e->samples), c->first_key[by] + key, e,
			       &truth[key]);
	}
	for (size_t key = 0; key < keys; key++)
		if (c->seen[key] != c->answers)
			score_estimate(c, metric, 0, c->first_key[by] + key, &r->nothing,
				       &truth[key]);
	if (by == COVERAGE_FUNCTION)
		score_estimate(c, metric, COVERAGE_WHOLE, c->first_key[COVERAGE_BYS], &r->total,
			       &c->truth[metric].total);
}

static bool wants(uint32_t set, unsigned number)
{
	return set >> number & 1;
}

static void score_trace(struct scorer *c, const struct mayfly_trace *trace,
			enum coverage_metric metric)
{
	bool filled = false;

	for (enum coverage_by by = 0; by < COVERAGE_BYS; by++) {
		struct mayfly_query q = coverage_query(c->s, metric, by);
		struct mayfly_result *r;
		int error;

		if (!wants(c->plan->bys, by) || !coverage_keys(c->s, by))
			continue;
		error = mayfly_query_run(trace, &q, &r);
		if (error) {
			fprintf(stderr, "bench_coverage: %s\n", mayfly_error_text(error));
			exit(1);
		}
		if (metric == COVERAGE_STATED && !filled) {
			/* The event at the moment itself counts. */
			coverage_truth_fill(c->s, metric, (uint64_t)(r->time_ns / COVERAGE_STEP_NS),
					    &c->truth[metric]);
			filled = true;
		}
		score_answer(c, metric, by, r);
		mayfly_result_free(r);
	}
}

/* ---- over all runs ---- */

static void add_bias(struct coverage_bias *bias, const struct sums *sums, double runs)
{
	double mean = sums->error / runs, variance = sums->square / runs - mean * mean;
	double z;

	/* With fewer samples in all runs the mean is too skewed; without variance it is exact. */
	if (sums->n < 30 || !(variance > 1e-18 * sums->square))
		return;
	/* Student's distribution has the variance (runs - 1) / (runs - 3). */
	z = mean / sqrt(variance / (runs - 1)) * sqrt(fmax(0, runs - 3) / (runs - 1));
	bias->rows++;
	bias->z += z;
	bias->square += z * z;
}

static void sum_up(struct scorer *c, unsigned metric, unsigned figure)
{
	double runs = c->plan->runs, truth;
	size_t keys = c->first_key[COVERAGE_BYS];
	const struct sums *total = &c->sums[metric][figure][keys];

	for (size_t key = 0; key <= keys; key++) {
		const struct sums *sums = &c->sums[metric][figure][key];
		unsigned class = key == keys ? COVERAGE_WHOLE : class_of(sums->n / runs);
		struct coverage_cell *cell = &c->sheet->cell[metric][figure][class];

		add_bias(&c->sheet->bias[metric][figure][key == keys], sums, runs);
		if (class >= COVERAGE_TEN && sums->square > 0 && sums->variance > 0) {
			cell->log_ratio += log(fmin(sums->variance / sums->square, MOST_RATIO));
			cell->ratios++;
		}
	}
	truth =
	    figure == COVERAGE_BYTES ? c->truth[metric].total.bytes : c->truth[metric].total.blocks;
	if (truth > 0) {
		c->sheet->off[metric][figure] += total->error / runs / truth;
		c->sheet->least[metric][figure] = total->least / truth;
	}
}

static void begin_scores(struct scorer *c)
{
	uint64_t peak = coverage_true_peak(c->s);
	size_t most = 0;

	for (enum coverage_by by = 0; by < COVERAGE_BYS; by++) {
		size_t keys = coverage_keys(c->s, by);

		c->first_key[by + 1] = c->first_key[by] + keys;
		most = keys > most ? keys : most;
	}
	c->seen = need(calloc(most + 1, sizeof(*c->seen)));
	for (enum coverage_metric metric = 0; metric < COVERAGE_METRICS; metric++) {
		c->truth[metric] = coverage_truth_new(c->s);
		coverage_truth_fill(c->s, metric, peak, &c->truth[metric]);
		for (unsigned figure = 0; figure < COVERAGE_FIGURES; figure++)
			c->sums[metric][figure] =
			    need(calloc(c->first_key[COVERAGE_BYS] + 1, sizeof(struct sums)));
	}
}

static struct coverage_trace next_trace(const struct coverage_stream *s,
					const struct coverage_plan *plan, unsigned run)
{
	const struct coverage_run how = {plan->interval_log2, plan->sampler, plan->seed + run,
					 COVERAGE_NOBODY};

	return plan->files ? coverage_open(plan->files[run]) : coverage_record(s, &how);
}

void coverage_measure(const struct coverage_stream *s, const struct coverage_plan *plan,
		      struct coverage_sheet *sheet)
{
	struct scorer c = {.s = s, .plan = plan, .sheet = sheet};

	begin_scores(&c);
	for (unsigned run = 0; run < plan->runs; run++) {
		struct coverage_trace t = next_trace(s, plan, run);

		for (enum coverage_metric metric = 0; metric < COVERAGE_METRICS; metric++)
			if (wants(plan->metrics, metric))
				score_trace(&c, t.trace, metric);
		coverage_close(&t);
	}
	sheet->scenarios++;
	for (enum coverage_metric metric = 0; metric < COVERAGE_METRICS; metric++) {
		for (unsigned figure = 0; figure < COVERAGE_FIGURES; figure++) {
			sum_up(&c, metric, figure);
			free(c.sums[metric][figure]);
		}
		coverage_truth_free(&c.truth[metric]);
	}
	free(c.seen);
}

/* ---- over all scenarios ---- */

static void add_cell(struct coverage_cell *into, const struct coverage_cell *from)
{
	into->rows += from->rows;
	into->covered += from->covered;
	into->below += from->below;
	into->above += from->above;
	into->log_ratio += from->log_ratio;
	into->ratios += from->ratios;
}

void coverage_add(struct coverage_sheet *into, const struct coverage_sheet *from)
{
	for (unsigned m = 0; m < COVERAGE_METRICS; m++) {
		for (unsigned f = 0; f < COVERAGE_FIGURES; f++) {
			for (unsigned k = 0; k < COVERAGE_CLASSES; k++)
				add_cell(&into->cell[m][f][k], &from->cell[m][f][k]);
			for (unsigned k = 0; k < 2; k++) {
				into->bias[m][f][k].rows += from->bias[m][f][k].rows;
				into->bias[m][f][k].z += from->bias[m][f][k].z;
				into->bias[m][f][k].square += from->bias[m][f][k].square;
			}
			into->off[m][f] += from->off[m][f];
		}
	}
	into->scenarios += from->scenarios;
}
