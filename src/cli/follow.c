/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following a recording: see follow.h.
 *
 *	FILE.spool		the program as it was started
 *	FILE.PID.K.spool	the same process after its exec number K + 1
 *	FILE			the trace, once the recorder is done; then the spools go
 */
#include "cli/follow.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/message.h"
#include "record/live_trace.h"
#include "record/session.h"
#include "record/process_watch.h"
#include "record/spool_watch.h"
#include "stream/clock.h"

#define SPOOL_ENDING ".spool"
#define LOOK_MS	     1000
#define COST_SHARE   10 /* opening may take one part in this of a CPU */
#define MOST_LOST    10 /* looks at a recording whose files are gone */

struct follow {
	struct viewing *viewing;
	char *file;  /* the trace to come: the spool's name without its ending */
	char *spool; /* of the latest image */
	pid_t pid;
	bool ours; /* the recorder is this process */
	struct live_session *session;
	pthread_t thread;
	unsigned int lost;
	uint64_t samples, frees, tracks; /* of what is shown */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	bool stopping, opening, ended;
	bool last;   /* the recorder has ended */
	bool showed; /* something */
};

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
			 "it belongs to user %s; run 'mayfly view' as that user or as root",
			 owner->pw_name);
	else
		snprintf(text, sizeof(text),
			 "it belongs to user %u; run 'mayfly view' as that user or as root",
			 (unsigned int)status.st_uid);
	return text;
}

/* The first spool that a process has mapped: its own. */
static char *spool_of_process(long pid, const char **why)
{
	char name[64], line[PATH_MAX + 128], *found = NULL;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%ld/maps", pid);
	maps = fopen(name, "re");
	if (!maps) {
		*why = errno == EACCES || errno == EPERM ? closed_process(pid)
		       : errno == ENOENT		 ? "there is no such process"
							 : strerror(errno);
		return NULL;
	}
	errno = 0;
	while (!found && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/');

		line[strcspn(line, "\n")] = 0;
		if (path && is_spool_name(path) && goes_on(path))
			found = strdup(path);
	}
	*why = found				   ? NULL
	       : errno == EACCES || errno == EPERM ? closed_process(pid)
	       : errno				   ? strerror(errno)
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
	return *named && !*end && pid > 0 ? spool_of_process(pid, why) : NULL;
}

char *follow_find(const char *named, bool *still, const char **why)
{
	char *spool;

	*why = NULL;
	spool = find_spool(named, why);
	*still = spool && goes_on(spool);
	return spool;
}

/* ---- a look ---- */

/* After an exec the program has a new spool. */
static void take_latest_image(struct follow *f)
{
	struct spool_list list;

	if (!spool_list_read(&list, f->file))
		return;
	for (size_t i = list.count; i--;) {
		const struct spool_entry *e = &list.entry[i];
		char *path;

		if (e->pid != f->pid || e->glance.state == SPOOL_WAITING)
			continue;
		path = strdup(e->path);
		if (path) {
			free(f->spool);
			f->spool = path;
		}
		break;
	}
	spool_list_free(&list);
}

static bool is_new(struct follow *f, const struct mayfly_info *info)
{
	bool same = f->showed && f->samples == info->samples && f->frees == info->frees &&
		    f->tracks == info->track_events;

	f->samples = info->samples;
	f->frees = info->frees;
	f->tracks = info->track_events;
	return !same;
}

static void show(struct follow *f, const char *path, struct opened_trace *opened, bool live)
{
	if (!viewing_show(f->viewing, path, opened, live))
		return;
	pthread_mutex_lock(&f->lock);
	f->showed = true;
	pthread_mutex_unlock(&f->lock);
}

/* 0 or an error of live_trace_open(). */
static int show_so_far(struct follow *f)
{
	struct opened_trace opened = {0};
	struct live_trace live;
	int error = live_trace_open(f->session, f->spool, &live);

	if (error)
		return error;
	opened.trace = live.trace;
	opened.info = mayfly_trace_info(live.trace);
	opened.file =
	    (struct loaded_file){.data = live.data, .size = live.size, .mapped = live.mapped};
	if (is_new(f, opened.info))
		show(f, f->spool, &opened, true);
	else
		close_trace(&opened);
	return 0;
}

/* The trace, if it is there. */
static bool show_trace(struct follow *f)
{
	struct opened_trace opened;

	if (access(f->file, F_OK) != 0 || !open_trace(f->file, &opened))
		return false;
	show(f, f->file, &opened, false);
	return true;
}

/* Somebody still writes the recording, or a trace of it. */
static bool is_alive(const struct follow *f)
{
	return f->ours || goes_on(f->spool) || spool_anybody(f->file);
}

/* False: there is no more to come. */
static bool look(struct follow *f, bool last)
{
	bool alive, there;

	take_latest_image(f);
	/* In this order: what comes between is seen by the next look. */
	alive = !last && is_alive(f);
	there = access(f->spool, F_OK) == 0;
	if (!there && show_trace(f))
		return false;
	if (there && !show_so_far(f))
		f->lost = 0;
	else if (!there)
		f->lost++;
	return alive || (!last && !there && f->lost < MOST_LOST);
}

static void *follow(void *context)
{
	struct follow *f = context;
	bool more = true;

	pthread_mutex_lock(&f->lock);
	while (more && !f->stopping) {
		bool last = f->last;
		int64_t from, took, wait = LOOK_MS * 1000000ll;
		struct timespec until;

		f->opening = true;
		pthread_mutex_unlock(&f->lock);
		from = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		more = look(f, last);
		took = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - from) * (COST_SHARE - 1);
		pthread_mutex_lock(&f->lock);
		f->opening = false;
		if (took > wait)
			wait = took;
		wait += now_ns();
		until = (struct timespec){wait / 1000000000, wait % 1000000000};
		while (more && !f->stopping && f->last == last &&
		       pthread_cond_timedwait(&f->changed, &f->lock, &until) != ETIMEDOUT)
			;
	}
	f->ended = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	server_settle(f->viewing->server);
	return NULL;
}

/* ---- start and end ---- */

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

static struct follow *follow_new(struct viewing *v, const char *spool, bool ours)
{
	struct follow *f = calloc(1, sizeof(*f));
	struct spool_glance g = {0};
	pthread_condattr_t monotonic;

	if (!f)
		return NULL;
	spool_glance(spool, &g);
	f->viewing = v;
	f->ours = ours;
	f->pid = g.pid;
	f->spool = strdup(spool);
	f->file = file_of(spool, g.pid);
	f->session = live_session_new();
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&f->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (f->spool && f->file && f->session)
		return f;
	follow_free(f);
	return NULL;
}

bool follow_start(struct viewing *v, const char *spool, bool ours, struct follow **out)
{
	struct follow *f = follow_new(v, spool, ours);
	sigset_t all, before;
	int error = f ? 0 : ENOMEM;

	*out = NULL;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	if (f)
		error = pthread_create(&f->thread, NULL, follow, f);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error) {
		follow_free(f);
		return cli_fail("cannot follow '%s': %s", spool, strerror(error));
	}
	*out = f;
	return true;
}

bool follow_last(struct follow *f)
{
	bool showed;

	pthread_mutex_lock(&f->lock);
	f->last = true;
	pthread_cond_broadcast(&f->changed);
	while (!f->ended)
		pthread_cond_wait(&f->changed, &f->lock);
	showed = f->showed;
	pthread_mutex_unlock(&f->lock);
	return showed;
}

void follow_stop(struct follow *f, int status)
{
	bool opening;

	pthread_mutex_lock(&f->lock);
	f->stopping = true;
	opening = f->opening;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	if (opening) {
		fflush(NULL);
		_exit(status);
	}
	pthread_join(f->thread, NULL);
}

void follow_free(struct follow *f)
{
	if (!f)
		return;
	live_session_free(f->session);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f->spool);
	free(f->file);
	free(f);
}
