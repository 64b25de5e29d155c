/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options: sizes, times, counts, names, patterns.
 *
 * Each function takes the option as the user knows it ("--top") for the message. When the value is
 * invalid, it says so in *c and returns false.
 */
#ifndef MAYFLY_OPTION_VALUES_H
#define MAYFLY_OPTION_VALUES_H

#include "question/error_line.h"

#include <mayfly/trace.h>

/* "4096", "512K", "1.5M", "2G", also KB and KiB: powers of 1024. */
bool option_bytes(const char *option, const char *text, uint64_t *bytes, struct error_line *c);

/* "250ms", "1.5s", "10us", "3m", "2h", "100ns"; a plain number is seconds. */
bool option_time(const char *option, const char *text, int64_t *ns, struct error_line *c);

bool option_count(const char *option, const char *text, size_t *count, struct error_line *c);

/* The index of `text` in a list that ends with NULL. */
/* The beginning of a word is enough when no other word has it. */
bool option_choice(const char *option, const char *text, const char *const *choices, int *index,
		   struct error_line *c);

struct expression;

/* Any number of regular expressions (match/expression.h); matches when one of them does. */
struct pattern {
	struct expression **expression;
	size_t count, room;
};

bool pattern_add(struct pattern *p, const char *option, const char *text, struct error_line *c);
/* As above, but a text of digits only matches that number and no longer one. */
bool pattern_add_thread(struct pattern *p, const char *option, const char *text,
			struct error_line *c);
void pattern_free(struct pattern *p);

/* The pattern as the library takes it; "no match function" when the pattern is empty. */
struct mayfly_match pattern_match(struct pattern *p);

#endif
