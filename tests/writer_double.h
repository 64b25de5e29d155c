/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace_writer that keeps what it is given, instead of the real one: for tests of what makes
 * events. It checks each call: times never fall, blocks exist, are freed once and as allocated,
 * nodes and threads are in the tables. A chunk is as small as the test wants.
 *
 * It has each function of the real one that the program under test calls: then the linker takes
 * nothing of writer.c from the library. A function that is missing here brings the real ones along,
 * and the linker refuses to have both.
 */
#ifndef MAYFLY_WRITER_DOUBLE_H
#define MAYFLY_WRITER_DOUBLE_H

#include <stdlib.h>
#include <string.h>

#include "trace/write/fragments.h"
#include "trace/write/writer.h"

#include "test.h"

struct sample {
	struct trace_block block;
	int64_t time_ns, free_ns; /* free_ns INT64_MAX: never */
	uint32_t free_thread, free_flags;
	int64_t promoted_ns; /* 0: never */
};

struct event {
	int64_t time_ns;
	uint64_t serial;
	bool is_free;
};

struct track {
	int64_t time_ns;
	uint32_t kind, type, thread, node;
	uint64_t value[RECORDING_FIELDS];
	size_t after; /* so many events */
};

struct trace_writer {
	struct trace_writer_options options;
	struct recording *tables;
	struct sample *sample;
	struct event *event;
	size_t samples, sample_size, frees, events, event_size;
	struct {
		int64_t time_ns;
		uint32_t name, unit;
		double value;
	} counter[64];
	struct track *track;
	size_t tracks, track_size;
	size_t counters, measured[FRAGMENTS_KINDS];
	uint64_t pages; /* of the latest measure */
	size_t chunk_events, in_chunk;
	uint64_t chunks;
	int64_t now_ns;
	int error; /* to be returned from now on */
};

struct trace_writer *trace_writer_new(const struct trace_writer_options *options,
				      struct recording *tables, trace_sink *sink, void *context)
{
	struct trace_writer *w = calloc(1, sizeof(*w));

	(void)sink;
	(void)context;
	w->options = *options;
	w->tables = tables;
	w->chunk_events = 262144;
	return w;
}

static void double_event(struct trace_writer *w, int64_t time_ns, uint64_t serial, bool is_free)
{
	CHECK(time_ns >= w->now_ns, "%lld after %lld", (long long)time_ns, (long long)w->now_ns);
	w->now_ns = time_ns;
	if (w->events == w->event_size) {
		w->event_size = 2 * w->event_size + 64;
		w->event = realloc(w->event, w->event_size * sizeof(*w->event));
	}
	w->event[w->events++] = (struct event){time_ns, serial, is_free};
	if (++w->in_chunk >= w->chunk_events) {
		w->in_chunk = 0;
		w->chunks++;
	}
}

int trace_writer_alloc(struct trace_writer *w, int64_t time_ns, const struct trace_block *block,
		       uint64_t *serial)
{
	CHECK(block->node < w->tables->nodes && block->thread < w->tables->threads);
	CHECK(block->labels < w->tables->label_sets);
	CHECK(w->options.mode != MAYFLY_EXACT || (!block->hits && !block->interval_log2));
	if (w->error)
		return w->error;
	if (w->samples == w->sample_size) {
		w->sample_size = 2 * w->sample_size + 64;
		w->sample = realloc(w->sample, w->sample_size * sizeof(*w->sample));
	}
	*serial = w->samples;
	w->sample[w->samples++] = (struct sample){*block, time_ns, INT64_MAX, RECORDING_NONE, 0, 0};
	double_event(w, time_ns, *serial, false);
	return 0;
}

int trace_writer_free(struct trace_writer *w, int64_t time_ns, uint64_t serial,
		      const struct trace_block *block, uint32_t thread, uint32_t flags)
{
	struct sample *s;

	if (w->error)
		return w->error;
	CHECK(serial < w->samples && thread < w->tables->threads);
	if (serial >= w->samples)
		return 0;
	s = &w->sample[serial];
	CHECK(s->free_ns == INT64_MAX, "%llu is freed twice", (unsigned long long)serial);
	CHECK(s->block.size == block->size && s->block.node == block->node &&
	      s->block.thread == block->thread && s->block.hits == block->hits &&
	      s->block.interval_log2 == block->interval_log2 && s->block.flags == block->flags &&
	      s->block.labels == block->labels);
	s->free_ns = time_ns;
	s->free_thread = thread;
	s->free_flags = flags;
	w->frees++;
	double_event(w, time_ns, serial, true);
	return 0;
}

int trace_writer_promote(struct trace_writer *w, int64_t time_ns, uint64_t serial)
{
	CHECK(time_ns >= w->now_ns);
	w->now_ns = time_ns;
	CHECK(serial < w->samples && w->sample[serial].free_ns == INT64_MAX);
	if (serial < w->samples)
		w->sample[serial].promoted_ns = time_ns;
	return w->error;
}

int trace_writer_counter(struct trace_writer *w, int64_t time_ns, uint32_t name, uint32_t unit,
			 double value)
{
	CHECK(name < w->tables->strings && unit < w->tables->strings);
	if (w->counters < sizeof(w->counter) / sizeof(*w->counter)) {
		w->counter[w->counters].time_ns = time_ns;
		w->counter[w->counters].name = name;
		w->counter[w->counters].unit = unit;
		w->counter[w->counters++].value = value;
	}
	return w->error;
}

int trace_writer_track(struct trace_writer *w, const struct trace_track *e)
{
	const struct recording_track_type *type = &w->tables->track_type[e->type];
	struct track t = {e->time_ns, e->kind, e->type, e->thread, e->node, {0}, w->events};

	CHECK(e->type < w->tables->track_types && e->thread < w->tables->threads &&
	      e->node < w->tables->nodes);
	CHECK(e->time_ns >= w->now_ns);
	w->now_ns = e->time_ns;
	for (uint32_t i = 0; i < type->fields && e->kind != MAYFLY_TRACK_END; i++) {
		CHECK(type->field[i].type != MAYFLY_FIELD_TEXT || e->value[i] < w->tables->strings);
		t.value[i] = e->value[i];
	}
	if (w->tracks == w->track_size) {
		w->track_size = 2 * w->track_size + 64;
		w->track = realloc(w->track, w->track_size * sizeof(*w->track));
	}
	w->track[w->tracks++] = t;
	return w->error;
}

int trace_writer_fragments(struct trace_writer *w, uint32_t kind, struct fragments *f)
{
	for (size_t i = 0; i < f->entries; i++)
		CHECK(f->entry[i].node < w->tables->nodes);
	w->measured[kind]++;
	w->pages = f->pages;
	fragments_free(f);
	return w->error;
}

int trace_writer_time(struct trace_writer *w, int64_t time_ns)
{
	CHECK(time_ns >= w->now_ns);
	w->now_ns = time_ns;
	return w->error;
}

int trace_writer_flush(struct trace_writer *w)
{
	w->chunks += w->in_chunk != 0;
	w->in_chunk = 0;
	return w->error;
}

int trace_writer_finish(struct trace_writer *w)
{
	return w->error;
}

void trace_writer_free_all(struct trace_writer *w)
{
	if (!w)
		return;
	free(w->sample);
	free(w->event);
	free(w->track);
	free(w);
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	return w->events;
}

/* As if they compressed well. */
uint64_t trace_writer_track_bytes(const struct trace_writer *w)
{
	return 2 * w->tracks;
}

uint64_t trace_writer_chunks(const struct trace_writer *w)
{
	return w->chunks;
}

uint64_t trace_writer_allocs(const struct trace_writer *w)
{
	return w->samples;
}

size_t trace_writer_waiting(const struct trace_writer *w)
{
	return w->in_chunk;
}

/* For spool_convert(), which this program does not call with it. */
int trace_buffer_sink(void *buffer, const void *bytes, size_t size)
{
	(void)buffer;
	(void)bytes;
	(void)size;
	return 1;
}

#endif
