/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c: one chunk of events, from its bytes to events and blocks. */
#include "trace/read/decode.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void decoder_fail(struct decoder *d, int error)
{
	if (!d->error)
		d->error = error;
}

/* ---- memory ---- */

bool decode_room(uint64_t *budget, int *error, void *array, size_t room, size_t want, size_t item)
{
	void **at = array;
	uint64_t bytes = (uint64_t)want * item;

	free(*at);
	*at = NULL;
	*budget += (uint64_t)room * item;
	if (bytes > *budget) {
		*error = MAYFLY_E_TOO_LARGE;
		return false;
	}
	*at = malloc((size_t)bytes + 1);
	if (!*at) {
		*error = MAYFLY_E_MEMORY;
		return false;
	}
	*budget -= bytes;
	return true;
}

static bool make_rooms(struct decoder *d, size_t allocs, size_t frees)
{
	if (allocs > d->own_room || !d->own) {
		size_t room = d->own_room;

		d->own_room = 0;
		if (!decode_room(&d->budget, &d->error, &d->own, room, allocs, sizeof(*d->own)) ||
		    !decode_room(&d->budget, &d->error, &d->own_ns, room, allocs,
				 sizeof(*d->own_ns)))
			return false;
		d->own_room = allocs;
	}
	if (frees > d->named_room || !d->named) {
		size_t room = d->named_room;

		d->named_room = 0;
		if (!decode_room(&d->budget, &d->error, &d->named, room, frees,
				 sizeof(*d->named)) ||
		    !decode_room(&d->budget, &d->error, &d->early, room, frees, sizeof(*d->early)))
			return false;
		d->named_room = frees;
	}
	return true;
}

bool decoder_begin(struct decoder *d, const struct mayfly_trace *t)
{
	d->t = t;
	d->budget = trace_budget(t);
	d->reader.budget = &d->budget;
	d->reader.compress = compress_new(0);
	return d->reader.compress != NULL;
}

void decoder_clear(struct decoder *d)
{
	chunk_end(&d->reader);
	memset(&d->e, 0, sizeof(d->e));
	d->own_live = d->earlies = 0;
}

void decoder_end(struct decoder *d)
{
	chunk_end(&d->reader);
	compress_free(d->reader.compress);
	free(d->own);
	free(d->own_ns);
	free(d->named);
	free(d->early);
}

/* ---- a chunk ---- */

/* The chunk must be as the index said. */
static bool as_expected(const struct event_batch *e, const struct trace_chunk *chunk)
{
	size_t inherited = 0;

	if (e->events != chunk->events || e->allocs != chunk->allocs ||
	    e->first_sample != chunk->first_alloc)
		return false;
	for (size_t i = 0; i < e->allocs; i++)
		inherited += (e->alloc_flags[i] & MAYFLY_FLAG_INHERITED) != 0;
	return inherited == chunk->inherited;
}

/* Times of events may be rounded; those of chunks are not, so events are moved to lie between them.
 * */
static void bound_times(const struct event_batch *e, const struct trace_chunk *chunk)
{
	for (size_t i = 0; i < e->events && e->time_ns[i] < chunk->from_ns; i++)
		e->time_ns[i] = chunk->from_ns;
	for (size_t i = e->events; i > 0 && e->time_ns[i - 1] > chunk->to_ns; i--)
		e->time_ns[i - 1] = chunk->to_ns;
	if (e->events) {
		e->time_ns[0] = chunk->from_ns;
		e->time_ns[e->events - 1] = chunk->to_ns;
	}
}

void decode_block(const struct event_batch *e, size_t alloc, int64_t time_ns,
		  struct cursor_block *block)
{
	*block = (struct cursor_block){
	    .size = e->size[alloc],
	    .time_ns = time_ns,
	    .node = e->node[alloc],
	    .thread = e->thread[alloc],
	    .hits = e->hits[alloc],
	    .interval_log2 = e->interval_log2[alloc],
	    .flags = e->alloc_flags[alloc],
	    .labels = e->labels ? e->labels[alloc] : 0,
	};
}

#define AHEAD 16 /* frees ahead, whose blocks the processor shall fetch */

static void look_ahead(const struct decoder *d, size_t freed, size_t frees)
{
	const struct event_batch *e = &d->e;

	if (freed + AHEAD < frees && e->freed[freed + AHEAD] >= e->first_sample)
		__builtin_prefetch(&d->own[e->freed[freed + AHEAD] - e->first_sample], 1);
}

/* False: no live block of the first `allocs` has this number. */
static bool match_free(struct decoder *d, size_t freed, size_t allocs)
{
	const struct event_batch *e = &d->e;
	struct cursor_block *block;
	size_t i;

	if (e->freed[freed] < e->first_sample) {
		d->early[d->earlies++] = (uint32_t)freed;
		return true;
	}
	i = (size_t)(e->freed[freed] - e->first_sample);
	if (i >= allocs)
		return false;
	block = &d->own[i];
	if (block->node == BLOCK_GONE)
		return false;
	d->named[freed] = *block;
	block->node = BLOCK_GONE;
	d->own_live--;
	return true;
}

static void match_frees(struct decoder *d)
{
	const struct event_batch *e = &d->e;
	size_t alloc = 0, freed = 0, frees = e->events - e->allocs;

	if (!make_rooms(d, e->allocs, frees))
		return;
	d->own_live = e->allocs;
	for (size_t i = 0; i < e->events; i++) {
		if (!e->is_free[i]) {
			d->own_ns[alloc] = e->time_ns[i];
			decode_block(e, alloc, e->time_ns[i], &d->own[alloc]);
			alloc++;
		} else {
			look_ahead(d, freed, frees);
			if (!match_free(d, freed, alloc)) {
				decoder_fail(d, MAYFLY_E_DAMAGED);
				return;
			}
			freed++;
		}
	}
	assert(alloc == e->allocs && freed == frees && d->own_live <= e->allocs);
}

void decoder_run(struct decoder *d)
{
	const struct trace_chunk *chunk = d->chunk;
	const struct event_context context = trace_context(d->t, chunk);

	if (chunk_find(d->t->data + chunk->offset, d->t->size - chunk->offset, false, &d->header))
		decoder_fail(d, MAYFLY_E_DAMAGED);
	else if (!chunk_begin(&d->reader, &d->header) || !events_read(&d->reader, &context, &d->e))
		decoder_fail(d, d->reader.error);
	else if (!as_expected(&d->e, chunk))
		decoder_fail(d, MAYFLY_E_DAMAGED);
	if (d->error)
		return;
	bound_times(&d->e, chunk);
	match_frees(d);
}
