/* SPDX-License-Identifier: Apache-2.0 */
/* What changed, as JSON: see json_diff.h. */
#include "answer/json_diff.h"

#include <math.h>

#include "answer/json_parts.h"
#include "answer/rank.h"

void json_diff_figures(const struct json_diff *c, const struct mayfly_estimate *before,
		       const struct mayfly_estimate *after, const struct host_estimate *hosts,
		       struct diff_figure *bytes, struct diff_figure *blocks)
{
	*bytes =
	    diff_compare(&before->bytes, before->samples, &after->bytes, after->samples, c->per);
	*blocks =
	    diff_compare(&before->blocks, before->samples, &after->blocks, after->samples, c->per);
	if (hosts)
		diff_widen(bytes, blocks, hosts, c->hosts, c->per);
	if (c->absent & MAYFLY_ABSENT_ERRORS) {
		diff_forget_verdict(bytes);
		diff_forget_verdict(blocks);
	}
}

/* Whole bytes, unless they are divided by something. */
static void put_change_value(struct json *j, const char *key, const struct json_diff *c,
			     double value)
{
	if (c->per_given || c->hosts)
		json_real(j, key, value);
	else
		json_integer(j, key, fabs(value) < 0x1p62 ? llround(value) : 0);
}

static void put_change(struct json *j, const char *key, const struct json_diff *c,
		       const struct diff_figure *f)
{
	bool known = !(c->absent & MAYFLY_ABSENT_ERRORS);

	json_object(j, key);
	put_change_value(j, "before", c, f->before);
	put_change_value(j, "after", c, f->after);
	put_change_value(j, "change", c, f->change);
	put_change_value(j, "stderr", c, f->stderror);
	put_change_value(j, "low", c, f->low);
	put_change_value(j, "high", c, f->high);
	json_real(j, "p", known ? f->p : NAN); /* null */
	json_real(j, "adjusted_p", known ? f->adjusted : NAN);
	json_end(j);
}

static const char *verdict_name(const struct diff_figure *f)
{
	static const char *const name[] = {"same", "few_samples", "unknown", "noise",
					   "significant"};

	return name[f->verdict];
}

void json_change(struct json *j, const char *key, const struct json_diff *c,
		 const struct diff_figure *bytes, const struct diff_figure *blocks)
{
	json_object(j, key);
	json_text(j, "verdict", verdict_name(bytes));
	put_change(j, "bytes", c, bytes);
	put_change(j, "blocks", c, blocks);
	json_end(j);
}

static void put_total(struct json *j, const char *key, const struct json_diff *c,
		      const struct mayfly_estimate *a, const struct mayfly_estimate *b,
		      const struct host_estimate *hosts)
{
	struct diff_figure bytes, blocks;

	json_diff_figures(c, a, b, hosts, &bytes, &blocks);
	json_change(j, key, c, &bytes, &blocks);
}

static void put_diff_row(struct json *j, const struct json_diff *c, const struct diff_row *row)
{
	const struct mayfly_row *key = row->after ? row->after : row->before;

	json_row_key(j, row->after ? c->after : c->before, c->query->by, key);
	json_estimate(j, "before", row->before ? sorted_by(c->query, row->before) : NULL);
	json_estimate(j, "after", row->after ? sorted_by(c->query, row->after) : NULL);
	if (c->query->by == MAYFLY_BY_LINE && row->before && row->after)
		json_unsigned(j, "line_before", row->before->line);
	json_change(j, "change", c, &row->bytes, &row->blocks);
}

int json_diff(struct json *j, const struct json_diff *c, const struct trace_diff *d, size_t top)
{
	const struct host_totals *t = c->hosts ? c->totals : NULL;
	struct mayfly_summary before, after;
	int error = mayfly_trace_summary(c->before, &before);

	if (!error)
		error = mayfly_trace_summary(c->after, &after);
	if (error)
		return error;
	json_question(j, c->query, true);
	json_object(j, "per");
	json_real(j, "before", c->per.before);
	json_real(j, "after", c->per.after);
	json_end(j);
	json_object(j, "summary");
	put_total(j, "allocated", c, &before.allocated, &after.allocated, t ? t->allocated : NULL);
	put_total(j, "peak", c, &before.peak, &after.peak, NULL);
	put_total(j, "live_at_end", c, &before.live_at_end, &after.live_at_end,
		  t ? t->live_at_end : NULL);
	json_end(j);
	json_change(j, "total", c, &d->bytes, &d->blocks);
	JSON_ROWS(j, "rows", i, i < d->rows && !(top && i >= top))
		put_diff_row(j, c, &d->row[i]);
	return 0;
}
