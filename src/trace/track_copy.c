/* SPDX-License-Identifier: Apache-2.0 */
/* Taking track events and labels over from an open trace. See track_copy.h. */
#include "trace/track_copy.h"

#include <stdlib.h>
#include <string.h>

#include "trace/reader.h"

static uint32_t string(struct recording *to, const char *text)
{
	return recording_string(to, text, strlen(text));
}

/* False: out of memory. */
static bool copy_type(struct track_copy *c, const struct mayfly_track_type *from, uint32_t *number)
{
	struct recording_track_type type = {
	    .kind = from->kind,
	    .name = string(c->to, from->name),
	    .category = string(c->to, from->category),
	    .unit = string(c->to, from->unit),
	    .fields = (uint32_t)from->fields,
	};

	if (type.name == RECORDING_NONE || type.category == RECORDING_NONE ||
	    type.unit == RECORDING_NONE)
		return false;
	for (size_t i = 0; i < from->fields; i++) {
		type.field[i].type = from->field[i].type;
		type.field[i].name = string(c->to, from->field[i].name);
		if (type.field[i].name == RECORDING_NONE)
			return false;
	}
	*number = recording_track_type(c->to, &type);
	return true;
}

static bool copy_labels(struct track_copy *c, const struct mayfly_label *from, size_t count,
			uint32_t *set)
{
	struct recording_label label[RECORDING_LABELS];

	for (size_t i = 0; i < count; i++) {
		label[i] = (struct recording_label){string(c->to, from[i].key),
						    string(c->to, from[i].value)};
		if (label[i].key == RECORDING_NONE || label[i].value == RECORDING_NONE)
			return false;
	}
	*set = recording_labels(c->to, label, (uint32_t)count);
	return true;
}

static int step(struct track_copy *c)
{
	int result = mayfly_track_cursor_next(c->cursor, &c->next);

	c->more = result == 1;
	return result < 0 ? result : 0;
}

int track_copy_begin(struct track_copy *c, const struct mayfly_trace *from, struct recording *to)
{
	const struct mayfly_info *info = &from->info;
	bool done;
	int error;

	*c = (struct track_copy){.from = from, .to = to};
	c->type = malloc((info->track_types + 1) * sizeof(*c->type));
	c->labels = malloc((info->label_sets + 1) * sizeof(*c->labels));
	done = c->type && c->labels;
	for (size_t i = 0; i < info->track_types && done; i++)
		done = copy_type(c, &from->track_type[i], &c->type[i]);
	for (size_t i = 0; i < info->label_sets && done; i++) {
		size_t count;
		const struct mayfly_label *label = mayfly_trace_labels(from, i, &count);

		done = copy_labels(c, label, count, &c->labels[i]);
		if (done && c->labels[i] == RECORDING_NONE)
			c->labels[i] = 0;
	}
	error = done ? mayfly_track_cursor_open(from, &c->cursor) : MAYFLY_E_MEMORY;
	return error ? error : step(c);
}

void track_copy_end(struct track_copy *c)
{
	free(c->type);
	free(c->labels);
	mayfly_track_cursor_close(c->cursor);
	*c = (struct track_copy){0};
}

int track_copy_next(struct track_copy *c, struct trace_writer *w, uint32_t thread, uint32_t node,
		    int64_t time_ns)
{
	const struct mayfly_track_event *e = &c->next;
	uint64_t value[MAYFLY_TRACK_VALUES] = {0};
	struct trace_track event = {time_ns, e->kind, c->type[e->type], thread, node, value};
	int error = 0;

	for (size_t i = 0; i < e->values; i++) {
		const char *text = e->value[i].text;

		value[i] = e->value[i].u;
		if (c->from->track_type[e->type].field[i].type != MAYFLY_FIELD_TEXT)
			continue;
		value[i] = recording_event_text(c->to, text, strlen(text));
		if (value[i] == RECORDING_NONE)
			return MAYFLY_E_MEMORY;
	}
	if (event.type == RECORDING_NONE)
		c->lost++;
	else
		error = trace_writer_track(w, &event);
	return error ? error : step(c);
}
