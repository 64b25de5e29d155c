/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as rows of a fleet's tables: see window_rows.h, and doc/FLEET.md for the tables. */
#include "fleet/window_rows.h"

#include <stdlib.h>
#include <string.h>

#include "format/numbering.h"

#define DAY_S	   86400
#define ALL_STACKS 0

static const enum mayfly_metric metrics[] = {MAYFLY_ALLOCATED, MAYFLY_LEAKED, MAYFLY_PEAK};

#define METRICS	  (sizeof(metrics) / sizeof(*metrics))
#define ALLOCATED 0

/* What one stack has, for each metric. */
struct stack_sums {
	uint64_t stack;
	struct mayfly_estimate of[METRICS];
};

struct making {
	struct window_rows *rows;
	struct numbering frames, stacks; /* that have rows already */
	struct stack_sums *sums;	 /* by number of the stack */
	size_t room;
};

/* ---- values ---- */

static void put_text(struct bytes *b, const char *text)
{
	size_t length = strlen(text);

	bytes_put_u(b, length);
	bytes_put(b, text, length);
}

static void put_real(struct bytes *b, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bytes_put_fixed(b, bits, 8);
}

static void put_day(struct bytes *b, int64_t real_ns)
{
	bytes_put_fixed(b, (uint64_t)(real_ns / 1000000000 / DAY_S), 2);
}

/* ---- frames and stacks ---- */

static uint64_t join(uint64_t hash, uint64_t more)
{
	return numbering_mix(hash ^ more) * 0x9e3779b97f4a7c15u + 1;
}

/* An address means something only where there is no name. */
static uint64_t address_of(const struct mayfly_place *p)
{
	return *p->function ? 0 : p->address;
}

/* The same place of two hosts is the same number. */
static uint64_t frame_of(const struct mayfly_place *p)
{
	uint64_t hash = join(p->kind, numbering_text(p->function));

	hash = join(hash, numbering_text(p->file));
	hash = join(hash, numbering_text(p->module));
	return join(join(hash, p->line), address_of(p));
}

static bool is_new(struct numbering *n, uint64_t id, uint32_t *number)
{
	bool new = false;

	*number = numbering_of(n, (struct key){{id}}, &new);
	return new;
}

static void put_frame(struct making *m, uint64_t id, const struct mayfly_place *p)
{
	struct bytes *b = &m->rows->frames;
	uint32_t number;

	if (!is_new(&m->frames, id, &number))
		return;
	bytes_put_fixed(b, id, 8);
	put_text(b, p->kind == MAYFLY_FRAME_TRUNCATED ? "[further callers are unknown]"
		    : p->kind == MAYFLY_FRAME_ELIDED  ? "[frames left out]"
						      : p->function);
	put_text(b, p->file);
	bytes_put_fixed(b, p->line, 4);
	put_text(b, p->module);
	bytes_put_fixed(b, address_of(p), 8);
}

/* The number of a stack in m->sums; it gets its rows when it is new. NUMBERING_NONE: no memory. */
static uint32_t number_of_stack(struct making *m, const struct mayfly_row *row)
{
	struct bytes *b = &m->rows->stacks;
	uint64_t id = row->stack_length;
	uint32_t number;

	for (size_t i = 0; i < row->stack_length; i++)
		id = join(id, frame_of(&row->stack[i]));
	if (!is_new(&m->stacks, id, &number))
		return number;
	if (!array_reserve_filled(&m->sums, &m->room, number, sizeof(*m->sums), 0))
		return NUMBERING_NONE;
	m->sums[number].stack = id;
	bytes_put_fixed(b, id, 8);
	bytes_put_u(b, row->stack_length);
	for (size_t i = 0; i < row->stack_length; i++) {
		uint64_t frame = frame_of(&row->stack[i]);

		bytes_put_fixed(b, frame, 8);
		put_frame(m, frame, &row->stack[i]);
	}
	return number;
}

/* ---- sums ---- */

static int take_metric(struct making *m, const struct mayfly_trace *trace, size_t metric,
		       struct mayfly_estimate *total)
{
	struct mayfly_result *result;
	struct mayfly_query query;
	int error;

	mayfly_query_defaults(&query);
	query.metric = metrics[metric];
	query.by = MAYFLY_BY_STACK;
	query.stack_rows = ALL_STACKS;
	if (mayfly_query_absent(trace, &query))
		return 0;
	error = mayfly_query_run(trace, &query, &result);
	if (error)
		return error;
	*total = result->total;
	for (size_t i = 0; !error && i < result->rows; i++) {
		uint32_t number = number_of_stack(m, &result->row[i]);

		if (number == NUMBERING_NONE)
			error = MAYFLY_E_MEMORY;
		else
			m->sums[number].of[metric] = result->row[i].self;
	}
	mayfly_result_free(result);
	return error;
}

static struct window_sum sum_of(const struct mayfly_estimate *e)
{
	return (struct window_sum){e->bytes.estimate, e->bytes.stderror * e->bytes.stderror,
				   e->blocks.estimate, e->blocks.stderror * e->blocks.stderror,
				   e->samples};
}

static void put_sum(struct bytes *b, const struct window_sum *s)
{
	put_real(b, s->bytes);
	put_real(b, s->bytes_variance);
	put_real(b, s->blocks);
	put_real(b, s->blocks_variance);
	bytes_put_fixed(b, s->samples, 8);
}

/* The number of samples wraps round below zero, as its sums in the database do. */
static void subtract(struct window_sum *s, const struct window_past *past, uint64_t stack)
{
	uint32_t number = numbering_find(&past->stacks, (struct key){{stack}});
	const struct window_sum *before;

	if (number == NUMBERING_NONE)
		return;
	before = &past->allocated[number];
	s->bytes -= before->bytes;
	s->bytes_variance -= before->bytes_variance;
	s->blocks -= before->blocks;
	s->blocks_variance -= before->blocks_variance;
	s->samples -= before->samples;
}

static void put_stack(const struct making *m, const struct window_facts *facts, int64_t begin_ns,
		      uint64_t stack, const struct window_sum *sums)
{
	struct bytes *b = &m->rows->samples;

	put_day(b, begin_ns);
	put_text(b, facts->service);
	bytes_put_fixed(b, facts->push, 8);
	bytes_put_fixed(b, stack, 8);
	for (size_t k = 0; k < METRICS; k++)
		put_sum(b, &sums[k]);
}

static bool has_something(const struct window_sum *sums)
{
	for (size_t k = 0; k < METRICS; k++)
		if (sums[k].samples)
			return true;
	return false;
}

static void put_samples(const struct making *m, const struct window_facts *facts, int64_t begin_ns,
			const struct window_past *past)
{
	for (size_t i = 0; i < m->stacks.count; i++) {
		struct window_sum sums[METRICS];

		for (size_t k = 0; k < METRICS; k++)
			sums[k] = sum_of(&m->sums[i].of[k]);
		subtract(&sums[ALLOCATED], past, m->sums[i].stack);
		if (has_something(sums))
			put_stack(m, facts, begin_ns, m->sums[i].stack, sums);
	}
	/* A frame may have got a better name since. Then its old one gives back what it had. */
	for (size_t i = 0; i < past->stacks.count; i++) {
		struct window_sum sums[METRICS] = {{0}};
		uint64_t stack = past->stacks.key[i].word[0];

		if (numbering_find(&m->stacks, past->stacks.key[i]) != NUMBERING_NONE)
			continue;
		subtract(&sums[ALLOCATED], past, stack);
		if (has_something(sums))
			put_stack(m, facts, begin_ns, stack, sums);
	}
}

/* ---- the window ---- */

uint64_t window_process(const struct mayfly_trace *trace, const struct window_facts *facts)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	uint64_t hash = join(numbering_text(facts->service), numbering_text(facts->host));

	hash = join(join(hash, numbering_text(info->program)), info->pid);
	return join(hash, (uint64_t)info->start_real_ns);
}

void window_version(const struct mayfly_trace *trace, char *to)
{
	static const char digits[] = "0123456789abcdef";
	const struct mayfly_info *info = mayfly_trace_info(trace);

	*to = 0;
	for (size_t i = 0; i < info->modules; i++) {
		const struct mayfly_module *module = mayfly_trace_module(trace, i);

		if (!module || strcmp(module->path, info->program))
			continue;
		for (size_t k = 0; k < module->build_id_length && k < 32; k++) {
			*to++ = digits[module->build_id[k] >> 4];
			*to++ = digits[module->build_id[k] & 15];
		}
		*to = 0;
		return;
	}
}

static void put_command(struct bytes *b, const struct mayfly_info *info)
{
	size_t length = 0;

	for (size_t i = 0; i < info->command_count; i++)
		length += strlen(info->command[i]) + (i != 0);
	bytes_put_u(b, length);
	for (size_t i = 0; i < info->command_count; i++) {
		if (i)
			bytes_put(b, " ", 1);
		bytes_put(b, info->command[i], strlen(info->command[i]));
	}
}

static void put_window(struct bytes *b, const struct mayfly_info *info,
		       const struct window_facts *facts, uint64_t process, int64_t begin_ns,
		       const struct window_past *past, const struct mayfly_estimate totals[METRICS])
{
	put_day(b, begin_ns);
	put_text(b, facts->service);
	put_text(b, facts->version);
	put_text(b, facts->host);
	bytes_put_fixed(b, process, 8);
	/* Two that push the next window of a process at once push the same one, so one of them counts. */
	bytes_put_fixed(b, join(process, (uint64_t)begin_ns), 8);
	bytes_put_fixed(b, facts->push, 8);
	put_text(b, info->program);
	put_command(b, info);
	bytes_put_fixed(b, info->pid, 4);
	bytes_put_fixed(b, (uint64_t)begin_ns, 8);
	bytes_put_fixed(b, (uint64_t)(info->start_real_ns + info->duration_ns), 8);
	bytes_put_fixed(b, info->mode == MAYFLY_EXACT && !info->thinned, 1);
	bytes_put_fixed(b, info->interval_bytes, 8);
	bytes_put_fixed(b, info->samples - past->samples, 8);
	for (size_t i = 0; i < METRICS; i++)
		put_real(b,
			 totals[i].bytes.estimate - (i == ALLOCATED ? past->allocated_bytes : 0));
	bytes_put_fixed(b, facts->rss_bytes, 8);
	bytes_put_fixed(b, info->program_max_rss_bytes, 8);
	bytes_put_fixed(b, info->program_cpu_ns, 8);
	bytes_put_u(b, facts->labels);
	for (size_t i = 0; i < facts->labels; i++)
		put_text(b, facts->label[i].key);
	bytes_put_u(b, facts->labels);
	for (size_t i = 0; i < facts->labels; i++)
		put_text(b, facts->label[i].value);
	bytes_put_fixed(b, (uint64_t)facts->pushed_s, 4);
	put_real(b, facts->share);
}

int window_rows_make(struct window_rows *w, const struct mayfly_trace *trace,
		     const struct window_facts *facts, const struct window_past *past)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	int64_t begin_ns = past->end_ns ? past->end_ns : info->start_real_ns;
	struct mayfly_estimate totals[METRICS] = {{{0}}};
	struct making m = {.rows = w};
	int error = 0;

	*w = (struct window_rows){0};
	for (size_t i = 0; !error && i < METRICS; i++)
		error = take_metric(&m, trace, i, &totals[i]);
	if (!error) {
		put_samples(&m, facts, begin_ns, past);
		put_window(&w->windows, info, facts, window_process(trace, facts), begin_ns, past,
			   totals);
		w->stack_count = m.stacks.count;
	}
	numbering_free(&m.frames);
	numbering_free(&m.stacks);
	free(m.sums);
	if (w->frames.failed || w->stacks.failed || w->samples.failed || w->windows.failed)
		error = MAYFLY_E_MEMORY;
	return error;
}

void window_rows_free(struct window_rows *w)
{
	bytes_free(&w->frames);
	bytes_free(&w->stacks);
	bytes_free(&w->samples);
	bytes_free(&w->windows);
}
