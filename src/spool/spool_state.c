/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all parts of the stream share: finding its writers and threads by their numbers, and giving
 * track events to the trace_writer. See spool_internal.h.
 */
#include "spool/spool_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "format/numbering.h"

/* ---- small hash tables: numbers to indices ---- */

static size_t number_slot(const uint32_t *slot, size_t slots, uint32_t number,
			  uint32_t (*number_at)(const struct spool_stream *s, uint32_t index),
			  const struct spool_stream *s)
{
	size_t i = (number * 0x9e3779b1u >> 4) & (slots - 1);

	while (slot[i] && number_at(s, slot[i] - 1) != number)
		i = (i + 1) & (slots - 1);
	return i;
}

/* Room for one more number. */
static bool grow_number_slots(struct spool_stream *s, uint32_t **slot, size_t *slots, size_t items,
			      uint32_t (*number_at)(const struct spool_stream *s, uint32_t index))
{
	size_t size = *slots ? 2 * *slots : 64;
	uint32_t *fresh;

	if (items < *slots / 2)
		return true;
	fresh = calloc(size, sizeof(*fresh));
	if (!fresh)
		return false;
	for (size_t i = 0; i < items; i++)
		fresh[number_slot(fresh, size, number_at(s, (uint32_t)i), number_at, s)] =
		    (uint32_t)i + 1;
	free(*slot);
	*slot = fresh;
	*slots = size;
	return true;
}

/* ---- writers ---- */

static uint32_t writer_number(const struct spool_stream *s, uint32_t index)
{
	return s->writer[index]->number;
}

struct stream_writer *stream_find_writer(struct spool_stream *s, uint32_t number)
{
	struct stream_writer *w;
	size_t slot;

	if (!grow_number_slots(s, &s->writer_slot, &s->writer_slots, s->writers, writer_number))
		return NULL;
	slot = number_slot(s->writer_slot, s->writer_slots, number, writer_number, s);
	if (s->writer_slot[slot])
		return s->writer[s->writer_slot[slot] - 1];
	if (s->writers == s->writers_size) {
		struct stream_writer **bigger;
		size_t size = s->writers_size;

		if (!array_reserve(&s->writer, &s->writers_size, s->writers, sizeof(*s->writer)))
			return NULL;
		bigger = realloc(s->heap, s->writers_size * sizeof(*s->heap));
		if (!bigger) {
			s->writers_size = size;
			return NULL;
		}
		s->heap = bigger;
	}
	assert(s->writers < s->writers_size && s->writers < s->writer_slots);
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->number = number;
	w->thread = RECORDING_NONE;
	s->writer[s->writers++] = w;
	s->writer_slot[slot] = (uint32_t)s->writers;
	return w;
}

/* ---- threads ---- */

static uint32_t thread_number(const struct spool_stream *s, uint32_t index)
{
	return s->thread[index].tid;
}

static struct stream_thread *find_named(struct spool_stream *s, uint32_t tid)
{
	size_t slot;

	if (!grow_number_slots(s, &s->thread_slot, &s->thread_slots, s->threads, thread_number) ||
	    !array_reserve(&s->thread, &s->threads_size, s->threads, sizeof(*s->thread)))
		return NULL;
	slot = number_slot(s->thread_slot, s->thread_slots, tid, thread_number, s);
	if (!s->thread_slot[slot]) {
		s->thread[s->threads++] = (struct stream_thread){tid, RECORDING_NONE, 0, false};
		s->thread_slot[slot] = (uint32_t)s->threads;
	}
	return &s->thread[s->thread_slot[slot] - 1];
}

static void name_thread(struct spool_stream *s, uint32_t tid, const void *name, size_t length,
			bool told)
{
	struct stream_thread *t = find_named(s, tid);
	uint32_t string = length ? recording_string(s->tables, name, length) : 0;

	if (!t || string == RECORDING_NONE) {
		stream_fail(s, MAYFLY_E_MEMORY);
		return;
	}
	if (!string || (t->told && !told))
		return;
	t->told = told;
	t->name = string;
	if (t->index != RECORDING_NONE)
		s->tables->thread[t->index].name = string;
}

void stream_name_thread(struct spool_stream *s, uint32_t tid, const void *name, size_t length)
{
	name_thread(s, tid, name, length, true);
}

int spool_stream_name(struct spool_stream *s, uint32_t tid, const char *name)
{
	if (!s->error)
		name_thread(s, tid, name, strlen(name), false);
	return s->error;
}

uint32_t stream_index_thread(struct spool_stream *s, uint32_t tid)
{
	struct stream_thread *t = find_named(s, tid);

	if (!t) {
		stream_fail(s, MAYFLY_E_MEMORY);
		return 0;
	}
	if (t->index == RECORDING_NONE) {
		uint32_t index = recording_thread(s->tables, tid, t->name);
		size_t size = s->last_keys;

		if (index == RECORDING_NONE ||
		    !array_reserve(&s->last_key, &size, index, sizeof(*s->last_key))) {
			stream_fail(s, MAYFLY_E_MEMORY);
			return 0;
		}
		s->last_keys = size;
		s->last_key[index] = 0;
		t->index = index;
	}
	return t->index;
}

/* ---- track events ---- */

void stream_write_track(struct spool_stream *s, const struct trace_track *event)
{
	int error = trace_writer_track(s->trace, event);

	if (error)
		stream_fail(s, error);
}

void stream_hand_track(struct spool_stream *s, struct stream_writer *w, struct trace_track *event)
{
	if (s->error)
		return;
	event->time_ns = stream_moment(s, w->ticks);
	event->thread = stream_this_thread(s, w);
	stream_write_track(s, event);
}
