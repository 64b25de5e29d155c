/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a regular expression, a byte 0, a text. It is refused with a reason, or matches: twice the
 * same, and where it is a choice, as its parts do. */
#include "match/expression.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_main.h"

/* -1: refused. */
static int match(const char *expression, const char *text)
{
	const char *why = NULL;
	struct expression *e = expression_new(expression, &why);
	int found;

	if (!e && (!why || !*why))
		abort();
	if (!e)
		return -1;
	found = expression_matches(e, text);
	if (expression_matches(e, text) != (bool)found)
		abort();
	expression_free(e);
	return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *expression = malloc(size + 2), *both = malloc(2 * size + 16);
	const char *text;
	int found;

	memcpy(expression, data, size);
	memset(expression + size, 0, 2);
	text = expression + strlen(expression) + 1;
	found = match(expression, text);
	if (found >= 0) {
		int again;

		/* The same, spelled otherwise; the group may be one too many for the limits. */
		sprintf(both, "(%s)|(%s)", expression, expression);
		again = strchr(expression, ')') ? -1 : match(both, text);
		if (again >= 0 && again != found)
			abort();
		sprintf(both, "(%s)?", expression);
		again = strchr(expression, ')') ? -1 : match(both, text);
		if (!again)
			abort();
	}
	free(expression);
	free(both);
	return 0;
}
