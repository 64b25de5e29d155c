/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and exit statuses: see message.h. */
#include "terminal/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/border.h"
#include "terminal/fit_text.h"

static const char *current_command = "";

void cli_begin(const char *command)
{
	current_command = command;
}

/* Names of files and what a server answered may contain anything; a message stays one line. */
static void say(const char *format, va_list arguments)
{
	char *text, *clean = NULL;
	int length = vasprintf(&text, format, arguments);

	fflush(stdout);
	if (length >= 0)
		clean = malloc((size_t)length + 1);
	fputs(clean ? text_clean(clean, (size_t)length + 1, text) : "out of memory", stderr);
	free(clean);
	if (length >= 0)
		free(text);
}

int cli_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("mayfly: ", stderr);
	say(format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	return CLI_FAILED;
}

int cli_usage(const char *format, ...)
{
	const char *space = *current_command ? " " : "";
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "mayfly%s%s: ", space, current_command);
	say(format, arguments);
	fprintf(stderr, " (see 'mayfly%s%s --help')\n", space, current_command);
	va_end(arguments);
	return CLI_USAGE;
}

int cli_finish(void)
{
	int error = border_flush();

	return error ? cli_error("standard output: %s", strerror(error)) : CLI_OK;
}
