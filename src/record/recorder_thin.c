/* SPDX-License-Identifier: Apache-2.0 */
/* A trace within its size: see recorder_thin.h. */
#include "record/recorder_thin.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/rewrite/thin.h"
#include "trace/write/thin_rule.h"

/* Compressed bytes in the trace for the name of each place in the program, and for everything else
 * at the end. */
#define NAME_BYTES 32
#define TAIL_BYTES 8192
/* When a trace is thinned, this share of the limit stays. */
#define KEPT_SHARE 0.6
/* Fewer samples than this are not thinned. */
#define LEAST_SAMPLES 1000
/* With more live blocks than this, an exact trace with a limit is thinned, whatever its size. A block takes 48 bytes, and
 * up to 130 more where its neighbours are not known, so the table of those and of one more chunk of events stays
 * below 100 MB. */
#define MOST_LIVE ((size_t)1 << 18)

/* How many of the trace's allocations an interval of 2^log2 would keep, for each log2; as thin.h
 * says, Poisson about so. */
static int count_kept(const struct mayfly_trace *trace, double kept[SPOOL_INTERVAL_MAX_LOG2 + 1])
{
	double sampled[64] = {0}, blocks[64] = {0}, bytes[64] = {0};
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more, error = mayfly_cursor_open(trace, &cursor);

	if (error)
		return error;
	while ((more = mayfly_cursor_next(cursor, &e)) > 0) {
		if (e.kind != MAYFLY_ALLOC)
			continue;
		if (e.hits && (double)e.size < e.interval) {
			sampled[63 - __builtin_clzll((uint64_t)e.interval | 1)]++;
		} else {
			unsigned int log2 = 63u - (unsigned int)__builtin_clzll(e.size | 1);

			blocks[log2]++;
			bytes[log2] += (double)e.size;
		}
	}
	mayfly_cursor_close(cursor);
	for (unsigned int k = 0; k <= SPOOL_INTERVAL_MAX_LOG2; k++) {
		kept[k] = 0;
		for (unsigned int i = 0; i < 64; i++)
			kept[k] +=
			    i < k ? ldexp(sampled[i], (int)i - (int)k) + ldexp(bytes[i], -(int)k)
				  : sampled[i] + blocks[i];
	}
	return more;
}

/* The smallest interval above the one in force that keeps at most this share of the events. */
static int choose_interval(struct recorder *r, const struct mayfly_trace *trace, double share,
			   uint32_t *log2)
{
	uint32_t least = r->thin_log2 ? r->thin_log2 : r->writer_options.interval_log2;
	double kept[SPOOL_INTERVAL_MAX_LOG2 + 1];
	int error = count_kept(trace, kept);

	if (error)
		return error;
	for (*log2 = least + 1; *log2 < SPOOL_INTERVAL_MAX_LOG2; ++*log2)
		if (kept[*log2] <= share * kept[0])
			break;
	return 0;
}

/* What replaces part and writer. */
struct thinned {
	struct part *part;
	struct trace_writer *writer;
	struct thin_map *map;
};

static void drop_thinned(struct thinned *t)
{
	thin_map_free(t->map);
	trace_writer_free_all(t->writer);
	if (t->part) {
		part_close(t->part, true);
		free(t->part);
	}
	*t = (struct thinned){0};
}

static int make_thinned(struct recorder *r, const struct mayfly_trace *trace, uint32_t log2,
			struct thinned *t)
{
	struct trace_writer_options options = r->writer_options;
	size_t length = strlen(r->part_path) + sizeof(".thin");
	char *path = malloc(length);
	int error;

	*t = (struct thinned){.part = calloc(1, sizeof(*t->part))};
	if (!t->part || !path) {
		free(path);
		return MAYFLY_E_MEMORY;
	}
	strcat(strcpy(path, r->part_path), ".thin");
	unlink(path);
	error = part_open(t->part, path);
	free(path);
	if (error) {
		free(t->part);
		t->part = NULL;
		return error;
	}
	options.mode = MAYFLY_SAMPLED; /* also when it was exact so far */
	t->writer = trace_writer_new(&options, r->tables, part_sink, t->part);
	error =
	    t->writer ? trace_thin(trace, log2, r->thin_seed, t->writer, &t->map) : MAYFLY_E_MEMORY;
	if (!error)
		error = trace_writer_flush(t->writer);
	if (!error)
		error = part_flush(t->part);
	return error;
}

static uint64_t new_serial(void *map, uint64_t serial)
{
	return thin_map_serial(map, serial);
}

static int take_thinned(struct recorder *r, struct thinned *t)
{
	char *path = strdup(r->part_path);
	struct part *part = r->part;

	assert(t->part && t->writer && t->map && part != t->part);
	if (!path)
		return MAYFLY_E_MEMORY;
	keys_file_renumber(&r->keys, r->stream, t->part, new_serial, t->map);
	if (rename(t->part->path, r->part_path)) {
		r->keys.missed = true; /* the new part's were written, and not the old one's */
		free(path);
		return errno;
	}
	free(t->part->path);
	t->part->path = path;
	spool_stream_renumber(r->stream, t->writer, new_serial, t->map);
	trace_writer_free_all(r->writer);
	r->writer = t->writer;
	r->part = t->part;
	t->writer = NULL;
	t->part = NULL;
	part_close(part, false);
	free(part);
	return 0;
}

/* What comes from now on. */
static void thin_ahead(struct recorder *r, uint32_t log2)
{
	struct spool_header *h = r->watch.header;

	r->thin_log2 = log2;
	/* Coins of its own for each step: the same one would be lucky again. */
	r->thin_seed = thin_coin(r->thin_seed, log2);
	spool_stream_thin(r->stream, log2, r->thin_seed);
	r->thin_seed = thin_coin(r->thin_seed, log2);
	if (h->mode == SPOOL_SAMPLED && atomic_load(&h->control_interval_log2) < log2) {
		atomic_store(&h->control_interval_log2, log2);
		atomic_fetch_add(&h->control_generation, 1);
	}
}

/* Thins the events in the file to about this share, and likewise those to come. */
static int thin(struct recorder *r, double share)
{
	struct mayfly_trace *trace;
	struct thinned thinned = {0};
	uint32_t log2 = 0;
	size_t size = r->part->written;
	void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, r->part->fd, 0);
	int error;

	if (data == MAP_FAILED)
		return errno;
	error = mayfly_trace_open(data, size, &trace);
	if (!error) {
		error = choose_interval(r, trace, share, &log2);
		if (!error)
			error = make_thinned(r, trace, log2, &thinned);
		if (!error)
			error = take_thinned(r, &thinned);
		drop_thinned(&thinned);
		mayfly_trace_close(trace);
	}
	munmap(data, size);
	if (!error)
		thin_ahead(r, log2);
	return error;
}

static int write_and_thin(struct recorder *r, double share)
{
	int error = trace_writer_flush(r->writer);

	if (!error)
		error = part_flush(r->part);
	if (!error)
		trace_writer_rest(r->writer);
	return error ? error : thin(r, share);
}

/* The size of the finished file, if no more events come: names and tables are still missing. */
static double expected_bytes(const struct recorder *r)
{
	return (double)(trace_writer_bytes(r->writer) + TAIL_BYTES +
			(uint64_t)r->tables->frames * NAME_BYTES);
}

/* Stacks and names are not thinned. If they take most of the limit, a few samples are kept all the
 * same. */
static bool can_thin(const struct recorder *r)
{
	return r->thin_log2 < SPOOL_INTERVAL_MAX_LOG2 &&
	       trace_writer_allocs(r->writer) > LEAST_SAMPLES;
}

/* Whether too many live blocks are known. Children need them all. */
static bool is_large(const struct recorder *r)
{
	return r->watch.header->mode == SPOOL_EXACT && !r->options.follow &&
	       spool_stream_live(r->stream) > MOST_LIVE;
}

/* A step keeps at most half of the events, so the total work is proportional to what is recorded. What
 * is left of an exact recording needs more bytes an event: the file may be too large after a step. */
void recorder_keep_size(struct recorder *r)
{
	double most = (double)r->options.max_size, bytes = expected_bytes(r);
	int error = 0;

	if (r->part->error || trace_writer_bytes(r->writer) < r->thin_next)
		return;
	while (!error && bytes > most && can_thin(r)) {
		error = write_and_thin(r, fmin(KEPT_SHARE * most / bytes, 0.5));
		bytes = expected_bytes(r);
	}
	while (!error && is_large(r) && can_thin(r)) {
		error = write_and_thin(r, 0.5);
		bytes = expected_bytes(r);
	}
	if (error)
		r->thin_error = error;
	/* Neither failures nor stacks that are too many are met again with each chunk of events. */
	r->thin_next = error || bytes > most
			   ? trace_writer_bytes(r->writer) + trace_writer_bytes(r->writer) / 4
			   : 0;
}

/* The names may take more than was expected. The trace in the file is a whole one: it is thinned like
 * one that grows, and ended once more. */
int recorder_finish_within_size(struct recorder *r)
{
	uint64_t most = r->options.max_size;
	int error = trace_writer_finish(r->writer);

	while (!error && most && trace_writer_bytes(r->writer) > most && !part_flush(r->part) &&
	       can_thin(r)) {
		double bytes = (double)trace_writer_bytes(r->writer);

		r->thin_error = thin(r, fmin(KEPT_SHARE * (double)most / bytes, 0.5));
		if (r->thin_error)
			break;
		error = trace_writer_finish(r->writer);
	}
	if (most && trace_writer_bytes(r->writer) > most && !r->thin_error && !r->part->error)
		r->thin_error = MAYFLY_E_RANGE;
	return error;
}
