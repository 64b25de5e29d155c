/* SPDX-License-Identifier: Apache-2.0 */
/* A walk through blocks and track events: see event_walk.h. */
#include "convert/export/event_walk.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/export/exports.h"
#include "base/array.h"
#include "base/interner.h"
#include "trace/track_kinds.h"

/* Limits of open spans, on one thread and on all threads: a small hostile trace can begin any
 * number of spans. Further spans are not followed: their ends are not known. */
#define OPEN_MOST     4096u
#define ALL_OPEN_MOST (1u << 18)

/* ---- spans ---- */

static struct span_stack *stack_of(const struct event_walk *w, uint32_t thread)
{
	return &w->stack[thread < w->info->threads ? thread : w->info->threads];
}

const struct span_stack *event_walk_stack(const struct event_walk *w, uint32_t thread)
{
	return stack_of(w, thread);
}

const struct open_span *event_walk_inside(const struct event_walk *w, uint32_t thread)
{
	const struct span_stack *s = stack_of(w, thread);

	return s->depth ? &s->span[s->depth - 1] : NULL;
}

/* The latest open span of a type, or NULL. */
static struct open_span *latest_of(const struct span_stack *s, uint32_t type)
{
	for (size_t i = s->depth; i-- > 0;)
		if (s->span[i].begin.type == type)
			return &s->span[i];
	return NULL;
}

static int begin_span(struct event_walk *w)
{
	struct span_stack *s = stack_of(w, w->track.thread);
	const struct open_span *around = event_walk_inside(w, w->track.thread);

	w->span = (struct open_span){.begin = w->track,
				     .number = w->spans++,
				     .parent = around ? around->number : SPAN_NONE,
				     .depth = (uint32_t)s->depth,
				     .cut = s->depth >= OPEN_MOST || w->open >= ALL_OPEN_MOST};
	if (w->span.cut) {
		struct open_span *before = latest_of(s, w->track.type);

		if (before)
			before->over++;
		return 0;
	}
	if (!ARRAY_ADD(s->span, s->room, s->depth, w->span))
		return MAYFLY_E_MEMORY;
	w->open++;
	return 0;
}

/* The slices above the one that ends are closed with it. */
static struct walk_nesting nest(struct open_span *span, size_t above)
{
	struct walk_nesting n = {0};

	if (span[0].cut)
		return n;
	for (size_t i = 1; i <= above; i++)
		n.reopen += !span[i].cut;
	n.close = n.reopen + 1;
	if (n.reopen <= WALK_REOPEN_MOST)
		return n;
	for (size_t i = 1; i <= above; i++)
		span[i].cut = true;
	n.reopen = 0;
	return n;
}

/* False: it has no BEGIN, or its span is not followed. */
static bool end_span(struct event_walk *w)
{
	struct span_stack *s = stack_of(w, w->track.thread);
	struct open_span *span = latest_of(s, w->track.type);
	size_t above;

	w->span = (struct open_span){.number = SPAN_NONE};
	if (!span)
		return false;
	if (span->over) {
		span->over--;
		return false;
	}
	above = (size_t)(s->span + s->depth - span) - 1;
	w->nesting = nest(span, above);
	w->nesting.first = (size_t)(span - s->span);
	w->span = *span;
	memmove(span, span + 1, above * sizeof(*span));
	s->depth--;
	w->open--;
	return true;
}

/* ---- the walk ---- */

static int choose_threads(struct event_walk *w)
{
	if (!w->query->thread.matches)
		return 0;
	w->thread_kept = calloc(w->info->threads + 1, 1);
	if (!w->thread_kept)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < w->info->threads; i++)
		w->thread_kept[i] =
		    export_thread_fits(&w->query->thread, mayfly_trace_thread(w->trace, i));
	return 0;
}

int event_walk_begin(struct event_walk *w, const struct mayfly_trace *trace,
		     const struct mayfly_query *query, unsigned what)
{
	int error;

	*w = (struct event_walk){
	    .trace = trace, .info = mayfly_trace_info(trace), .query = query, .what = what};
	w->stack = calloc(w->info->threads + 1, sizeof(*w->stack));
	if (!w->stack)
		return MAYFLY_E_MEMORY;
	error = choose_threads(w);
	if (!error && what & WALK_TRACKS && w->info->track_events)
		error = mayfly_track_cursor_open(trace, &w->tracks);
	if (!error && what & WALK_BLOCKS && !w->info->snapshot_ns)
		error = mayfly_cursor_open(trace, &w->blocks);
	if (!error && w->blocks && what & WALK_PROMOTIONS)
		mayfly_cursor_promotions(w->blocks);
	return error;
}

void event_walk_end(struct event_walk *w)
{
	if (w->blocks)
		mayfly_cursor_close(w->blocks);
	if (w->tracks)
		mayfly_track_cursor_close(w->tracks);
	for (size_t i = 0; w->stack && i <= w->info->threads; i++)
		free(w->stack[i].span);
	free(w->stack);
	free(w->thread_kept);
	*w = (struct event_walk){0};
}

static int fetch_block(struct event_walk *w)
{
	int more = w->blocks ? mayfly_cursor_next(w->blocks, &w->next_block) : 0;

	w->has_block = more == 1;
	return more < 0 ? more : 0;
}

static int fetch_track(struct event_walk *w)
{
	int more = w->tracks ? mayfly_track_cursor_next(w->tracks, &w->next_track) : 0;

	w->has_track = more == 1;
	return more < 0 ? more : 0;
}

/* Whether the next track event comes before the next block. Promotions are not included in
 * events_before, so they are ordered by time. */
static bool track_is_next(const struct event_walk *w)
{
	bool by_time = w->what & WALK_BY_TIME;

	if (!w->has_track || !w->has_block)
		return w->has_track;
	if (by_time && w->next_track.time_ns != w->next_block.time_ns)
		return w->next_track.time_ns < w->next_block.time_ns;
	if (w->next_track.events_before != w->events)
		return w->next_track.events_before < w->events;
	return w->next_block.kind != MAYFLY_PROMOTE ||
	       w->next_track.time_ns <= w->next_block.time_ns;
}

static int event_walk_take_block(struct event_walk *w)
{
	w->block = w->next_block;
	w->events += w->block.kind != MAYFLY_PROMOTE;
	return fetch_block(w);
}

static bool is_kept(const struct event_walk *w, const struct mayfly_track_event *e)
{
	const struct mayfly_query *q = w->query;

	return e->time_ns >= q->from_ns && (e->time_ns < q->to_ns || q->to_ns == INT64_MAX) &&
	       (!w->thread_kept || w->thread_kept[e->thread]);
}

/* 1: w->track is to be shown; 0: it is left out. */
static int take_track(struct event_walk *w)
{
	int error;

	w->track = w->next_track;
	w->nesting = (struct walk_nesting){0};
	error = fetch_track(w);
	if (error)
		return error;
	if (w->track.kind == MAYFLY_TRACK_END)
		return end_span(w) || (w->what & WALK_UNMATCHED && is_kept(w, &w->track));
	if (!is_kept(w, &w->track))
		return 0;
	error = w->track.kind == MAYFLY_TRACK_BEGIN ? begin_span(w) : 0;
	return error ? error : 1;
}

int event_walk_next(struct event_walk *w)
{
	int result;

	if (!w->started) {
		w->started = true;
		result = fetch_block(w);
		if (!result)
			result = fetch_track(w);
		if (result)
			return result;
	}
	while (w->has_block || w->has_track) {
		if (!track_is_next(w)) {
			result = event_walk_take_block(w);
			return result ? result : WALK_BLOCK;
		}
		result = take_track(w);
		if (result)
			return result < 0 ? result : WALK_TRACK;
	}
	return WALK_END_OF_TRACE;
}

int event_walk_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		   unsigned what, event_walk_take *take, void *context)
{
	struct event_walk w;
	int result = event_walk_begin(&w, trace, query, what);

	while (!result && (result = event_walk_next(&w)) > 0) {
		w.item = (enum walk_item)result;
		result = take(context, &w);
	}
	event_walk_end(&w);
	return result;
}

void event_walk_slices(const struct event_walk *w, event_walk_slice *slice, void *context)
{
	const struct span_stack *stack = stack_of(w, w->track.thread);

	if (w->track.kind == MAYFLY_TRACK_BEGIN && !w->span.cut)
		slice(context, w, &w->track, false);
	for (size_t i = 0; i < w->nesting.close; i++)
		slice(context, w, NULL, false);
	for (size_t i = w->nesting.first; w->nesting.reopen && i < stack->depth; i++)
		if (!stack->span[i].cut)
			slice(context, w, &stack->span[i].begin, true);
}

/* ---- the survey ---- */

#define FLOWS_MOST ((size_t)1 << 20)

struct survey_flow {
	uint32_t events, seen;
};

static struct key key_of(uint64_t flow)
{
	return (struct key){{1, flow}};
}

static bool count_flow(struct track_survey *s, uint64_t flow)
{
	bool is_new = false, full = s->flows.count >= FLOWS_MOST;
	uint32_t number = full ? interner_find(&s->flows, key_of(flow))
			       : interner_add(&s->flows, key_of(flow), &is_new);

	if (number == INTERNER_NONE)
		return full;
	if (!array_reserve(&s->flow, &s->flow_room, number, sizeof(*s->flow)))
		return false;
	if (is_new)
		s->flow[number] = (struct survey_flow){0};
	s->flow[number].events += s->flow[number].events < UINT32_MAX;
	return true;
}

static int survey_event(void *context, const struct event_walk *w)
{
	const struct mayfly_track_event *e = &w->track;
	struct track_survey *s = context;
	uint64_t flow;

	s->events++;
	if (e->kind == MAYFLY_TRACK_COUNT) {
		uint32_t *thread = &s->thread[e->type];

		*thread = *thread == SURVEY_NONE || *thread == e->thread ? e->thread : SURVEY_MANY;
		return 0;
	}
	for (size_t at = 0; track_flow(w->trace, e, &at, &flow);)
		if (!count_flow(s, flow))
			return MAYFLY_E_MEMORY;
	return 0;
}

int track_survey_begin(struct track_survey *s, const struct mayfly_trace *trace,
		       const struct mayfly_query *query)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	*s = (struct track_survey){0};
	s->thread = malloc((info->track_types + 1) * sizeof(*s->thread));
	if (!s->thread)
		return MAYFLY_E_MEMORY;
	memset(s->thread, 0xff, (info->track_types + 1) * sizeof(*s->thread));
	return event_walk_run(trace, query, WALK_TRACKS, survey_event, s);
}

void track_survey_end(struct track_survey *s)
{
	free(s->thread);
	free(s->flow);
	interner_free(&s->flows);
	*s = (struct track_survey){0};
}

enum flow_step track_survey_flow(struct track_survey *s, uint64_t flow)
{
	uint32_t number = interner_find(&s->flows, key_of(flow));
	struct survey_flow *f = number == INTERNER_NONE ? NULL : &s->flow[number];

	if (!f || f->events < 2)
		return FLOW_NONE;
	f->seen++;
	return f->seen == 1 ? FLOW_FIRST : f->seen < f->events ? FLOW_NEXT : FLOW_LAST;
}

/* ---- values ---- */

bool track_flow(const struct mayfly_trace *trace, const struct mayfly_track_event *event,
		size_t *at, uint64_t *flow)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(trace, event->type);

	while (*at < event->values) {
		size_t i = (*at)++;

		if (type->field[i].type == MAYFLY_FIELD_FLOW) {
			*flow = event->value[i].u;
			return true;
		}
	}
	return false;
}

bool track_is_address(const struct mayfly_track_field *field)
{
	const char *end = strstr(field->name, "address");

	return field->type == MAYFLY_FIELD_UINT && end && strcmp(end, "address") == 0;
}

bool track_counter_value(const struct mayfly_trace *trace, const struct mayfly_track_event *event,
			 double *value)
{
	*value = track_value(event, mayfly_trace_track_type(trace, event->type));
	return isfinite(*value);
}

bool track_is_of_threads(const struct mayfly_trace *trace, const struct mayfly_track_type *type)
{
	if (strcmp(type->category, "thread") == 0)
		return true;
	return mayfly_trace_info(trace)->absent & MAYFLY_ABSENT_ALLOCATIONS &&
	       strcmp(type->category, "ocaml") == 0;
}

const char *track_counter_name(char *buffer, size_t size, const struct mayfly_trace *trace,
			       const struct track_survey *s, const struct mayfly_track_event *event)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(trace, event->type);
	const struct mayfly_thread *thread = mayfly_trace_thread(trace, event->thread);

	if (s->thread[event->type] != SURVEY_MANY || !track_is_of_threads(trace, type))
		snprintf(buffer, size, "%s", type->name);
	else if (!thread)
		snprintf(buffer, size, "%s, unknown thread", type->name);
	else
		snprintf(buffer, size, "%s, %s%s%" PRIu32, type->name, thread->name,
			 *thread->name ? " " : "thread ", thread->tid);
	return buffer;
}

bool label_counts(const struct mayfly_label *label, size_t i, size_t count)
{
	for (size_t k = i + 1; k < count; k++)
		if (strcmp(label[k].key, label[i].key) == 0)
			return false;
	return true;
}
