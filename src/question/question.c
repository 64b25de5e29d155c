/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a query. */
#include "question/question.h"

#include "answer/figures.h"
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
	pattern_free(&q->show);
	pattern_free(&q->show_from);
	pattern_free(&q->thread);
	pattern_free(&q->label);
	pattern_free(&q->holder);
	pattern_free(&q->type);
	own_rules_free(&q->own.rules);
}

static bool take_moment(const struct given *given, void *to)
{
	struct question *q = to;

	if (strcmp(given->value, "peak") == 0)
		q->query.at_ns = MAYFLY_AT_PEAK;
	else if (strcmp(given->value, "end") == 0)
		q->query.at_ns = MAYFLY_AT_END;
	else
		return option_time(given->option, given->value, &q->query.at_ns, given->error_line);
	return true;
}

bool question_take_by(const struct given *given, void *to)
{
	struct question *q = to;
	int choice;

	if (strncmp(given->value, "label:", strlen("label:")) == 0) {
		q->query.by = MAYFLY_BY_LABEL;
		q->query.label_key = given->value + strlen("label:");
		return *q->query.label_key ||
		       error_say(given->error_line, "%s label: no key after the ':'",
				 given->option);
	}
	q->query.label_key = NULL;
	if (!option_choice(given->option, given->value, by_names, &choice, given->error_line))
		return false;
	q->query.by = (enum mayfly_by)choice;
	return true;
}

static bool take_heaps(const struct given *given, void *to)
{
	struct question *q = to;
	const char *at = given->value;

	do {
		size_t length = strcspn(at, ",");
		uint32_t named = heaps_named(at, length);

		if (!named)
			return error_say(given->error_line,
					 "%s: '%.*s' is not one of malloc, ocaml, ocaml-minor, "
					 "ocaml-major, external, pool, pool-mapped, all",
					 given->option, (int)length, at);
		q->query.heaps |= named;
		at += length;
	} while (*at++);
	return true;
}

static bool take_thread(const struct given *given, void *to)
{
	return pattern_add_thread(to, given->option, given->value, given->error_line);
}

#define FROM_ROW                                                                                   \
	{                                                                                          \
		"from", .argument = "TIME", .help = "only blocks allocated at TIME or later",      \
			OPTION_TIME(struct question, query.from_ns),                               \
			OPTION_GIVEN(struct question, window_given)                                \
	}
#define CHOOSES_BLOCKS OPTION_GIVEN(struct question, chooses_more)

const struct option_row question_metric_rows[] = {
    {"metric", .argument = "METRIC",
     .help = "live, peak (default), allocated, leaked, temporary (freed at once), survived "
	     "(--from until --to) or picture (the heap's)",
     OPTION_CHOICE(metric_names, struct question, query.metric),
     OPTION_GIVEN(struct question, metric_given)},
    {"at", .argument = "TIME|peak|end", .words = "peak end",
     .help = "the moment for --metric live (default end)", OPTION_OWN(take_moment),
     OPTION_GIVEN(struct question, at_given)},
    OPTION_END,
};

const struct option_row question_from_rows[] = {FROM_ROW, OPTION_END};

const struct option_row question_window_rows[] = {
    FROM_ROW,
    {"to", .argument = "TIME", .help = "only blocks allocated before TIME",
     OPTION_TIME(struct question, query.to_ns), OPTION_GIVEN(struct question, window_given)},
    OPTION_END,
};

#define GROUPING_WORD(key, name, ...) name ", "

const struct option_row question_by_rows[] = {
    {"by", .argument = "KEY", .choices = by_names,
     .help = "what the rows are: " GROUPINGS(GROUPING_WORD) "label:KEY (the values of one key) "
							    "(default function)",
     OPTION_OWN(question_take_by), OPTION_GIVEN(struct question, by_given)},
    OPTION_END,
};

const struct option_row question_sort_rows[] = {
    {"sort", .argument = "self|total",
     .help = "rank by what a key allocates itself (default), or including all that it calls",
     OPTION_CHOICE(sort_names, struct question, query.sort),
     OPTION_GIVEN(struct question, sort_given)},
    OPTION_END,
};

const struct option_row question_filter_rows[] = {
    OPTION_HEADING(
	"Which blocks (RE: POSIX extended regular expression; may be given more than once):"),
    {"focus", .argument = "RE", .help = "only stacks with a matching function, file or module",
     OPTION_PATTERN(struct question, focus), CHOOSES_BLOCKS},
    {"ignore", .argument = "RE", .help = "no stacks with a matching function, file or module",
     OPTION_PATTERN(struct question, ignore), CHOOSES_BLOCKS},
    {"hide", .rare = true, .argument = "RE", .help = "leave matching frames out of the stacks",
     OPTION_PATTERN(struct question, hide), OPTION_GIVEN(struct question, hide_given)},
    {"show", .rare = true, .argument = "RE", .help = "leave all other frames out of the stacks",
     OPTION_PATTERN(struct question, show), OPTION_GIVEN(struct question, show_given)},
    {"show-from", .rare = true, .argument = "RE",
     .help = "only stacks with a matching frame; leave out what calls the outermost one",
     OPTION_PATTERN(struct question, show_from), CHOOSES_BLOCKS},
    {"thread", .argument = "NAME|TID", .help = "only what this thread allocated (RE for names)",
     OPTION_IN(take_thread, struct pattern, struct question, thread),
     OPTION_GIVEN(struct question, thread_given)},
    {"heap", .rare = true, .argument = "LIST",
     .words =
	 OPTION_LIST " malloc ocaml ocaml-minor ocaml-major external pool pool-mapped mmap all",
     .help = "only blocks of these heaps, separated by commas: malloc, ocaml (minor and major), "
	     "ocaml-minor, ocaml-major, external (memory outside the heap that OCaml blocks hold), "
	     "pool (the program's own allocators), pool-mapped (unknown to malloc), "
	     "mmap or all",
     OPTION_OWN(take_heaps), CHOOSES_BLOCKS},
    {"label", .rare = true, .argument = "RE",
     .help = "only blocks with a label KEY=VALUE that matches",
     OPTION_PATTERN(struct question, label), CHOOSES_BLOCKS},
    {"min-size", .rare = true, .argument = "BYTES", .help = "only blocks of this size or larger",
     OPTION_BYTES(struct question, query.min_size), CHOOSES_BLOCKS},
    {"max-size", .rare = true, .argument = "BYTES", .help = "only blocks of this size or smaller",
     OPTION_BYTES(struct question, query.max_size), CHOOSES_BLOCKS},
    {"min-lifetime", .rare = true, .argument = "TIME",
     .help = "only blocks that lived this long or longer",
     OPTION_TIME(struct question, query.min_lifetime_ns), CHOOSES_BLOCKS},
    {"max-lifetime", .rare = true, .argument = "TIME",
     .help = "only blocks that lived this long or shorter",
     OPTION_TIME(struct question, query.max_lifetime_ns), CHOOSES_BLOCKS},
    OPTION_END,
};

const struct option_row question_picture_rows[] = {
    {"holder", .rare = true, .argument = "RE",
     .help = "only blocks that such a holder held in the picture of the heap",
     OPTION_PATTERN(struct question, holder), CHOOSES_BLOCKS},
    {"type", .rare = true, .argument = "RE", .help = "only blocks of such a type, in the picture",
     OPTION_PATTERN(struct question, type), CHOOSES_BLOCKS},
    OPTION_END,
};

const char *const frames_names[] = {"own", "python", "all", NULL};

bool question_take_frames(const struct given *given, void *to)
{
	int choice;

	if (!option_choice(given->option, given->value, frames_names, &choice, given->error_line))
		return false;
	*(enum frames_choice *)to = (enum frames_choice)(FRAMES_OWN + choice);
	return true;
}

static void set_matches(struct question *q)
{
	q->hidden.pattern = pattern_match(&q->hide);
	q->query.focus = pattern_match(&q->focus);
	q->query.ignore = pattern_match(&q->ignore);
	q->query.show = pattern_match(&q->show);
	q->query.show_from = pattern_match(&q->show_from);
	q->query.thread = pattern_match(&q->thread);
	q->query.label = pattern_match(&q->label);
	q->query.holder = pattern_match(&q->holder);
	q->query.type = pattern_match(&q->type);
	q->query.hide = hidden_frames_match(&q->hidden);
	q->own.all_interpreted = q->hidden.frames == FRAMES_PYTHON;
	if (q->hidden.frames != FRAMES_ALL && !(q->hidden.frames == FRAMES_USUAL && q->complete)) {
		q->query.fold = own_code_fold(&q->own);
		q->query.fold_recursion = true;
	}
}

static const char *picture_option(const struct question *q)
{
	if (q->query.holder.matches)
		return "--holder";
	if (q->query.type.matches)
		return "--type";
	if (grouping_of(q->query.by).flags & GROUPING_PICTURE)
		return grouping_of(q->query.by).option;
	return q->query.metric == MAYFLY_IN_PICTURE ? "--metric picture" : NULL;
}

bool question_asks_picture(const struct question *q)
{
	return picture_option(q) != NULL;
}

/* The picture has one moment, and no block has been freed by then. */
static bool picture_agrees(struct question *question, struct error_line *c)
{
	const char *option = picture_option(question);
	struct mayfly_query *q = &question->query;

	if (!option)
		return true;
	if (question->metric_given && q->metric != MAYFLY_IN_PICTURE)
		return error_say(
		    c, "%s needs --metric picture; it cannot be combined with --metric %s", option,
		    metric_names[q->metric]);
	if (question->at_given)
		return error_say(c, "%s has the moment of the picture; leave --at out", option);
	if (grouping_of(q->by).flags & GROUPING_BY_FATE || q->min_lifetime_ns > 0 ||
	    q->max_lifetime_ns < INT64_MAX)
		return error_say(c, "%s: the picture does not tell when blocks are freed", option);
	q->metric = MAYFLY_IN_PICTURE;
	return true;
}

bool question_check(struct question *question, struct error_line *c)
{
	struct mayfly_query *q = &question->query;

	question->chooses_blocks = question->chooses_more || question->thread_given;
	question->filtered =
	    question->chooses_blocks || question->hide_given || question->show_given;
	if (question->at_given && !question->metric_given)
		q->metric = MAYFLY_LIVE;
	if (question->at_given && q->metric != MAYFLY_LIVE)
		return error_say(c,
				 "--at needs --metric live; it cannot be combined with --metric %s",
				 metric_names[q->metric]);
	if (q->from_ns >= q->to_ns)
		return error_say(c, "--from must be before --to");
	if (q->min_size > q->max_size)
		return error_say(c, "--min-size must not be above --max-size");
	if (q->min_lifetime_ns > q->max_lifetime_ns)
		return error_say(c, "--min-lifetime must not be above --max-lifetime");
	set_matches(question);
	return picture_agrees(question, c);
}

void question_fit(struct question *q, const struct mayfly_info *info)
{
	if (q->metric_given || q->query.metric != MAYFLY_PEAK ||
	    !(info->absent & MAYFLY_ABSENT_PEAK))
		return;
	q->query.metric = info->absent & MAYFLY_ABSENT_LIVE ? MAYFLY_ALLOCATED : MAYFLY_LIVE;
}

/* Durations are printed with three digits, and a user may write them rounded up. */
#define ROUNDED 1.01

bool question_is_in_time(const struct question *q, const struct mayfly_info *info,
			 struct error_line *c)
{
	char at[FIGURE_TEXT], duration[FIGURE_TEXT];

	if (!q->at_given || q->query.at_ns >= MAYFLY_AT_PEAK ||
	    info->absent & MAYFLY_ABSENT_TIMES ||
	    (double)q->query.at_ns <= ROUNDED * (double)info->duration_ns)
		return true;
	return error_say(c, "--at %s is after the end of the trace, which is %s long",
			 text_duration(at, sizeof(at), (double)q->query.at_ns),
			 text_duration(duration, sizeof(duration), (double)info->duration_ns));
}

const char *question_needs_blocks(const struct question *question)
{
	const struct mayfly_query *q = &question->query;
	struct grouping grouping = grouping_of(q->by);

	if (!(grouping.flags & GROUPING_BY_NODE))
		return grouping.option;
	if (q->metric == MAYFLY_IN_PICTURE)
		return picture_option(question);
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
	if (q->metric == MAYFLY_SURVIVED)
		return "--metric survived after a fork";
	return NULL;
}
