/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the track events of a trace, chunk by chunk. A chunk is checked and decoded as a whole;
 * then its events are handed out one by one.
 *
 *	type	| A A B A |		value	| A.0 A.0 A.0 | A.1 A.1 A.1 | B.0 |
 *	place	of type A: ^ the next event's first value; its others stand `count` after each other
 */
#include <stdlib.h>

#include "format/format.h"
#include "trace/read/track_read.h"
#include "trace/track_kinds.h"

struct mayfly_track_cursor {
	const struct mayfly_trace *t;
	uint64_t budget;
	int error;
	struct chunk_reader chunk;
	size_t next_chunk;
	uint64_t last_ns, last_at; /* of the chunks before; ns since the earliest possible time */

	/* The current chunk. */
	size_t events, event, types;
	uint64_t first_text;
	uint64_t *time, *at; /* sums, once checked */
	const uint32_t *type, *thread, *node;
	size_t *place, *count; /* of each type */
	union mayfly_value *value;
};

int mayfly_track_cursor_open(const struct mayfly_trace *trace, struct mayfly_track_cursor **cursor)
{
	struct mayfly_track_cursor *c = calloc(1, sizeof(*c));

	*cursor = NULL;
	if (!c)
		return MAYFLY_E_MEMORY;
	c->t = trace;
	c->budget = trace_budget(trace);
	c->chunk.budget = &c->budget;
	c->chunk.compress = compress_new(0);
	if (!c->chunk.compress) {
		free(c);
		return MAYFLY_E_MEMORY;
	}
	*cursor = c;
	return 0;
}

void mayfly_track_cursor_close(struct mayfly_track_cursor *c)
{
	if (!c)
		return;
	chunk_end(&c->chunk);
	compress_free(c->chunk.compress);
	free(c);
}

static bool track_wrong(struct mayfly_track_cursor *c)
{
	chunk_fail(&c->chunk, MAYFLY_E_DAMAGED);
	return false;
}

/* ---- a chunk ---- */

/* Times and places as sums from the first ones. */
static bool read_order(struct mayfly_track_cursor *c, int64_t first_ns, uint64_t first_at)
{
	const struct mayfly_info *info = &c->t->info;
	const uint64_t most_ns = 2 * (uint64_t)TRACE_LATEST_NS,
		       most_at = info->samples + info->frees;
	uint64_t ns = (uint64_t)first_ns + (uint64_t)TRACE_LATEST_NS, at = first_at;

	c->time = (uint64_t *)chunk_numbers(&c->chunk, COLUMN_TRACK_TIME, c->events);
	c->at = (uint64_t *)chunk_numbers(&c->chunk, COLUMN_TRACK_AT, c->events);
	if (!c->time || !c->at)
		return false;
	if (ns > most_ns || at > most_at || ns < c->last_ns || at < c->last_at)
		return track_wrong(c);
	for (size_t i = 0; i < c->events; i++) {
		if (c->time[i] > most_ns - ns || c->at[i] > most_at - at)
			return track_wrong(c);
		ns += c->time[i];
		at += c->at[i];
		c->time[i] = ns - (uint64_t)TRACE_LATEST_NS;
		c->at[i] = at;
	}
	c->last_ns = ns;
	c->last_at = at;
	return true;
}

static bool read_event_places(struct mayfly_track_cursor *c)
{
	const struct mayfly_trace *t = c->t;
	uint64_t all_threads = 0, all_nodes = 0;

	c->thread = chunk_numbers32(&c->chunk, COLUMN_TRACK_THREAD, c->events);
	c->node = chunk_numbers32(&c->chunk, COLUMN_TRACK_NODE, c->events);
	if (!c->thread || !c->node)
		return false;
	for (size_t i = 0; i < c->events; i++) {
		all_threads |= c->thread[i] >= t->info.threads;
		all_nodes |= c->node[i] >= t->info.nodes;
	}
	return !(all_threads | all_nodes) || track_wrong(c);
}

/* Types, and where the values of each will stand. False: error. *values: how many there are. */
static bool read_event_types(struct mayfly_track_cursor *c, size_t *values)
{
	const struct mayfly_track_type *type = c->t->track_type;

	c->type = chunk_numbers32(&c->chunk, COLUMN_TRACK_TYPE, c->events);
	c->place = chunk_memory(&c->chunk, c->types, sizeof(*c->place));
	c->count = chunk_memory(&c->chunk, c->types, sizeof(*c->count));
	if (!c->type || !c->place || !c->count)
		return false;
	for (size_t i = 0; i < c->events; i++) {
		uint32_t number = c->type[i] >> 2, kind = c->type[i] & 3;

		if (number >= c->types || !track_kind_fits(type[number].kind, kind))
			return track_wrong(c);
		c->count[number] += kind != MAYFLY_TRACK_END;
	}
	*values = 0;
	for (size_t i = 0; i < c->types; i++) {
		c->place[i] = *values;
		*values += c->count[i] * type[i].fields;
	}
	return true;
}

/* The columns of values, and the number of values used so far. */
struct value_columns {
	const uint64_t *number, *real, *text;
	size_t numbers, reals, texts;
	uint64_t next_text;
};

/* Counts the values of each column. False: an unknown form. */
static bool count_values(struct mayfly_track_cursor *c, const uint8_t *form,
			 struct value_columns *v)
{
	size_t field = 0;

	for (size_t i = 0; i < c->types; i++) {
		const struct mayfly_track_type *type = &c->t->track_type[i];

		for (size_t k = 0; k < type->fields; k++, field++) {
			uint32_t is = type->field[k].type;

			if (form[field] > (is == MAYFLY_FIELD_FLOAT  ? FORM_WHOLE
					   : is == MAYFLY_FIELD_TEXT ? FORM_VALUE
								     : FORM_STEP)) {
				chunk_fail(&c->chunk, MAYFLY_E_VERSION);
				return false;
			}
			if (is == MAYFLY_FIELD_TEXT)
				v->texts += c->count[i];
			else if (is == MAYFLY_FIELD_FLOAT && form[field] == FORM_VALUE)
				v->reals += c->count[i];
			else
				v->numbers += c->count[i];
		}
	}
	return true;
}

static void take_numbers(struct value_columns *v, union mayfly_value *to, size_t count,
			 enum trace_form form, uint32_t type)
{
	const uint64_t *from = v->number + v->numbers;
	const bool zigzag = form != FORM_VALUE || type == MAYFLY_FIELD_INT;
	const uint64_t keep = form == FORM_STEP ? UINT64_MAX : 0;
	uint64_t last = 0;

	v->numbers += count;
	for (size_t i = 0; i < count; i++) {
		last = (last & keep) + (zigzag ? varint_unzigzag(from[i]) : from[i]);
		to[i].u = last;
	}
	if (type == MAYFLY_FIELD_FLOAT)
		for (size_t i = 0; i < count; i++)
			to[i].f = (double)to[i].i;
}

static void take_reals(struct value_columns *v, union mayfly_value *to, size_t count)
{
	const uint64_t *from = v->real + v->reals;
	uint64_t last = 0;

	v->reals += count;
	for (size_t i = 0; i < count; i++) {
		last ^= from[i];
		to[i].u = last;
	}
}

static bool take_texts(struct mayfly_track_cursor *c, struct value_columns *v,
		       union mayfly_value *to, size_t count)
{
	const uint64_t *from = v->text + v->texts;

	v->texts += count;
	for (size_t i = 0; i < count; i++) {
		uint64_t number = from[i] ? from[i] - 1 : v->next_text++;

		if (number >= c->t->texts)
			return track_wrong(c);
		to[i].text = c->t->text[number];
	}
	return true;
}

static bool take_track_values(struct mayfly_track_cursor *c, const uint8_t *form,
			      struct value_columns *v)
{
	size_t field = 0;

	v->numbers = v->reals = v->texts = 0;
	for (size_t i = 0; i < c->types; i++) {
		const struct mayfly_track_type *type = &c->t->track_type[i];

		for (size_t k = 0; k < type->fields; k++, field++) {
			union mayfly_value *to = c->value + c->place[i] + k * c->count[i];
			uint32_t is = type->field[k].type;

			if (is == MAYFLY_FIELD_FLOAT && form[field] == FORM_VALUE)
				take_reals(v, to, c->count[i]);
			else if (is != MAYFLY_FIELD_TEXT)
				take_numbers(v, to, c->count[i], form[field], is);
			else if (!take_texts(c, v, to, c->count[i]))
				return false;
		}
	}
	return true;
}

static bool read_track_values(struct mayfly_track_cursor *c, size_t values)
{
	struct value_columns v = {.next_text = c->first_text};
	struct chunk_reader *r = &c->chunk;
	const uint8_t *form;
	size_t fields = 0;

	for (size_t i = 0; i < c->types; i++)
		fields += c->t->track_type[i].fields;
	form = chunk_numbers8(r, COLUMN_TRACK_FORM, fields);
	c->value = chunk_memory_dirty(r, values, sizeof(*c->value));
	if (!form || !c->value || !count_values(c, form, &v))
		return false;
	v.number = chunk_numbers(r, COLUMN_TRACK_NUMBER, v.numbers);
	v.real = chunk_numbers(r, COLUMN_TRACK_FLOAT, v.reals);
	v.text = chunk_numbers(r, COLUMN_TRACK_TEXT, v.texts);
	return v.number && v.real && v.text && take_track_values(c, form, &v);
}

static bool read_track_chunk(struct mayfly_track_cursor *c, const struct trace_tracks *chunk)
{
	struct varint_in *in = &c->chunk.head;
	uint64_t events = varint_u(in), types = varint_u(in), first_at;
	int64_t first_ns;
	size_t values;

	c->first_text = varint_u(in);
	first_ns = varint_s(in);
	first_at = varint_u(in);
	if (in->bad || events != chunk->events || types > c->t->info.track_types ||
	    c->first_text > c->t->texts)
		return track_wrong(c);
	c->events = (size_t)events;
	c->types = (size_t)types;
	return chunk_columns(&c->chunk, 0x2aaaa) && read_order(c, first_ns, first_at) &&
	       read_event_places(c) && read_event_types(c, &values) && read_track_values(c, values);
}

int track_cursor_load(struct mayfly_track_cursor *c)
{
	const struct mayfly_trace *t = c->t;
	const struct trace_tracks *chunk = &t->track[c->next_chunk++];
	const uint64_t last_ns = c->last_ns, last_at = c->last_at;
	struct chunk_header h;

	chunk_end(&c->chunk);
	c->events = c->event = 0;
	c->chunk.error = 0;
	if (chunk_find(t->data + chunk->offset, t->size - (size_t)chunk->offset, false, &h))
		track_wrong(c);
	else if (chunk_begin(&c->chunk, &h))
		read_track_chunk(c, chunk);
	c->error = c->chunk.error;
	if (c->error) {
		c->events = 0;
		c->last_ns = last_ns;
		c->last_at = last_at;
	}
	return c->error;
}

int mayfly_track_cursor_next(struct mayfly_track_cursor *c, struct mayfly_track_event *event)
{
	const struct mayfly_track_type *type;
	size_t i;

	while (!c->error && c->event == c->events) {
		if (c->next_chunk == c->t->tracks)
			return 0;
		track_cursor_load(c);
	}
	if (c->error)
		return c->error;
	i = c->event++;
	event->kind = c->type[i] & 3;
	event->type = c->type[i] >> 2;
	event->thread = c->thread[i];
	event->node = c->node[i];
	event->time_ns = (int64_t)c->time[i];
	event->events_before = c->at[i];
	event->values = 0;
	if (event->kind == MAYFLY_TRACK_END)
		return 1;
	type = &c->t->track_type[event->type];
	event->values = type->fields;
	for (size_t k = 0; k < type->fields; k++)
		event->value[k] = c->value[c->place[event->type] + k * c->count[event->type]];
	c->place[event->type]++;
	return 1;
}
