/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: types of track events, sets of labels, and the places of the trak chunks. See
 * track_read.h. */
#include "trace/read/track_read.h"

#include <stdlib.h>
#include <string.h>

#include "format/format.h"

bool tracks_read_begin(struct table_reader *r)
{
	struct mayfly_trace *t = r->t;

	if (!tables_grow(r, GROWING(t->text, t->text_room, 0), 1) ||
	    !tables_grow(r, GROWING(t->label_set, t->label_set_room, 0), 1))
		return false;
	t->text[0] = "";
	t->texts = 1;
	t->label_set[0] = (struct trace_labels){.text = ""};
	t->info.label_sets = 1;
	return true;
}

void tracks_close(struct mayfly_trace *t)
{
	free(t->text);
	free(t->track_type);
	free(t->label_set);
	free(t->label);
	free(t->track);
}

/* The numbers of a column's texts. */
static const uint32_t *text_column(struct table_reader *r, unsigned id, size_t count)
{
	const uint64_t *step = chunk_numbers(&r->chunk, id, count);
	uint32_t *number = chunk_memory_dirty(&r->chunk, count, sizeof(*number));
	uint64_t last = 0;

	if (!step || !number)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		last += varint_unzigzag(step[i]);
		if (last >= r->t->texts) {
			tables_damaged(r);
			return NULL;
		}
		number[i] = (uint32_t)last;
	}
	return number;
}

/* ---- types ---- */

struct type_columns {
	const uint32_t *name, *category, *unit, *field_name;
	const uint64_t *kind, *fields, *field_type;
	size_t all_fields, used;
};

/* False: it is invalid, or of a kind that only later versions know. */
static bool read_type(struct table_reader *r, struct type_columns *c, size_t i,
		      struct mayfly_track_type *type)
{
	const struct mayfly_trace *t = r->t;

	if (c->fields[i] > MAYFLY_TRACK_VALUES || c->fields[i] > c->all_fields - c->used) {
		tables_damaged(r);
		return false;
	}
	*type = (struct mayfly_track_type){
	    .name = t->text[c->name[i]],
	    .category = t->text[c->category[i]],
	    .unit = t->text[c->unit[i]],
	    .kind = (uint32_t)c->kind[i],
	    .fields = (size_t)c->fields[i],
	};
	for (size_t k = 0; k < type->fields; k++, c->used++) {
		if (c->field_type[c->used] > MAYFLY_FIELD_FLOW) {
			chunk_fail(&r->chunk, MAYFLY_E_VERSION);
			return false;
		}
		type->field[k].name = t->text[c->field_name[c->used]];
		type->field[k].type = (uint32_t)c->field_type[c->used];
	}
	if (c->kind[i] > MAYFLY_TYPE_COUNTER)
		chunk_fail(&r->chunk, MAYFLY_E_VERSION);
	else if (c->kind[i] == MAYFLY_TYPE_COUNTER &&
		 (!type->fields || type->field[0].type > MAYFLY_FIELD_FLOAT))
		tables_damaged(r);
	return !r->chunk.error;
}

static void read_track_types(struct table_reader *r)
{
	struct mayfly_trace *t = r->t;
	size_t count = tables_read_count(r, MAYFLY_TRACK_TYPES - t->info.track_types);
	struct type_columns c = {.all_fields =
				     tables_read_count(r, (uint64_t)count * MAYFLY_TRACK_VALUES)};

	if (!chunk_columns(&r->chunk, 0x2aaa))
		return;
	c.name = text_column(r, COLUMN_TYPE_NAME, count);
	c.kind = chunk_numbers(&r->chunk, COLUMN_TYPE_KIND, count);
	c.category = text_column(r, COLUMN_TYPE_CATEGORY, count);
	c.unit = text_column(r, COLUMN_TYPE_UNIT, count);
	c.fields = chunk_numbers(&r->chunk, COLUMN_TYPE_FIELDS, count);
	c.field_name = text_column(r, COLUMN_FIELD_NAME, c.all_fields);
	c.field_type = chunk_numbers(&r->chunk, COLUMN_FIELD_TYPE, c.all_fields);
	if (!tables_grow(r, GROWING(t->track_type, t->track_type_room, t->info.track_types), count))
		return;
	for (size_t i = 0; i < count; i++)
		if (!read_type(r, &c, i, &t->track_type[t->info.track_types + i]))
			return;
	if (c.used == c.all_fields)
		t->info.track_types += count;
	else
		tables_damaged(r);
}

/* ---- labels ---- */

/* If a key is there twice, the last one counts. */
static bool label_counts(const struct mayfly_label *label, size_t count, size_t i)
{
	for (size_t k = i + 1; k < count; k++)
		if (label[k].key == label[i].key || strcmp(label[k].key, label[i].key) == 0)
			return false;
	return true;
}

/* The length of the text of a set, with its zero. */
static size_t text_length(const struct mayfly_trace *t, const struct trace_labels *set)
{
	const struct mayfly_label *label = set->count ? t->label + set->first : NULL;
	size_t length = 0;

	for (size_t i = 0; i < set->count; i++)
		if (label_counts(label, set->count, i))
			length += strlen(label[i].key) + strlen(label[i].value) + strlen("=, ");
	return length ? length : 1;
}

static void put_label_text(const struct mayfly_trace *t, struct trace_labels *set, char *to)
{
	const struct mayfly_label *label = set->count ? t->label + set->first : NULL;

	set->text = to;
	*to = 0;
	for (size_t i = 0; i < set->count; i++) {
		if (!label_counts(label, set->count, i))
			continue;
		if (to != set->text)
			to = stpcpy(to, ", ");
		to = stpcpy(stpcpy(stpcpy(to, label[i].key), "="), label[i].value);
	}
}

/* The texts of the sets from this one on. */
static void make_texts(struct table_reader *r, size_t first)
{
	struct mayfly_trace *t = r->t;
	uint64_t size = 0;
	char *text;

	for (size_t i = first; i < t->info.label_sets && size <= r->budget; i++)
		size += text_length(t, &t->label_set[i]);
	text = trace_keep(t, &r->chunk, size, 1);
	if (!text)
		return;
	for (size_t i = first; i < t->info.label_sets; i++) {
		size_t length = text_length(t, &t->label_set[i]);

		put_label_text(t, &t->label_set[i], text);
		text += length;
	}
}

static void read_label_sets(struct table_reader *r)
{
	struct mayfly_trace *t = r->t;
	size_t sets = tables_read_count(r, MAYFLY_LABEL_SETS - t->info.label_sets);
	size_t labels = tables_read_count(r, (uint64_t)sets * TRACE_MAX_LABELS), used = 0;
	const uint64_t *count;
	const uint32_t *key, *value;

	if (!chunk_columns(&r->chunk, 0x2a))
		return;
	count = chunk_numbers(&r->chunk, COLUMN_SET_LABELS, sets);
	key = text_column(r, COLUMN_LABEL_KEY, labels);
	value = text_column(r, COLUMN_LABEL_VALUE, labels);
	for (size_t i = 0; !r->chunk.error && i < sets; i++) {
		if (count[i] > TRACE_MAX_LABELS || count[i] > labels - used)
			tables_damaged(r);
		used += (size_t)count[i];
	}
	if (used != labels)
		tables_damaged(r);
	if (!tables_grow(r, GROWING(t->label_set, t->label_set_room, t->info.label_sets), sets) ||
	    !tables_grow(r, GROWING(t->label, t->label_room, t->labels), labels))
		return;
	used = 0;
	for (size_t i = 0; i < sets; i++) {
		t->label_set[t->info.label_sets + i] =
		    (struct trace_labels){t->labels + used, (size_t)count[i], ""};
		used += (size_t)count[i];
	}
	for (size_t i = 0; i < labels; i++)
		t->label[t->labels + i] = (struct mayfly_label){t->text[key[i]], t->text[value[i]]};
	t->labels += labels;
	t->info.label_sets += sets;
	make_texts(r, t->info.label_sets - sets);
}

/* ---- where the events are ---- */

static void note_tracks(struct table_reader *r, size_t at)
{
	struct mayfly_trace *t = r->t;
	size_t events = tables_read_count(r, TRACE_CHUNK_EVENTS);

	if (r->chunk.head.bad)
		tables_damaged(r);
	if (!tables_grow(r, GROWING(t->track, t->track_room, t->tracks), 1))
		return;
	t->track[t->tracks++] = (struct trace_tracks){at, events};
	t->info.track_events += events;
}

void tracks_cut(struct mayfly_trace *t, size_t count)
{
	while (t->tracks > count)
		t->info.track_events -= t->track[--t->tracks].events;
}

void tracks_drop_unsound(struct mayfly_trace *t, struct chunk_reader *r)
{
	struct mayfly_track_cursor *c;
	size_t sound = 0, chunks = t->tracks;
	uint64_t events = 0;

	if (!chunks)
		return;
	r->error = mayfly_track_cursor_open(t, &c);
	for (size_t i = 0; i < chunks && !r->error; i++) {
		int error = track_cursor_load(c);

		if (!error) {
			events += t->track[i].events;
			t->track[sound++] = t->track[i];
		} else if (error == MAYFLY_E_MEMORY) {
			r->error = error;
		} else {
			side_chunk_lost(t, r, TRACE_TRACK, t->track[i].offset, UINT64_MAX);
		}
	}
	mayfly_track_cursor_close(c);
	t->tracks = sound;
	t->info.track_events = events;
}

/* If one of text, type or labl is missing, those after it would get its numbers. */
bool tracks_read(struct table_reader *r, uint32_t type, size_t at)
{
	struct mayfly_trace *t = r->t;

	switch (type) {
	case TRACE_TEXTS:
		if (t->lost.texts)
			tables_damaged(r);
		else
			tables_read_texts(r, &t->text, &t->texts, &t->text_room);
		return true;
	case TRACE_TRACK_TYPES:
		if (t->lost.types)
			tables_damaged(r);
		else
			read_track_types(r);
		return true;
	case TRACE_LABELS:
		if (t->lost.labels)
			tables_damaged(r);
		else
			read_label_sets(r);
		return true;
	case TRACE_TRACK:
		note_tracks(r, at);
		return true;
	}
	return false;
}

/* ---- what the trace has ---- */

const struct mayfly_track_type *mayfly_trace_track_type(const struct mayfly_trace *trace,
							size_t index)
{
	return index < trace->info.track_types ? &trace->track_type[index] : NULL;
}

const struct mayfly_label *mayfly_trace_labels(const struct mayfly_trace *trace, size_t set,
					       size_t *count)
{
	const struct trace_labels *s;

	*count = 0;
	if (set >= trace->info.label_sets)
		return NULL;
	s = &trace->label_set[set];
	*count = s->count;
	return s->count ? trace->label + s->first : NULL;
}

const char *mayfly_trace_label_text(const struct mayfly_trace *trace, size_t set)
{
	return set < trace->info.label_sets ? trace->label_set[set].text : "";
}
