/* SPDX-License-Identifier: Apache-2.0 */
/* A function as users name it: by its name as it is shown, or else by a pattern. */
#ifndef MAYFLY_FUNCTION_CHOICE_H
#define MAYFLY_FUNCTION_CHOICE_H

#include "query/calls_tree.h"

struct function_choice {
	const char *name;
	struct mayfly_match pattern; /* for other names; .matches may be NULL */
};

/* Whether a function of the trace has this name: then it needs no pattern. */
bool trace_has_function(const struct mayfly_trace *trace, const char *name);

/* choice must stay where it is while the match is used. */
struct calls_match function_choice_match(struct function_choice *choice);

#endif
