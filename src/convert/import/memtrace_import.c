/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From Memtrace's files to traces of mayfly.
 *
 * Sizes are those in memory: (words + header) times the word size; blocks outside the OCaml heap
 * have no header.
 *
 * Weights. OCaml samples each word with the same probability r, and the trace keeps this: a block
 * that was sampled n times has n hits, and the interval is the bytes of a word / r. It need not be
 * a power of two: the factor to a power of two is the same for all blocks and is stored once in the
 * trace (doc/FORMAT.md, "OCaml"). At rate 1 all blocks are present, with weight 1, and each has as
 * many samples as words with its header. Those with one sample less have no header: Memtrace gives
 * the memory of a Bigarray as a block of the minor heap. At other rates this cannot be told.
 *
 * Domains of version 3 are written independently of each other, so events are collected first and
 * then sorted by time. Codes become frames without a module, whose address is the code shifted left
 * by 1 (OCaml's runtime keeps the description of the call there).
 */
#include "convert/import/memtrace_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/import_tables.h"
#include "format/format.h"
#include "base/array.h"
#include "base/interner.h"
#include "ocaml_events/ocaml_spelling.h"

#define WORD_BYTES   8 /* of rates in traces */
#define LENGTH_MAX   ((int64_t)1 << 48)
#define TIME_MAX_US  (INT64_MAX / 4000)
#define INTERVAL_MAX 40 /* log2 */
#define HITS_MAX     0x3fffffff

/* Limit of nodes, because a byte of a file can add 85 frames; real files have far fewer. */
#define NODES_FREE     (1u << 20)
#define NODES_PER_BYTE 16

struct block {
	int64_t id;
	struct trace_block b;
	uint64_t serial;
	bool written, freed;
};

enum change { ALLOCATED, PROMOTED, FREED };

struct event {
	int64_t time_us;
	uint64_t order;
	int64_t id;	/* of a block that is freed or promoted: see resolve_blocks() */
	uint64_t block; /* NO_BLOCK: not known yet */
	uint32_t thread;
	enum change change;
};

#define NO_BLOCK UINT64_MAX

/* The nodes of a domain's last stack, so that the next stack can reuse the common part. */
struct path {
	uint32_t thread;
	uint32_t *node;
	size_t size, known; /* known: the number of valid nodes, from the root */
};

struct memtrace_input {
	struct memtrace_reader *r;
	const struct memtrace_info *info;
	struct import *in;
	struct recording *tables; /* those of `in` */
	struct memtrace_converted *counts;
	uint64_t nodes_max;

	bool exact;
	bool weighted;	 /* the rate is 1, but some block has other samples than its words */
	double interval; /* bytes per sample */
	unsigned interval_log2;

	struct path *path; /* by domain_index */
	size_t paths, path_room;
	struct block *block;
	size_t blocks, blocks_size;
	struct event *event;
	size_t events, events_size;
	bool sorted;
	int64_t last_us;
};

/* ---- weights ---- */

static void memtrace_choose_interval(struct memtrace_input *c)
{
	double rate = c->info->sample_rate, word = c->info->word_size / 8.0;
	int exponent;

	c->exact = rate >= 1;
	if (c->exact)
		rate = 1;
	if (!(rate > 0) || (c->info->word_size != 32 && c->info->word_size != 64)) {
		import_fail(c->in, MAYFLY_E_DAMAGED);
		return;
	}
	c->interval = word / rate;
	frexp(c->interval, &exponent); /* 2^(exponent - 1) <= interval < 2^exponent */
	if (exponent > INTERVAL_MAX)
		import_fail(c->in, MAYFLY_E_RANGE);
	c->interval_log2 = (unsigned)exponent - 1;
}

/* ---- stacks ---- */

/* NULL: out of memory. */
static struct path *find_path(struct memtrace_input *c, const struct memtrace_event *e)
{
	char name[32] = "";
	struct path *path;

	while (c->paths <= e->domain_index) {
		if (!ARRAY_ADD(c->path, c->path_room, c->paths,
			       (struct path){.thread = RECORDING_NONE})) {
			c->tables->failed = true;
			return NULL;
		}
	}
	path = &c->path[e->domain_index];
	if (path->thread == RECORDING_NONE) {
		if (e->domain)
			snprintf(name, sizeof(name), MEMTRACE_DOMAIN_NAME "%u", e->domain);
		path->thread =
		    recording_thread(c->tables, e->domain ? e->domain : (uint32_t)c->info->pid,
				     recording_name(c->tables, name));
	}
	return path;
}

static uint32_t go_down(struct memtrace_input *c, uint32_t kind, uint64_t address, uint32_t node)
{
	return recording_node(c->tables, node,
			      recording_frame(c->tables, kind, RECORDING_NONE, address));
}

/* A stack deeper than a trace can hold keeps both ends; a mark between them tells the number of
 * frames left out. */
static uint32_t find_node(struct memtrace_input *c, struct path *path,
			  const struct memtrace_event *e)
{
	bool deep = e->depth > TRACE_MAX_DEPTH;
	size_t head = deep ? TRACE_MAX_DEPTH / 2 : e->depth;
	size_t at = e->shared < path->known ? e->shared : path->known;
	uint32_t node;

	if (!array_reserve(&path->node, &path->size, head, sizeof(*path->node))) {
		c->tables->failed = true;
		return 0;
	}
	at = at < head ? at : head;
	node = at ? path->node[at - 1] : 0;
	for (; at < head; at++)
		path->node[at] = node =
		    go_down(c, MAYFLY_FRAME_CODE, (uint64_t)e->stack[at] << 1, node);
	path->known = head;
	if (deep) {
		at = e->depth - (TRACE_MAX_DEPTH - head - 1);
		node = go_down(c, MAYFLY_FRAME_ELIDED, at - head, node);
	}
	for (; at < e->depth; at++)
		node = go_down(c, MAYFLY_FRAME_CODE, (uint64_t)e->stack[at] << 1, node);
	if (c->tables->nodes > c->nodes_max)
		import_fail(c->in, MAYFLY_E_TOO_LARGE);
	return node;
}

static uint32_t spelled(struct recording *t, const char *function, uint16_t *respelled)
{
	char *name = strdup(function);
	uint32_t text;

	if (!name) {
		t->failed = true;
		return 0;
	}
	text = recording_string(t, name, ocaml_spelling(name, strlen(function), respelled));
	free(name);
	return text;
}

/* A trace has the innermost function first, Memtrace has it last. */
static void memtrace_name_frame(struct recording *t, uint32_t frame,
				const struct memtrace_location *l, size_t count)
{
	struct recording_location place = {0};

	for (size_t i = count ? count : 1; i-- > 0;) {
		if (count) {
			place.function = spelled(t, l[i].function, &place.respelled);
			place.file = recording_name(t, l[i].file);
			place.line = l[i].line;
			place.first_char = l[i].start_char;
			place.last_char = l[i].end_char;
		}
		import_function(t, frame, &place);
	}
	t->info.frames_symbolized += count != 0;
}

static void memtrace_name_frames(struct memtrace_input *c)
{
	struct recording *t = c->tables;

	for (size_t i = 0; i < t->frames; i++) {
		int64_t code = (int64_t)t->frame[i].address >> 1;
		const struct memtrace_location *l;
		size_t count;

		if (t->frame[i].kind != MAYFLY_FRAME_CODE)
			continue;
		l = memtrace_locate(c->r, code, &count);
		memtrace_name_frame(t, (uint32_t)i, l, count);
	}
}

/* ---- collecting events ---- */

static void add_event(struct memtrace_input *c, struct event e)
{
	if (!array_reserve(&c->event, &c->events_size, c->events, sizeof(*c->event))) {
		c->tables->failed = true;
		return;
	}
	if (c->events && c->event[c->events - 1].time_us > e.time_us)
		c->sorted = false;
	if (c->last_us < e.time_us)
		c->last_us = e.time_us;
	e.order = c->events;
	c->event[c->events++] = e;
}

static uint8_t heap_flags(enum memtrace_source source)
{
	uint32_t heap = source == MEMTRACE_MINOR   ? MAYFLY_HEAP_OCAML_MINOR
			: source == MEMTRACE_MAJOR ? MAYFLY_HEAP_OCAML_MAJOR
						   : MAYFLY_HEAP_EXTERNAL;

	return (uint8_t)(heap << MAYFLY_FLAG_HEAP_SHIFT);
}

static uint32_t count_hits(int64_t samples)
{
	return samples < 1 ? 1 : samples > HITS_MAX ? HITS_MAX : (uint32_t)samples;
}

/* Sets the block's size; at rate 1, all of it was sampled. */
static void set_size(struct memtrace_input *c, struct trace_block *b,
		     const struct memtrace_event *e)
{
	bool heap = e->source != MEMTRACE_EXTERNAL;
	bool bare = heap && c->exact && e->length && e->samples == e->length;
	int64_t words = e->length + (heap && !bare), most = words ? words : 1;

	b->size = (uint64_t)words * (c->info->word_size / 8);
	if (bare)
		b->flags |= MAYFLY_FLAG_NO_HEADER;
	/* mayfly's OCaml library samples the bytes outside the heap, whose last word need not be full. */
	c->weighted |= c->exact && (e->samples > most || e->samples < most - !heap);
}

/* False: a number is impossible. */
static bool memtrace_add_block(struct memtrace_input *c, struct path *path,
			       const struct memtrace_event *e)
{
	struct block b = {.id = e->id, .b.thread = path->thread};

	b.b.node = find_node(c, path, e);
	if (e->length < 0 || e->length > LENGTH_MAX)
		return false;
	b.b.flags = heap_flags(e->source);
	set_size(c, &b.b, e);
	b.b.hits = count_hits(e->samples);
	b.b.interval_log2 = (uint8_t)c->interval_log2;
	if (!array_reserve(&c->block, &c->blocks_size, c->blocks, sizeof(*c->block))) {
		c->tables->failed = true;
		return true;
	}
	c->block[c->blocks] = b;
	add_event(c, (struct event){.time_us = e->time_us, .block = c->blocks++});
	return true;
}

static bool memtrace_add(struct memtrace_input *c, const struct memtrace_event *e)
{
	struct path *path = find_path(c, e);

	if (!path)
		return true;
	if (e->time_us > TIME_MAX_US || e->time_us < 0)
		return false;
	if (e->kind == MEMTRACE_ALLOC)
		return memtrace_add_block(c, path, e);
	add_event(c, (struct event){.time_us = e->time_us,
				    .id = e->id,
				    .block = NO_BLOCK,
				    .thread = path->thread,
				    .change = e->kind == MEMTRACE_PROMOTE ? PROMOTED : FREED});
	return true;
}

/* ---- which block is promoted or freed ---- */

static struct key id_key(int64_t id)
{
	return (struct key){{1, (uint64_t)id}};
}

/* If several blocks have one id, the first one is meant. */
static void resolve_blocks(struct memtrace_input *c)
{
	uint64_t *first = calloc(c->blocks + 1, sizeof(*first));
	struct interner ids = {0};
	bool is_new;

	c->tables->failed |= !first;
	for (size_t i = 0; i < c->blocks && !c->tables->failed; i++) {
		uint32_t number = interner_add(&ids, id_key(c->block[i].id), &is_new);

		c->tables->failed = number == INTERNER_NONE;
		if (is_new)
			first[number] = i;
	}
	for (size_t i = 0; i < c->events && !c->tables->failed; i++) {
		uint32_t number;

		if (c->event[i].change == ALLOCATED)
			continue;
		number = interner_find(&ids, id_key(c->event[i].id));
		c->event[i].block = number == INTERNER_NONE ? NO_BLOCK : first[number];
	}
	interner_free(&ids);
	free(first);
}

static int compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->time_us != y->time_us)
		return x->time_us < y->time_us ? -1 : 1;
	if ((x->change == ALLOCATED) != (y->change == ALLOCATED))
		return x->change == ALLOCATED ? -1 : 1;
	return (x->order > y->order) - (x->order < y->order);
}

/* ---- writing ---- */

static int memtrace_import_write_event(struct memtrace_input *c, const struct event *e)
{
	struct trace_writer *w = c->in->writer;
	struct block *b = e->block == NO_BLOCK ? NULL : &c->block[e->block];

	if (!b || (e->change != ALLOCATED && (!b->written || b->freed))) {
		c->counts->unmatched++;
		return 0;
	}
	switch (e->change) {
	case ALLOCATED:
		b->written = true;
		c->counts->blocks++;
		return trace_writer_alloc(w, e->time_us * 1000, &b->b, &b->serial);
	case PROMOTED:
		c->counts->promotions++;
		return trace_writer_promote(w, e->time_us * 1000, b->serial);
	case FREED:
		break;
	}
	b->freed = true;
	c->counts->frees++;
	return trace_writer_free(w, e->time_us * 1000, b->serial, &b->b, e->thread, 0);
}

/* A file with rate 1 may have been made from sampled traces. Blocks then count with their numbers
 * of samples; which of them are samples is unknown, so the errors of sums are unknown too. */
static void settle_weights(struct memtrace_input *c)
{
	if (!c->exact)
		return;
	if (c->weighted) {
		c->exact = false;
		c->tables->info.absent |= MAYFLY_ABSENT_ERRORS;
		return;
	}
	c->interval_log2 = 0;
	for (size_t i = 0; i < c->blocks; i++) {
		c->block[i].b.hits = 0;
		c->block[i].b.interval_log2 = 0;
	}
}

static void memtrace_write_all(struct memtrace_input *c)
{
	struct trace_writer_options options = {
	    .mode = c->exact ? MAYFLY_EXACT : MAYFLY_SAMPLED,
	    .sampler = MAYFLY_POISSON,
	    .interval_log2 = c->interval_log2,
	    .unit_ns = 1000,
	};

	c->in->writer = trace_writer_new(&options, c->tables, c->in->sink, c->in->context);
	if (!c->in->writer)
		import_fail(c->in, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < c->events && !c->in->error; i++)
		import_fail(c->in, memtrace_import_write_event(c, &c->event[i]));
}

/* "clock was set back by 3600 s in all" or "" */
static char *set_back_text(char *buffer, size_t size, const struct memtrace_reader *r)
{
	int64_t us = memtrace_skipped(r).set_back_us;

	*buffer = 0;
	if (us)
		snprintf(buffer, size, "clock was set back by %.6g s in all", (double)us / 1e6);
	return buffer;
}

static void memtrace_describe(struct memtrace_input *c)
{
	struct memtrace_skipped skipped = memtrace_skipped(c->r);
	const struct memtrace_info *from = c->info;
	struct recording *t = c->tables;
	uint64_t lost = skipped.wrong_pid + skipped.misplaced + skipped.truncated;
	char unused[64] = "", back[96];

	if (lost)
		snprintf(unused, sizeof(unused), "; %" PRIu64 " of its packets could not be used",
			 lost);
	set_back_text(back, sizeof(back), c->r);
	import_describe(
	    c->in,
	    "converted from a Memtrace file%s%s%s, version %u, rate %g per "
	    "word%s%.64s%s%.256s%s%.256s%s",
	    *back ? " whose " : "", back, *back ? " (times after that are moved on)" : "",
	    from->version, from->sample_rate, *from->host ? ", host " : "", from->host,
	    *from->context ? ", context " : "", from->context,
	    *from->runtime_parameters ? ", OCAMLRUNPARAM " : "", from->runtime_parameters, unused);
	t->info.memtrace_version = from->version;
	t->info.memtrace_domain = from->domain;
	t->host = recording_name(t, from->host);
	t->runtime_parameters = recording_name(t, from->runtime_parameters);
	t->context = recording_name(t, from->context);
	t->program = recording_name(t, from->executable);
	t->command = malloc(sizeof(*t->command));
	t->failed |= !t->command;
	if (t->command)
		t->command[t->command_count++] = t->program;
	t->info.pid = (uint32_t)from->pid;
	t->info.absent |=
	    MAYFLY_ABSENT_TEMPORARY; /* a block is collected some time after its last use */
	t->info.interval_bytes = c->exact ? 1 : (uint64_t)(c->interval + 0.5);
	if (!c->exact) {
		t->info.ocaml_interval_bytes = t->info.interval_bytes;
		t->info.ocaml_rate = from->word_size == 8 * WORD_BYTES ? from->sample_rate
								       : WORD_BYTES / c->interval;
	}
	if (from->start_us >= 0 && from->start_us <= TIME_MAX_US)
		t->info.start_real_ns = from->start_us * 1000;
	t->info.duration_ns = c->last_us * 1000;
	t->info.ending = MAYFLY_END_UNKNOWN;
	t->info.complete &= !skipped.truncated;
}

/* Collects events up to the end of the file, or to its damage. */
static void memtrace_collect(struct memtrace_input *c)
{
	struct memtrace_event e;
	bool good = true;
	int result = 1;

	while (good && !import_failed(c->in) && (result = memtrace_next(c->r, &e)) == 1)
		good = memtrace_add(c, &e);
	if (result == MAYFLY_E_MEMORY || result == MAYFLY_E_TOO_LARGE)
		import_fail(c->in, result);
	else
		import_problem(c->in, "%s",
			       good ? memtrace_problem(c->r)
				    : "an event with an impossible number");
}

void memtrace_convert(struct memtrace_reader *r, struct import *in,
		      struct memtrace_converted *converted)
{
	struct memtrace_input c = {.r = r,
				   .info = memtrace_info(r),
				   .in = in,
				   .tables = in->tables,
				   .counts = converted,
				   .nodes_max = NODES_FREE + memtrace_size(r) * NODES_PER_BYTE,
				   .sorted = true};

	*converted = (struct memtrace_converted){0};
	memtrace_choose_interval(&c);
	memtrace_collect(&c);
	if (!import_failed(in)) {
		resolve_blocks(&c);
		if (!c.sorted)
			qsort(c.event, c.events, sizeof(*c.event), compare_events);
		memtrace_name_frames(&c);
		settle_weights(&c);
		memtrace_describe(&c);
	}
	if (!import_failed(in))
		memtrace_write_all(&c);
	for (size_t i = 0; i < c.paths; i++)
		free(c.path[i].node);
	free(c.path);
	free(c.block);
	free(c.event);
}

/* ---- for the table of importers ---- */

static void memtrace_append(char *text, size_t size, uint64_t count, const char *one,
			    const char *many)
{
	size_t used = strlen(text);

	if (count)
		snprintf(text + used, size - used, "%s%" PRIu64 " %s", used ? ", " : "", count,
			 count == 1 ? one : many);
}

static void report_memtrace(const struct memtrace_reader *r, struct import_report *report)
{
	struct memtrace_skipped skipped = memtrace_skipped(r);
	char *text = report->left_out, back[96];
	size_t size = sizeof(report->left_out);

	memtrace_append(text, size, skipped.wrong_pid, "packet of another process",
			"packets of other processes");
	memtrace_append(text, size, skipped.misplaced, "packet that does not follow the one before",
			"packets that do not follow the ones before");
	memtrace_append(text, size, skipped.truncated, "packet that is cut off",
			"packets that are cut off");
	if (*set_back_text(back, sizeof(back), r))
		snprintf(report->repaired, sizeof(report->repaired),
			 "the program's %s; times after that are moved on", back);
}

void memtrace_import(struct import *in)
{
	struct memtrace_converted converted;
	struct memtrace_reader *r;

	import_fail(in, memtrace_open(in->data, in->size, &r));
	if (in->error == MAYFLY_E_VERSION)
		import_problem(in, "made by an unsupported newer version of Memtrace");
	if (in->error)
		return;
	memtrace_convert(r, in, &converted);
	report_memtrace(r, &in->report);
	memtrace_close(r);
}
