/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly view: shows a trace in the browser.
 *
 *	trace ──> view (view.h) ──> server (server.h) ──> the page, on 127.0.0.1
 */
#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/open_trace.h"
#include "cli/option_table.h"
#include "cli/output.h"
#include "cli/viewing.h"

#define LARGE_BYTES ((off_t)256 << 20) /* takes a while to read */

struct view_command {
	struct viewing_settings viewing;
};

static const struct option_row view_rows[] = {
    {"base", .argument = "FILE", OPTION_FILE(struct view_command, viewing.base),
     .words = OPTION_FILES, .help = "also open this trace, to compare with"},
    {"port", .argument = "PORT", OPTION_COUNT(struct view_command, viewing.port), .least = 1,
     .most = UINT16_MAX, .help = "serve the page at this port (default: any that is free)"},
    {"no-browser", .help = "do not open the browser, only print the address",
     OPTION_FLAG(struct view_command, viewing.no_browser)},
    OPTION_END,
};

const struct option_table view_option_table = {
    .usage = "view [OPTIONS] FILE",
    .about = "Shows a trace in the browser, until Ctrl-C.\n",
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
	bool good = open_trace(path, opened);

	if (said)
		fputs("\r\033[K", stderr);
	return good;
}

static int view(const struct view_command *c, const char *path)
{
	struct opened_trace opened;
	struct viewing v;
	sigset_t ending;
	int number;

	/* Before any thread is started. */
	viewing_signals(&ending);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	if (!viewing_start(&v, &c->viewing))
		return CLI_FAILED;
	if (!open_with_progress(path, &opened)) {
		viewing_end(&v, CLI_FAILED);
		return CLI_FAILED;
	}
	if (!viewing_show(&v, path, &opened, false)) {
		viewing_end(&v, CLI_FAILED);
		return cli_error("out of memory");
	}
	viewing_announce(&v, stdout, "", path);
	sigwait(&ending, &number);
	if (isatty(STDERR_FILENO))
		fputc('\n', stderr); /* after the ^C */
	viewing_end(&v, CLI_OK);
	return CLI_OK;
}

int cmd_view(int argc, char **argv)
{
	struct view_command c = {0};
	int status = options_take(&view_option_table, &c, argc, argv);

	if (status != OPTIONS_TAKEN)
		return status;
	if (!one_named(argc, argv, "trace"))
		return CLI_USAGE;
	return view(&c, argv[optind]);
}
