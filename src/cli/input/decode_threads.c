/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_threads.c: a queue of tasks and some threads that take them from it, oldest first.
 *
 * A caller that waits for a task which no thread has begun runs it itself, so it never waits for
 * threads that are busy with something else, or could not be started.
 */
#include "cli/input/decode_threads.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#define MOST_THREADS 3
#define SMALL_EVENTS 1000000 /* decoded in less than 50 ms */

enum state { WAITING, RUNNING, DONE };

struct task {
	void (*run)(void *argument);
	void *argument;
	enum state state;
	struct task *next; /* in the queue */
};

struct decode_threads {
	pthread_mutex_t lock;
	pthread_cond_t work, done; /* there is something in the queue, or the end; a task is done */
	struct task *first, *last; /* the queue */
	pthread_t thread[MOST_THREADS];
	size_t threads, most;
	bool ending;
};

static struct task *take_first(struct decode_threads *h)
{
	struct task *t = h->first;

	assert(t && t->state == WAITING);
	h->first = t->next;
	if (!h->first)
		h->last = NULL;
	t->state = RUNNING;
	return t;
}

static void *work(void *context)
{
	struct decode_threads *h = context;

	pthread_mutex_lock(&h->lock);
	for (;;) {
		struct task *t;

		while (!h->first && !h->ending)
			pthread_cond_wait(&h->work, &h->lock);
		if (!h->first)
			break;
		t = take_first(h);
		pthread_mutex_unlock(&h->lock);
		t->run(t->argument);
		pthread_mutex_lock(&h->lock);
		t->state = DONE;
		pthread_cond_broadcast(&h->done);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

/* One more, as long as there can be; with the lock held, as several threads may read the trace.
 * Signals are for the thread that was there before, but for SIGBUS, which a thread's own access to a
 * mapped file raises. */
static void add_thread(struct decode_threads *h)
{
	sigset_t all, before;

	if (h->threads == h->most)
		return;
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&h->thread[h->threads], NULL, work, h) == 0)
		h->threads++;
	else
		h->most = h->threads;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void *decode_start(void *context, void (*run)(void *argument), void *argument)
{
	struct decode_threads *h = context;
	struct task *t = malloc(sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct task){.run = run, .argument = argument};
	pthread_mutex_lock(&h->lock);
	add_thread(h);
	if (h->last)
		h->last->next = t;
	else
		h->first = t;
	h->last = t;
	pthread_cond_signal(&h->work);
	pthread_mutex_unlock(&h->lock);
	return t;
}

static void take_out(struct decode_threads *h, struct task *task)
{
	struct task *before = NULL;

	for (struct task *t = h->first; t != task; t = t->next) {
		assert(t);
		before = t;
	}
	if (before)
		before->next = task->next;
	else
		h->first = task->next;
	if (h->last == task)
		h->last = before;
}

static void decode_finish(void *context, void *task, bool needed)
{
	struct decode_threads *h = context;
	struct task *t = task;
	bool here;

	pthread_mutex_lock(&h->lock);
	here = t->state == WAITING;
	if (here)
		take_out(h, t);
	while (!here && t->state != DONE)
		pthread_cond_wait(&h->done, &h->lock);
	pthread_mutex_unlock(&h->lock);
	if (here && needed)
		t->run(t->argument);
	free(t);
}

static size_t other_processors(void)
{
	cpu_set_t set;
	int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	return count > 1 ? (size_t)count - 1 : 0;
}

struct decode_threads *decode_threads_lend(struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_helper helper = {.start = decode_start, .finish = decode_finish};
	size_t others = other_processors();
	struct decode_threads *h;

	if (!others || info->snapshot_ns || info->samples + info->frees < SMALL_EVENTS)
		return NULL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->work, NULL);
	pthread_cond_init(&h->done, NULL);
	h->most = others < MOST_THREADS ? others : MOST_THREADS;
	helper.context = h;
	helper.tasks = h->most + 1;
	mayfly_trace_help(trace, &helper);
	return h;
}

void decode_threads_free(struct decode_threads *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	assert(!h->first); /* the trace is closed */
	h->ending = true;
	pthread_cond_broadcast(&h->work);
	pthread_mutex_unlock(&h->lock);
	for (size_t i = 0; i < h->threads; i++)
		pthread_join(h->thread[i], NULL);
	pthread_cond_destroy(&h->work);
	pthread_cond_destroy(&h->done);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
