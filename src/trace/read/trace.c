/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all files that read a trace share: memory within a budget, the state of the tables at a
 * chunk, and access to what the tables hold.
 *
 * Hostile input: all memory that depends on the file is taken from a budget of 64 MiB + 4096 times
 * the size of the file, one for opening and another for each cursor.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/read/reader.h"

#define BUDGET_BASE  ((uint64_t)64 << 20)
#define BUDGET_TIMES 4096

/* ---- memory ---- */

uint64_t trace_budget(const struct mayfly_trace *t)
{
	return BUDGET_BASE + BUDGET_TIMES * (uint64_t)t->size;
}

bool trace_grow(uint64_t *budget, int *error, struct kept_array g, uint64_t more)
{
	void **at = g.array;
	uint64_t want, size = (uint64_t)*g.room + *g.room / 2, bytes;
	uint8_t *bigger;

	if (__builtin_add_overflow((uint64_t)g.used, more, &want)) {
		*error = MAYFLY_E_TOO_LARGE;
		return false;
	}
	if (want <= *g.room && *g.room)
		return true;
	if (size < want)
		size = want;
	size += size == 0;
	if (__builtin_mul_overflow(size - *g.room, (uint64_t)g.item, &bytes) || bytes > *budget ||
	    size > SIZE_MAX / g.item) {
		*error = MAYFLY_E_TOO_LARGE;
		return false;
	}
	bigger = realloc(*at, (size_t)size * g.item);
	if (!bigger) {
		*error = MAYFLY_E_MEMORY;
		return false;
	}
	if (!g.dirty)
		memset(bigger + *g.room * g.item, 0, (size_t)bytes);
	*budget -= bytes;
	*at = bigger;
	*g.room = (size_t)size;
	return true;
}

struct event_context trace_context(const struct mayfly_trace *t, const struct trace_chunk *chunk)
{
	return (struct event_context){
	    .chain_end = t->chain_end,
	    .chains = chunk->chains,
	    .first_chain = chunk->first_chain,
	    .node = t->node,
	    .nodes = chunk->nodes - 1,
	    .threads = chunk->threads,
	    .frames = chunk->frames,
	    .label_sets = (uint32_t)t->info.label_sets,
	    .labels_lost = t->lost.labels,
	    .exact = t->info.mode == MAYFLY_EXACT,
	};
}

/* ---- what the trace is ---- */

const struct mayfly_info *mayfly_trace_info(const struct mayfly_trace *trace)
{
	return &trace->info;
}

const struct mayfly_module *mayfly_trace_module(const struct mayfly_trace *trace, size_t index)
{
	return index < trace->info.modules ? &trace->module[index] : NULL;
}

const struct mayfly_thread *mayfly_trace_thread(const struct mayfly_trace *trace, size_t index)
{
	return index < trace->info.threads ? &trace->thread[index] : NULL;
}

const struct mayfly_frame *mayfly_trace_frame(const struct mayfly_trace *trace, size_t index)
{
	return index < trace->info.frames ? &trace->frame[index] : NULL;
}

struct mayfly_node mayfly_trace_node(const struct mayfly_trace *trace, size_t index)
{
	return index < trace->info.nodes ? trace->node[index] : (struct mayfly_node){0};
}

void mayfly_trace_help(struct mayfly_trace *trace, const struct mayfly_helper *helper)
{
	trace->helper = *helper;
}

/* ---- errors ---- */

static const char *const error_text[] = {
#define MAYFLY_X(name, value, text) [-(value)] = text,
    MAYFLY_ERRORS(MAYFLY_X)
#undef MAYFLY_X
};

const char *mayfly_error_text(int error)
{
	const int known = (int)(sizeof(error_text) / sizeof(*error_text));

	return error <= 0 && error > -known ? error_text[-error] : "unknown error";
}

/* ---- what questions have found ---- */

void trace_set_finding(const struct mayfly_trace *t, void *found)
{
	/* A cache: no caller sees a difference, and no trace that is open is in constant memory. */
	_Atomic(void *) *finding = (_Atomic(void *) *)&t->finding;
	void *none = NULL;

	if (!atomic_compare_exchange_strong(finding, &none, found))
		free(found);
}

const struct trace_index *trace_set_index(const struct mayfly_trace *t, struct trace_index *index)
{
	_Atomic(struct trace_index *) *kept = (_Atomic(struct trace_index *) *)&t->index;
	struct trace_index *first = NULL;

	if (atomic_compare_exchange_strong(kept, &first, index))
		return index;
	index->free(index);
	return first;
}
