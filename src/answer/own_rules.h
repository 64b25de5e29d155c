/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's rules for what is the program's own code. A text with one rule on a line:
 *
 *	# a comment
 *	library ^boost::
 *	library /libprotobuf[^/]*$
 *	mine    ^std::my_allocator
 *
 * After the word stands a POSIX extended regular expression, for the function, the source file or
 * the module. The first rule that matches decides.
 */
#ifndef MAYFLY_OWN_RULES_H
#define MAYFLY_OWN_RULES_H

#include <stdbool.h>
#include <stddef.h>

struct expression;

struct own_rule {
	struct expression *expression;
	bool mine;
};

struct own_rules {
	struct own_rule *rule;
	size_t count, room;
};

/* Where a list is wrong. */
struct own_rules_problem {
	size_t line; /* from 1; 0: out of memory */
	char text[160];
};

/* Adds the rules after those that are there. False: *problem says why. */
bool own_rules_add(struct own_rules *rules, const char *text, size_t size,
		   struct own_rules_problem *problem);
void own_rules_free(struct own_rules *rules);

/* The rule for a place; NULL: there is none. */
const struct own_rule *own_rules_find(const struct own_rules *rules, const char *function,
				      const char *file, const char *module);

#endif
