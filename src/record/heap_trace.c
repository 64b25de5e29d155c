/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of a heap as a trace: see heap_trace.h. */
#include "record/heap_trace.h"

#include "record/heap_held.h"

/* What nobody has seen: the picture is of one moment. */
#define ABSENT                                                                                     \
	(MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_ALLOCATED |                      \
	 MAYFLY_ABSENT_TEMPORARY | MAYFLY_ABSENT_LIFETIMES | MAYFLY_ABSENT_THREADS |               \
	 MAYFLY_ABSENT_START)

static struct recording *new_tables(const struct picture *p)
{
	struct recording *t = recording_new();

	if (!t)
		return NULL;
	t->info.pid = (uint32_t)p->pid;
	t->info.interval_bytes = 1;
	t->info.complete = true;
	t->info.ending = MAYFLY_END_UNKNOWN;
	t->info.absent = ABSENT | (p->pid ? 0 : MAYFLY_ABSENT_PROCESS);
	t->program = recording_name(t, p->program);
	recording_thread(t, 0, 0);
	return t;
}

static int write_blocks(struct trace_writer *w, const struct heap_blocks *b)
{
	size_t region = 0;
	uint64_t serial;
	int error = 0;

	for (uint32_t i = 0; i < b->count && !error; i++) {
		region = heap_blocks_region(b, i, region);
		error = trace_writer_alloc(
		    w, 0, &(struct trace_block){.size = heap_block_bytes(b, &b->region[region], i)},
		    &serial);
	}
	return error;
}

static int write_all(struct trace_writer *w, const struct picture *p)
{
	struct mayfly_picture held;
	int error = write_blocks(w, &p->graph.blocks);

	if (error)
		return error;
	if (!heap_held_all(&held, p))
		return MAYFLY_E_MEMORY;
	error = trace_writer_picture(w, &held);
	heap_held_free(&held);
	return error ? error : trace_writer_finish(w);
}

int heap_trace_write(const struct picture *p, struct trace_buffer *to)
{
	const struct trace_writer_options how = {
	    .mode = MAYFLY_EXACT,
	    .level = trace_writer_level(p->graph.blocks.count),
	};
	struct recording *tables = new_tables(p);
	struct trace_writer *w = NULL;
	int error = MAYFLY_E_MEMORY;

	*to = (struct trace_buffer){0};
	if (tables)
		w = trace_writer_new(&how, tables, trace_buffer_sink, to);
	if (w)
		error = write_all(w, p);
	trace_writer_free_all(w);
	recording_free(tables);
	return error;
}
