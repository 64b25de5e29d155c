/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly export: a trace as another tool's file. */
#include "cli.h"
#include "convert/formats.h"
#include "open_trace.h"
#include "places.h"
#include "target.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_head[] = "Usage: mayfly export --to FORMAT [OPTIONS] FILE\n"
				 "\n"
				 "Writes a trace as a file for another tool.\n"
				 "\n"
				 "  --to FORMAT        one of:\n";
static const char usage_tail[] =
    "  -o, --output OUT   the file; default FILE with the format's suffix; - is standard\n"
    "                     output\n"
    "      --force        replace OUT when it exists\n"
    "  -h, --help         this text\n";

static int print_usage(void)
{
	fputs(usage_head, stdout);
	for (const struct export_format *f = export_formats(); f->name; f++)
		printf("      %-12s %s (%s)\n", f->name, f->help, f->suffix);
	fputs(usage_tail, stdout);
	return cli_finish();
}

static int unknown_format(const char *name)
{
	char list[256] = "";
	size_t used = 0;

	for (const struct export_format *f = export_formats(); f->name; f++)
		if (used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
						 used ? ", " : "", f->name);
	if (!name)
		return cli_usage("which format? --to is one of: %s", list);
	return cli_usage("--to: '%s' is none of: %s", name, list);
}

/* The trace's name, with the format's suffix instead of ".mayfly". */
static char *default_output(const char *path, const struct export_format *format)
{
	size_t length = strlen(path);
	char *name;

	if (strcmp(path, "-") == 0)
		return strdup("-");
	if (length > 7 && strcmp(path + length - 7, ".mayfly") == 0 && path[length - 8] != '/')
		length -= 7;
	return asprintf(&name, "%.*s%s", (int)length, path, format->suffix) < 0 ? NULL : name;
}

static int convert(const char *path, const struct mayfly_trace *trace,
		   const struct export_format *format, struct target *target)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_query everything;
	struct export_options options = {"", &everything};
	char purpose[4096];
	int error;

	mayfly_query_defaults(&everything);
	/* The name alone is there anyway. */
	if (info->command_count > 1)
		options.purpose = command_line(purpose, sizeof(purpose), info);
	error = format->convert(trace, &options, target_sink, target);
	if (!error) {
		const char *left_out = format->left_out ? format->left_out(trace, &options) : NULL;

		if (!target_finish(target))
			return CLI_FAILED;
		if (left_out)
			cli_error("%s: left out: %s", path, left_out);
		return CLI_OK;
	}
	target_drop(target, error > 0 ? error : 0);
	if (error < 0)
		cli_error("%s: %s", path, mayfly_error_text(error));
	return CLI_FAILED;
}

static int export(const char *path, const struct export_format *format, const char *output,
		  bool force)
{
	struct opened_trace file;
	struct target target;
	int status = CLI_FAILED;

	if (strcmp(output, "-") == 0 && !format->text && isatty(STDOUT_FILENO))
		return cli_error("this format is nothing for a terminal; name a file with -o");
	if (!open_trace(path, &file))
		return CLI_FAILED;
	if (format->events && file.info->snapshot_ns)
		cli_error("%s: a trace of snapshots has no single blocks, which %s files are made "
			  "of; record without --snapshots",
			  path, format->name);
	else if (target_open(&target, output, force))
		status = convert(path, file.trace, format, &target);
	close_trace(&file);
	return status;
}

static int export_to(const char *path, const struct export_format *format, const char *output,
		     bool force)
{
	char *name = output ? strdup(output) : default_output(path, format);
	int status = name ? export(path, format, name, force) : cli_error("out of memory");

	free(name);
	return status;
}

int cmd_export(int argc, char **argv)
{
	static const struct option long_options[] = {{"to", required_argument, NULL, 't'},
						     {"output", required_argument, NULL, 'o'},
						     {"force", no_argument, NULL, 'f'},
						     {"help", no_argument, NULL, 'h'},
						     {NULL, 0, NULL, 0}};
	const struct export_format *format = NULL;
	const char *output = NULL;
	bool force = false;
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1) {
		switch (option) {
		case 't':
			format = export_find(optarg);
			if (!format)
				return unknown_format(optarg);
			break;
		case 'o':
			output = optarg;
			break;
		case 'f':
			force = true;
			break;
		case 'h':
			return print_usage();
		default:
			return cli_bad_option(option, argv);
		}
	}
	if (!format)
		return unknown_format(NULL);
	if (output && !*output)
		return cli_usage("--output: the name is empty");
	if (!one_trace_named(argc, argv))
		return CLI_USAGE;
	return export_to(argv[optind], format, output, force);
}
