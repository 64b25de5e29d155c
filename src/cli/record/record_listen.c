/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record --listen: serves the memory of the program, and of those of its children that are followed, while it
 * runs. Threads of the recorder's do it from what the recorder has written, as of mayfly view; the program is started
 * before them and takes no part.
 */
#include "cli/record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer/trace_names.h"
#include "base/system/process_file.h"
#include "cli/cli.h"
#include "fleet/pull/pull.h"
#include "record/process_watch.h"

/* Its state belongs to the threads of the server, which ask one at a time where it matters. */
static struct listening {
	char *spool, *file;
	const char *service; /* NULL: each program's name */
	struct live_session *session;
	struct pull *pull;
} listening;

static bool add(struct pull_list *list, const struct listening *l, const char *spool,
		const struct spool_glance *glance)
{
	struct spool_entry entry = {.path = (char *)(uintptr_t)spool, .glance = *glance};
	char program[4096], path[64];
	struct pull_process p = {.service = (char *)(uintptr_t)l->service, .program = program};
	struct stat status;
	ssize_t length;

	entry.pid = glance->pid;
	p.pid = process_of_spool(&entry);
	if (!p.pid || stat(spool, &status))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)p.pid);
	length = readlink(path, program, sizeof(program) - 1);
	program[length < 0 ? 0 : length] = 0;
	p.service = p.service ? p.service : (char *)(uintptr_t)path_base(program);
	p.spool = (char *)(uintptr_t)spool;
	p.inode = status.st_ino;
	p.owner = status.st_uid;
	return pull_list_add(list, &p);
}

static bool list_processes(void *context, struct pull_list *list)
{
	const struct listening *l = context;
	struct spool_list spools = {0};
	struct spool_glance glance;
	bool good = !spool_glance(l->spool, &glance) || add(list, l, l->spool, &glance);

	good = good && spool_list_read(&spools, l->file);
	for (size_t i = 0; good && i < spools.count; i++)
		good = add(list, l, spools.entry[i].path, &spools.entry[i].glance);
	spool_list_free(&spools);
	return good;
}

static int open_process(void *context, const struct pull_process *p, bool names,
			struct live_trace *trace)
{
	const struct listening *l = context;

	return names ? live_trace_open(l->session, p->spool, LIVE_WAIT_ALL, trace)
		     : live_trace_open_unnamed(p->spool, LIVE_WAIT_ALL, trace);
}

/* It is there as long as the recorder is, and from the program's start on. */
static const char *health(void *context, bool ready)
{
	(void)context;
	(void)ready;
	return NULL;
}

void record_listen_start(const struct record_command *c)
{
	const char *variable = getenv("MAYFLY_SERVICE");
	const struct pull_source source = {
	    .list = list_processes, .open = open_process, .health = health, .context = &listening};

	if (!c->listen)
		return;
	listening.spool = strdup(c->record.spool);
	listening.file = strdup(c->record.file);
	listening.service = c->push.service	    ? c->push.service
			    : variable && *variable ? variable
						    : NULL;
	listening.session = live_session_new();
	if (!listening.session || !listening.spool || !listening.file)
		cli_error("out of memory");
	else if (pull_start(c->listen, NULL, &source, &listening.pull))
		cli_error("profiles and metrics are at %s", pull_address(listening.pull));
}

void record_listen_finish(void)
{
	/* What still makes an answer goes on beside the end of the recording, and reads its own copies. */
	if (!pull_stop(listening.pull))
		return;
	live_session_free(listening.session);
	free(listening.spool);
	free(listening.file);
}
