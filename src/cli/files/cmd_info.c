/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly info: what a trace is, and how good. */
#include "cli/cli.h"
#include "cli/input/open_trace.h"
#include "cli/option_table.h"
#include "terminal/output.h"
#include "terminal/print_json.h"
#include "terminal/terminal.h"
#include "cli/trace_fields.h"

#include "answer/absent.h"
#include "answer/json_parts.h"
#include "answer/trace_names.h"
#include "answer/text_format.h"
#include "answer/trace_facts.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES   4096
#define MOST_THREADS 8 /* that are named */

static const char *parent_text(char *buffer, size_t size, const struct mayfly_info *info)
{
	if (!info->parent_pid) /* not known */
		return "";
	return text_format(buffer, size, ", parent %" PRIu32, info->parent_pid);
}

static void print_program(const struct output *o, const struct mayfly_info *info)
{
	char line[TEXT_BYTES], fitted[TEXT_BYTES], time[64], duration[FIGURE_TEXT], ending[128];
	size_t room = (size_t)o->width - FIELD_INDENT;

	command_line(line, sizeof(line), info);
	if (!(info->absent & MAYFLY_ABSENT_COMMAND))
		print_field(o, "Program", "%s", line_fit(fitted, sizeof(fitted), o, line, room));
	if (*info->title)
		print_field(o, "Title", "%s",
			    line_fit(fitted, sizeof(fitted), o, info->title, room));
	if (*info->program)
		print_field(o, "Executable", "%s",
			    line_fit(fitted, sizeof(fitted), o, info->program, room));
	if (!(info->absent & MAYFLY_ABSENT_PROCESS) && info->pid)
		print_field(o, "Process", "%" PRIu32 "%s", info->pid,
			    parent_text(time, sizeof(time), info));
	if (!(info->absent & MAYFLY_ABSENT_START))
		print_field(o, "Started", "%s", start_text(time, sizeof(time), info));
	if (!(info->absent & MAYFLY_ABSENT_TIMES))
		print_field(o, "Duration", "%s; %s",
			    text_duration(duration, sizeof(duration), (double)info->duration_ns),
			    ending_text(ending, sizeof(ending), info));
	if (info->program_cpu_ns)
		print_field(o, "Used", "%s of CPU time, at most %s of memory, the agent included",
			    text_duration(duration, sizeof(duration), (double)info->program_cpu_ns),
			    text_bytes(time, sizeof(time), (double)info->program_max_rss_bytes));
}

static void print_sampling(const struct output *o, const struct mayfly_trace *trace,
			   const struct mayfly_info *info)
{
	char text[192], seed[64] = "", sampler[32];

	if (info->seed)
		snprintf(seed, sizeof(seed), ", seed %" PRIu64, info->seed);
	if (info->absent & MAYFLY_ABSENT_ALLOCATIONS)
		print_field(o, "Mode", "events alone, no allocations");
	else if (info->absent &
		 (MAYFLY_ABSENT_ERRORS | MAYFLY_ABSENT_LIVE | MAYFLY_ABSENT_ALLOCATED))
		print_field(o, "Mode", "%s%s", info->mode == MAYFLY_EXACT ? "exact: " : "sampled, ",
			    mode_text(text, sizeof(text), trace));
	else if (trace_is_exact(info))
		print_field(o, "Mode", "exact: every allocation");
	else if (trace_is_ocaml_alone(info))
		print_field(o, "Mode", "sampled, blocks of %s alone", trace_heap_owner(trace));
	else
		print_field(o, "Mode", "sampled, %s%s%s", interval_text(text, sizeof(text), trace),
			    sampler_text(sampler, sizeof(sampler), info, ", ", ""), seed);
	if (info->ocaml_interval_bytes && !trace_is_exact(info))
		print_field(
		    o, strcmp(trace_heap_owner(trace), "OCaml") ? "Runtime heap" : "OCaml heap",
		    "sampled, %.3g per word: 1 byte in %s", info->ocaml_rate,
		    text_bytes(text, sizeof(text), (double)info->ocaml_interval_bytes));
	if (info->snapshot_ns && !(info->absent & MAYFLY_ABSENT_TIMES))
		print_field(o, "Snapshots", "%s: counters of each stack, not single blocks",
			    trace_snapshots_text(text, sizeof(text), trace));
}

static void print_events(const struct output *o, const struct opened_trace *file)
{
	const struct mayfly_trace *trace = file->trace;
	const struct mayfly_info *info = file->info;
	bool exact = trace_is_exact(info), apart = exact && !info->inherited_allocated;
	char inherited[96] = "", size[FIGURE_TEXT];

	if (trace_inherited(info))
		snprintf(inherited, sizeof(inherited),
			 apart ? ", and %" PRIu64 " blocks inherited at the fork"
			       : " (%" PRIu64 " of them inherited at the fork)",
			 trace_inherited(info));
	if (!(info->absent & (MAYFLY_ABSENT_ERRORS | MAYFLY_ABSENT_BLOCKS)))
		print_field(o,
			    info->absent & MAYFLY_ABSENT_ALLOCATED ? "Blocks"
			    : exact				   ? "Allocations"
								   : "Samples",
			    "%" PRIu64 "%s",
			    trace_samples(info) - (apart ? trace_inherited(info) : 0), inherited);
	if (!(info->absent & (MAYFLY_ABSENT_ERRORS | MAYFLY_ABSENT_BLOCKS | MAYFLY_ABSENT_LIVE |
			      MAYFLY_ABSENT_ALLOCATED)))
		print_field(o, "Frees", "%" PRIu64, trace_frees(info));
	if (!(info->absent & MAYFLY_ABSENT_ALLOCATIONS))
		print_field(o, "Stacks", "%zu, of %zu code addresses, %zu with a function name",
			    trace_stacks(trace), info->frames, info->frames_symbolized);
	if (file->foreign)
		print_field(o, "File", "%s, of %s",
			    text_bytes(size, sizeof(size), (double)file->foreign_bytes),
			    file->foreign);
	else
		print_field(o, "File", "%s, format %" PRIu32 ", by mayfly %s",
			    text_bytes(size, sizeof(size), (double)info->file_bytes),
			    info->format_version,
			    *info->version ? info->version : "of unknown version");
}

/* A line on each heap, when there is more than malloc's. */
static void print_heaps(const struct output *o, const struct mayfly_trace *trace,
			const struct mayfly_info *info)
{
	const uint32_t pools = 1u << MAYFLY_HEAP_POOL | 1u << MAYFLY_HEAP_POOL_MAPPED;
	struct mayfly_query query;
	struct mayfly_result *result;
	char text[512] = "", bytes[FIGURE_TEXT];

	if (!info->ocaml_interval_bytes && !(info->heaps & pools))
		return;
	mayfly_query_defaults(&query);
	query.metric = MAYFLY_ALLOCATED;
	query.by = MAYFLY_BY_HEAP;
	if (mayfly_query_run(trace, &query, &result) != 0)
		return;
	for (size_t i = 0; i < result->rows; i++) {
		const struct mayfly_row *row = &result->row[i];

		text_append(text, sizeof(text), "%s%s %" PRIu64 " %s (%s)", i ? ", " : "",
			    heap_name((uint32_t)row->low), row->self.samples,
			    trace_is_exact(info) ? "blocks" : samples_word(row->self.samples),
			    text_bytes(bytes, sizeof(bytes), row->self.bytes.estimate));
	}
	mayfly_result_free(result);
	print_field(o, "Heaps", "%s", text);
}

static void print_one_figure(const struct output *o, const struct mayfly_info *info,
			     const char *name, const struct mayfly_estimate *e, const char *more)
{
	char figure[FIGURE_TEXT], blocks[FIGURE_TEXT];

	text_figure(figure, sizeof(figure), o->utf8, &e->bytes, e->samples);
	text_count_value(blocks, sizeof(blocks), &e->blocks, e->samples);
	if (figure_confidence(&e->bytes, e->samples) <= FIGURE_FEW ||
	    info->absent & MAYFLY_ABSENT_BLOCKS)
		print_field(o, name, "%s%s", figure, more);
	else
		print_field(o, name, "%s, %s blocks%s", figure, blocks, more);
}

static void print_figures(const struct output *o, const struct mayfly_info *info,
			  const struct mayfly_summary *s)
{
	char more[96], time[FIGURE_TEXT];

	if (!(info->absent & MAYFLY_ABSENT_ALLOCATED))
		print_one_figure(o, info, "Allocated", &s->allocated, "");
	snprintf(more, sizeof(more), ", at %s",
		 text_duration(time, sizeof(time), (double)s->peak_time_ns));
	if (!(info->absent & MAYFLY_ABSENT_PEAK))
		print_one_figure(o, info, "Peak", &s->peak, more);
	if (!(info->absent & MAYFLY_ABSENT_LIVE))
		print_one_figure(o, info, "Live at end", &s->live_at_end, "");
}

static void print_picture(const struct output *o, const struct mayfly_trace *trace)
{
	const struct mayfly_picture *p = mayfly_trace_picture(trace);
	char time[FIGURE_TEXT], bytes[FIGURE_TEXT], blocks[FIGURE_TEXT];

	if (p)
		print_field(
		    o, "Picture",
		    "of the heap, at %s: %s in %s blocks; 'mayfly leaks' shows who holds them",
		    text_duration(time, sizeof(time), (double)p->time_ns),
		    text_bytes(bytes, sizeof(bytes), (double)p->bytes),
		    text_count(blocks, sizeof(blocks), (double)p->blocks));
}

static void print_threads(const struct output *o, const struct mayfly_trace *trace,
			  const struct mayfly_info *info)
{
	char list[1024] = "", name[128];
	size_t rows = 0;

	for (size_t i = 0; i < info->threads; i++) {
		char text[128];

		/* In a merged trace several threads share a row: the first one stands for it. */
		if (mayfly_trace_thread(trace, i)->row != i || ++rows > MOST_THREADS)
			continue;
		text_clean(name, sizeof(name), thread_name(text, sizeof(text), trace, (uint32_t)i));
		text_append(list, sizeof(list), "%s%s", rows > 1 ? ", " : "", name);
	}
	if (rows > MOST_THREADS)
		text_append(list, sizeof(list), ", ...");
	print_field(o, "Threads", "%zu: %s", info->threads, list);
}

#define ID_DIGITS 12 /* of a build-id: enough to tell one from another */

static void put_module_cells(struct table *t, const struct mayfly_module *m,
			     const struct module_frames *count, const struct output *o)
{
	char id[65] = "";
	size_t bytes = o->wide ? 32 : ID_DIGITS / 2;

	for (size_t i = 0; i < m->build_id_length && i < bytes; i++)
		snprintf(id + 2 * i, 3, "%02x", m->build_id[i]);
	table_row(t);
	table_cell(COLUMN(t, "MODULE"), o->wide ? m->path : path_base(m->path));
	table_format(COLUMN(t, "ADDRESSES", true, 2), "%zu", count->frames);
	table_format(COLUMN(t, "NAMED", true, 2), "%zu", count->named);
	table_cell(COLUMN(t, "BUILD-ID", false, 1, STYLE_DIM), *id ? id : "-");
	COLUMN(t, "PROBLEM");
	table_cell(t, *m->problem		      ? m->problem
		      : count->named == count->frames ? "-"
		      : count->named		      ? "not all functions have symbols"
						      : "none of these functions has a symbol");
}

static void print_module_count(const struct output *o, const struct mayfly_trace *trace,
			       const struct mayfly_info *info, const struct module_frames *count)
{
	size_t without = 0, partly = 0;
	char lacking[64] = "", some[64] = "";

	if (!info->modules)
		return;
	for (size_t i = 0; i < info->modules; i++) {
		bool lacks = count[i].named < count[i].frames;
		bool none = *mayfly_trace_module(trace, i)->problem || (lacks && !count[i].named);

		without += none;
		partly += lacks && !none;
	}
	if (without)
		snprintf(lacking, sizeof(lacking), ", %zu without symbols", without);
	if (partly)
		snprintf(some, sizeof(some), ", %zu with only some symbols", partly);
	print_field(o, "Modules", "%zu%s%s", info->modules, lacking,
		    without || partly ? some : ", all with symbols");
}

static bool print_modules(const struct output *o, const struct mayfly_trace *trace,
			  const struct mayfly_info *info, bool all)
{
	struct module_frames *count = count_module_frames(trace);
	struct table *t;

	if (!count)
		return false;
	t = table_new(o);
	for (size_t i = 0; i < info->modules; i++) {
		const struct mayfly_module *m = mayfly_trace_module(trace, i);

		if (all || *m->problem || count[i].named < count[i].frames)
			put_module_cells(t, m, &count[i], o);
	}
	print_module_count(o, trace, info, count);
	free(count);
	print_overlap(o, trace, false);
	print_notes(o, trace);
	print_hints(o, trace);
	if (table_rows(t))
		putchar('\n');
	return table_end(t, 0);
}

static int print_info(const struct output *o, const struct opened_trace *file,
		      const struct mayfly_summary *s, bool all_modules)
{
	print_program(o, file->info);
	print_sampling(o, file->trace, file->info);
	print_events(o, file);
	print_heaps(o, file->trace, file->info);
	print_track_fields(o, file->trace, false);
	print_figures(o, file->info, s);
	print_picture(o, file->trace);
	print_resident(o, file->trace);
	if (!(file->info->absent & MAYFLY_ABSENT_THREADS))
		print_threads(o, file->trace, file->info);
	return print_modules(o, file->trace, file->info, all_modules) ? cli_finish()
								      : cli_error("out of memory");
}

static int print_info_json(const struct opened_trace *file, const struct mayfly_summary *s)
{
	struct json j = json_document();

	j.is_null = absent_key;
	j.null_context = file->info->absent;
	/* The size is that of the file that was named, not of a trace that was made of it. */
	json_info(&j, file->trace, s, file->foreign ? file->foreign_bytes : file->info->file_bytes);
	json_text_or_null(&j, "converted_from", file->foreign);
	return json_print(&j);
}

struct settings {
	struct output out;
	bool json, modules;
};

static const struct option_row info_rows[] = {
    {"modules", .help = "list all modules, not only those that lack symbols",
     OPTION_FLAG(struct settings, modules)},
    {"wide", .gone = "with --modules, a pipe or file has paths and build-ids in full"},
    OPTION_JSON(struct settings, json),
    OPTION_END,
};

const struct option_table info_option_table = {
    .usage = "info [OPTIONS] FILE",
    .about = "Shows what a trace is: the program, times, how it was sampled, what it holds, what\n"
	     "was lost, and which modules have no symbols.\n",
    .rows = info_rows,
};

int cmd_info(int argc, char **argv)
{
	struct settings set = {0};
	struct mayfly_summary summary;
	struct opened_trace file;
	int status = options_take(&info_option_table, &set, argc, argv);

	if (status != OPTIONS_TAKEN)
		return status;
	if (!one_named(argc, argv, "trace"))
		return CLI_USAGE;
	output_detect(&set.out);
	set.out.wide = set.modules && !isatty(STDOUT_FILENO) && !getenv("COLUMNS");
	if (!open_trace(argv[optind], &file))
		return CLI_FAILED;
	pager_start();
	status = mayfly_trace_summary(file.trace, &summary);
	if (status)
		status = cli_error("%s: %s", argv[optind], mayfly_error_text(status));
	else if (set.json)
		status = print_info_json(&file, &summary);
	else
		status = print_info(&set.out, &file, &summary, set.modules);
	close_trace(&file);
	return status;
}
