/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking track events and labels over from another trace. See track_copy.h.
 *
 * A packed event, all numbers as varints: type << 2 | kind; time and events before it, since the
 * one before; thread, node; values.
 */
#include "trace/rewrite/track_copy.h"

#include <stdlib.h>
#include <string.h>

#include "trace/read/reader.h"

/* ---- events ---- */

static uint32_t mapped(const uint32_t *map, uint32_t number)
{
	return map ? map[number] : number;
}

/* The values as the tables have them. */
static void take_event_values(struct track_copy *c, const struct mayfly_track_event *e)
{
	const struct mayfly_track_type *type = &c->from->track_type[e->type];

	for (size_t i = 0; i < e->values; i++) {
		const char *text = e->value[i].text;

		c->value[i] = e->value[i].u;
		if (type->field[i].type == MAYFLY_FIELD_TEXT)
			c->value[i] = recording_event_text(c->to, text, strlen(text));
	}
}

static int step_in_trace(struct track_copy *c)
{
	struct mayfly_track_event e;
	int result;

	while ((result = mayfly_track_cursor_next(c->cursor, &e)) == 1) {
		if (c->type[e.type] == RECORDING_NONE) {
			c->lost++;
			continue;
		}
		c->next = (struct trace_track){.time_ns = e.time_ns,
					       .kind = e.kind,
					       .type = c->type[e.type],
					       .thread = mapped(c->thread, e.thread),
					       .node = mapped(c->node, e.node)};
		c->events_before = e.events_before;
		c->more = true;
		take_event_values(c, &e);
		return 0;
	}
	c->more = false;
	return result;
}

/* The number of values of the current event. */
static uint32_t values_of(const struct track_copy *c)
{
	return c->next.kind == MAYFLY_TRACK_END ? 0 : c->to->track_type[c->next.type].fields;
}

/* Events after what was packed are from 0 on. */
static void step_in_packed(struct track_copy *c)
{
	struct varint_in *in = &c->in;
	uint64_t head;

	c->more = varint_left(in) > 0;
	if (!c->more)
		return;
	head = varint_u(in);
	c->next.kind = head & 3;
	c->next.type = (uint32_t)(head >> 2);
	c->next.time_ns = (int64_t)((uint64_t)c->next.time_ns + varint_u(in));
	c->events_before += varint_u(in);
	c->next.thread = (uint32_t)varint_u(in);
	c->next.node = (uint32_t)varint_u(in);
	for (uint32_t i = 0; i < values_of(c); i++)
		c->value[i] = varint_u(in);
}

static void pack_track(struct track_copy *c, int64_t *last_ns, uint64_t *last_before)
{
	struct bytes *b = &c->packed;

	bytes_put_u(b, (uint64_t)c->next.type << 2 | c->next.kind);
	bytes_put_u(b, (uint64_t)c->next.time_ns - (uint64_t)*last_ns);
	bytes_put_u(b, c->events_before - *last_before);
	bytes_put_u(b, c->next.thread);
	bytes_put_u(b, c->next.node);
	for (uint32_t i = 0; i < values_of(c); i++)
		bytes_put_u(b, c->value[i]);
	*last_ns = c->next.time_ns;
	*last_before = c->events_before;
}

int track_copy_pack(struct track_copy *c)
{
	int64_t first_ns = c->next.time_ns, last_ns = first_ns;
	uint64_t last_before = 0;
	int error = 0;

	while (c->more && !error) {
		pack_track(c, &last_ns, &last_before);
		error = step_in_trace(c);
	}
	mayfly_track_cursor_close(c->cursor);
	free(c->type);
	free(c->labels);
	c->cursor = NULL;
	c->from = NULL;
	c->type = c->labels = NULL;
	if (error || c->packed.failed)
		return error ? error : MAYFLY_E_MEMORY;
	c->in = varint_begin(c->packed.at, c->packed.used);
	c->next.time_ns = first_ns;
	c->events_before = 0;
	step_in_packed(c);
	return 0;
}

int track_copy_begin(struct track_copy *c, const struct mayfly_trace *from, struct recording *to,
		     const uint32_t *thread, const uint32_t *node)
{
	const struct mayfly_info *info = &from->info;
	int error;

	*c = (struct track_copy){.from = from, .to = to, .thread = thread, .node = node};
	c->type = malloc((info->track_types + 1) * sizeof(*c->type));
	c->labels = malloc((info->label_sets + 1) * sizeof(*c->labels));
	if (!c->type || !c->labels)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < info->track_types; i++)
		c->type[i] = recording_copy_track_type(to, &from->track_type[i]);
	for (size_t i = 0; i < info->label_sets; i++) {
		size_t count;
		const struct mayfly_label *label = mayfly_trace_labels(from, i, &count);

		c->labels[i] = recording_copy_labels(to, label, count);
		if (c->labels[i] == RECORDING_NONE) /* there are too many */
			c->labels[i] = 0;
	}
	error = to->failed ? MAYFLY_E_MEMORY : mayfly_track_cursor_open(from, &c->cursor);
	return error ? error : step_in_trace(c);
}

void track_copy_end(struct track_copy *c)
{
	free(c->type);
	free(c->labels);
	mayfly_track_cursor_close(c->cursor);
	bytes_free(&c->packed);
	*c = (struct track_copy){0};
}

int track_copy_next(struct track_copy *c, struct trace_writer *w, int64_t offset_ns)
{
	struct trace_track event = c->next;
	int error;

	event.time_ns += offset_ns;
	event.value = c->value;
	error = trace_writer_track(w, &event);
	if (error)
		return error;
	if (c->cursor)
		return step_in_trace(c);
	step_in_packed(c);
	return 0;
}
