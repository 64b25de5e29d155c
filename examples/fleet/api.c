/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of two versions, for examples/fleet/run: answers requests with three endpoints, chosen at
 * random. In version 2 one of them keeps what it should free.
 *
 *	cc -g -DVERSION=1 api.c -o api; ./api SEED SECONDS_SINCE_1970	# until then
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef VERSION
#define VERSION 1
#endif
#define SESSIONS 1000u

static char *sessions[SESSIONS];
static char *kept[1 << 20];
static size_t kept_count;
static char *volatile sent; /* so that the compiler keeps the blocks */

static __attribute__((noinline)) void login(void)
{
	char **session = &sessions[(unsigned)rand() % SESSIONS];

	free(*session);
	*session = malloc(2000);
	memset(*session, 1, 2000);
}

static __attribute__((noinline)) void upload(void)
{
	size_t size = 1000 + (unsigned)rand() % 100000;
	char *body = malloc(size);

	memset(body, 1, size);
	sent = body;
	free(body);
}

static __attribute__((noinline)) void list_items(void)
{
	char *answer = malloc(4000);

	memset(answer, 1, 4000);
	sent = answer;
	if (VERSION == 2 && rand() % 4 == 0 && kept_count < sizeof(kept) / sizeof(*kept))
		kept[kept_count++] = answer;
	else
		free(answer);
}

int main(int argc, char **argv)
{
	static void (*const endpoints[])(void) = {login, upload, list_items};
	time_t until = argc > 2 ? (time_t)atoll(argv[2]) : time(NULL) + 10;
	int requests = 0;

	srand(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
	while (time(NULL) < until) { /* about 2000 requests a second */
		for (int i = 0; i < 20; i++)
			endpoints[rand() % 3]();
		requests += 20;
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	printf("%d requests, version %d, %zu kept\n", requests, VERSION, kept_count);
	return 0;
}
