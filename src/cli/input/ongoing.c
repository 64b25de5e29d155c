/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording that goes on: see ongoing.h.
 *
 *	FILE.spool		the program as it was started
 *	FILE.PID.K.spool	the same process after its exec number K + 1
 *	FILE			the trace, once the recorder is done; then the spools go
 */
#include "cli/input/ongoing.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/live_trace.h"
#include "record/process_watch.h"

#define MOST_LOST 10 /* looks at a recording whose files are gone */

/* ---- which recording ---- */

static bool is_spool_name(const char *path)
{
	size_t length = strlen(path), ending = strlen(SPOOL_ENDING);

	return length > ending && strcmp(path + length - ending, SPOOL_ENDING) == 0;
}

static bool goes_on(const char *spool)
{
	struct spool_entry e = {.path = (char *)(uintptr_t)spool};

	if (!spool_glance(spool, &e.glance))
		return false;
	e.pid = e.glance.pid;
	return e.glance.state == SPOOL_WAITING || spool_in_use(&e);
}

/* Why the files of a process cannot be seen. */
static const char *closed_process(long pid)
{
	static char text[160];
	char name[32];
	struct stat status;
	struct passwd *owner;

	snprintf(name, sizeof(name), "/proc/%ld", pid);
	if (stat(name, &status) != 0)
		return "there is no such process";
	if (status.st_uid == geteuid())
		return "the kernel does not show its files; name its FILE.spool instead";
	owner = getpwuid(status.st_uid);
	if (owner)
		snprintf(text, sizeof(text),
			 "it belongs to user %s; run mayfly as that user or as root",
			 owner->pw_name);
	else
		snprintf(text, sizeof(text),
			 "it belongs to user %u; run mayfly as that user or as root",
			 (unsigned int)status.st_uid);
	return text;
}

char *ongoing_of_process(long pid, const char **why)
{
	char name[64], line[PATH_MAX + 128], *found = NULL;
	FILE *maps;
	int error;

	snprintf(name, sizeof(name), "/proc/%ld/maps", pid);
	maps = fopen(name, "re");
	if (!maps) {
		*why = errno == EACCES || errno == EPERM ? closed_process(pid)
		       : errno == ENOENT		 ? "there is no such process"
							 : strerror(errno);
		return NULL;
	}
	while (!found && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/');

		line[strcspn(line, "\n")] = 0;
		if (path && is_spool_name(path) && goes_on(path))
			found = strdup(path);
	}
	error = ferror(maps) ? errno : 0;
	*why = found				   ? NULL
	       : error == EACCES || error == EPERM ? closed_process(pid)
	       : error				   ? strerror(error)
		       : "it is not being recorded; start it with 'mayfly record'";
	fclose(maps);
	return found;
}

static char *find_spool(const char *named, const char **why)
{
	char *end, *spool;
	long pid;

	if (access(named, F_OK) == 0)
		return is_spool_name(named) ? strdup(named) : NULL;
	if (asprintf(&spool, "%s" SPOOL_ENDING, named) < 0)
		return NULL;
	if (access(spool, F_OK) == 0)
		return spool;
	free(spool);
	pid = strtol(named, &end, 10);
	return *named && !*end && pid > 0 ? ongoing_of_process(pid, why) : NULL;
}

/* FILE.PID.K.spool is of FILE when that is the process's number. */
static char *file_of(const char *spool, pid_t pid)
{
	char *file = strndup(spool, strlen(spool) - strlen(SPOOL_ENDING)), tail[32], *at, *dot;

	if (!file)
		return NULL;
	snprintf(tail, sizeof(tail), ".%ld", (long)pid);
	dot = strrchr(file, '.');
	if (!dot || !dot[1] || strspn(dot + 1, "0123456789") != strlen(dot + 1))
		return file;
	*dot = 0;
	at = strrchr(file, '.');
	if (at && strcmp(at, tail) == 0)
		*at = 0;
	else
		*dot = '.';
	return file;
}

/* After an exec the program has a new spool. */
static void take_latest_image(char **spool, const char *file, pid_t pid)
{
	struct spool_list list;

	if (!spool_list_read(&list, file))
		return;
	for (size_t i = list.count; i--;) {
		const struct spool_entry *e = &list.entry[i];
		char *path;

		if (e->pid != pid || e->glance.state == SPOOL_WAITING)
			continue;
		path = strdup(e->path);
		if (path) {
			free(*spool);
			*spool = path;
		}
		break;
	}
	spool_list_free(&list);
}

char *ongoing_find(const char *named, bool *still, const char **why)
{
	struct spool_glance first;
	char *spool, *file;

	*why = NULL;
	spool = find_spool(named, why);
	*still = spool && goes_on(spool);
	if (!spool || *still || !spool_glance(spool, &first))
		return spool;
	file = file_of(spool, first.pid);
	if (file)
		take_latest_image(&spool, file, first.pid);
	free(file);
	*still = goes_on(spool);
	return spool;
}

char *ongoing_find_unfinished(const char *named, bool *still, const char **why)
{
	char *found = ongoing_find(named, still, why), *spool;

	if (found || *why || asprintf(&spool, "%s" SPOOL_ENDING, named) < 0)
		return found;
	if (access(spool, F_OK) == 0)
		found = ongoing_find(spool, still, why);
	free(spool);
	return found;
}

/* ---- a look ---- */

/* 0 or an error of live_trace_open(). */
static int open_so_far(struct ongoing *r, struct opened_trace *opened)
{
	struct live_trace live;
	int error = live_trace_open(r->session, r->spool, LIVE_WAIT_BEGUN, &live);

	if (error)
		return error;
	r->unsettled = live.unsettled;
	*opened = (struct opened_trace){
	    .trace = live.trace,
	    .info = mayfly_trace_info(live.trace),
	    .file = {.data = live.data, .size = live.size, .mapped = live.mapped},
	};
	return 0;
}

/* Somebody still writes the recording, or a trace of it. */
static bool is_alive(const struct ongoing *r)
{
	return r->ours || goes_on(r->spool) || spool_anybody(r->file);
}

bool ongoing_look(struct ongoing *r, bool last, struct opened_trace *opened,
		  enum ongoing_seen *seen)
{
	bool alive, there;

	*seen = ONGOING_UNSEEN;
	take_latest_image(&r->spool, r->file, r->pid);
	/* In this order: what comes between is seen by the next look. */
	alive = !last && is_alive(r);
	there = access(r->spool, F_OK) == 0;
	if (!there && access(r->file, F_OK) == 0 && open_trace(r->file, opened)) {
		*seen = ONGOING_DONE;
		return false;
	}
	if (there && !open_so_far(r, opened)) {
		*seen = ONGOING_SO_FAR;
		r->lost = 0;
	} else if (!there) {
		r->lost++;
	}
	return alive || (!last && !there && r->lost < MOST_LOST);
}

/* ---- begin and end ---- */

bool ongoing_begin(struct ongoing *r, const char *spool, bool ours)
{
	struct spool_glance g = {0};

	spool_glance(spool, &g);
	*r = (struct ongoing){.pid = g.pid, .ours = ours};
	r->spool = strdup(spool);
	r->file = file_of(spool, g.pid);
	r->session = live_session_new();
	if (r->spool && r->file && r->session)
		return true;
	ongoing_end(r);
	return false;
}

void ongoing_end(struct ongoing *r)
{
	live_session_free(r->session);
	free(r->spool);
	free(r->file);
	*r = (struct ongoing){0};
}
