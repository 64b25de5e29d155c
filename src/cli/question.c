/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a query. */
#include "cli/question.h"

#include "answer/absent.h"
#include "cli/message.h"
#include "query/grouping.h"

#include <string.h>

void question_init(struct question *q)
{
	*q = (struct question){0};
	mayfly_query_defaults(&q->query);
}

void question_free(struct question *q)
{
	pattern_free(&q->focus);
	pattern_free(&q->ignore);
	pattern_free(&q->hide);
	pattern_free(&q->thread);
	pattern_free(&q->label);
}

bool question_has(int option)
{
	return option >= QUESTION_METRIC && option < QUESTION_END;
}

static bool set_moment(struct question *q, const char *text)
{
	q->at_given = true;
	if (strcmp(text, "peak") == 0)
		q->query.at_ns = MAYFLY_AT_PEAK;
	else if (strcmp(text, "end") == 0)
		q->query.at_ns = MAYFLY_AT_END;
	else
		return option_time("--at", text, &q->query.at_ns);
	return true;
}

static bool set_metric(struct question *q, const char *value)
{
	int choice;

	q->metric_given = true;
	if (!option_choice("--metric", value, metric_names, &choice))
		return false;
	q->query.metric = (enum mayfly_metric)choice;
	return true;
}

static bool set_by(struct question *q, const char *value)
{
	int choice;

	q->by_given = true;
	if (strncmp(value, "label:", strlen("label:")) == 0) {
		q->query.by = MAYFLY_BY_LABEL;
		q->query.label_key = value + strlen("label:");
		return *q->query.label_key ||
		       (cli_usage("--by label: no key after the ':'"), false);
	}
	q->query.label_key = NULL;
	if (!option_choice("--by", value, by_names, &choice))
		return false;
	q->query.by = (enum mayfly_by)choice;
	return true;
}

static bool set_sort(struct question *q, const char *value)
{
	int choice;

	q->sort_given = true;
	if (!option_choice("--sort", value, sort_names, &choice))
		return false;
	q->query.sort = (enum mayfly_sort)choice;
	return true;
}

static bool set_heaps(const char *list, uint32_t *heaps)
{
	const char *at = list;

	do {
		size_t length = strcspn(at, ",");
		uint32_t named = heaps_named(at, length);

		if (!named) {
			cli_usage("--heap: '%.*s' is not one of malloc, ocaml, ocaml-minor, "
				  "ocaml-major, external, pool, pool-mapped, all",
				  (int)length, at);
			return false;
		}
		*heaps |= named;
		at += length;
	} while (*at++);
	return true;
}

/* Options that choose blocks and frames. */
static bool set_filter(struct question *q, int option, const char *value)
{
	struct mayfly_query *query = &q->query;

	q->filtered = true;
	q->chooses_blocks |= option != QUESTION_HIDE;
	q->chooses_more |= option != QUESTION_HIDE && option != QUESTION_THREAD;
	switch (option) {
	case QUESTION_FOCUS:
		return pattern_add(&q->focus, "--focus", value);
	case QUESTION_IGNORE:
		return pattern_add(&q->ignore, "--ignore", value);
	case QUESTION_HIDE:
		return pattern_add(&q->hide, "--hide", value);
	case QUESTION_THREAD:
		return pattern_add_thread(&q->thread, "--thread", value);
	case QUESTION_HEAP:
		return set_heaps(value, &query->heaps);
	case QUESTION_LABEL:
		return pattern_add(&q->label, "--label", value);
	case QUESTION_MIN_SIZE:
		return option_bytes("--min-size", value, &query->min_size);
	case QUESTION_MAX_SIZE:
		return option_bytes("--max-size", value, &query->max_size);
	case QUESTION_MIN_LIFETIME:
		return option_time("--min-lifetime", value, &query->min_lifetime_ns);
	case QUESTION_MAX_LIFETIME:
		return option_time("--max-lifetime", value, &query->max_lifetime_ns);
	}
	return false;
}

bool question_set(struct question *q, int option, const char *value)
{
	switch (option) {
	case QUESTION_METRIC:
		return set_metric(q, value);
	case QUESTION_BY:
		return set_by(q, value);
	case QUESTION_SORT:
		return set_sort(q, value);
	case QUESTION_AT:
		return set_moment(q, value);
	case QUESTION_FROM:
		q->window_given = true;
		return option_time("--from", value, &q->query.from_ns);
	case QUESTION_TO:
		q->window_given = true;
		return option_time("--to", value, &q->query.to_ns);
	case QUESTION_ALL_FRAMES:
		q->hidden.all_frames = true;
		return true;
	}
	return set_filter(q, option, value);
}

static void set_matches(struct question *q)
{
	q->hidden.pattern = pattern_match(&q->hide);
	q->query.focus = pattern_match(&q->focus);
	q->query.ignore = pattern_match(&q->ignore);
	q->query.thread = pattern_match(&q->thread);
	q->query.label = pattern_match(&q->label);
	q->query.hide = hidden_frames_match(&q->hidden);
}

bool question_check(struct question *question)
{
	struct mayfly_query *q = &question->query;

	if (question->at_given && !question->metric_given)
		q->metric = MAYFLY_LIVE;
	if (question->at_given && q->metric != MAYFLY_LIVE) {
		cli_usage("--at works with --metric live, not with --metric %s",
			  metric_names[q->metric]);
		return false;
	}
	if (q->from_ns >= q->to_ns) {
		cli_usage("--from: must be before --to");
		return false;
	}
	if (q->min_size > q->max_size) {
		cli_usage("--min-size: must not be above --max-size");
		return false;
	}
	if (q->min_lifetime_ns > q->max_lifetime_ns) {
		cli_usage("--min-lifetime: must not be above --max-lifetime");
		return false;
	}
	set_matches(question);
	return true;
}

void question_fit(struct question *q, const struct mayfly_info *info)
{
	if (q->metric_given || q->query.metric != MAYFLY_PEAK ||
	    !(info->absent & MAYFLY_ABSENT_PEAK))
		return;
	q->query.metric = info->absent & MAYFLY_ABSENT_LIVE ? MAYFLY_ALLOCATED : MAYFLY_LIVE;
}

const char *question_needs_blocks(const struct question *question)
{
	const struct mayfly_query *q = &question->query;
	struct grouping grouping = grouping_of(q->by);

	if (!(grouping.flags & GROUPING_BY_NODE))
		return grouping.option;
	if (q->thread.matches)
		return "--thread";
	if (q->label.matches)
		return "--label";
	if (q->heaps)
		return "--heap";
	if (q->min_size > 0 || q->max_size < UINT64_MAX)
		return q->min_size > 0 ? "--min-size" : "--max-size";
	if (q->min_lifetime_ns > 0 || q->max_lifetime_ns < INT64_MAX)
		return q->min_lifetime_ns > 0 ? "--min-lifetime" : "--max-lifetime";
	if (question->window_given && q->metric != MAYFLY_ALLOCATED)
		return "--from or --to with this metric";
	return NULL;
}

bool absent_said(const char *path, const struct mayfly_trace *trace, const struct question *q)
{
	uint32_t absent = mayfly_query_absent(trace, &q->query);
	uint32_t has = ~mayfly_trace_info(trace)->absent;
	char text[512];

	if (!absent)
		return false;
	/* A command without --metric cannot be told to use it. */
	cli_error("%s: the file that it comes from does not have %s%s", path,
		  absent_text(text, sizeof(text), absent),
		  absent & MAYFLY_ABSENT_ALLOCATIONS
		      ? "; it has events: see 'mayfly report --events'"
		  : !q->metric_given ? ""
		  : absent & (MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_TEMPORARY | MAYFLY_ABSENT_LIVE |
			      MAYFLY_ABSENT_ALLOCATED)
		      ? (has & MAYFLY_ABSENT_LIVE ? "; ask for --metric live"
						  : "; ask for --metric allocated")
		      : "");
	return true;
}
