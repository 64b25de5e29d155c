/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as rows of a fleet's tables: see window_rows.h, and doc/FLEET.md for the tables. */
#include "fleet/push/window_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fleet/database/row_binary.h"
#include "query/chosen_sums.h"

#define DAY_S 86400

static const enum mayfly_metric metrics[] = {MAYFLY_ALLOCATED, MAYFLY_LEAKED, MAYFLY_PEAK};

#define METRICS	  (sizeof(metrics) / sizeof(*metrics))
#define ALLOCATED 0

/* What one stack has, for each metric. */
struct stack_sums {
	struct window_sum of[METRICS];
};

/* A part of the trace's time, and the share with which its process was chosen then. */
struct era {
	int64_t from_ns, to_ns;
	double share;
};

struct making {
	struct window_rows *rows;
	const struct window_facts *facts;
	int64_t begin_ns;
	uint64_t push; /* its number */
	double share;
	struct stack_sums *sums; /* by number of the stack; those above have none */
	size_t count, room;
	struct stack_sums total;
	struct bytes row_begin; /* day, service and push: the same in all rows of samples */
};

static void put_day(struct bytes *b, int64_t real_ns)
{
	bytes_put_fixed(b, (uint64_t)(real_ns / 1000000000 / DAY_S), 2);
}

#define DAY_PARTS   256
#define RANDOM_MOST (((uint64_t)1 << 56) - 1)

/* The time of day of the window's end, in parts of 5.6 minutes, and a random number, together never 0. So the
 * samples of a service and a day are in the order of time, and a question about a part of it reads little else. */
static uint64_t push_of(const struct window_facts *facts, const struct mayfly_info *info)
{
	int64_t end_s = (info->start_real_ns + info->duration_ns) / 1000000000;

	return (uint64_t)(end_s % DAY_S * DAY_PARTS / DAY_S) << 56 |
	       (facts->random % RANDOM_MOST + 1);
}

/* ---- sums ---- */

static uint32_t set_of(void *stacks, uint32_t node)
{
	return window_stacks_number(stacks, node);
}

/* A block counts for all those like it in processes that were not chosen. */
static void add(struct window_sum *s, const struct tally_brief *b, double share)
{
	s->bytes += b->bytes / share;
	s->bytes_variance += b->bytes_stderror / share * (b->bytes_stderror / share);
	s->blocks += b->blocks / share;
	s->blocks_variance += b->blocks_stderror / share * (b->blocks_stderror / share);
	s->samples += b->samples;
}

/* A metric of the blocks that were allocated in the era. */
static int take_metric(struct making *m, const struct mayfly_trace *trace, size_t metric,
		       const struct era *era)
{
	struct mayfly_query query;
	struct chosen_sums sums;
	int error;

	mayfly_query_defaults(&query);
	query.metric = metrics[metric];
	query.from_ns = era->from_ns;
	query.to_ns = era->to_ns;
	if (mayfly_query_absent(trace, &query))
		return 0;
	error = chosen_sums_run(trace, &query, set_of, &m->rows->stacks, &sums);
	if (error)
		return error;
	add(&m->total.of[metric], &sums.total, era->share);
	if (sums.count > m->count) {
		if (!array_reserve_filled(&m->sums, &m->room, sums.count - 1, sizeof(*m->sums), 0))
			error = MAYFLY_E_MEMORY;
		else
			m->count = sums.count;
	}
	for (size_t i = 0; !error && i < sums.count; i++)
		add(&m->sums[i].of[metric], &sums.of[i], era->share);
	chosen_sums_free(&sums);
	return error;
}

/* What was pushed with a share goes on to count with it, also while it is live. */
static int take_eras(struct making *m, const struct mayfly_trace *trace,
		     const struct window_past *past)
{
	int64_t start_ns = mayfly_trace_info(trace)->start_real_ns;
	struct era era = {.from_ns = 0};
	int error = 0;

	for (size_t i = 0; !error && i <= past->eras; i++) {
		bool last =
		    i == past->eras || (i + 1 == past->eras && past->era[i].share == m->share);

		era.share = i < past->eras ? past->era[i].share : m->share;
		/* A window has the event at its end. */
		era.to_ns = last ? INT64_MAX : past->era[i].end_ns - start_ns + 1;
		for (size_t k = 0; !error && k < METRICS; k++)
			error = take_metric(m, trace, k, &era);
		era.from_ns = era.to_ns;
		if (last)
			break;
	}
	return error;
}

static void put_sum(struct bytes *b, const struct window_sum *s)
{
	const double real[4] = {s->bytes, s->bytes_variance, s->blocks, s->blocks_variance};
	uint8_t *to = bytes_extend(b, 5 * 8);
	uint64_t bits;

	if (!to)
		return;
	for (size_t i = 0; i < 4; i++) {
		memcpy(&bits, &real[i], 8);
		bytes_store(to + 8 * i, bits);
	}
	bytes_store(to + 4 * 8, s->samples);
	b->used += 5 * 8;
}

/* The number of samples wraps round below zero, as its sums in the database do. */
static void subtract(struct window_sum *s, const struct window_past *past, uint64_t stack)
{
	uint32_t number = interner_find(&past->stacks, (struct key){{stack}});
	const struct window_sum *before;

	if (number == INTERNER_NONE)
		return;
	before = &past->allocated[number];
	s->bytes -= before->bytes;
	s->bytes_variance -= before->bytes_variance;
	s->blocks -= before->blocks;
	s->blocks_variance -= before->blocks_variance;
	s->samples -= before->samples;
}

static bool has_something(const struct window_sum *sums)
{
	for (size_t k = 0; k < METRICS; k++)
		if (sums[k].samples)
			return true;
	return false;
}

static void put_stack(const struct making *m, uint64_t stack, const struct window_sum *sums)
{
	struct bytes *b = &m->rows->samples;

	if (!has_something(sums))
		return;
	bytes_put(b, m->row_begin.at, m->row_begin.used);
	bytes_put_fixed(b, stack, 8);
	for (size_t k = 0; k < METRICS; k++)
		put_sum(b, &sums[k]);
}

static void put_samples(struct making *m, const struct window_past *past)
{
	const struct window_stacks *stacks = &m->rows->stacks;

	put_day(&m->row_begin, m->begin_ns);
	row_binary_put_text(&m->row_begin, m->facts->process.service);
	bytes_put_fixed(&m->row_begin, m->push, 8);
	for (size_t i = 0; i < stacks->ids.count; i++) {
		struct stack_sums sums = {0};

		if (i < m->count)
			sums = m->sums[i];
		subtract(&sums.of[ALLOCATED], past, window_stacks_id(stacks, (uint32_t)i));
		put_stack(m, window_stacks_id(stacks, (uint32_t)i), sums.of);
	}
	/* A frame may have got a better name since. Then its old one gives back what it had. */
	for (size_t i = 0; i < past->stacks.count; i++) {
		struct window_sum sums[METRICS] = {{0}};
		uint64_t stack = past->stacks.key[i].word[0];

		if (interner_find(&stacks->ids, past->stacks.key[i]) != INTERNER_NONE)
			continue;
		subtract(&sums[ALLOCATED], past, stack);
		put_stack(m, stack, sums);
	}
}

/* ---- the window ---- */

uint64_t window_process(const struct mayfly_trace *trace, const struct window_facts *facts)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	uint64_t hash =
	    window_hash(hash_string(facts->process.service), hash_string(facts->process.host));

	hash = window_hash(window_hash(hash, hash_string(info->program)), info->pid);
	return window_hash(hash, (uint64_t)info->start_real_ns);
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

static void put_window(const struct making *m, const struct mayfly_info *info, uint64_t process,
		       const struct window_past *past)
{
	const struct window_facts *facts = m->facts;
	struct bytes *b = &m->rows->windows;
	int64_t begin_ns = m->begin_ns;

	put_day(b, begin_ns);
	row_binary_put_text(b, facts->process.service);
	row_binary_put_text(b, facts->version);
	row_binary_put_text(b, facts->process.host);
	bytes_put_fixed(b, process, 8);
	/* Two that push the next window of a process at once push the same one, so one of them counts. */
	bytes_put_fixed(b, window_hash(process, (uint64_t)begin_ns), 8);
	bytes_put_fixed(b, m->push, 8);
	row_binary_put_text(b, info->program);
	put_command(b, info);
	bytes_put_fixed(b, info->pid, 4);
	bytes_put_fixed(b, (uint64_t)begin_ns, 8);
	bytes_put_fixed(b, (uint64_t)(info->start_real_ns + info->duration_ns), 8);
	bytes_put_fixed(b, info->mode == MAYFLY_EXACT && !info->thinned, 1);
	bytes_put_fixed(b, info->interval_bytes, 8);
	bytes_put_fixed(b, info->samples - past->samples, 8);
	for (size_t i = 0; i < METRICS; i++)
		row_binary_put_real(b, m->total.of[i].bytes -
					   (i == ALLOCATED ? past->allocated_bytes : 0));
	bytes_put_fixed(b, facts->rss_bytes, 8);
	bytes_put_fixed(b, info->program_max_rss_bytes, 8);
	bytes_put_fixed(b, info->program_cpu_ns, 8);
	bytes_put_u(b, facts->process.labels);
	for (size_t i = 0; i < facts->process.labels; i++)
		row_binary_put_text(b, facts->process.label[i].key);
	bytes_put_u(b, facts->process.labels);
	for (size_t i = 0; i < facts->process.labels; i++)
		row_binary_put_text(b, facts->process.label[i].value);
	bytes_put_fixed(b, (uint64_t)facts->pushed_s, 4);
	row_binary_put_real(b, m->share);
}

int window_rows_make(struct window_rows *w, const struct mayfly_trace *trace,
		     const struct window_facts *facts, const struct window_past *past)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct making m = {
	    .rows = w,
	    .facts = facts,
	    .begin_ns = past->end_ns ? past->end_ns : info->start_real_ns,
	    .push = push_of(facts, info),
	    .share =
		facts->same_share && past->eras ? past->era[past->eras - 1].share : facts->share,
	};
	int error;

	*w = (struct window_rows){0};
	if (m.begin_ns < facts->begin_ns &&
	    facts->begin_ns < info->start_real_ns + info->duration_ns)
		m.begin_ns = facts->begin_ns;
	error = window_stacks_begin(&w->stacks, trace) ? 0 : MAYFLY_E_MEMORY;
	if (!error)
		error = take_eras(&m, trace, past);
	if (!error) {
		put_samples(&m, past);
		put_window(&m, info, window_process(trace, facts), past);
	}
	free(m.sums);
	if (!error && (m.row_begin.failed || w->samples.failed || w->windows.failed))
		error = MAYFLY_E_MEMORY;
	bytes_free(&m.row_begin);
	return error;
}

void window_rows_free(struct window_rows *w)
{
	window_stacks_end(&w->stacks);
	bytes_free(&w->samples);
	bytes_free(&w->windows);
}
