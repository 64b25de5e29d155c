/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served ROUNDS: a small server for the tests of the page. Each round is a span "request"; a thread
 * "loader" works beside it.
 *
 *	store_session()		is never freed, from the first to the last round: a leak that grows
 *	fill_cache()		keeps as much as ever: never freed, but it does not grow
 *	parse_request()		frees at once what it allocates: churn
 *	render()		allocates much in round 40 alone: the worst request, and the peak
 */
#include <mayfly/mayfly.h>

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define CACHE_SLOTS 16
#define WORST	    40

MAYFLY_SPAN(request, "request");

#define APART __attribute__((noinline))

static void *volatile sessions; /* a chain through the first word of each */
static void *volatile cache[CACHE_SLOTS];

static void pause_a_little(void)
{
	const struct timespec time = {.tv_nsec = 2000000};

	nanosleep(&time, NULL);
}

static APART void store_session(void)
{
	void **session = malloc(4000);

	if (!session)
		abort();
	*session = sessions;
	sessions = session;
}

static APART void fill_cache(int round)
{
	free(cache[round % CACHE_SLOTS]);
	cache[round % CACHE_SLOTS] = malloc(20000);
}

static APART void parse_request(void)
{
	void *volatile part[20];

	for (int i = 0; i < 20; i++)
		part[i] = malloc(100 + (size_t)i * 10);
	for (int i = 0; i < 20; i++)
		free(part[i]);
}

static APART void render(int round)
{
	void *volatile page = malloc(round == WORST ? 3000000 : 1000);

	pause_a_little();
	free(page);
}

static APART void serve(int round)
{
	mayfly_span_begin(&request);
	parse_request();
	store_session();
	fill_cache(round);
	render(round);
	mayfly_span_end(&request);
}

static void *load(void *context)
{
	for (int i = 0; i < 50; i++) {
		void *volatile block = malloc(7000);

		pause_a_little();
		free(block);
	}
	return context;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 100;
	pthread_t loader;

	if (pthread_create(&loader, NULL, load, NULL))
		return 1;
	pthread_setname_np(loader, "loader");
	for (int i = 0; i < rounds; i++)
		serve(i);
	pthread_join(loader, NULL);
	return 0;
}
