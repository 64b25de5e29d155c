/* SPDX-License-Identifier: Apache-2.0 */
/* The mayfly program: finds the command and runs it. */
#include "cli/cli.h"
#include "cli/option_table.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const struct option_table *options;
	const char *help;
} commands[] = {
    {"record", cmd_record, &record_option_table, "run a program and write a trace"},
    {"receive", cmd_receive, &receive_option_table, "receive a trace that record --stream sends"},
    {"report", cmd_report, &report_option_table,
     "show where the memory is, by function, line, stack, ..."},
    {"view", cmd_view, &view_option_table, "show a trace in the browser"},
    {"leaks", cmd_leaks, &leaks_option_table, "show what was never freed, by stack"},
    {"diff", cmd_diff, &diff_option_table, "compare two traces, and tell changes from chance"},
    {"check", cmd_check, &check_option_table,
     "fail when a program exceeds its memory limits, for CI"},
    {"merge", cmd_merge, &merge_option_table, "combine traces of several runs, builds or hosts"},
    {"info", cmd_info, &info_option_table, "describe a trace: program, times, counts, quality"},
    {"dump", cmd_dump, &dump_option_table, "print every event of a trace, one per line"},
    {"plan", cmd_plan, &plan_option_table, "show what each sampling interval would give and cost"},
    {"import", cmd_import, &import_option_table,
     "make a trace from a file of another tool, such as heaptrack"},
    {"export", cmd_export, &export_option_table,
     "write a trace as a file for another tool, such as pprof"},
    {"help", cmd_help, NULL, "print this list, or the help of a command"},
    {"version", cmd_version, NULL, "print the version"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

#define LONGEST_GUESS 32

/* The number of letters that must be inserted, deleted, changed or swapped with the next to get
 * from one word to the other (Damerau-Levenshtein distance). */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][LONGEST_GUESS + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2];
	size_t length = strlen(b);

	if (length > LONGEST_GUESS || strlen(a) > LONGEST_GUESS)
		return LONGEST_GUESS;
	for (size_t j = 0; j <= length; j++)
		last[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		now[0] = i;
		for (size_t j = 1; j <= length; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
		size_t *free_row = before;

		before = last;
		last = now;
		now = free_row;
	}
	return last[length];
}

static int unknown_command(const char *name)
{
	const struct command *nearest = NULL;
	size_t least = 4; /* more than 3 changes are not a typing error */

	for (size_t i = 0; i < COMMANDS; i++) {
		size_t d = distance(name, commands[i].name);

		if (d < least && d < strlen(commands[i].name)) {
			least = d;
			nearest = &commands[i];
		}
	}
	if (nearest)
		return cli_usage("there is no command '%s'; did you mean '%s'?", name,
				 nearest->name);
	return cli_usage("there is no command '%s'", name);
}

static void print_help(FILE *to)
{
	fputs("Usage: mayfly COMMAND [OPTIONS] [ARGUMENTS]\n"
	      "\n"
	      "mayfly finds out where a program's memory is: what is live, what was live at the\n"
	      "peak, what leaks, what dies young.\n"
	      "\n"
	      "Commands:\n",
	      to);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].help);
	fputs("\n"
	      "Start with:\n"
	      "  mayfly record -o my.mayfly -- my-program its-arguments\n"
	      "  mayfly report my.mayfly\n"
	      "\n"
	      "'mayfly COMMAND --help' lists a command's options; 'man mayfly' says more.\n",
	      to);
}

static int cmd_help(int argc, char **argv)
{
	char option[] = "--help";
	char *arguments[] = {NULL, option, NULL};
	const struct command *command;

	cli_begin("");
	if (argc < 2 || strcmp(argv[1], "--help") == 0) {
		print_help(stdout);
		return cli_finish();
	}
	command = find_command(argv[1]);
	if (!command)
		return unknown_command(argv[1]);
	if (!command->options) {
		print_help(stdout);
		return cli_finish();
	}
	cli_begin(command->name);
	arguments[0] = argv[1];
	return command->run(2, arguments);
}

static int cmd_version(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--help") == 0)
		return cmd_help(1, argv);
	if (argc > 1)
		return cli_usage("no arguments are allowed");
	puts("mayfly " MAYFLY_VERSION);
	return cli_finish();
}

/* For the completion of the shell: the commands, or the options of one. */
static int complete(const char *name)
{
	const struct command *command = name ? find_command(name) : NULL;

	if (command && command->options)
		options_print_words(command->options);
	for (size_t i = 0; i < COMMANDS && !name; i++)
		puts(commands[i].name);
	return cli_finish();
}

int main(int argc, char **argv)
{
	const struct command *command;

	setlocale(LC_CTYPE, "");
	if (argc < 2) {
		print_help(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cmd_help(1, argv);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return cmd_version(1, argv);
	if (strcmp(argv[1], "--complete") == 0)
		return complete(argv[2]);
	if (argv[1][0] == '-')
		return cli_usage("unknown option '%s'", argv[1]);
	command = find_command(argv[1]);
	if (!command)
		return unknown_command(argv[1]);
	cli_begin(command->name);
	return command->run(argc - 1, argv + 1);
}
