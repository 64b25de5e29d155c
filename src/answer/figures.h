/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How figures read: sizes, times, counts, and estimates with as much as is known of them. Text
 * functions write into a caller's buffer of `size` bytes and return it.
 */
#ifndef MAYFLY_FIGURES_H
#define MAYFLY_FIGURES_H

#include <mayfly/trace.h>

#define FIGURE_TEXT 64 /* enough for every text of one figure */

/* Three significant digits: "12.3 MiB", "1.23 s", "4.56 M". */
char *text_bytes(char *buffer, size_t size, double bytes);
/* As options take a size: "512K", or "1000" when it is no multiple. */
char *text_size_option(char *buffer, size_t size, uint64_t bytes);
char *text_duration(char *buffer, size_t size, double ns);
char *text_count(char *buffer, size_t size, double count);
char *text_percent(char *buffer, size_t size, double part, double whole);

/* How sure a figure is, which decides how it is shown. */
enum confidence {
	FIGURE_NOTHING, /* no sample: "< 1.5 MiB" */
	FIGURE_FEW,	/* "at most 3.80 MiB, 2 samples" */
	FIGURE_RANGE,	/* "1.1..6.2 MiB" */
	FIGURE_GOOD,	/* "12.3 MiB +-18 %" */
	FIGURE_EXACT,	/* "12.3 MiB" */
};

enum confidence figure_confidence(const struct mayfly_figure *f, uint64_t samples);
char *text_figure(char *buffer, size_t size, bool utf8, const struct mayfly_figure *f,
		  uint64_t samples);
/* Its two halves, to align them in columns: "12.3 MiB" and "+-18 %", which may be "". */
char *text_figure_value(char *buffer, size_t size, const struct mayfly_figure *f, uint64_t samples);
/* The first half of a number of blocks: "1.2 k", "41..95 k", "<= 95 k". */
char *text_count_value(char *buffer, size_t size, const struct mayfly_figure *f, uint64_t samples);
char *text_figure_error(char *buffer, size_t size, bool utf8, const struct mayfly_figure *f,
			uint64_t samples);
/* Its bytes in a sentence: text_figure(), or "at most 3.80 MiB, 2 samples". */
char *text_estimate(char *buffer, size_t size, bool utf8, const struct mayfly_estimate *e);
const char *samples_word(uint64_t samples); /* "sample" or "samples" */

#endif
