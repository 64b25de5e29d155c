/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly export: a trace as another tool's file. */
#include "answer/trace_names.h"
#include "answer/figures.h"
#include "answer/text_format.h"
#include "cli/cli.h"
#include "fleet/push/named_process.h"
#include "cli/option_table.h"
#include "cli/question_said.h"
#include "convert/export/exporter.h"
#include "cli/input/open_trace.h"
#include "question/question.h"
#include "cli/target.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct export
{
	const struct export_format *format;
	const char *output;
	bool force, rows_given, samples;
	int rows; /* of row_names */
	struct named_process process;
	struct question q;
	struct opened_trace file;
};

/* ---- options ---- */

static bool unknown_format(const char *name)
{
	char list[256] = "";

	for (const struct export_format *f = export_formats(); f->name; f++)
		text_append(list, sizeof(list), "%s%s", *list ? ", " : "", f->name);
	if (!name)
		return cli_refuse("no format given; --to is one of: %s", list);
	return cli_refuse("--to: '%s' is none of: %s", name, list);
}

static void list_formats(void)
{
	for (const struct export_format *f = export_formats(); f->name; f++)
		printf(" %s", f->name);
}

static void print_formats(void)
{
	for (const struct export_format *f = export_formats(); f->name; f++)
		printf("      %-10s %s (%s)\n", f->name, f->help, f->suffix);
}

/* A format, or the end of a window as in other commands: no format begins with a digit. */
static bool take_to(const struct given *given, void *to)
{
	struct export *x = to;

	if (isdigit((unsigned char)*given->value)) {
		x->q.window_given = true;
		return option_rows_take(question_window_rows, "to", given->option, given->value,
					&x->q, given->error_line);
	}
	x->format = export_find(given->value);
	return x->format || unknown_format(given->value);
}

static const char *const row_names[] = {"stacks", "samples", NULL};

static const struct option_row export_rows[] = {
    {"to", .argument = "FORMAT|TIME", .list_words = list_formats, OPTION_OWN(take_to),
     .help = "the format of OUT, one of the above; or the end of the time window, see --from"},
    {"output", 'o', "OUT", OPTION_FILE(struct export, output), .words = OPTION_FILES,
     .help = "the file (default FILE with the format's suffix); - is standard output"},
    {"force", .help = "replace OUT when it exists", OPTION_FLAG(struct export, force)},
    {"rows", .rare = true, .argument = "stacks|samples",
     OPTION_CHOICE(row_names, struct export, rows), OPTION_GIVEN(struct export, rows_given),
     .help = "csv: one row for each stack (default) or sample; chrome and perfetto: with the "
	     "samples"},
    OPTION_HEADING("Whose memory (otlp):"),
    OPTION_GROUP(named_process_rows, struct export, process),
    OPTION_HEADING("Which memory, in formats made of stacks (those with allocated and live memory\n"
		   "use --metric for the latter):"),
    OPTION_GROUP(question_metric_rows, struct export, q),
    OPTION_GROUP(question_from_rows, struct export, q),
    OPTION_GROUP(question_filter_rows, struct export, q),
    OPTION_FRAMES(struct export, q.hidden.frames, FRAMES_USUAL_HELP),
    OPTION_END,
};

const struct option_table export_option_table = {
    .usage = "export --to FORMAT [OPTIONS] FILE",
    .about = "Writes a trace as a file for another tool. FORMAT is one of:\n\n",
    .print_more = print_formats,
    .rows = export_rows,
};

static bool only_by_heap(const struct question *q)
{
	const struct mayfly_query *b = &q->query;

	return !q->focus.count && !q->ignore.count && !q->show_from.count && !q->thread.count &&
	       b->min_size == 0 && b->max_size == UINT64_MAX && b->min_lifetime_ns == 0 &&
	       b->max_lifetime_ns == INT64_MAX;
}

/* The first option given that the format does not support; NULL: none. */
static const char *not_taken(const struct export *x)
{
	unsigned int takes = x->format->takes;
	const struct question *q = &x->q;

	if (q->metric_given && !x->format->metrics)
		return "--metric";
	if (q->at_given && !(x->format->metrics & EXPORT_METRIC(MAYFLY_LIVE)))
		return "--at";
	if (q->window_given && !(takes & EXPORT_TAKES_BLOCKS))
		return "--from or --to TIME";
	if (q->hide.count && !(takes & EXPORT_TAKES_HIDE))
		return "--hide";
	if (q->show.count && !(takes & EXPORT_TAKES_HIDE))
		return "--show";
	if (q->hidden.frames != FRAMES_USUAL && !(takes & EXPORT_TAKES_HIDE))
		return "--frames";
	if (q->chooses_blocks && !(takes & EXPORT_TAKES_BLOCKS) &&
	    !(takes & EXPORT_TAKES_HEAPS && only_by_heap(q)))
		return "options that choose blocks";
	if (x->rows_given && !(takes & EXPORT_TAKES_ROWS))
		return "--rows";
	if ((x->process.service || x->process.host) && !(takes & EXPORT_TAKES_PROCESS))
		return "--service or --host";
	return NULL;
}

/* Each sample has its times, which also tell what is live at a moment. */
static bool set_metric_of_samples(struct export *x)
{
	struct mayfly_query *q = &x->q.query;

	if (!x->q.metric_given && !x->q.at_given)
		q->metric = MAYFLY_ALLOCATED;
	if (q->metric != MAYFLY_PEAK && q->metric != MAYFLY_LIVE)
		return true;
	return cli_refuse(
	    "--rows samples needs --metric allocated, leaked or temporary, as each row has "
	    "its times");
}

static bool export_options_agree(struct export *x)
{
	const char *name;

	x->samples = x->rows == 1;
	if (!x->format)
		return unknown_format(NULL);
	if (!question_agrees(&x->q))
		return false;
	name = not_taken(x);
	if (name)
		return cli_refuse("%s cannot be combined with --to %s", name, x->format->name);
	if (x->samples && !set_metric_of_samples(x))
		return false;
	if (x->format->metrics && !(x->format->metrics & EXPORT_METRIC(x->q.query.metric)))
		return cli_refuse("--metric %s cannot be combined with --to %s",
				  metric_names[x->q.query.metric], x->format->name);
	return true;
}

/* ---- writing ---- */

/* The trace's name, with the format's suffix instead of ".mayfly". */
static char *export_default_output(const char *path, const struct export_format *format)
{
	size_t length = strlen(path);
	char *name;

	if (strcmp(path, "-") == 0)
		return strdup("-");
	if (length > 7 && strcmp(path + length - 7, ".mayfly") == 0 && path[length - 8] != '/')
		length -= 7;
	return asprintf(&name, "%.*s%s", (int)length, path, format->suffix) < 0 ? NULL : name;
}

static bool open_target(const struct export *x, struct target *target, const char *output)
{
	switch (x->format->shape) {
	case EXPORT_FILE:
		return target_open_named(target, output, x->force);
	case EXPORT_FOLDER:
		return target_open_folder(target, output, x->format->landmark, x->force);
	case EXPORT_STREAM:
		break;
	}
	return target_open(target, output, x->force);
}

static int say_failed(const struct export *x, const char *path, int error)
{
	const char *what = question_needs_blocks(&x->q);

	if (error == MAYFLY_E_ABSENT && x->format->metrics &&
	    absent_said(path, x->file.trace, &x->q))
		return CLI_FAILED;
	if (error == MAYFLY_E_ABSENT && x->file.info->absent)
		return cli_error("%s: the file that it comes from does not have %s, which %s files "
				 "are made of",
				 path,
				 x->format->events || x->samples || what ||
					 !(x->file.info->absent & MAYFLY_ABSENT_TIMES)
				     ? "single blocks"
				     : "times",
				 x->format->name);
	if (x->samples)
		what = "--rows samples";
	else if (!what && x->q.window_given)
		what = "--from or --to with this format";
	if (error != MAYFLY_E_ABSENT || !what)
		return cli_error("%s: %s", path, mayfly_error_text(error));
	return cli_error("%s: a trace of snapshots has no single blocks, which %s needs; record "
			 "without --snapshots",
			 path, what);
}

/* Away from a terminal, only what went wrong is said. */
static void say_written(const struct target *target)
{
	char size[FIGURE_TEXT];
	struct stat st;

	if (!isatty(STDERR_FILENO) || stat(target->path, &st) != 0)
		return;
	if (S_ISREG(st.st_mode))
		cli_error("wrote %s (%s)", target->path,
			  text_bytes(size, sizeof(size), (double)st.st_size));
	else if (S_ISDIR(st.st_mode))
		cli_error("wrote %s", target->path);
}

static int export_convert_trace(const struct export *x, const char *path, struct target *target)
{
	const struct export_format *format = x->format;
	const struct mayfly_info *info = x->file.info;
	struct export_options options = {"", &x->q.query, x->samples,
					 .process = named_process_of(&x->process, info)};
	char purpose[4096];
	int error;

	/* The name alone is there anyway. */
	if (info->command_count > 1)
		options.purpose = command_line(purpose, sizeof(purpose), info);
	if (format->shape == EXPORT_STREAM)
		error = export_run(format->convert, x->file.trace, &options, target_sink, target);
	else
		error = format->convert_at(x->file.trace, &options, target->temporary);
	if (!error) {
		const char *left_out =
		    format->left_out ? format->left_out(x->file.trace, &options) : NULL;

		if (!target_finish(target))
			return CLI_FAILED;
		say_written(target);
		if (left_out)
			cli_error("%s: left out: %s", path, left_out);
		return CLI_OK;
	}
	target_drop(target, error > 0 ? error : 0);
	return error < 0 ? say_failed(x, path, error) : CLI_FAILED;
}

/* Whether the trace has the single events that the format needs. A trace of snapshots has only
 * track events. */
static bool has_events(const struct export *x)
{
	const struct export_format *f = x->format;

	return !f->events ||
	       (!x->file.info->snapshot_ns &&
		!(x->file.info->absent & MAYFLY_ABSENT_ALLOCATIONS)) ||
	       (f->tracks && x->file.info->track_events);
}

static int export(struct export *x, const char *path, const char *output)
{
	struct target target;
	int status = CLI_FAILED;

	if (strcmp(output, "-") == 0 && x->format->shape == EXPORT_STREAM && !x->format->text &&
	    isatty(STDOUT_FILENO))
		return cli_error("not writing a binary file to a terminal; use -o FILE");
	if (!open_trace(path, &x->file))
		return CLI_FAILED;
	question_fit(&x->q, x->file.info);
	if (!question_fits_time(&x->q, path, x->file.info))
		;
	else if (!has_events(x) && x->file.info->absent)
		say_failed(x, path, MAYFLY_E_ABSENT);
	else if (!has_events(x))
		cli_error("%s: a trace of snapshots has no single blocks, which %s files are made "
			  "of; record without --snapshots",
			  path, x->format->name);
	else if (open_target(x, &target, output))
		status = export_convert_trace(x, path, &target);
	close_trace(&x->file);
	return status;
}

static int export_to(struct export *x, const char *path)
{
	int status;
	char *name;

	if (x->format->missing)
		return cli_error("--to %s: this build of mayfly lacks %s", x->format->name,
				 x->format->missing);
	name = x->output ? strdup(x->output) : export_default_output(path, x->format);
	status = name ? export(x, path, name) : cli_error("out of memory");

	free(name);
	return status;
}

int cmd_export(int argc, char **argv)
{
	struct export x = {0};
	int status;

	question_init(&x.q);
	x.q.complete = true;
	status = options_take(&export_option_table, &x, argc, argv);
	if (status == OPTIONS_TAKEN)
		status = export_options_agree(&x) && one_named(argc, argv, "trace")
			     ? export_to(&x, argv[optind])
			     : CLI_USAGE;
	question_free(&x.q);
	return status;
}
