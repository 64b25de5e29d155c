/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly attach: records a program that runs already.
 *
 *	checks ──> FILE.spool ──> the agent is loaded and starts ──> as in mayfly record
 *	                                                              │ Ctrl-C, --for, mayfly detach,
 *	                                                              ▼ or the program ends
 *	               FILE <── as in mayfly record <── the agent is put out of its way
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/attach.h"
#include "cli/cli.h"
#include "cli/option_table.h"
#include "terminal/output.h"
#include "cli/control/process_number.h"
#include "cli/record/record.h"
#include "record/process_spool.h"
#include "record/spool_control.h"
#include "record/spool_recorder.h"

#define MAX_SPOOL (8ull << 30)
#define LEFT_NS	  1000000000ll /* between looks at whether it still writes the spool */

struct attach_command {
	struct record_command command;
	int64_t for_ns, timeout_ns;
	char *library;
	char *settings; /* of the agent */
	pid_t pid;
	sigset_t mask;		 /* of signals, before they were held back */
	char name[NAME_MAX + 1]; /* of the program */
	char *names[2];
};

static const struct option_row attach_rows[] = {
    {"output", 'o', "FILE", OPTION_FILE(struct attach_command, command.record.output),
     .words = OPTION_FILES, .help = "write the trace to FILE (default mayfly.NAME.PID.mayfly)"},
    {"force", .help = "replace FILE, and do not keep it as FILE with .old before its suffix",
     OPTION_FLAG(struct attach_command, command.record.force)},
    {"interval", 'i', "BYTES",
     OPTION_IN(record_take_interval, struct record, struct attach_command, command.record),
     .least = 1, .most = 1ull << SPOOL_INTERVAL_MAX_LOG2,
     OPTION_GIVEN(struct attach_command, command.interval_given),
     .help = "mean bytes between samples (default 512K), rounded to a power of two"},
    {"exact", 'x', .help = "record every allocation from now on",
     OPTION_FLAG(struct attach_command, command.record.exact)},
    {"for", .argument = "TIME", .least = 1000000, OPTION_TIME(struct attach_command, for_ns),
     .help = "detach after this time (default: at Ctrl-C, mayfly detach, or the program's end)"},
    {"timeout", .argument = "TIME", .least = 1000000,
     OPTION_TIME(struct attach_command, timeout_ns),
     .help = "give up when no thread is found at a safe point for so long (default 10s)"},
    {"follow", 'f', .help = "also record the processes that it starts from now on",
     OPTION_FLAG(struct attach_command, command.record.follow)},
    {"debug-dir", .argument = "DIR", OPTION_TEXT(struct attach_command, command.record.debug_dir),
     .words = OPTION_FOLDERS, .help = "also look for files and debug files in DIR"},
    OPTION_GROUP(when_rows, struct attach_command, command.when),
    OPTION_GROUP(download_rows, struct attach_command, command.download),
    {"progress", .help = "show progress even when standard output is a terminal",
     OPTION_FLAG(struct attach_command, command.progress)},
    {"quiet", 'q', .help = "report only errors",
     OPTION_FLAG(struct attach_command, command.record.quiet)},
    OPTION_END,
};

const struct option_table attach_option_table = {
    .usage = "attach [OPTIONS] PID",
    .about = "Records the allocations of a program that runs already, from now on.\n",
    .rows = attach_rows,
    .notes =
	"The program is not started again and goes on as before: one of its threads stops for\n"
	"some milliseconds while the agent is loaded. Blocks from before are not known.\n"
	"Ctrl-C, --for or 'mayfly detach PID' ends the recording; the program runs on.\n",
};

/* ---- the process ---- */

static bool name_process(struct attach_command *a)
{
	char path[64], exe[PATH_MAX];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%ld/exe", (long)a->pid);
	length = readlink(path, exe, sizeof(exe) - 1);
	if (length <= 0) {
		snprintf(a->name, sizeof(a->name), "%ld", (long)a->pid);
	} else {
		exe[length] = 0;
		snprintf(a->name, sizeof(a->name), "%s", strrchr(exe, '/') + 1);
	}
	a->names[0] = a->name;
	a->command.record.argv = a->names;
	return true;
}

static int say_failed(const struct attach_command *a, const char *what, const char *why)
{
	return cli_error("cannot %s process %ld: %s", what, (long)a->pid, why);
}

/* ---- the recording ---- */

/* The recorder of the spool to which the process writes now: each exec begins another spool. NULL: there is
 * none so far. */
static const struct recorder *newest_recorder(const struct record *r)
{
	for (size_t i = r->recorders; i--;)
		if (r->recorder[i]->pid == r->child.pid)
			return r->recorder[i];
	return NULL;
}

static char *newest_spool(const struct record *r)
{
	const struct recorder *newest = newest_recorder(r);

	return newest ? newest->spool : r->spool;
}

/* The agent has put its settings into the environment of the program that an exec began, and so comes
 * back there, as soon as that allocates. */
static bool comes_back(const struct attach_command *a)
{
	char path[64], *entry = NULL;
	size_t room = 0;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/environ", (long)a->pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && getdelim(&entry, &room, 0, file) > 0)
		found = !strncmp(entry, "MAYFLY=", 7) && !strcmp(entry + 7, a->settings);
	free(entry);
	fclose(file);
	return found;
}

/* An exec has replaced the program by one that cannot be recorded. */
static bool has_left(const struct attach_command *a)
{
	static int64_t looked_ns;
	struct spool_entry e = {.path = newest_spool(&a->command.record), .pid = a->pid};

	if (now_ns() - looked_ns < LEFT_NS)
		return false;
	looked_ns = now_ns();
	return spool_glance(e.path, &e.glance) && !spool_in_use(&e) && !comes_back(a);
}

/* Somebody has emptied the spool, or its disk has failed: the agent is off, or will be. */
static bool spool_is_lost(const struct record *r)
{
	const struct recorder *newest = newest_recorder(r);

	return newest && newest->watch.lost;
}

static void watch(struct attach_command *a)
{
	struct record *r = &a->command.record;
	struct child *c = &r->child;
	bool progress = record_wants_progress(&a->command);
	int64_t end = a->for_ns ? r->start_ns + a->for_ns : INT64_MAX;
	int wait = 1;

	while (!c->ended && !c->interrupted && now_ns() < end) {
		int64_t left = (end - now_ns()) / 1000000 + 1;

		record_wait_for_signal(r, left < wait ? (int)left : wait);
		child_signals(c);
		if (c->ended || c->interrupted)
			break;
		wait = (int)record_serve(r);
		if (progress)
			record_show_progress(&a->command);
		if (has_left(a) || spool_is_lost(r))
			break;
	}
	record_clear_progress(&a->command);
}

/* Where that is not possible, at least nothing is recorded any more: also after an exec, as the agent
 * was loaded with the program then. */
static void detach(struct attach_command *a)
{
	struct record *r = &a->command.record;
	struct attach_result result;
	struct spool_control control;
	bool has_exec;

	/* An exec of just now counts. */
	r->found_ns = 0;
	record_serve(r);
	has_exec = strcmp(newest_spool(r), r->spool);
	if (r->child.ended || attach_unload(a->pid, a->library, a->timeout_ns, &result) ||
	    (result.there && !has_exec))
		return;
	child_signals(&r->child);
	if (r->child.ended)
		return;
	if (!has_exec)
		say_failed(a, "detach from", result.why);
	if (spool_control_open(&control, newest_spool(r), true))
		return;
	spool_control_enable(&control, false);
	spool_control_close(&control);
	if (has_exec)
		return;
	cli_error(
	    "recording is switched off in process %ld; its calls still pass through the agent",
	    (long)a->pid);
}

static void say_attached(const struct attach_command *a, const struct attach_result *result)
{
	const struct record *r = &a->command.record;

	if (!r->quiet && isatty(STDERR_FILENO))
		cli_error(
		    "attached to %s (%ld), a thread of which stopped for %.1f ms; Ctrl-C ends "
		    "the recording",
		    a->name, (long)a->pid, (double)result->stopped_ns / 1e6);
}

/* Whether the process is free for a recording: it has none, or one whose recorder has died, which ends now.
 * Looked at before any file is touched. */
static bool make_way(struct attach_command *a)
{
	struct process_spool s;
	struct record *r = &a->command.record;
	pid_t recorder;

	if (!process_spool_find(a->pid, &s) || atomic_load(&s.header.attached) != 1)
		return true;
	if (spool_recorder_of(&s.header, &recorder) != SPOOL_RECORDER_NONE) {
		if (atomic_load(&s.header.state) != SPOOL_RUNNING)
			return true;
		say_failed(a, "attach to", ATTACH_RECORDED);
		return false;
	}
	free(r->user_settings);
	r->user_settings =
	    record_format(",attached=1,instead=%u", atomic_load(&s.header.recorder_pid));
	return (r->user_settings || record_no_memory(r)) && record_keep_lost(r, &s);
}

static bool start(struct attach_command *a)
{
	struct record *r = &a->command.record;
	struct attach_result result;
	int error = child_adopt(&r->child, a->pid);
	bool good;

	r->child.mask = a->mask;
	if (error)
		return cli_fail("cannot start: %s", strerror(error));
	if (!(record_choose_names(r) || record_no_memory(r)) || !make_way(a) ||
	    !record_make_spool(r))
		return false;
	handover_open(&r->handover);
	record_start_handover(r);
	a->settings = record_agent_settings(r);
	if (!a->settings)
		return record_no_memory(r);
	r->start_ns = now_ns();
	good = attach_load(a->pid, a->library, a->settings, a->timeout_ns, &result);
	if (!good) {
		record_drop_spool(r);
		say_failed(a, "attach to", result.why);
		return false;
	}
	say_attached(a, &result);
	return true;
}

static int attach(struct attach_command *a)
{
	struct record *r = &a->command.record;
	struct child *c = &r->child;

	if (!record_occupy_descriptors() || !(r->folder = getcwd(NULL, 0)))
		return cli_error("cannot start: %s", strerror(errno));
	when_begin(&a->command.when, r);
	r->program.ordinary = true;
	r->runtime_events_off = 1;
	r->max_spool = MAX_SPOOL;
	r->user_settings = strdup(",attached=1");
	a->library = record_find_agent(ATTACH_LIBRARY);
	if (!a->library)
		return cli_error(ATTACH_LIBRARY
				 " is neither beside mayfly nor where it was installed");
	if (!name_process(a) || !start(a))
		return CLI_FAILED;
	watch(a);
	detach(a);
	if (!c->ended_ns)
		c->ended_ns = now_ns();
	return record_end(&a->command) && !a->command.no_trace ? CLI_OK : CLI_FAILED;
}

int cmd_attach(int argc, char **argv)
{
	struct attach_command a = {
	    .command = {.record = {.say = record_say_line,
				   .download_progress = record_show_download},
			.download = DOWNLOAD_DEFAULTS},
	    .timeout_ns = ATTACH_TIMEOUT_NS,
	};
	struct record *r = &a.command.record;
	int status;

	child_hold_signals(&a.mask);
	r->say_context = &a.command;
	r->interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2;
	status = options_take(&attach_option_table, &a, argc, argv);
	if (status != OPTIONS_TAKEN)
		return status;
	if (optind + 1 != argc)
		return cli_usage(optind < argc ? "name one process"
					       : "name a process, by its number");
	if (!process_number_take(argv[optind], &a.pid))
		return CLI_USAGE;
	if (r->exact && a.command.interval_given && r->interval_log2)
		return cli_usage("--exact records every allocation; it cannot be combined with "
				 "--interval");
	if (r->exact)
		r->interval_log2 = 0;
	r->exact = !r->interval_log2;
	r->no_debuginfod = !a.command.download.limit_ns;
	r->debuginfod_ns = a.command.download.limit_ns;
	status = attach(&a);
	free(a.library);
	free(a.settings);
	record_free(r);
	when_free(&a.command.when);
	return status;
}
