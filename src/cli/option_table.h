/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a command: one row each (question/option_row.h). From the rows come the parsing, the text of --help and
 * the completion of the shell; tests compare them with the man pages.
 *
 * -h, --help and those of terminal.h are options of every command and need no row.
 */
#ifndef MAYFLY_OPTION_TABLE_H
#define MAYFLY_OPTION_TABLE_H

#include "terminal/message.h"
#include "question/option_row.h"

struct option_hint {
	const char *option; /* "--format" */
	const char *hint;
};

struct option_table {
	const char *usage; /* "report [OPTIONS] FILE" */
	const char *about;
	void (*print_more)(void); /* after that; may be NULL */
	const struct option_row *rows;
	const char *notes; /* below the options; may be NULL */
	/* Options of other programs, and how to get that here; ends with NULL. May be NULL. */
	const struct option_hint *hints;
	bool stops; /* at the first operand: the rest belongs to another program */
};

/* Takes all options (and sets optind to the first operand). OPTIONS_TAKEN, or the exit status: after
 * --help, or after a line on stderr. */
#define OPTIONS_TAKEN (-1)
int options_take(const struct option_table *table, void *into, int argc, char **argv);

/* For the completion of the shell, a line for each option and letter: "--sampler stratified
 * poisson". "-" stands for a value that nothing is known of; options without a value stand alone. */
void options_print_words(const struct option_table *table);

#endif
