/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream's track events and labels. See spool_internal.h.
 *
 *	TYPE   id --> table's type, layout of its values	per writer, until the packet's end
 *	LABEL  id --> key, value (strings)			the same
 *	LABELS ids --> set of the tables --> blocks that are allocated from here on
 *	TRACK  id, values, stack --> trace_writer_track()
 *
 *	recorder: spool_stream_note() --> notes by time --> the same, between the spool's records
 */
#include "spool/spool_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "trace/track_kinds.h"

#define MOST_NOTES	 262144u /* that may wait for their round */
#define MOST_LABEL_TEXTS (2 * SPOOL_LABEL_IDS)
#define EVENT_BYTES	 16u  /* that an event needs in a trace at most, without texts */
#define WORTH_A_LOOK	 256u /* after so many estimated events, write them and measure */
#define LEAST_IDS	 16u
#define TRACK_BITS	 0xe0u /* of TRACK's first byte: those that mark it */

_Static_assert((int)SPOOL_BEGIN == MAYFLY_TRACK_BEGIN && (int)SPOOL_END == MAYFLY_TRACK_END &&
		   (int)SPOOL_INSTANT == MAYFLY_TRACK_INSTANT &&
		   (int)SPOOL_COUNT == MAYFLY_TRACK_COUNT,
	       "events have the same kinds in both formats");
_Static_assert((int)SPOOL_TYPE_SPAN == MAYFLY_TYPE_SPAN &&
		   (int)SPOOL_TYPE_INSTANT == MAYFLY_TYPE_INSTANT &&
		   (int)SPOOL_TYPE_COUNTER == MAYFLY_TYPE_COUNTER,
	       "types have the same kinds in both formats");
_Static_assert((int)SPOOL_INT == MAYFLY_FIELD_INT && (int)SPOOL_UINT == MAYFLY_FIELD_UINT &&
		   (int)SPOOL_FLOAT == MAYFLY_FIELD_FLOAT && (int)SPOOL_TEXT == MAYFLY_FIELD_TEXT &&
		   (int)SPOOL_FLOW == MAYFLY_FIELD_FLOW,
	       "fields have the same types in both formats");
_Static_assert(SPOOL_EVENT_VALUES == RECORDING_FIELDS && SPOOL_LABELS_MOST == RECORDING_LABELS,
	       "both formats hold as many");

/* ---- what ids mean ---- */

/* The slot of the id, or the free one where it belongs. */
static struct stream_id *find_slot(struct stream_id *slot, size_t size, uint32_t epoch, uint32_t id)
{
	size_t i = (id * 0x9e3779b1u >> 8) & (size - 1);

	while (slot[i].epoch == epoch && slot[i].id != id)
		i = (i + 1) & (size - 1);
	return &slot[i];
}

static const struct stream_id *find_told_id(const struct stream_ids *ids, uint64_t id,
					    uint32_t limit)
{
	const struct stream_id *found;

	if (id >= limit || !ids->used)
		return NULL;
	found = find_slot(ids->slot, ids->size, ids->epoch, (uint32_t)id);
	return found->epoch == ids->epoch ? found : NULL;
}

static bool grow_ids(struct stream_ids *ids)
{
	size_t size = ids->size ? 2 * ids->size : LEAST_IDS;
	struct stream_id *fresh;

	if (ids->size && ids->used < ids->size / 2)
		return true;
	fresh = calloc(size, sizeof(*fresh));
	if (!fresh)
		return false;
	if (!ids->epoch)
		ids->epoch = 1;
	for (size_t i = 0; i < ids->size; i++)
		if (ids->slot[i].epoch == ids->epoch)
			*find_slot(fresh, size, ids->epoch, ids->slot[i].id) = ids->slot[i];
	free(ids->slot);
	ids->slot = fresh;
	ids->size = size;
	return true;
}

/* The latest meaning counts. */
static void set_id(struct spool_stream *s, struct stream_ids *ids, uint64_t id, uint32_t first,
		   uint32_t second)
{
	struct stream_id *slot;

	if (!grow_ids(ids)) {
		stream_fail(s, MAYFLY_E_MEMORY);
		return;
	}
	slot = find_slot(ids->slot, ids->size, ids->epoch, (uint32_t)id);
	ids->used += slot->epoch != ids->epoch;
	*slot = (struct stream_id){(uint32_t)id, ids->epoch, first, second};
}

static void forget_all_ids(struct stream_ids *ids)
{
	if (!ids->used)
		return;
	ids->used = 0;
	if (++ids->epoch)
		return;
	memset(ids->slot, 0, ids->size * sizeof(*ids->slot));
	ids->epoch = 1;
}

void stream_forget_ids(struct stream_writer *w)
{
	forget_all_ids(&w->types);
	forget_all_ids(&w->label_ids);
	w->labels = 0;
}

void stream_free_ids(struct stream_writer *w)
{
	free(w->types.slot);
	free(w->label_ids.slot);
	free(w->open.span);
}

/* ---- texts ---- */

/* A text of the record: at most SPOOL_TEXT_BYTES. */
static const char *read_short_text(struct varint_in *in, size_t *length)
{
	uint64_t bytes = varint_u(in);

	if (bytes > SPOOL_TEXT_BYTES)
		varint_fail(in);
	*length = in->bad ? 0 : (size_t)bytes;
	return (const char *)varint_bytes(in, *length);
}

/* A text of a label. A process has a limited number of those, whatever texts its events have. */
static uint32_t add_label_text(struct spool_stream *s, const char *text, size_t length)
{
	size_t before = s->tables->strings;
	uint32_t string;

	if (s->label_texts >= MOST_LABEL_TEXTS)
		return recording_event_text(s->tables, text, length);
	string = recording_string(s->tables, text, length);
	s->label_texts += s->tables->strings - before;
	return string;
}

/* ---- types ---- */

/* A type as the record has it. */
struct told_type {
	uint64_t id;
	/* kind, number of fields, the type of each: 3 bits each */
	uint32_t layout;
	uint32_t texts; /* name, category, unit, names of the fields */
	struct {
		const char *bytes;
		size_t length;
	} text[3 + SPOOL_EVENT_VALUES];
};

static uint32_t layout_kind(uint32_t layout)
{
	return layout & 7;
}

static uint32_t layout_fields(uint32_t layout)
{
	return layout >> 3 & 7;
}

static uint32_t layout_field(uint32_t layout, uint32_t index)
{
	return layout >> (6 + 3 * index) & 7;
}

static void take_text(struct varint_in *in, struct told_type *t)
{
	t->text[t->texts].bytes = read_short_text(in, &t->text[t->texts].length);
	t->texts++;
}

/* False: in->bad. */
static bool take_told_type(struct varint_in *in, struct told_type *t)
{
	uint64_t fields;
	uint32_t kind;

	*t = (struct told_type){.id = varint_u(in)};
	kind = varint_byte(in);
	if (!t->id || t->id >= SPOOL_EVENT_TYPES || kind > SPOOL_TYPE_COUNTER)
		varint_fail(in);
	for (size_t i = 0; i < 3; i++)
		take_text(in, t);
	fields = varint_u(in);
	if (fields > SPOOL_EVENT_VALUES)
		varint_fail(in);
	t->layout = kind | (uint32_t)(in->bad ? 0 : fields) << 3;
	for (uint32_t i = 0; i < layout_fields(t->layout) && !in->bad; i++) {
		uint32_t type = varint_byte(in);

		if (type > SPOOL_FLOW)
			varint_fail(in);
		t->layout |= type << (6 + 3 * i);
		take_text(in, t);
	}
	return !in->bad;
}

void stream_read_type(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	struct recording_track_type type = {0};
	struct told_type t;
	uint32_t text[3 + SPOOL_EVENT_VALUES];

	if (!take_told_type(in, &t))
		return;
	/* A process cannot have more types; the names of this one are not kept either. */
	if (s->tables->track_types == MAYFLY_TRACK_TYPES) {
		set_id(s, &w->types, t.id, RECORDING_NONE, t.layout);
		return;
	}
	for (uint32_t i = 0; i < t.texts; i++)
		text[i] = recording_string(s->tables, t.text[i].bytes, t.text[i].length);
	type.kind = layout_kind(t.layout);
	type.name = text[0];
	type.category = text[1];
	type.unit = text[2];
	type.fields = layout_fields(t.layout);
	for (uint32_t i = 0; i < type.fields; i++) {
		type.field[i].type = layout_field(t.layout, i);
		type.field[i].name = text[3 + i];
	}
	/* RECORDING_NONE: the type is invalid, as a counter without a number; its events are not
	 * kept. */
	set_id(s, &w->types, t.id, recording_track_type(s->tables, &type), t.layout);
}

/* ---- labels ---- */

void stream_read_label(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint64_t id = varint_u(in);
	size_t key_length, value_length;
	const char *key = read_short_text(in, &key_length);
	const char *value = read_short_text(in, &value_length);

	if (id >= SPOOL_LABEL_IDS)
		varint_fail(in);
	if (in->bad)
		return;
	set_id(s, &w->label_ids, id, add_label_text(s, key, key_length),
	       add_label_text(s, value, value_length));
}

void stream_read_labels(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	struct recording_label label[SPOOL_LABELS_MOST];
	uint64_t count = varint_u(in);

	if (count > SPOOL_LABELS_MOST)
		varint_fail(in);
	for (uint64_t i = 0; i < count && !in->bad; i++) {
		const struct stream_id *id =
		    find_told_id(&w->label_ids, varint_u(in), SPOOL_LABEL_IDS);

		if (id)
			label[i] = (struct recording_label){id->first, id->second};
		else
			varint_fail(in);
	}
	if (in->bad)
		return;
	w->labels = count ? recording_labels(s->tables, label, (uint32_t)count) : 0;
	if (w->labels == RECORDING_NONE) /* there are too many sets */
		w->labels = 0;
}

/* ---- track events ---- */

/* Measures what the events really need, which is mostly far less than estimated. */
static void measure_events(struct spool_stream *s)
{
	int error = trace_writer_flush(s->trace);

	s->unmeasured = 0;
	s->event_bytes = trace_writer_track_bytes(s->trace);
	stream_fail(s, error);
}

/* Whether there is room for one more event; if not, it is counted as left out. */
static bool has_room(struct spool_stream *s)
{
	uint64_t most = s->options.event_bytes;

	if (most && s->event_bytes >= most && s->unmeasured >= WORTH_A_LOOK)
		measure_events(s);
	if (!most || s->event_bytes < most)
		return true;
	s->left_out++;
	return false;
}

/* Counts an event that is kept. text_bytes: of all texts before it. */
static void count_event(struct spool_stream *s, size_t text_bytes)
{
	s->unmeasured++;
	s->event_bytes += EVENT_BYTES + (s->tables->text.used - text_bytes);
}

/* A span's end is kept if its begin was, even without room. */
static bool keep_end(struct spool_stream *s, struct stream_writer *w, uint32_t type)
{
	enum stream_end end = stream_open_end(s, w, type);

	s->left_out += end == STREAM_END_LEFT_OUT;
	return end == STREAM_END_KEPT || (end == STREAM_END_UNKNOWN && has_room(s));
}

/* keep: the event is kept, so its texts are needed. */
static void read_event_values(struct spool_stream *s, struct varint_in *in, uint32_t layout,
			      bool keep, uint64_t *value)
{
	for (uint32_t i = 0; i < layout_fields(layout) && !in->bad; i++) {
		const uint8_t *text;
		size_t length;

		if (layout_field(layout, i) != SPOOL_TEXT) {
			value[i] = varint_fixed(in, 8);
			continue;
		}
		length = varint_byte(in);
		text = varint_bytes(in, length);
		if (!in->bad && keep)
			value[i] = recording_event_text(s->tables, (const char *)text, length);
	}
}

/* The event's stack: its node. */
static uint32_t read_event_stack(struct spool_stream *s, struct stream_writer *w,
				 struct varint_in *in)
{
	uint64_t pop = varint_u(in), push = varint_u(in);
	enum stack_result result;

	if (in->bad)
		return 0;
	result = stack_change(&s->stacks, &w->stack, pop, push, in);
	if (result == STACK_MEMORY)
		stream_fail(s, MAYFLY_E_MEMORY);
	if (result != STACK_DONE)
		varint_fail(in);
	return in->bad ? 0 : stack_node(&w->stack);
}

void stream_read_track(struct spool_stream *s, struct stream_writer *w, uint8_t tag,
		       struct varint_in *in)
{
	uint32_t kind = tag & 3;
	uint64_t value[SPOOL_EVENT_VALUES] = {0};
	struct trace_track event = {.kind = kind, .value = value};
	size_t text_bytes = s->tables->text.used;
	const struct stream_id *type;
	bool known, keep;

	if ((tag & TRACK_BITS) != SPOOL_TRACK)
		varint_fail(in);
	varint_fixed(in, 1u << (tag >> SPOOL_TRACK_WIDTH_SHIFT & 3)); /* its time: w->due */
	type = find_told_id(&w->types, varint_fixed(in, 2), SPOOL_EVENT_TYPES);
	if (!type) {
		varint_fail(in);
		return;
	}
	event.type =
	    track_kind_fits(layout_kind(type->second), kind) ? type->first : RECORDING_NONE;
	known = s->trace && event.type != RECORDING_NONE;
	keep = known && kind != SPOOL_END && has_room(s);
	if (kind != SPOOL_END)
		read_event_values(s, in, type->second, keep, value);
	if (tag & SPOOL_TRACK_STACK)
		event.node = read_event_stack(s, w, in);
	if (in->bad)
		return;
	w->ticks = w->due;
	if (s->passing)
		return;
	s->unkept_events += event.type == RECORDING_NONE;
	if (known && kind == SPOOL_BEGIN)
		stream_open_begin(s, w, event.type, keep);
	else if (known && kind == SPOOL_END)
		keep = keep_end(s, w, event.type);
	if (keep) {
		count_event(s, text_bytes);
		stream_hand_track(s, w, &event);
	}
}

/* ---- looking ahead ---- */

void stream_look_ahead(struct spool_stream *s)
{
	forget_all_ids(&s->ahead);
}

static void skip_type(struct spool_stream *s, struct varint_in *in)
{
	struct told_type t;

	if (take_told_type(in, &t))
		set_id(s, &s->ahead, t.id, RECORDING_NONE, t.layout);
}

static void skip_labels(struct varint_in *in)
{
	uint64_t count = varint_u(in);

	for (uint64_t i = 0; i < count && !in->bad; i++)
		varint_u(in);
}

static void skip_label(struct varint_in *in)
{
	size_t length;

	varint_u(in);
	read_short_text(in, &length);
	read_short_text(in, &length);
}

static void skip_values(struct varint_in *in, uint32_t layout)
{
	for (uint32_t i = 0; i < layout_fields(layout) && !in->bad; i++)
		varint_bytes(in, layout_field(layout, i) == SPOOL_TEXT ? varint_byte(in) : 8);
}

static void skip_frames(struct varint_in *in)
{
	uint64_t push;

	varint_u(in);
	push = varint_u(in);
	for (uint64_t i = 0; i < push && !in->bad; i++)
		if (varint_fixed(in, 2) == SPOOL_FRAME_LITERAL)
			varint_bytes(in, 8);
}

static void skip_track(const struct spool_stream *s, const struct stream_ids *known, uint8_t tag,
		       struct varint_in *in)
{
	const struct stream_id *type;
	uint64_t id;

	varint_bytes(in, 1u << (tag >> SPOOL_TRACK_WIDTH_SHIFT & 3));
	id = varint_fixed(in, 2);
	type = find_told_id(&s->ahead, id, SPOOL_EVENT_TYPES);
	if (!type && known)
		type = find_told_id(known, id, SPOOL_EVENT_TYPES);
	if (!type) {
		varint_fail(in);
		return;
	}
	if ((tag & 3) != SPOOL_END)
		skip_values(in, type->second);
	if (tag & SPOOL_TRACK_STACK)
		skip_frames(in);
}

bool stream_skip_track(struct spool_stream *s, const struct stream_ids *known, struct varint_in *in)
{
	uint8_t tag = *in->at;

	if (tag != SPOOL_TYPE && tag != SPOOL_LABEL && tag != SPOOL_LABELS &&
	    (tag & TRACK_BITS) != SPOOL_TRACK)
		return false;
	in->at++;
	if (tag == SPOOL_TYPE)
		skip_type(s, in);
	else if (tag == SPOOL_LABEL)
		skip_label(in);
	else if (tag == SPOOL_LABELS)
		skip_labels(in);
	else
		skip_track(s, known, tag, in);
	return !in->bad;
}

/* ---- notes of the recorder's ---- */

void stream_time_notes(struct spool_stream *s)
{
	s->note_due = s->first_note < s->notes
			  ? tick_clock_ticks(&s->clock, s->note[s->first_note].ns)
			  : UINT64_MAX;
}

static void hand_note(struct spool_stream *s, const struct stream_note *n)
{
	struct trace_track event = {.kind = n->kind, .type = n->type, .value = n->value};

	if (n->type == RECORDING_NONE) {
		s->unkept_events++;
		return;
	}
	if (n->ns > s->now_ns)
		s->now_ns = n->ns;
	event.time_ns = s->now_ns;
	event.thread = stream_index_thread(s, n->tid);
	if (!s->error)
		stream_write_track(s, &event);
}

void stream_hand_notes(struct spool_stream *s, uint64_t last)
{
	if (s->first_note == s->notes || s->note_due > last)
		return;
	stream_apply_waiting(s);
	while (s->first_note < s->notes && s->note_due <= last && !s->error) {
		hand_note(s, &s->note[s->first_note++]);
		stream_time_notes(s);
	}
}

static uint32_t note_text(struct spool_stream *s, const char *text)
{
	return text ? recording_event_text(s->tables, text, strlen(text)) : 0;
}

/* Room for one more note; those that the writer has are removed first. */
static bool note_room(struct spool_stream *s)
{
	if (s->first_note && s->notes == s->notes_size) {
		s->notes -= s->first_note;
		memmove(s->note, s->note + s->first_note, s->notes * sizeof(*s->note));
		s->first_note = 0;
	}
	return array_reserve(&s->note, &s->notes_size, s->notes, sizeof(*s->note));
}

static int add_note(struct spool_stream *s, const struct stream_note *n)
{
	size_t at;

	if (!note_room(s))
		return MAYFLY_E_MEMORY;
	for (at = s->notes++; at > s->first_note && s->note[at - 1].ns > n->ns; at--)
		s->note[at] = s->note[at - 1];
	s->note[at] = *n;
	return 0;
}

int spool_stream_note(struct spool_stream *s, uint64_t mono_ns, uint32_t tid, uint32_t kind,
		      const struct mayfly_track_type *type, const uint64_t *value)
{
	struct stream_note n = {.tid = tid, .kind = kind};
	size_t text_bytes = s->tables->text.used;
	uint64_t start = s->header.start_mono_ns;

	if (s->error || !s->trace)
		return s->error;
	if (kind > MAYFLY_TRACK_COUNT || type->fields > SPOOL_EVENT_VALUES)
		return MAYFLY_E_RANGE;
	if (s->notes - s->first_note >= MOST_NOTES) {
		s->unkept_events++;
		return 0;
	}
	if (!has_room(s))
		return 0;
	if (mono_ns > start)
		n.ns = mono_ns - start < (uint64_t)TICK_CLOCK_LATEST ? (int64_t)(mono_ns - start)
								     : TICK_CLOCK_LATEST;
	n.type = recording_copy_track_type(s->tables, type);
	for (size_t i = 0; i < type->fields && kind != MAYFLY_TRACK_END; i++) {
		n.value[i] = value[i];
		if (type->field[i].type == MAYFLY_FIELD_TEXT)
			n.value[i] = note_text(s, (const char *)(uintptr_t)value[i]);
	}
	count_event(s, text_bytes);
	return s->error ? s->error : add_note(s, &n);
}
