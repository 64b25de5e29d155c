/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests/make_golden records: a little of everything on three threads, one after the other, so
 * that two recordings differ only in times and numbers of the kernel.
 *
 *	demo		leaves with 3
 *	demo wait	does not end
 *	demo fork	forks; the child does the same again
 */
#include <mayfly/mayfly.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

MAYFLY_SPAN(request, "request", MAYFLY_UINT("number"), MAYFLY_TEXT("path"), MAYFLY_FLOW("flow"));
MAYFLY_SPAN(parse, "parse");
MAYFLY_INSTANT(miss, "cache miss", MAYFLY_INT("distance"), MAYFLY_FLOAT("cost"));
MAYFLY_COUNTER(kept, "kept", "bytes");
MAYFLY_POOL(slab, "slab", 0);

#define KEPT 16

static void *keep[KEPT];
static char *pool_memory;

__attribute__((noinline)) static char *grow(char *text, size_t length)
{
	return realloc(text, length);
}

__attribute__((noinline)) static void parse_words(unsigned number)
{
	char *text = NULL;

	mayfly_span_begin(&parse);
	for (size_t length = 100; length < 1000 + 10 * number; length *= 3)
		text = grow(text, length);
	free(text); /* temporary */
	mayfly_span_end(&parse);
}

__attribute__((noinline)) static void keep_row(unsigned number)
{
	free(keep[number % KEPT]);
	keep[number % KEPT] = malloc(200 * (number % 7 + 1));
	mayfly_counter(&kept, (int64_t)(200 * number));
}

__attribute__((noinline)) static void serve(unsigned number)
{
	mayfly_span_begin(&request, number, number % 2 ? "/index \"one\"" : "/größe", number / 2);
	mayfly_label_push("tenant", number % 3 ? "a" : "b");
	parse_words(number);
	keep_row(number);
	mayfly_pool_alloc(&slab, pool_memory + 64 * number, 64);
	if (number % 4 == 0)
		mayfly_pool_free(&slab, pool_memory + 64 * number);
	mayfly_instant(&miss, 3 - (int64_t)number, number / 8.0);
	mayfly_label_pop();
	mayfly_span_end(&request);
}

static void *work(void *name)
{
	pthread_setname_np(pthread_self(), name);
	for (unsigned i = 0; i < 12; i++)
		serve(i + (unsigned)strlen(name));
	usleep(2000);
	return NULL;
}

int main(int argc, char **argv)
{
	static char first[] = "demo", second[] = "worker", third[] = "wörker 3";
	pthread_t thread;

	pool_memory = malloc(1 << 20);
	work(first);
	if (argc > 1 && !strcmp(argv[1], "fork") && fork() > 0) {
		wait(NULL);
		return 3;
	}
	if (pthread_create(&thread, NULL, work, second) || pthread_join(thread, NULL) ||
	    pthread_create(&thread, NULL, work, third) || pthread_join(thread, NULL))
		return 1;
	puts("done");
	fflush(stdout);
	while (argc > 1 && !strcmp(argv[1], "wait"))
		pause();
	return 3;
}
