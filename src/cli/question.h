/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options with which a user asks a trace something: which metric, which moment, which blocks.
 * All commands that answer such questions take the same ones, or a part of them:
 *
 *	static const struct option long_options[] = {QUESTION_METRIC_OPTIONS,
 *						     QUESTION_FILTER_OPTIONS, ...};
 *	...
 *	if (question_has(option))
 *		good = question_set(&q, option, optarg);
 *	...
 *	if (question_check(&q))
 *		mayfly_query_run(trace, &q.query, &result);
 */
#ifndef MAYFLY_QUESTION_H
#define MAYFLY_QUESTION_H

#include "answer/allocator_frames.h"
#include "answer/query_words.h"
#include "cli/options.h"

#include <getopt.h>
#include <mayfly/trace.h>

struct question {
	struct mayfly_query query;
	struct pattern focus, ignore, hide, thread, label;
	struct hidden_frames hidden;
	bool metric_given, by_given, sort_given, at_given, window_given;
	bool filtered;	     /* any of QUESTION_FILTER_OPTIONS but --all-frames */
	bool chooses_blocks; /* and but --hide */
	bool chooses_more;   /* and but --thread */
};

enum question_option {
	QUESTION_METRIC = 1000,
	QUESTION_BY,
	QUESTION_SORT,
	QUESTION_AT,
	QUESTION_FROM,
	QUESTION_TO,
	QUESTION_FOCUS,
	QUESTION_IGNORE,
	QUESTION_HIDE,
	QUESTION_THREAD,
	QUESTION_HEAP,
	QUESTION_LABEL,
	QUESTION_MIN_SIZE,
	QUESTION_MAX_SIZE,
	QUESTION_MIN_LIFETIME,
	QUESTION_MAX_LIFETIME,
	QUESTION_ALL_FRAMES,
	QUESTION_END,
};

/* clang-format off */
#define QUESTION_METRIC_OPTIONS                                                                    \
	{"metric", required_argument, NULL, QUESTION_METRIC},                                      \
	{"at", required_argument, NULL, QUESTION_AT},                                              \
	{"from", required_argument, NULL, QUESTION_FROM},                                          \
	{"to", required_argument, NULL, QUESTION_TO}
#define QUESTION_ROW_OPTIONS                                                                       \
	{"by", required_argument, NULL, QUESTION_BY},                                              \
	{"sort", required_argument, NULL, QUESTION_SORT}
#define QUESTION_FILTER_OPTIONS                                                                    \
	{"focus", required_argument, NULL, QUESTION_FOCUS},                                        \
	{"ignore", required_argument, NULL, QUESTION_IGNORE},                                      \
	{"hide", required_argument, NULL, QUESTION_HIDE},                                          \
	{"thread", required_argument, NULL, QUESTION_THREAD},                                      \
	{"heap", required_argument, NULL, QUESTION_HEAP},                                          \
	{"label", required_argument, NULL, QUESTION_LABEL},                                        \
	{"min-size", required_argument, NULL, QUESTION_MIN_SIZE},                                  \
	{"max-size", required_argument, NULL, QUESTION_MAX_SIZE},                                  \
	{"min-lifetime", required_argument, NULL, QUESTION_MIN_LIFETIME},                          \
	{"max-lifetime", required_argument, NULL, QUESTION_MAX_LIFETIME},                          \
	{"all-frames", no_argument, NULL, QUESTION_ALL_FRAMES}
/* clang-format on */

/* For usage texts: the filters, a line each. */
#define QUESTION_FILTER_HELP                                                                       \
	"Which blocks (RE: POSIX extended regular expression; options may be repeated):\n"         \
	"  --focus RE           only stacks with a matching function, file or module\n"            \
	"  --ignore RE          no stacks with a matching function, file or module\n"              \
	"  --hide RE            leave matching frames out of the stacks\n"                         \
	"  --thread NAME|TID    only what this thread allocated (RE for names)\n"                  \
	"  --heap LIST          only blocks of these heaps: malloc, ocaml (minor and major),\n"    \
	"                       ocaml-minor, ocaml-major, external (held by OCaml blocks),\n"      \
	"                       pool (of allocators of the program's own), pool-mapped (those\n"   \
	"                       that malloc does not know), all (also memory that is recorded\n"   \
	"                       twice: see the man page)\n"                                        \
	"  --label RE           only blocks with a label KEY=VALUE that matches\n"                 \
	"  --min-size B, --max-size B           only blocks of this size\n"                        \
	"  --min-lifetime T, --max-lifetime T   only blocks that lived this long\n"

/* Everything, at the peak. */
void question_init(struct question *q);
void question_free(struct question *q);

/* Whether a value of getopt_long() is one of the options above. */
bool question_has(int option);
/* False after a line on stderr. */
bool question_set(struct question *q, int option, const char *value);
/* After all options, before q->query is used: finds those that contradict one another. False after
 * a line on stderr. q must stay where it is from now on. */
bool question_check(struct question *q);

/* When no metric was asked for, and the usual one is not known of this trace, another one. After
 * question_check(). */
void question_fit(struct question *q, const struct mayfly_info *info);

/* Of what was asked, what a trace of snapshots does not hold: "--by thread"; NULL: nothing. */
const char *question_needs_blocks(const struct question *q);

/* Whether the question needs what the trace lacks because of the file that it was converted from:
 * then a line on stderr has said so. */
bool absent_said(const char *path, const struct mayfly_trace *trace, const struct question *q);

#endif
