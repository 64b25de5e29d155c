/* SPDX-License-Identifier: Apache-2.0 */
/* Following a recording, in a thread of its own: see follow.h. */
#include "cli/view/follow.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "terminal/message.h"
#include "cli/input/ongoing.h"
#include "base/system/clock.h"

#define LOOK_MS	   1000
#define COST_SHARE 10 /* opening may take one part in this of a CPU */

struct follow {
	struct viewing *viewing;
	struct ongoing ongoing;
	pthread_t thread;
	uint64_t samples, frees, tracks; /* of what is shown */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	bool stopping, opening, ended;
	bool last;   /* the recorder has ended */
	bool showed; /* something */
};

/* ---- a look ---- */

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

/* False: there is no more to come. */
static bool look(struct follow *f, bool last)
{
	struct opened_trace opened;
	enum ongoing_seen seen;
	bool more = ongoing_look(&f->ongoing, last, &opened, &seen);

	switch (seen) {
	case ONGOING_UNSEEN:
		break;
	case ONGOING_SO_FAR:
		if (is_new(f, opened.info))
			show(f, f->ongoing.spool, &opened, true);
		else
			close_trace(&opened);
		break;
	case ONGOING_DONE:
		show(f, f->ongoing.file, &opened, false);
		break;
	}
	return more;
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

static struct follow *follow_new(struct viewing *v, const char *spool, bool ours)
{
	struct follow *f = calloc(1, sizeof(*f));
	pthread_condattr_t monotonic;

	if (!f)
		return NULL;
	f->viewing = v;
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&f->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (ongoing_begin(&f->ongoing, spool, ours))
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
	guard_mapped_files();
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
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
	ongoing_end(&f->ongoing);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f);
}
