/* SPDX-License-Identifier: Apache-2.0 */
/* The mayfly program: finds the command and runs it. */
#include "terminal/border.h"
#include "cli/cli.h"
#include "cli/input/file_kind.h"
#include "cli/nearest.h"
#include "cli/option_table.h"
#include "terminal/terminal.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const struct option_table *options;
	const char *help;
} commands[] = {
    {"record", cmd_record, &record_option_table, "run a program and write a trace"},
    {"attach", cmd_attach, &attach_option_table, "record a program that runs already"},
    {"detach", cmd_detach, &detach_option_table, "end that; the program runs on"},
    {"receive", cmd_receive, &receive_option_table, "receive a trace that record --stream sends"},
    {"report", cmd_report, &report_option_table,
     "show where the memory is, by function, line, stack, ..."},
    {"view", cmd_view, &view_option_table, "show a trace in the browser"},
    {"top", cmd_top, &top_option_table, "show on the terminal where a running program's memory is"},
    {"heap", cmd_heap, &heap_option_table,
     "show who holds the memory of a process: variables, stacks, nothing"},
    {"ctl", cmd_ctl, &ctl_option_table, "steer a recording that goes on: on, off, interval, ..."},
    {"leaks", cmd_leaks, &leaks_option_table, "show what was never freed, by stack"},
    {"diff", cmd_diff, &diff_option_table, "compare two traces, and tell changes from chance"},
    {"check", cmd_check, &check_option_table,
     "fail when a program exceeds its memory limits, for CI"},
    {"merge", cmd_merge, &merge_option_table, "combine traces of several runs, builds or hosts"},
    {"push", cmd_push, &push_option_table,
     "send traces to a ClickHouse database, an OpenTelemetry collector or Pyroscope"},
    {"agent", cmd_agent, &agent_option_table,
     "push for the processes of a host, and record a share of them"},
    {"fleet", cmd_fleet, &fleet_option_table,
     "make the database that push fills, and list what it holds"},
    {"symbolize", cmd_symbolize, &symbolize_option_table,
     "add names to a finished trace, from symbols installed later or elsewhere"},
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

/* What other profilers have, and how to get it here. */
static const struct hint {
	const char *word, *hint;
} hints[] = {
    {"run", "use 'mayfly record -- COMMAND'"},
    {"stat", "use 'mayfly info FILE'"},
    {"script", "use 'mayfly dump FILE'"},
    {"annotate", "use 'mayfly report --by line FILE'"},
    {"flamegraph", "use 'mayfly export --to flamegraph FILE'"},
};

static int unknown_command(const char *name)
{
	struct nearest nearest = nearest_to(name);

	for (size_t i = 0; i < sizeof(hints) / sizeof(*hints); i++)
		if (strcmp(hints[i].word, name) == 0)
			return cli_usage("there is no command '%s'; %s", name, hints[i].hint);
	for (size_t i = 0; i < COMMANDS; i++)
		nearest_offer(&nearest, commands[i].name);
	if (nearest.best)
		return cli_usage("there is no command '%s'; did you mean '%s'?", name,
				 nearest.best);
	if (file_in_path(name))
		return cli_usage(
		    "there is no command '%s'; 'mayfly record -- %s' records the program", name,
		    name);
	return cli_usage("there is no command '%s'", name);
}

/* A path instead of a command, or a file that has no command's name. */
static bool is_file(const char *name)
{
	static const char suffix[] = ".mayfly";
	size_t length = strlen(name), tail = sizeof(suffix) - 1;

	return strchr(name, '/') || (length > tail && strcmp(name + length - tail, suffix) == 0) ||
	       access(name, F_OK) == 0;
}

/* A trace is shown; a program can be recorded. */
static int run_file(int argc, char **argv)
{
	if (file_is_program(argv[1]))
		return cli_usage("'%s' is a program; 'mayfly record -- %s' records it", argv[1],
				 argv[1]);
	cli_begin("report");
	return cmd_report(argc, argv);
}

/* What several commands have to do with: where the manual says it. */
static const struct hint topics[] = {
    {"figures", "how sizes, errors and intervals are shown: man mayfly, HOW FIGURES ARE SHOWN"},
    {"formats",
     "files of other tools: man mayfly-export and man mayfly-import; our own: doc/FORMAT.md"},
    {"python", "programs in Python: man mayfly-record, PYTHON"},
    {"ocaml", "programs in OCaml: man mayfly-record, --ocaml; man mayfly-report, SURVIVAL"},
    {"containers", "what a container needs: doc/CONTAINERS.md"},
};

static const struct hint *find_topic(const char *name)
{
	for (size_t i = 0; i < sizeof(topics) / sizeof(*topics); i++)
		if (strcmp(topics[i].word, name) == 0)
			return &topics[i];
	return NULL;
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
	      "'mayfly COMMAND --help' lists a command's options; 'man mayfly' says more.\n"
	      "'mayfly help TOPIC' says where, for",
	      to);
	for (size_t i = 0; i < sizeof(topics) / sizeof(*topics); i++)
		fprintf(to, "%s %s", i ? "," : "", topics[i].word);
	fputs(".\n", to);
}

static int cmd_help(int argc, char **argv)
{
	char option[] = "--help";
	char *arguments[] = {NULL, option, argc > 2 ? argv[2] : NULL, NULL};
	const struct command *command;

	cli_begin("");
	pager_start();
	if (argc < 2 || strcmp(argv[1], "--help") == 0) {
		print_help(stdout);
		return cli_finish();
	}
	command = find_command(argv[1]);
	if (!command && find_topic(argv[1])) {
		puts(find_topic(argv[1])->hint);
		return cli_finish();
	}
	if (!command)
		return unknown_command(argv[1]);
	if (!command->options) {
		print_help(stdout);
		return cli_finish();
	}
	cli_begin(command->name);
	arguments[0] = argv[1];
	return command->run(argc > 2 ? 3 : 2, arguments);
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

/* Options before the command, as git has: --no-pager and --color. Returns how many, or -1 after a
 * line on stderr. */
static int take_terminal_options(int argc, char **argv)
{
	struct error_line error_line = {0};
	int taken = 0;

	for (char name[16], *option; taken + 1 < argc; taken++) {
		option = argv[taken + 1];
		if (strncmp(option, "--no-pager", 11) != 0 && strncmp(option, "--color", 7) != 0)
			break;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(option + 2, "="), option + 2);
		option = strchr(option, '=');
		if (option_rows_take(terminal_rows, name, argv[taken + 1],
				     option ? option + 1 : NULL, NULL, &error_line))
			continue;
		if (!*error_line.text)
			break;
		cli_usage("%s", error_line.text);
		return -1;
	}
	return taken;
}

static int run_command(int argc, char **argv)
{
	const struct command *command;

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
		return is_file(argv[1]) ? run_file(argc, argv) : unknown_command(argv[1]);
	cli_begin(command->name);
	return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int taken, status;

	setlocale(LC_CTYPE, "");
	border_begin();
	taken = take_terminal_options(argc, argv);
	if (taken < 0)
		return CLI_USAGE;
	status = run_command(argc - taken, argv + taken);
	return pager_finish(status);
}
