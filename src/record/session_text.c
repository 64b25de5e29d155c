/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: texts that it makes, and reports to the command. */
#include "record/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

char *record_format(const char *text, ...)
{
	va_list arguments;
	char *made;
	int length;

	va_start(arguments, text);
	length = vasprintf(&made, text, arguments);
	va_end(arguments);
	return length < 0 ? NULL : made;
}

void record_say(const struct record *r, const char *text, ...)
{
	va_list arguments;
	char *made;
	int length;

	va_start(arguments, text);
	length = vasprintf(&made, text, arguments);
	va_end(arguments);
	r->say(r->say_context, length < 0 ? "out of memory" : made);
	if (length >= 0)
		free(made);
}

bool record_no_memory(const struct record *r)
{
	record_say(r, "out of memory");
	return false;
}
