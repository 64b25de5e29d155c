/* SPDX-License-Identifier: Apache-2.0 */
/* How all commands report errors, and their exit statuses. */
#ifndef MAYFLY_MESSAGE_H
#define MAYFLY_MESSAGE_H

#include <stdbool.h>

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,	   /* the command could not do what it was asked to do */
	CLI_USAGE = 2,	   /* usage error */
	CLI_UNDECIDED = 3, /* of check: the trace cannot tell */
};

/* Names the command for cli_usage(); "" before one is known. */
void cli_begin(const char *command);

/* One line on stderr, "mayfly: ..."; control characters in it become '?'. Returns CLI_FAILED. */
int cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line on stderr, "mayfly COMMAND: ... (see 'mayfly COMMAND --help')"; returns CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same in functions that return whether all is well: false. */
#define cli_fail(...)	(cli_error(__VA_ARGS__), false)
#define cli_refuse(...) (cli_usage(__VA_ARGS__), false)

/* Flushes standard output; CLI_FAILED with a line on stderr when not everything could be written.
 */
int cli_finish(void);

#endif
