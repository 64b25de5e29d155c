/* SPDX-License-Identifier: Apache-2.0 */
/*
 * track_sums.c: sums of instants and counters by type.
 *
 * A counter event may stand for several events with the same value; its field "events" is their
 * number. The counter "thread.cpu" grows per thread, so it is also summed by thread.
 */
#include "query/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/track_kinds.h"

/* CPU time of a thread since it began. */
struct cpu {
	double before, last; /* at the latest point before the window, and inside it */
	bool known;	     /* there is a point inside it */
	bool several;	     /* the value decreased: threads of several runs merged into one */
};

struct track_sums_run {
	struct mayfly_track_sum *row; /* [types] */
	uint64_t *numbers;	      /* [types] number of events with a finite value */
	struct cpu *cpu;	      /* [threads] */
};

/* The number of events that this one stands for. */
static uint64_t events_of(const struct mayfly_track_event *e, const struct mayfly_track_type *type)
{
	for (size_t i = 1; i < type->fields; i++)
		if (type->field[i].type == MAYFLY_FIELD_UINT &&
		    strcmp(type->field[i].name, "events") == 0)
			return e->value[i].u;
	return 1;
}

static void add_count(uint64_t *sum, uint64_t events)
{
	if (__builtin_add_overflow(*sum, events, sum))
		*sum = UINT64_MAX;
}

static void add_value(struct track_sums_run *a, uint32_t type, double value, uint64_t events)
{
	struct mayfly_track_sum *sum = &a->row[type];

	if (!isfinite(value) || !events)
		return;
	if (a->numbers[type] == 0 || value < sum->min)
		sum->min = value;
	if (a->numbers[type] == 0 || value > sum->max)
		sum->max = value;
	sum->last = value;
	sum->total += value * (double)events;
	add_count(&a->numbers[type], events);
}

static void track_sums_take(struct track_sums_run *a, const struct mayfly_track_event *e,
			    const struct mayfly_track_type *type)
{
	struct mayfly_track_sum *sum = &a->row[e->type];
	bool counts = type->kind == MAYFLY_TYPE_COUNTER;
	uint64_t events = counts ? events_of(e, type) : 1;

	if (sum->count == 0)
		sum->first_ns = e->time_ns;
	sum->last_ns = e->time_ns;
	if (counts)
		add_value(a, e->type, track_value(e, type), events);
	add_count(&sum->count, events);
}

static bool is_cpu(const struct mayfly_track_type *type)
{
	return type->kind == MAYFLY_TYPE_COUNTER && strcmp(type->category, "thread") == 0 &&
	       strcmp(type->name, "thread.cpu") == 0;
}

static void take_cpu(struct query_state *s, struct track_sums_run *a,
		     const struct mayfly_track_event *e, const struct mayfly_track_type *type)
{
	double value = track_value(e, type);
	struct cpu *cpu;

	if (!isfinite(value))
		return;
	cpu = &a->cpu[e->thread];
	cpu->several |= value < (cpu->known ? cpu->last : cpu->before);
	if (query_in_window(s->query, e->time_ns)) {
		cpu->last = value;
		cpu->known = true;
	} else if (!cpu->known) {
		cpu->before = value;
	}
}

static bool is_wanted(const struct query_state *s, const struct mayfly_track_event *e)
{
	if (e->kind != MAYFLY_TRACK_INSTANT && e->kind != MAYFLY_TRACK_COUNT)
		return false;
	return !s->thread_kept || (e->thread < s->info->threads && s->thread_kept[e->thread]);
}

static bool sum_events(struct query_state *s, struct track_sums_run *a)
{
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event e;
	int more = mayfly_track_cursor_open(s->trace, &cursor);

	if (more)
		return query_fail(s, more);
	while ((more = mayfly_track_cursor_next(cursor, &e)) == 1) {
		const struct mayfly_track_type *type;

		if (!is_wanted(s, &e))
			continue;
		type = mayfly_trace_track_type(s->trace, e.type);
		if (is_cpu(type))
			take_cpu(s, a, &e, type);
		if (query_in_window(s->query, e.time_ns))
			track_sums_take(a, &e, type);
	}
	mayfly_track_cursor_close(cursor);
	return more == 0 || query_fail(s, more);
}

static int track_sums_compare(const void *a, const void *b)
{
	const struct mayfly_track_sum *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return (x->type > y->type) - (x->type < y->type);
}

static int compare_cpu(const void *a, const void *b)
{
	const struct mayfly_thread_cpu *x = a, *y = b;

	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns > y->cpu_ns ? -1 : 1;
	return (x->thread > y->thread) - (x->thread < y->thread);
}

static void make_threads(struct query_state *s, const struct cpu *cpu, struct mayfly_track_sums *a)
{
	struct mayfly_thread_cpu *thread = answer_array(s, a, s->info->threads, sizeof(*thread));

	for (size_t i = 0; thread && i < s->info->threads; i++) {
		double ns = cpu[i].last - cpu[i].before;

		if (cpu[i].known && !cpu[i].several && ns >= 0 && ns < (double)INT64_MAX)
			thread[a->threads++] = (struct mayfly_thread_cpu){(uint32_t)i, (int64_t)ns};
	}
	if (a->threads)
		qsort(thread, a->threads, sizeof(*thread), compare_cpu);
	a->thread = thread;
}

static void track_sums_make_rows(struct query_state *s, struct mayfly_track_sums *a)
{
	size_t types = s->info->track_types;
	struct track_sums_run r = {
	    .row = answer_array(s, a, types, sizeof(*r.row)),
	    .numbers = query_scratch(s, types, sizeof(*r.numbers)),
	    .cpu = query_scratch(s, s->info->threads, sizeof(*r.cpu)),
	};

	if (s->error || !sum_events(s, &r))
		return;
	for (size_t i = 0; i < types; i++) {
		struct mayfly_track_sum *sum = &r.row[i];

		if (sum->count == 0)
			continue;
		sum->type = (uint32_t)i;
		if (r.numbers[i])
			sum->mean = sum->total / (double)r.numbers[i];
		if (!isfinite(sum->total))
			sum->total = sum->mean = 0; /* the sum overflowed */
		r.row[a->rows++] = *sum;
	}
	if (a->rows)
		qsort(r.row, a->rows, sizeof(*r.row), track_sums_compare);
	a->row = r.row;
	make_threads(s, r.cpu, a);
}

int mayfly_track_sums_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			  struct mayfly_track_sums **sums)
{
	struct query_state s = {
	    .trace = trace,
	    .info = mayfly_trace_info(trace),
	    .query = query,
	};
	struct mayfly_track_sums *a = answer_new(&s, sizeof(*a));

	if (a && query_filter_threads(&s))
		track_sums_make_rows(&s, a);
	return answer_finish(&s, a, sums);
}

void mayfly_track_sums_free(struct mayfly_track_sums *sums)
{
	answer_free(sums);
}
