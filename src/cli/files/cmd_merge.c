/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly merge: many traces as one. trace/rewrite/merge.h does it; this opens and closes files. */
#include "cli/cli.h"
#include "cli/input/open_trace.h"
#include "cli/option_table.h"
#include "terminal/output.h"
#include "cli/target.h"
#include "trace/rewrite/merge.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct merging {
	const char *output;
	bool force;
	struct trace_merge *merge;
	enum merge_align align;
	char **path;
	size_t files;
	struct opened_trace *open; /* those that must stay */
	size_t opened;
	struct stat *seen; /* of each file */
	/* The first file that is not exact decides what fits; else the first. */
	const char *kind_path;
	enum merge_kind kind;
	/* The first one that has a rate of OCaml's heaps. */
	const char *ocaml_path;
	double ocaml_rate;
	/* The first one with memory around OCaml's heaps and without OCaml's blocks, or of OCaml's
	 * alone; and the heaps of all. */
	const char *around_path;
	uint32_t heaps;
};

static const char *merge_kind_text(enum merge_kind kind)
{
	static const char *const text[] = {"is exact", "was sampled (stratified)",
					   "was sampled (Poisson)", "holds snapshots",
					   "holds events alone"};

	return text[kind];
}

static int say_mixed(const struct merging *m, const char *path, enum merge_kind kind)
{
	if (kind == MERGE_SNAPSHOTS || m->kind == MERGE_SNAPSHOTS)
		return cli_error("%s %s and %s %s: traces of snapshots have no single blocks; "
				 "merge only traces of one kind",
				 m->kind_path, merge_kind_text(m->kind), path,
				 merge_kind_text(kind));
	if (kind == MERGE_EVENTS || m->kind == MERGE_EVENTS)
		return cli_error(
		    "%s %s and %s %s: sums of blocks would leave out the latter; merge "
		    "only traces of one kind",
		    m->kind_path, merge_kind_text(m->kind), path, merge_kind_text(kind));
	return cli_error("%s %s and %s %s: samples of both kinds weigh differently; merge only "
			 "traces of one kind",
			 m->kind_path, merge_kind_text(m->kind), path, merge_kind_text(kind));
}

static int say_rates(const struct merging *m, const char *path, const struct mayfly_info *info)
{
	return cli_error("%s has OCaml's heaps at a rate of %g per word, %s at %g: only rates that "
			 "are equal, or 2, 4, 8... times each other, can be merged; record with "
			 "the same --ocaml=RATE",
			 m->ocaml_path, m->ocaml_rate, path, info->ocaml_rate);
}

/* Its memory would count twice. */
static bool named_before(struct merging *m, size_t file)
{
	struct stat *st = &m->seen[file];
	char *spool = spool_of_recording(m->path[file]);
	int missing = stat(spool ? spool : m->path[file], st);

	free(spool);
	if (missing || (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)))
		st->st_ino = 0;
	for (size_t i = 0; i < file && st->st_ino; i++) {
		if (m->seen[i].st_ino == st->st_ino && m->seen[i].st_dev == st->st_dev) {
			cli_error("%s is named twice%s%s: it would count twice", m->path[file],
				  strcmp(m->path[i], m->path[file]) ? ", before as " : "",
				  strcmp(m->path[i], m->path[file]) ? m->path[i] : "");
			return true;
		}
	}
	return false;
}

static int add_opened(struct merging *m, const char *path, struct opened_trace *file)
{
	enum merge_kind kind = merge_kind_of(file->info);
	bool stay = false;
	int error;

	if (m->kind_path && !merge_fits(m->kind, kind)) {
		close_trace(file);
		return say_mixed(m, path, kind);
	}
	if (!trace_merge_rates_fit(m->merge, file->trace)) {
		say_rates(m, path, file->info);
		close_trace(file);
		return CLI_FAILED;
	}
	if (!m->around_path && trace_merge_would_hide(file->trace))
		m->around_path = path;
	m->heaps |= file->info->heaps;
	if (!m->ocaml_path && file->info->ocaml_rate > 0) {
		m->ocaml_path = path;
		m->ocaml_rate = file->info->ocaml_rate;
	}
	if (!m->kind_path || m->kind == MERGE_EXACT) {
		m->kind = kind;
		m->kind_path = path;
	}
	error = trace_merge_add(m->merge, file->trace, &stay);
	if (stay)
		m->open[m->opened++] = *file;
	else
		close_trace(file);
	return error ? cli_error("%s: %s", path, mayfly_error_text(error)) : CLI_OK;
}

static int add_file(struct merging *m, size_t file)
{
	struct opened_trace opened;

	if (named_before(m, file) || !open_trace(m->path[file], &opened))
		return CLI_FAILED;
	return add_opened(m, m->path[file], &opened);
}

static void make_note(const struct merging *m, char *note, size_t size)
{
	char finest[FIGURE_TEXT], coarsest[FIGURE_TEXT], intervals[3 * FIGURE_TEXT] = "";
	uint64_t low, high;

	trace_merge_intervals(m->merge, &low, &high);
	if (high > low)
		snprintf(intervals, sizeof(intervals), ", sampled 1 byte in %s to %s",
			 text_bytes(finest, sizeof(finest), (double)low),
			 text_bytes(coarsest, sizeof(coarsest), (double)high));
	snprintf(note, size,
		 "merged from %zu %s%s; times count from %s, and what a process held at its end "
		 "stays live until the end of all",
		 m->files, m->files == 1 ? "trace" : "traces", intervals,
		 m->align == MERGE_BY_CLOCK ? "the earliest start" : "each one's own start");
}

static int merge_write_merged(struct merging *m)
{
	struct target target;
	char note[512];
	int error;

	if (!target_open(&target, m->output, m->force))
		return CLI_FAILED;
	make_note(m, note, sizeof(note));
	error = trace_merge_write(m->merge, note, target_sink, &target);
	if (!error)
		return target_finish(&target) ? CLI_OK : CLI_FAILED;
	target_drop(&target, error > 0 ? error : 0);
	return error < 0 ? cli_error("%s: %s", m->output, mayfly_error_text(error)) : CLI_FAILED;
}

/* Sums count OCaml's blocks in place of the memory that they lie in. */
static void merge_say_left_out(const struct merging *m)
{
	const uint32_t malloc_heap = 1u << MAYFLY_HEAP_MALLOC;

	if (m->around_path && m->heaps & malloc_heap && m->heaps & MAYFLY_HEAPS_OCAML)
		cli_error("%s has memory around OCaml's heaps without the blocks in it: sums of "
			  "the merged trace leave it out; with --heap all they have it",
			  m->around_path);
}

static int merge(struct merging *m)
{
	int status = CLI_OK;

	m->merge = trace_merge_new(m->align);
	m->open = calloc(m->files, sizeof(*m->open));
	m->seen = calloc(m->files, sizeof(*m->seen));
	if (!m->merge || !m->open || !m->seen)
		status = cli_error("out of memory");
	for (size_t i = 0; i < m->files && status == CLI_OK; i++)
		status = add_file(m, i);
	if (status == CLI_OK)
		status = merge_write_merged(m);
	if (status == CLI_OK)
		merge_say_left_out(m);
	trace_merge_free(m->merge);
	while (m->opened)
		close_trace(&m->open[--m->opened]);
	free(m->open);
	free(m->seen);
	return status;
}

static const char *const align_names[] = {
    [MERGE_FROM_START] = "start", [MERGE_BY_CLOCK] = "clock", NULL};

static const struct option_row merge_rows[] = {
    {"output", 'o', "OUT", OPTION_FILE(struct merging, output), .words = OPTION_FILES,
     .help = "the merged trace; - is standard output"},
    {"align", .argument = "start|clock", OPTION_CHOICE(align_names, struct merging, align),
     .help = "times count from each trace's own start (default), or from the earliest start, by "
	     "the hosts' clocks"},
    {"force", .help = "replace OUT when it exists", OPTION_FLAG(struct merging, force)},
    OPTION_END,
};

const struct option_table merge_option_table = {
    .usage = "merge [OPTIONS] -o OUT FILE...",
    .about =
	"Combines traces of several runs, builds, hosts or sampling intervals into one. Each\n"
	"sample keeps its own weight, so the figures of OUT are the sums of those of the files.\n",
    .rows = merge_rows,
};

int cmd_merge(int argc, char **argv)
{
	struct merging m = {0};
	int status = options_take(&merge_option_table, &m, argc, argv);

	if (status != OPTIONS_TAKEN)
		return status;
	if (!m.output)
		return cli_usage("no output file given; use -o FILE");
	if (optind == argc)
		return cli_usage("no trace given");
	if (strcmp(m.output, "-") == 0 && isatty(STDOUT_FILENO))
		return cli_error("not writing a binary trace to a terminal; use -o FILE");
	m.path = argv + optind;
	m.files = (size_t)(argc - optind);
	return merge(&m);
}
