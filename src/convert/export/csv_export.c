/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables for spreadsheets (RFC 4180): a row for each stack, largest first, or for each sample, in
 * the order of their frees with samples never freed at the end. Lines end with CR LF; the first row
 * has the names of the columns.
 */
#include "convert/export/block_filter.h"
#include "convert/export/exports.h"
#include "convert/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "query/query.h"

/* Stacks repeat: their text is cached in the slot (node modulo CACHE_SLOTS). */
#define CACHE_SLOTS 4096u
#define CACHE_BYTES 16384u /* longer texts are not cached */

struct cached {
	uint32_t node; /* 0: none */
	struct trace_buffer text;
};

struct csv_table {
	struct export_job *job;
	const struct mayfly_trace *trace;
	struct shown_stacks *stacks; /* and */
	struct out *out;	     /* those of `job` */
	char *text;		     /* of a stack */
	size_t text_capacity;
	struct cached *cache; /* texts of the last columns */
	struct block_filter filter;
};

/* ---- places ---- */

static void csv_add_text(struct csv_table *t, size_t *length, const char *text, char escaped)
{
	size_t more = strlen(text);

	if (!array_reserve(&t->text, &t->text_capacity, *length + more + 1, 1)) {
		out_fail(t->out, MAYFLY_E_MEMORY);
		return;
	}
	for (size_t i = 0; i < more; i++)
		t->text[*length + i] = text[i] == escaped ? ':' : text[i];
	*length += more;
	t->text[*length] = 0;
}

/* "leaf;caller;main" in t->text. Returns the number of lines. */
static size_t join_lines(struct csv_table *t, const uint32_t *path, size_t length)
{
	size_t used = 0, depth = 0;

	for (size_t i = 0; i < length; i++) {
		const struct shown_frame *f = &t->stacks->frame[path[i]];

		for (uint32_t k = 0; k < f->count; k++) {
			const char *name =
			    shown_text(t->stacks, t->stacks->line[f->first + k].name);

			csv_add_text(t, &used, ++depth > 1 ? ";" : "", 0);
			csv_add_text(t, &used, name, ';');
		}
	}
	return depth;
}

/* The last columns of both tables. */
static void write_place(struct csv_table *t, struct out *o, uint32_t node)
{
	const struct shown_line *leaf;
	const struct mayfly_module *module = NULL;
	const struct mayfly_frame *frame;
	const uint32_t *path;
	size_t length = export_path(t->job, node, &path), depth = join_lines(t, path, length);

	if (t->out->error)
		return;
	frame = mayfly_trace_frame(t->trace, shown_trace_frame(t->stacks, path[0]));
	if (frame)
		module = mayfly_trace_module(t->trace, frame->module);
	leaf = &t->stacks->line[t->stacks->frame[path[0]].first];
	out_csv(o, shown_text(t->stacks, leaf->name));
	out_char(o, ',');
	out_csv(o, shown_text(t->stacks, leaf->file));
	out_char(o, ',');
	if (leaf->line)
		out_unsigned(o, leaf->line);
	out_char(o, ',');
	out_csv(o, module ? module->path : "");
	out_char(o, ',');
	out_unsigned(o, depth);
	out_char(o, ',');
	out_csv(o, t->text);
	out_text(o, "\r\n");
}

/* The same with a cache, for callers that repeat nodes. */
static void write_place_again(struct csv_table *t, uint32_t node)
{
	struct cached *c = &t->cache[node % CACHE_SLOTS];
	struct out o;

	if (c->node != node || node == 0) {
		c->node = 0;
		c->text.used = 0;
		out_begin(&o, trace_buffer_sink, &c->text);
		write_place(t, &o, node);
		out_fail(t->out, out_end(&o));
		c->node = node;
	}
	out_bytes(t->out, c->text.bytes, c->text.used);
	if (c->text.size > CACHE_BYTES) {
		free(c->text.bytes);
		*c = (struct cached){0};
	}
}

/* ---- a row for each stack ---- */

static int by_bytes(const void *a, const void *b)
{
	const struct mayfly_node_sum *x = *(const struct mayfly_node_sum *const *)a;
	const struct mayfly_node_sum *y = *(const struct mayfly_node_sum *const *)b;

	if (x->self.bytes.estimate != y->self.bytes.estimate)
		return x->self.bytes.estimate > y->self.bytes.estimate ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static const struct mayfly_node_sum **rank(const struct mayfly_node_sums *sums)
{
	const struct mayfly_node_sum **ranked = malloc((sums->count + 1) * sizeof(*ranked));

	for (size_t i = 0; ranked && i < sums->count; i++)
		ranked[i] = &sums->sum[i];
	if (ranked)
		qsort(ranked, sums->count, sizeof(*ranked), by_bytes);
	return ranked;
}

/* Columns that the trace does not know stay empty. */
static void print_errors(struct csv_table *t, const struct mayfly_figure *f, uint32_t absent)
{
	if (export_knows(t->trace, absent | MAYFLY_ABSENT_ERRORS))
		out_format(t->out, "%.0f,%.0f,%.0f,", f->stderror, f->low, f->high);
	else
		out_text(t->out, ",,,");
}

static void csv_print_stacks(struct csv_table *t, const struct mayfly_node_sums *sums)
{
	const struct mayfly_node_sum **ranked = rank(sums);
	struct rounding bytes = {0}, blocks = {0};

	out_fail(t->out, ranked ? 0 : MAYFLY_E_MEMORY);
	out_text(t->out, "bytes,blocks,samples,bytes_stderr,bytes_low,bytes_high,blocks_stderr,"
			 "blocks_low,blocks_high,function,file,line,module,depth,stack\r\n");
	for (size_t i = 0; !t->out->error && i < sums->count; i++) {
		const struct mayfly_estimate *self = &ranked[i]->self;

		out_unsigned(t->out, rounding_next(&bytes, self->bytes.estimate));
		out_char(t->out, ',');
		if (export_knows(t->trace, MAYFLY_ABSENT_BLOCKS))
			out_unsigned(t->out, rounding_next(&blocks, self->blocks.estimate));
		out_char(t->out, ',');
		if (export_knows(t->trace, MAYFLY_ABSENT_BLOCKS | MAYFLY_ABSENT_ERRORS))
			out_unsigned(t->out, self->samples);
		out_char(t->out, ',');
		print_errors(t, &self->bytes, 0);
		print_errors(t, &self->blocks, MAYFLY_ABSENT_BLOCKS);
		write_place(t, t->out, ranked[i]->node);
	}
	free(ranked);
}

static void stacks_table(struct csv_table *t)
{
	struct mayfly_node_sums *sums = NULL;

	out_fail(t->out, mayfly_node_sums_run(t->trace, t->job->query, &sums));
	if (!t->out->error)
		csv_print_stacks(t, sums);
	mayfly_node_sums_free(sums);
}

/* ---- a row for each sample ---- */

#define SINGLE_BLOCKS                                                                              \
	(MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_SIZES | MAYFLY_ABSENT_THREADS | MAYFLY_ABSENT_BLOCKS)

static void print_thread(struct csv_table *t, uint32_t index)
{
	const struct mayfly_thread *thread = mayfly_trace_thread(t->trace, index);

	if (thread)
		out_unsigned(t->out, thread->tid);
	out_char(t->out, ',');
	out_csv(t->out, thread ? thread->name : "");
	out_char(t->out, ',');
}

/* freed: NULL if the block is never freed. */
static void print_sample(struct csv_table *t, const struct mayfly_event *e,
			 const struct mayfly_event *freed)
{
	out_format(t->out, "%" PRIu64 ",%" PRId64 ",", e->sample, e->alloc_time_ns);
	print_thread(t, e->alloc_thread);
	out_format(t->out, "%s,%" PRIu64 ",%.15g,%.15g,", export_heap_name(e->heap), e->size,
		   e->weight_bytes, e->weight_blocks);
	if (freed) {
		out_format(t->out, "%" PRId64 ",%" PRId64 ",", freed->time_ns,
			   freed->time_ns - e->alloc_time_ns);
		print_thread(t, freed->thread);
	} else {
		out_text(t->out, ",,,,");
	}
	out_csv(t->out, mayfly_trace_label_text(t->trace, e->labels));
	out_char(t->out, ',');
	write_place_again(t, e->node);
}

static int csv_take_block(void *context, const struct mayfly_event *e, bool freed)
{
	struct csv_table *t = context;
	const struct mayfly_query *q = t->job->query;
	bool wanted = freed ? q->metric != MAYFLY_LEAKED : q->metric != MAYFLY_TEMPORARY;

	if (query_of_allocated(q->metric) && e->inherited)
		return 0;
	if (freed && q->metric == MAYFLY_TEMPORARY)
		wanted = e->flags & MAYFLY_FLAG_TEMPORARY;
	if (!wanted ||
	    !block_filter_keeps_lifetime(&t->filter,
					 freed ? e->time_ns - e->alloc_time_ns : INT64_MAX) ||
	    !block_filter_keeps(&t->filter, e))
		return 0;
	print_sample(t, e, freed ? e : NULL);
	return t->out->error;
}

static void samples_table(struct csv_table *t)
{
	const struct mayfly_info *info = t->job->info;

	if (info->snapshot_ns || info->absent & SINGLE_BLOCKS)
		out_fail(t->out, MAYFLY_E_ABSENT);
	t->cache = calloc(CACHE_SLOTS, sizeof(*t->cache));
	out_fail(t->out, t->cache ? 0 : MAYFLY_E_MEMORY);
	if (!t->out->error)
		out_fail(t->out, block_filter_begin(&t->filter, t->trace, t->job->query));
	if (t->out->error)
		return;
	out_text(t->out, "sample,time_ns,thread,thread_name,heap,size,weight_bytes,weight_blocks,"
			 "free_time_ns,lifetime_ns,free_thread,free_thread_name,labels,function,"
			 "file,line,module,depth,stack\r\n");
	out_fail(t->out, block_filter_walk(&t->filter, csv_take_block, t));
}

void export_csv(struct export_job *j)
{
	struct csv_table t = {.job = j, .trace = j->trace, .stacks = &j->stacks, .out = &j->out};

	export_stacks(j);
	if (j->options->samples)
		samples_table(&t);
	else
		stacks_table(&t);
	block_filter_end(&t.filter);
	for (size_t i = 0; t.cache && i < CACHE_SLOTS; i++)
		free(t.cache[i].text.bytes);
	free(t.cache);
	free(t.text);
}
