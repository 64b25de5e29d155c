/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: texts that it makes, and reports to the command. */
#include "record/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static char *format_list(const char *text, va_list arguments)
{
	char *made;

	return vasprintf(&made, text, arguments) < 0 ? NULL : made;
}

char *record_format(const char *text, ...)
{
	va_list arguments;
	char *made;

	va_start(arguments, text);
	made = format_list(text, arguments);
	va_end(arguments);
	return made;
}

void record_say(const struct record *r, const char *text, ...)
{
	va_list arguments;
	char *made;

	va_start(arguments, text);
	made = format_list(text, arguments);
	va_end(arguments);
	r->say(r->say_context, made ? made : "out of memory");
	free(made);
}

bool record_no_memory(const struct record *r)
{
	record_say(r, "out of memory");
	return false;
}
