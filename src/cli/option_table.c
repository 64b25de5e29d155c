/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a command: see option_table.h. */
#include "cli/option_table.h"

#include <getopt.h>
#include <string.h>

#include "cli/nearest.h"
#include "terminal/output.h"
#include "terminal/terminal.h"

#define HELP_COLUMNS 90
#define MOST_INDENT  27 /* of the texts beside the options */

static const struct option_row help_row = {"help", 'h',
					   .help = "print this text; with --all, all options"};

/* ---- help ---- */

/* "  -o, --output FILE"; returns its length. */
static int put_option(char *text, size_t size, const struct option_row *row)
{
	char letter[5] = {'-', row->letter, ',', ' ', 0};
	const char *argument = row->argument ? row->argument : "";

	return snprintf(text, size, "  %s--%s%s%s", row->letter ? letter : "    ", row->name,
			*argument && *argument != '[' ? " " : "", argument);
}

/* The help of an option from column `indent` on, where the cursor is. */
static void print_filled(const char *help, int indent)
{
	int column = indent;

	while (*help) {
		int length = (int)strcspn(help, " ");

		if (column > indent && column + 1 + length > HELP_COLUMNS) {
			printf("\n%*s", indent, "");
			column = indent;
		}
		column += printf("%s%.*s", column > indent ? " " : "", length, help);
		help += length;
		help += strspn(help, " ");
	}
	putchar('\n');
}

static void print_option(const struct option_row *row, int indent)
{
	char left[128];
	int length = put_option(left, sizeof(left), row);

	fputs(left, stdout);
	if (length + 2 > indent)
		printf("\n%*s", indent, "");
	else
		printf("%*s", indent - length, "");
	print_filled(row->help, indent);
}

/* Headings are shown when a row below them is. */
static bool is_shown(const struct flat_row *flat, size_t count, size_t i, bool all)
{
	if (flat[i].row->name)
		return !flat[i].row->gone && (all || !flat[i].row->rare);
	for (i++; i < count && flat[i].row->name; i++)
		if (is_shown(flat, count, i, all))
			return true;
	return false;
}

static int left_columns(const struct flat_row *flat, size_t count, bool all)
{
	int indent = 0;

	for (size_t i = 0; i < count; i++) {
		char left[128];
		int length = flat[i].row->name && is_shown(flat, count, i, all)
				 ? put_option(left, sizeof(left), flat[i].row)
				 : 0;

		if (length + 2 > indent && length + 2 <= MOST_INDENT)
			indent = length + 2;
	}
	return indent;
}

static void print_help(const struct option_table *table, bool all)
{
	struct flat_row flat[MOST_OPTIONS];
	size_t count = option_rows_flatten(table->rows, 0, flat, 0), more = 0;
	int indent = left_columns(flat, count, all);

	printf("Usage: mayfly %s\n\n%s", table->usage, table->about);
	if (table->print_more)
		table->print_more();
	if (flat[0].row->name)
		putchar('\n');
	for (size_t i = 0; i < count; i++) {
		more += flat[i].row->rare && !flat[i].row->gone && !all;
		if (!is_shown(flat, count, i, all))
			continue;
		if (flat[i].row->name)
			print_option(flat[i].row, indent);
		else
			printf("\n%s\n", flat[i].row->help);
	}
	print_option(&help_row, indent);
	if (table->notes)
		printf("\n%s", table->notes);
	if (more)
		printf("%s--help --all lists %zu more %s.\n", table->notes ? "" : "\n", more,
		       more == 1 ? "option" : "options");
}

/* ---- parsing ---- */

/* getopt_long() returns this plus the number of the row. */
#define FIRST_ROW 256

static void add_row(const struct option_row *row, size_t number, struct option *option,
		    char **letters)
{
	*option = (struct option){.name = row->name,
				  .has_arg = !row->argument	     ? no_argument
					     : *row->argument == '[' ? optional_argument
								     : required_argument,
				  .val = FIRST_ROW + (int)number};
	if (!row->letter)
		return;
	*(*letters)++ = row->letter;
	if (row->argument)
		*(*letters)++ = ':';
}

static size_t number_of_letter(const struct flat_row *flat, size_t count, int letter)
{
	for (size_t i = 0; i < count; i++)
		if (flat[i].row->letter == letter)
			return i;
	return count;
}

static int say_unknown(const struct option_table *table, const char *name, int length)
{
	struct flat_row flat[MOST_OPTIONS];
	size_t count = option_rows_flatten(table->rows, 0, flat, 0);
	char option[64];
	struct nearest nearest;

	snprintf(option, sizeof(option), "%.*s", length, name);
	if (strcmp(option, "--html") == 0)
		return cli_usage(
		    "unknown option '--html'; 'mayfly view --html OUT FILE' writes the page");
	for (const struct option_hint *h = table->hints; h && h->option; h++)
		if (strcmp(h->option, option) == 0)
			return cli_usage("unknown option '%s'; %s", option, h->hint);
	nearest = nearest_to(option + strspn(option, "-"));
	for (size_t i = 0; i < count; i++)
		if (flat[i].row->name && !flat[i].row->gone && option[1] == '-')
			nearest_offer(&nearest, flat[i].row->name);
	if (nearest.best)
		return cli_usage("unknown option '%s'; did you mean '--%s'?", option, nearest.best);
	return cli_usage("unknown option '%.*s'", length, name);
}

/* What is wrong when getopt_long() returned '?' or ':'. */
static int say_bad_option(const struct option_table *table, int result, char **argv)
{
	/* optopt is 0 for an unknown long option, and the option itself for a short one. */
	const char *argument = optind > 0 ? argv[optind - 1] : "";
	bool has_value = strchr(argument, '=') != NULL;
	bool is_long =
	    strncmp(argument, "--", 2) == 0 && (result == ':' || optopt == 0 || has_value);
	char letter[3] = {'-', (char)optopt, 0};
	const char *name = is_long ? argument : letter;
	int length = (int)strcspn(name, "=");

	if (result == ':')
		return cli_usage("option '%.*s' needs a value", length, name);
	if (is_long && optopt)
		return cli_usage("option '%.*s' takes no value", length, name);
	return say_unknown(table, name, length);
}

/* Whether "--all" stands beside --help. */
static bool wants_all(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--all") == 0)
			return true;
	return false;
}

int options_take(const struct option_table *table, void *into, int argc, char **argv)
{
	struct flat_row flat[MOST_OPTIONS];
	struct option option[MOST_OPTIONS + 2] = {{0}};
	char letters[2 * MOST_OPTIONS + 4] = "+:", *end = letters + 2;
	size_t count = option_rows_flatten(table->rows, 0, flat, 0), options = 0, number;
	struct error_line error_line = {0};
	int found;

	flat[count++] = (struct flat_row){&help_row, 0};
	count = option_rows_flatten(terminal_rows, 0, flat, count);
	for (size_t i = 0; i < count; i++)
		if (flat[i].row->name)
			add_row(flat[i].row, i, &option[options++], &end);
	*end = 0;
	opterr = 0;
	optind = 0;
	while ((found = getopt_long(argc, argv, letters + !table->stops, option, NULL)) != -1) {
		char said[64];

		if (found == '?' || found == ':')
			return say_bad_option(table, found, argv);
		number = found >= FIRST_ROW ? (size_t)(found - FIRST_ROW)
					    : number_of_letter(flat, count, found);
		if (flat[number].row == &help_row) {
			pager_start();
			print_help(table, wants_all(argc, argv));
			return cli_finish();
		}
		if (flat[number].row->gone)
			cli_error("--%s is no longer an option: %s", flat[number].row->name,
				  flat[number].row->gone);
		if (!flat[number].row->take)
			continue;
		snprintf(said, sizeof(said), "--%s", flat[number].row->name);
		if (!option_row_take(&flat[number], said, optarg, into, &error_line))
			return *error_line.text	   ? cli_usage("%s", error_line.text)
			       : error_line.failed ? CLI_FAILED
						   : CLI_USAGE;
	}
	return OPTIONS_TAKEN;
}

/* ---- completion ---- */

static void print_words(const struct option_row *row)
{
	if (row->argument && *row->argument == '[')
		; /* a word after the option would not be its value */
	else if (row->list_words)
		row->list_words();
	else if (row->choices)
		for (size_t i = 0; row->choices[i]; i++)
			printf(" %s", row->choices[i]);
	else if (row->argument)
		printf(" %s", row->words ? row->words : "-");
	putchar('\n');
}

void options_print_words(const struct option_table *table)
{
	struct flat_row flat[MOST_OPTIONS + 1];
	size_t count = option_rows_flatten(table->rows, 0, flat, 0);

	flat[count++] = (struct flat_row){&help_row, 0};
	for (size_t i = 0; i < count; i++) {
		const struct option_row *row = flat[i].row;

		if (!row->name || row->gone)
			continue;
		printf("--%s", row->name);
		print_words(row);
		if (row->letter) {
			printf("-%c", row->letter);
			print_words(row);
		}
	}
}
