/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memtrace_tool dump FILE		what Memtrace's dump tool prints
 * memtrace_tool copy FILE		FILE decoded and written again
 * memtrace_tool make FILE [VERSION]	writes a file of all kinds of events to FILE: a small one with
 *					early flushes, or as Memtrace of that version would, with
 *					several domains if it is 3
 * memtrace_tool time FILE		nanoseconds per event: decoding, and decoding and writing
 */
#include "convert/export/memtrace_write.h"
#include "convert/import/memtrace_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint8_t *data;
static size_t size;

static int to_file(void *file, const void *bytes, size_t count)
{
	return fwrite(bytes, 1, count, file) == count ? 0 : 1;
}

static int to_nowhere(void *context, const void *bytes, size_t count)
{
	(void)context;
	(void)bytes;
	(void)count;
	return 0;
}

static const struct memtrace_location *locate(void *reader, int64_t code, size_t *count)
{
	return memtrace_locate(reader, code, count);
}

static int dump(struct memtrace_reader *r)
{
	struct memtrace_event e;
	int result;

	while ((result = memtrace_next(r, &e)) == 1) {
		result = memtrace_print(r, &e, to_file, stdout);
		if (result)
			return result;
	}
	return result;
}

static int copy_event(struct memtrace_writer *w, const struct memtrace_event *e)
{
	int error = memtrace_writer_domain(w, e->domain);
	int64_t id;

	if (error)
		return error;
	if (e->kind == MEMTRACE_ALLOC)
		return memtrace_writer_alloc(w, e->time_us, e->length, e->samples, e->source,
					     e->stack, e->depth, &id);
	if (e->kind == MEMTRACE_PROMOTE)
		return memtrace_writer_promote(w, e->time_us, e->id);
	return memtrace_writer_collect(w, e->time_us, e->id);
}

static int copy(struct memtrace_reader *r, trace_sink *sink, void *context)
{
	struct memtrace_writer *w;
	struct memtrace_event e;
	int result = memtrace_writer_new(memtrace_info(r), locate, r, sink, context, &w);

	if (result)
		return result;
	while ((result = memtrace_next(r, &e)) == 1) {
		result = copy_event(w, &e);
		if (result)
			break;
	}
	if (!result)
		result = memtrace_writer_finish(w);
	memtrace_writer_free(w);
	return result;
}

/* ---- a small file ---- */

static const struct memtrace_location *made_place(void *context, int64_t code, size_t *count)
{
	static const struct memtrace_location places[3] = {{"Main.f", "main.ml", 3, 1, 20},
							   {"List.map", "list.ml", 92, 20, 23},
							   {"Main.g.(fun)", "main.ml", 7, 4, 9}};

	(void)context;
	*count = (size_t)(code % 4);
	return places;
}

#define MADE		  300
#define MADE_WITH_DOMAINS 40000 /* more than the ids that a domain takes at a time */

/* A recursion that grows and shrinks, blocks of all sources, some promoted, some collected. With
 * domains, each allocates some blocks in turn, and any of them may collect a block. */
static int make_events(struct memtrace_writer *w, unsigned version)
{
	static const unsigned domains[] = {0, 7, 300};
	static int64_t ids[MADE_WITH_DOMAINS], home[MADE_WITH_DOMAINS];
	int made = version >= 3 ? MADE_WITH_DOMAINS : MADE;
	int64_t stack[64];
	int result = 0;

	for (int i = 0; i < made && !result; i++) {
		size_t depth = 2 + (size_t)(i % 50);
		int old = home[i / 2] == i / 20 % 3 ? i / 2 : i;

		for (size_t k = 0; k < depth; k++)
			stack[k] = k + 1 < depth ? 1001 + (k > 3) : 2000 + i % 17;
		home[i] = i / 20 % 3;
		result = memtrace_writer_domain(w, domains[home[i]]);
		if (!result)
			result = memtrace_writer_alloc(w, i * 1000, 1 + i % 40, 1 + i % 11 / 10,
						       (enum memtrace_source)(i % 7 % 3), stack,
						       depth, &ids[i]);
		if (!result && i % 5 == 0)
			result = memtrace_writer_promote(w, i * 1000 + 1, ids[old]);
		if (!result && i % 3 == 0)
			result = memtrace_writer_collect(w, i * 1000 + 2, ids[i / 3]);
		if (!result && !version && i % 100 == 99)
			result = memtrace_writer_flush(w);
	}
	return result ? result : memtrace_writer_finish(w);
}

static int make(const char *path, unsigned version)
{
	struct memtrace_info info = {.version = version,
				     .sample_rate = 1e-3,
				     .word_size = 64,
				     .executable = "./main.exe",
				     .host = "host",
				     .runtime_parameters = "s=256k",
				     .context = "made",
				     .pid = 1234,
				     .start_us = 1700000000000000};
	FILE *f = fopen(path, "wb");
	struct memtrace_writer *w;
	int result = 1;

	if (!f)
		return 1;
	if (memtrace_writer_new(&info, made_place, NULL, to_file, f, &w) == 0) {
		result = make_events(w, version);
		memtrace_writer_free(w);
	}
	return fclose(f) ? 1 : result;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int measure(struct memtrace_reader *r)
{
	struct memtrace_reader *again;
	struct memtrace_event e;
	uint64_t events = 0;
	double start, decode = 1e300, both = 1e300;

	(void)r;
	for (int round = 0; round < 20; round++) {
		if (memtrace_open(data, size, &again))
			return 1;
		start = now();
		events = 0;
		while (memtrace_next(again, &e) == 1)
			events++;
		decode = now() - start < decode ? now() - start : decode;
		memtrace_close(again);
		if (memtrace_open(data, size, &again))
			return 1;
		start = now();
		if (copy(again, to_nowhere, NULL))
			return 1;
		both = now() - start < both ? now() - start : both;
		memtrace_close(again);
	}
	printf("%llu events, decode %.1f ns, decode and write %.1f ns\n",
	       (unsigned long long)events, decode / (double)events, both / (double)events);
	return 0;
}

static bool read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	long length;

	if (!f || fseek(f, 0, SEEK_END) || (length = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
		return false;
	size = (size_t)length;
	data = malloc(size ? size : 1);
	size = data ? fread(data, 1, size, f) : 0;
	fclose(f);
	return data != NULL;
}

int main(int argc, char **argv)
{
	struct memtrace_reader *r = NULL;
	int result = 1;

	if ((argc == 3 || argc == 4) && strcmp(argv[1], "make") == 0)
		return make(argv[2], argc == 4 ? (unsigned)atoi(argv[3]) : 0);
	if (argc != 3 || !read_file(argv[2])) {
		fprintf(stderr, "usage: memtrace_tool dump|copy|make|time FILE\n");
		return 2;
	}
	result = memtrace_open(data, size, &r);
	if (!result && strcmp(argv[1], "dump") == 0)
		result = dump(r);
	else if (!result && strcmp(argv[1], "copy") == 0)
		result = copy(r, to_file, stdout);
	else if (!result && strcmp(argv[1], "time") == 0)
		result = measure(r);
	if (result)
		fprintf(stderr, "%s: %s: %s\n", argv[2], mayfly_error_text(result),
			r ? memtrace_problem(r) : "");
	memtrace_close(r);
	free(data);
	return result != 0;
}
