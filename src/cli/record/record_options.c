/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly record: its options, and the settings in MAYFLY that are its own, too. */
#include "cli/record/record.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal/interval.h"
#include "cli/option_table.h"
#include "cli/cli.h"
#include "terminal/output.h"
#include "base/units.h"
#include "format/spool_format.h"
#include "serve/http_place.h"
#include "serve/server.h"

#define DEFAULT_MAX_SPOOL (8ull << 30)
#define LIMITED_MAX_SPOOL (1ull << 30) /* when the trace has a limit */
#define LEAST_MAX_SIZE	  (64ull << 10)
#define LEAST_SNAPSHOT_NS 1000000ll

bool record_take_interval(const struct given *given, void *to)
{
	struct record *r = to;
	uint64_t bytes;

	if (!option_take_bytes(given, &bytes))
		return false;
	r->interval_log2 = interval_log2_of(bytes, r->quiet);
	return true;
}

static bool take_overhead(const struct given *given, void *to)
{
	char *end = NULL;
	double percent =
	    *given->value >= '0' && *given->value <= '9' ? strtod(given->value, &end) : -1;

	if (end && *end == '%')
		end++;
	if (!end || *end || !(percent >= 0.01 && percent <= 50))
		return cli_refuse("%s: '%s' is not a percentage from 0.01 to 50", given->option,
				  given->value);
	*(uint32_t *)to = (uint32_t)(percent * 100 + 0.5);
	return true;
}

static bool read_rate(const char *text, double *rate)
{
	return number_read(text, strlen(text), rate) && *rate >= 1e-11 && *rate <= 1;
}

/* 0 is a wrong number where another number would be right. */
static bool is_off(const char *text)
{
	return yes_or_no(text, strlen(text)) == 0 && strcmp(text, "0") != 0;
}

/* After "frames=". */
static bool read_frames(const char *text, uint32_t *frames)
{
	double number;

	if (!number_read(text, strlen(text), &number) || number < 1 || number > SPOOL_OCAML_ASKED ||
	    number != (uint32_t)number)
		return false;
	*frames = (uint32_t)number;
	return true;
}

/* "off", a rate, "frames=N", or nothing, which asks for the default. */
static bool record_take_ocaml(const struct given *given, void *to)
{
	struct record_command *c = to;
	struct record *r = &c->record;
	double rate;

	if (given->value && !strncmp(given->value, "frames=", 7))
		return read_frames(given->value + 7, &r->ocaml_frames) ||
		       cli_refuse("%s: '%s': the number is not one from 1 to %u", given->option,
				  given->value, SPOOL_OCAML_ASKED);
	c->ocaml_given = true;
	if (!given->value)
		return true;
	if (is_off(given->value)) {
		r->ocaml_off = true;
		return true;
	}
	if (!read_rate(given->value, &rate))
		return cli_refuse(
		    "%s: '%s' is neither a rate from 1e-11 to 1 (samples per word) nor "
		    "off nor frames=N",
		    given->option, given->value);
	r->ocaml_rate = rate;
	return true;
}

static bool take_map_events(const struct given *given, void *to)
{
	struct record *r = &((struct record_command *)to)->record;

	r->map_events_off = is_off(given->value);
	return r->map_events_off || option_take_bytes(given, &r->map_events);
}

/* The page's port, or nothing, which asks for any free one. */
static bool take_view(const struct given *given, void *to)
{
	struct record_command *c = to;

	c->view = true;
	return !given->value || option_take_count(given, &c->view_port);
}

static const char *const runtime_events_words[] = {"auto", "off", NULL};
static const char *const exec_words[] = {"keep", "last", NULL};

static const struct option_row record_rows[] = {
    {"output", 'o', "FILE", OPTION_FILE(struct record_command, record.output),
     .words = OPTION_FILES, .help = "write the trace to FILE (default mayfly.NAME.PID.mayfly)"},
    {"force", .rare = true,
     .help = "replace FILE, even when it is not a trace, and do not keep it as FILE with .old "
	     "before its suffix",
     OPTION_FLAG(struct record_command, record.force)},
    {"interval", 'i', "BYTES",
     OPTION_IN(record_take_interval, struct record, struct record_command, record), .least = 1,
     .most = 1ull << SPOOL_INTERVAL_MAX_LOG2, OPTION_GIVEN(struct record_command, interval_given),
     .help = "mean bytes between samples (default 512K), rounded to a power of two; K, M and G are "
	     "powers of 1024"},
    {"exact", 'x', .help = "record every allocation; the same as -i 1",
     OPTION_FLAG(struct record_command, record.exact)},
    {"snapshots", .rare = true, .argument = "TIME", .least = LEAST_SNAPSHOT_NS,
     OPTION_TIME(struct record_command, record.snapshot_ns),
     .help = "keep no blocks but count every allocation by stack, with a snapshot each TIME"},
    {"overhead", .rare = true, .argument = "PERCENT",
     OPTION_IN(take_overhead, uint32_t, struct record_command, record.overhead),
     .help = "raise the interval where samples would cost more CPU time than that"},
    {"max-size", .argument = "BYTES", .least = LEAST_MAX_SIZE,
     OPTION_BYTES(struct record_command, record.max_size),
     .help = "keep the trace below this size by keeping fewer samples"},
    {"max-spool", .rare = true, .argument = "BYTES",
     .least = (uint64_t)SPOOL_LEAST_PACKETS * SPOOL_PACKET_BYTES,
     OPTION_BYTES(struct record_command, record.max_spool),
     .help = "size of data that may wait to be read (default 8G); more is dropped and counted"},
    {"sampler", .rare = true, .argument = "stratified|poisson",
     OPTION_CHOICE(record_sampler_names, struct record_command, record.sampler),
     OPTION_GIVEN(struct record_command, sampler_given),
     .help = "how samples are drawn (default stratified)"},
    {"ocaml", .argument = "[=RATE|off|frames=N]", OPTION_OWN(record_take_ocaml),
     .help = "OCaml's heaps: samples per word (1e-5), or frames a stack"},
    {"map-events", .rare = true, .argument = "BYTES|off", .words = "off", .least = 1,
     OPTION_OWN(take_map_events),
     .help = "record calls such as mmap and munmap of this size or more (default 1M)"},
    {"runtime-events", .rare = true, .argument = "auto|off",
     OPTION_CHOICE(runtime_events_words, struct record_command, record.runtime_events_off),
     .help = "read the events of an OCaml 5 program's runtime (default auto: unless the program's "
	     "environment asks for them)"},
    OPTION_HEADING("Sending the trace elsewhere:"),
    {.group = record_stream_rows, .at = offsetof(struct record_command, record.stream)},
    OPTION_GROUP(record_push_rows, struct record_command, push),
    {"listen", .argument = "ADDRESS", OPTION_TEXT(struct record_command, listen),
     .help = "serve profiles and metrics at PORT or unix:/PATH to collectors"},
    OPTION_HEADING("What is recorded and shown:"),
    {"exec", .rare = true, .argument = "keep|last",
     OPTION_CHOICE(exec_words, struct record_command, record.last_image_only),
     .help = "what the process was before an exec gets a trace, too, if it has samples (keep)"},
    {"follow", 'f', .help = "also record child processes: FILE with .PID before its suffix",
     OPTION_FLAG(struct record_command, record.follow)},
    OPTION_GROUP(when_rows, struct record_command, when),
    {"debug-dir", .rare = true, .argument = "DIR",
     OPTION_TEXT(struct record_command, record.debug_dir), .words = OPTION_FOLDERS,
     .help = "also look for files and debug files in DIR"},
    OPTION_GROUP(download_rows, struct record_command, download),
    {"view", .argument = "[=PORT]", OPTION_OWN(take_view), .least = 1, .most = UINT16_MAX,
     .help = "show it in the browser while it goes on, and then the trace"},
    {"progress", .rare = true, .help = "show progress even when COMMAND's output is a terminal",
     OPTION_FLAG(struct record_command, progress)},
    {"quiet", 'q',
     .help = "report only errors: no progress, no line at the end (default when standard error is "
	     "not a terminal)",
     OPTION_FLAG(struct record_command, record.quiet)},
    OPTION_END,
};

#define USE_ATTACH "use 'mayfly attach PID' to record a program that runs already"

static const struct option_hint record_hints[] = {
    {"-p", USE_ATTACH},
    {"--pid", USE_ATTACH},
    {"--attach", USE_ATTACH},
    {"-F", "use -i BYTES, the mean number of bytes between samples"},
    {"--frequency", "use -i BYTES, the mean number of bytes between samples"},
    {"-g", "stacks are always recorded"},
    {NULL, NULL},
};

const struct option_table record_option_table = {
    .usage = "record [OPTIONS] [--] COMMAND [ARGUMENTS]",
    .about = "Runs COMMAND, samples its memory allocations and writes a trace.\n",
    .rows = record_rows,
    .hints = record_hints,
    .notes = "Exit status: COMMAND's own, 128+N when signal N ended it; 125 when mayfly failed,\n"
	     "126 when COMMAND cannot be executed, 127 when it is not found.\n",
    .stops = true,
};

/* Whether the options can be combined. */
static bool record_options_agree(struct record_command *c)
{
	struct record *r = &c->record;

	if (r->exact && c->interval_given && r->interval_log2)
		return cli_refuse("--exact records every allocation; it cannot be combined with "
				  "--interval");
	if (r->exact && c->sampler_given)
		return cli_refuse("--exact records every allocation; it cannot be combined with "
				  "--sampler");
	if (r->snapshot_ns && c->sampler_given)
		return cli_refuse("--snapshots counts every allocation; it cannot be combined with "
				  "--sampler");
	if (r->snapshot_ns && c->interval_given && r->interval_log2)
		return cli_refuse("--snapshots counts every allocation; it cannot be combined with "
				  "--interval");
	if (r->snapshot_ns && r->max_size)
		return cli_refuse(
		    "--snapshots cannot be combined with --max-size, as it keeps no blocks; "
		    "use a longer interval instead");
	if (r->snapshot_ns && c->when.heap_at)
		return cli_refuse("--snapshots cannot be combined with --heap-at, as it keeps no "
				  "blocks");
	if (r->stream.to && r->follow)
		return cli_refuse("--stream sends one trace; it cannot be combined with --follow");
	if (c->push.to && r->follow)
		return cli_refuse("--push is for one process; with --follow, use 'mayfly push "
				  "--every 60s' beside it");
	if (c->listen && !http_place_is(c->listen))
		return cli_refuse("--listen: '%s' is not " HTTP_PLACE_FORMS, c->listen);
	if (c->listen && r->stream.to && !r->output)
		return cli_refuse("--listen serves what is on this machine; use -o FILE as well as "
				  "--stream");
	if (c->push.to && r->stream.to)
		return cli_refuse("--push cannot be combined with --stream");
	if (r->stream.to && r->max_size)
		return cli_refuse("--stream cannot be combined with --max-size, as what was sent "
				  "cannot be "
				  "thinned; use a larger interval instead");
	if (c->view && r->stream.to && !r->output)
		return cli_refuse("--view shows what is on this machine; use -o FILE as well as "
				  "--stream");
	if (c->when.list.count && r->stream.to && !r->output)
		return cli_refuse("--when needs the trace on this machine; use -o FILE as well as "
				  "--stream");
	if (c->view && !server_supported())
		return cli_refuse("--view: this build of mayfly lacks libmicrohttpd; install "
				  "libmicrohttpd-dev and build it again");
	if (r->exact || r->snapshot_ns)
		r->interval_log2 = 0;
	if (c->ocaml_given && !r->ocaml_off && r->snapshot_ns)
		return cli_refuse("--ocaml samples the heap of OCaml; it cannot be combined with "
				  "--snapshots");
	if (r->ocaml_rate > 0 && r->ocaml_rate < 1 && !r->interval_log2)
		return cli_refuse("--ocaml=%g samples the heap of OCaml; --exact and --interval 1 "
				  "record every block there, or with --ocaml=off none",
				  r->ocaml_rate);
	if (r->overhead && !r->interval_log2)
		return cli_refuse(
		    "--overhead adapts the interval of samples; it cannot be combined "
		    "with %s",
		    r->snapshot_ns ? "--snapshots" : "--exact or --interval 1");
	return true;
}

/* As in "--ocaml 1e-5 ./program": an optional value needs a '='. */
static bool ocaml_value_stands_apart(char **argv)
{
	double rate;

	return optind > 1 && !strcmp(argv[optind - 1], "--ocaml") &&
	       (is_off(argv[optind]) || read_rate(argv[optind], &rate));
}

int record_take_options(struct record_command *c, int argc, char **argv)
{
	struct record *r = &c->record;
	int status;

	r->interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2;
	status = options_take(&record_option_table, c, argc, argv);
	if (status != OPTIONS_TAKEN)
		return status == CLI_OK ? CLI_OK : RECORD_FAILED;
	if (!record_options_agree(c))
		return RECORD_FAILED;
	if (optind >= argc)
		return cli_usage("no program given; use 'mayfly record -- COMMAND ARGUMENTS'"),
		       RECORD_FAILED;
	if (ocaml_value_stands_apart(argv))
		return cli_usage("--ocaml %s: write --ocaml=%s", argv[optind], argv[optind]),
		       RECORD_FAILED;
	r->argv = argv + optind;
	if (r->output && strcmp(r->output, "-") == 0)
		return cli_usage("--output: standard output belongs to the program; name a file"),
		       RECORD_FAILED;
	if (!record_push_check(&c->push, c->listen))
		return RECORD_FAILED;
	return record_stream_check(&r->stream, r->output) ? -1 : RECORD_FAILED;
}

static bool is_key(const char *setting, size_t length, const char *key)
{
	return length > strlen(key) && !strncmp(setting, key, strlen(key)) &&
	       setting[strlen(key)] == '=';
}

static bool setting_taken(const char *option, const char *said, const char *value,
			  struct record_command *c)
{
	struct error_line error_line = {0};

	return option_rows_take(record_rows, option, said, value, c, &error_line) ||
	       cli_refuse("%s", error_line.text);
}

/* Also of those settings that the recorder gives instead, so that a mistake is never passed over. */
static bool setting_is_yes(const char *key, const char *value, bool *yes)
{
	int answer = yes_or_no(value, strlen(value));

	*yes = answer == 1;
	return answer >= 0 || cli_refuse("%s in MAYFLY: '%s' is neither " YES_OR_NO, key, value);
}

/* A setting that is the recorder's, too: an option takes precedence. */
static bool take_user_setting(struct record_command *c, const char *setting, const char *value,
			      bool *taken)
{
	struct record *r = &c->record;
	bool free_mode = !c->interval_given && !r->exact && !r->snapshot_ns;
	const struct {
		const char *key, *option, *said;
		bool overridden;
	} shared[] = {
	    {"interval", "interval", "interval in MAYFLY", !free_mode},
	    {"sampler", "sampler", "sampler in MAYFLY", c->sampler_given},
	    {"overhead", "overhead", "overhead in MAYFLY", r->overhead || !r->interval_log2},
	    {"max_spool", "max-spool", "max_spool in MAYFLY", r->max_spool != 0},
	};
	static const char *const words[] = {"exact", "follow", "runtime_events"};
	size_t length = strlen(setting);
	bool yes = false;

	*taken = true;
	for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++)
		if (is_key(setting, length, shared[i].key))
			return shared[i].overridden ||
			       setting_taken(shared[i].option, shared[i].said, value, c);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (is_key(setting, length, words[i]) && !setting_is_yes(words[i], value, &yes))
			return false;
	if (is_key(setting, length, "exact")) {
		if (yes && free_mode && !r->overhead)
			r->interval_log2 = 0;
		return true;
	}
	*taken = is_key(setting, length, "output") || is_key(setting, length, "pid") ||
		 is_key(setting, length, "follow") || is_key(setting, length, "runtime_events") ||
		 (c->ocaml_given && is_key(setting, length, "ocaml")) ||
		 ((r->map_events || r->map_events_off) && is_key(setting, length, "map_events"));
	return true;
}

/* The user's own settings go on to the agent, except for those that the recorder gives. */
bool record_take_settings(struct record_command *c)
{
	const char *text = getenv("MAYFLY");
	struct record *r = &c->record;
	size_t used = 0;

	text = text ? text : "";
	r->user_settings = calloc(1, strlen(text) + 2);
	while (*text && r->user_settings) {
		size_t length = strcspn(text, ",");
		char *setting = strndup(text, length);
		const char *value = setting ? strchr(setting, '=') : NULL;
		bool taken, good;

		if (!setting)
			return record_no_memory(r);
		good = take_user_setting(c, setting, value ? value + 1 : "", &taken);
		if (length && !taken)
			used += (size_t)sprintf(r->user_settings + used, ",%s", setting);
		free(setting);
		if (!good)
			return false;
		text += length + (text[length] == ',');
	}
	if (!r->interval_log2)
		r->exact = true;
	if (!r->max_spool)
		r->max_spool = r->max_size ? LIMITED_MAX_SPOOL : DEFAULT_MAX_SPOOL;
	return r->user_settings || record_no_memory(r);
}
