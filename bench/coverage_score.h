/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often the intervals of many runs hold the truth, by the number of samples that a row got; and
 * whether estimates are off on average.
 */
#ifndef MAYFLY_COVERAGE_SCORE_H
#define MAYFLY_COVERAGE_SCORE_H

#include "coverage_trace.h"

enum { COVERAGE_BYTES, COVERAGE_BLOCKS, COVERAGE_FIGURES };

/* Rows with 0, 1, 2-3, 4-9, 10-29, 30-99, 100 and more samples; and totals. */
#define COVERAGE_CLASSES 8
#define COVERAGE_TEN	 4 /* from here on, rows have 10 samples */
#define COVERAGE_WHOLE	 (COVERAGE_CLASSES - 1)

extern const char *const coverage_class_names[COVERAGE_CLASSES];
extern const char *const coverage_figure_names[COVERAGE_FIGURES];

struct coverage_cell {
	double rows, covered;
	double below, above; /* the truth is below the low end, above the high end */
	/* Rows that expect this number of samples, 10 or more: the logarithms of their mean claimed
	 * variance over their mean squared error. */
	double log_ratio, ratios;
};

/* Over rows: z is the mean error in its standard errors: 0 on average, 1 in root mean square. */
struct coverage_bias {
	double rows, z, square;
};

struct coverage_sheet {
	struct coverage_cell cell[COVERAGE_METRICS][COVERAGE_FIGURES][COVERAGE_CLASSES];
	struct coverage_bias bias[COVERAGE_METRICS][COVERAGE_FIGURES][2]; /* rows, total */
	/* The relative errors of totals: their sum over scenarios, and the number of scenarios. */
	double off[COVERAGE_METRICS][COVERAGE_FIGURES];
	/* The lowest total of all runs of a scenario, as a share of the true one. */
	double least[COVERAGE_METRICS][COVERAGE_FIGURES];
	double scenarios;
};

struct coverage_plan {
	uint32_t interval_log2, sampler;
	unsigned runs;
	uint64_t seed;
	uint32_t metrics, bys; /* a bit for each that is wanted */
	char **files;	       /* traces of the same stream, one for each run; NULL: simulated */
};

void coverage_measure(const struct coverage_stream *s, const struct coverage_plan *plan,
		      struct coverage_sheet *sheet);
void coverage_add(struct coverage_sheet *into, const struct coverage_sheet *from);

#endif
