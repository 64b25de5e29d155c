/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.c: the events of several traces as one.
 *
 * A packed event, all numbers as varints:
 *
 *	(time since the event before, in the trace's unit) << 2 | kind
 *	alloc	node, thread, size, hits, interval_log2, flags, labels
 *	free	number of blocks since its allocation, thread, flags; in exact traces also node,
 *		size, flags of the allocation
 *	promote	number of blocks since its allocation
 *
 * Nodes, threads and sets of labels are the merged ones already. Track events (track_copy.h) keep
 * their places among the blocks of their trace.
 */
#include "trace/rewrite/merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "trace/read/cursor.h"
#include "base/bytes.h"
#include "format/format.h"
#include "trace/rewrite/merge_tables.h"
#include "trace/read/sums.h"
#include "trace/rewrite/track_copy.h"
#include "base/varint.h"

#define PACKED_BYTES 96			/* the most that an event takes */
#define LARGE_EVENTS 786432		/* from here on a cursor takes less memory than packing */
#define LONGEST_NS   ((int64_t)1 << 60) /* between a trace's events: more is damage */
#define LATEST_START ((int64_t)1 << 61) /* so that sums of times do not overflow */

struct event {
	uint32_t kind, thread, flags;
	int64_t time_ns;
	uint64_t number; /* of the block, in its trace */
	struct trace_block block;
};

struct source {
	int64_t start_ns, offset_ns;
	uint64_t blocks;
	/* A small trace. */
	uint8_t *packed;
	struct varint_in in;
	int64_t unit, time_ns;
	uint64_t allocs;
	/* Only for a large trace or one of snapshots, which stays open. */
	const struct mayfly_trace *trace;
	struct merge_map map;
	struct mayfly_cursor *cursor;
	struct sums_cursor *sums;
	struct sums_part part;
	struct track_copy tracks;

	struct event event; /* the next one */
	bool more;	    /* there is one, or a part */
	uint64_t events;    /* of blocks, written so far */
	uint32_t *serial;   /* of each block so far: its number in the merged trace */
	size_t serial_room;
};

/* The times of the sources' next events, side by side in memory, as they are compared all the time.
 * */
struct turn {
	int64_t time_ns;
	uint32_t source;
};

struct trace_merge {
	enum merge_align align;
	enum merge_kind kind;
	struct merge_tables tables;
	struct source *source;
	size_t sources, source_room;
	struct turn *heap; /* the source with the earliest event is first */
	size_t heaped;
	struct bytes scratch;

	struct mayfly_info info;
	bool same_command, same_program; /* of all so far */
	double ocaml_scale;		 /* 0: none has OCaml's blocks so far */
	uint64_t least_interval;
	int64_t end_ns;
	const struct mayfly_picture
	    *picture; /* of the only source, or NULL; its trace stays open */
};

/* ---- kinds ---- */

enum merge_kind merge_kind_of(const struct mayfly_info *info)
{
	if (info->absent & MAYFLY_ABSENT_ALLOCATIONS)
		return MERGE_EVENTS;
	if (info->snapshot_ns)
		return MERGE_SNAPSHOTS;
	if (info->mode == MAYFLY_EXACT && !info->thinned)
		return MERGE_EXACT;
	return info->sampler == MAYFLY_POISSON ? MERGE_POISSON : MERGE_STRATIFIED;
}

static bool is_exact(enum merge_kind kind)
{
	return kind == MERGE_EXACT || kind == MERGE_EVENTS;
}

bool merge_fits(enum merge_kind a, enum merge_kind b)
{
	if (a == b)
		return true;
	return a < MERGE_SNAPSHOTS && b < MERGE_SNAPSHOTS && (a == MERGE_EXACT || b == MERGE_EXACT);
}

static bool has_ocaml(const struct mayfly_info *info)
{
	/* A trace that was cut off does not say which heaps it has. */
	return info->ocaml_interval_bytes && (!info->heaps || info->heaps & MAYFLY_HEAPS_OCAML);
}

bool trace_merge_rates_fit(const struct trace_merge *m, const struct mayfly_trace *trace)
{
	return !m->ocaml_scale || !has_ocaml(&trace->info) || m->ocaml_scale == trace->ocaml_scale;
}

bool trace_merge_would_hide(const struct mayfly_trace *trace)
{
	return overlap_would_hide(trace);
}

struct trace_merge *trace_merge_new(enum merge_align align)
{
	struct trace_merge *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->align = align;
	if (!merge_tables_begin(&m->tables)) {
		free(m);
		return NULL;
	}
	return m;
}

static void free_source(struct source *s)
{
	free(s->packed);
	merge_map_free(&s->map);
	mayfly_cursor_close(s->cursor);
	sums_cursor_close(s->sums);
	track_copy_end(&s->tracks);
	free(s->serial);
	*s = (struct source){0};
}

void trace_merge_free(struct trace_merge *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->sources; i++)
		free_source(&m->source[i]);
	free(m->source);
	free(m->heap);
	bytes_free(&m->scratch);
	merge_tables_end(&m->tables);
	free(m);
}

/* ---- events of a cursor ---- */

/* The scale of an interval, 1 to 2: the interval is 2^log2 or, in OCaml's heaps, that times the
 * scale. */
static uint8_t log2_of(double interval)
{
	return interval < 2 ? 0 : (uint8_t)(63 - __builtin_clzll((uint64_t)interval));
}

/* 1: source->event is the next one; 0: no more; negative: error. */
static int cursor_event(struct source *s, const struct merge_map *map)
{
	struct mayfly_event e;
	int more = mayfly_cursor_next(s->cursor, &e);

	if (more != 1)
		return more;
	s->event = (struct event){
	    .kind = e.kind,
	    .thread = map->thread[e.thread],
	    .flags = e.flags,
	    .time_ns = e.time_ns,
	    .number = e.sample,
	    .block =
		{
		    .size = e.size,
		    .node = map->node[e.node],
		    .thread = map->thread[e.alloc_thread],
		    .hits = e.hits,
		    .interval_log2 = log2_of(e.interval),
		    .flags = e.kind == MAYFLY_ALLOC ? (uint8_t)e.flags
						    : (uint8_t)(e.heap << MAYFLY_FLAG_HEAP_SHIFT),
		    .labels = s->tracks.labels[e.labels],
		},
	};
	return 1;
}

/* ---- packing ---- */

static size_t pack_event(uint8_t *to, const struct source *s, const struct event *e, bool exact)
{
	size_t used =
	    varint_store(to, (uint64_t)((e->time_ns - s->time_ns) / s->unit) << 2 | e->kind);

	if (e->kind == MAYFLY_ALLOC) {
		used += varint_store(to + used, e->block.node);
		used += varint_store(to + used, e->block.thread);
		used += varint_store(to + used, e->block.size);
		used += varint_store(to + used, e->block.hits);
		used += varint_store(to + used, e->block.interval_log2);
		used += varint_store(to + used, e->block.flags);
		used += varint_store(to + used, e->block.labels);
		return used;
	}
	used += varint_store(to + used, s->allocs - e->number);
	if (e->kind == MAYFLY_PROMOTE)
		return used;
	used += varint_store(to + used, e->thread);
	used += varint_store(to + used, e->flags);
	if (exact) {
		used += varint_store(to + used, e->block.node);
		used += varint_store(to + used, e->block.size);
		used += varint_store(to + used, e->block.flags);
	}
	return used;
}

/* Times of sampled traces are whole units, except those before the start. */
static int64_t unit_of(const struct mayfly_trace *trace)
{
	return is_exact(merge_kind_of(&trace->info)) ? 1 : TRACE_UNIT_NS;
}

static int pack_source(struct trace_merge *m, struct source *s, const struct merge_map *map,
		       bool exact)
{
	struct bytes *all = &m->scratch;
	bool first = true;
	int more;

	all->used = 0;
	while ((more = cursor_event(s, map)) == 1) {
		const struct event *e = &s->event;
		uint8_t *to = bytes_extend(all, PACKED_BYTES);

		if (!to)
			return MAYFLY_E_MEMORY;
		if (first)
			s->start_ns = s->time_ns = e->time_ns;
		first = false;
		if ((uint64_t)e->time_ns - (uint64_t)s->start_ns > LONGEST_NS)
			return MAYFLY_E_DAMAGED;
		all->used += pack_event(to, s, e, exact);
		s->time_ns += (e->time_ns - s->time_ns) / s->unit * s->unit;
		s->allocs += e->kind == MAYFLY_ALLOC;
	}
	if (more)
		return more;
	s->packed = malloc(all->used ? all->used : 1);
	if (!s->packed)
		return MAYFLY_E_MEMORY;
	if (all->used)
		memcpy(s->packed, all->at, all->used);
	s->in = varint_begin(s->packed, all->used);
	s->time_ns = s->start_ns;
	s->allocs = 0;
	return 0;
}

static int unpack(struct source *s, bool exact)
{
	struct varint_in *in = &s->in;
	uint64_t head;
	struct event *e = &s->event;

	if (varint_left(in) == 0)
		return 0;
	head = varint_u(in);
	*e = (struct event){.kind = head & 3};
	s->time_ns += (int64_t)(head >> 2) * s->unit;
	e->time_ns = s->time_ns;
	if (e->kind == MAYFLY_ALLOC) {
		e->block.node = (uint32_t)varint_u(in);
		e->block.thread = (uint32_t)varint_u(in);
		e->block.size = varint_u(in);
		e->block.hits = (uint32_t)varint_u(in);
		e->block.interval_log2 = (uint8_t)varint_u(in);
		e->block.flags = (uint8_t)varint_u(in);
		e->block.labels = (uint32_t)varint_u(in);
		e->number = s->allocs++;
		return 1;
	}
	e->number = s->allocs - varint_u(in);
	if (e->kind == MAYFLY_PROMOTE)
		return 1;
	e->thread = (uint32_t)varint_u(in);
	e->flags = (uint32_t)varint_u(in);
	if (exact) {
		e->block.node = (uint32_t)varint_u(in);
		e->block.size = varint_u(in);
		e->block.flags = (uint8_t)varint_u(in);
	}
	return 1;
}

/* ---- what a merged trace says of itself ---- */

static bool equal_texts(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool merge_commands(struct recording *r, const struct mayfly_info *info)
{
	uint32_t *command = calloc(info->command_count + 1, sizeof(*command));

	if (!command)
		return false;
	r->command = command;
	for (size_t i = 0; i < info->command_count; i++)
		command[i] = recording_name(r, info->command[i]);
	r->command_count = info->command_count;
	r->program = recording_name(r, info->program);
	r->entry = recording_name(r, info->entry);
	return !r->failed;
}

static bool command_stays(const struct recording *r, const struct mayfly_info *info)
{
	if (r->command_count != info->command_count)
		return false;
	for (size_t i = 0; i < r->command_count; i++)
		if (!equal_texts(recording_text(r, r->command[i]), info->command[i]))
			return false;
	return true;
}

/* The coarsest rate. All traces with OCaml blocks have the same scale. */
static void add_ocaml(struct trace_merge *m, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = &trace->info;
	bool first = !m->ocaml_scale;

	if (!has_ocaml(info))
		return;
	m->ocaml_scale = trace->ocaml_scale;
	if (!first && m->info.ocaml_interval_bytes >= info->ocaml_interval_bytes)
		return;
	m->info.ocaml_interval_bytes = info->ocaml_interval_bytes;
	/* Without a rate, as in traces without OCaml blocks, the scale is 1. */
	m->info.ocaml_rate = trace->ocaml_scale > 1 ? info->ocaml_rate : 0;
}

/* Adds times and sums. What only one process can have is kept as long as all traces agree on it. */
static bool add_info(struct trace_merge *m, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = &trace->info;
	struct recording *r = m->tables.r;
	struct mayfly_info *all = &m->info;
	/* Errors of sums are not merged. */
	uint32_t absent = info->absent | (trace->sum_errors ? MAYFLY_ABSENT_ERRORS : 0);
	uint32_t processes = info->processes ? info->processes : 1;

	if (m->sources == 0) {
		*all = *info;
		all->processes = processes;
		all->absent = absent;
		all->ocaml_interval_bytes = 0; /* only from traces with OCaml blocks: add_ocaml() */
		all->ocaml_rate = 0;
		all->memtrace_version = all->memtrace_domain = 0;
		m->same_program = m->same_command = true;
		m->least_interval = info->interval_bytes;
		return merge_commands(r, info);
	}
	m->same_command &= command_stays(r, info);
	m->same_program &= equal_texts(recording_text(r, r->program), info->program);
	if (all->ending != info->ending || all->ending_code != info->ending_code) {
		all->ending = MAYFLY_END_UNKNOWN;
		all->ending_code = 0;
	}
	if (!all->python_end_ns)
		all->python_end_ns = info->python_end_ns;
	if (all->start_real_ns > info->start_real_ns)
		all->start_real_ns = info->start_real_ns;
	if (all->interval_bytes < info->interval_bytes)
		all->interval_bytes = info->interval_bytes;
	if (m->least_interval > info->interval_bytes)
		m->least_interval = info->interval_bytes;
	if (all->snapshot_ns < info->snapshot_ns)
		all->snapshot_ns = info->snapshot_ns;
	if (__builtin_add_overflow(all->processes, processes, &all->processes))
		all->processes = UINT32_MAX;
	all->thinned |= info->thinned;
	all->grouped &= info->grouped;
	all->absent |= absent;
	all->complete &= info->complete;
	all->truncated_stacks += info->truncated_stacks;
	all->dropped_samples += info->dropped_samples;
	all->dropped_frees += info->dropped_frees;
	all->dropped_events += info->dropped_events;
	all->missed_frees += info->missed_frees;
	/* How much of it was there at once is not known: mapped_peak_bytes stays 0. */
	all->mapped_bytes += info->mapped_bytes;
	all->mapped_blocks += info->mapped_blocks;
	all->nested_blocks += info->nested_blocks;
	all->nested_bytes += info->nested_bytes;
	/* A parent's figures include its children's, so a sum would count some twice. */
	all->pid = all->parent_pid = 0;
	all->seed = all->program_cpu_ns = all->program_max_rss_bytes = 0;
	return true;
}

/* ---- adding ---- */

static struct source *new_source(struct trace_merge *m)
{
	if (!array_reserve(&m->source, &m->source_room, m->sources, sizeof(*m->source)))
		return NULL;
	m->source[m->sources] = (struct source){0};
	return &m->source[m->sources];
}

static int open_events(struct source *s, const struct mayfly_trace *trace)
{
	int error = mayfly_cursor_open(trace, &s->cursor);

	if (!error)
		mayfly_cursor_promotions(s->cursor);
	return error;
}

/* Converts a time of the source's trace to one of the merged trace. */
static int64_t offset_of(const struct trace_merge *m, const struct mayfly_info *info)
{
	int64_t start = info->start_real_ns;

	if (m->align == MERGE_FROM_START || start < 0)
		return 0;
	return start < LATEST_START ? start : LATEST_START;
}

static int add_source_events(struct trace_merge *m, struct source *s,
			     const struct mayfly_trace *trace, bool *stay)
{
	const struct mayfly_info *info = &trace->info;
	struct merge_map map;
	int error = merge_tables_add(&m->tables, trace, &map);

	if (error)
		return error;
	s->trace = trace;
	s->unit = unit_of(trace);
	error = track_copy_begin(&s->tracks, trace, m->tables.r, map.thread, map.node);
	if (error) {
		track_copy_end(&s->tracks);
		merge_map_free(&map);
		return error;
	}
	*stay = true;
	if (info->snapshot_ns) {
		s->map = map;
		return sums_cursor_open(trace, &s->sums);
	}
	error = open_events(s, trace);
	if (!error && info->samples + info->frees + info->track_events >= LARGE_EVENTS) {
		s->map = map;
		return 0;
	}
	*stay = false;
	if (!error)
		error = pack_source(m, s, &map, is_exact(merge_kind_of(info)));
	if (!error)
		error = track_copy_pack(&s->tracks);
	mayfly_cursor_close(s->cursor);
	s->cursor = NULL;
	s->trace = NULL;
	merge_map_free(&map);
	return error;
}

int trace_merge_add(struct trace_merge *m, const struct mayfly_trace *trace, bool *stay)
{
	const struct mayfly_info *info = &trace->info;
	enum merge_kind kind = merge_kind_of(info);
	struct source *s;
	int64_t end;
	int error;

	*stay = false;
	if ((m->sources && !merge_fits(m->kind, kind)) || !trace_merge_rates_fit(m, trace))
		return MAYFLY_E_RANGE;
	s = new_source(m);
	if (!s || !add_info(m, trace))
		return MAYFLY_E_MEMORY;
	add_ocaml(m, trace);
	if (m->sources == 0 || m->kind == MERGE_EXACT)
		m->kind = kind;
	s->blocks = info->samples;
	s->offset_ns = offset_of(m, info);
	end = s->offset_ns + info->duration_ns;
	if (m->sources == 0 || m->end_ns < end)
		m->end_ns = end;
	m->sources++;
	error = add_source_events(m, s, trace, stay);
	/* Alone, its blocks keep their numbers. */
	m->picture = m->sources == 1 && !error ? mayfly_trace_picture(trace) : NULL;
	*stay |= m->picture != NULL;
	if (error) {
		m->sources--;
		free_source(s);
	}
	return error;
}

/* ---- the earliest event ---- */

/* Whether a track event comes before the next event of a block. In snapshots only their times are
 * compared. */
static bool track_comes(const struct source *s)
{
	const struct track_copy *t = &s->tracks;

	if (!t->more || !s->more)
		return t->more;
	return s->sums ? t->next.time_ns <= s->part.to_ns : t->events_before <= s->events;
}

static struct turn turn_of(const struct trace_merge *m, uint32_t source)
{
	const struct source *s = &m->source[source];

	int64_t time_ns = track_comes(s) ? s->tracks.next.time_ns
			  : s->sums	 ? s->part.to_ns
					 : s->event.time_ns;

	return (struct turn){s->offset_ns + time_ns, source};
}

static inline bool earlier(const struct turn *a, const struct turn *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->source < b->source;
}

static void sift(struct trace_merge *m, size_t at)
{
	struct turn *heap = m->heap, item = heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < m->heaped && earlier(&heap[child + 1], &heap[child]))
			child++;
		if (child >= m->heaped || !earlier(&heap[child], &item))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = item;
}

/* Goes to the next event or interval; s->more says whether there is one. 0 or an error. */
static int advance_source(struct source *s)
{
	int more = s->sums     ? sums_cursor_next(s->sums, &s->part)
		   : s->cursor ? cursor_event(s, &s->map)
			       : unpack(s, s->unit == 1);

	s->more = more == 1;
	return more < 0 ? more : 0;
}

/* Every source's first event. */
static int fill_heap(struct trace_merge *m)
{
	m->heap = malloc((m->sources + 1) * sizeof(*m->heap));
	if (!m->heap)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < m->sources; i++) {
		struct source *s = &m->source[i];
		int error = advance_source(s);

		if (error)
			return error;
		if (s->more || s->tracks.more)
			m->heap[m->heaped++] = turn_of(m, (uint32_t)i);
	}
	for (size_t i = m->heaped / 2; i-- > 0;)
		sift(m, i);
	return 0;
}

/* To be called after the first source went to its next event. */
static void next_in_heap(struct trace_merge *m)
{
	uint32_t source = m->heap[0].source;
	struct source *s = &m->source[source];

	if (s->more || s->tracks.more) {
		m->heap[0] = turn_of(m, source);
	} else {
		m->tables.r->info.dropped_events += s->tracks.lost;
		free_source(s);
		m->heap[0] = m->heap[--m->heaped];
	}
	if (m->heaped)
		sift(m, 0);
}

/* ---- writing ---- */

static int write_merged_alloc(struct trace_writer *w, struct source *s, const struct event *e)
{
	uint64_t serial;
	int error = trace_writer_alloc(w, s->offset_ns + e->time_ns, &e->block, &serial);

	if (error)
		return error;
	if (!array_reserve(&s->serial, &s->serial_room, e->number, sizeof(*s->serial)))
		return MAYFLY_E_MEMORY;
	s->serial[e->number] = (uint32_t)serial;
	return 0;
}

static int write_merged_event(struct trace_writer *w, struct source *s)
{
	const struct event *e = &s->event;
	int64_t time_ns = s->offset_ns + e->time_ns;

	if (e->kind == MAYFLY_ALLOC)
		return write_merged_alloc(w, s, e);
	if (e->number >= s->serial_room)
		return MAYFLY_E_DAMAGED;
	if (e->kind == MAYFLY_PROMOTE)
		return trace_writer_promote(w, time_ns, s->serial[e->number]);
	return trace_writer_free(w, time_ns, s->serial[e->number], &e->block, e->thread, e->flags);
}

/* The counters of an interval go to the interval of the merged trace in which it ends. */
static int write_part(struct trace_writer *w, struct source *s)
{
	const struct sums_part *p = &s->part;
	int64_t time_ns = s->offset_ns + p->to_ns - 1;
	int error = 0;

	for (size_t i = 0; i < p->nodes && !error; i++) {
		struct trace_counts counts = {
		    p->allocs[i], p->alloc_bytes[i], p->frees[i],     p->free_bytes[i],
		    p->temps[i],  p->temp_bytes[i],  p->inherited[i], p->inherited_bytes[i],
		};

		error = trace_writer_count(w, time_ns, s->map.node[p->node[i]], &counts);
	}
	return error == MAYFLY_E_RANGE ? MAYFLY_E_DAMAGED : error; /* more freed than there was */
}

/* Writes the next event of a source. */
static int write_next(struct trace_writer *w, struct source *s)
{
	int error;

	if (track_comes(s))
		return track_copy_next(&s->tracks, w, s->offset_ns);
	error = s->sums ? write_part(w, s) : write_merged_event(w, s);
	s->events += !s->sums && s->event.kind != MAYFLY_PROMOTE;
	return error ? error : advance_source(s);
}

static int write_merged(struct trace_merge *m, struct trace_writer *w)
{
	int error = fill_heap(m);

	while (!error && m->heaped) {
		struct source *s = &m->source[m->heap[0].source];

		error = write_next(w, s);
		if (!error)
			next_in_heap(m);
	}
	return error;
}

/* Sources' clocks are absolute until all are known. */
static void settle_times(struct trace_merge *m)
{
	int64_t first = offset_of(m, &m->info);

	for (size_t i = 0; i < m->sources; i++)
		m->source[i].offset_ns -= first;
	m->info.duration_ns = m->end_ns - first;
}

static void settle_names(struct trace_merge *m)
{
	struct recording *r = m->tables.r;

	if (m->same_command)
		return;
	r->command_count = m->same_program && r->command_count ? 1 : 0;
	r->entry = 0;
	if (!m->same_program)
		r->program = recording_name(r, "several programs");
}

static int level_for(const struct trace_merge *m, uint64_t blocks)
{
	return is_exact(m->kind) ? TRACE_LEVEL_FAST : trace_writer_level(blocks);
}

void trace_merge_intervals(const struct trace_merge *m, uint64_t *finest, uint64_t *coarsest)
{
	*finest = m->least_interval;
	*coarsest = m->info.interval_bytes;
}

static int write_picture(const struct trace_merge *m, struct trace_writer *w)
{
	struct mayfly_picture p = *m->picture;

	p.time_ns += m->source[0].offset_ns;
	return trace_writer_picture(w, &p);
}

int trace_merge_write(struct trace_merge *m, const char *note, trace_sink *sink, void *context)
{
	struct trace_writer_options options = {
	    .mode = is_exact(m->kind) ? MAYFLY_EXACT : m->info.mode,
	    .sampler = m->kind == MERGE_POISSON ? MAYFLY_POISSON : MAYFLY_STRATIFIED,
	    .snapshot_ns = m->info.snapshot_ns,
	};
	struct trace_writer *w;
	uint64_t blocks = 0;
	int error;

	for (size_t i = 0; i < m->sources; i++)
		blocks += m->source[i].blocks;
	if (!m->sources)
		return MAYFLY_E_RANGE;
	if (blocks > UINT32_MAX && !options.snapshot_ns)
		return MAYFLY_E_TOO_LARGE;
	if (m->kind == MERGE_STRATIFIED || m->kind == MERGE_POISSON)
		options.mode = MAYFLY_SAMPLED;
	options.level = level_for(m, blocks);
	settle_times(m);
	m->tables.r->note = recording_name(m->tables.r, note);
	settle_names(m);
	m->tables.r->info = m->info;
	w = trace_writer_new(&options, m->tables.r, sink, context);
	error = w ? write_merged(m, w) : MAYFLY_E_MEMORY;
	if (!error && m->picture)
		error = write_picture(m, w);
	if (!error)
		error = trace_writer_finish(w);
	trace_writer_free_all(w);
	return error;
}
