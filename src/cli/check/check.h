/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly check, in parts:
 *
 *	cmd_check.c		options
 *	check_limits.c		limits, from options and from files
 *	answer/limits.c		the verdicts, and these as JSON
 *	check_output.c		the verdicts as text and as JUnit's XML
 *
 * A file of limits has one on each line, and # begins a comment:
 *
 *	METRIC LIMIT [function RE]	peak 10M function ^parse
 */
#ifndef MAYFLY_CHECK_H
#define MAYFLY_CHECK_H

#include "answer/limits.h"
#include "cli/report/report.h"
#include "cli/input/list_file.h"

/* Each returns false after a line on stderr. option: "--max-peak". */
bool check_add(struct limits *l, const char *option, enum limit_metric metric, const char *value);
bool check_add_increases(struct limits *l, const char *option, const char *list);
bool check_add_file(struct limits *l, const char *path);
void check_free(struct limits *l);

/* ---- check_output.c ---- */

void check_print_text(const struct report *r, const struct limits *limits);
/* What other intervals would see. */
void check_print_plan(const struct report *r, const struct limits *limits);
/* An exit status, CLI_OK when it was written. */
int check_write_junit(const char *path, const struct report *r, const struct limits *limits);

#endif
