/* SPDX-License-Identifier: Apache-2.0 */
/* Making an index of track events: see lane_index.h. */
#include "view/lane_index.h"

#include <stdlib.h>
#include <string.h>

#include "answer/event_rows.h"
#include "base/search.h"
#include "trace/read/reader.h"
#include "trace/track_kinds.h"

#define MOST_OPEN 256u /* open spans of a thread that are told apart */

/* A span that has not ended. */
struct open_span {
	uint32_t type, row; /* row: LANE_ROWS if it has none */
	size_t item;
};

/* The open spans of a thread, the latest last. */
struct open_spans {
	struct open_span *span;
	size_t count, room;
	uint64_t over; /* spans above MOST_OPEN: these end first */
	uint64_t used; /* a bit for each row with an open span */
};

struct making {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct lane_index *index;
	struct lane **lane;	 /* [threads + 1]; NULL: no events yet */
	struct open_spans *open; /* [threads] */
	uint32_t *counter_of;	 /* type -> number of its counter + 1; 0: none yet */
	size_t counter_room;
	uint64_t budget;
	int error;
};

static bool lane_grow(struct making *m, void *array, size_t *room, size_t used, size_t item)
{
	return trace_grow(&m->budget, &m->error, (struct kept_array){array, room, used, item, true},
			  1);
}

static struct lane *lane_of(struct making *m, uint32_t thread)
{
	size_t at = thread == LANE_PROCESS ? m->info->threads : thread;

	if (m->lane[at])
		return m->lane[at];
	if (m->budget < sizeof(struct lane)) {
		m->error = MAYFLY_E_TOO_LARGE;
		return NULL;
	}
	m->budget -= sizeof(struct lane);
	m->lane[at] = calloc(1, sizeof(struct lane));
	if (!m->lane[at]) {
		m->error = MAYFLY_E_MEMORY;
		return NULL;
	}
	m->lane[at]->thread = thread;
	m->lane[at]->start_ns = INT64_MIN;
	m->lane[at]->exit_ns = INT64_MAX;
	return m->lane[at];
}

/* ---- items ---- */

/* Keeps the fields of an event, and the thread of one that is not in its thread's lane. */
static uint32_t keep_values(struct making *m, const struct mayfly_track_event *e, bool thread)
{
	struct lane_index *x = m->index;
	size_t first = x->values, count = e->values + thread;

	if (!count)
		return LANE_NO_VALUE;
	if (first + count >= LANE_NO_VALUE) {
		m->error = MAYFLY_E_TOO_LARGE;
		return LANE_NO_VALUE;
	}
	for (size_t i = 0; i < count; i++) {
		if (!lane_grow(m, &x->value, &x->value_room, x->values, sizeof(*x->value)))
			return LANE_NO_VALUE;
		if (i < e->values)
			x->value[x->values++] = e->value[i];
		else
			x->value[x->values++].u = e->thread;
	}
	return (uint32_t)first;
}

static void add_item(struct making *m, struct lane_row *row, const struct mayfly_track_event *e,
		     int64_t end_ns, bool thread)
{
	uint32_t value = keep_values(m, e, thread);

	if (m->error || !lane_grow(m, &row->item, &row->room, row->items, sizeof(*row->item)))
		return;
	row->item[row->items++] = (struct lane_item){
	    .begin_ns = e->time_ns, .end_ns = end_ns, .type = e->type, .value = value};
}

static void lanes_begin(struct making *m, struct lane *lane, const struct mayfly_track_event *e)
{
	struct open_spans *open = &m->open[e->thread];
	uint32_t row = LANE_ROWS;

	if (open->over || open->count == MOST_OPEN) {
		open->over++;
		lane->deeper++;
		return;
	}
	if (~open->used)
		row = (uint32_t)__builtin_ctzll(~open->used);
	if (!lane_grow(m, &open->span, &open->room, open->count, sizeof(*open->span)))
		return;
	open->span[open->count] = (struct open_span){.type = e->type, .row = row};
	if (row == LANE_ROWS) {
		lane->deeper++;
	} else {
		open->used |= (uint64_t)1 << row;
		open->span[open->count].item = lane->row[row].items;
		add_item(m, &lane->row[row], e, LANE_OPEN, false);
		if (lane->span_rows <= row)
			lane->span_rows = row + 1;
	}
	open->count++;
}

/* Ends the latest open span of the event's type. */
static void lanes_end(struct making *m, struct lane *lane, const struct mayfly_track_event *e)
{
	struct open_spans *open = &m->open[e->thread];
	size_t at = open->count;

	if (open->over) {
		open->over--;
		return;
	}
	while (at > 0 && open->span[at - 1].type != e->type)
		at--;
	if (at == 0) {
		lane->unmatched++;
		return;
	}
	at--;
	if (open->span[at].row < LANE_ROWS) {
		lane->row[open->span[at].row].item[open->span[at].item].end_ns = e->time_ns;
		open->used &= ~((uint64_t)1 << open->span[at].row);
	}
	open->count--;
	memmove(&open->span[at], &open->span[at + 1], (open->count - at) * sizeof(*open->span));
}

static void lanes_instant(struct making *m, const struct mayfly_track_event *e)
{
	const struct mayfly_track_type *type = mayfly_trace_track_type(m->trace, e->type);
	bool of_process = strcmp(type->category, "process") == 0;
	struct lane *lane = lane_of(m, of_process ? LANE_PROCESS : e->thread);

	if (!lane)
		return;
	if (strcmp(type->category, "thread") == 0 && strcmp(type->name, "thread.start") == 0)
		lane->start_ns = e->time_ns;
	if (strcmp(type->category, "thread") == 0 && strcmp(type->name, "thread.exit") == 0)
		lane->exit_ns = e->time_ns;
	add_item(m, &lane->instants, e, e->time_ns, of_process);
}

/* ---- counters ---- */

static void lanes_count(struct making *m, const struct mayfly_track_event *e)
{
	struct lane_index *x = m->index;
	const struct mayfly_track_type *type = mayfly_trace_track_type(m->trace, e->type);
	struct lane_counter *c;

	if (event_section(type) != SECTION_COUNTERS)
		return;
	if (!m->counter_of[e->type]) {
		if (!lane_grow(m, &x->counter, &m->counter_room, x->counters, sizeof(*x->counter)))
			return;
		x->counter[x->counters++] = (struct lane_counter){.type = e->type};
		m->counter_of[e->type] = (uint32_t)x->counters;
	}
	c = &x->counter[m->counter_of[e->type] - 1];
	if (!lane_grow(m, &c->time_ns, &c->time_room, c->points, sizeof(*c->time_ns)) ||
	    !lane_grow(m, &c->value, &c->value_room, c->points, sizeof(*c->value)))
		return;
	c->time_ns[c->points] = e->time_ns;
	c->value[c->points++] = track_value(e, type);
}

/* ---- all events ---- */

static void lanes_take(struct making *m, const struct mayfly_track_event *e)
{
	struct lane *lane;

	switch ((enum mayfly_track_kind)e->kind) {
	case MAYFLY_TRACK_BEGIN:
		lane = lane_of(m, e->thread);
		if (lane)
			lanes_begin(m, lane, e);
		break;
	case MAYFLY_TRACK_END:
		lane = lane_of(m, e->thread);
		if (lane)
			lanes_end(m, lane, e);
		break;
	case MAYFLY_TRACK_INSTANT:
		lanes_instant(m, e);
		break;
	case MAYFLY_TRACK_COUNT:
		lanes_count(m, e);
		break;
	}
}

static void lanes_take_all(struct making *m)
{
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event e;
	int more = mayfly_track_cursor_open(m->trace, &cursor);

	while (!more && !m->error && (more = mayfly_track_cursor_next(cursor, &e)) == 1) {
		lanes_take(m, &e);
		more = 0;
	}
	mayfly_track_cursor_close(cursor);
	if (more < 0)
		m->error = more;
}

static void sum_busy(struct lane_row *row, int64_t end_ns)
{
	int64_t busy = 0;

	for (size_t i = 0; i < row->items; i++) {
		struct lane_item *item = &row->item[i];
		int64_t until = item->end_ns == LANE_OPEN ? end_ns : item->end_ns;

		item->busy_ns = busy;
		if (until > item->begin_ns)
			busy += until - item->begin_ns;
	}
}

/* Moves the lanes that exist to the index. */
static void lanes_finish(struct making *m)
{
	struct lane_index *x = m->index;
	size_t threads = m->info->threads;

	x->lane = calloc(threads + 1, sizeof(struct lane *));
	if (!x->lane) {
		m->error = MAYFLY_E_MEMORY;
		return;
	}
	for (size_t i = 0; i <= threads; i++) {
		size_t from = i == 0 ? threads : i - 1;
		struct lane *lane = m->lane[from];

		if (!lane)
			continue;
		m->lane[from] = NULL;
		x->lane[x->lanes++] = lane;
		for (size_t k = 0; k < lane->span_rows; k++)
			sum_busy(&lane->row[k], x->end_ns);
	}
}

/* ---- the index ---- */

static void lane_free(struct lane *lane)
{
	for (size_t i = 0; lane && i < lane->span_rows; i++)
		free(lane->row[i].item);
	if (lane)
		free(lane->instants.item);
	free(lane);
}

static void making_free(struct making *m)
{
	for (size_t i = 0; m->lane && i <= m->info->threads; i++)
		lane_free(m->lane[i]);
	for (size_t i = 0; m->open && i < m->info->threads; i++)
		free(m->open[i].span);
	free(m->lane);
	free(m->open);
	free(m->counter_of);
}

static void index_free(struct trace_index *kept)
{
	struct lane_index *x = (struct lane_index *)kept;

	for (size_t i = 0; i < x->lanes; i++)
		lane_free(x->lane[i]);
	for (size_t i = 0; i < x->counters; i++) {
		free(x->counter[i].time_ns);
		free(x->counter[i].value);
	}
	free(x->lane);
	free(x->counter);
	free(x->value);
	free(x);
}

static int make_index(const struct mayfly_trace *trace, struct lane_index *index)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct making m = {
	    .trace = trace,
	    .info = info,
	    .index = index,
	    .lane = calloc(info->threads + 1, sizeof(struct lane *)),
	    .open = calloc(info->threads + 1, sizeof(*m.open)),
	    .counter_of = calloc(info->track_types + 1, sizeof(*m.counter_of)),
	    .budget = trace_budget(trace),
	};

	index->end_ns = info->duration_ns;
	if (!m.lane || !m.open || !m.counter_of)
		m.error = MAYFLY_E_MEMORY;
	else
		lanes_take_all(&m);
	if (!m.error)
		lanes_finish(&m);
	making_free(&m);
	return m.error;
}

int lane_index(const struct mayfly_trace *trace, const struct lane_index **index)
{
	const struct trace_index *kept = trace_index(trace);
	struct lane_index *made;
	int error;

	if (!kept) {
		made = calloc(1, sizeof(*made));
		if (!made)
			return MAYFLY_E_MEMORY;
		made->kept.free = index_free;
		error = make_index(trace, made);
		if (error) {
			index_free(&made->kept);
			return error;
		}
		kept = trace_set_index(trace, &made->kept);
	}
	*index = (const struct lane_index *)kept;
	return 0;
}

size_t lane_first(const struct lane_row *row, int64_t from_ns)
{
	const struct lane_item *item = row->item;

	return FIRST_THAT(i, 0, row->items,
			  item[i].end_ns > from_ns ||
			      (item[i].end_ns == from_ns && item[i].begin_ns >= from_ns));
}

size_t lane_begin_at(const struct lane_row *row, size_t first, int64_t ns)
{
	size_t step = 1, high = first, low = first;

	/* Most answers are near. */
	while (high < row->items && row->item[high].begin_ns < ns) {
		low = high + 1;
		high += step;
		step *= 2;
	}
	if (high > row->items)
		high = row->items;
	return FIRST_THAT(i, low, high, row->item[i].begin_ns >= ns);
}
