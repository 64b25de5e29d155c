/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory by the values of a label, for formats that draw it: the live heap over time, and what was
 * allocated and is still live at the end, with their errors.
 *
 *	request=page	 allocated 116 MiB	 live  |  __/\__/\_
 *	request=search	 allocated	20 MiB	 live  |  _________
 *	(others)	 values with less
 *	(none)		 blocks without the label
 */
#ifndef MAYFLY_BY_LABEL_H
#define MAYFLY_BY_LABEL_H

#include <mayfly/trace.h>
#include <stdbool.h>

#define BY_LABEL_KEYS	8  /* most that formats show, */
#define BY_LABEL_VALUES 20 /* and values of each key, not counting the others */

struct label_value {
	const char *name; /* to show: never empty */
	struct mayfly_estimate allocated, live;
};

struct by_label {
	const char *key;
	/* Those that allocated the most, in descending order; then the sum of the others, if they
	 * allocated anything. */
	size_t values;
	struct label_value value[BY_LABEL_VALUES + 1];
	/* Live bytes of value v at point i: series->live_bytes[v * series->points + i]. It may have
	 * one row more. */
	struct mayfly_series *series;
	struct mayfly_result *allocated; /* texts are its */
};

/* The distinct keys of a trace's labels, the first `most` in the order of its sets. Returns their
 * number. */
size_t label_keys(const struct mayfly_trace *trace, const char **key, size_t most);
/* Whether any label has this key; NULL: any key. */
bool trace_has_label(const struct mayfly_trace *trace, const char *key);

/* Filters and window are the query's; live is what is at the window's end. There are no values
 * where no block has the label, and where the trace does not tell, as one of snapshots. 0 or a
 * negative enum mayfly_error; by_label_end() is to be called in both cases. */
int by_label_begin(struct by_label *b, const struct mayfly_trace *trace,
		   const struct mayfly_query *query, const char *key, size_t points);
void by_label_end(struct by_label *b);

/* The figures of a value, with their names in all formats; rounded as in --json. */
enum { LABEL_FIGURES = 9 };
struct label_figure {
	const char *name;
	uint64_t value;
};
void label_figures(const struct label_value *value, struct label_figure figure[LABEL_FIGURES]);

/* The title of a drawing, which differs from the title of the same by function. */
void by_label_title(char *buffer, size_t size, const char *of, const struct by_label *b);

#endif
