/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table that grows as long as the program runs, one that has stopped, and one that never grew. Says the
 * bytes of a block of each, as JSON, and ends when its standard input does.
 */
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SESSION 200
#define ORDER	88
#define ENTRY	1000
#define AT_ONCE 500

struct node {
	struct node *next;
};

struct node *g_sessions, *g_entries;
static __thread struct node *t_orders;

static void add(struct node **list, size_t bytes)
{
	struct node *n = malloc(bytes);

	n->next = *list;
	*list = n;
}

static int input_ends(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char rest;

	return poll(&in, 1, 5) > 0 && read(0, &rest, 1) <= 0;
}

/* Each thread has a list of its own. */
static void *run(void *argument)
{
	int *ended = argument;

	for (;;) {
		add(&t_orders, ORDER);
		usleep(5000);
		if (__atomic_load_n(ended, __ATOMIC_RELAXED))
			return NULL;
	}
}

int main(void)
{
	static char output[4096];
	static int ended;
	pthread_t thread;

	setvbuf(stdout, output, _IOFBF, sizeof(output));
	for (int i = 0; i < AT_ONCE; i++)
		add(&g_entries, ENTRY);
	add(&g_sessions, SESSION);
	pthread_create(&thread, NULL, run, &ended);
	printf("{\"session\": %zu, \"order\": %zu, \"entries\": %zu}\n",
	       malloc_usable_size(g_sessions), malloc_usable_size(malloc(ORDER)),
	       AT_ONCE * malloc_usable_size(g_entries));
	fflush(stdout);
	while (!input_ends())
		for (int i = 0; i < 10; i++)
			add(&g_sessions, SESSION);
	__atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return 0;
}
