/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly detach: ends what mayfly attach began. The recorder does it, when it lives. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "attach/attach.h"
#include "cli/cli.h"
#include "cli/input/ongoing.h"
#include "cli/option_table.h"
#include "cli/control/process_number.h"
#include "record/process_spool.h"
#include "record/session.h"
#include "record/spool_control.h"
#include "record/spool_recorder.h"

#define LOOK_NS 20000000l

struct detach_command {
	int64_t timeout_ns;
};

static const struct option_row detach_rows[] = {
    {"timeout", .argument = "TIME", .least = 1000000,
     OPTION_TIME(struct detach_command, timeout_ns), .help = "give up after so long (default 10s)"},
    OPTION_END,
};

const struct option_table detach_option_table = {
    .usage = "detach [OPTIONS] PID",
    .about = "Ends the recording that 'mayfly attach' began. The program runs on.\n",
    .rows = detach_rows,
    .notes = "The trace is written by 'mayfly attach', where that still runs; otherwise its spool\n"
	     "stays, which every command reads.\n",
};

/* What is known of the recording, as the process has it. */
struct found {
	struct process_spool spool;
	enum spool_recorder recorder;
	pid_t recorder_pid;
};

static bool find(pid_t pid, struct found *r)
{
	if (!process_spool_find(pid, &r->spool))
		return false;
	r->recorder = spool_recorder_of(&r->spool.header, &r->recorder_pid);
	return true;
}

/* After an exec, the recorder may not have seen the newest spool yet: it is that of the first one. */
static void find_first_recorder(struct found *r)
{
	struct spool_control c;
	struct ongoing o;
	char *first;

	if (r->recorder != SPOOL_RECORDER_NONE || !ongoing_begin(&o, r->spool.path, false))
		return;
	if (asprintf(&first, "%s.spool", o.file) > 0) {
		if (!spool_control_open(&c, first, false)) {
			r->recorder = spool_recorder_of(c.header, &r->recorder_pid);
			spool_control_close(&c);
		}
		free(first);
	}
	ongoing_end(&o);
}

/* The recorder lives, and the process writes a spool for it. */
static bool still_recorded(pid_t pid, const struct found *before)
{
	static struct found now;

	return !kill(before->recorder_pid, 0) && find(pid, &now) &&
	       now.spool.gone == before->spool.gone &&
	       atomic_load(&now.spool.header.state) == SPOOL_RUNNING &&
	       atomic_load(&now.spool.header.control_enabled);
}

/* The recorder takes the signal for the end of its recording. False: it does not let go of it. */
static bool ask_recorder(pid_t pid, const struct found *r, int64_t timeout_ns)
{
	int64_t end = now_ns() + timeout_ns;

	if (kill(r->recorder_pid, SIGTERM))
		return false;
	while (still_recorded(pid, r)) {
		if (now_ns() > end)
			return false;
		nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
	}
	return true;
}

/* The recorder was not asked, or did not answer. */
static int say_kept(const struct found *r)
{
	const char *why = r->recorder == SPOOL_RECORDER_NONE ? "the recorder was gone"
							     : "the recorder did not answer";

	if (r->spool.gone)
		cli_error("%s, and so is the recording's spool '%s'", why, r->spool.path);
	else
		cli_error("%s; the recording stays in '%s'; 'mayfly report' reads it", why,
			  r->spool.path);
	return CLI_OK;
}

/* Switches recording off through the control words in the spool's header. Returns 0 or an errno. */
static int switch_off(const struct found *r)
{
	struct spool_control c;
	int error = r->spool.gone ? ENOENT : spool_control_open(&c, r->spool.path, true);

	if (error)
		return error;
	spool_control_enable(&c, false);
	spool_control_close(&c);
	return 0;
}

/* The agent was loaded with the program that an exec began, and stays in its way. */
static int only_switch_off(const struct found *r)
{
	int error = switch_off(r);

	return error ? cli_error("cannot switch off '%s': %s", r->spool.path, strerror(error))
		     : say_kept(r);
}

/* r: NULL: nothing is recorded, but what an earlier recording has put in the program's way may still be
 * there. */
static int detach_directly(pid_t pid, const struct found *r, int64_t timeout_ns)
{
	char *library = record_find_agent(ATTACH_LIBRARY);
	struct attach_result result;
	bool good;

	if (!library)
		return cli_error(ATTACH_LIBRARY
				 " is neither beside mayfly nor where it was installed");
	good = attach_unload(pid, library, timeout_ns, &result);
	free(library);
	if (good && r)
		return say_kept(r);
	if (good)
		cli_error("the recording of process %ld had ended before", (long)pid);
	else if (r && !switch_off(r))
		cli_error("recording is switched off in process %ld; its calls still pass through "
			  "the agent: %s",
			  (long)pid, result.why);
	else
		return cli_error("cannot detach from process %ld: %s", (long)pid, result.why);
	return CLI_OK;
}

static int detach(const struct detach_command *d, pid_t pid)
{
	static struct found r;
	uint32_t attached;

	if (!find(pid, &r))
		return detach_directly(pid, NULL, d->timeout_ns);
	/* As the header's field: 0 not, 1 the program itself, 2 one that it became by exec. */
	attached = atomic_load(&r.spool.header.attached);
	if (!attached)
		return cli_error("process %ld was started under 'mayfly record'; 'mayfly ctl %ld "
				 "off' ends what is recorded",
				 (long)pid, (long)pid);
	find_first_recorder(&r);
	if (r.recorder == SPOOL_RECORDER_LIVES &&
	    atomic_load(&r.spool.header.state) == SPOOL_RUNNING &&
	    ask_recorder(pid, &r, d->timeout_ns))
		return CLI_OK;
	return attached == 1 ? detach_directly(pid, &r, d->timeout_ns) : only_switch_off(&r);
}

int cmd_detach(int argc, char **argv)
{
	struct detach_command d = {.timeout_ns = ATTACH_TIMEOUT_NS};
	int status = options_take(&detach_option_table, &d, argc, argv);
	pid_t pid;

	if (status != OPTIONS_TAKEN)
		return status;
	if (optind + 1 != argc)
		return cli_usage("name a process, by its number");
	return process_number_take(argv[optind], &pid) ? detach(&d, pid) : CLI_USAGE;
}
