/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly symbolize: names for a finished trace, from files that were not there when it was made. */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/record/download.h"
#include "terminal/border.h"
#include "terminal/fit_text.h"
#include "cli/input/open_trace.h"
#include "cli/option_table.h"
#include "cli/target.h"
#include "base/array.h"
#include "record/late_names.h"
#include "spool/spool_packets.h"
#include "symbols/debug_server.h"
#include "symbols/names_file.h"
#include "symbols/symbols.h"
#include "trace/rewrite/names_replace.h"

#define MOST_ID_BYTES 64 /* of a build-id; a hostile trace may have longer ones */

struct symbolizing {
	const char *path;
	const char *output; /* NULL: the trace itself */
	bool force;
	const char **debug_dir;
	size_t debug_dirs, dir_room;
	struct download download;
	struct debug_server *server;
	FILE *said; /* where the result is described */
};

/* ---- what is said ---- */

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

/* What became of the frames of all modules. */
struct balance {
	size_t named, lined, unnamed, unlined;
};

static struct balance take_balance(const struct late_names *n, size_t modules)
{
	struct balance b = {0};

	for (size_t i = 0; i < modules; i++) {
		const struct late_module *m = &n->module[i];

		b.named += m->named;
		b.lined += m->lined;
		b.unnamed += m->unnamed - m->named;
		b.unlined += m->unlined - m->lined;
	}
	return b;
}

static void print_build_id(FILE *to, const struct mayfly_module *m)
{
	fputs(" (build-id ", to);
	for (size_t i = 0; i < m->build_id_length && i < MOST_ID_BYTES; i++)
		fprintf(to, "%02x", m->build_id[i]);
	fputs(")", to);
}

static const char *why_unnamed(const struct mayfly_module *m, const struct late_module *l)
{
	if (l->no_build_id && *m->path == '[')
		return "it is no file";
	if (l->no_build_id)
		return "it has no build-id in the trace, so any file could be the wrong one";
	return l->why ? l->why : "its files have no symbol for these addresses";
}

static void say_module(const struct symbolizing *s, const struct mayfly_module *m,
		       const struct late_module *l)
{
	char path[PATH_MAX], why[2 * PATH_MAX]; /* more is cut */
	size_t left = l->unnamed - l->named;

	fprintf(s->said, "  %s: %zu frame%s: %s", text_clean(path, sizeof(path), m->path), left,
		plural(left), text_clean(why, sizeof(why), why_unnamed(m, l)));
	if (m->build_id_length)
		print_build_id(s->said, m);
	fputc('\n', s->said);
}

static void say_result(const struct symbolizing *s, const struct mayfly_trace *t,
		       const struct late_names *n, const struct balance *b)
{
	const char *of = n->names && s->output ? s->output : s->path;

	if (b->named && b->lined)
		fprintf(s->said, "%s: %zu frame%s got a name, %zu more got file and line\n", of,
			b->named, plural(b->named), b->lined);
	else if (b->named || b->lined)
		fprintf(s->said, "%s: %zu frame%s got %s\n", of, b->named + b->lined,
			plural(b->named + b->lined), b->named ? "a name" : "file and line");
	else if (b->unnamed || b->unlined)
		fprintf(s->said, "%s: no names could be added%s\n", s->path,
			s->output ? "" : "; the trace is unchanged");
	else
		fprintf(s->said, "%s: all frames of files have names and lines already\n", s->path);
	if (b->unnamed)
		fprintf(s->said, "still without a name: %zu frame%s\n", b->unnamed,
			plural(b->unnamed));
	for (size_t i = 0; i < t->info.modules; i++)
		if (n->module[i].unnamed > n->module[i].named)
			say_module(s, &t->module[i], &n->module[i]);
}

/* ---- the trace ---- */

/* The trace's own name is given to the new one, with who may read it. */
static void keep_mode(const struct symbolizing *s, struct target *target)
{
	struct stat st;

	if (s->output || !target->real || stat(s->path, &st) != 0)
		return;
	/* The owner first: a change of it takes bits of the mode away. Only root may give it away. */
	if (fchown(fileno(target->file), st.st_uid, st.st_gid) != 0 && errno != EPERM)
		return;
	fchmod(fileno(target->file), st.st_mode & 0777);
}

static int say_not_replaced(const struct symbolizing *s, int error)
{
	if (error == MAYFLY_E_EMPTY)
		return cli_error("%s is not complete: names can be added only to a whole trace; "
				 "'mayfly merge -o FILE %s' makes one of what is there",
				 s->path, s->path);
	return cli_error("%s: %s", s->path, mayfly_error_text(error));
}

static int write_names(const struct symbolizing *s, const struct mayfly_trace *t,
		       const struct late_names *n)
{
	bool *cured = calloc(t->info.modules + 1, sizeof(*cured));
	struct new_names names = {n->location, n->name, n->names, cured};
	struct target target;
	int error;

	if (!cured)
		return cli_error("out of memory");
	for (size_t i = 0; i < t->info.modules; i++)
		cured[i] = n->module[i].named > 0;
	if (!target_open(&target, s->output ? s->output : s->path, s->force || !s->output)) {
		free(cured);
		return CLI_FAILED;
	}
	keep_mode(s, &target);
	error = trace_replace_names(t, &names, target_sink, &target);
	free(cured);
	if (!error)
		return target_finish(&target) ? CLI_OK : CLI_FAILED;
	target_drop(&target, error > 0 ? error : 0);
	return error < 0 ? say_not_replaced(s, error) : CLI_FAILED;
}

/* OUT is made in any case, so that a script finds it. */
static int copy_trace(const struct symbolizing *s, const struct mayfly_trace *t)
{
	struct target target;
	int error;

	if (!s->output)
		return CLI_OK;
	if (!target_open(&target, s->output, s->force))
		return CLI_FAILED;
	error = target_sink(&target, t->data, t->size);
	if (!error)
		return target_finish(&target) ? CLI_OK : CLI_FAILED;
	target_drop(&target, error);
	return CLI_FAILED;
}

static int add_names(const struct symbolizing *s, const struct mayfly_trace *t,
		     struct symbols *session)
{
	struct late_names n;
	int status, error = late_names_find(&n, t, session, LATE_WITHOUT_LINES);
	const char *problem;
	struct balance b;

	if (error) {
		late_names_free(&n);
		return cli_error("%s: %s", s->path, mayfly_error_text(error));
	}
	b = take_balance(&n, t->info.modules);
	status = n.names ? write_names(s, t, &n) : copy_trace(s, t);
	if (status == CLI_OK)
		say_result(s, t, &n, &b);
	late_names_free(&n);
	problem = debug_server_problem(s->server);
	if (problem)
		cli_error("%s", problem);
	return status == CLI_OK && s->said == stdout ? cli_finish() : status;
}

/* ---- files ---- */

static bool refuse_others(const struct symbolizing *s, const struct loaded_file *file)
{
	const struct import_format *format = import_recognise(file->data, file->size);

	if (spool_recognise(file->data, file->size))
		return cli_fail("%s is a spool, not a finished trace; 'mayfly merge -o FILE %s' "
				"makes a trace of it",
				file->spool ? file->spool : s->path,
				file->spool ? file->spool : s->path);
	if (format && format->convert)
		return cli_fail("%s is a file of %s, not a trace; 'mayfly import -o FILE %s' makes "
				"a trace of it",
				s->path, format->name, s->path);
	return true;
}

static void show_download(void *context, const char *text)
{
	(void)context;
	if (isatty(STDERR_FILENO))
		border_replace_line(text);
}

static int symbolize(struct symbolizing *s)
{
	struct symbols_options options = {.debug_dir = s->debug_dir, .debug_dirs = s->debug_dirs};
	char cache_folder[PATH_MAX];
	struct symbols *session;
	struct opened_trace opened;
	struct loaded_file file;
	int status = CLI_FAILED;

	if (!load_file(s->path, &file))
		return CLI_FAILED;
	if (!refuse_others(s, &file)) {
		unload_file(&file);
		return CLI_FAILED;
	}
	if (!open_loaded(s->path, &file, &opened))
		return CLI_FAILED;
	if (s->download.limit_ns)
		s->server = debug_server_new(s->download.limit_ns, show_download, NULL);
	options.server = s->server;
	options.cache_folder = names_cache_folder(cache_folder);
	session = symbols_new(&options);
	if (session)
		status = add_names(s, opened.trace, session);
	else
		cli_error("out of memory");
	symbols_free(session);
	debug_server_free(s->server);
	close_trace(&opened);
	return status;
}

/* ---- options ---- */

static bool take_debug_dir(const struct given *given, void *to)
{
	struct symbolizing *s = to;
	struct stat st;

	if (stat(given->value, &st) != 0 || !S_ISDIR(st.st_mode))
		return cli_refuse("%s: '%s' is not a folder", given->option, given->value);
	if (!ARRAY_ADD(s->debug_dir, s->dir_room, s->debug_dirs, given->value))
		return cli_fail("out of memory");
	return true;
}

static const struct option_row symbolize_rows[] = {
    {"output", 'o', "OUT", OPTION_FILE(struct symbolizing, output), .words = OPTION_FILES,
     .help = "write the trace with names to OUT, and leave TRACE as it is; - is standard output"},
    {"force", .help = "replace OUT when it exists", OPTION_FLAG(struct symbolizing, force)},
    {"debug-dir", .argument = "DIR", OPTION_OWN(take_debug_dir), .words = OPTION_FOLDERS,
     .help = "also look for files in DIR: a folder of debug files, or another machine's root "
	     "(may be given several times)"},
    OPTION_GROUP(download_rows, struct symbolizing, download),
    OPTION_END,
};

const struct option_table symbolize_option_table = {
    .usage = "symbolize [OPTIONS] TRACE",
    .about = "Adds names, files and lines to a finished trace, from symbols that were installed "
	     "later,\n"
	     "from debuginfod, or from another machine's files. Files are matched by build-id.\n",
    .rows = symbolize_rows,
};

int cmd_symbolize(int argc, char **argv)
{
	struct symbolizing s = {.download = DOWNLOAD_DEFAULTS, .said = stdout};
	int status = options_take(&symbolize_option_table, &s, argc, argv);

	if (status == OPTIONS_TAKEN && !one_named(argc, argv, "trace"))
		status = CLI_USAGE;
	if (status == OPTIONS_TAKEN) {
		s.path = argv[optind];
		if (strcmp(s.path, "-") == 0 && !s.output)
			status = cli_usage("a trace from standard input needs -o OUT");
		else if (s.output && strcmp(s.output, "-") == 0 && isatty(STDOUT_FILENO))
			status = cli_error("not writing a binary trace to a terminal; use -o FILE");
	}
	if (status == OPTIONS_TAKEN) {
		if (s.output && strcmp(s.output, "-") == 0)
			s.said = stderr;
		status = symbolize(&s);
	}
	free(s.debug_dir);
	return status;
}
