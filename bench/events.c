/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_events THREADS BATCHES [PAUSE]: nanoseconds of thread CPU time for each event, as JSON:
 *
 *	loop	 no event
 *	span	 half of a span without fields: its begin or its end
 *	counter	 a counter's value
 *	instant	 an instant with two numbers
 *
 * By mayfly/mayfly.h; built with LTTNG, by tracepoints of LTTng-UST. In batches, of which the
 * median and the fastest count; what the first thread found. PAUSE: milliseconds between batches,
 * so that who reads can keep up, as it can with a program that has something else to do.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef LTTNG
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "events_lttng.h"
#else
#include <mayfly/mayfly.h>

MAYFLY_SPAN(work, "work");
MAYFLY_COUNTER(length, "length", "");
MAYFLY_INSTANT(thing, "thing", MAYFLY_INT("place"), MAYFLY_UINT("size"));
#endif

#define BATCH	     10000
#define MOST_BATCHES 1000
#define MOST_THREADS 16

enum { LOOP, SPAN, COUNTER, INSTANT, KINDS };
static const char *const names[KINDS] = {"loop", "span", "counter", "instant"};

static unsigned batches;
static struct timespec pause_time;
static double figures[KINDS][MOST_BATCHES];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#define REPEAT(statement)                                                                          \
	for (long i = 0; i < BATCH; i++) {                                                         \
		__asm__ volatile("" : "+r"(i));                                                    \
		statement;                                                                         \
	}

static double batch(int kind)
{
	double begin = now();

	switch (kind) {
	case LOOP:
		REPEAT(;);
		break;
#ifdef LTTNG
	case SPAN:
		REPEAT(if (i & 1) lttng_ust_tracepoint(mayfly_bench, end);
		       else lttng_ust_tracepoint(mayfly_bench, begin));
		break;
	case COUNTER:
		REPEAT(lttng_ust_tracepoint(mayfly_bench, counter, i));
		break;
	default:
		REPEAT(lttng_ust_tracepoint(mayfly_bench, instant, i, (uint64_t)i * 8));
#else
	case SPAN:
		REPEAT(if (i & 1) mayfly_span_end(&work); else mayfly_span_begin(&work));
		break;
	case COUNTER:
		REPEAT(mayfly_counter(&length, i));
		break;
	default:
		REPEAT(mayfly_instant(&thing, i, (uint64_t)i * 8));
#endif
	}
	return (now() - begin) / BATCH;
}

static void *measure(void *first)
{
	for (unsigned i = 0; i < batches; i++) {
		for (int kind = 0; kind < KINDS; kind++) {
			double figure = batch(kind);

			if (pause_time.tv_nsec)
				nanosleep(&pause_time, NULL);
			if (first)
				figures[kind][i] = figure;
		}
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print(void)
{
	printf("{");
	for (int kind = 0; kind < KINDS; kind++) {
		qsort(figures[kind], batches, sizeof(double), by_size);
		printf("%s\"%s\": {\"median_ns\": %.3f, \"min_ns\": %.3f}", kind ? ", " : "",
		       names[kind], figures[kind][batches / 2], figures[kind][0]);
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	pthread_t thread[MOST_THREADS];
	int threads = argc > 2 ? atoi(argv[1]) : 0;
	int pause_ms = argc > 3 ? atoi(argv[3]) : 0;

	batches = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	if (threads < 1 || threads > MOST_THREADS || batches < 1 || batches > MOST_BATCHES ||
	    pause_ms < 0 || pause_ms > 999) {
		fprintf(stderr, "usage: bench_events THREADS BATCHES [PAUSE]\n");
		return 2;
	}
	pause_time.tv_nsec = pause_ms * 1000000l;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, measure, i ? NULL : figures))
			return 1;
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	print();
	return 0;
}
