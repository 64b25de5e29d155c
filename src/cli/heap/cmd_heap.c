/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly heap: who holds the memory of a process, or of one that has left a core file. */
#include "cli/cli.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer/text_format.h"
#include "base/array.h"
#include "cli/control/process_number.h"
#include "cli/heap/heap_every.h"
#include "cli/heap/heap_growth_print.h"
#include "cli/heap/heap_html.h"
#include "cli/option_table.h"
#include "cli/record/download.h"
#include "symbols/names_file.h"
#include "terminal/border.h"
#include "terminal/terminal.h"

struct heap_command {
	struct heap_view view;
	struct picture_wishes wishes;
	int64_t most_stop_ns;
	bool no_stop, json;
	const char *html;
	int64_t every_ns, for_ns;
	const char **debug_dir;
	size_t debug_dirs, dir_room;
	struct download download;
};

#define EVERY_LEAST_NS 10000000

static const char *const heap_by_names[] = {"holder", "type", NULL};

static bool take_debug_dir(const struct given *given, void *to)
{
	struct heap_command *c = to;
	struct stat st;

	if (stat(given->value, &st) != 0 || !S_ISDIR(st.st_mode))
		return cli_refuse("%s: '%s' is not a folder", given->option, given->value);
	if (!ARRAY_ADD(c->debug_dir, c->dir_room, c->debug_dirs, given->value))
		return cli_fail("out of memory");
	return true;
}

static const char *const waste_words[] = {"strings", NULL};

static bool take_waste(const struct given *given, void *to)
{
	struct heap_command *c = to;
	int choice;

	c->view.waste = true;
	if (!given->value)
		return true;
	c->view.strings =
	    option_choice(given->option, given->value, waste_words, &choice, given->error_line);
	return c->view.strings;
}

static const struct option_row heap_rows[] = {
    OPTION_HEADING("How the process is read:"),
    {"max-stop", .argument = "TIME", .least = 1, OPTION_TIME(struct heap_command, most_stop_ns),
     .help = "fail when the process would be stopped for longer"},
    {"no-stop", .help = "read it while it runs: approximate, for very large processes",
     OPTION_FLAG(struct heap_command, no_stop)},
    {"debug-dir", .argument = "DIR", OPTION_OWN(take_debug_dir), .words = OPTION_FOLDERS,
     .help = "also look for files with symbols in DIR (may be given several times)"},
    OPTION_GROUP(download_rows, struct heap_command, download),
    OPTION_HEADING("When:"),
    {"every", .argument = "TIME", .least = EVERY_LEAST_NS,
     OPTION_TIME(struct heap_command, every_ns),
     .help = "look again and again, and show what grew"},
    {"for", .argument = "TIME", .least = 1, OPTION_TIME(struct heap_command, for_ns),
     .help = "with --every: as long as that (default: until it ends, or Ctrl-C)"},
    OPTION_HEADING("How to show it:"),
    {"by", .argument = "KEY", OPTION_CHOICE(heap_by_names, struct heap_command, view.by),
     OPTION_GIVEN(struct heap_command, view.by_given),
     .help = "one row for each holder (default), or for each type"},
    {"waste", .argument = "[=strings]", OPTION_OWN(take_waste), .words = "strings",
     .help = "show what is wasted: blocks of zeros, unused ends, equal contents; with =strings "
	     "also how texts begin that several blocks have"},
    {"top", 'n', "N", OPTION_COUNT(struct heap_command, view.top), .least = 1, .most = 1000000,
     .help = "show at most N rows (default 10)"},
    OPTION_WIDE(struct heap_command, view.out.wide),
    OPTION_JSON(struct heap_command, json),
    {"html", .argument = "OUT", OPTION_FILE(struct heap_command, html), .words = OPTION_FILES,
     .help = "write it as the page of mayfly view"},
    OPTION_END,
};

const struct option_table heap_option_table = {
    .usage = "heap [OPTIONS] PID|CORE",
    .about = "Shows who holds the memory of a process that runs, recorded or not, or of one that "
	     "left a\n"
	     "core file: which variables, stacks and threads keep the blocks of glibc's malloc "
	     "and the\n"
	     "objects of CPython alive, and which blocks are lost, as nothing points to them.\n",
    .rows = heap_rows,
    .notes = "The process is stopped while it is copied, about 30 ms for each GiB, and runs on.\n",
};

/* ---- while it is made ---- */

static volatile sig_atomic_t stopped_by_signal;

static void note_signal(int number)
{
	stopped_by_signal = number;
}

/* The copy of the process must be killed and waited for, so signals only end the reading. */
static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = note_signal};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sigaction(numbers[i], &action, NULL);
}

static bool show_progress(void *context, const char *what, double done)
{
	char text[128];

	(void)context;
	if (stopped_by_signal)
		return false;
	if (isatty(STDERR_FILENO))
		border_replace_line(
		    text_format(text, sizeof(text), "%s: %.0f %%", what, 100 * done));
	return true;
}

static void show_download(void *context, const char *text)
{
	(void)context;
	if (isatty(STDERR_FILENO))
		border_replace_line(text);
}

/* ---- the command ---- */

static bool is_number(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!isdigit((unsigned char)*c))
			return false;
	return *text;
}

static int show(struct heap_command *c, const struct picture *p)
{
	if (c->html)
		return heap_write_html(p, c->html);
	if (c->json)
		return heap_print_json(p);
	pager_start();
	return heap_print_text(p, &c->view);
}

static int show_growth(struct heap_command *c, const struct heap_growth *g, pid_t pid)
{
	if (c->json)
		return heap_growth_print_json(g, pid);
	pager_start();
	return heap_growth_print_text(g, &c->view);
}

static int take_pictures(struct heap_command *c, const char *what)
{
	struct heap_every every = {.every_ns = c->every_ns,
				   .for_ns = c->for_ns,
				   .stopped = &stopped_by_signal,
				   .shows = isatty(STDERR_FILENO)};
	struct heap_growth g = {0};
	char why[PICTURE_WHY];
	int status = CLI_OK;
	bool good;
	pid_t pid;

	if (!process_number_take(what, &pid))
		return CLI_USAGE;
	catch_signals();
	good = heap_every_run(&every, &g, pid, &c->wishes, why, sizeof(why));
	if (every.shows)
		border_replace_line("");
	if (g.moments)
		status = show_growth(c, &g, pid);
	if (!good)
		status = cli_error("cannot read the heap of process %s%s: %s", what,
				   g.moments ? " any more" : "", why);
	heap_growth_free(&g);
	return status;
}

static int take_picture(struct heap_command *c, const char *what)
{
	bool core = !is_number(what), good;
	char why[PICTURE_WHY];
	struct picture p;
	pid_t pid;
	int status;

	if (!core && !process_number_take(what, &pid))
		return CLI_USAGE;
	catch_signals();
	good = core ? picture_of_core(&p, what, &c->wishes, why, sizeof(why))
		    : picture_of_process(&p, pid, &c->wishes, why, sizeof(why));
	if (isatty(STDERR_FILENO))
		border_replace_line("");
	if (!good && core)
		return cli_error("%s: %s", what, why);
	if (!good)
		return cli_error("cannot read the heap of process %s: %s", what, why);
	status = show(c, &p);
	picture_free(&p);
	return status;
}

int cmd_heap(int argc, char **argv)
{
	struct heap_command c = {.view.top = 10, .download = DOWNLOAD_DEFAULTS};
	int status = options_take(&heap_option_table, &c, argc, argv);
	char cache_folder[PATH_MAX];

	if (status == OPTIONS_TAKEN && optind + 1 != argc)
		status = cli_usage("name a process, by its number, or a core file");
	if (status == OPTIONS_TAKEN && c.for_ns && !c.every_ns)
		status = cli_usage("--for needs --every");
	if (status == OPTIONS_TAKEN && c.every_ns && !is_number(argv[optind]))
		status = cli_usage("--every needs a process; '%s' is not the number of one",
				   argv[optind]);
	if (status == OPTIONS_TAKEN && c.every_ns && c.view.waste)
		status = cli_usage("--every shows what grows, --waste what is wasted: choose one");
	if (status == OPTIONS_TAKEN && c.html && (c.json || c.every_ns || c.view.waste))
		status = cli_usage("--html shows one picture; it cannot be combined with %s",
				   c.json	? "--json"
				   : c.every_ns ? "--every"
						: "--waste");
	/* What memory holds may be secret: it is shown to who asks, and gets into no file. */
	if (status == OPTIONS_TAKEN && c.view.strings && (c.json || !isatty(STDOUT_FILENO)))
		status =
		    cli_usage("--waste=strings shows what is in the memory of the process: only "
			      "on a terminal, as text");
	if (status == OPTIONS_TAKEN) {
		output_detect(&c.view.out);
		c.wishes = (struct picture_wishes){
		    .source = {.no_stop = c.no_stop, .most_stop_ns = c.most_stop_ns},
		    .files.dirs = {.dir = c.debug_dir, .count = c.debug_dirs},
		    .symbol_cache = names_cache_folder(cache_folder),
		    .waste = c.view.waste,
		    .strings = c.view.strings,
		    .progress = show_progress,
		};
		if (c.download.limit_ns)
			c.wishes.files.server =
			    debug_server_new(c.download.limit_ns, show_download, NULL);
		status =
		    c.every_ns ? take_pictures(&c, argv[optind]) : take_picture(&c, argv[optind]);
		debug_server_free(c.wishes.files.server);
	}
	free(c.debug_dir);
	return status;
}
