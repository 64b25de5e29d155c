/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses by thread, in one pass over the track events: see thread_pauses.h. */
#include "answer/thread_pauses.h"

#include <stdlib.h>
#include <string.h>

#include "query/thread_filter.h"

#define OPEN 8 /* pauses of a type within each other; deeper ones are not told apart */

/* The pauses of a thread that have not ended. */
struct open_pauses {
	int64_t begin_ns[PAUSE_TYPES][OPEN];
	uint32_t depth[PAUSE_TYPES];
	bool kept; /* by the query */
};

struct pauses_run {
	struct thread_pauses *p;
	const struct mayfly_trace *trace;
	const struct mayfly_query *query;
	uint8_t *kind_of;	     /* of each type of events: 1 + its place in p->type; 0: none */
	struct open_pauses **thread; /* NULL: no pause so far */
	struct pauses_of_thread *sum;
};

bool is_pause(const struct mayfly_track_type *type)
{
	/* Parts of phases have a '/' in their name. */
	return strcmp(type->category, "ocaml") == 0 && !strchr(type->name, '/') &&
	       (strncmp(type->name, "minor", 5) == 0 || strncmp(type->name, "major", 5) == 0);
}

static void choose_types(struct pauses_run *r, const struct mayfly_spans *spans)
{
	struct thread_pauses *p = r->p;

	for (int major = 0; major < 2; major++) {
		for (size_t i = 0; i < spans->rows && p->types < PAUSE_TYPES; i++) {
			uint32_t number = spans->row[i].type;
			const struct mayfly_track_type *type =
			    mayfly_trace_track_type(r->trace, number);

			if (!spans->row[i].count || !is_pause(type) ||
			    (type->name[1] == 'a') != major)
				continue;
			p->type[p->types++] = number;
			r->kind_of[number] = (uint8_t)p->types;
		}
	}
}

static bool is_in_window(const struct mayfly_query *q, int64_t time_ns)
{
	return (time_ns >= q->from_ns || q->from_ns == 0) &&
	       (time_ns < q->to_ns || q->to_ns == INT64_MAX);
}

static void end_pause(struct pauses_run *r, uint32_t thread, size_t k, int64_t begin_ns,
		      int64_t end_ns)
{
	struct pause_sum *sum = &r->sum[thread].of[k];
	int64_t ns;

	if (!is_in_window(r->query, begin_ns))
		return;
	if (end_ns < begin_ns)
		end_ns = begin_ns;
	if (__builtin_sub_overflow(end_ns, begin_ns, &ns))
		ns = INT64_MAX;
	sum->count++;
	if (__builtin_add_overflow(sum->total_ns, ns, &sum->total_ns))
		sum->total_ns = INT64_MAX;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
}

static int take_pause(struct pauses_run *r, const struct mayfly_track_event *e)
{
	struct open_pauses *open = r->thread[e->thread];
	const struct mayfly_match *match = &r->query->thread;
	size_t k = r->kind_of[e->type];
	uint32_t *depth;

	if (!k--)
		return 0;
	if (!open) {
		open = r->thread[e->thread] = calloc(1, sizeof(*open));
		if (!open)
			return MAYFLY_E_MEMORY;
		open->kept = !match->matches ||
			     query_thread_matches(match, mayfly_trace_thread(r->trace, e->thread));
	}
	if (!open->kept)
		return 0;
	depth = &open->depth[k];
	if (e->kind == MAYFLY_TRACK_BEGIN) {
		if (*depth < OPEN)
			open->begin_ns[k][*depth] = e->time_ns;
		++*depth;
	} else if (*depth > 0 && --*depth < OPEN) {
		end_pause(r, e->thread, k, open->begin_ns[k][*depth], e->time_ns);
	}
	return 0;
}

static int take_pauses(struct pauses_run *r)
{
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event e;
	int more, error = mayfly_track_cursor_open(r->trace, &cursor);

	if (error)
		return error;
	while (!error && (more = mayfly_track_cursor_next(cursor, &e)) != 0)
		error = more < 0 ? more : take_pause(r, &e);
	mayfly_track_cursor_close(cursor);
	return error;
}

static int64_t total(const struct pauses_of_thread *row)
{
	int64_t sum = 0;

	for (size_t k = 0; k < PAUSE_TYPES; k++)
		if (__builtin_add_overflow(sum, row->of[k].total_ns, &sum))
			return INT64_MAX;
	return sum;
}

static int compare_rows(const void *a, const void *b)
{
	const struct pauses_of_thread *x = a, *y = b;
	int64_t in_x = total(x), in_y = total(y);

	if (in_x != in_y)
		return in_x > in_y ? -1 : 1;
	return x->thread < y->thread ? -1 : 1;
}

static bool has_pauses(const struct pauses_of_thread *row)
{
	for (size_t k = 0; k < PAUSE_TYPES; k++)
		if (row->of[k].count)
			return true;
	return false;
}

/* Moves the threads with pauses to the front, sorted. */
static void keep_rows(struct pauses_run *r, size_t threads)
{
	for (size_t i = 0; i < threads; i++) {
		r->sum[i].thread = (uint32_t)i;
		if (has_pauses(&r->sum[i]))
			r->sum[r->p->rows++] = r->sum[i];
	}
	qsort(r->sum, r->p->rows, sizeof(*r->sum), compare_rows);
	r->p->row = r->sum;
	r->sum = NULL;
}

int thread_pauses_find(struct thread_pauses *p, const struct mayfly_trace *trace,
		       const struct mayfly_query *query, const struct mayfly_spans *spans)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct pauses_run r = {.p = p, .trace = trace, .query = query};
	int error = MAYFLY_E_MEMORY;

	*p = (struct thread_pauses){.types = 0};
	r.kind_of = calloc(info->track_types + 1, 1);
	if (r.kind_of)
		choose_types(&r, spans);
	if (p->types) {
		r.thread = calloc(info->threads + 1, sizeof(*r.thread));
		r.sum = calloc(info->threads + 1, sizeof(*r.sum));
	}
	if (r.thread && r.sum)
		error = take_pauses(&r);
	else if (r.kind_of && !p->types)
		error = 0;
	if (!error && p->types)
		keep_rows(&r, info->threads);
	for (size_t i = 0; r.thread && i < info->threads; i++)
		free(r.thread[i]);
	free(r.thread);
	free(r.sum);
	free(r.kind_of);
	return error;
}

void thread_pauses_free(struct thread_pauses *p)
{
	free(p->row);
	p->row = NULL;
}
