/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_events TRACE THREADS COUNT SEED: is what "events random" emitted all there, thread by
 * thread, in its order, with its values, blocks between their events and with their labels? (Blocks
 * only where each is recorded.) Only what mayfly/trace.h offers is used. The first difference is
 * told; exit status 1.
 */
#include <mayfly/trace.h>

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/random_events.h"

#define MOST_THREADS 64
#define NAME	     "events-"

struct expected {
	struct random_events sequence;
	unsigned long count;
};

static const struct mayfly_trace *trace;
static struct expected expected[MOST_THREADS];
static unsigned threads;
static bool sampled; /* not every block is recorded */

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("read_events: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(1);
}

/* NULL: not one of those that count. */
static struct expected *of_thread(size_t index)
{
	const char *name = mayfly_trace_thread(trace, index)->name;
	unsigned number;

	if (strncmp(name, NAME, strlen(NAME)))
		return NULL;
	number = (unsigned)atoi(name + strlen(NAME));
	if (number >= threads)
		fail("a thread %s", name);
	return &expected[number];
}

static const struct random_event *next(struct expected *e)
{
	static struct random_event event;

	e->count++;
	random_draw(&e->sequence, &event);
	return &event;
}

static void compare_texts(const char *got, const char *wanted, unsigned long at)
{
	if (strncmp(got, wanted, 255) || strlen(got) > 255)
		fail("event %lu: text \"%s\", not \"%s\"", at, got, wanted);
}

static void compare_track(struct expected *e, const struct mayfly_track_event *got)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(trace, got->type);
	const struct random_event *wanted = next(e);
	char name[32];

	while (sampled && wanted->kind == RANDOM_BLOCK)
		wanted = next(e);
	if (wanted->kind == RANDOM_BLOCK || (unsigned)wanted->kind != got->kind)
		fail("event %lu of thread %zu: kind %u, not %d", e->count, (size_t)(e - expected),
		     got->kind, wanted->kind);
	snprintf(name, sizeof(name), "type %u", wanted->type);
	if (strcmp(type->name, name) || strcmp(type->category, ""))
		fail("event %lu: of \"%s\", not \"%s\"", e->count, type->name, name);
	if (wanted->kind == RANDOM_END) {
		if (got->values)
			fail("event %lu: an end with %zu values", e->count, got->values);
		return;
	}
	if (got->values != strlen(random_fields[wanted->type]))
		fail("event %lu: %zu values", e->count, got->values);
	for (size_t i = 0; i < got->values; i++) {
		if (random_fields[wanted->type][i] == 't')
			compare_texts(got->value[i].text, wanted->value[i].text, e->count);
		else if (got->value[i].u != wanted->value[i].u)
			fail("event %lu: value %zu is %llx, not %llx", e->count, i,
			     (unsigned long long)got->value[i].u,
			     (unsigned long long)wanted->value[i].u);
	}
}

static void compare_block(struct expected *e, const struct mayfly_event *got)
{
	const struct random_event *wanted = next(e);
	size_t labels;
	const struct mayfly_label *label = mayfly_trace_labels(trace, got->labels, &labels);

	if (wanted->kind != RANDOM_BLOCK || wanted->size != got->size)
		fail("event %lu: a block of %llu bytes", e->count, (unsigned long long)got->size);
	if (labels != (wanted->labels < 16 ? wanted->labels : 16))
		fail("event %lu: %zu labels, not %u", e->count, labels, wanted->labels);
	for (size_t i = 0; i < labels; i++) {
		char value[32];

		snprintf(value, sizeof(value), "%zu.%u", i, wanted->group);
		if (strcmp(label[i].key, "level") || strcmp(label[i].value, value))
			fail("event %lu: label %zu is %s=%s", e->count, i, label[i].key,
			     label[i].value);
	}
}

/* The blocks that came before the track event at hand. */
static void compare_blocks(struct mayfly_cursor *blocks, uint64_t *read, uint64_t before)
{
	struct mayfly_event event;

	for (; *read < before; ++*read) {
		struct expected *e;
		int result = mayfly_cursor_next(blocks, &event);

		if (result < 0)
			fail("%s", mayfly_error_text(result));
		if (!result)
			return;
		e = of_thread(event.thread);
		/* What the program allocates beside them has other sizes. */
		if (e && !sampled && event.kind == MAYFLY_ALLOC && event.size >= BLOCK_BYTES &&
		    event.size < 17 * BLOCK_BYTES && event.size % BLOCK_BYTES < RANDOM_LABELS)
			compare_block(e, &event);
	}
}

static void compare(void)
{
	struct mayfly_track_event event;
	struct mayfly_track_cursor *tracks;
	struct mayfly_cursor *blocks;
	uint64_t read = 0;
	int result;

	if (mayfly_track_cursor_open(trace, &tracks) || mayfly_cursor_open(trace, &blocks))
		fail("no cursor");
	while ((result = mayfly_track_cursor_next(tracks, &event)) > 0) {
		struct expected *e = of_thread(event.thread);

		compare_blocks(blocks, &read, event.events_before);
		if (e && !strcmp(mayfly_trace_track_type(trace, event.type)->category, ""))
			compare_track(e, &event);
	}
	if (result < 0)
		fail("%s", mayfly_error_text(result));
	compare_blocks(blocks, &read, UINT64_MAX);
	mayfly_track_cursor_close(tracks);
	mayfly_cursor_close(blocks);
}

static struct mayfly_trace *map_trace(const char *path)
{
	struct mayfly_trace *opened;
	struct stat status;
	int error, fd = open(path, O_RDONLY | O_CLOEXEC);
	void *data;

	if (fd < 0 || fstat(fd, &status))
		fail("%s cannot be opened", path);
	data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		fail("%s cannot be mapped", path);
	close(fd);
	error = mayfly_trace_open(data, (size_t)status.st_size, &opened);
	if (error)
		fail("%s: %s", path, mayfly_error_text(error));
	return opened;
}

int main(int argc, char **argv)
{
	struct mayfly_trace *opened;
	unsigned long count;

	if (argc != 5)
		return 2;
	opened = map_trace(argv[1]);
	trace = opened;
	sampled = mayfly_trace_info(trace)->mode == MAYFLY_SAMPLED;
	threads = (unsigned)atoi(argv[2]);
	count = strtoul(argv[3], NULL, 10);
	if (threads > MOST_THREADS)
		return 2;
	for (unsigned i = 0; i < threads; i++)
		expected[i].sequence = random_begin(strtoull(argv[4], NULL, 10), i);
	compare();
	for (unsigned i = 0; i < threads; i++) {
		struct expected *e = &expected[i];

		while (sampled && e->count < count && next(e)->kind == RANDOM_BLOCK)
			;
		if (e->count != count)
			fail("%lu of %lu events of thread %u", e->count, count, i);
	}
	mayfly_trace_close(opened);
	printf("%u threads, %lu events each\n", threads, count);
	return 0;
}
