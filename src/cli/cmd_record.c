/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record: runs a program with the agent in it and makes a trace of what it leaves behind.
 *
 *	options ──> child waits ──> FILE.spool ──> child becomes the program
 *	                                              │  every tick: reserve space, progress line
 *	                                              ▼
 *	           FILE <── finalise_spool() <── it has ended (and, with --follow, its children)
 *
 * Whatever happens to mayfly meanwhile, the spools stay and every command reads them. They are
 * removed when the traces made from them are complete.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "child.h"
#include "finalise.h"
#include "options.h"
#include "output.h"
#include "program.h"
#include "spool_watch.h"

/* As env, nohup, timeout and others that run a command. */
enum { RECORD_FAILED = 125, RECORD_NOT_EXECUTABLE = 126, RECORD_NOT_FOUND = 127 };

#define DEFAULT_INTERVAL_LOG2 19
#define MAX_INTERVAL_LOG2     40

#define TICK_SOON_MS 50
#define TICK_MS	     200
#define START_NS     1000000000ll /* frequent ticks at first */
#define PROGRESS_NS  200000000ll

static const char *const sampler_names[] = {"stratified", "poisson", NULL};

struct record {
	/* options */
	const char *output;
	const char *debug_dir;
	uint32_t interval_log2;
	int sampler; /* enum spool_sampler */
	bool interval_given, sampler_given, exact;
	bool force, follow, quiet, progress;
	char **argv;

	struct program program;
	struct child child;
	struct spool_watch watch;
	char *file;	     /* the trace, as the user wrote it */
	char *spool;	     /* beside it */
	char *folder;	     /* in which mayfly was started */
	char *preload;	     /* LD_PRELOAD */
	char *user_settings; /* ",key=value..." of MAYFLY that go on to the agent */
	int64_t start_ns;
	int64_t progress_ns;  /* when the line was last drawn; 0: there is none */
	char *image_spool;    /* of the program image that runs now */
	unsigned long images; /* that followed the first */
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static char *format(const char *text, ...) __attribute__((format(printf, 1, 2)));

/* Never fails: without memory for a path nothing can be recorded, and nothing is lost by ending. */
static char *format(const char *text, ...)
{
	va_list arguments;
	char *made;
	int length;

	va_start(arguments, text);
	length = vasprintf(&made, text, arguments);
	va_end(arguments);
	if (length < 0) {
		cli_error("out of memory");
		exit(RECORD_FAILED);
	}
	return made;
}

/* ---- options ---- */

static const char help[] =
    "Usage: mayfly record [OPTIONS] [--] COMMAND [ARGUMENTS]\n"
    "\n"
    "Runs COMMAND, samples its memory allocations and writes a trace.\n"
    "\n"
    "  -o, --output FILE       write the trace to FILE (mayfly.NAME.PID.mayfly)\n"
    "      --force             replace FILE even when it is no trace\n"
    "  -i, --interval BYTES    mean bytes between samples (512K); taken to the nearest power of\n"
    "                          two; K, M and G are powers of 1024\n"
    "  -x, --exact             record every allocation, which is the same as -i 1\n"
    "      --sampler NAME      stratified or poisson (stratified)\n"
    "  -f, --follow            also record child processes: FILE with .PID before its suffix\n"
    "      --debug-dir DIR     look for separate debug files in DIR/.build-id too\n"
    "      --progress          show a progress line even when COMMAND's output is a terminal\n"
    "  -q, --quiet             no progress and no line at the end, only what went wrong;\n"
    "                          this is so anyway when standard error is no terminal\n"
    "  -h, --help              this text\n"
    "\n"
    "Exit status: COMMAND's own, 128+N when signal N ended it; 125 when mayfly failed,\n"
    "126 when COMMAND cannot be executed, 127 when it is not found.\n";

static bool take_interval(struct record *r, const char *option, const char *text)
{
	char wanted[FIGURE_TEXT], taken[FIGURE_TEXT];
	uint64_t bytes, power = 1;
	uint32_t log2 = 0;

	if (!option_bytes(option, text, &bytes))
		return false;
	if (!bytes || bytes > 1ull << MAX_INTERVAL_LOG2) {
		cli_usage("%s: '%s' is outside of 1 to 1T", option, text);
		return false;
	}
	while (power * 2 <= bytes) {
		power *= 2;
		log2++;
	}
	if (bytes - power >= 2 * power - bytes && log2 < MAX_INTERVAL_LOG2)
		log2++;
	r->interval_log2 = log2;
	if (bytes != 1ull << log2 && !r->quiet && isatty(STDERR_FILENO))
		cli_error("the interval of %s is taken as %s, a power of two",
			  text_bytes(wanted, sizeof(wanted), (double)bytes),
			  text_bytes(taken, sizeof(taken), (double)(1ull << log2)));
	return true;
}

/* Options that later versions have; scripts get an answer that says so. */
static bool take_ocaml(const char *value)
{
	if (value && !strcmp(value, "off"))
		return true;
	cli_usage("--ocaml: OCaml's own heap is not recorded in this version; only --ocaml=off");
	return false;
}

enum { OPTION_SAMPLER = 256, OPTION_FORCE, OPTION_OCAML, OPTION_DEBUG_DIR, OPTION_PROGRESS };

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"interval", required_argument, NULL, 'i'},
    {"sampler", required_argument, NULL, OPTION_SAMPLER},
    {"exact", no_argument, NULL, 'x'},
    {"follow", no_argument, NULL, 'f'},
    {"ocaml", optional_argument, NULL, OPTION_OCAML},
    {"force", no_argument, NULL, OPTION_FORCE},
    {"debug-dir", required_argument, NULL, OPTION_DEBUG_DIR},
    {"progress", no_argument, NULL, OPTION_PROGRESS},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* -1: go on. Otherwise the exit status. */
static int take_option(struct record *r, int option, char **argv)
{
	switch (option) {
	case 'o':
		r->output = optarg;
		return -1;
	case 'i':
		r->interval_given = true;
		return take_interval(r, "--interval", optarg) ? -1 : RECORD_FAILED;
	case OPTION_SAMPLER:
		r->sampler_given = true;
		return option_choice("--sampler", optarg, sampler_names, &r->sampler)
			   ? -1
			   : RECORD_FAILED;
	case 'x':
		r->exact = true;
		return -1;
	case 'f':
		r->follow = true;
		return -1;
	case OPTION_OCAML:
		return take_ocaml(optarg) ? -1 : RECORD_FAILED;
	case OPTION_FORCE:
		r->force = true;
		return -1;
	case OPTION_DEBUG_DIR:
		r->debug_dir = optarg;
		return -1;
	case OPTION_PROGRESS:
		r->progress = true;
		return -1;
	case 'q':
		r->quiet = true;
		return -1;
	case 'h':
		fputs(help, stdout);
		return cli_finish() ? RECORD_FAILED : 0;
	default:
		cli_bad_option(option, argv);
		return RECORD_FAILED;
	}
}

static int take_options(struct record *r, int argc, char **argv)
{
	int option, status;

	r->interval_log2 = DEFAULT_INTERVAL_LOG2;
	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+:o:i:xfqh", long_options, NULL)) != -1) {
		status = take_option(r, option, argv);
		if (status >= 0)
			return status;
	}
	if (r->exact && r->interval_given) {
		cli_usage("--exact records every allocation; it does not go with --interval");
		return RECORD_FAILED;
	}
	if (r->exact)
		r->interval_log2 = 0;
	if (optind >= argc) {
		cli_usage("which program? 'mayfly record -- COMMAND ARGUMENTS'");
		return RECORD_FAILED;
	}
	r->argv = argv + optind;
	if (r->output && !*r->output) {
		cli_usage("--output: the name is empty");
		return RECORD_FAILED;
	}
	return -1;
}

/* Where the build was told to install; another build system may leave that open. */
#ifndef MAYFLY_PREFIX
#define MAYFLY_PREFIX "/usr/local"
#define MAYFLY_LIBDIR "lib"
#endif

/* ---- what the program finds in its environment ---- */

/* The agent: beside mayfly, in the tree where it was built, or where it was installed. */
static char *find_agent(const char *name)
{
	static const char *const places[] = {"",
					     "../agent/",
					     "../" MAYFLY_LIBDIR "/mayfly/",
					     "../lib/mayfly/",
					     MAYFLY_PREFIX "/" MAYFLY_LIBDIR "/mayfly/",
					     NULL};
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length <= 0)
		return NULL;
	self[length] = 0;
	*(strrchr(self, '/') + 1) = 0;
	for (size_t i = 0; places[i]; i++) {
		char *path = format("%s%s%s", *places[i] == '/' ? "" : self, places[i], name);
		char *real = realpath(path, NULL);

		free(path);
		if (real && !access(real, R_OK))
			return real;
		free(real);
	}
	return NULL;
}

static bool preload_brings_new(const char *list)
{
	bool brings = false;

	while (*list && !brings) {
		size_t length = strcspn(list, ": ");
		char *library = format("%.*s", (int)length, list);

		brings = program_library_brings_new(library);
		free(library);
		list += length + (list[length] != 0);
	}
	return brings;
}

/* Sets r->preload: the agent before what the user preloads. An allocator that defines operator new
 * itself does not go through malloc; then the agent's own, which do, come with it. */
static bool choose_preload(struct record *r)
{
	const char *user = getenv("LD_PRELOAD");
	char *agent = find_agent("libmayfly.so"), *cxx = NULL;

	if (!user)
		user = "";
	if (!agent) {
		cli_error("libmayfly.so is neither beside mayfly nor where it was installed");
		return false;
	}
	if (r->program.brings_new || preload_brings_new(user))
		cxx = find_agent("libmayfly-cxx.so");
	if (strpbrk(agent, ": ") || (cxx && strpbrk(cxx, ": "))) {
		cli_error("'%s' cannot be preloaded: its path has a space or a colon", agent);
		free(agent);
		free(cxx);
		return false;
	}
	r->preload =
	    format("%s%s%s%s%s", agent, cxx ? ":" : "", cxx ? cxx : "", *user ? ":" : "", user);
	free(agent);
	free(cxx);
	return true;
}

/* A value of MAYFLY ends at a comma, and '%' escapes. */
static char *escape(const char *text)
{
	char *escaped = format("%*s", (int)strlen(text) * 3 + 1, "");
	char *to = escaped;

	for (; *text; text++) {
		if (*text == ',' || *text == '%')
			to += sprintf(to, "%%%02x", (unsigned char)*text);
		else
			*to++ = *text;
	}
	*to = 0;
	return escaped;
}

static bool is_key(const char *setting, size_t length, const char *key)
{
	return length > strlen(key) && !strncmp(setting, key, strlen(key)) &&
	       setting[strlen(key)] == '=';
}

/* The user's own settings go on to the agent, except for those that the recorder gives. Interval
 * and sampler are taken from there when no option says otherwise. */
static bool take_user_settings(struct record *r)
{
	const char *text = getenv("MAYFLY");
	bool good = true;

	r->user_settings = format("%s", "");
	while (text && *text && good) {
		size_t length = strcspn(text, ",");
		char *setting = format("%.*s", (int)length, text), *longer;
		const char *value = strchr(setting, '=');

		if (is_key(setting, length, "interval")) {
			if (!r->interval_given && !r->exact)
				good = take_interval(r, "interval in MAYFLY", value + 1);
		} else if (is_key(setting, length, "sampler")) {
			if (!r->sampler_given)
				good = option_choice("sampler in MAYFLY", value + 1, sampler_names,
						     &r->sampler);
		} else if (length && !is_key(setting, length, "output") &&
			   !is_key(setting, length, "pid") && !is_key(setting, length, "follow")) {
			longer = format("%s,%s", r->user_settings, setting);
			free(r->user_settings);
			r->user_settings = longer;
		}
		free(setting);
		text += length + (text[length] == ',');
	}
	return good;
}

/* The agent's settings. */
static char *make_settings(const struct record *r)
{
	char *path =
	    *r->spool == '/' ? format("%s", r->spool) : format("%s/%s", r->folder, r->spool);
	char *escaped = escape(path), *settings;

	settings = format("output=%s,interval=%llu,sampler=%s,pid=%ld,follow=%d%s", escaped,
			  1ull << r->interval_log2, sampler_names[r->sampler], (long)r->child.pid,
			  r->follow, r->user_settings);
	free(escaped);
	free(path);
	return settings;
}

/* ---- files ---- */

static void choose_names(struct record *r)
{
	const char *slash = strrchr(r->argv[0], '/');
	const char *name = slash ? slash + 1 : r->argv[0];

	r->file = r->output ? format("%s", r->output)
			    : format("mayfly.%s.%ld.mayfly", name, (long)r->child.pid);
	r->spool = format("%s.spool", r->file);
	r->image_spool = format("%s", r->spool);
}

/* Something that mayfly wrote, or empty as from mktemp: a new recording may take its place. */
static bool may_replace(const char *file, const struct stat *st)
{
	struct mayfly_trace *trace;
	void *data;
	int fd, error;

	if (!st->st_size)
		return true;
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	data = mmap(NULL, (size_t)st->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return false;
	error = mayfly_trace_open(data, (size_t)st->st_size, &trace);
	if (!error)
		mayfly_trace_close(trace);
	munmap(data, (size_t)st->st_size);
	return error != MAYFLY_E_NOT_A_TRACE;
}

static bool check_output(const struct record *r)
{
	struct stat st;

	if (stat(r->file, &st))
		return true;
	if (S_ISDIR(st.st_mode)) {
		cli_error("'%s' is a folder; name a file with -o", r->file);
		return false;
	}
	if (!S_ISREG(st.st_mode)) {
		cli_error("'%s' is no ordinary file; the recording needs one", r->file);
		return false;
	}
	if (r->force || may_replace(r->file, &st))
		return true;
	cli_error("'%s' exists and is no trace; use another name or --force", r->file);
	return false;
}

static bool refuse_old_spool(const char *path)
{
	cli_error("'%s' is there from a recording that was cut off or still runs; "
		  "'mayfly report' reads it; remove it or use --force",
		  path);
	return false;
}

/* Spools that an earlier recording of the same name left would be taken for this one's. */
static bool clear_old_spools(const struct record *r)
{
	struct spool_list list;
	bool good = true;

	if (r->force)
		unlink(r->spool);
	if (!spool_list_read(&list, r->file))
		return false;
	for (size_t i = 0; i < list.count && good; i++) {
		if (r->force && !spool_in_use(&list.entry[i]))
			unlink(list.entry[i].path);
		else
			good = refuse_old_spool(list.entry[i].path);
	}
	spool_list_free(&list);
	return good;
}

static bool make_spool(struct record *r)
{
	int error;

	if (!check_output(r) || !clear_old_spools(r))
		return false;
	error = spool_watch_create(&r->watch, r->spool, (uint32_t)r->sampler, r->interval_log2);
	if (error == EEXIST)
		return refuse_old_spool(r->spool);
	if (error) {
		cli_error("cannot make '%s': %s", r->spool, strerror(error));
		return false;
	}
	return true;
}

/* ---- the progress line ---- */

static char *count_text(uint64_t count)
{
	char digits[32];
	char *text = format("%*s", 32, ""), *to = text;
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
	return text;
}

static void clear_progress(struct record *r)
{
	if (r->progress_ns)
		fputs("\r\033[K", stderr);
	fflush(stderr);
	r->progress_ns = 0;
}

/* On a terminal that the program does not write to itself: a line in the middle of its output, or
 * of a screen that it draws, would do harm. */
static bool wants_progress(const struct record *r)
{
	return !r->quiet && isatty(STDERR_FILENO) && (r->progress || !isatty(STDOUT_FILENO));
}

/* After an exec the counters are in the spool of the new image. */
static void find_image(struct record *r)
{
	char *next = format("%s.%ld.%lu.spool", r->file, (long)r->child.pid, r->images);

	if (access(next, F_OK)) {
		free(next);
		return;
	}
	free(r->image_spool);
	r->image_spool = next;
	r->images++;
}

static void show_progress(struct record *r)
{
	char time[FIGURE_TEXT], live[FIGURE_TEXT], line[256];
	struct spool_glance g;
	struct winsize window;
	int64_t now = now_ns();
	int columns = 80;
	char *samples;

	if (now - r->progress_ns < PROGRESS_NS)
		return;
	find_image(r);
	if (!spool_glance(r->image_spool, &g) || g.state == SPOOL_WAITING)
		return;
	samples = count_text(g.samples);
	snprintf(line, sizeof(line), "mayfly: %s  %s samples  live about %s%s",
		 text_duration(time, sizeof(time), (double)(now - r->start_ns)), samples,
		 text_bytes(live, sizeof(live), g.live_bytes > 0 ? (double)g.live_bytes : 0),
		 g.dropped ? "  (some dropped)" : "");
	free(samples);
	/* A line that wraps could not be taken back. */
	if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &window) && window.ws_col)
		columns = window.ws_col;
	fprintf(stderr, "\r\033[K%.*s", columns - 1, line);
	fflush(stderr);
	r->progress_ns = now;
}

/* ---- running the program ---- */

/* In the child. Its number is part of the default name, so the names are made again here. */
static void set_environment(void *context)
{
	struct record *r = context;
	char *settings;

	r->child.pid = getpid();
	choose_names(r);
	if (r->program.breaks)
		return;
	settings = make_settings(r);
	if (setenv("LD_PRELOAD", r->preload, 1) || setenv("MAYFLY", settings, 1))
		cli_error("out of memory; the program runs without the agent");
	free(settings);
}

static void tick(struct record *r)
{
	int error = spool_watch_tick(&r->watch);

	if (error) {
		clear_progress(r);
		cli_error("cannot extend '%s': %s; the recording ends where the space does",
			  r->spool, strerror(error));
	}
}

static void wait_for_signal(const struct record *r, int milliseconds)
{
	struct pollfd poll_fd = {.fd = r->child.signals, .events = POLLIN};

	poll(&poll_fd, 1, milliseconds);
}

static void watch_program(struct record *r)
{
	bool progress = wants_progress(r);
	struct child *c = &r->child;

	while (!c->ended) {
		bool soon = r->watch.busy || now_ns() - r->start_ns < START_NS;

		wait_for_signal(r, soon ? TICK_SOON_MS : TICK_MS);
		child_signals(c);
		if (c->ended)
			break;
		if (c->stop_signal) {
			clear_progress(r);
			child_stop_too(c);
			continue;
		}
		tick(r);
		if (progress)
			show_progress(r);
	}
	clear_progress(r);
}

static int say_not_started(const struct record *r, int error)
{
	const char *command = r->argv[0], *interpreter = r->program.interpreter;

	if (error != ENOENT) {
		cli_error("cannot run '%s': %s", command, strerror(error));
		return RECORD_NOT_EXECUTABLE;
	}
	if (!r->program.path || access(r->program.path, F_OK))
		cli_error("cannot run '%s': not found", command);
	else
		cli_error("cannot run '%s': its interpreter%s%s is not found", command,
			  *interpreter ? " " : "", interpreter);
	return RECORD_NOT_FOUND;
}

static void drop_spool(struct record *r)
{
	spool_watch_close(&r->watch);
	unlink(r->spool);
}

static void say_not_recordable(const struct record *r)
{
	const char *interpreter = r->program.interpreter;

	cli_error("%s%s%s is run but not recorded: %s", r->argv[0],
		  *interpreter ? ", a script for " : "", interpreter, r->program.why);
}

/* -1: the program runs. Otherwise the exit status. */
static int start_program(struct record *r)
{
	int error = child_fork(&r->child, r->argv, set_environment, r);

	if (error) {
		cli_error("cannot start a process: %s", strerror(error));
		return RECORD_FAILED;
	}
	choose_names(r);
	if (!make_spool(r)) {
		child_cancel(&r->child);
		return RECORD_FAILED;
	}
	if (!r->program.ordinary)
		say_not_recordable(r);
	r->start_ns = now_ns();
	error = child_run(&r->child);
	if (!error)
		return -1;
	drop_spool(r);
	return say_not_started(r, error);
}

/* ---- afterwards ---- */

/* One spool on its way to a trace. */
struct piece {
	char *spool, *trace;
	pid_t pid;
	struct spool_glance glance;
	bool last;   /* image of its process */
	bool wanted; /* becomes a trace */
	bool alive;  /* its process still writes */
	bool kept;   /* the spool must stay */
	struct finalised made;
};

struct pieces {
	struct piece *piece;
	size_t count;
};

static bool add_piece(struct pieces *list, char *spool, pid_t pid, const struct spool_glance *g)
{
	struct piece *grown = realloc(list->piece, (list->count + 1) * sizeof(*grown));

	if (!grown)
		return false;
	list->piece = grown;
	grown[list->count++] = (struct piece){.spool = spool, .pid = pid, .glance = *g};
	return true;
}

static void free_pieces(struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->piece[i].spool);
		free(list->piece[i].trace);
		free(list->piece[i].made.bytes);
	}
	free(list->piece);
	*list = (struct pieces){0};
}

/* FILE with `tail` before its suffix: out.mayfly and ".12" make out.12.mayfly. */
static char *name_with(const char *file, const char *tail)
{
	const char *slash = strrchr(file, '/');
	const char *base = slash ? slash + 1 : file;
	const char *dot = strrchr(base, '.');

	if (!dot || dot == base)
		dot = file + strlen(file);
	return format("%.*s%s%s", (int)(dot - file), file, tail, dot);
}

/* A process's last image gets its plain name. Of the ones before, which exec replaced, only those
 * with samples are worth a file, and only with --follow. */
static void name_pieces(const struct record *r, struct pieces *list)
{
	unsigned int image = 0;

	for (size_t i = 0; i < list->count; i++) {
		struct piece *p = &list->piece[i];
		bool is_main = p->pid == r->child.pid;
		char *tail;

		if (i && list->piece[i - 1].pid != p->pid)
			image = 0;
		p->last = i + 1 == list->count || list->piece[i + 1].pid != p->pid;
		p->wanted = p->last || (r->follow && p->glance.samples);
		if (p->last && is_main)
			tail = format("%s", "");
		else if (p->last)
			tail = format(".%ld", (long)p->pid);
		else
			tail = format(".%ld.%u", (long)p->pid, image);
		p->trace = name_with(r->file, tail);
		free(tail);
		image++;
	}
}

/* All spools of this recording that an agent has taken: those of the program first, in the order of
 * its images, then those of each child. */
static bool collect_pieces(const struct record *r, struct pieces *list)
{
	struct spool_list others;
	struct spool_glance g;
	bool good = true;

	*list = (struct pieces){0};
	if (!spool_list_read(&others, r->file))
		return false;
	if (spool_glance(r->spool, &g) && g.state != SPOOL_WAITING)
		good = add_piece(list, format("%s", r->spool), r->child.pid, &g);
	for (int mains = 1; mains >= 0; mains--) {
		for (size_t i = 0; i < others.count && good; i++) {
			struct spool_entry *e = &others.entry[i];

			if ((e->pid == r->child.pid) != mains || (!mains && !r->follow) ||
			    e->glance.state == SPOOL_WAITING)
				continue;
			good = add_piece(list, format("%s", e->path), e->pid, &e->glance);
			if (good && !mains)
				list->piece[list->count - 1].alive = spool_in_use(e);
		}
	}
	spool_list_free(&others);
	if (good)
		name_pieces(r, list);
	else
		free_pieces(list);
	return good;
}

static size_t count_alive(const struct record *r)
{
	struct spool_list list;
	size_t alive = 0;

	if (!spool_list_read(&list, r->file))
		return 0;
	for (size_t i = 0; i < list.count; i++)
		if (list.entry[i].pid != r->child.pid && list.entry[i].glance.state != SPOOL_OFF &&
		    spool_in_use(&list.entry[i]))
			alive++;
	spool_list_free(&list);
	return alive;
}

static void say_waiting(const struct record *r, size_t alive)
{
	if (r->quiet)
		return;
	if (alive)
		cli_error("waiting for %zu child process%s of %s; Ctrl-C stops waiting", alive,
			  alive == 1 ? "" : "es", r->argv[0]);
	else
		cli_error("waiting for a child process of %s; Ctrl-C stops waiting", r->argv[0]);
}

/* A trace of a process that still runs would be half of one. A child is seen by its spool, which a
 * new one does not have yet, but its parent's mapped; and one that is just becoming another program
 * has none. So "none" counts when it is found twice, a moment apart. */
static void wait_for_children(struct record *r)
{
	unsigned int none = 0, unseen = 0;
	bool said = false;

	r->child.interrupted = false;
	while (!r->child.interrupted) {
		size_t alive = count_alive(r);

		if (alive || spool_anybody(r->file)) {
			none = 0;
			unseen += !alive;
			if (!said && (alive || unseen * TICK_SOON_MS > 1000)) {
				say_waiting(r, alive);
				said = true;
			}
		} else if (++none == 2) {
			break;
		}
		wait_for_signal(r, alive ? TICK_MS : TICK_SOON_MS);
		child_signals(&r->child);
	}
}

static char *interruption; /* what the handler says */

/* SIGINT and the like while the trace is made. */
static void abandon(int number)
{
	ssize_t n;

	finalise_abandon();
	n = write(STDERR_FILENO, interruption, strlen(interruption));
	(void)n;
	_exit(128 + number);
}

static void allow_interruption(struct record *r)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction action = {.sa_handler = abandon}, before;

	/* On a terminal it comes behind a ^C. */
	interruption = format("%smayfly: interrupted; the recording stays in '%s'; 'mayfly report' "
			      "reads it\n",
			      isatty(STDERR_FILENO) ? "\n" : "", r->spool);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		sigaction(numbers[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	child_release_signals(&r->child);
}

/* What only the recorder knows about how this image ended. */
static struct spool_ending ending_of(const struct record *r, const struct piece *p,
				     const struct spool_header *h)
{
	const struct child *c = &r->child;
	struct spool_ending e = {.ending = MAYFLY_END_UNKNOWN};

	if (!p->last) {
		e.ending = MAYFLY_END_EXEC;
	} else if (p->pid == c->pid) {
		bool killed = WIFSIGNALED(c->status);

		e.ending = killed ? MAYFLY_END_KILLED : MAYFLY_END_EXITED;
		e.code = killed ? WTERMSIG(c->status) : WEXITSTATUS(c->status);
		if (c->ended_ns > (int64_t)h->start_mono_ns)
			e.duration_ns = c->ended_ns - (int64_t)h->start_mono_ns;
	}
#if defined(__x86_64__)
	if (h->clock == SPOOL_CLOCK_TSC) {
		e.end_ticks = __rdtsc();
		e.end_mono_ns = (uint64_t)now_ns();
	}
#endif
	return e;
}

static bool finalise_piece(const struct record *r, struct piece *p)
{
	struct finalise_options options = {.path = p->spool, .debug_dir = r->debug_dir};
	struct spool_ending ending;
	int fd = open(p->spool, O_RDONLY | O_CLOEXEC);
	void *data = MAP_FAILED;
	struct stat st;
	int error;

	if (fd < 0 || fstat(fd, &st) || st.st_size < (off_t)sizeof(struct spool_header) ||
	    (data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED) {
		cli_error("cannot read '%s': %s", p->spool, strerror(errno));
		if (fd >= 0)
			close(fd);
		return false;
	}
	close(fd);
	ending = ending_of(r, p, data);
	options.ending = &ending;
	error = finalise_spool(data, (size_t)st.st_size, &options, &p->made);
	munmap(data, (size_t)st.st_size);
	if (error) {
		cli_error("'%s': %s", p->spool, mayfly_error_text(error));
		return false;
	}
	error = finalise_try_write(p->trace, p->made.bytes, p->made.size);
	/* Other processes' recordings may need this spool for what they inherited. */
	if ((error == ENOSPC || error == EDQUOT) && !r->follow)
		error = finalise_reuse_spool(p->spool, p->trace, p->made.bytes, p->made.size);
	free(p->made.bytes);
	p->made.bytes = NULL;
	if (error)
		cli_error("cannot write '%s': %s", p->trace, strerror(error));
	return !error;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A spool that stays needs its ancestors' spools too: they have the samples that it inherited. */
static void keep_ancestors(struct pieces *list)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < list->count; i++) {
			char *parent =
			    list->piece[i].kept ? spool_parent_name(list->piece[i].spool) : NULL;

			for (size_t j = 0; parent && j < list->count; j++) {
				if (list->piece[j].kept ||
				    strcmp(base_name(list->piece[j].spool), parent) != 0)
					continue;
				list->piece[j].kept = true;
				changed = true;
			}
			free(parent);
		}
	}
}

/* Makes the traces, then removes the spools. False when one failed: its spool stays. */
static bool finalise_pieces(struct record *r, struct pieces *list)
{
	bool all = true;

	for (size_t i = 0; i < list->count; i++) {
		struct piece *p = &list->piece[i];

		if (p->alive) {
			p->kept = true;
			cli_error("process %ld still runs; its recording stays in '%s'",
				  (long)p->pid, p->spool);
		} else if (p->wanted && !finalise_piece(r, p)) {
			p->kept = true;
			all = false;
			cli_error("the recording stays in '%s'; 'mayfly report' reads it",
				  p->spool);
		}
	}
	keep_ancestors(list);
	for (size_t i = 0; i < list->count; i++)
		if (!list->piece[i].kept)
			unlink(list->piece[i].spool);
	return all;
}

/* ---- what is said at the end ---- */

static const struct piece *main_piece(const struct record *r, const struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].pid == r->child.pid && list->piece[i].last)
			return &list->piece[i];
	return NULL;
}

/* "; 3 child processes -> out.*.mayfly", or "". */
static char *children_text(const struct record *r, const struct pieces *list)
{
	size_t children = 0;
	char *pattern, *text;

	for (size_t i = 0; i < list->count; i++)
		children += list->piece[i].pid != r->child.pid && list->piece[i].last &&
			    !list->piece[i].kept;
	if (!children)
		return format("%s", "");
	pattern = name_with(r->file, ".*");
	text = format("; %zu child process%s -> %s", children, children == 1 ? "" : "es", pattern);
	free(pattern);
	return text;
}

/* What the program did before it became another one, and what was dropped, and why it ended early;
 * each begins with "; ". */
static char *remarks_text(const struct record *r, const struct pieces *list, const struct piece *p)
{
	char *lost = NULL, *dropped = NULL, *text;
	uint64_t earlier = 0;
	char reason[2 * sizeof(p->glance.off_text)];

	for (size_t i = 0; i < list->count && !r->follow; i++)
		if (list->piece[i].pid == r->child.pid && !list->piece[i].last)
			earlier += list->piece[i].glance.samples;
	if (earlier) {
		char *count = count_text(earlier);

		lost = format("; %s samples from before an exec left out (--follow keeps them)",
			      count);
		free(count);
	}
	if (p->made.dropped) {
		char *count = count_text(p->made.dropped);

		dropped = format("; %s samples dropped", count);
		free(count);
	}
	text = format("%s%s%s%s", lost ? lost : "", dropped ? dropped : "",
		      p->glance.state == SPOOL_OFF ? "; recording stopped early: " : "",
		      p->glance.state == SPOOL_OFF
			  ? text_clean(reason, sizeof(reason), p->glance.off_text)
			  : "");
	free(lost);
	free(dropped);
	return text;
}

static void say_result(const struct record *r, const struct pieces *list, const struct piece *p)
{
	char time[FIGURE_TEXT], size[FIGURE_TEXT], name[256];
	char *samples = count_text(p->made.samples), *children = children_text(r, list);
	char *remarks = remarks_text(r, list, p);

	/* Away from a terminal only what went wrong is said: the program's own messages stay as
	 * they are without mayfly. */
	if ((!r->quiet && isatty(STDERR_FILENO)) || p->glance.state == SPOOL_OFF)
		cli_error(
		    "%s sample%s of %s in %s -> %s (%s)%s%s; next: mayfly report %s", samples,
		    p->made.samples == 1 ? "" : "s", text_clean(name, sizeof(name), r->argv[0]),
		    text_duration(time, sizeof(time), (double)(r->child.ended_ns - r->start_ns)),
		    p->trace, text_bytes(size, sizeof(size), (double)p->made.size), children,
		    remarks, p->trace);
	free(samples);
	free(children);
	free(remarks);
}

/* The agent never came up. */
static void say_not_attached(const struct record *r)
{
	const char *command = r->argv[0];

	if (!r->program.ordinary)
		return; /* that has been said before it started */
	if (WIFSIGNALED(r->child.status))
		cli_error("no trace of %s: it was killed before the agent could start", command);
	else
		cli_error("no trace of %s: the agent could not start in it", command);
}

/* Returns mayfly's exit status. */
static int finish(struct record *r)
{
	int status = child_exit_status(&r->child);
	const struct piece *main_one;
	struct pieces list;
	bool good;

	if (r->follow)
		wait_for_children(r);
	allow_interruption(r);
	if (!collect_pieces(r, &list)) {
		cli_error("out of memory; the recording stays in '%s'", r->spool);
		return RECORD_FAILED;
	}
	main_one = main_piece(r, &list);
	if (!main_one)
		drop_spool(r);
	good = finalise_pieces(r, &list);
	if (main_one && good)
		say_result(r, &list, main_one);
	else if (!main_one)
		say_not_attached(r);
	spool_watch_close(&r->watch);
	free_pieces(&list);
	return good ? status : RECORD_FAILED;
}

/* Descriptors 0 to 2 that are closed stay so for the program, but must not become files of ours. */
static bool occupy_standard_descriptors(void)
{
	for (;;) {
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (fd < 0)
			return false;
		if (fd > STDERR_FILENO) {
			close(fd);
			return true;
		}
	}
}

int cmd_record(int argc, char **argv)
{
	struct record r = {0};
	int status = take_options(&r, argc, argv);

	if (status >= 0)
		return status;
	if (!occupy_standard_descriptors() || !(r.folder = getcwd(NULL, 0))) {
		cli_error("cannot start: %s", strerror(errno));
		return RECORD_FAILED;
	}
	program_inspect(&r.program, r.argv[0]);
	status = RECORD_FAILED;
	if (choose_preload(&r) && take_user_settings(&r))
		status = start_program(&r);
	if (status < 0) {
		watch_program(&r);
		status = finish(&r);
	}
	program_free(&r.program);
	free(r.folder);
	free(r.file);
	free(r.spool);
	free(r.preload);
	free(r.user_settings);
	free(r.image_spool);
	return status;
}
