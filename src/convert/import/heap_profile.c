/* SPDX-License-Identifier: Apache-2.0 */
/* Converts heap profiles to traces: see heap_profile.h. */
#include "convert/import/heap_profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"

#define NONE RECORDING_NONE

#define NODE_COST 128 /* bytes of a node in a recording's tables, which double as they grow */

/* With more samples they are not written as events: their error bars would be negligible. */
#define SAMPLES_MAX ((uint64_t)2 << 20)

void heap_profile_begin(struct heap_profile *p, struct import *in)
{
	*p = (struct heap_profile){.in = in};
	recording_thread(in->tables, 0, 0);
}

void heap_profile_end(struct heap_profile *p)
{
	interner_free(&p->named);
	free(p->frame);
	free(p->row);
	free(p->point);
}

#define NAMED_COST 160 /* bytes of a named frame, besides what all frames take */

uint32_t heap_profile_named(struct heap_profile *p, uint32_t module,
			    const struct recording_location *place)
{
	const struct key key = {{(uint64_t)place->function << 32 | place->file,
				 (uint64_t)place->line << 32 | module, place->first_char}};
	uint32_t number, frame;
	bool is_new = false;

	number = interner_add(&p->named, key, &is_new);
	if (number == INTERNER_NONE) {
		import_fail(p->in, MAYFLY_E_MEMORY);
		return 0;
	}
	/* Addresses that no code has. */
	frame = import_frame(p->in, module, UINT64_MAX - number);
	if (is_new) {
		import_spend(p->in, NAMED_COST);
		import_function(p->in->tables, frame, place);
	}
	return frame;
}

void heap_profile_frame(struct heap_profile *p, uint32_t frame)
{
	IMPORT_APPEND(p->in, p->frame, p->frames, p->frame_room, frame);
}

void heap_profile_point(struct heap_profile *p, const struct heap_point *point)
{
	IMPORT_APPEND(p->in, p->point, p->points, p->point_room, *point);
}

void heap_profile_row(struct heap_profile *p, const struct heap_figures *figures)
{
	const struct heap_row row = {p->row_first, (uint32_t)(p->frames - p->row_first),
				     (uint32_t)(p->points - p->row_first_point), p->row_first_point,
				     *figures};

	p->row_first = p->frames;
	p->row_first_point = p->points;
	IMPORT_APPEND(p->in, p->row, p->rows, p->row_room, row);
}

/* ---- stacks ---- */

/* Functions by which programs enter an allocator that is linked into them. */
static bool is_entry(const char *name)
{
	static const char *const entries[] = {
	    "malloc",	  "calloc",	 "realloc",	  "memalign",	  "posix_memalign",
	    "valloc",	  "pvalloc",	 "aligned_alloc", "reallocarray", "mallocx",
	    "rallocx",	  "xallocx",	 "do_malloc",	  "tc_malloc",	  "tc_calloc",
	    "tc_realloc", "tc_memalign", "tc_new",	  "tc_newarray",  "tc_posix_memalign",
	};

	if (strncmp(name, "je_", 3) == 0)
		name += 3;
	if (strncmp(name, "tcmalloc::", 10) == 0 || strncmp(name, "operator new", 12) == 0)
		return true;
	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
		if (strcmp(name, entries[i]) == 0)
			return true;
	return false;
}

bool heap_profile_is_allocator(const void *context, const struct recording *t, uint32_t frame)
{
	const struct recording_frame *f = &t->frame[frame];
	const char *path, *base;

	(void)context;
	if (f->module < t->modules) {
		path = recording_text(t, t->module[f->module].path);
		base = strrchr(path, '/');
		base = base ? base + 1 : path;
		if (strncmp(base, "libjemalloc", 11) == 0 || strncmp(base, "libtcmalloc", 11) == 0)
			return true;
	}
	for (uint32_t i = 0; i < f->locations; i++)
		if (is_entry(recording_text(t, t->location[f->first_location + i].function)))
			return true;
	return false;
}

/* The number of frames to leave out at the leaf. */
static uint32_t heap_profile_cut(const struct heap_profile *p, const uint8_t *is_cut,
				 const struct heap_row *row)
{
	uint32_t count = 0;

	for (uint32_t i = 0; p->is_cut && i < row->depth; i++) {
		if (is_cut[p->frame[row->first + i]])
			count = i + 1;
		else if (p->cut_only_leaves)
			break;
	}
	return count;
}

/* The node of a row. Stacks that are too deep lose their root. */
static uint32_t node_of(struct heap_profile *p, const uint8_t *is_cut, const struct heap_row *row)
{
	uint32_t from = heap_profile_cut(p, is_cut, row), depth = row->depth, node = 0, mark;
	struct recording *t = p->in->tables;

	if (depth - from > TRACE_MAX_DEPTH) {
		depth = from + TRACE_MAX_DEPTH - 1;
		mark = recording_frame(t, MAYFLY_FRAME_TRUNCATED, NONE, 0);
		node = recording_node(t, 0, mark);
		t->info.truncated_stacks++;
	}
	while (depth > from)
		node = recording_node(t, node, p->frame[row->first + --depth]);
	return node;
}

/* ---- events ---- */

/* Blocks with the row's mean size: sizes are integers, so some blocks are larger by 1. */
struct heap_profile_share {
	uint64_t blocks, bytes;
};

static void write_blocks(struct import *in, struct trace_block block, struct heap_profile_share s,
			 bool freed)
{
	uint64_t larger = s.blocks ? s.bytes % s.blocks : 0, serial;

	for (uint64_t i = 0; i < s.blocks && !in->error; i++) {
		block.size = s.bytes / s.blocks + (i < larger);
		import_fail(in, trace_writer_alloc(in->writer, 0, &block, &serial));
		if (freed)
			import_fail(in, trace_writer_free(in->writer, 0, serial, &block, 0, 0));
	}
}

static struct heap_profile_share freed_of(const struct heap_profile *p,
					  const struct heap_figures *f)
{
	struct heap_profile_share s = {0, 0};

	if (!(p->absent & (MAYFLY_ABSENT_ALLOCATED | MAYFLY_ABSENT_LIVE)) && f->all > f->live &&
	    f->all_bytes >= f->live_bytes)
		s = (struct heap_profile_share){f->all - f->live, f->all_bytes - f->live_bytes};
	return s;
}

static struct heap_profile_share kept_of(const struct heap_profile *p, const struct heap_figures *f)
{
	if (p->absent & MAYFLY_ABSENT_LIVE)
		return (struct heap_profile_share){f->all, f->all_bytes};
	return (struct heap_profile_share){f->live, f->live_bytes};
}

static void heap_profile_write_samples(struct heap_profile *p, uint32_t node,
				       const struct heap_row *row)
{
	struct trace_block block = {.node = node, .hits = 1};

	block.interval_log2 = (uint8_t)(63 - __builtin_clzll(p->interval));
	write_blocks(p->in, block, freed_of(p, &row->figures), true);
	write_blocks(p->in, block, kept_of(p, &row->figures), false);
}

/* A trace cannot hold bytes without a block. */
static struct heap_profile_share heap_profile_whole(struct heap_profile_share s)
{
	if (s.bytes && !s.blocks)
		s.blocks = 1;
	return s;
}

/* Weights like jemalloc and tcmalloc: by the sampling probability of a block of mean size. */
static struct heap_profile_share weighted(const struct heap_profile *p, struct heap_profile_share s)
{
	double mean, factor;

	if (!p->interval || !p->plain_counts || !s.blocks)
		return s;
	mean = (double)s.bytes / (double)s.blocks;
	factor = mean > 0 ? 1 / -expm1(-mean / (double)p->interval) : 1;
	if (factor * (double)(s.bytes | s.blocks) >= (double)TRACE_COUNTS_MAX)
		return s; /* the writer will reject it as out of range */
	return (struct heap_profile_share){(uint64_t)llround((double)s.blocks * factor),
					   (uint64_t)llround((double)s.bytes * factor)};
}

static void write_error(struct heap_profile *p, uint32_t node, const struct heap_row *row)
{
	struct error_row error = {.node = node};

	memcpy(error.of, row->figures.error, sizeof(error.of));
	if (p->errors)
		import_fail(p->in, trace_writer_error(p->in->writer, &error));
}

static void write_counts(struct heap_profile *p, uint32_t node, const struct heap_row *row)
{
	struct heap_profile_share kept = heap_profile_whole(weighted(p, kept_of(p, &row->figures)));
	struct heap_profile_share freed =
	    heap_profile_whole(weighted(p, freed_of(p, &row->figures)));
	struct trace_counts counts = {.allocs = kept.blocks + freed.blocks,
				      .alloc_bytes = kept.bytes + freed.bytes,
				      .frees = freed.blocks,
				      .free_bytes = freed.bytes};

	if (!counts.allocs)
		return;
	import_fail(p->in, trace_writer_count(p->in->writer, 0, node, &counts));
	write_error(p, node, row);
}

/* ---- steps of time ---- */

/* A row on the way through its points. */
struct heap_profile_walk {
	uint32_t node, at; /* the next point */
	struct heap_profile_share live;
};

/* What is gone since the step before, or, in *more, what is live that nobody was seen to allocate: it was
 * before the first step, or by a process that nothing was known of for a while. */
static uint64_t gone(uint64_t before, uint64_t allocated, uint64_t live, uint64_t *more)
{
	*more = live > before + allocated ? live - before - allocated : 0;
	return before + allocated + *more - live;
}

static int64_t step_begin(const struct heap_profile *p, uint32_t step)
{
	return p->step_at ? p->step_at[step] - 1 : (int64_t)step * p->step_ns;
}

static void write_step_of(struct heap_profile *p, uint32_t step, const struct heap_row *row,
			  struct heap_profile_walk *walk)
{
	const struct heap_point *next = &p->point[row->first_point + walk->at];
	bool due = walk->at < row->points && next->step == step;
	struct heap_profile_share live = {0}, all = {0}, more, freed;
	struct trace_counts counts;

	if (due) {
		live =
		    heap_profile_whole((struct heap_profile_share){next->live, next->live_bytes});
		all = heap_profile_whole((struct heap_profile_share){next->all, next->all_bytes});
		walk->at++;
	}
	freed.blocks = gone(walk->live.blocks, all.blocks, live.blocks, &more.blocks);
	freed.bytes = gone(walk->live.bytes, all.bytes, live.bytes, &more.bytes);
	if ((more.bytes && !more.blocks) || (freed.bytes && !freed.blocks)) { /* need a block */
		more.blocks++;
		freed.blocks++;
	}
	walk->live = live;
	counts = (struct trace_counts){.allocs = all.blocks + more.blocks,
				       .alloc_bytes = all.bytes + more.bytes,
				       .frees = freed.blocks,
				       .free_bytes = freed.bytes,
				       .inherited = more.blocks,
				       .inherited_bytes = more.bytes};
	if (counts.allocs || counts.frees || counts.free_bytes)
		import_fail(p->in, trace_writer_count(p->in->writer, step_begin(p, step),
						      walk->node, &counts));
}

/* ---- the peak ---- */

/* As little as possible of what was allocated comes after the peak. */
static void add_peak_and_end(struct heap_profile *p, struct heap_row *row)
{
	const struct heap_figures *f = &row->figures;
	struct heap_point at_peak = {0, f->peak, f->peak_bytes, f->all, f->all_bytes};
	struct heap_point at_end = {1, f->live, f->live_bytes, 0, 0};

	at_end.all = f->live > f->peak ? f->live - f->peak : 0;
	at_end.all_bytes = f->live_bytes > f->peak_bytes ? f->live_bytes - f->peak_bytes : 0;
	at_peak.all -= f->all < at_end.all ? f->all : at_end.all;
	at_peak.all_bytes -= f->all_bytes < at_end.all_bytes ? f->all_bytes : at_end.all_bytes;
	row->first_point = p->points;
	row->points = 2;
	heap_profile_point(p, &at_peak);
	heap_profile_point(p, &at_end);
}

/* Two steps: up to the peak, and from there to the end. */
static void make_steps_of_peak(struct heap_profile *p, int64_t at[2])
{
	int64_t end = p->in->tables->info.duration_ns;

	for (size_t i = 0; i < p->rows && !import_failed(p->in); i++)
		add_peak_and_end(p, &p->row[i]);
	at[0] = p->peak_ns > 1 ? p->peak_ns : 1;
	at[1] = end > at[0] ? end : at[0] + 1;
	p->steps = 2;
	p->step_at = at;
}

/* ---- the trace ---- */

/* Whether the samples can become events. */
static bool fit_for_events(const struct heap_profile *p)
{
	uint64_t blocks = 0;

	if (!p->plain_counts || p->interval < 2 || p->interval & (p->interval - 1) ||
	    p->interval > (uint64_t)1 << TRACE_MAX_INTERVAL)
		return false;
	for (size_t i = 0; i < p->rows; i++) {
		struct heap_profile_share kept = kept_of(p, &p->row[i].figures);
		struct heap_profile_share freed = freed_of(p, &p->row[i].figures);

		if ((!kept.blocks && kept.bytes) || (!freed.blocks && freed.bytes))
			return false;
		if (kept.blocks > SAMPLES_MAX || freed.blocks > SAMPLES_MAX)
			return false;
		blocks += kept.blocks + freed.blocks;
		if (blocks > SAMPLES_MAX)
			return false;
	}
	return true;
}

static void write_rows(struct heap_profile *p, bool events)
{
	struct import *in = p->in;
	uint8_t *is_cut = calloc(in->tables->frames + 1, 1);
	struct heap_profile_walk *walk = calloc(p->steps ? p->rows + 1 : 1, sizeof(*walk));

	if (!is_cut || !walk)
		import_fail(in, MAYFLY_E_MEMORY);
	for (size_t i = 0; !in->error && p->is_cut && i < in->tables->frames; i++)
		is_cut[i] = p->is_cut(p->cut_context, in->tables, (uint32_t)i);
	for (size_t i = 0; i < p->rows && !import_failed(in); i++) {
		const struct heap_row *row = &p->row[i];
		size_t before = in->tables->nodes;
		uint32_t node = node_of(p, is_cut, row);

		/* Stacks share most of their nodes: only new ones cost memory, at most
		 * TRACE_MAX_DEPTH per row. */
		import_spend(in, NODE_COST * (in->tables->nodes - before));
		if (p->steps) {
			walk[i].node = node;
			write_error(p, node, row);
		} else if (events) {
			heap_profile_write_samples(p, node, row);
		} else {
			write_counts(p, node, row);
		}
	}
	for (uint32_t step = 0; step < p->steps; step++)
		for (size_t i = 0; i < p->rows && !import_failed(in); i++)
			write_step_of(p, step, &p->row[i], &walk[i]);
	free(walk);
	free(is_cut);
}

void heap_profile_write(struct heap_profile *p)
{
	struct trace_writer_options how = {.mode = p->interval ? MAYFLY_SAMPLED : MAYFLY_EXACT,
					   .sampler = MAYFLY_POISSON};
	const struct import_options *options = &p->in->options;
	struct recording *t = p->in->tables;
	bool events = !p->has_peak && fit_for_events(p);
	int64_t at[2];

	if (!import_failed(p->in) && options->symbolise)
		import_fail(p->in, options->symbolise(options->context, t));
	if (import_failed(p->in))
		return;
	import_count_named(t);
	if (p->has_peak)
		make_steps_of_peak(p, at);
	if (!events)
		how.snapshot_ns = p->step_ns ? p->step_ns : 1; /* without times, any value */
	else
		how.interval_log2 = (uint32_t)(63 - __builtin_clzll(p->interval));
	t->info.interval_bytes = p->interval ? p->interval : 1;
	t->info.absent =
	    (p->steps ? 0 : MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_PEAK) | MAYFLY_ABSENT_TEMPORARY |
	    MAYFLY_ABSENT_LIFETIMES | MAYFLY_ABSENT_SIZES | MAYFLY_ABSENT_THREADS |
	    MAYFLY_ABSENT_PROCESS |
	    (p->interval && !events ? MAYFLY_ABSENT_ERRORS : 0) /* `errs` takes it back */;
	t->info.absent = (t->info.absent & ~p->known) | p->absent;
	p->in->writer = trace_writer_new(&how, t, p->in->sink, p->in->context);
	if (p->in->writer)
		write_rows(p, events);
	else
		import_fail(p->in, MAYFLY_E_MEMORY);
}
