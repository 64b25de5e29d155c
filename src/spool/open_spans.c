/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which spans of a thread are open. When events are missing, no span must stay open for ever: all
 * later allocations of its thread would count as made inside it.
 *
 *	begin a		a
 *	begin b		a b
 *	LOST		a? b?		they may have ended
 *	end a		-		b has ended, too: it was inside
 *
 * Where events are left out because there is no room: the end of a span is kept if its begin was
 * kept, and left out if its begin was.
 */
#include "spool/spool_internal.h"

#include <stdlib.h>
#include <string.h>

#define MOST_OPEN  1024u /* further ones are not watched */
#define LEAST_OPEN 8u

static bool span_room(struct stream_open *o)
{
	uint32_t size = o->size ? 2 * o->size : LEAST_OPEN;
	struct stream_span *span;

	if (o->count < o->size)
		return true;
	if (o->count == MOST_OPEN)
		return false;
	span = realloc(o->span, size * sizeof(*span));
	if (!span)
		return false;
	o->span = span;
	o->size = size;
	return true;
}

static void take_span_out(struct stream_open *o, uint32_t index)
{
	o->count--;
	memmove(o->span + index, o->span + index + 1, (o->count - index) * sizeof(*o->span));
}

/* Ends the spans from this one on that may have ended. */
static void end_doubted(struct spool_stream *s, struct stream_writer *w, uint32_t from)
{
	struct stream_open *o = &w->open;

	for (uint32_t i = o->count; i-- > from;) {
		if (!o->span[i].doubted)
			continue;
		if (o->span[i].kept)
			stream_hand_track(
			    s, w,
			    &(struct trace_track){.kind = SPOOL_END, .type = o->span[i].type});
		take_span_out(o, i);
	}
}

/* The innermost one of this type; o->count: there is none. */
static uint32_t find_span(const struct stream_open *o, uint32_t type)
{
	for (uint32_t i = o->count; i-- > 0;)
		if (o->span[i].type == type)
			return i;
	return o->count;
}

/* Another thread has the writer now. */
static struct stream_open *of_thread(struct stream_writer *w)
{
	if (w->open.tid != w->tid)
		w->open.count = 0;
	w->open.tid = w->tid;
	return &w->open;
}

void stream_open_begin(struct spool_stream *s, struct stream_writer *w, uint32_t type, bool kept)
{
	struct stream_open *o = of_thread(w);
	uint32_t same = find_span(o, type);

	/* More likely the next one than one inside. */
	if (same < o->count && o->span[same].doubted)
		end_doubted(s, w, same);
	if (span_room(o))
		o->span[o->count++] = (struct stream_span){.type = type, .kept = kept};
}

enum stream_end stream_open_end(struct spool_stream *s, struct stream_writer *w, uint32_t type)
{
	struct stream_open *o = of_thread(w);
	uint32_t index = find_span(o, type);
	bool kept;

	if (index == o->count)
		return STREAM_END_UNKNOWN;
	end_doubted(s, w, index + 1);
	kept = o->span[index].kept;
	take_span_out(o, index);
	return kept ? STREAM_END_KEPT : STREAM_END_LEFT_OUT;
}

void stream_open_doubt(struct stream_writer *w)
{
	for (uint32_t i = 0; i < w->open.count; i++)
		w->open.span[i].doubted = true;
}
