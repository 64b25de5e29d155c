/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The children of a process, and the process itself, would sample the same units of what they
 * allocate: the errors of their sums would not be independent. So a child draws anew. This needs a
 * list of the profiles, as the host makes no call for a fork.
 */
#include "memprof/forks.h"

#include "memprof/samples.h"
#include "memprof/tracked.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct profile *profiles;
static bool locked; /* for the fork. Another thread may be in forks_add(): nobody waits for it */
static uint64_t number; /* of forks of this process and of those that it was forked from */

static void before(void)
{
	locked = !pthread_mutex_trylock(&lock);
	if (locked)
		number++;
}

static void in_parent(void)
{
	if (locked)
		pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	if (!locked) {
		pthread_mutex_init(&lock, NULL);
		return;
	}
	for (struct profile *p = profiles; p; p = p->next) {
		if (pthread_mutex_trylock(&p->lock))
			continue; /* of a thread that is not here: this profile must not be used */
		for (struct thread *t = p->threads; t; t = t->next)
			samples_draw_anew(t, number);
		pthread_mutex_unlock(&p->lock);
	}
	pthread_mutex_unlock(&lock);
}

static void watch(void)
{
	pthread_atfork(before, in_parent, in_child);
}

void forks_add(struct profile *p)
{
	static pthread_once_t watched = PTHREAD_ONCE_INIT;

	pthread_once(&watched, watch);
	pthread_mutex_lock(&lock);
	p->next = profiles;
	profiles = p;
	pthread_mutex_unlock(&lock);
}

void forks_remove(struct profile *p)
{
	struct profile **at = &profiles;

	pthread_mutex_lock(&lock);
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	pthread_mutex_unlock(&lock);
}
