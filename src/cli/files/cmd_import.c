/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly import: a trace from another tool's file. */
#include "cli/cli.h"
#include "convert/import/importer.h"
#include "cli/input/open_trace.h"
#include "cli/option_table.h"
#include "cli/target.h"
#include "fleet/http/server_url.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int convert_input(const char *path, const struct loaded_file *file, const char *output,
			 bool force)
{
	const struct import_format *format = import_recognise(file->data, file->size);
	struct target target;
	int error;

	if (!format)
		return cli_error("%s: not a file of a kind that 'mayfly import --help' lists",
				 path);
	if (strcmp(output, "-") == 0 && isatty(STDOUT_FILENO))
		return cli_error("not writing a binary trace to a terminal; use -o FILE");
	if (!target_open(&target, output, force))
		return CLI_FAILED;
	error = convert_foreign(path, format, file, target_sink, &target);
	if (!error)
		return target_finish(&target) ? CLI_OK : CLI_FAILED;
	target_drop(&target, error > 0 ? error : 0);
	return CLI_FAILED;
}

/* The answer of a fleet's database is a trace already. */
static int import_answer(const struct loaded_file *file, const char *output, bool force)
{
	struct target target;
	int error;

	if (!output)
		return cli_error("name a file for the answer: -o FILE");
	if (!target_open(&target, output, force))
		return CLI_FAILED;
	error = target_sink(&target, file->data, file->size);
	if (!error)
		return target_finish(&target) ? CLI_OK : CLI_FAILED;
	target_drop(&target, error);
	return CLI_FAILED;
}

/* INPUT.mayfly, next to a folder rather than in it; NULL after a line on stderr. */
static char *import_default_output(const char *path)
{
	size_t length = strlen(path);
	const char *last;
	char *name;

	if (strcmp(path, "-") == 0)
		return strdup("-");
	while (length > 1 && path[length - 1] == '/')
		length--;
	last = memrchr(path, '/', length);
	last = last ? last + 1 : path;
	if (last == path + length ||
	    (path + length - last <= 2 && strspn(last, "./") >= (size_t)(path + length - last)))
		return cli_error("%s: no name for the trace; use -o FILE", path), NULL;
	if (asprintf(&name, "%.*s.mayfly", (int)length, path) < 0)
		return cli_error("out of memory"), NULL;
	return name;
}

struct import_settings {
	const char *output, *sample_type;
	bool force;
};

static int import(const char *path, const struct import_settings *set)
{
	const char *output = set->output;
	struct loaded_file file;
	char *name = NULL;
	int status = CLI_FAILED;

	if (!load_file(path, &file))
		return CLI_FAILED;
	if (server_url_is(path)) {
		status = import_answer(&file, output, set->force);
		unload_file(&file);
		return status;
	}
	if (is_trace(&file)) {
		unload_file(&file);
		return cli_error("%s: is already a trace of mayfly", path);
	}
	file.sample_type = set->sample_type;
	if (!output)
		output = name = import_default_output(path);
	if (output)
		status = convert_input(path, &file, output, set->force);
	free(name);
	unload_file(&file);
	return status;
}

static const struct option_row import_rows[] = {
    {"output", 'o', "FILE", OPTION_FILE(struct import_settings, output), .words = OPTION_FILES,
     .help = "the trace (default INPUT.mayfly); - is standard output"},
    {"force", .help = "replace FILE when it exists", OPTION_FLAG(struct import_settings, force)},
    {"sample-type", 0, "NAME", OPTION_TEXT(struct import_settings, sample_type),
     .help = "the values of a pprof file to take, such as alloc_size"},
    OPTION_END,
};

const struct option_table import_option_table = {
    .usage = "import [OPTIONS] INPUT",
    .about =
	"Makes a trace of a file, or a folder, that another tool wrote:\n"
	"\n"
	"  Memtrace     versions 1 to 3\n"
	"  heaptrack    all versions, .zst, .gz or plain\n"
	"  jemalloc     heap profiles (heap_v2)\n"
	"  gperftools   heap profiles, and Go's as text\n"
	"  pprof        heap profiles (profile.proto), .gz or plain\n"
	"  DHAT         of valgrind, and of Rust's dhat (JSON)\n"
	"  massif       of valgrind\n"
	"  V8           .heapprofile of node --heap-prof and Chrome\n"
	"  Perfetto     traces with dumps of heapprofd\n"
	"  folded       stacks as in flame graphs: \"main;grow;leaf 1024\"; numbers are bytes\n"
	"  eventlog     of OCaml's runtime, 4.11 to 4.14: the file, or its folder with metadata\n"
	"\n"
	"All commands read such a file directly, too; a trace is smaller and faster. What a\n"
	"file does not have is absent from the trace, not zero.\n",
    .rows = import_rows,
};

int cmd_import(int argc, char **argv)
{
	struct import_settings set = {0};
	int status = options_take(&import_option_table, &set, argc, argv);

	if (status != OPTIONS_TAKEN)
		return status;
	if (!one_named(argc, argv, "input"))
		return CLI_USAGE;
	return import(argv[optind], &set);
}
