/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handed_over COUNT: one thread allocates COUNT blocks, and another frees each as soon as it can,
 * through slots and through a list under a lock. So the records about a block are as close together
 * as a program can make them. Sizes differ, so that an address comes back some time later.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define SLOTS	  4
#define LIST_MOST 64
#define SPINS	  1000 /* before the CPU is left to the other thread */

static void *_Atomic slots[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *list[LIST_MOST];
static _Atomic int listed;
static _Atomic bool over;

static void *make_block(long i)
{
	return malloc(40 + (size_t)(i % 32) * 16);
}

/* False: there was nothing. */
static bool take_all(void)
{
	bool found = false;
	void *block;

	for (int i = 0; i < SLOTS; i++) {
		block = atomic_exchange(&slots[i], NULL);
		found |= block != NULL;
		free(block);
	}
	if (!listed)
		return found;
	pthread_mutex_lock(&lock);
	block = list[--listed];
	pthread_mutex_unlock(&lock);
	free(block);
	return true;
}

static void *consume(void *unused)
{
	(void)unused;
	for (unsigned i = 0; !atomic_load(&over); i++)
		if (!take_all() && i % SPINS == 0)
			sched_yield();
	while (take_all())
		;
	return NULL;
}

static void hand_over(long i)
{
	void *block;
	bool put = false;

	if (i % 3 == 0) {
		pthread_mutex_lock(&lock);
		if (listed < LIST_MOST) {
			list[listed++] = make_block(i);
			put = true;
		}
		pthread_mutex_unlock(&lock);
	}
	block = put ? NULL : make_block(i);
	for (unsigned k = 1; block; k++) {
		void *nothing = NULL;

		if (atomic_compare_exchange_strong(&slots[i % SLOTS], &nothing, block))
			block = NULL;
		else if (k % SPINS == 0)
			sched_yield();
	}
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 0;
	pthread_t consumer;

	if (pthread_create(&consumer, NULL, consume, NULL))
		return 1;
	for (long i = 0; i < count; i++)
		hand_over(i);
	atomic_store(&over, true);
	return pthread_join(consumer, NULL) != 0;
}
