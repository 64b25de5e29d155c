/* SPDX-License-Identifier: Apache-2.0 */
/* The answers that are those of the report's other views. */
#include "answer/event_rows.h"
#include "answer/json_views.h"
#include "answer/page_holders.h"
#include "answer/rss.h"
#include "view/answers.h"

static size_t most_rows(const struct request *r)
{
	return r->top ? r->top : SIZE_MAX;
}

int view_churn(struct request *r, struct json *j)
{
	struct mayfly_churn *c;
	int error;

	r->q.query.metric = MAYFLY_ALLOCATED;
	error = mayfly_churn_run(r->trace, &r->q.query, most_rows(r), &c);
	if (error)
		return error;
	json_churn(j, r->trace, &r->q.query, c);
	mayfly_churn_free(c);
	return 0;
}

int view_reallocs(struct request *r, struct json *j)
{
	struct mayfly_reallocs *a;
	int error;

	r->q.query.metric = MAYFLY_ALLOCATED;
	error = mayfly_reallocs_run(r->trace, &r->q.query, most_rows(r), &a);
	if (error)
		return error;
	json_reallocs(j, r->trace, &r->q.query, a);
	mayfly_reallocs_free(a);
	return 0;
}

/* Rows of survival are places in the program. */
int view_survival(struct request *r, struct json *j)
{
	struct mayfly_survival *s;
	int error;

	if (!r->q.by_given)
		r->q.query.by = MAYFLY_BY_LINE;
	error = mayfly_survival_run(r->trace, &r->q.query, &s);
	if (error)
		return error;
	json_survival(j, r->trace, &r->q.query, s, r->top);
	mayfly_survival_free(s);
	return 0;
}

static int put_events(struct request *r, struct json *j, bool all)
{
	struct event_rows e;
	int error = all ? event_rows_of_all(&e, r->trace, &r->q.query, SPAN_SORT_TOTAL)
			: event_rows_of_spans(&e, r->trace, &r->q.query, SPAN_SORT_TOTAL);

	if (error)
		return error;
	json_events(j, &e, &r->q.query, r->top);
	event_rows_end(&e);
	return 0;
}

int view_spans(struct request *r, struct json *j)
{
	return put_events(r, j, false);
}

int view_events(struct request *r, struct json *j)
{
	return put_events(r, j, true);
}

int view_rss(struct request *r, struct json *j)
{
	struct rss rss;
	int error;

	if (!rss_is_known(r->trace))
		return MAYFLY_E_ABSENT;
	error = rss_begin(&rss, r->trace);
	if (!error)
		json_rss(j, &rss);
	rss_end(&rss);
	return error;
}

int view_fragmentation(struct request *r, struct json *j)
{
	const struct mayfly_fragmentation *peak = mayfly_trace_fragmentation(r->trace, false);
	const struct mayfly_fragmentation *end = mayfly_trace_fragmentation(r->trace, true);
	struct mayfly_match hide = hidden_frames_match(&r->q.hidden);

	if (!peak && !end)
		return MAYFLY_E_ABSENT;
	json_page_holders(j, "peak", r->trace, peak, &hide, r->top);
	json_page_holders(j, "end", r->trace, end, &hide, r->top);
	return 0;
}
