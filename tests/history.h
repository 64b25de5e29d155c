/* SPDX-License-Identifier: Apache-2.0 */
/* A history that tests make up: blocks with the times of their allocation and free, and tables.
 * history_write() makes a trace of it. Track events, too. */
#ifndef MAYFLY_HISTORY_H
#define MAYFLY_HISTORY_H

#include <stdlib.h>
#include <string.h>

#include "trace/write/writer.h"

struct history_block {
	int64_t time_ns, free_ns; /* INT64_MAX: never freed; before time_ns: at once */
	struct trace_block block;
	uint32_t free_thread, free_flags;
};

/* Before the blocks' events of its time. */
struct history_track {
	struct trace_track track; /* its value is not used */
	uint64_t value[RECORDING_FIELDS];
};

struct history {
	struct recording *r;
	struct history_block *block; /* in the order of their times */
	size_t blocks, room;
	struct history_track *track; /* likewise */
	size_t tracks, track_room;
	const struct mayfly_picture *picture; /* NULL: none; written behind all events */
};

struct history_event {
	int64_t time_ns;
	size_t block;
	bool is_free;
};

static inline void history_add(struct history *h, const struct history_block *block)
{
	if (h->blocks == h->room) {
		h->room = h->room * 2 + 64;
		h->block = realloc(h->block, h->room * sizeof(*h->block));
		if (!h->block)
			abort();
	}
	h->block[h->blocks++] = *block;
}

static inline void history_add_track(struct history *h, const struct history_track *track)
{
	if (h->tracks == h->track_room) {
		h->track_room = h->track_room * 2 + 64;
		h->track = realloc(h->track, h->track_room * sizeof(*h->track));
		if (!h->track)
			abort();
	}
	h->track[h->tracks++] = *track;
}

static inline int history_compare(const void *a, const void *b)
{
	const struct history_event *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	/* At the same time all allocations come first, so that no free precedes its own. */
	if (x->is_free != y->is_free)
		return x->is_free ? 1 : -1;
	return x->block < y->block ? -1 : x->block > y->block;
}

/* All events in order; the caller frees them. */
static inline struct history_event *history_events(const struct history *h, size_t *count)
{
	struct history_event *event = calloc(2 * h->blocks + 1, sizeof(*event));

	if (!event)
		abort();
	*count = 0;
	for (size_t i = 0; i < h->blocks; i++) {
		const struct history_block *b = &h->block[i];
		int64_t free_ns = b->free_ns > b->time_ns ? b->free_ns : b->time_ns;

		event[(*count)++] = (struct history_event){b->time_ns, i, false};
		if (b->free_ns != INT64_MAX)
			event[(*count)++] = (struct history_event){free_ns, i, true};
	}
	qsort(event, *count, sizeof(*event), history_compare);
	return event;
}

/* Track events from *next on, up to this time. */
static inline int history_put_tracks(const struct history *h, struct trace_writer *w, size_t *next,
				     int64_t time_ns)
{
	int error = 0;

	for (; *next < h->tracks && h->track[*next].track.time_ns <= time_ns && !error; ++*next) {
		struct trace_track track = h->track[*next].track;

		track.value = h->track[*next].value;
		error = trace_writer_track(w, &track);
	}
	return error;
}

/* flush: ends a chunk after each so many events, 0 never. */
static inline int history_put(const struct history *h, struct trace_writer *w, size_t flush)
{
	uint64_t *serial = calloc(h->blocks + 1, sizeof(*serial));
	size_t count, track = 0;
	struct history_event *event = history_events(h, &count);
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		size_t k = event[i].block;
		const struct history_block *b = &h->block[k];

		error = history_put_tracks(h, w, &track, event[i].time_ns);
		if (error)
			break;
		error = event[i].is_free
			    ? trace_writer_free(w, event[i].time_ns, serial[k], &b->block,
						b->free_thread, b->free_flags)
			    : trace_writer_alloc(w, event[i].time_ns, &b->block, &serial[k]);
		if (!error && flush && (i + 1) % flush == 0)
			error = trace_writer_flush(w);
	}
	if (!error)
		error = history_put_tracks(h, w, &track, INT64_MAX);
	if (!error && h->picture)
		error = trace_writer_picture(w, h->picture);
	free(serial);
	free(event);
	return error;
}

/* *bytes is malloc'ed, NULL after an error. */
static inline int history_write(const struct history *h, const struct trace_writer_options *options,
				size_t flush, uint8_t **bytes, size_t *size)
{
	struct trace_buffer buffer = {0};
	struct trace_writer *w = trace_writer_new(options, h->r, trace_buffer_sink, &buffer);
	int error = w ? history_put(h, w, flush) : MAYFLY_E_MEMORY;

	if (!error)
		error = trace_writer_finish(w);
	trace_writer_free_all(w);
	*bytes = buffer.bytes;
	*size = buffer.used;
	if (error) {
		free(buffer.bytes);
		*bytes = NULL;
		*size = 0;
	}
	return error;
}

static inline void history_free(struct history *h)
{
	recording_free(h->r);
	free(h->block);
	free(h->track);
	*h = (struct history){0};
}

#endif
