/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record: runs a program with the agent in it and makes a trace of what it leaves behind.
 *
 *	options ──> child waits ──> FILE.spool ──> child becomes the program
 *	                                              │  now and then: reserve space, read packets,
 *	                                              │  write FILE.part, progress line
 *	                                              ▼
 *	    FILE <── FILE.part <── names <── it has ended (and, with --follow, its children)
 *
 * Each image of each process has a spool and a recorder (recorder.h) of its own. Whatever happens
 * to mayfly meanwhile, spools and parts stay and every command reads them. The spools are removed
 * when the traces made from them are complete.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "options.h"
#include "output.h"
#include "program.h"
#include "record_stream.h"
#include "recorder.h"
#include "replace.h"
#include "symbols/symbols.h"

/* As env, nohup, timeout and others that run a command. */
enum { RECORD_FAILED = 125, RECORD_NOT_EXECUTABLE = 126, RECORD_NOT_FOUND = 127 };

#define DEFAULT_INTERVAL_LOG2 19
#define MAX_INTERVAL_LOG2     40

#define DEFAULT_MAX_SPOOL (8ull << 30)
#define LEAST_MAX_SIZE	  (64ull << 10)
#define LEAST_SNAPSHOT_NS 1000000ll

#define MOST_ANCESTORS 64 /* of a child of a child of ... */

#define TICK_SOON_MS 50
#define TICK_MS	     200
#define START_NS     1000000000ll /* frequent ticks at first */
#define PROGRESS_NS  200000000ll
#define FIND_NS	     100000000ll  /* spools of other images and processes */
#define SWEEP_NS     1000000000ll /* processes that have ended */
#define BEHIND_NS    500000000ll  /* the recorder's being late that is worth a word */

static const char *const sampler_names[] = {"stratified", "poisson", NULL};

struct record {
	/* options */
	const char *output;
	const char *debug_dir;
	uint32_t interval_log2;
	int sampler; /* enum spool_sampler */
	bool interval_given, sampler_given, exact;
	bool ocaml, ocaml_off; /* --ocaml was given, with off */
	double ocaml_rate;     /* 0: the agent's own */
	bool force, follow, quiet, progress;
	int64_t snapshot_ns;
	uint64_t max_size, max_spool; /* 0: not given */
	uint32_t overhead;	      /* 1/10000; 0: not given */
	uint64_t map_events;	      /* 0: the agent's own */
	bool map_events_off;
	struct record_stream stream;
	char **argv;

	struct program program;
	struct child child;
	struct recorder **recorder; /* the first is of the program as it was started */
	size_t recorders;
	struct symbols *symbols;
	char *file;	     /* the trace, as the user wrote it */
	char *spool;	     /* beside it */
	char *folder;	     /* in which mayfly was started */
	char *preload;	     /* LD_PRELOAD */
	char *user_settings; /* ",key=value..." of MAYFLY that go on to the agent */
	int64_t start_ns;
	int64_t progress_ns; /* when the line was last drawn; 0: there is none */
	int64_t found_ns, swept_ns;
	unsigned long images; /* of the program that followed the first */
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
    "      --snapshots SECONDS keep counters for each stack at each such interval, no events;\n"
    "                          of every allocation\n"
    "      --overhead PERCENT  raise the interval where samples would cost more time than that\n"
    "      --max-size BYTES    keep the trace below this by keeping fewer samples\n"
    "      --max-spool BYTES   what may wait for being read (8G); more is dropped and counted\n"
    "      --sampler NAME      stratified or poisson (stratified)\n"
    "      --ocaml[=RATE|off]  the heap of native OCaml 4.13 programs, too: samples for each word\n"
    "                          (1e-5); this is so anyway when the program is one\n"
    "      --map-events SIZE   record mmap, munmap and the like of SIZE bytes or more (1M), or\n"
    "                          off\n"
    "      --stream ADDRESS    send the trace to 'mayfly receive' at unix:PATH or HOST:PORT;\n"
    "                          without -o only there\n"
    "      --key FILE          the key that the receiver has, too; other machines need one\n"
    "      --stream-buffer BYTES  of the trace that may wait in memory without -o (64M); then the\n"
    "                          spool grows, up to --max-spool\n"
    "      --stream-timeout TIME  how long a lost receiver is waited for at the end (10s)\n"
    "      --spool-dir DIR     where the spool is without -o (/dev/shm)\n"
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

static bool take_least(const char *option, const char *text, uint64_t least, uint64_t *bytes)
{
	char figure[FIGURE_TEXT];

	if (!option_bytes(option, text, bytes))
		return false;
	if (*bytes >= least)
		return true;
	cli_usage("%s: '%s' is too little; it must be %s or more", option, text,
		  text_bytes(figure, sizeof(figure), (double)least));
	return false;
}

static bool take_snapshots(struct record *r, const char *text)
{
	if (!option_time("--snapshots", text, &r->snapshot_ns))
		return false;
	if (r->snapshot_ns >= LEAST_SNAPSHOT_NS)
		return true;
	cli_usage("--snapshots: '%s' is too short; it must be 1ms or more", text);
	return false;
}

static bool take_overhead(struct record *r, const char *option, const char *text)
{
	char *end = NULL;
	double percent = *text >= '0' && *text <= '9' ? strtod(text, &end) : -1;

	if (end && *end == '%')
		end++;
	if (!end || *end || !(percent >= 0.01 && percent <= 50)) {
		cli_usage("%s: '%s' is no percentage from 0.01 to 50", option, text);
		return false;
	}
	r->overhead = (uint32_t)(percent * 100 + 0.5);
	return true;
}

/* "off", a rate, or nothing, which asks for what is done anyway. */
static bool take_ocaml(struct record *r, const char *value)
{
	char *end;
	double rate;

	r->ocaml = true;
	if (!value)
		return true;
	if (!strcmp(value, "off")) {
		r->ocaml_off = true;
		return true;
	}
	rate = strtod(value, &end);
	if (end == value || *end || !(rate >= 1e-11 && rate <= 1)) {
		cli_usage("--ocaml: '%s' is neither a rate from 1e-11 to 1 (samples for each word) "
			  "nor off",
			  value);
		return false;
	}
	r->ocaml_rate = rate;
	return true;
}

static bool take_map_events(struct record *r, const char *text)
{
	r->map_events_off = !strcmp(text, "off");
	return r->map_events_off || take_least("--map-events", text, 1, &r->map_events);
}

enum {
	OPTION_SAMPLER = 256,
	OPTION_FORCE,
	OPTION_OCAML,
	OPTION_DEBUG_DIR,
	OPTION_PROGRESS,
	OPTION_SNAPSHOTS,
	OPTION_OVERHEAD,
	OPTION_MAX_SIZE,
	OPTION_MAX_SPOOL,
	OPTION_MAP_EVENTS,
};

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"interval", required_argument, NULL, 'i'},
    {"sampler", required_argument, NULL, OPTION_SAMPLER},
    {"exact", no_argument, NULL, 'x'},
    {"snapshots", required_argument, NULL, OPTION_SNAPSHOTS},
    {"overhead", required_argument, NULL, OPTION_OVERHEAD},
    {"max-size", required_argument, NULL, OPTION_MAX_SIZE},
    {"max-spool", required_argument, NULL, OPTION_MAX_SPOOL},
    {"map-events", required_argument, NULL, OPTION_MAP_EVENTS},
    {"follow", no_argument, NULL, 'f'},
    {"ocaml", optional_argument, NULL, OPTION_OCAML},
    {"force", no_argument, NULL, OPTION_FORCE},
    {"debug-dir", required_argument, NULL, OPTION_DEBUG_DIR},
    RECORD_STREAM_OPTIONS,
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
	case OPTION_SNAPSHOTS:
		return take_snapshots(r, optarg) ? -1 : RECORD_FAILED;
	case OPTION_OVERHEAD:
		return take_overhead(r, "--overhead", optarg) ? -1 : RECORD_FAILED;
	case OPTION_MAX_SIZE:
		return take_least("--max-size", optarg, LEAST_MAX_SIZE, &r->max_size)
			   ? -1
			   : RECORD_FAILED;
	case OPTION_MAX_SPOOL:
		return take_least("--max-spool", optarg,
				  (uint64_t)SPOOL_LEAST_PACKETS * SPOOL_PACKET_BYTES, &r->max_spool)
			   ? -1
			   : RECORD_FAILED;
	case OPTION_MAP_EVENTS:
		return take_map_events(r, optarg) ? -1 : RECORD_FAILED;
	case 'f':
		r->follow = true;
		return -1;
	case OPTION_OCAML:
		return take_ocaml(r, optarg) ? -1 : RECORD_FAILED;
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
	case OPTION_STREAM:
	case OPTION_STREAM_BUFFER:
	case OPTION_STREAM_TIMEOUT:
	case OPTION_KEY:
	case OPTION_SPOOL_DIR:
		return record_stream_option(&r->stream, option, optarg) ? -1 : RECORD_FAILED;
	default:
		cli_bad_option(option, argv);
		return RECORD_FAILED;
	}
}

/* What does not go together. */
static bool options_agree(struct record *r)
{
	if (r->exact && r->interval_given && r->interval_log2) {
		cli_usage("--exact records every allocation; it does not go with --interval");
		return false;
	}
	if (r->snapshot_ns && r->interval_given && r->interval_log2) {
		cli_usage("--snapshots counts every allocation; it does not go with --interval");
		return false;
	}
	if (r->snapshot_ns && r->max_size) {
		cli_usage("--snapshots keeps no events that --max-size could thin out; "
			  "choose a longer interval");
		return false;
	}
	if (r->stream.to && r->follow) {
		cli_usage("--stream sends one trace; it does not go with --follow");
		return false;
	}
	if (r->stream.to && r->max_size) {
		cli_usage("--stream cannot take back what --max-size thins out; "
			  "choose a larger interval");
		return false;
	}
	if (r->exact || r->snapshot_ns)
		r->interval_log2 = 0;
	if (r->ocaml && !r->ocaml_off && !r->interval_log2) {
		cli_usage("--ocaml samples the heap of OCaml; it does not go with every allocation "
			  "(--exact, --interval 1, --snapshots)");
		return false;
	}
	if (r->overhead && !r->interval_log2) {
		cli_usage(
		    "--overhead adapts the interval of a sampler; %s records every allocation",
		    r->snapshot_ns ? "--snapshots" : "--exact, or --interval 1,");
		return false;
	}
	return true;
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
	if (!options_agree(r))
		return RECORD_FAILED;
	if (optind >= argc) {
		cli_usage("which program? 'mayfly record -- COMMAND ARGUMENTS'");
		return RECORD_FAILED;
	}
	r->argv = argv + optind;
	if (r->output && !*r->output) {
		cli_usage("--output: the name is empty");
		return RECORD_FAILED;
	}
	return record_stream_check(&r->stream, r->output) ? -1 : RECORD_FAILED;
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

/* A setting that is the recorder's, too: it counts when no option says otherwise. */
static bool take_user_setting(struct record *r, const char *setting, const char *value, bool *taken)
{
	size_t length = strlen(setting);
	bool free_mode = !r->interval_given && !r->exact && !r->snapshot_ns;

	*taken = true;
	if (is_key(setting, length, "interval"))
		return !free_mode || take_interval(r, "interval in MAYFLY", value);
	if (is_key(setting, length, "exact")) {
		if (free_mode && !r->overhead && (!strcmp(value, "1") || !strcmp(value, "yes")))
			r->interval_log2 = 0;
		return true;
	}
	if (is_key(setting, length, "sampler"))
		return r->sampler_given ||
		       option_choice("sampler in MAYFLY", value, sampler_names, &r->sampler);
	if (is_key(setting, length, "overhead"))
		return r->overhead || !r->interval_log2 ||
		       take_overhead(r, "overhead in MAYFLY", value);
	if (is_key(setting, length, "max_spool"))
		return r->max_spool ||
		       take_least("max_spool in MAYFLY", value,
				  (uint64_t)SPOOL_LEAST_PACKETS * SPOOL_PACKET_BYTES,
				  &r->max_spool);
	*taken = is_key(setting, length, "output") || is_key(setting, length, "pid") ||
		 is_key(setting, length, "follow") ||
		 (r->ocaml && is_key(setting, length, "ocaml")) ||
		 ((r->map_events || r->map_events_off) && is_key(setting, length, "map_events"));
	return true;
}

/* The user's own settings go on to the agent, except for those that the recorder gives. */
static bool take_user_settings(struct record *r)
{
	const char *text = getenv("MAYFLY");
	bool good = true, taken;

	r->user_settings = format("%s", "");
	while (text && *text && good) {
		size_t length = strcspn(text, ",");
		char *setting = format("%.*s", (int)length, text), *longer;
		const char *value = strchr(setting, '=');

		good = take_user_setting(r, setting, value ? value + 1 : "", &taken);
		if (length && !taken) {
			longer = format("%s,%s", r->user_settings, setting);
			free(r->user_settings);
			r->user_settings = longer;
		}
		free(setting);
		text += length + (text[length] == ',');
	}
	if (!r->interval_log2)
		r->exact = true;
	if (!r->max_spool)
		r->max_spool = DEFAULT_MAX_SPOOL;
	return good;
}

/* The agent's settings. */
static char *make_settings(const struct record *r)
{
	char *path =
	    *r->spool == '/' ? format("%s", r->spool) : format("%s/%s", r->folder, r->spool);
	char *escaped = escape(path), *settings, overhead[64] = "", ocaml[64] = "", maps[64] = "";

	if (r->overhead)
		snprintf(overhead, sizeof(overhead), ",overhead=%u.%02u", r->overhead / 100,
			 r->overhead % 100);
	if (r->ocaml_off)
		snprintf(ocaml, sizeof(ocaml), ",ocaml=off");
	else if (r->ocaml_rate > 0)
		snprintf(ocaml, sizeof(ocaml), ",ocaml=%.15g", r->ocaml_rate);
	if (r->map_events_off)
		snprintf(maps, sizeof(maps), ",map_events=off");
	else if (r->map_events)
		snprintf(maps, sizeof(maps), ",map_events=%" PRIu64, r->map_events);
	settings = format("output=%s,interval=%llu,sampler=%s,pid=%ld,follow=%d,max_spool=%" PRIu64
			  "%s%s%s%s%s",
			  escaped, 1ull << r->interval_log2, sampler_names[r->sampler],
			  (long)r->child.pid, r->follow, r->max_spool, r->exact ? ",exact=1" : "",
			  overhead, ocaml, maps, r->user_settings);
	free(escaped);
	free(path);
	return settings;
}

/* ---- files ---- */

static void choose_names(struct record *r)
{
	const char *slash = strrchr(r->argv[0], '/');
	const char *name = slash ? slash + 1 : r->argv[0];

	if (r->output)
		r->file = format("%s", r->output);
	else
		r->file =
		    format("%s%smayfly.%s.%ld.mayfly", r->stream.only ? r->stream.spool_dir : "",
			   r->stream.only ? "/" : "", name, (long)r->child.pid);
	r->spool = format("%s.spool", r->file);
}

/* FILE.PID.K.spool becomes FILE.PID.K.part. */
static char *part_name(const char *spool)
{
	return format("%.*s.part", (int)(strlen(spool) - strlen(".spool")), spool);
}

static bool refuse_old_spool(const char *path)
{
	cli_error("'%s' is there from a recording that was cut off or still runs; "
		  "'mayfly report' reads it; remove it or use --force",
		  path);
	return false;
}

static bool clear_old_part(const struct record *r, const char *spool)
{
	char *part = part_name(spool);
	bool good = true;

	if (r->force)
		unlink(part);
	else if (!access(part, F_OK))
		good = refuse_old_spool(part);
	free(part);
	return good;
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
		if (!r->force || spool_in_use(&list.entry[i])) {
			good = refuse_old_spool(list.entry[i].path);
		} else {
			unlink(list.entry[i].path);
			good = clear_old_part(r, list.entry[i].path);
		}
	}
	spool_list_free(&list);
	return good && (!access(r->spool, F_OK) || clear_old_part(r, r->spool));
}

/* ---- recorders ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static struct recorder *find_recorder(const struct record *r, const char *spool)
{
	for (size_t i = 0; i < r->recorders; i++)
		if (!strcmp(base_name(r->recorder[i]->spool), base_name(spool)))
			return r->recorder[i];
	return NULL;
}

static struct recorder *add_recorder(struct record *r, const char *spool, pid_t pid)
{
	struct recorder_options options = {.snapshot_ns = r->snapshot_ns,
					   .max_size = r->max_size,
					   .symbols = r->symbols,
					   .follow = r->follow,
					   .sender = r->stream.sender,
					   .no_file = r->stream.only};
	struct recorder **grown = realloc(r->recorder, (r->recorders + 1) * sizeof(*grown));
	char *part = part_name(spool);
	struct recorder *made = NULL;

	if (grown) {
		r->recorder = grown;
		made = recorder_new(spool, part, pid, &options);
	}
	free(part);
	if (!made) {
		cli_error("out of memory; '%s' is not read while %s runs", spool, r->argv[0]);
		return NULL;
	}
	grown[r->recorders++] = made;
	return made;
}

static bool make_spool(struct record *r)
{
	struct spool_settings settings = {
	    .sampler = (uint32_t)r->sampler,
	    .interval_log2 = r->interval_log2,
	    .exact = r->exact,
	    .overhead = r->overhead,
	    .max_packets = r->max_spool / SPOOL_PACKET_BYTES,
	};
	struct symbols_options symbols = {.debug_dir = r->debug_dir};
	struct recorder *first;
	int error;

	r->symbols = symbols_new(&symbols);
	if (!r->symbols) {
		cli_error("out of memory");
		return false;
	}
	if (!record_stream_open(&r->stream) || !replace_allowed(r->file, r->force) ||
	    !clear_old_spools(r))
		return false;
	first = add_recorder(r, r->spool, r->child.pid);
	if (!first)
		return false;
	error = recorder_create(first, &settings);
	if (error == EEXIST)
		return refuse_old_spool(r->spool);
	if (error) {
		cli_error("cannot make '%s': %s", r->spool, strerror(error));
		return false;
	}
	return true;
}

/* Of a forked child: the recorder of the process that it came from. NULL when there is none. */
static struct recorder *parent_of(const struct record *r, const struct recorder *child)
{
	char *name = r->follow ? spool_parent_name(child->spool) : NULL;
	struct recorder *parent = name ? find_recorder(r, name) : NULL;

	free(name);
	return parent != child ? parent : NULL;
}

static bool is_parent(const struct record *r, const struct recorder *one)
{
	for (size_t i = 0; i < r->recorders; i++)
		if (r->recorder[i] != one && r->recorder[i]->state != RECORDER_FINISHED &&
		    parent_of(r, r->recorder[i]) == one)
			return true;
	return false;
}

static uint64_t fork_ticks(const struct recorder *one)
{
	struct spool_glance g;

	return spool_glance(one->spool, &g) ? g.fork_ticks : 0;
}

static int compare_forks(const void *a, const void *b)
{
	uint64_t x = fork_ticks(*(struct recorder *const *)a);
	uint64_t y = fork_ticks(*(struct recorder *const *)b);

	return (x > y) - (x < y);
}

/* The forked children that have not been begun, by the time of the fork. NULL: none. */
static struct recorder **idle_children(const struct record *r, const struct recorder *parent,
				       size_t *count)
{
	struct recorder **list = r->follow ? calloc(r->recorders, sizeof(*list)) : NULL;

	*count = 0;
	for (size_t i = 0; list && i < r->recorders; i++)
		if (r->recorder[i]->state == RECORDER_IDLE &&
		    parent_of(r, r->recorder[i]) == parent)
			list[(*count)++] = r->recorder[i];
	if (*count)
		qsort(list, *count, sizeof(*list), compare_forks);
	return list;
}

/* Begins to read a spool. What a forked child has inherited, its parent's stream keeps only for a
 * while, so children begin as soon as their parent has come to the fork. */
static void begin_reading(const struct record *r, struct recorder *one, struct recorder *parent)
{
	struct recorder **child;
	size_t children;

	if (!recorder_begin(one, parent))
		return;
	child = idle_children(r, one, &children);
	for (size_t i = 0; i < children; i++) {
		recorder_read_until(one, fork_ticks(child[i]) + 1);
		begin_reading(r, child[i], one);
	}
	free(child);
}

/* The ancestors first. */
static void begin_with_ancestors(const struct record *r, struct recorder *one, unsigned int depth)
{
	struct recorder *parent = parent_of(r, one);

	if (parent && parent->state == RECORDER_IDLE && depth < MOST_ANCESTORS)
		begin_with_ancestors(r, parent, depth + 1);
	if (one->state == RECORDER_IDLE)
		begin_reading(r, one, parent && parent->stream ? parent : NULL);
}

static bool is_last_image(const struct record *r, const struct recorder *one)
{
	for (size_t i = r->recorders; i-- && r->recorder[i] != one;)
		if (r->recorder[i]->pid == one->pid)
			return false;
	return true;
}

static uint64_t nanoseconds(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* What only the recorder knows about how this image ended. */
static struct spool_ending ending_of(const struct record *r, const struct recorder *one, bool last)
{
	const struct spool_header *h = one->watch.header;
	const struct child *c = &r->child;
	struct spool_ending e = {.ending = MAYFLY_END_UNKNOWN};

	if (!last) {
		e.ending = MAYFLY_END_EXEC;
	} else if (one->pid == c->pid) {
		bool killed = WIFSIGNALED(c->status);

		e.ending = killed ? MAYFLY_END_KILLED : MAYFLY_END_EXITED;
		e.code = killed ? WTERMSIG(c->status) : WEXITSTATUS(c->status);
		e.cpu_ns = nanoseconds(c->usage.ru_utime) + nanoseconds(c->usage.ru_stime);
		e.max_rss_bytes = (uint64_t)c->usage.ru_maxrss * 1024;
		if (h && c->ended_ns > (int64_t)h->start_mono_ns)
			e.duration_ns = c->ended_ns - (int64_t)h->start_mono_ns;
	}
	if (h && h->clock == SPOOL_CLOCK_TSC)
		recorder_clock(h, &e.end_ticks, &e.end_mono_ns);
	return e;
}

/* Its image is gone while other processes run on: what has been begun is completed now, so that
 * many processes, one after the other, do not add up. */
static void retire(const struct record *r, struct recorder *one, bool last)
{
	struct spool_ending ending = ending_of(r, one, last);

	if (one->state == RECORDER_READING && (r->follow || last)) {
		one->keep_stream = r->follow;
		recorder_finish(one, NULL, &ending);
	} else if (one->state == RECORDER_READING) {
		recorder_drop(one);
	}
	recorder_detach(one);
}

/* After an exec the program goes on in the spool of the new image. */
static void find_image(struct record *r)
{
	char *next = format("%s.%ld.%lu.spool", r->file, (long)r->child.pid, r->images);
	struct recorder *made;
	struct spool_glance g;

	if (spool_glance(next, &g) && g.state != SPOOL_WAITING) {
		r->images++;
		made = add_recorder(r, next, r->child.pid);
		if (made)
			recorder_attach(made);
		for (size_t i = 0; made && i + 1 < r->recorders; i++)
			if (r->recorder[i]->pid == r->child.pid)
				retire(r, r->recorder[i], false);
	}
	free(next);
}

/* A new child of a process that is being read. */
static void begin_after_parent(const struct record *r, struct recorder *child)
{
	struct recorder *parent = parent_of(r, child);

	if (!parent || !parent->stream)
		return;
	if (parent->state == RECORDER_READING)
		recorder_read_until(parent, fork_ticks(child) + 1);
	begin_reading(r, child, parent);
}

static void find_children(struct record *r)
{
	struct spool_list list;
	struct recorder *made;

	if (!spool_list_read(&list, r->file))
		return;
	for (size_t i = 0; i < list.count; i++) {
		const struct spool_entry *e = &list.entry[i];

		if (e->pid == r->child.pid || e->glance.state == SPOOL_WAITING ||
		    find_recorder(r, e->path))
			continue;
		made = add_recorder(r, e->path, e->pid);
		if (!made)
			break;
		if (!recorder_attach(made))
			begin_after_parent(r, made);
		for (size_t j = 0; j + 1 < r->recorders; j++)
			if (r->recorder[j]->pid == e->pid)
				retire(r, r->recorder[j], false);
	}
	spool_list_free(&list);
}

/* Processes that have ended. A stream is kept for a while longer: a child that was forked last may
 * not have its spool yet. */
static void sweep(struct record *r)
{
	for (size_t i = 0; i < r->recorders; i++) {
		struct recorder *one = r->recorder[i];

		if (one->pid == r->child.pid)
			continue;
		if (one->state == RECORDER_FINISHED && one->keep_stream && ++one->sweeps > 2 &&
		    !is_parent(r, one))
			recorder_forget(one);
		else if (one->state < RECORDER_FINISHED && one->watch.header && kill(one->pid, 0) &&
			 errno == ESRCH)
			retire(r, one, is_last_image(r, one));
	}
}

static void clear_progress(struct record *r);

static void tick(struct record *r, struct recorder *one)
{
	int error = recorder_tick(one);

	if (!error)
		return;
	clear_progress(r);
	cli_error("cannot extend '%s': %s; what mayfly cannot read in time is dropped", one->spool,
		  strerror(error));
}

static void tell_stream_news(struct record *r)
{
	char *news = record_stream_news(&r->stream);

	if (!news)
		return;
	clear_progress(r);
	if (!r->quiet)
		cli_error("%s", news);
	free(news);
}

/* Looks after all spools. Returns the milliseconds after which to do so again. */
static unsigned int serve(struct record *r)
{
	int64_t now = now_ns();
	unsigned int wait = TICK_MS;
	bool more = false;

	if (now - r->found_ns >= FIND_NS) {
		r->found_ns = now;
		find_image(r);
		if (r->follow)
			find_children(r);
	}
	if (now - r->swept_ns >= SWEEP_NS) {
		r->swept_ns = now;
		sweep(r);
	}
	for (size_t i = 0; i < r->recorders; i++) {
		struct recorder *one = r->recorder[i];

		tick(r, one);
		if (recorder_is_due(one))
			begin_with_ancestors(r, one, 0);
		more |= recorder_round(one);
		if (recorder_wait(one) < wait)
			wait = recorder_wait(one);
	}
	tell_stream_news(r);
	if (wait > TICK_SOON_MS && now - r->start_ns < START_NS)
		wait = TICK_SOON_MS;
	return more ? 0 : wait;
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

/* Of the image that runs now: "1,234 samples  live about 12 MB". NULL: there is nothing to say. */
static char *counts_text(const struct record *r)
{
	const struct recorder *one = NULL;
	char live[FIGURE_TEXT], *count, *text;
	struct spool_glance g;
	bool exact;

	for (size_t i = 0; i < r->recorders; i++)
		if (r->recorder[i]->pid == r->child.pid)
			one = r->recorder[i];
	if (!one || !one->watch.header)
		return NULL;
	spool_glance_at(one->watch.header, &g);
	exact = g.exact;
	if (g.state == SPOOL_WAITING)
		return NULL;
	if (exact) {
		g.samples = one->status.allocations;
		g.live_bytes = (int64_t)one->status.live_bytes;
	}
	count = count_text(g.samples);
	text = format("%s %s  live %s%s%s", count, exact ? "allocations" : "samples",
		      exact ? "" : "about ",
		      text_bytes(live, sizeof(live), g.live_bytes > 0 ? (double)g.live_bytes : 0),
		      g.dropped ? "  (some dropped)" : "");
	free(count);
	return text;
}

static void show_progress(struct record *r)
{
	char time[FIGURE_TEXT], line[256];
	struct winsize window;
	int64_t now = now_ns();
	int columns = 80;
	char *counts;

	if (now - r->progress_ns < PROGRESS_NS)
		return;
	counts = counts_text(r);
	if (!counts)
		return;
	snprintf(line, sizeof(line), "mayfly: %s  %s",
		 text_duration(time, sizeof(time), (double)(now - r->start_ns)), counts);
	free(counts);
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

static void wait_for_signal(const struct record *r, int milliseconds)
{
	struct pollfd poll_fd = {.fd = r->child.signals, .events = POLLIN};

	poll(&poll_fd, 1, milliseconds);
}

static void look_last(void *context)
{
	struct record *r = context;

	for (size_t i = 0; i < r->recorders; i++)
		if (r->recorder[i]->pid == r->child.pid && is_last_image(r, r->recorder[i]))
			recorder_last(r->recorder[i]);
}

static void watch_program(struct record *r)
{
	bool progress = wants_progress(r);
	struct child *c = &r->child;
	int wait = 1;

	c->ending = look_last;
	c->context = r;
	while (!c->ended) {
		wait_for_signal(r, wait);
		child_signals(c);
		if (c->ended)
			break;
		if (c->stop_signal) {
			clear_progress(r);
			child_stop_too(c);
			continue;
		}
		wait = (int)serve(r);
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
	recorder_drop(r->recorder[0]);
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
	if (!error) {
		if (r->stream.sender)
			stream_sender_start(r->stream.sender);
		return -1;
	}
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
	struct recorder *recorder;
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
 * with samples are worth a file, and only with --follow. In exact mode all have some. */
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
		p->wanted = p->last || (r->follow && (p->glance.samples || p->glance.exact));
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
static bool collect_pieces(struct record *r, struct pieces *list)
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
	if (!good) {
		free_pieces(list);
		return false;
	}
	name_pieces(r, list);
	for (size_t i = 0; i < list->count; i++) {
		struct piece *p = &list->piece[i];

		p->recorder = find_recorder(r, p->spool);
		if (!p->recorder)
			p->recorder = add_recorder(r, p->spool, p->pid);
	}
	return true;
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

/* Looks after the spools for so long, or until a signal comes. */
static void read_for(struct record *r, int milliseconds)
{
	int64_t end = now_ns() + milliseconds * 1000000ll, left;

	while (!r->child.interrupted && (left = end - now_ns()) > 0) {
		int wait = (int)serve(r), most = (int)(left / 1000000) + 1;

		wait_for_signal(r, wait < most ? wait : most);
		child_signals(&r->child);
	}
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
		read_for(r, alive ? TICK_MS : TICK_SOON_MS);
	}
}

/* Where a recording is that did not become a trace. */
static char *places_text(const struct recorder *one)
{
	if (recorder_has_part(one) && one->options.no_file)
		return format("what the receiver has and, from there on or later, '%s'; "
			      "'mayfly report' reads it",
			      one->spool);
	if (recorder_has_part(one))
		return format("'%s' and, from there on, '%s'; 'mayfly report' reads both",
			      one->part_path, one->spool);
	return format("'%s'; 'mayfly report' reads it", one->spool);
}

static char *interruption; /* what the handler says */

/* SIGINT and the like while the trace is made. */
static void abandon(int number)
{
	ssize_t n;

	recorder_abandon();
	n = write(STDERR_FILENO, interruption, strlen(interruption));
	(void)n;
	_exit(128 + number);
}

static void allow_interruption(struct record *r)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction action = {.sa_handler = abandon}, before;
	char *places = places_text(r->recorder[0]);

	/* On a terminal it comes behind a ^C. */
	interruption = format("%smayfly: interrupted; the recording stays in %s\n",
			      isatty(STDERR_FILENO) ? "\n" : "", places);
	free(places);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		sigaction(numbers[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	child_release_signals(&r->child);
}

static struct piece *piece_of(struct pieces *list, const struct recorder *one)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].recorder == one)
			return &list->piece[i];
	return NULL;
}

/* Reads all that is left of a spool, and before its end the spools of its forked children: each
 * takes over what is live at its fork. */
static void finish_recorder(struct record *r, struct pieces *list, struct recorder *one,
			    struct recorder *parent)
{
	struct piece *p = piece_of(list, one);
	struct spool_ending ending;
	struct recorder **child;
	size_t children;

	if (one->state >= RECORDER_FINISHED || !p || p->alive || !p->wanted)
		return;
	if (!one->watch.header)
		recorder_attach(one); /* it says so itself when that fails */
	ending = ending_of(r, one, p->last);
	if (!recorder_begin_last(one, parent, &ending))
		return;
	child = idle_children(r, one, &children);
	for (size_t i = 0; i < children; i++) {
		recorder_read_until(one, fork_ticks(child[i]) + 1);
		finish_recorder(r, list, child[i], one);
	}
	free(child);
	recorder_finish(one, parent, &ending);
}

/* All, ancestors first. */
static void finish_recorders(struct record *r, struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct recorder *one = list->piece[i].recorder, *parent;

		for (unsigned int depth = 0; one && depth < MOST_ANCESTORS; depth++) {
			parent = parent_of(r, one);
			if (!parent || parent->state != RECORDER_IDLE)
				break;
			one = parent;
		}
		parent = one ? parent_of(r, one) : NULL;
		if (one)
			finish_recorder(r, list, one, parent && parent->stream ? parent : NULL);
	}
	/* What is left has an ancestor that still runs, or was none of ours. */
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].recorder)
			finish_recorder(r, list, list->piece[i].recorder, NULL);
}

static bool name_trace(const struct piece *p)
{
	struct recorder *one = p->recorder;
	int error;

	if (!one)
		return false; /* said */
	if (one->state != RECORDER_FINISHED) {
		if (one->error > 0)
			cli_error("cannot write '%s': %s", p->trace, strerror(one->error));
		else
			cli_error("'%s': %s", p->spool, mayfly_error_text(one->error));
		return false;
	}
	error = recorder_become(one, p->trace);
	if (error)
		cli_error("cannot write '%s': %s; it is complete in '%s'", p->trace,
			  strerror(error), one->part_path);
	return !error;
}

static void say_alive(const struct piece *p)
{
	char *places = p->recorder ? places_text(p->recorder) : format("'%s'", p->spool);

	cli_error("process %ld still runs; its recording stays in %s", (long)p->pid, places);
	free(places);
}

static void say_kept(const struct piece *p)
{
	char *places = p->recorder ? places_text(p->recorder) : format("'%s'", p->spool);

	cli_error("the recording stays in %s", places);
	free(places);
}

static void say_not_sent(const struct record *r, const struct piece *p, bool is_lost)
{
	char *why = record_stream_why(&r->stream);

	if (!r->stream.only)
		cli_error("%s; all of it is in '%s'", why ? why : "out of memory", p->trace);
	else
		cli_error("%s%s", why ? why : "out of memory", is_lost ? "; the rest is lost" : "");
	free(why);
}

/* The receiver gets the rest. Its failing is no error of the program's run, which has been as it
 * should; what is left of the recording stays. */
static void finish_stream(struct record *r, struct piece *p, bool consumed)
{
	const struct recorder *one = p->recorder;
	bool finished = one->state == RECORDER_FINISHED;

	if (record_stream_finish(&r->stream, finished))
		return;
	say_not_sent(r, p, finished && consumed);
	if (!r->stream.only || (finished && consumed))
		return;
	p->kept = true;
	say_kept(p);
}

/* False: there is no trace, for a reason that is not the receiver's. */
static bool end_trace(struct record *r, struct piece *p)
{
	const struct recorder *one = p->recorder;
	bool consumed = one && recorder_has_part(one);
	bool gave_up = one && one->state == RECORDER_FAILED && r->stream.only &&
		       stream_sender_gave_up(r->stream.sender);

	if (!gave_up && !name_trace(p)) {
		record_stream_finish(&r->stream, one && one->state == RECORDER_FINISHED);
		return false;
	}
	if (r->stream.sender)
		finish_stream(r, p, consumed);
	return true;
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

/* A receiver takes the trace of the program's last image for what it was told of the ones before,
 * so those must go first. */
static void drop_unwanted(struct pieces *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->piece[i].recorder && !list->piece[i].wanted)
			recorder_drop(list->piece[i].recorder);
}

/* Makes the traces, then removes the spools. False when one failed: its spool stays. */
static bool finalise_pieces(struct record *r, struct pieces *list)
{
	bool all = true;

	if (r->stream.sender)
		drop_unwanted(list);
	finish_recorders(r, list);
	for (size_t i = 0; i < list->count; i++) {
		struct piece *p = &list->piece[i];

		if (p->alive) {
			p->kept = true;
			say_alive(p);
		} else if (p->wanted && !end_trace(r, p)) {
			all = false;
			if (p->recorder && p->recorder->state == RECORDER_FINISHED)
				continue; /* its part is complete */
			p->kept = true;
			say_kept(p);
		}
	}
	keep_ancestors(list);
	drop_unwanted(list);
	for (size_t i = 0; i < list->count; i++) {
		if (!list->piece[i].kept)
			unlink(list->piece[i].spool);
	}
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

/* What the program did before it became another one: "; ..." or "". */
static char *earlier_text(const struct record *r, const struct pieces *list)
{
	uint64_t earlier = 0;
	bool exact = false;
	char *count, *text;

	for (size_t i = 0; i < list->count && !r->follow; i++) {
		const struct piece *p = &list->piece[i];

		if (p->pid != r->child.pid || p->last)
			continue;
		earlier += p->glance.samples;
		exact |= p->glance.exact;
	}
	if (exact)
		return format(
		    "; what was allocated before an exec is left out (--follow keeps it)");
	if (!earlier)
		return format("%s", "");
	count = count_text(earlier);
	text = format("; %s samples from before an exec left out (--follow keeps them)", count);
	free(count);
	return text;
}

/* What the agent could not hand over, and what helps: "; ..." or "". */
static char *dropped_text(const struct record *r, const struct recorder *one)
{
	char *count, *text, spool[FIGURE_TEXT];

	if (!one->dropped)
		return format("%s", "");
	count = count_text(one->dropped);
	if (r->exact)
		text = format("; %s allocation%s dropped, as mayfly could not keep up: raise "
			      "--max-spool (%s), or sample with -i",
			      count, one->dropped == 1 ? "" : "s",
			      text_bytes(spool, sizeof(spool), (double)r->max_spool));
	else
		text = format("; %s samples dropped", count);
	free(count);
	return text;
}

/* The same of track events: "; ..." or "". */
static char *dropped_events_text(const struct record *r, const struct recorder *one)
{
	char *count, *text;

	if (!one->dropped_events)
		return format("%s", "");
	count = count_text(one->dropped_events);
	text = format(
	    "; %s event%s dropped%s", count, one->dropped_events == 1 ? "" : "s",
	    r->exact && one->dropped ? "" : ", as mayfly could not keep up: raise --max-spool");
	free(count);
	return text;
}

/* Reading went on for a while after the program's end: "; ..." or "". */
static char *behind_text(const struct record *r, const struct recorder *one)
{
	char late[FIGURE_TEXT], rate[FIGURE_TEXT];
	double events = (double)(one->status.allocations + one->status.frees);

	if (!r->exact || one->late_ns < BEHIND_NS || !one->read_ns)
		return format("%s", "");
	return format("; mayfly was behind by %s, it reads %s events a second",
		      text_duration(late, sizeof(late), (double)one->late_ns),
		      text_count(rate, sizeof(rate), events / ((double)one->read_ns / 1e9)));
}

/* All that is to be said of how it went; each begins with "; ". */
static char *remarks_text(const struct record *r, const struct pieces *list, const struct piece *p)
{
	char *earlier = earlier_text(r, list), *dropped = dropped_text(r, p->recorder);
	char *events = dropped_events_text(r, p->recorder);
	char *behind = behind_text(r, p->recorder), *text;
	char reason[2 * sizeof(p->glance.off_text)];
	bool off = p->glance.state == SPOOL_OFF;

	text = format("%s%s%s%s%s%s", earlier, dropped, events, behind,
		      off ? "; recording stopped early: " : "",
		      off ? text_clean(reason, sizeof(reason), p->glance.off_text) : "");
	free(earlier);
	free(dropped);
	free(events);
	free(behind);
	return text;
}

static void say_result(const struct record *r, const struct pieces *list, const struct piece *p)
{
	char time[FIGURE_TEXT], size[FIGURE_TEXT], name[256];
	const struct recorder *one = p->recorder;
	char *count = count_text(one->status.allocations), *children = children_text(r, list);
	char *remarks = remarks_text(r, list, p);

	/* Away from a terminal only what went wrong is said: the program's own messages stay as
	 * they are without mayfly. */
	if ((!r->quiet && isatty(STDERR_FILENO)) || p->glance.state == SPOOL_OFF ||
	    (one->dropped && r->exact) || one->dropped_events)
		cli_error(
		    "%s %s%s of %s in %s -> %s (%s)%s%s%s%s", count,
		    r->exact ? "allocation" : "sample", one->status.allocations == 1 ? "" : "s",
		    text_clean(name, sizeof(name), r->argv[0]),
		    text_duration(time, sizeof(time), (double)(r->child.ended_ns - r->start_ns)),
		    r->stream.only ? r->stream.to : p->trace,
		    text_bytes(size, sizeof(size), (double)one->trace_bytes), children, remarks,
		    r->stream.only ? "" : "; next: mayfly report ", r->stream.only ? "" : p->trace);
	free(count);
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

	r->found_ns = 0;
	serve(r);
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
	if (main_one && good && !(r->stream.only && r->stream.failed))
		say_result(r, &list, main_one);
	else if (!main_one)
		say_not_attached(r);
	if (!main_one)
		record_stream_finish(&r->stream, false);
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
	for (size_t i = 0; i < r.recorders; i++)
		recorder_free(r.recorder[i]);
	free(r.recorder);
	record_stream_close(&r.stream);
	symbols_free(r.symbols);
	return status;
}
