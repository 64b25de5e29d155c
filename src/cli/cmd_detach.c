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
#include "cli/ongoing.h"
#include "cli/option_table.h"
#include "cli/process_number.h"
#include "record/session.h"
#include "record/spool_control.h"

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

/* The recorder, which has the spool open for its process; 0: it is gone. */
static pid_t recorder_of(const char *spool)
{
	struct spool_control c;
	pid_t pid;

	if (spool_control_open(&c, spool, false))
		return 0;
	pid = (pid_t)atomic_load(&c.header->recorder_pid);
	spool_control_close(&c);
	return pid > 0 && !kill(pid, 0) ? pid : 0;
}

/* After an exec, the recorder may not have seen the newest spool yet. */
static pid_t recorder_of_all(const char *newest)
{
	pid_t recorder = recorder_of(newest);
	struct ongoing o;
	char *first;

	if (recorder || !ongoing_begin(&o, newest, false))
		return recorder;
	if (asprintf(&first, "%s.spool", o.file) > 0) {
		recorder = recorder_of(first);
		free(first);
	}
	ongoing_end(&o);
	return recorder;
}

/* As the header's field: 0 not, 1 the program itself, 2 one that it became by exec. */
static uint32_t attached_of(const char *spool)
{
	struct spool_control c;
	uint32_t attached;

	if (spool_control_open(&c, spool, false))
		return 0;
	attached = atomic_load(&c.header->attached);
	spool_control_close(&c);
	return attached;
}

static bool still_recorded(const char *named)
{
	const char *why;
	bool goes_on;
	char *spool = ongoing_find_unfinished(named, &goes_on, &why);

	free(spool);
	return spool && goes_on;
}

/* The recorder takes the signal for the end of its recording. */
static int ask_recorder(pid_t recorder, const char *named, int64_t timeout_ns)
{
	int64_t end = now_ns() + timeout_ns;

	if (kill(recorder, SIGTERM))
		return cli_error("process %ld, which records it: %s", (long)recorder,
				 strerror(errno));
	while (still_recorded(named)) {
		if (now_ns() > end)
			return cli_error("process %ld, which records it, does not let go of it",
					 (long)recorder);
		nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
	}
	return CLI_OK;
}

static int say_kept(const char *spool)
{
	cli_error("the recorder was gone; the recording stays in '%s'; 'mayfly report' reads it",
		  spool);
	return CLI_OK;
}

static int detach_directly(pid_t pid, const char *spool, int64_t timeout_ns)
{
	char *library = record_find_agent(ATTACH_LIBRARY);
	struct attach_result result;
	bool good;

	if (!library)
		return cli_error(ATTACH_LIBRARY
				 " is neither beside mayfly nor where it was installed");
	good = attach_unload(pid, library, timeout_ns, &result);
	free(library);
	return good ? say_kept(spool)
		    : cli_error("cannot detach from process %ld: %s", (long)pid, result.why);
}

/* The agent was loaded with the program that an exec began, and stays in its way. */
static int switch_off(const char *spool)
{
	struct spool_control c;
	int error = spool_control_open(&c, spool, true);

	if (error)
		return cli_error("cannot switch off '%s': %s", spool, strerror(error));
	spool_control_enable(&c, false);
	spool_control_close(&c);
	return say_kept(spool);
}

static int detach(const struct detach_command *d, const char *named, pid_t pid)
{
	const char *why;
	bool goes_on;
	char *spool = ongoing_find_unfinished(named, &goes_on, &why);
	uint32_t attached = spool ? attached_of(spool) : 0;
	pid_t recorder = attached ? recorder_of_all(spool) : 0;
	int status;

	if (!spool)
		return cli_error("process %ld: %s", (long)pid,
				 why ? why : "it is not being recorded");
	if (!attached)
		status =
		    cli_error("process %ld was started under 'mayfly record'; 'mayfly ctl %ld off' "
			      "ends what is recorded",
			      (long)pid, (long)pid);
	else if (recorder)
		status = ask_recorder(recorder, named, d->timeout_ns);
	else if (attached == 1)
		status = detach_directly(pid, spool, d->timeout_ns);
	else
		status = switch_off(spool);
	free(spool);
	return status;
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
	return process_number_take(argv[optind], &pid) ? detach(&d, argv[optind], pid) : CLI_USAGE;
}
