/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly view: shows a trace in the browser.
 *
 *	trace ──────────────────────┐
 *	spool ──> follow.h, once ───┴─> view.h ──> server.h ──> the page, on 127.0.0.1
 *	          a second
 */
#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "terminal/border.h"
#include "cli/view/follow.h"
#include "cli/input/open_trace.h"
#include "cli/option_table.h"
#include "terminal/output.h"
#include "cli/input/ongoing.h"
#include "cli/view/view_html.h"
#include "cli/view/viewing.h"

#define LARGE_BYTES ((off_t)256 << 20) /* takes a while to read */

struct view_command {
	struct viewing_settings viewing;
	const char *html; /* instead of serving */
	bool embed_sources, force;
	char *sources; /* a folder, outside of which no source file is read; or NULL */
};

/* The value: --embed-sources=DIR. */
static bool take_sources(const struct given *given, void *to)
{
	struct view_command *c = to;
	struct stat status;

	c->embed_sources = true;
	free(c->sources);
	c->sources = given->value ? realpath(given->value, NULL) : NULL;
	if (given->value &&
	    (!c->sources || stat(c->sources, &status) != 0 || !S_ISDIR(status.st_mode)))
		return cli_refuse("%s: '%s' is not a folder", given->option, given->value);
	return true;
}

static const struct option_row view_rows[] = {
    {"base", .argument = "FILE", OPTION_FILE(struct view_command, viewing.base),
     .words = OPTION_FILES, .help = "also open this trace, to compare with"},
    {"port", .argument = "PORT", OPTION_COUNT(struct view_command, viewing.port), .least = 1,
     .most = UINT16_MAX, .help = "serve the page at this port (default: any that is free)"},
    {"no-browser", .help = "do not open the browser, only print the address",
     OPTION_FLAG(struct view_command, viewing.no_browser)},
    OPTION_HEADING("Instead of serving the page:"),
    {"html", .argument = "OUT", OPTION_FILE(struct view_command, html), .words = OPTION_FILES,
     .help = "write the page with the trace in it to OUT; without FILE, the page alone"},
    {"embed-sources", .argument = "[=DIR]", OPTION_OWN(take_sources), .words = OPTION_FOLDERS,
     .help =
	 "put the source files that the trace names into OUT, too, and list them; =DIR: only those "
	 "below this folder"},
    {"force", .help = "replace OUT", OPTION_FLAG(struct view_command, force)},
    OPTION_END,
};

const struct option_table view_option_table = {
    .usage = "view [OPTIONS] FILE|SPOOL|PID",
    .about = "Shows a trace in the browser, until Ctrl-C; also one that is being recorded.\n",
    .rows = view_rows,
    .notes = "The page is served on 127.0.0.1 only, at an address that others cannot guess.\n",
};

/* On a terminal, as nothing else happens for a while. */
static bool say_reading(const char *path)
{
	struct stat status;
	char size[FIGURE_TEXT];

	if (!isatty(STDERR_FILENO) || stat(path, &status) || status.st_size < LARGE_BYTES)
		return false;
	fprintf(stderr, "mayfly: reading %s (%s)", path,
		text_bytes(size, sizeof(size), (double)status.st_size));
	fflush(stderr);
	return true;
}

static bool open_with_progress(const char *path, struct opened_trace *opened)
{
	bool said = say_reading(path);
	bool good = viewing_open(path, opened);

	if (said)
		border_sign(stderr, SIGN_CLEAR_LINE);
	return good;
}

/* Shows it until a signal comes. Before, signals end the process: reading can take long. */
static void announce_and_wait(const struct viewing *v, const char *what, const char *note)
{
	sigset_t ending;
	int number;

	viewing_signals(&ending);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	viewing_announce(v, stdout, "", what, note);
	sigwait(&ending, &number);
	if (isatty(STDERR_FILENO))
		fputc('\n', stderr); /* after the ^C */
}

static int view_file(struct viewing *v, const char *path)
{
	struct opened_trace opened;

	if (!open_with_progress(path, &opened)) {
		viewing_end(v, CLI_FAILED);
		return CLI_FAILED;
	}
	v->path = strcmp(path, "-") == 0 ? NULL : path;
	if (!viewing_show(v, path, &opened, false)) {
		viewing_end(v, CLI_FAILED);
		return cli_error("out of memory");
	}
	announce_and_wait(v, path, " (Ctrl-C ends)");
	viewing_end(v, CLI_OK);
	return CLI_OK;
}

static int view_recording(struct viewing *v, const char *spool)
{
	struct follow *follow;

	if (!follow_start(v, spool, false, &follow)) {
		viewing_end(v, CLI_FAILED);
		return CLI_FAILED;
	}
	announce_and_wait(v, spool, " (it is being recorded; Ctrl-C ends only this)");
	follow_stop(follow, CLI_OK);
	viewing_end(v, CLI_OK);
	follow_free(follow);
	return CLI_OK;
}

static int view(const struct view_command *c, const char *named)
{
	struct viewing v;
	const char *why;
	bool goes_on;
	char *spool = ongoing_find(named, &goes_on, &why);
	int status = CLI_FAILED;

	if (why)
		return cli_error("process %s: %s", named, why);
	if (viewing_start(&v, &c->viewing))
		status = goes_on ? view_recording(&v, spool) : view_file(&v, spool ? spool : named);
	free(spool);
	return status;
}

/* path NULL: the page alone. */
static int write_html(const struct view_command *c, const char *path)
{
	const struct view_html how = {
	    .output = c->html,
	    .force = c->force,
	    .path = path,
	    .base_path = c->viewing.base,
	    .sources = c->embed_sources,
	    .folder = c->sources,
	};
	struct opened_trace opened, base;
	bool trace_there = path && open_with_progress(path, &opened);
	bool base_there = trace_there && how.base_path && open_with_progress(how.base_path, &base);
	int status = CLI_FAILED;

	if (trace_there == (path != NULL) && base_there == (how.base_path != NULL))
		status =
		    view_write_html(&how, trace_there ? &opened : NULL, base_there ? &base : NULL);
	if (base_there)
		close_trace(&base);
	if (trace_there)
		close_trace(&opened);
	return status;
}

static bool view_options_agree(const struct view_command *c, bool named)
{
	if (!c->html && (c->embed_sources || c->force))
		return cli_refuse("%s needs --html", c->force ? "--force" : "--embed-sources");
	if (c->html && (c->viewing.port || c->viewing.no_browser))
		return cli_refuse("--html serves nothing; it cannot be combined with %s",
				  c->viewing.port ? "--port" : "--no-browser");
	if (!named && (c->viewing.base || c->embed_sources))
		return cli_refuse("no trace given");
	return true;
}

static int run_view(const struct view_command *c, int argc, char **argv)
{
	if (!view_options_agree(c, optind < argc))
		return CLI_USAGE;
	if (c->html && optind == argc)
		return write_html(c, NULL);
	if (!one_named(argc, argv, "trace"))
		return CLI_USAGE;
	return c->html ? write_html(c, argv[optind]) : view(c, argv[optind]);
}

int cmd_view(int argc, char **argv)
{
	struct view_command c = {0};
	int status = options_take(&view_option_table, &c, argc, argv);

	if (status == OPTIONS_TAKEN)
		status = run_view(&c, argc, argv);
	free(c.sources);
	return status;
}
