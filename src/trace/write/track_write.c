/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing track events, their types, and sets of labels. See track_write.h.
 *
 *	event 0: request 7, 120 bytes		values wait: 7 120 8 99 9 ...
 *	event 1: request 8, 99 bytes		the chunk has them field by field: 7 8 9 | 120 99
 *
 * The values of one field are alike. Each field's are written in the form that is shortest: as they
 * are, or as differences.
 */
#include "trace/write/track_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "trace/track_kinds.h"

#define FAST_LEVEL   1
#define MOST_INTEGER 0x1p53 /* up to here every integer is a double */

void tracks_begin(struct track_writer *w, const struct recording *r)
{
	*w = (struct track_writer){.r = r, .sets = 1, .next_text = 1, .last_ns = -TRACE_LATEST_NS};
}

void tracks_free(struct track_writer *w)
{
	free(w->text_number);
	bytes_free(&w->text);
	free(w->type);	 /* and the others of an event, which lie in it */
	free(w->number); /* and the others, which lie in it */
	free(w->form);
	column_writer_free(w->columns);
	*w = (struct track_writer){0};
}

/* ---- events wait ---- */

/* Pages that are never written to cost nothing. */
static bool events_room(struct track_writer *w)
{
	if (w->type)
		return true;
	w->type = malloc((5 + RECORDING_FIELDS) * TRACKS_HELD * sizeof(*w->type));
	if (!w->type)
		return false;
	w->time = w->type + TRACKS_HELD;
	w->at = w->time + TRACKS_HELD;
	w->thread = w->at + TRACKS_HELD;
	w->node = w->thread + TRACKS_HELD;
	w->value = w->node + TRACKS_HELD;
	return true;
}

static bool event_can_be(const struct recording *r, const struct trace_track *e)
{
	const struct recording_track_type *type;

	if (e->type >= r->track_types || e->thread >= r->threads || e->node >= r->nodes)
		return false;
	type = &r->track_type[e->type];
	if (!track_kind_fits(type->kind, e->kind))
		return false;
	for (uint32_t i = 0; i < type->fields && e->kind != MAYFLY_TRACK_END; i++)
		if (type->field[i].type == MAYFLY_FIELD_TEXT && e->value[i] >= r->strings)
			return false;
	return true;
}

int tracks_add(struct track_writer *w, const struct trace_track *e, uint64_t at)
{
	const struct recording *r = w->r;
	int64_t ns = e->time_ns;
	size_t i = w->events;

	if (!event_can_be(r, e))
		return MAYFLY_E_RANGE;
	if (!events_room(w))
		return MAYFLY_E_MEMORY;
	if (ns > TRACE_LATEST_NS)
		ns = TRACE_LATEST_NS;
	if (ns < w->last_ns)
		ns = w->last_ns;
	if (!i) {
		w->first_ns = w->last_ns = ns;
		w->first_at = w->last_at = at;
	}
	w->type[i] = (uint64_t)e->type << 2 | e->kind;
	w->time[i] = (uint64_t)ns - (uint64_t)w->last_ns;
	w->at[i] = at - w->last_at;
	w->thread[i] = e->thread;
	w->node[i] = e->node;
	w->last_ns = ns;
	w->last_at = at;
	w->events++;
	if (e->kind == MAYFLY_TRACK_END)
		return 0;
	for (uint32_t k = 0; k < r->track_type[e->type].fields; k++)
		w->value[w->values++] = e->value[k];
	return 0;
}

int tracks_number_nodes(struct track_writer *w, struct table_writer *tables)
{
	for (size_t i = 0; i < w->events; i++) {
		uint32_t node = tables_node(tables, (uint32_t)w->node[i]);

		if (node == RECORDING_NONE)
			return tables->error;
		w->node[i] = node;
	}
	return 0;
}

/* ---- texts ---- */

/* The number of a string's text; *new: it has none before. 0 is the empty one. */
static uint32_t number_text(struct track_writer *w, uint32_t string, bool *new)
{
	const char *text = recording_text(w->r, string);
	uint32_t *number = &w->text_number[string];

	*new = *text && !*number;
	if (*new) {
		*number = w->next_text++;
		bytes_put(&w->text, text, strlen(text) + 1);
	}
	return *number;
}

/* A column of texts, each as the step from the one before. */
struct text_column {
	uint64_t *value;
	size_t count;
	uint32_t last;
};

static void add_track_text(struct track_writer *w, struct text_column *c, uint32_t string)
{
	bool new;
	uint32_t number = number_text(w, string, &new);

	c->value[c->count++] = varint_zigzag((int64_t)number - c->last);
	c->last = number;
}

/* ---- types and labels ---- */

/* The rows that are new since the last chunk. */
struct new_rows {
	struct chunk_maker types, sets;
	size_t type_count, set_count, fields, labels;
	uint64_t *kind, *type_fields, *field_type, *set_labels;
	struct text_column name, category, unit, field_name, key, value;
};

static bool begin_rows(struct track_writer *w, struct new_rows *n)
{
	const struct recording *r = w->r;
	size_t types = r->track_types - w->types, sets = r->label_sets - w->sets;

	*n = (struct new_rows){.type_count = types, .set_count = sets};
	for (size_t i = w->types; i < r->track_types; i++)
		n->fields += r->track_type[i].fields;
	for (size_t i = w->sets; i < r->label_sets; i++)
		n->labels += r->label_set[i].count;
	n->name.value = chunk_add(&n->types, COLUMN_TYPE_NAME, types);
	n->kind = chunk_add(&n->types, COLUMN_TYPE_KIND, types);
	n->category.value = chunk_add(&n->types, COLUMN_TYPE_CATEGORY, types);
	n->unit.value = chunk_add(&n->types, COLUMN_TYPE_UNIT, types);
	n->type_fields = chunk_add(&n->types, COLUMN_TYPE_FIELDS, types);
	n->field_name.value = chunk_add(&n->types, COLUMN_FIELD_NAME, n->fields);
	n->field_type = chunk_add(&n->types, COLUMN_FIELD_TYPE, n->fields);
	n->set_labels = chunk_add(&n->sets, COLUMN_SET_LABELS, sets);
	n->key.value = chunk_add(&n->sets, COLUMN_LABEL_KEY, n->labels);
	n->value.value = chunk_add(&n->sets, COLUMN_LABEL_VALUE, n->labels);
	if (!n->types.failed && !n->sets.failed)
		return true;
	chunk_drop(&n->types);
	chunk_drop(&n->sets);
	return false;
}

static void fill_new_rows(struct track_writer *w, struct new_rows *n)
{
	const struct recording *r = w->r;

	for (size_t i = 0; i < n->type_count; i++) {
		const struct recording_track_type *t = &r->track_type[w->types + i];

		add_track_text(w, &n->name, t->name);
		add_track_text(w, &n->category, t->category);
		add_track_text(w, &n->unit, t->unit);
		n->kind[i] = t->kind;
		n->type_fields[i] = t->fields;
		for (uint32_t k = 0; k < t->fields; k++) {
			n->field_type[n->field_name.count] = t->field[k].type;
			add_track_text(w, &n->field_name, t->field[k].name);
		}
	}
	for (size_t i = 0; i < n->set_count; i++) {
		const struct recording_labels *s = &r->label_set[w->sets + i];

		n->set_labels[i] = s->count;
		for (uint32_t k = 0; k < s->count; k++) {
			add_track_text(w, &n->key, r->label[s->first + k].key);
			add_track_text(w, &n->value, r->label[s->first + k].value);
		}
	}
	w->types = r->track_types;
	w->sets = r->label_sets;
}

static void write_rows(struct chunk_maker *c, uint32_t type, size_t rows, size_t parts,
		       struct column_writer *columns, struct bytes *out)
{
	bytes_put_u(&c->head, rows);
	bytes_put_u(&c->head, parts);
	if (rows)
		chunk_finish(c, columns, type, out);
	else
		chunk_drop(c);
}

/* ---- values ---- */

static unsigned bits_in(uint64_t value)
{
	return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

static bool is_whole(uint64_t bits, int64_t *whole)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	if (!(fabs(value) <= MOST_INTEGER) || value != floor(value) ||
	    (value == 0 && signbit(value)))
		return false;
	*whole = (int64_t)value;
	return true;
}

/* Makes the doubles whole numbers; false, and nothing done, when one is not. */
static bool make_whole(uint64_t *value, size_t count)
{
	int64_t whole;

	for (size_t i = 0; i < count; i++)
		if (!is_whole(value[i], &whole))
			return false;
	for (size_t i = 0; i < count; i++) {
		is_whole(value[i], &whole);
		value[i] = (uint64_t)whole;
	}
	return true;
}

/* Appends the values as they are or as steps, as is shorter. True: steps. */
static bool put_track_numbers(struct track_writer *w, const uint64_t *value, size_t count,
			      bool is_signed)
{
	uint64_t plain = 0, steps = 0, last = 0, *to = w->number + w->numbers;

	for (size_t i = 0; i < count; i++) {
		plain += bits_in(is_signed ? varint_zigzag((int64_t)value[i]) : value[i]);
		steps += bits_in(varint_zigzag((int64_t)(value[i] - last)));
		last = value[i];
	}
	w->numbers += count;
	last = 0;
	for (size_t i = 0; i < count; i++) {
		if (steps < plain)
			to[i] = varint_zigzag((int64_t)(value[i] - last));
		else
			to[i] = is_signed ? varint_zigzag((int64_t)value[i]) : value[i];
		last = value[i];
	}
	return steps < plain;
}

static enum trace_form put_reals(struct track_writer *w, uint64_t *value, size_t count)
{
	uint64_t last = 0;

	if (make_whole(value, count))
		return put_track_numbers(w, value, count, true) ? FORM_STEP : FORM_WHOLE;
	for (size_t i = 0; i < count; i++) {
		w->real[w->reals++] = value[i] ^ last;
		last = value[i];
	}
	return FORM_VALUE;
}

static void put_track_words(struct track_writer *w, const uint64_t *value, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bool new;
		uint32_t number = number_text(w, (uint32_t)value[i], &new);

		w->words[w->texts++] = new ? 0 : 1 + (uint64_t)number;
	}
}

static enum trace_form put_track_field(struct track_writer *w, uint32_t type, uint64_t *value,
				       size_t count)
{
	switch ((enum mayfly_field_type)type) {
	case MAYFLY_FIELD_TEXT:
		put_track_words(w, value, count);
		return FORM_VALUE;
	case MAYFLY_FIELD_FLOAT:
		return put_reals(w, value, count);
	case MAYFLY_FIELD_INT:
	case MAYFLY_FIELD_UINT:
	case MAYFLY_FIELD_FLOW:
		break;
	}
	return put_track_numbers(w, value, count, type == MAYFLY_FIELD_INT) ? FORM_STEP
									    : FORM_VALUE;
}

/* Sorts the values by fields: place[] says where those of each type's first field begin; those of
 * its next ones follow. */
static void sort_values(const struct track_writer *w, size_t *place, uint64_t *sorted)
{
	const struct recording_track_type *types = w->r->track_type;
	const uint64_t *value = w->value;
	size_t *count = place + w->types, at = 0;

	for (size_t i = 0; i < w->events; i++)
		count[w->type[i] >> 2] += (w->type[i] & 3) != MAYFLY_TRACK_END;
	for (size_t i = 0; i < w->types; i++) {
		place[i] = at;
		at += count[i] * types[i].fields;
	}
	for (size_t i = 0; i < w->events; i++) {
		size_t type = w->type[i] >> 2;

		if ((w->type[i] & 3) == MAYFLY_TRACK_END)
			continue;
		for (uint32_t k = 0; k < types[type].fields; k++)
			sorted[place[type] + k * count[type]] = *value++;
		place[type]++;
	}
	for (size_t i = 0; i < w->types; i++)
		place[i] -= count[i];
}

/* One array: the columns, and the sorted values. */
static bool column_room(struct track_writer *w)
{
	if (w->values > w->column_room || !w->number) {
		free(w->number);
		w->column_room = w->values + w->values / 4;
		w->number = malloc((4 * w->column_room + 1) * sizeof(*w->number));
		if (!w->number) {
			w->column_room = 0;
			return false;
		}
	}
	w->real = w->number + w->column_room;
	w->words = w->real + w->column_room;
	return true;
}

static bool fill_values(struct track_writer *w)
{
	const struct recording_track_type *types = w->r->track_type;
	size_t *place = calloc(2 * w->types + 1, sizeof(*place)), fields = 0;
	uint64_t *sorted;

	w->numbers = w->reals = w->texts = w->forms = 0;
	for (size_t i = 0; i < w->types; i++)
		fields += types[i].fields;
	if (!place || !column_room(w) ||
	    !array_reserve_filled(&w->form, &w->form_room, fields, sizeof(*w->form), 0)) {
		free(place);
		return false;
	}
	sorted = w->words + w->column_room;
	sort_values(w, place, sorted);
	for (size_t i = 0; i < w->types; i++)
		for (uint32_t k = 0; k < types[i].fields; k++) {
			size_t count = place[w->types + i];

			w->form[w->forms++] = put_track_field(w, types[i].field[k].type,
							      sorted + place[i] + k * count, count);
		}
	free(place);
	return true;
}

/* ---- the chunks ---- */

void tracks_write_tables(struct track_writer *w, struct column_writer *columns, struct bytes *out)
{
	const struct recording *r = w->r;
	uint32_t before = w->next_text;
	struct new_rows n;

	if (!w->events && w->types == r->track_types && w->sets == r->label_sets)
		return;
	if (!array_reserve_filled(&w->text_number, &w->text_room, r->strings,
				  sizeof(*w->text_number), 0) ||
	    !begin_rows(w, &n)) {
		out->failed = true;
		return;
	}
	fill_new_rows(w, &n);
	w->first_text = w->next_text;
	if (w->events && !fill_values(w))
		out->failed = true;
	tables_write_texts(&w->text, w->next_text - before, TRACE_TEXTS, columns, out);
	write_rows(&n.types, TRACE_TRACK_TYPES, n.type_count, n.fields, columns, out);
	write_rows(&n.sets, TRACE_LABELS, n.set_count, n.labels, columns, out);
}

void tracks_write_events(struct track_writer *w, struct column_writer *columns, bool few,
			 struct bytes *out)
{
	const struct column column[] = {
	    {COLUMN_TRACK_TYPE, w->type, w->events}, {COLUMN_TRACK_TIME, w->time, w->events},
	    {COLUMN_TRACK_AT, w->at, w->events},     {COLUMN_TRACK_THREAD, w->thread, w->events},
	    {COLUMN_TRACK_NODE, w->node, w->events}, {COLUMN_TRACK_NUMBER, w->number, w->numbers},
	    {COLUMN_TRACK_FLOAT, w->real, w->reals}, {COLUMN_TRACK_TEXT, w->words, w->texts},
	    {COLUMN_TRACK_FORM, w->form, w->forms},
	};
	struct bytes head = {0};

	if (!w->events)
		return;
	if (!few && !w->columns)
		w->columns = column_writer_new(FAST_LEVEL);
	bytes_put_u(&head, w->events);
	bytes_put_u(&head, w->types);
	bytes_put_u(&head, w->first_text);
	bytes_put_s(&head, w->first_ns);
	bytes_put_u(&head, w->first_at);
	out->failed |= head.failed || (!few && !w->columns);
	if (!out->failed)
		chunk_write(few ? columns : w->columns, out, TRACE_TRACK, &head, column,
			    sizeof(column) / sizeof(*column));
	bytes_free(&head);
	w->events = w->values = 0;
}
