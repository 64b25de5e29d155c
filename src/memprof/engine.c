/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles and their threads: made, started, stopped and freed. doc/INTERNALS.md, "The engine for
 * runtimes", has the reasons.
 */
#include <stdlib.h>
#include <string.h>

#include "memprof/codes.h"
#include "memprof/forks.h"
#include "memprof/tracked.h"

#define FRAMES_MOST 1024u

struct mayfly_memprof *mayfly_memprof_create(const struct mayfly_memprof_host *host)
{
	struct profile *p;

	if (host->unit_bytes == 0 || host->unit_bytes > 64 ||
	    host->unit_bytes & (host->unit_bytes - 1) || host->downwards > 1)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->codes = codes_new();
	if (!p->codes) {
		free(p);
		return NULL;
	}
	p->host = *host;
	p->open.maybe = p->maybe;
	tracked_queue_init(&p->orphans);
	pthread_mutex_init(&p->lock, NULL);
	forks_add(p);
	return &p->open;
}

int mayfly_memprof_set_name(struct mayfly_memprof *profile, const char *name)
{
	struct profile *p = (struct profile *)profile;
	size_t length = strlen(name);

	if (length == 0 || length >= sizeof(p->name))
		return MAYFLY_MEMPROF_INVALID;
	memcpy(p->name, name, length + 1);
	return 0;
}

void mayfly_memprof_destroy(struct mayfly_memprof *profile)
{
	struct profile *p = (struct profile *)profile;

	if (!p)
		return;
	forks_remove(p);
	mayfly_memprof_discard(profile);
	tracked_use_session(&p->session, NULL);
	codes_free(p->codes);
	pthread_mutex_destroy(&p->lock);
	free(p->table);
	free(p);
}

int mayfly_memprof_start(struct mayfly_memprof *profile,
			 const struct mayfly_memprof_options *options,
			 const struct mayfly_memprof_tracker *tracker)
{
	struct profile *p = (struct profile *)profile;
	struct session *session;
	bool busy;

	if (!(options->rate > 0 && options->rate <= 1) || options->frames > FRAMES_MOST)
		return MAYFLY_MEMPROF_INVALID;
	session = calloc(1, sizeof(*session));
	if (!session)
		return MAYFLY_MEMPROF_NO_MEMORY;
	session->options = *options;
	session->tracker = *tracker;
	tracked_lock(p);
	busy = atomic_load(&p->epoch) & 1;
	if (!busy) {
		tracked_use_session(&p->session, session);
		atomic_fetch_add(&p->epoch, 1);
	}
	tracked_unlock(p);
	if (busy)
		free(session);
	return busy ? MAYFLY_MEMPROF_BUSY : 0;
}

void mayfly_memprof_stop(struct mayfly_memprof *profile)
{
	struct profile *p = (struct profile *)profile;

	tracked_lock(p);
	if (atomic_load(&p->epoch) & 1) {
		atomic_fetch_add(&p->epoch, 1);
		tracked_use_session(&p->session, NULL);
	}
	tracked_unlock(p);
}

struct mayfly_memprof_thread *mayfly_memprof_attach(struct mayfly_memprof *profile)
{
	struct profile *p = (struct profile *)profile;
	struct thread *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->profile = p;
	t->open.left = 1; /* the first allocation looks whether there is sampling */
	tracked_queue_init(&t->queue);
	tracked_lock(p);
	t->number = p->attached++;
	t->next = p->threads;
	p->threads = t;
	tracked_unlock(p);
	return &t->open;
}

static void unlink_thread(struct profile *p, const struct thread *t)
{
	struct thread **at = &p->threads;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
}

int mayfly_memprof_detach(struct mayfly_memprof_thread *thread, struct mayfly_memprof_thread *heir)
{
	struct thread *t = (struct thread *)thread, *h = (struct thread *)heir;
	struct profile *p = t->profile;

	if (t->running || t->suspended)
		return MAYFLY_MEMPROF_BUSY;
	if (h && (h == t || h->profile != p))
		return MAYFLY_MEMPROF_INVALID;
	tracked_lock(p);
	while (t->young_count) {
		struct tracked *b = t->young[t->young_count - 1];

		tracked_leave_young(b);
		if (h)
			tracked_become_young(h, b);
	}
	tracked_pass_queue(t, h);
	tracked_use_session(&t->session, NULL);
	unlink_thread(p, t);
	tracked_unlock(p);
	free(t->young);
	free(t->frames);
	free(t);
	return 0;
}

const struct mayfly_memprof_place *mayfly_memprof_places(struct mayfly_memprof *profile,
							 uint64_t code, uint32_t *count)
{
	struct profile *p = (struct profile *)profile;

	return codes_places(p->codes, &p->host, code, count);
}

void mayfly_memprof_forget_code(struct mayfly_memprof *profile, uint64_t code)
{
	codes_forget(((struct profile *)profile)->codes, code);
}

void mayfly_memprof_get_counts(struct mayfly_memprof *profile, struct mayfly_memprof_counts *counts)
{
	struct profile *p = (struct profile *)profile;

	tracked_lock(p);
	counts->tracked = p->tracked;
	counts->dropped = atomic_load(&p->dropped);
	tracked_unlock(p);
	counts->decoded = codes_decoded(p->codes);
}

void mayfly_memprof_each(struct mayfly_memprof *profile,
			 void (*each)(void *context, const struct mayfly_memprof_block *block),
			 void *context)
{
	struct profile *p = (struct profile *)profile;

	tracked_lock(p);
	for (size_t i = 0; i < p->buckets; i++) {
		for (const struct tracked *b = p->table[i]; b; b = b->chain) {
			struct mayfly_memprof_block shown = b->shown;

			shown.block = b->now;
			shown.size = b->size_now;
			each(context, &shown);
		}
	}
	tracked_unlock(p);
}
