/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a command: see option_table.h. */
#include "cli/option_table.h"

#include <getopt.h>
#include <string.h>

#include "cli/output.h"
#include "answer/text_format.h"

#define MOST_OPTIONS 64
#define HELP_COLUMNS 90
#define MOST_INDENT  27 /* of the texts beside the options */

static const struct option_row help_row = {"help", 'h', .help = "print this text"};

/* ---- values ---- */

int option_take_flag(const struct given *given, void *to)
{
	(void)given;
	*(bool *)to = true;
	return CLI_OK;
}

int option_take_text(const struct given *given, void *to)
{
	*(const char **)to = given->value;
	return CLI_OK;
}

int option_take_file(const struct given *given, void *to)
{
	if (!*given->value)
		return cli_usage("%s: the name is empty", given->option);
	return option_take_text(given, to);
}

typedef char *limit_text(char *buffer, size_t size, double limit);

static char *count_text(char *buffer, size_t size, double count)
{
	return text_format(buffer, size, "%.0f", count);
}

static int check_range(const struct given *given, uint64_t number, limit_text *text)
{
	const struct option_row *row = given->row;
	char least[FIGURE_TEXT], most[FIGURE_TEXT];

	if (number >= row->least && (!row->most || number <= row->most))
		return CLI_OK;
	text(least, sizeof(least), (double)row->least);
	if (!row->most)
		return cli_usage("%s: '%s' is too small; the minimum is %s", given->option,
				 given->value, least);
	return cli_usage("%s: '%s' is out of range: %s to %s", given->option, given->value, least,
			 text(most, sizeof(most), (double)row->most));
}

int option_take_bytes(const struct given *given, void *to)
{
	uint64_t *bytes = to;

	if (!option_bytes(given->option, given->value, bytes))
		return CLI_USAGE;
	return check_range(given, *bytes, text_bytes);
}

int option_take_time(const struct given *given, void *to)
{
	int64_t *ns = to;

	if (!option_time(given->option, given->value, ns))
		return CLI_USAGE;
	return check_range(given, (uint64_t)*ns, text_duration);
}

int option_take_count(const struct given *given, void *to)
{
	size_t *count = to;

	if (!option_count(given->option, given->value, count))
		return CLI_USAGE;
	return check_range(given, *count, count_text);
}

int option_take_pattern(const struct given *given, void *to)
{
	return pattern_add(to, given->option, given->value) ? CLI_OK : CLI_USAGE;
}

int option_take_choice(const struct given *given, void *to)
{
	return option_choice(given->option, given->value, given->row->choices, to) ? CLI_OK
										   : CLI_USAGE;
}

/* ---- the rows, one after the other ---- */

static bool is_end(const struct option_row *row)
{
	return !row->name && !row->help && !row->group;
}

/* A row and where the struct that it stores into lies in the command's; headings and the rows of
 * groups, too. */
struct flat_row {
	const struct option_row *row;
	size_t base;
};

static size_t flatten(const struct option_row *rows, size_t base, struct flat_row *flat,
		      size_t used)
{
	for (const struct option_row *row = rows; !is_end(row) && used < MOST_OPTIONS; row++) {
		if (row->group)
			used = flatten(row->group, base + row->at, flat, used);
		else
			flat[used++] = (struct flat_row){row, base};
	}
	return used;
}

static int take(const struct flat_row *f, const char *said, const char *value, void *into)
{
	const struct given given = {f->row, said, value};
	char *base = (char *)into + f->base;

	if (f->row->given)
		*(bool *)(base + f->row->given - 1) = true;
	return f->row->take(&given, base + f->row->at);
}

int options_take_one(const struct option_row *rows, const char *name, const char *said,
		     const char *value, void *into)
{
	struct flat_row flat[MOST_OPTIONS];
	size_t count = flatten(rows, 0, flat, 0);

	for (size_t i = 0; i < count; i++) {
		const struct option_row *row = flat[i].row;

		if (row->name && !strcmp(row->name, name))
			return row->take(&(struct given){row, said, value},
					 (char *)into + flat[i].base + row->at);
	}
	return CLI_USAGE;
}

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

static void print_help(const struct option_table *table)
{
	struct flat_row flat[MOST_OPTIONS];
	size_t count = flatten(table->rows, 0, flat, 0);
	int indent = 0;

	for (size_t i = 0; i < count; i++) {
		char left[128];
		int length = flat[i].row->name ? put_option(left, sizeof(left), flat[i].row) : 0;

		if (length + 2 > indent && length + 2 <= MOST_INDENT)
			indent = length + 2;
	}
	printf("Usage: mayfly %s\n\n%s", table->usage, table->about);
	if (table->print_more)
		table->print_more();
	if (flat[0].row->name)
		putchar('\n');
	for (size_t i = 0; i < count; i++) {
		if (flat[i].row->name)
			print_option(flat[i].row, indent);
		else
			printf("\n%s\n", flat[i].row->help);
	}
	print_option(&help_row, indent);
	if (table->notes)
		printf("\n%s", table->notes);
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

/* What is wrong when getopt_long() returned '?' or ':'. */
static int say_bad_option(int result, char **argv)
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
	return cli_usage("unknown option '%.*s'", length, name);
}

int options_take(const struct option_table *table, void *into, int argc, char **argv)
{
	struct flat_row flat[MOST_OPTIONS + 1];
	struct option option[MOST_OPTIONS + 2] = {{0}};
	char letters[2 * MOST_OPTIONS + 4] = "+:", *end = letters + 2;
	size_t count = flatten(table->rows, 0, flat, 0), options = 0, number;
	int found, status;

	flat[count++] = (struct flat_row){&help_row, 0};
	for (size_t i = 0; i < count; i++)
		if (flat[i].row->name)
			add_row(flat[i].row, i, &option[options++], &end);
	*end = 0;
	opterr = 0;
	optind = 0;
	while ((found = getopt_long(argc, argv, letters + !table->stops, option, NULL)) != -1) {
		char said[64];

		if (found == '?' || found == ':')
			return say_bad_option(found, argv);
		number = found >= FIRST_ROW ? (size_t)(found - FIRST_ROW)
					    : number_of_letter(flat, count, found);
		if (flat[number].row == &help_row) {
			print_help(table);
			return cli_finish();
		}
		snprintf(said, sizeof(said), "--%s", flat[number].row->name);
		status = take(&flat[number], said, optarg, into);
		if (status != CLI_OK)
			return status;
	}
	return OPTIONS_TAKEN;
}

/* ---- completion ---- */

static void print_words(const struct option_row *row)
{
	if (row->list_words)
		row->list_words(stdout);
	else if (row->choices)
		for (size_t i = 0; row->choices[i]; i++)
			printf(" %s", row->choices[i]);
	else if (row->argument && *row->argument != '[')
		printf(" %s", row->words ? row->words : "-");
	putchar('\n');
}

void options_print_words(const struct option_table *table)
{
	struct flat_row flat[MOST_OPTIONS + 1];
	size_t count = flatten(table->rows, 0, flat, 0);

	flat[count++] = (struct flat_row){&help_row, 0};
	for (size_t i = 0; i < count; i++) {
		const struct option_row *row = flat[i].row;

		if (!row->name)
			continue;
		printf("--%s", row->name);
		print_words(row);
		if (row->letter) {
			printf("-%c", row->letter);
			print_words(row);
		}
	}
}
