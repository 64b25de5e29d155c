/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record: runs a program with the agent in it and makes a trace of what the agent recorded.
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
#include "cli/record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

/* Runs in the child. Its process id is part of the default name, so the names are made again here.
 */
static void set_environment(void *context)
{
	struct record *r = context;
	char *settings = NULL;

	r->child.pid = getpid();
	if (r->program.breaks)
		return;
	if (record_choose_names(r)) {
		r->runtime_events_off = !record_set_events(r);
		settings = record_agent_settings(r);
	}
	if (!settings || setenv("LD_PRELOAD", r->preload, 1) || setenv("MAYFLY", settings, 1))
		cli_error("out of memory; the program runs without the agent");
	free(settings);
}

static void look_last(void *context)
{
	struct record *r = context;

	for (size_t i = 0; i < r->recorders; i++)
		if (r->recorder[i]->pid == r->child.pid && record_is_last_image(r, r->recorder[i]))
			recorder_last(r->recorder[i]);
}

static void watch_program(struct record_command *command)
{
	bool progress = record_wants_progress(command);
	struct record *r = &command->record;
	struct child *c = &r->child;
	int wait = 1;

	c->ending = look_last;
	c->context = r;
	while (!c->ended) {
		record_wait_for_signal(r, wait);
		child_signals(c);
		if (c->ended)
			break;
		if (c->stop_signal) {
			record_clear_progress(command);
			child_stop_too(c);
			continue;
		}
		wait = (int)record_serve(r);
		record_push_now_and_then(&command->push, r->spool, now_ns() - r->start_ns);
		if (progress)
			record_show_progress(command);
	}
	record_clear_progress(command);
}

static bool is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int say_not_started(const struct record *r, int error)
{
	const char *command = r->argv[0], *interpreter = r->program.interpreter;

	if (error == EACCES && is_folder(command)) {
		cli_error("cannot run '%s': it is a folder", command);
		return RECORD_NOT_EXECUTABLE;
	}
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

static void say_not_recordable(const struct record *r)
{
	const char *interpreter = r->program.interpreter;

	cli_error("%s%s%s is run but not recorded: %s", r->argv[0],
		  *interpreter ? ", a script for " : "", interpreter, r->program.why);
}

/* Limits on memory are for the program, which has them already. If its recorder cannot have more, it has what
 * it may have. */
static void raise_memory_limits(void)
{
	static const __rlimit_resource_t kinds[] = {RLIMIT_DATA, RLIMIT_AS};
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit limit;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (getrlimit(kinds[i], &limit) || !setrlimit(kinds[i], &none))
			continue;
		limit.rlim_cur = limit.rlim_max;
		setrlimit(kinds[i], &limit);
	}
}

/* -1: the program runs. Otherwise the exit status. */
static int start_program(struct record *r)
{
	int error;

	handover_open(&r->handover);
	error = child_fork(&r->child, r->argv, set_environment, r);
	if (error)
		return cli_error("cannot start a process: %s", strerror(error)), RECORD_FAILED;
	raise_memory_limits();
	if (!(record_choose_names(r) || record_no_memory(r)) || !record_make_spool(r)) {
		child_cancel(&r->child);
		return RECORD_FAILED;
	}
	if (!r->program.ordinary)
		say_not_recordable(r);
	record_start_handover(r);
	r->start_ns = now_ns();
	error = child_run(&r->child);
	if (!error) {
		if (r->stream.sender)
			stream_sender_start(r->stream.sender);
		return -1;
	}
	record_drop_spool(r);
	return say_not_started(r, error);
}

bool record_occupy_descriptors(void)
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

void record_say_line(void *context, const char *text)
{
	record_clear_progress(context);
	cli_error("%s", text);
}

static int record(struct record_command *c)
{
	struct record *r = &c->record;
	int status = RECORD_FAILED;
	bool good;

	if (!record_occupy_descriptors())
		return cli_error("/dev/null: %s", strerror(errno)), RECORD_FAILED;
	r->folder = getcwd(NULL, 0);
	if (!r->folder)
		return cli_error("the current folder: %s", strerror(errno)), RECORD_FAILED;
	program_inspect(&r->program, r->argv[0]);
	when_begin(&c->when, r);
	if (record_choose_preload(r) && record_take_settings(c))
		status = start_program(r);
	if (status >= 0)
		return status;
	record_view_start(c);
	record_listen_start(c);
	watch_program(c);
	record_listen_finish();
	good = record_end(c);
	record_push_finish(&c->push, good && !access(r->file, F_OK) ? r->file : NULL);
	status = good ? child_exit_status(&r->child) : RECORD_FAILED;
	record_view_finish(c, status);
	return status;
}

int cmd_record(int argc, char **argv)
{
	struct record_command c = {
	    .record = {.say = record_say_line,
		       .say_context = &c,
		       .download_progress = record_show_download},
	    .download = DOWNLOAD_DEFAULTS,
	};
	int status = record_take_options(&c, argc, argv);

	if (status >= 0)
		return status;
	c.record.no_debuginfod = !c.download.limit_ns;
	c.record.debuginfod_ns = c.download.limit_ns;
	status = record(&c);
	when_free(&c.when);
	record_free(&c.record);
	return status;
}
