/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options with which a user asks a trace something: which metric, which moment, which blocks.
 * All commands that answer such questions have the same ones, or some of them, in their table:
 *
 *	OPTION_GROUP(question_filter_rows, struct settings, q),
 *	...
 *	if (question_check(&set.q, &error_line))
 *		mayfly_query_run(trace, &set.q.query, &result);
 */
#ifndef MAYFLY_QUESTION_H
#define MAYFLY_QUESTION_H

#include "answer/allocator_frames.h"
#include "answer/own_code.h"
#include "answer/query_words.h"
#include "question/option_row.h"

#include <mayfly/trace.h>

struct question {
	struct mayfly_query query;
	struct pattern focus, ignore, hide, show, show_from, thread, label, holder, type;
	struct hidden_frames hidden;
	struct own_code own;
	bool complete; /* an export's: as usual, libraries are not folded into their callers */
	bool metric_given, by_given, sort_given, at_given, window_given;
	bool filtered;	     /* any of question_filter_rows; question_check() sets it */
	bool chooses_blocks; /* any of them but --hide and --show; likewise */
	bool thread_given, hide_given, show_given;
	bool chooses_more; /* any of the others */
};

/* Rows whose struct is struct question: --focus and all others that choose blocks and frames; --holder
 * and --type; --metric and --at; --from and --to; --by; --sort. */
extern const struct option_row question_filter_rows[], question_picture_rows[],
    question_metric_rows[], question_window_rows[], question_from_rows[], question_by_rows[],
    question_sort_rows[];

/* Everything, at the peak. */
void question_init(struct question *q);
void question_free(struct question *q);

/* --frames, of an enum frames_choice. */
#define OPTION_FRAMES(type, field, text)                                                           \
	{                                                                                          \
		"frames", .argument = "WHOSE", .choices = frames_names, .help = text,              \
			  OPTION_IN(question_take_frames, enum frames_choice, type, field)         \
	}
#define FRAMES_OWN_HELP	  "whose frames: own (default), python (without C) or all"
#define FRAMES_USUAL_HELP "own, python (no C) or all; default: all but the allocator's"
extern const char *const frames_names[];
option_take question_take_frames;

/* The value of --by. */
option_take question_take_by;
/* Whether the answer is in the picture of the heap. */
bool question_asks_picture(const struct question *q);
/* After all options, before q->query is used: finds those that contradict one another: false, and
 * *c says which. q must stay where it is from now on. */
bool question_check(struct question *q, struct error_line *c);

/* When no metric was asked for, and the usual one is not known of this trace, another one. After
 * question_check(). */
void question_fit(struct question *q, const struct mayfly_info *info);

/* Whether --at is a moment of the trace; false, and *c says how long the trace is. After
 * question_check(). */
bool question_is_in_time(const struct question *q, const struct mayfly_info *info,
			 struct error_line *c);

/* The option that needs single blocks, which snapshots lack: "--by thread"; NULL: none. */
const char *question_needs_blocks(const struct question *q);

#endif
