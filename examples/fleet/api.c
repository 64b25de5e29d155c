/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of two versions, for examples/fleet/run: answers requests with three endpoints, chosen at
 * random. In version 2 one of them keeps what it should free.
 *
 *	cc -g -DVERSION=1 api.c -o api; ./api SEED REQUESTS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	int requests = argc > 2 ? atoi(argv[2]) : 10000;

	srand(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
	for (int i = 0; i < requests; i++)
		endpoints[rand() % 3]();
	printf("%d requests, version %d, %zu kept\n", requests, VERSION, kept_count);
	return 0;
}
