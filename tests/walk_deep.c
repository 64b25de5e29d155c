/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose stacks are thousands of frames deep and change as fast as they can: it leaves any
 * number of frames, by returns or longjmp, and makes as many again, at the same places with the same
 * return addresses, but for one of them far outside. Then it allocates. In between: signal handlers, here and on
 * a stack of their own, coroutines, longer pauses. Usage: walk_deep depth rounds [threads]
 *
 *	walk_deep recursion levels	allocates at each level, on the way in and out
 *	walk_deep leaf levels blocks	allocates only at the innermost level
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#define NOINLINE     __attribute__((noinline, noclone))
#define NOBODY	     UINT32_MAX
#define JUMPS	     64u /* levels between those that longjmp may go to */
#define BEFORE_CALL  __asm__ volatile("")
#define AFTER_CALL() __asm__ volatile("" : : : "memory")

enum way { FIRST_CALL, SECOND_CALL, TWIN, TAIL_CALL, WAYS };

struct dive {
	uint8_t *way; /* of each level: how it calls the next one */
	jmp_buf *jump;
	uint32_t depth, target, back_to;
	uint32_t rounds, seed;
	ucontext_t here, there;
	char *there_stack;
};

static _Thread_local struct dive *dive;
static _Thread_local volatile uint32_t sink;

static uint32_t below(uint32_t limit)
{
	dive->seed = dive->seed * 1664525u + 1013904223u;
	return (uint32_t)((uint64_t)dive->seed * limit >> 32);
}

static NOINLINE void allocate(size_t size)
{
	void *volatile block = malloc(size);

	free(block);
	AFTER_CALL();
}

static NOINLINE void call_a_few(uint32_t n)
{
	if (n)
		call_a_few(n - 1);
	else
		allocate(3);
	AFTER_CALL();
}

/* ---- what happens at the innermost level ---- */

static void on_signal(int number)
{
	call_a_few((uint32_t)number % 4);
}

static void coroutine(void)
{
	for (;;) {
		call_a_few(5);
		swapcontext(&dive->there, &dive->here);
	}
}

static NOINLINE void large_frame(void)
{
	volatile char room[60000];

	room[0] = 1;
	allocate(4);
	sink += (uint32_t)room[0];
}

static void pause_for(long nanoseconds)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < nanoseconds);
}

/* Where to go on: some levels further out, few or all; what these call there; and how deep from there. */
static void choose(uint32_t level)
{
	uint32_t up = below(level) >> below(14);

	dive->back_to = level - up;
	dive->way[dive->back_to] = (uint8_t)below(WAYS);
	dive->target = dive->back_to + 1 + (below(3) ? up : below(dive->depth - dive->back_to));
	if (dive->target >= dive->depth)
		dive->target = dive->depth - 1;
	if (--dive->rounds == 0)
		dive->back_to = dive->target = NOBODY;
}

static NOINLINE void work(uint32_t level)
{
	switch (below(24)) {
	case 0:
		raise(SIGUSR1);
		break;
	case 1:
		raise(SIGUSR2);
		break;
	case 2:
		swapcontext(&dive->here, &dive->there);
		break;
	case 3:
		large_frame();
		break;
	case 4:
		pause_for((long)below(20000));
		break;
	case 5:
		call_a_few(below(2000));
		break;
	}
	if (below(8))
		allocate(level % 100 + 1);
	choose(level);
	if (dive->back_to != NOBODY && below(4) == 0) {
		dive->back_to -= dive->back_to % JUMPS;
		longjmp(dive->jump[dive->back_to / JUMPS], 1);
	}
}

/* ---- the levels ---- */

static void down(uint32_t level);

static NOINLINE void twin(uint32_t level)
{
	BEFORE_CALL;
	down(level);
	AFTER_CALL();
}

static NOINLINE __attribute__((optimize("optimize-sibling-calls"))) void tail(uint32_t level)
{
	twin(level);
}

static NOINLINE void next(uint32_t level)
{
	switch ((enum way)dive->way[level]) {
	case FIRST_CALL:
		down(level + 1);
		AFTER_CALL();
		return;
	case SECOND_CALL:
		down(level + 1);
		BEFORE_CALL;
		AFTER_CALL();
		return;
	case TWIN:
		twin(level + 1);
		AFTER_CALL();
		return;
	case TAIL_CALL:
		tail(level + 1);
		AFTER_CALL();
		return;
	case WAYS:
		break;
	}
}

/* A level that longjmp may go to. */
static NOINLINE void down_to_jump(uint32_t level)
{
	setjmp(dive->jump[level / JUMPS]);
	do {
		dive->back_to = NOBODY;
		if (level == dive->target)
			work(level);
		else if (dive->target != NOBODY)
			next(level);
	} while (level == dive->back_to);
}

static NOINLINE void down(uint32_t level)
{
	if (level % JUMPS == 0) {
		down_to_jump(level);
		AFTER_CALL();
		return;
	}
	do {
		dive->back_to = NOBODY;
		if (level == dive->target)
			work(level);
		else if (dive->target != NOBODY)
			next(level);
	} while (level == dive->back_to);
}

/* ---- the whole ---- */

static void *run(void *of)
{
	static _Thread_local char alternate[1 << 16];
	stack_t own = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

	dive = of;
	dive->way = calloc(dive->depth + 2, 1);
	dive->jump = calloc(dive->depth / JUMPS + 2, sizeof(*dive->jump));
	dive->there_stack = malloc(1 << 18);
	sigaltstack(&own, NULL);
	getcontext(&dive->there);
	dive->there.uc_stack.ss_sp = dive->there_stack;
	dive->there.uc_stack.ss_size = 1 << 18;
	makecontext(&dive->there, coroutine, 0);
	dive->target = dive->depth / 2;
	down(0);
	own.ss_flags = SS_DISABLE;
	sigaltstack(&own, NULL);
	free(dive->there_stack);
	free(dive->jump);
	free(dive->way);
	return NULL;
}

static void dives(uint32_t depth, uint32_t rounds, uint32_t threads)
{
	pthread_t thread[16];
	struct dive own[16];
	pthread_attr_t attributes;

	signal(SIGUSR1, on_signal);
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_ONSTACK},
		  NULL);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 48ul << 20);
	memset(own, 0, sizeof(own));
	for (uint32_t i = 0; i <= threads; i++) {
		own[i].depth = depth;
		own[i].rounds = rounds;
		own[i].seed = i + 1;
		if (i)
			pthread_create(&thread[i], &attributes, run, &own[i]);
	}
	run(&own[0]);
	for (uint32_t i = 1; i <= threads; i++)
		pthread_join(thread[i], NULL);
}

static NOINLINE void recurse(uint32_t levels)
{
	void *volatile block = malloc(levels % 64 + 1);

	if (levels > 1)
		recurse(levels - 1);
	free(block);
	AFTER_CALL();
}

static NOINLINE void recurse_to_leaf(uint32_t levels, uint32_t blocks)
{
	if (levels > 1)
		recurse_to_leaf(levels - 1, blocks);
	else
		for (uint32_t i = 0; i < blocks; i++)
			allocate(i % 64 + 1);
	AFTER_CALL();
}

int main(int argc, char **argv)
{
	uint32_t first = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;

	if (first == 0)
		return 2;
	if (!strcmp(argv[1], "recursion"))
		recurse(first);
	else if (!strcmp(argv[1], "leaf") && argc > 3)
		recurse_to_leaf(first, (uint32_t)atoi(argv[3]));
	else
		dives((uint32_t)atoi(argv[1]), first, argc > 3 ? (uint32_t)atoi(argv[3]) : 0);
	return 0;
}
