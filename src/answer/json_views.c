/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as JSON: see json_views.h. */
#include "answer/json_views.h"

#include <math.h>

#include "answer/json_parts.h"
#include "answer/query_words.h"
#include "answer/rank.h"

/* ---- series ---- */

static void put_points(struct json *j, const struct mayfly_series *s, size_t row)
{
	size_t first = row * s->points;

	json_rounded_all(j, "live_bytes", s->live_bytes + first, s->points);
	json_rounded_all(j, "live_blocks", s->live_blocks + first, s->points);
	json_rounded_all(j, "allocated_bytes", s->allocated_bytes + first, s->points);
	json_rounded_all(j, "allocated_blocks", s->allocated_blocks + first, s->points);
}

void json_series(struct json *j, const struct mayfly_trace *trace, const struct mayfly_query *query,
		 const struct mayfly_series *s)
{
	json_question(j, query, true);
	JSON_LIST(j, "times_ns", i, i < s->points, json_integer(j, NULL, s->time_ns[i]));
	JSON_ROWS(j, "rows", i, i + 1 < s->rows) {
		json_row(j, trace, query->by, &s->row[i]);
		put_points(j, s, i);
	}
	json_object(j, "others");
	put_points(j, s, s->rows - 1);
	json_end(j);
}

/* ---- histograms ---- */

static void put_classes(struct json *j, const struct mayfly_histogram *h, bool size)
{
	JSON_ROWS(j, "classes", i, i < h->classes) {
		json_integer(j, size ? "low" : "low_ns", h->low[i]);
		json_bound(j, size ? "high" : "high_ns", h->high[i]);
	}
}

/* A row's numbers, one for each class. */
static void put_cells(struct json *j, const struct mayfly_histogram *h, size_t row)
{
	const struct mayfly_estimate *cell = &h->cell[row * h->classes];

	JSON_LIST(j, "bytes", i, i < h->classes,
		  json_integer(j, NULL, llround(cell[i].bytes.estimate)));
	JSON_LIST(j, "bytes_stderr", i, i < h->classes,
		  json_integer(j, NULL, llround(cell[i].bytes.stderror)));
	JSON_LIST(j, "blocks", i, i < h->classes,
		  json_integer(j, NULL, llround(cell[i].blocks.estimate)));
	JSON_LIST(j, "samples", i, i < h->classes, json_unsigned(j, NULL, cell[i].samples));
}

void json_histogram(struct json *j, const struct mayfly_trace *trace,
		    const struct mayfly_query *query, enum mayfly_by classes,
		    const struct mayfly_histogram *h)
{
	json_question(j, query, true);
	json_text(j, "histogram", by_names[classes]);
	json_integer(j, "time_ns", h->time_ns);
	json_estimate(j, "total", &h->total);
	put_classes(j, h, classes == MAYFLY_BY_SIZE);
	JSON_ROWS(j, "rows", i, i + 1 < h->rows) {
		json_row(j, trace, query->by, &h->row[i]);
		put_cells(j, h, i);
	}
	json_object(j, "others");
	put_cells(j, h, h->rows - 1);
	json_end(j);
}

/* ---- churn ---- */

double churn_rate(double bytes, double mean_live)
{
	return mean_live > 0 ? bytes / mean_live : INFINITY;
}

double churn_lifetime(const struct mayfly_churn *c, double bytes, double mean_live)
{
	return bytes > 0 ? mean_live * (double)(c->to_ns - c->from_ns) / bytes : 0;
}

static void put_churn(struct json *j, const struct mayfly_churn *c, double bytes, double live)
{
	json_integer(j, "mean_live_bytes", llround(live));
	json_real(j, "churn", churn_rate(bytes, live));
	json_integer(j, "mean_lifetime_ns", llround(churn_lifetime(c, bytes, live)));
}

void json_churn(struct json *j, const struct mayfly_trace *trace, const struct mayfly_query *query,
		const struct mayfly_churn *c)
{
	json_question(j, query, false);
	json_integer(j, "from_ns", c->from_ns);
	json_integer(j, "to_ns", c->to_ns);
	json_estimate(j, "total", &c->total);
	JSON_ROWS(j, "rows", i, i + 1 < c->rows) {
		json_row(j, trace, query->by, &c->row[i]);
		put_churn(j, c, sorted_by(query, &c->row[i])->bytes.estimate, c->mean_live[i]);
	}
	put_churn(j, c, c->total.bytes.estimate, c->mean_live_total);
}

/* ---- chains of realloc ---- */

static void put_growth(struct json *j, const struct mayfly_growth *g)
{
	json_unsigned(j, "chains", g->chains);
	json_unsigned(j, "reallocs", g->steps);
	json_unsigned(j, "longest_chain", g->longest);
	json_unsigned(j, "copied_bytes", g->copied_bytes);
	json_unsigned(j, "first_bytes", g->first_bytes);
	json_unsigned(j, "last_bytes", g->last_bytes);
}

/* Without the estimates of the rows: the numbers of copied bytes and of chains are exact. */
void json_reallocs(struct json *j, const struct mayfly_trace *trace,
		   const struct mayfly_query *query, const struct mayfly_reallocs *a)
{
	json_question(j, query, false);
	json_object(j, "total");
	put_growth(j, &a->total);
	json_end(j);
	JSON_ROWS(j, "rows", i, i + 1 < a->rows) {
		json_row_key(j, trace, query->by, &a->row[i]);
		put_growth(j, &a->growth[i]);
	}
}

/* ---- survival in OCaml's minor heap ---- */

static void put_share(struct json *j, const char *key, const struct mayfly_figure *f)
{
	json_object(j, key);
	json_real(j, "estimate", f->estimate);
	json_real(j, "stderr", f->stderror);
	json_real(j, "low", f->low);
	json_real(j, "high", f->high);
	json_end(j);
}

static void put_quantile(struct json *j, const char *key, const struct mayfly_quantile *q)
{
	if (!q->samples) {
		json_null(j, key);
		return;
	}
	json_object(j, key);
	json_bound(j, "estimate", q->estimate_ns);
	json_bound(j, "low", q->low_ns);
	json_bound(j, "high", q->high_ns);
	json_unsigned(j, "samples", q->samples);
	json_end(j);
}

static void put_survival(struct json *j, const struct mayfly_survival_row *row)
{
	json_estimate(j, "allocated", &row->allocated);
	put_share(j, "promoted", &row->promoted);
	put_share(j, "died_young", &row->collected);
	put_quantile(j, "promotion_median_ns", &row->promotion_median);
	put_quantile(j, "promotion_p90_ns", &row->promotion_p90);
	put_quantile(j, "lifetime_median_ns", &row->lifetime_median);
}

bool survival_is_ranked(const struct mayfly_survival_row *row)
{
	return figure_confidence(&row->allocated.bytes, row->allocated.samples) >= FIGURE_RANGE;
}

void json_survival(struct json *j, const struct mayfly_trace *trace,
		   const struct mayfly_query *query, const struct mayfly_survival *s, size_t top)
{
	json_text(j, "by", by_names[query->by]);
	json_object(j, "total");
	put_survival(j, &s->all);
	json_end(j);
	json_array(j, "rows");
	for (size_t i = 0, shown = 0; i < s->rows && (!top || shown < top); i++) {
		const struct mayfly_survival_row *row = &s->row[i];

		if (!(row->allocated.bytes.estimate > 0))
			continue; /* on stacks only */
		if (top && !survival_is_ranked(row))
			continue;
		shown++;
		json_object(j, NULL);
		json_row_key(j, trace, query->by, row->key);
		put_survival(j, row);
		json_end(j);
	}
	json_end(j);
}
