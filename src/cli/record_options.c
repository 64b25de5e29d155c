/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: its options, and the settings in MAYFLY that are its own, too. */
#include "cli/record.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"

#define DEFAULT_INTERVAL_LOG2 19
#define MAX_INTERVAL_LOG2     40
#define DEFAULT_MAX_SPOOL     (8ull << 30)
#define LEAST_MAX_SIZE	      (64ull << 10)
#define LEAST_SNAPSHOT_NS     1000000ll

const char *const record_sampler_names[] = {"stratified", "poisson", NULL};

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
    "      --snapshots SECONDS keep counters for each stack at each such interval, no blocks;\n"
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
		return option_choice("--sampler", optarg, record_sampler_names, &r->sampler)
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
		cli_usage("--snapshots keeps no blocks that --max-size could thin out; "
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

int record_take_options(struct record *r, int argc, char **argv)
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
	if (r->output && strcmp(r->output, "-") == 0) {
		cli_usage("--output: standard output is the program's; name a file");
		return RECORD_FAILED;
	}
	return record_stream_check(&r->stream, r->output) ? -1 : RECORD_FAILED;
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
		       option_choice("sampler in MAYFLY", value, record_sampler_names, &r->sampler);
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
bool record_take_settings(struct record *r)
{
	const char *text = getenv("MAYFLY");
	bool good = true, taken;

	r->user_settings = record_format("%s", "");
	while (text && *text && good) {
		size_t length = strcspn(text, ",");
		char *setting = record_format("%.*s", (int)length, text), *longer;
		const char *value = strchr(setting, '=');

		good = take_user_setting(r, setting, value ? value + 1 : "", &taken);
		if (length && !taken) {
			longer = record_format("%s,%s", r->user_settings, setting);
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
