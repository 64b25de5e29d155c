/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and exit statuses: see message.h. */
#include "cli/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *current_command = "";

void cli_begin(const char *command)
{
	current_command = command;
}

static void say(const char *format, va_list arguments)
{
	fflush(stdout);
	vfprintf(stderr, format, arguments);
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
	if (fflush(stdout) != 0 || ferror(stdout))
		return cli_error("standard output: %s", strerror(errno ? errno : EIO));
	return CLI_OK;
}
