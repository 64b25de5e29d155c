/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors whose chunks are decoded by other threads: the same events, of whole and of damaged
 * traces, whether tasks run early, late, or not at all.
 */
#include "random_trace.h"

#include <pthread.h>

/* ---- a helper that does what is least expected ---- */

struct task {
	void (*run)(void *argument);
	void *argument;
	pthread_t thread;
	bool has_thread;
};

static int tasks, open_tasks;

static void *run_task(void *context)
{
	struct task *t = context;

	t->run(t->argument);
	return NULL;
}

static void *start(void *context, void (*run)(void *argument), void *argument)
{
	struct task *t;

	(void)context;
	if (below(6) == 0)
		return NULL; /* cannot be had just now */
	t = calloc(1, sizeof(*t));
	*t = (struct task){.run = run, .argument = argument};
	t->has_thread = below(3) && pthread_create(&t->thread, NULL, run_task, t) == 0;
	tasks++;
	open_tasks++;
	return t;
}

static void finish(void *context, void *task, bool needed)
{
	struct task *t = task;

	(void)context;
	if (t->has_thread)
		pthread_join(t->thread, NULL);
	else if (needed)
		t->run(t->argument);
	free(t);
	open_tasks--;
}

static void lend(struct mayfly_trace *trace)
{
	struct mayfly_helper h = {.tasks = 1 + below(5), .start = start, .finish = finish};

	mayfly_trace_help(trace, &h);
}

/* ---- comparison ---- */

struct events {
	struct mayfly_event *event;
	size_t count;
	int error;
};

/* most: stops there, in the middle. */
static struct events read_events(const struct mayfly_trace *trace, size_t most)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct events e = {calloc(info->samples + info->frees + 1, sizeof(*e.event)), 0, 0};
	struct mayfly_cursor *cursor;

	e.error = mayfly_cursor_open(trace, &cursor);
	CHECK(e.error == 0);
	while (e.count < most && (e.error = mayfly_cursor_next(cursor, &e.event[e.count])) == 1)
		e.count++;
	mayfly_cursor_close(cursor);
	CHECK(open_tasks == 0, "%d tasks are left", open_tasks);
	return e;
}

static void compare(const struct mayfly_trace *alone, const struct mayfly_trace *helped,
		    size_t most)
{
	struct events a = read_events(alone, most), b = read_events(helped, most);

	CHECK(a.count == b.count && a.error == b.error, "%zu events, %d; with help %zu, %d",
	      a.count, a.error, b.count, b.error);
	for (size_t i = 0; i < a.count && i < b.count; i++)
		CHECK(memcmp(&a.event[i], &b.event[i], sizeof(a.event[i])) == 0, "event %zu", i);
	free(a.event);
	free(b.event);
}

static void compare_answers(const struct mayfly_trace *alone, const struct mayfly_trace *helped)
{
	struct mayfly_query q = random_query(mayfly_trace_info(alone));
	struct mayfly_result *a, *b;
	int error = mayfly_query_run(alone, &q, &a);

	CHECK(mayfly_query_run(helped, &q, &b) == error);
	CHECK(open_tasks == 0, "%d tasks are left", open_tasks);
	if (error)
		return;
	CHECK(a->rows == b->rows && !memcmp(&a->total, &b->total, sizeof(a->total)));
	for (size_t i = 0; i < a->rows && i < b->rows; i++)
		CHECK(memcmp(&a->row[i].self, &b->row[i].self, sizeof(a->row[i].self)) == 0);
	mayfly_result_free(a);
	mayfly_result_free(b);
}

static void test_same_events(void)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 1 + below(40));
		struct mayfly_trace *helped;

		CHECK(mayfly_trace_open(o.buffer.bytes, o.buffer.used, &helped) == 0);
		lend(helped);
		compare(o.trace, helped, SIZE_MAX);
		compare(o.trace, helped, below(100));
		for (int i = 0; i < 5; i++)
			compare_answers(o.trace, helped);
		mayfly_trace_close(helped);
		close_opened(&o);
		free_source(&source);
	}
	CHECK(tasks > 1000, "%d tasks", tasks);
}

static void test_damaged_traces(void)
{
	int broken = 0;

	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 30);
		struct mayfly_trace *alone, *helped;
		int error;

		for (int i = 0; i < 3; i++)
			o.buffer.bytes[below((uint32_t)o.buffer.used)] ^= (uint8_t)(1u << below(8));
		error = mayfly_trace_open(o.buffer.bytes, o.buffer.used, &alone);
		CHECK(mayfly_trace_open(o.buffer.bytes, o.buffer.used, &helped) == error);
		broken += error != 0;
		if (!error) {
			broken += !mayfly_trace_info(alone)->complete;
			lend(helped);
			compare(alone, helped, SIZE_MAX);
			compare_answers(alone, helped);
			mayfly_trace_close(alone);
			mayfly_trace_close(helped);
		}
		close_opened(&o);
		free_source(&source);
	}
	CHECK(broken > 50, "%d traces were broken", broken);
}

int main(void)
{
	RUN(test_same_events);
	RUN(test_damaged_traces);
	DONE();
}
