/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with a value or a question: one line, for whoever asked. The command line prints it,
 * the page shows it.
 */
#ifndef MAYFLY_ERROR_LINE_H
#define MAYFLY_ERROR_LINE_H

#include <stdbool.h>

#include "answer/text_format.h"

struct error_line {
	char text[1024]; /* "": nothing is wrong, or a line on stderr has said it */
	bool failed;	 /* what was asked for is right, but could not be done */
};

/* error_say(c, FORMAT, ...) is false. A longer text is cut. */
#define error_say(c, ...) (text_format((c)->text, sizeof((c)->text), __VA_ARGS__), false)

#endif
