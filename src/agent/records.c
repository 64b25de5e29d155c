/* SPDX-License-Identifier: Apache-2.0 */
/* Records about blocks: see records.h. Those of exact mode are in exact.c. */
#include "agent/records.h"

#include <string.h>

#include "agent/labels.h"

/* A SAMPLE with the walk's latest capture, for which there is room. */
static void put_sample(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size, uint32_t hits,
		       uint32_t flags)
{
	uint32_t common = spool_common(w), depth = spool_depth(w);

	*w->at++ = SPOOL_SAMPLE;
	*w->at++ = (uint8_t)flags;
	spool_put_time(w, ticks);
	spool_put_id(w, id);
	spool_put_u(w, size);
	spool_put_u(w, hits);
	spool_put_u(w, w->depth - common);
	spool_put_u(w, depth - common);
	w->at = spool_put_stack(w, w->at, common);
	w->depth = depth;
	w->stack_known = true;
	w->ocaml_known = false;
	spool_check_clock(w, ticks);
	spool_commit(w);
	atomic_store_explicit(&spool_header->last_ticks, ticks, memory_order_relaxed);
	if (w->walk.truncated)
		atomic_fetch_add_explicit(&spool_header->truncated_stacks, 1, memory_order_relaxed);
}

static bool sample_room(struct writer *w)
{
	if (spool_stack_room(w, 2 * SPOOL_RECORD_BYTES) &&
	    labels_ready(w, 2 * SPOOL_RECORD_BYTES + spool_depth(w) * SPOOL_FRAME_BYTES))
		return true;
	spool_drop_sample(w);
	return false;
}

bool records_sample(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size, uint32_t hits,
		    uint32_t flags)
{
	uint32_t interval_log2 = self.sampler.interval_log2;

	if (!sample_room(w))
		return false;
	if (w->interval_log2 != interval_log2) {
		w->interval_log2 = interval_log2;
		*w->at++ = SPOOL_INTERVAL;
		*w->at++ = (uint8_t)interval_log2;
	}
	put_sample(w, ticks, id, size, hits, flags);
	return true;
}

bool records_mapping(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size, uint32_t flags)
{
	if (!sample_room(w))
		return false;
	put_sample(w, ticks, id, size, 0, flags | SPOOL_HEAP_MAPPING << SPOOL_FLAG_HEAP_SHIFT);
	return true;
}

void records_shrink(struct writer *w, uint64_t ticks, uint64_t id, uint64_t bytes, uint32_t flags)
{
	if (!spool_room(w, SPOOL_RECORD_BYTES)) {
		spool_drop_free(w);
		return;
	}
	*w->at++ = SPOOL_SHRINK;
	*w->at++ = (uint8_t)flags;
	spool_put_time(w, ticks);
	spool_put_id(w, id);
	spool_put_u(w, bytes);
	spool_commit(w);
}

void records_free(struct writer *w, uint64_t ticks, uint64_t id, uint32_t flags)
{
	if (!spool_room(w, SPOOL_RECORD_BYTES)) {
		spool_drop_free(w);
		return;
	}
	*w->at++ = SPOOL_FREE;
	*w->at++ = (uint8_t)flags;
	spool_put_time(w, ticks);
	spool_put_id(w, id);
	spool_commit(w);
}

static void note_truncated(const uint64_t *stack, uint32_t depth)
{
	if (depth && stack[0] & SPOOL_MARK_BIT)
		atomic_fetch_add_explicit(&spool_header->truncated_stacks, 1, memory_order_relaxed);
}

bool records_ocaml_sample(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size,
			  uint64_t hits, uint32_t heap, uint32_t common)
{
	uint32_t depth = w->ocaml_depth;
	size_t bytes = SPOOL_RECORD_BYTES + depth * SPOOL_FRAME_BYTES;

	if (!spool_room(w, bytes) || !labels_ready(w, bytes)) {
		w->ocaml_known = false;
		spool_drop_sample(w);
		return false;
	}
	if (!w->ocaml_known)
		common = 0;
	*w->at++ = SPOOL_SAMPLE;
	*w->at++ = (uint8_t)(heap << SPOOL_FLAG_HEAP_SHIFT);
	spool_put_time(w, ticks);
	spool_put_id(w, id);
	spool_put_u(w, size);
	spool_put_u(w, hits);
	spool_put_u(w, w->depth - common);
	spool_put_u(w, depth - common);
	for (uint32_t i = common; i < depth; i++)
		w->at = spool_put_frame(w, w->at, w->ocaml_stack[i]);
	w->depth = depth;
	w->ocaml_known = true;
	w->stack_known = false;
	spool_check_clock(w, ticks);
	spool_commit(w);
	atomic_store_explicit(&spool_header->last_ticks, ticks, memory_order_relaxed);
	note_truncated(w->ocaml_stack, depth);
	return true;
}

void records_promote(struct writer *w, uint64_t ticks, uint64_t id)
{
	if (!spool_room(w, SPOOL_RECORD_BYTES))
		return;
	*w->at++ = SPOOL_PROMOTE;
	spool_put_time(w, ticks);
	spool_put_id(w, id);
	spool_commit(w);
}

void records_heap_end(struct writer *w, uint64_t ticks)
{
	if (!spool_room(w, SPOOL_RECORD_BYTES))
		return;
	*w->at++ = SPOOL_HEAP_END;
	spool_put_time(w, ticks);
	spool_commit(w);
}

void records_allocator(struct writer *w, uint64_t ticks, uint32_t whose, const uint64_t *value,
		       uint32_t count)
{
	if (!spool_room(w, 2 * SPOOL_RECORD_BYTES))
		return;
	*w->at++ = SPOOL_ALLOCATOR;
	spool_put_time(w, ticks);
	spool_put_u(w, whose);
	spool_put_u(w, count);
	for (uint32_t i = 0; i < count; i++)
		spool_put_u(w, value[i]);
	spool_commit(w);
}

#define TEXT_MOST 512u /* bytes of a function's or a file's name */

static void put_name(struct writer *w, const char *name)
{
	spool_put_text(w, name, name ? strnlen(name, TEXT_MOST) : 0);
}

void records_place(struct writer *w, uint64_t ticks, uint64_t address,
		   const struct records_place *place, uint32_t count)
{
	size_t bytes = SPOOL_RECORD_BYTES;

	for (uint32_t i = 0; i < count; i++)
		bytes += SPOOL_RECORD_BYTES + strnlen(place[i].function, TEXT_MOST) +
			 strnlen(place[i].file, TEXT_MOST);
	if (!spool_room(w, bytes))
		return;
	*w->at++ = SPOOL_PLACE;
	spool_put_time(w, ticks);
	spool_put_q(w, address);
	spool_put_u(w, count);
	for (uint32_t i = 0; i < count; i++) {
		put_name(w, place[i].function);
		put_name(w, place[i].file);
		spool_put_u(w, place[i].line);
		spool_put_u(w, place[i].first);
		spool_put_u(w, place[i].last);
	}
	spool_commit(w);
}
