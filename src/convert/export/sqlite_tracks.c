/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events and labels as rows; sqlite_schema.c has the tables.
 *
 * A span's row is inserted when it ends, or after the last event, so that it is written once.
 * Blocks and track events are visited in the order in which they happened, so the open spans of an
 * allocating thread are known.
 */
#include "convert/export/sqlite_rows.h"

#include "convert/export/event_walk.h"

struct tracks {
	struct database *d;
	struct event_walk walk;
	int64_t instants; /* so far */
};

/* ---- labels ---- */

void sqlite_put_labels(struct database *d)
{
	for (size_t set = 1; set < d->info->label_sets && !d->error; set++) {
		size_t count;
		const struct mayfly_label *label = mayfly_trace_labels(d->trace, set, &count);

		for (size_t i = 0; i < count && !d->error; i++)
			if (label_counts(label, i, count))
				DATABASE_ROW(d, LABELS, UNSIGNED(set), UNSIGNED(i),
					     STRING(label[i].key), STRING(label[i].value));
	}
}

/* ---- types ---- */

static void put_types(struct database *d)
{
	static const char *const kinds[] = {"span", "instant", "counter"};

	for (size_t i = 0; i < d->info->track_types && !d->error; i++) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(d->trace, i);

		DATABASE_ROW(d, TRACK_TYPES, UNSIGNED(i), TEXT(kinds[type->kind]),
			     STRING(type->name), TEXT(type->category), TEXT(type->unit));
	}
}

static void put_fields(struct database *d)
{
	static const char *const kinds[] = {"int", "uint", "float", "text", "flow"};

	for (size_t i = 0; i < d->info->track_types && !d->error; i++) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(d->trace, i);

		for (size_t k = 0; k < type->fields && !d->error; k++)
			DATABASE_ROW(d, TRACK_FIELDS, UNSIGNED(i), UNSIGNED(k + 1),
				     STRING(type->field[k].name), TEXT(kinds[type->field[k].type]));
	}
}

/* ---- events ---- */

/* Value i of an event. A flow's number stays distinct as a signed integer. */
static struct cell value_cell(const struct tracks *t, const struct mayfly_track_event *e, size_t i)
{
	static const enum cell_kind kinds[] = {
	    [MAYFLY_FIELD_INT] = CELL_INTEGER,	[MAYFLY_FIELD_UINT] = CELL_UNSIGNED,
	    [MAYFLY_FIELD_FLOAT] = CELL_REAL,	[MAYFLY_FIELD_TEXT] = CELL_STRING,
	    [MAYFLY_FIELD_FLOW] = CELL_INTEGER,
	};

	if (i >= e->values)
		return NOTHING;
	return (struct cell){kinds[mayfly_trace_track_type(t->d->trace, e->type)->field[i].type],
			     e->value[i]};
}

#define VALUES(t, e)                                                                               \
	value_cell(t, e, 0), value_cell(t, e, 1), value_cell(t, e, 2), value_cell(t, e, 3)
_Static_assert(MAYFLY_TRACK_VALUES == 4, "VALUES");
#define SPAN(number) ((number) == SPAN_NONE ? NOTHING : UNSIGNED(number))
#define STACK(node)  ((node) ? UNSIGNED(node) : NOTHING)

static uint64_t inside(const struct tracks *t, uint32_t thread)
{
	const struct open_span *span = event_walk_inside(&t->walk, thread);

	return span ? span->number : SPAN_NONE;
}

/* end: NULL if the span is still open at the end. */
static void sqlite_tracks_put_span(struct tracks *t, const struct open_span *s,
				   const int64_t *end_ns)
{
	const struct mayfly_track_event *e = &s->begin;

	DATABASE_ROW(t->d, SPANS, UNSIGNED(s->number), UNSIGNED(e->type), UNSIGNED(e->thread),
		     INTEGER(e->time_ns), end_ns ? INTEGER(*end_ns) : NOTHING,
		     end_ns ? INTEGER(*end_ns - e->time_ns) : NOTHING, SPAN(s->parent),
		     UNSIGNED(s->depth), STACK(e->node), VALUES(t, e));
}

static void put_flows(struct tracks *t, const struct mayfly_track_event *e, uint64_t span,
		      struct cell instant)
{
	uint64_t flow;

	for (size_t at = 0; track_flow(t->d->trace, e, &at, &flow) && !t->d->error;)
		DATABASE_ROW(t->d, FLOWS, INTEGER((int64_t)flow), INTEGER(e->time_ns),
			     UNSIGNED(e->thread), SPAN(span), instant);
}

static void put_instant(struct tracks *t, const struct mayfly_track_event *e)
{
	uint64_t span = inside(t, e->thread);
	struct cell number = INTEGER(t->instants++);

	DATABASE_ROW(t->d, INSTANTS, number, UNSIGNED(e->type), UNSIGNED(e->thread),
		     INTEGER(e->time_ns), SPAN(span), STACK(e->node), VALUES(t, e));
	put_flows(t, e, span, number);
}

static void sqlite_tracks_put_count(struct tracks *t, const struct mayfly_track_event *e)
{
	uint64_t span = inside(t, e->thread);

	DATABASE_ROW(t->d, COUNTER_EVENTS, INTEGER(e->time_ns), UNSIGNED(e->type),
		     UNSIGNED(e->thread), SPAN(span), STACK(e->node), VALUES(t, e));
}

static void put_track(struct tracks *t)
{
	const struct mayfly_track_event *e = &t->walk.track;

	switch (e->kind) {
	case MAYFLY_TRACK_BEGIN:
		put_flows(t, e, t->walk.span.number, NOTHING);
		/* Its span is beyond the limit of followed ones. */
		if (t->walk.span.cut)
			sqlite_tracks_put_span(t, &t->walk.span, NULL);
		break;
	case MAYFLY_TRACK_END:
		sqlite_tracks_put_span(t, &t->walk.span, &e->time_ns);
		break;
	case MAYFLY_TRACK_INSTANT:
		put_instant(t, e);
		break;
	default:
		sqlite_tracks_put_count(t, e);
	}
}

static void put_block(struct tracks *t)
{
	const struct mayfly_event *e = &t->walk.block;
	uint64_t span = e->kind == MAYFLY_ALLOC && !(e->flags & MAYFLY_FLAG_INHERITED)
			    ? inside(t, e->thread)
			    : SPAN_NONE;

	if (span != SPAN_NONE)
		DATABASE_ROW(t->d, SAMPLE_SPANS, UNSIGNED(e->sample), UNSIGNED(span));
}

static void put_open(struct tracks *t)
{
	for (uint32_t i = 0; i <= t->walk.info->threads && !t->d->error; i++) {
		const struct span_stack *s = event_walk_stack(&t->walk, i);

		for (size_t k = 0; k < s->depth && !t->d->error; k++)
			sqlite_tracks_put_span(t, &s->span[k], NULL);
	}
}

static void walk(struct tracks *t)
{
	struct database *d = t->d;
	struct mayfly_query all;
	int item;

	mayfly_query_defaults(&all);
	item = event_walk_begin(&t->walk, d->trace, &all, WALK_BLOCKS | WALK_TRACKS);
	while (item == 0 && !d->error && (item = event_walk_next(&t->walk)) > 0) {
		if (item == WALK_BLOCK)
			put_block(t);
		else
			put_track(t);
		item = 0;
	}
	if (item < 0)
		database_error(d, item);
	if (!d->error)
		put_open(t);
	event_walk_end(&t->walk);
}

void sqlite_put_tracks(struct database *d)
{
	struct tracks t = {.d = d};

	if (d->error || !d->info->track_events)
		return;
	put_types(d);
	put_fields(d);
	if (!d->error)
		walk(&t);
}
