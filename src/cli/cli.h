/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all commands share: the commands themselves, exit codes, and how errors are said.
 *
 * A command gets its own argc and argv (argv[0] is its name) and returns an exit status.
 */
#ifndef MAYFLY_CLI_H
#define MAYFLY_CLI_H

#include <stdbool.h>

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1, /* the command could not do what was asked */
	CLI_USAGE = 2,	/* it was asked wrongly */
};

int cmd_record(int argc, char **argv);
int cmd_receive(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_leaks(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_check(int argc, char **argv);

/* One line on stderr, "mayfly: ..."; returns CLI_FAILED. */
int cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line on stderr, "mayfly COMMAND: ... (see 'mayfly COMMAND --help')"; returns CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For getopt_long with opterr = 0 and an option string that begins with ':' ("+:" too): says what
 * is wrong when it returned '?' or ':'; returns CLI_USAGE. */
int cli_bad_option(int result, char **argv);

/* Flushes standard output; CLI_FAILED with a line on stderr when not everything could be written.
 */
int cli_finish(void);

#endif
