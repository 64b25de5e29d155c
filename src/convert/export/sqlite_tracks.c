/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events and labels as rows; sqlite_schema.c has the tables.
 *
 * A span's row is inserted when it ends, or after the last event, so that it is written once.
 * Blocks and track events are visited in the order in which they happened, so the open spans of an
 * allocating thread are known.
 */
#include "convert/export/sqlite_tracks.h"

#include "convert/export/event_walk.h"

enum table { SPANS, INSTANTS, COUNTER_EVENTS, FLOWS, SAMPLE_SPANS, TABLES };

static const char *const inserts[TABLES] = {
    [SPANS] = "INSERT INTO spans VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [INSTANTS] = "INSERT INTO instants VALUES(?,?,?,?,?,?,?,?,?,?)",
    [COUNTER_EVENTS] = "INSERT INTO counter_events VALUES(?,?,?,?,?,?,?,?,?)",
    [FLOWS] = "INSERT INTO flows VALUES(?,?,?,?,?)",
    [SAMPLE_SPANS] = "INSERT INTO sample_spans VALUES(?,?)",
};

struct tracks {
	struct database *d;
	struct event_walk walk;
	sqlite3_stmt *insert[TABLES];
	int64_t instants; /* so far */
};

/* ---- labels ---- */

void sqlite_put_labels(struct database *d)
{
	database_begin_rows(d, "INSERT INTO labels VALUES(?,?,?,?)");
	for (size_t set = 1; set < d->info->label_sets && !d->error; set++) {
		size_t count;
		const struct mayfly_label *label = mayfly_trace_labels(d->trace, set, &count);

		for (size_t i = 0; i < count && !d->error; i++) {
			if (!label_counts(label, i, count))
				continue;
			database_bind_unsigned(d, set);
			database_bind_unsigned(d, i);
			database_bind_string(d, label[i].key);
			database_bind_string(d, label[i].value);
			database_end_row(d);
		}
	}
	database_end_rows(d);
}

/* ---- types ---- */

static void put_types(struct database *d)
{
	static const char *const kinds[] = {"span", "instant", "counter"};

	database_begin_rows(d, "INSERT INTO track_types VALUES(?,?,?,?,?)");
	for (size_t i = 0; i < d->info->track_types && !d->error; i++) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(d->trace, i);

		database_bind_unsigned(d, i);
		database_bind_text(d, kinds[type->kind]);
		database_bind_string(d, type->name);
		database_bind_text(d, type->category);
		database_bind_text(d, type->unit);
		database_end_row(d);
	}
	database_end_rows(d);
}

static void put_fields(struct database *d)
{
	static const char *const kinds[] = {"int", "uint", "float", "text", "flow"};

	database_begin_rows(d, "INSERT INTO track_fields VALUES(?,?,?,?)");
	for (size_t i = 0; i < d->info->track_types && !d->error; i++) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(d->trace, i);

		for (size_t k = 0; k < type->fields && !d->error; k++) {
			database_bind_unsigned(d, i);
			database_bind_unsigned(d, k + 1);
			database_bind_string(d, type->field[k].name);
			database_bind_text(d, kinds[type->field[k].type]);
			database_end_row(d);
		}
	}
	database_end_rows(d);
}

/* ---- events ---- */

static void bind_value(struct database *d, uint32_t type, union mayfly_value value)
{
	switch (type) {
	case MAYFLY_FIELD_FLOAT:
		database_bind_real(d, value.f);
		break;
	case MAYFLY_FIELD_TEXT:
		database_bind_string(d, value.text);
		break;
	case MAYFLY_FIELD_UINT:
		database_bind_unsigned(d, value.u);
		break;
	default: /* a flow's number stays distinct as a signed integer */
		database_bind_integer(d, value.i);
	}
}

static void bind_values(struct database *d, const struct mayfly_track_event *e)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(d->trace, e->type);

	for (size_t i = 0; i < MAYFLY_TRACK_VALUES; i++)
		if (i < e->values)
			bind_value(d, type->field[i].type, e->value[i]);
		else
			database_bind_null(d);
}

static void bind_span(struct database *d, uint64_t number)
{
	if (number == SPAN_NONE)
		database_bind_null(d);
	else
		database_bind_unsigned(d, number);
}

static void bind_stack(struct database *d, uint32_t node)
{
	if (node)
		database_bind_unsigned(d, node);
	else
		database_bind_null(d);
}

static uint64_t inside(const struct tracks *t, uint32_t thread)
{
	const struct open_span *span = event_walk_inside(&t->walk, thread);

	return span ? span->number : SPAN_NONE;
}

/* end: NULL if the span is still open at the end. */
static void sqlite_tracks_put_span(struct tracks *t, const struct open_span *s,
				   const int64_t *end_ns)
{
	struct database *d = t->d;

	database_into(d, t->insert[SPANS]);
	database_bind_unsigned(d, s->number);
	database_bind_unsigned(d, s->begin.type);
	database_bind_unsigned(d, s->begin.thread);
	database_bind_integer(d, s->begin.time_ns);
	if (end_ns) {
		database_bind_integer(d, *end_ns);
		database_bind_integer(d, *end_ns - s->begin.time_ns);
	} else {
		database_bind_null(d);
		database_bind_null(d);
	}
	bind_span(d, s->parent);
	database_bind_unsigned(d, s->depth);
	bind_stack(d, s->begin.node);
	bind_values(d, &s->begin);
	database_end_row(d);
}

static void put_flows(struct tracks *t, const struct mayfly_track_event *e, uint64_t span,
		      const int64_t *instant)
{
	struct database *d = t->d;
	uint64_t flow;

	for (size_t at = 0; track_flow(d->trace, e, &at, &flow) && !d->error;) {
		database_into(d, t->insert[FLOWS]);
		database_bind_integer(d, (int64_t)flow);
		database_bind_integer(d, e->time_ns);
		database_bind_unsigned(d, e->thread);
		bind_span(d, span);
		if (instant)
			database_bind_integer(d, *instant);
		else
			database_bind_null(d);
		database_end_row(d);
	}
}

static void put_instant(struct tracks *t, const struct mayfly_track_event *e)
{
	struct database *d = t->d;
	uint64_t span = inside(t, e->thread);
	int64_t number = t->instants++;

	database_into(d, t->insert[INSTANTS]);
	database_bind_integer(d, number);
	database_bind_unsigned(d, e->type);
	database_bind_unsigned(d, e->thread);
	database_bind_integer(d, e->time_ns);
	bind_span(d, span);
	bind_stack(d, e->node);
	bind_values(d, e);
	database_end_row(d);
	put_flows(t, e, span, &number);
}

static void sqlite_tracks_put_count(struct tracks *t, const struct mayfly_track_event *e)
{
	struct database *d = t->d;

	database_into(d, t->insert[COUNTER_EVENTS]);
	database_bind_integer(d, e->time_ns);
	database_bind_unsigned(d, e->type);
	database_bind_unsigned(d, e->thread);
	bind_span(d, inside(t, e->thread));
	bind_stack(d, e->node);
	bind_values(d, e);
	database_end_row(d);
}

static void put_track(struct tracks *t)
{
	const struct mayfly_track_event *e = &t->walk.track;

	switch (e->kind) {
	case MAYFLY_TRACK_BEGIN:
		put_flows(t, e, t->walk.span.number, NULL);
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

	if (span == SPAN_NONE)
		return;
	database_into(t->d, t->insert[SAMPLE_SPANS]);
	database_bind_unsigned(t->d, e->sample);
	database_bind_unsigned(t->d, span);
	database_end_row(t->d);
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
	if (item < 0 && !d->error)
		d->error = item;
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
	for (size_t i = 0; i < TABLES; i++)
		t.insert[i] = database_prepare(d, inserts[i]);
	if (!d->error)
		walk(&t);
	for (size_t i = 0; i < TABLES; i++)
		sqlite3_finalize(t.insert[i]);
	d->insert = NULL;
}
