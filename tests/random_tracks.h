/* SPDX-License-Identifier: Apache-2.0 */
/* Random track events beside the blocks of random_trace.h, and labels. */
#ifndef MAYFLY_RANDOM_TRACKS_H
#define MAYFLY_RANDOM_TRACKS_H

#include "random_trace.h"

/* Types of all kinds, with fields of all types. */
static inline void add_track_types(struct recording *r, uint32_t count)
{
	static const char *const names[] = {"request", "parse", "gc", "queue", "résumé", ""};
	static const char *const units[] = {"", "bytes", "ns"};

	for (uint32_t i = 0; i < count; i++) {
		struct recording_track_type type = {
		    .kind = below(3),
		    .name = intern(r, names[below(6)]),
		    .category = intern(r, below(2) ? "" : "ocaml"),
		    .unit = intern(r, units[below(3)]),
		    .fields = below(RECORDING_FIELDS + 1),
		};

		for (uint32_t k = 0; k < type.fields; k++) {
			type.field[k].type = below(5);
			type.field[k].name = intern(r, names[below(6)]);
		}
		if (type.kind == MAYFLY_TYPE_COUNTER) {
			type.fields += type.fields == 0;
			type.field[0].type = below(3);
			type.field[0].name = intern(r, "value");
		}
		CHECK(recording_track_type(r, &type) != RECORDING_NONE);
	}
}

static inline uint32_t random_text(struct recording *r, const char *prefix, uint32_t kinds)
{
	char text[80];

	if (below(10) == 0)
		return 0;
	snprintf(text, sizeof(text), "%s%u", prefix, below(kinds));
	return recording_event_text(r, text, strlen(text));
}

static inline uint32_t random_labels(struct recording *r)
{
	struct recording_label label[RECORDING_LABELS];
	uint32_t count = below(4) ? below(3) : below(RECORDING_LABELS + 1);

	for (uint32_t i = 0; i < count; i++)
		label[i] = (struct recording_label){random_text(r, "key", 3),
						    random_text(r, "value", below(2) ? 4 : 100)};
	return recording_labels(r, label, count);
}

static inline uint64_t random_value(struct recording *r, uint32_t type, uint32_t style)
{
	static uint64_t counter;
	double real = below(2) ? (double)below(1000) - 500 : (double)random_bits() / 7e9;
	uint64_t bits;

	switch (type) {
	case MAYFLY_FIELD_TEXT:
		return random_text(r, "text", style ? 5 : 100000);
	case MAYFLY_FIELD_FLOAT:
		if (style < 2)
			real = (double)below(100) - 50;
		memcpy(&bits, &real, sizeof(bits));
		return style == 3 && below(4) == 0 ? random_bits() : bits;
	default:
		return style == 0   ? below(10)
		       : style == 1 ? counter += below(3)
		       : style == 2 ? random_bits() >> below(64)
				    : below(1000000);
	}
}

/* A track event that is to be written, and what will be read. */
struct track_item {
	struct trace_track track;
	uint64_t value[RECORDING_FIELDS];
	uint64_t before; /* events of blocks */
};

struct track_story {
	struct track_item *item;
	size_t items, room;
	int64_t last_ns;
};

/* style: what the values are like. */
static inline void write_track(struct trace_writer *w, struct recording *r, struct track_story *s,
			       int64_t time_ns, uint64_t before, uint32_t style)
{
	struct track_item *item;
	const struct recording_track_type *type;

	if (s->items == s->room) {
		s->room = 2 * s->room + 16;
		s->item = realloc(s->item, s->room * sizeof(*s->item));
	}
	item = &s->item[s->items++];
	*item = (struct track_item){.before = before};
	item->track.type = below((uint32_t)r->track_types);
	type = &r->track_type[item->track.type];
	item->track.kind = type->kind == MAYFLY_TYPE_SPAN      ? below(2)
			   : type->kind == MAYFLY_TYPE_INSTANT ? MAYFLY_TRACK_INSTANT
							       : MAYFLY_TRACK_COUNT;
	item->track.thread = below((uint32_t)r->threads);
	item->track.node = below(3) ? 0 : below((uint32_t)r->nodes);
	item->track.time_ns = time_ns;
	for (uint32_t i = 0; i < type->fields; i++)
		item->value[i] = random_value(r, type->field[i].type, style);
	item->track.value = item->value;
	CHECK(trace_writer_track(w, &item->track) == 0);
	item->track.value = NULL;
	if (item->track.time_ns < s->last_ns && s->items > 1)
		item->track.time_ns = s->last_ns;
	s->last_ns = item->track.time_ns;
}

#endif
