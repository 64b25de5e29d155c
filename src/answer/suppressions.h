/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaks that are not to be reported: lists in the syntax of LeakSanitizer.
 *
 *	# a comment
 *	leak:libfontconfig
 *	leak:^my_cache_*_init$
 *
 * A stack is suppressed when the name of a function, a source file or a module on it holds a
 * pattern: anywhere, unless ^ ties it to the beginning or $ to the end; * stands for anything.
 */
#ifndef MAYFLY_SUPPRESSIONS_H
#define MAYFLY_SUPPRESSIONS_H

#include <mayfly/trace.h>
#include <stddef.h>

#include "answer/json_writer.h"

struct suppression {
	char *pattern;
	const char *file; /* NULL: the built-in list */
	size_t line;
	/* What it suppressed. A stack counts for the first match, searched from its leaf. */
	size_t stacks;
	uint64_t samples;
	double bytes, blocks;
};

struct suppressions {
	struct suppression *item;
	size_t count, room;
	struct mayfly_match also; /* what else is ignored, without being suppressed; may be empty */
};

#define SUPPRESSIONS_NONE SIZE_MAX

/* What libc, the dynamic loader and the C++ library keep until the end of every program. */
extern const char suppressions_default[];

struct suppression_line {
	const char *text; /* without spaces around it; NULL: there was no memory for it */
	size_t length, number;
};

/* Adds a list. file: its name, which must stay valid; NULL: the built-in list. False: a line is not
 * a suppression. */
bool suppressions_add(struct suppressions *s, const char *text, size_t size, const char *file,
		      struct suppression_line *bad);
void suppressions_free(struct suppressions *s);

/* The first pattern that matches; SUPPRESSIONS_NONE. */
size_t suppressions_find(const struct suppressions *s, const char *text);
/* For queries, to ignore what is suppressed, and `also`. */
struct mayfly_match suppressions_match(struct suppressions *s);

/* Counts what each pattern suppresses of the answer. 0 or a negative enum mayfly_error. */
int suppressions_account(struct suppressions *s, const struct mayfly_trace *trace,
			 const struct mayfly_query *query);

/* The sum over all patterns. */
struct suppressed {
	size_t stacks, patterns;
	uint64_t samples;
	double bytes, blocks;
};

struct suppressed suppressions_sum(const struct suppressions *s);
void json_suppressed(struct json *j, const char *key, const struct suppressions *s);

#endif
