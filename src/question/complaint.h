/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with a value or a question: one line, for whoever asked. The command line prints it,
 * the page shows it.
 */
#ifndef MAYFLY_COMPLAINT_H
#define MAYFLY_COMPLAINT_H

#include <stdbool.h>

#include "answer/text_format.h"

struct complaint {
	char text[1024]; /* "": nothing is wrong, or a line on stderr has said it */
	bool failed;	 /* what was asked for is right, but could not be done */
};

/* complain(c, FORMAT, ...) is false. A longer text is cut. */
#define complain(c, ...) (text_format((c)->text, sizeof((c)->text), __VA_ARGS__), false)

#endif
