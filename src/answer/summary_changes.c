/* SPDX-License-Identifier: Apache-2.0 */
/* What changed of two traces as a whole: see summary_changes.h. */
#include "answer/summary_changes.h"

#include <math.h>

#include "answer/figures.h"
#include "answer/json_parts.h"
#include "answer/query_words.h"
#include "answer/text_format.h"

char *change_relative_text(char *buffer, size_t size, const struct diff_figure *d)
{
	double percent = 100 * d->change / d->before;

	if (d->before <= 0 || d->after <= 0)
		return text_format(buffer, size, "%s",
				   d->after > 0	   ? "new"
				   : d->before > 0 ? "gone"
						   : "0 %");
	if (d->after >= 10 * d->before)
		return text_format(buffer, size, "x%.0f", d->after / d->before);
	if (d->change == 0)
		return text_format(buffer, size, "0 %%");
	return text_format(buffer, size, "%+.*f %%", fabs(percent) < 9.95 ? 1 : 0, percent);
}

/* 0 to 1: what appears or is gone has changed completely. */
static double relative(const struct diff_figure *d)
{
	double larger = fmax(d->before, d->after);

	return larger > 0 ? fabs(d->change) / larger : 0;
}

static bool comes_before(const struct summary_change *a, const struct summary_change *b)
{
	bool real_a = a->bytes.verdict == DIFF_REAL, real_b = b->bytes.verdict == DIFF_REAL;

	if (real_a != real_b)
		return real_a;
	return real_a && relative(&a->bytes) > relative(&b->bytes);
}

size_t summary_changes(const struct json_diff *c, const struct mayfly_summary summary[2],
		       struct summary_change change[SUMMARY_CHANGES])
{
	const struct host_totals *t = c->hosts ? c->totals : NULL;
	const struct {
		struct summary_change of;
		const struct host_estimate *hosts;
		uint32_t absent;
	} all[SUMMARY_CHANGES] = {
	    {{.title = "Peak",
	      .metric = MAYFLY_PEAK,
	      .before = &summary[0].peak,
	      .after = &summary[1].peak},
	     NULL,
	     MAYFLY_ABSENT_PEAK},
	    {{.title = "Allocated",
	      .metric = MAYFLY_ALLOCATED,
	      .before = &summary[0].allocated,
	      .after = &summary[1].allocated},
	     t ? t->allocated : NULL,
	     MAYFLY_ABSENT_ALLOCATED},
	    {{.title = "Live at end",
	      .metric = MAYFLY_LIVE,
	      .before = &summary[0].live_at_end,
	      .after = &summary[1].live_at_end},
	     t ? t->live_at_end : NULL,
	     MAYFLY_ABSENT_LIVE},
	};
	size_t count = 0;

	for (size_t i = 0; i < SUMMARY_CHANGES; i++) {
		struct summary_change one = all[i].of;
		size_t at = count;

		if (c->absent & all[i].absent)
			continue;
		json_diff_figures(c, one.before, one.after, all[i].hosts, &one.bytes, &one.blocks);
		for (; at > 0 && comes_before(&one, &change[at - 1]); at--)
			change[at] = change[at - 1];
		change[at] = one;
		count++;
	}
	return count;
}

char *summary_change_headline(char *buffer, size_t size, const struct summary_change *change,
			      size_t changes)
{
	char before[FIGURE_TEXT], after[FIGURE_TEXT], percent[FIGURE_TEXT];
	const struct diff_figure *d = &change->bytes;

	if (!changes || d->verdict == DIFF_UNKNOWN)
		return text_format(buffer, size, "%s", "");
	if (d->verdict != DIFF_REAL)
		return text_format(buffer, size, "%s", "No total changed significantly.");
	text_bytes(before, sizeof(before), d->before);
	text_bytes(after, sizeof(after), d->after);
	change_relative_text(percent, sizeof(percent), d);
	return text_format(buffer, size, "%s %s: %s, from %s to %s.", change->title,
			   d->change > 0 ? "rose" : "fell", percent, before, after);
}

int json_summary_changes(struct json *j, const struct json_diff *c)
{
	struct mayfly_summary summary[2];
	struct summary_change change[SUMMARY_CHANGES];
	char headline[SUMMARY_CHANGE_BYTES], relative_text[FIGURE_TEXT];
	int error = mayfly_trace_summary(c->before, &summary[0]);
	size_t count;

	if (!error)
		error = mayfly_trace_summary(c->after, &summary[1]);
	if (error)
		return error;
	count = summary_changes(c, summary, change);
	json_text_or_null(j, "headline",
			  summary_change_headline(headline, sizeof(headline), change, count));
	JSON_ROWS(j, "changes", i, i < count) {
		json_text(j, "metric", metric_names[change[i].metric]);
		json_text(j, "title", change[i].title);
		json_estimate(j, "before", change[i].before);
		json_estimate(j, "after", change[i].after);
		json_text(
		    j, "relative",
		    change_relative_text(relative_text, sizeof(relative_text), &change[i].bytes));
		json_change(j, "change", c, &change[i].bytes, &change[i].blocks);
	}
	return 0;
}
