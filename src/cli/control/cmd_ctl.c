/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly ctl: steers a recording that goes on, by the control words of its spool. */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/input/recorded_processes.h"
#include "terminal/interval.h"
#include "cli/input/open_trace.h"
#include "cli/option_table.h"
#include "terminal/output.h"
#include "terminal/print_json.h"
#include "cli/control/snapshot.h"
#include "cli/input/ongoing.h"
#include "question/option_values.h"
#include "record/heap_request.h"
#include "record/spool_control.h"
#include "record/spool_mark.h"
#include "record/spool_recorder.h"
#include "record/spool_status.h"
#include "spool/spool_describe.h"

#define LEAST_LOG2    3u
#define HEAP_PAUSE_NS 10000000l /* between looks whether the picture has been taken */

struct ctl {
	const char *output;
	const char *all; /* the name of the processes */
	bool force, json;
	char *spool;
	struct spool_control control;
};

enum ctl_action { CTL_ON, CTL_OFF, CTL_INTERVAL, CTL_HEAP, CTL_STATUS, CTL_SNAPSHOT, CTL_MARK };

static const char *const action_names[] = {[CTL_ON] = "on",
					   [CTL_OFF] = "off",
					   [CTL_INTERVAL] = "interval",
					   [CTL_HEAP] = "heap",
					   [CTL_STATUS] = "status",
					   [CTL_SNAPSHOT] = "snapshot",
					   [CTL_MARK] = "mark",
					   NULL};

static const struct option_row ctl_rows[] = {
    {"output", 'o', "OUT", OPTION_FILE(struct ctl, output), .words = OPTION_FILES,
     .help = "the trace that snapshot writes; with --all the folder of NAME-PID.mayfly"},
    {"all", .argument = "NAME", OPTION_FILE(struct ctl, all),
     .help = "every process that is recorded and whose command is NAME"},
    {"force", .help = "replace OUT", OPTION_FLAG(struct ctl, force)},
    OPTION_JSON(struct ctl, json),
    OPTION_END,
};

const struct option_table ctl_option_table = {
    .usage = "ctl [OPTIONS] PID|SPOOL on|off|interval BYTES|heap|status|snapshot|mark TEXT",
    .about = "Steers a recording while the program runs.\n",
    .rows = ctl_rows,
    .notes =
	"Only heap stops the program, for about 30 ms a GiB. Each thread sees a change at its\n"
	"next sample.\n",
};

/* ---- status ---- */

static int print_status_json(const struct ctl *c)
{
	const struct spool_header *h = c->control.header;
	bool sampled = h->mode == SPOOL_SAMPLED;
	int64_t live = atomic_load(&h->live_bytes);
	struct json j = json_document();

	json_text(&j, "spool", c->spool);
	json_unsigned(&j, "pid", h->pid);
	json_text(&j, "state", spool_state_word(h));
	json_text(&j, "mode", sampled ? "sampled" : "exact");
	json_unsigned_or_null(&j, "interval_bytes", sampled, spool_interval(h));
	json_real(&j, "ocaml_rate", spool_ocaml_rate(h) > 0 ? spool_ocaml_rate(h) : NAN);
	json_unsigned_or_null(&j, "samples", sampled, spool_samples(h));
	json_unsigned_or_null(&j, "live_bytes", sampled, live > 0 ? (uint64_t)live : 0);
	json_unsigned(&j, "dropped_samples", atomic_load(&h->dropped_samples));
	return json_print(&j);
}

static int print_status(const struct ctl *c)
{
	const struct spool_header *h = c->control.header;
	char interval[FIGURE_TEXT], live[FIGURE_TEXT];
	struct output o = {0};

	output_detect(&o);
	print_field(&o, "Process", "%" PRIu32, h->pid);
	print_field(&o, "Recording", "%s", spool_state_word(h));
	if (h->mode == SPOOL_EXACT)
		print_field(&o, "Mode", "exact: every allocation");
	else
		print_field(&o, "Mode", "sampled, 1 byte in %s%s",
			    text_bytes(interval, sizeof(interval), (double)spool_interval(h)),
			    atomic_load(&h->control_overhead) ? " or more (--overhead)" : "");
	if (spool_ocaml_rate(h) >= 1)
		print_field(&o, "Runtime heap", "every block");
	else if (spool_ocaml_rate(h) > 0)
		print_field(&o, "Runtime heap", "sampled, %g per word: 1 byte in %s",
			    spool_ocaml_rate(h),
			    text_bytes(interval, sizeof(interval), 8 / spool_ocaml_rate(h)));
	if (h->mode == SPOOL_SAMPLED)
		print_field(&o, "Samples", "%" PRIu64 "; live now: about %s", spool_samples(h),
			    text_bytes(live, sizeof(live), (double)atomic_load(&h->live_bytes)));
	if (atomic_load(&h->dropped_samples))
		print_field(&o, "Dropped", "%" PRIu64 " samples", atomic_load(&h->dropped_samples));
	print_field(&o, "Spool", "%s", c->spool);
	return cli_finish();
}

/* ---- changes ---- */

static int set_interval(struct ctl *c, const char *value)
{
	struct error_line error_line = {0};
	uint64_t bytes;

	if (!option_bytes("interval", value, &bytes, &error_line))
		return cli_usage("%s", error_line.text);
	if (bytes < 1u << LEAST_LOG2 || bytes > 1ull << SPOOL_INTERVAL_MAX_LOG2)
		return cli_usage("interval: '%s' is not from 8 bytes to 1 TiB", value);
	if (c->control.header->mode == SPOOL_EXACT)
		return cli_error("every allocation is recorded (--exact): there is no interval");
	spool_control_interval(&c->control, interval_log2_of(bytes, false));
	return CLI_OK;
}

static int put_mark(const struct ctl *c, const char *text)
{
	int error = spool_mark(c->spool, text);

	if (error == ENAMETOOLONG)
		return cli_error("a mark has at most %u bytes", SPOOL_TEXT_BYTES);
	if (error == ESRCH)
		return cli_error("%s: no agent writes to it now", c->spool);
	return error ? cli_error("%s: %s", c->spool, strerror(error)) : CLI_OK;
}

/* The recorder takes the picture, as it has the trace that the picture goes into. */
static int take_heap(struct ctl *c)
{
	const struct timespec pause = {.tv_nsec = HEAP_PAUSE_NS};
	struct spool_header *h = c->control.header;
	char why[sizeof(h->heap_text) + 1];
	uint32_t request;
	pid_t recorder;

	if (spool_recorder_of(h, &recorder) != SPOOL_RECORDER_LIVES)
		return cli_error("%s: it has no recorder, which would take the picture", c->spool);
	request = heap_request(h);
	while (!heap_request_done(h, request, why, sizeof(why))) {
		if (spool_recorder_of(h, &recorder) != SPOOL_RECORDER_LIVES ||
		    access(c->spool, F_OK))
			return cli_error("%s: the recording ended before a picture was taken",
					 c->spool);
		nanosleep(&pause, NULL);
	}
	return *why ? cli_error("cannot take a picture of the heap: %s", why) : CLI_OK;
}

/* ---- the command ---- */

static int act(struct ctl *c, enum ctl_action action, const char *value)
{
	switch (action) {
	case CTL_ON:
	case CTL_OFF:
		spool_control_enable(&c->control, action == CTL_ON);
		return CLI_OK;
	case CTL_INTERVAL:
		return set_interval(c, value);
	case CTL_HEAP:
		return take_heap(c);
	case CTL_STATUS:
		return c->json ? print_status_json(c) : print_status(c);
	case CTL_SNAPSHOT:
		return snapshot_write(c->spool, c->output, c->force);
	case CTL_MARK:
		return put_mark(c, value);
	}
	return CLI_USAGE;
}

static bool take_action(const struct ctl *c, int words, char **word, enum ctl_action *action)
{
	bool needs_value;
	size_t a = 0;

	if (words < 1)
		return cli_refuse("what to do? on, off, interval BYTES, heap, status, snapshot or "
				  "mark TEXT");
	while (action_names[a] && strcmp(action_names[a], word[0]) != 0)
		a++;
	if (!action_names[a])
		return cli_refuse("'%s' is not on, off, interval, heap, status, snapshot or mark",
				  word[0]);
	*action = (enum ctl_action)a;
	needs_value = *action == CTL_INTERVAL || *action == CTL_MARK;
	if (needs_value && (words < 2 || !*word[1]))
		return cli_refuse("%s needs %s", word[0],
				  *action == CTL_MARK ? "a text" : "a number of bytes");
	if (words > 1 + needs_value)
		return cli_refuse("'%s' is one word too many", word[words - 1]);
	if (c->all && c->json)
		return cli_refuse("--json is for one process, not --all");
	if (*action == CTL_SNAPSHOT && !c->output)
		return cli_refuse(c->all ? "no folder given; use -o DIR"
					 : "no output file given; use -o FILE");
	if (*action != CTL_SNAPSHOT && (c->output || c->force))
		return cli_refuse("%s is for snapshot alone", c->output ? "--output" : "--force");
	if (*action != CTL_STATUS && c->json)
		return cli_refuse("--json is for status alone");
	return true;
}

static bool find_recording(struct ctl *c, const char *named)
{
	const char *why;
	bool goes_on;

	c->spool = ongoing_find_unfinished(named, &goes_on, &why);
	if (why)
		return cli_fail("process %s: %s", named, why);
	if (!c->spool)
		return cli_fail("'%s' is neither a process nor a recording that goes on", named);
	return goes_on || cli_fail("'%s': no process writes to it any more", c->spool);
}

/* Steers the recording that c->spool names. */
static int steer(struct ctl *c, enum ctl_action action, const char *value)
{
	int error, status;

	guard_mapped_files();
	error = spool_control_open(&c->control, c->spool, action <= CTL_HEAP);
	if (error)
		status = cli_error("%s: %s", c->spool,
				   error == EINVAL ? "not a spool of this version of mayfly"
						   : strerror(error));
	else
		status = act(c, action, value);
	spool_control_close(&c->control);
	return status;
}

static int steer_one(struct ctl *c, const char *named, enum ctl_action action, const char *value)
{
	int status = find_recording(c, named) ? steer(c, action, value) : CLI_FAILED;

	free(c->spool);
	return status;
}

static bool make_folder(const char *path)
{
	struct stat status;

	if (!mkdir(path, 0777))
		return true;
	if (errno != EEXIST)
		return cli_fail("%s: %s", path, strerror(errno));
	return (!stat(path, &status) && S_ISDIR(status.st_mode)) ||
	       cli_fail("%s: is not a folder", path);
}

static int snapshot_one(struct ctl *c, const struct recorded_process *process, const char *folder)
{
	char *path;
	int status;

	if (asprintf(&path, "%s/%s-%ld.mayfly", folder, c->all, (long)process->pid) < 0)
		return cli_error("out of memory");
	status = snapshot_write(c->spool, path, c->force);
	if (status == CLI_OK)
		printf("%ld %s\n", (long)process->pid, path);
	free(path);
	return status;
}

static int steer_found(struct ctl *c, const struct recorded_process *process,
		       enum ctl_action action, const char *value)
{
	int status;

	c->spool = process->spool;
	if (action == CTL_SNAPSHOT)
		return snapshot_one(c, process, c->output);
	status = steer(c, action, value);
	if (status == CLI_OK && action != CTL_STATUS)
		printf("%ld %s\n", (long)process->pid, action_names[action]);
	return status;
}

/* A line for each, where the action prints nothing itself. Goes on after one that fails. */
static int steer_all(struct ctl *c, enum ctl_action action, const char *value)
{
	int status = CLI_OK;
	struct recorded_processes found;
	bool failed = false;

	if (!recorded_processes_find(&found, c->all))
		status = cli_error("out of memory");
	else if (!found.count)
		status = cli_error("no process that is recorded is called '%s'", c->all);
	else if (action == CTL_SNAPSHOT && !make_folder(c->output))
		status = CLI_FAILED;
	for (size_t i = 0; status == CLI_OK && i < found.count; i++)
		if (steer_found(c, &found.process[i], action, value) != CLI_OK)
			failed = true;

	recorded_processes_free(&found);
	return status == CLI_OK && failed ? CLI_FAILED : status == CLI_OK ? cli_finish() : status;
}

int cmd_ctl(int argc, char **argv)
{
	struct ctl c = {0};
	int status = options_take(&ctl_option_table, &c, argc, argv);
	int words = argc - optind;
	enum ctl_action action;
	char **word = argv + optind;

	if (status != OPTIONS_TAKEN)
		return status;
	if (!c.all && words < 1)
		return cli_usage("name a process or a spool, and what to do");
	if (!take_action(&c, c.all ? words : words - 1, c.all ? word : word + 1, &action))
		return CLI_USAGE;
	return c.all ? steer_all(&c, action, word[1]) : steer_one(&c, word[0], action, word[2]);
}
