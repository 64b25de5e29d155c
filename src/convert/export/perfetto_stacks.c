/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks in Perfetto's traces: see perfetto_stacks.h. */
#include "convert/export/perfetto_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "convert/perfetto_fields.h"

int perfetto_stacks_begin(struct perfetto_stacks *s, const struct mayfly_trace *trace,
			  const struct mayfly_query *query)
{
	int error;

	*s = (struct perfetto_stacks){0};
	error = shown_begin(&s->shown, trace, query);
	if (error)
		return error;
	s->line_frame = calloc(s->shown.lines + 1, sizeof(*s->line_frame));
	if (!s->line_frame || !rank_set_begin(&s->stack_known, s->shown.info->nodes) ||
	    !rank_set_begin(&s->line_known, s->shown.lines) ||
	    !rank_set_begin(&s->module_known, s->shown.info->modules) ||
	    !rank_set_begin(&s->name_known, s->shown.texts.count) ||
	    !rank_set_begin(&s->file_known, s->shown.texts.count))
		return MAYFLY_E_MEMORY;
	for (uint32_t i = 0; i < shown_indices(&s->shown); i++)
		for (uint32_t k = 0; k < s->shown.frame[i].count; k++)
			s->line_frame[s->shown.frame[i].first + k] =
			    shown_trace_frame(&s->shown, i);
	return 0;
}

void perfetto_stacks_end(struct perfetto_stacks *s)
{
	shown_end(&s->shown);
	rank_set_free(&s->stack_known);
	rank_set_free(&s->line_known);
	rank_set_free(&s->module_known);
	rank_set_free(&s->name_known);
	rank_set_free(&s->file_known);
	free(s->line_frame);
	bytes_free(&s->fresh);
	bytes_free(&s->inner);
	bytes_free(&s->ids);
}

static uint64_t perfetto_stacks_add_string(struct perfetto_stacks *s, uint32_t field, uint64_t iid,
					   const void *bytes, size_t size)
{
	protobuf_unsigned(&s->inner, STRING_IID, iid);
	protobuf_bytes(&s->inner, STRING_STR, bytes, size);
	protobuf_message(&s->fresh, field, &s->inner);
	return iid;
}

static uint64_t perfetto_stacks_add_text(struct perfetto_stacks *s, uint32_t field,
					 struct rank_set *known, uint32_t text)
{
	const char *of = shown_text(&s->shown, text);

	if (rank_set_take(known, text))
		perfetto_stacks_add_string(s, field, (uint64_t)text + 1, of, strlen(of));
	return (uint64_t)text + 1;
}

/* The iid; 0 for none. */
static uint64_t add_mapping(struct perfetto_stacks *s, uint32_t module)
{
	const struct mayfly_module *m = mayfly_trace_module(s->shown.trace, module);
	uint64_t iid = (uint64_t)module + 1;
	const char *path;

	if (!m)
		return 0;
	if (!rank_set_take(&s->module_known, module))
		return iid;
	/* Readers add a '/' before each part of a path. */
	path = m->path[0] == '/' ? m->path + 1 : m->path;
	perfetto_stacks_add_string(s, DATA_MAPPING_PATHS, iid, path, strlen(path));
	if (m->build_id_length)
		perfetto_stacks_add_string(s, DATA_BUILD_IDS, iid, m->build_id, m->build_id_length);
	protobuf_unsigned(&s->inner, MAPPING_IID, iid);
	if (m->build_id_length)
		protobuf_unsigned(&s->inner, MAPPING_BUILD_ID, iid);
	protobuf_unsigned(&s->inner, MAPPING_START, m->start);
	protobuf_unsigned(&s->inner, MAPPING_END, m->end);
	protobuf_unsigned(&s->inner, MAPPING_LOAD_BIAS, 0);
	protobuf_unsigned(&s->inner, MAPPING_PATH, iid);
	protobuf_message(&s->fresh, DATA_MAPPINGS, &s->inner);
	return iid;
}

static void perfetto_stacks_add_line(struct perfetto_stacks *s, uint32_t number)
{
	const struct shown_line *line = &s->shown.line[number];
	const struct mayfly_frame *f = mayfly_trace_frame(s->shown.trace, s->line_frame[number]);
	bool code = f && f->kind == MAYFLY_FRAME_CODE;
	uint64_t name, file = 0, mapping;

	if (!rank_set_take(&s->line_known, number))
		return;
	name = perfetto_stacks_add_text(s, DATA_FUNCTION_NAMES, &s->name_known, line->name);
	if (*shown_text(&s->shown, line->file))
		file = perfetto_stacks_add_text(s, DATA_SOURCE_PATHS, &s->file_known, line->file);
	mapping = code ? add_mapping(s, f->module) : 0;
	protobuf_unsigned(&s->inner, FRAME_IID, (uint64_t)number + 1);
	protobuf_unsigned(&s->inner, FRAME_FUNCTION, name);
	if (mapping)
		protobuf_unsigned(&s->inner, FRAME_MAPPING, mapping);
	if (code)
		protobuf_unsigned(&s->inner, FRAME_PC, f->address);
	if (file)
		protobuf_unsigned(&s->inner, FRAME_SOURCE, file);
	if (file && line->line)
		protobuf_unsigned(&s->inner, FRAME_LINE, line->line);
	protobuf_message(&s->fresh, DATA_FRAMES, &s->inner);
}

uint64_t perfetto_stack(struct perfetto_stacks *s, uint32_t node)
{
	uint64_t iid = (uint64_t)node + 1;
	const uint32_t *path;
	size_t length;

	if (node >= s->shown.info->nodes)
		node = 0;
	if (!rank_set_take(&s->stack_known, node))
		return iid;
	length = shown_path(&s->shown, node, &path);
	if (!length)
		return 0;
	protobuf_unsigned(&s->ids, CALLSTACK_IID, iid);
	while (length-- > 0) {
		const struct shown_frame *f = &s->shown.frame[path[length]];

		for (uint32_t k = f->count; k-- > 0;) {
			perfetto_stacks_add_line(s, f->first + k);
			protobuf_unsigned(&s->ids, CALLSTACK_FRAMES, (uint64_t)f->first + k + 1);
		}
	}
	protobuf_message(&s->fresh, DATA_CALLSTACKS, &s->ids);
	return s->fresh.failed ? 0 : iid;
}
