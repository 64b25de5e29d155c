/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that tells mayfly what it does: a make-believe server with two threads that answer
 * requests for four tenants. What it caches for searches is never thrown away.
 *
 *	cc -O2 -g -Iinclude examples/server.c -o server -pthread
 *	mayfly record -o server.mayfly -- ./server
 *	mayfly report --spans --sort live server.mayfly
 */
#include <mayfly/mayfly.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS 20000
#define CACHED	 4096

MAYFLY_SPAN(request, "request", MAYFLY_UINT("id"), MAYFLY_TEXT("path"));
MAYFLY_SPAN(parse, "parse", MAYFLY_UINT("bytes"));
MAYFLY_SPAN(search, "search");
MAYFLY_SPAN(render, "render");
MAYFLY_INSTANT(rotated, "log rotated", MAYFLY_TEXT("file"));
MAYFLY_COUNTER(cached_results, "cached results", "");

static const char *const tenants[] = {"acme", "acme", "acme", "bolt", "cask", "dune"};

static struct results {
	struct results *next;
	char text[];
} * cache[CACHED];
static int cached;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Cuts a line into words, as C programs do. */
static size_t parse_request(const char *line)
{
	char *copy = strdup(line), *save;
	size_t words = 0;

	mayfly_span_begin(&parse, strlen(line));
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *kept = strdup(word);

		words += strlen(kept) > 1;
		free(kept);
	}
	mayfly_span_end(&parse);
	free(copy);
	return words;
}

static void search_for(unsigned int query, size_t bytes)
{
	struct results *found;

	mayfly_span_begin(&search);
	found = malloc(sizeof(*found) + bytes);
	memset(found->text, 'x', bytes);
	pthread_mutex_lock(&lock);
	found->next = cache[query % CACHED]; /* but nobody looks whether it is there already */
	cache[query % CACHED] = found;
	mayfly_counter(&cached_results, ++cached);
	pthread_mutex_unlock(&lock);
	mayfly_span_end(&search);
}

/* A page grows piece by piece. */
static size_t render_page(size_t pieces)
{
	size_t used = 0, room = 64;
	char *page = malloc(room);

	mayfly_span_begin(&render);
	for (size_t i = 0; i < pieces; i++) {
		if (used + 48 > room)
			page = realloc(page, room *= 2);
		memset(page + used, '-', 48);
		used += 48;
	}
	mayfly_span_end(&render);
	free(page);
	return used;
}

static void answer(unsigned int id, unsigned int *random)
{
	const char *tenant = tenants[rand_r(random) % 6];
	bool is_search = rand_r(random) % 3 == 0;

	mayfly_label_push("tenant", tenant);
	mayfly_label_push("request", is_search ? "search" : "page");
	mayfly_span_begin(&request, id, is_search ? "/search" : "/page");
	parse_request("GET /a/page HTTP/1.1 Host: example.org Accept: text/html Cookie: a=1; b=2");
	if (is_search)
		search_for((unsigned int)rand_r(random), *tenant == 'a' ? 6000 : 1500);
	render_page(is_search ? 20 : 400);
	mayfly_span_end(&request);
	mayfly_label_pop();
	mayfly_label_pop();
}

static void *work(void *argument)
{
	unsigned int random = (unsigned int)(uintptr_t)argument;

	for (unsigned int i = 0; i < REQUESTS; i++) {
		answer(i, &random);
		if (i % 5000 == 4999)
			mayfly_instant(&rotated, "/var/log/server.log");
	}
	return NULL;
}

int main(void)
{
	pthread_t worker[2];

	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&worker[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 2; i++)
		pthread_join(worker[i], NULL);
	printf("%d results cached\n", cached);
	return 0;
}
