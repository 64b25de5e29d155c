/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as rows of a fleet's tables: see window_rows.h, and doc/FLEET.md for the tables. */
#include "fleet/window_rows.h"

#include <stdlib.h>
#include <string.h>

#include "format/numbering.h"

#define DAY_S	   86400
#define ALL_STACKS 0

static const enum mayfly_metric metrics[] = {MAYFLY_ALLOCATED, MAYFLY_LEAKED, MAYFLY_PEAK};

#define METRICS (sizeof(metrics) / sizeof(*metrics))

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

static void put_estimate(struct bytes *b, const struct mayfly_estimate *e)
{
	put_real(b, e->bytes.estimate);
	put_real(b, e->bytes.stderror * e->bytes.stderror);
	put_real(b, e->blocks.estimate);
	put_real(b, e->blocks.stderror * e->blocks.stderror);
	bytes_put_fixed(b, e->samples, 8);
}

static void put_samples(const struct making *m, const struct mayfly_info *info,
			const struct window_facts *facts)
{
	struct bytes *b = &m->rows->samples;

	for (size_t i = 0; i < m->stacks.count; i++) {
		put_day(b, info->start_real_ns);
		put_text(b, facts->service);
		bytes_put_fixed(b, facts->push, 8);
		bytes_put_fixed(b, m->sums[i].stack, 8);
		for (size_t k = 0; k < METRICS; k++)
			put_estimate(b, &m->sums[i].of[k]);
	}
}

/* ---- the window ---- */

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
		       const struct window_facts *facts,
		       const struct mayfly_estimate totals[METRICS])
{
	put_day(b, info->start_real_ns);
	put_text(b, facts->service);
	put_text(b, facts->version);
	put_text(b, facts->host);
	bytes_put_fixed(b, facts->window, 8);
	bytes_put_fixed(b, facts->push, 8);
	put_text(b, info->program);
	put_command(b, info);
	bytes_put_fixed(b, info->pid, 4);
	bytes_put_fixed(b, (uint64_t)info->start_real_ns, 8);
	bytes_put_fixed(b, (uint64_t)(info->start_real_ns + info->duration_ns), 8);
	bytes_put_fixed(b, info->mode == MAYFLY_EXACT && !info->thinned, 1);
	bytes_put_fixed(b, info->interval_bytes, 8);
	bytes_put_fixed(b, info->samples, 8);
	for (size_t i = 0; i < METRICS; i++)
		put_real(b, totals[i].bytes.estimate);
	bytes_put_fixed(b, info->program_max_rss_bytes, 8);
	bytes_put_fixed(b, info->program_cpu_ns, 8);
	bytes_put_u(b, facts->labels);
	for (size_t i = 0; i < facts->labels; i++)
		put_text(b, facts->label[i].key);
	bytes_put_u(b, facts->labels);
	for (size_t i = 0; i < facts->labels; i++)
		put_text(b, facts->label[i].value);
	bytes_put_fixed(b, (uint64_t)facts->pushed_s, 4);
}

int window_rows_make(struct window_rows *w, const struct mayfly_trace *trace,
		     const struct window_facts *facts)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_estimate totals[METRICS] = {{{0}}};
	struct making m = {.rows = w};
	int error = 0;

	*w = (struct window_rows){0};
	for (size_t i = 0; !error && i < METRICS; i++)
		error = take_metric(&m, trace, i, &totals[i]);
	if (!error) {
		put_samples(&m, info, facts);
		put_window(&w->windows, info, facts, totals);
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
