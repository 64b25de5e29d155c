/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all parts of the stream share: finding its writers and threads by their numbers, and giving
 * track events to the trace_writer. See spool_internal.h.
 */
#include "spool/spool_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/interner.h"

/* ---- writers ---- */

struct stream_writer *stream_find_writer(struct spool_stream *s, uint32_t number)
{
	struct key key = {{number}};
	uint32_t index = interner_find(&s->writer_numbers, key);
	struct stream_writer *w;
	bool fresh;

	if (index != INTERNER_NONE)
		return s->writer[index];
	if (!array_reserve(&s->writer, &s->writers_size, s->writers, sizeof(*s->writer)) ||
	    !array_reserve(&s->heap, &s->heap_size, s->writers, sizeof(*s->heap)))
		return NULL;
	w = calloc(1, sizeof(*w));
	if (!w || interner_add(&s->writer_numbers, key, &fresh) == INTERNER_NONE) {
		free(w);
		return NULL;
	}
	assert(fresh && s->writers < s->writers_size);
	w->number = number;
	w->thread = RECORDING_NONE;
	s->writer[s->writers++] = w;
	return w;
}

/* ---- threads ---- */

static struct stream_thread *find_named(struct spool_stream *s, uint32_t tid)
{
	uint32_t index;
	bool fresh;

	if (!array_reserve(&s->thread, &s->threads_size, s->threads, sizeof(*s->thread)))
		return NULL;
	index = interner_add(&s->thread_tids, (struct key){{tid}}, &fresh);
	if (index == INTERNER_NONE)
		return NULL;
	assert(index <= s->threads);
	if (fresh)
		s->thread[s->threads++] = (struct stream_thread){tid, RECORDING_NONE, 0, false};
	return &s->thread[index];
}

static void name_thread(struct spool_stream *s, uint32_t tid, const void *name, size_t length,
			bool told)
{
	struct stream_thread *t = find_named(s, tid);
	uint32_t string = length ? recording_string(s->tables, name, length) : 0;

	if (!t) {
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

		if (!array_reserve(&s->last_key, &s->last_keys, index, sizeof(*s->last_key))) {
			stream_fail(s, MAYFLY_E_MEMORY);
			return 0;
		}
		s->last_key[index] = 0;
		t->index = index;
	}
	return t->index;
}

void stream_know_thread(struct spool_stream *s, uint32_t index)
{
	const struct recording_thread *known = &s->tables->thread[index];
	struct stream_thread *t = find_named(s, known->tid);

	if (!t || !array_reserve(&s->last_key, &s->last_keys, index, sizeof(*s->last_key))) {
		stream_fail(s, MAYFLY_E_MEMORY);
		return;
	}
	s->last_key[index] = 0;
	t->index = index;
	t->name = known->name;
}

/* ---- track events ---- */

void stream_write_track(struct spool_stream *s, const struct trace_track *event)
{
	stream_fail(s, trace_writer_track(s->trace, event));
}

void stream_hand_track(struct spool_stream *s, struct stream_writer *w, struct trace_track *event)
{
	if (s->error || s->passing)
		return;
	event->time_ns = stream_moment(s, w->ticks);
	event->thread = stream_this_thread(s, w);
	stream_write_track(s, event);
}
