/* SPDX-License-Identifier: Apache-2.0 */
/* Reading mappings with resident pages: doc/FORMAT.md, "maps". */
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "trace/read/reader.h"

/* The names, which end at *end, the empty one first; NULL: c->error is set. */
static const char **read_names(struct chunk_reader *c, size_t count, const char **end)
{
	size_t size = 0, at = 0;
	const char *text = (const char *)chunk_bytes(c, COLUMN_MAPPING_NAMES, &size), **name;

	if (!text || count > size || (size && text[size - 1])) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return NULL;
	}
	name = chunk_memory(c, count + 1, sizeof(*name));
	if (!name)
		return NULL;
	name[0] = *end = text + size;
	for (size_t i = 1; i <= count; i++) {
		if (at == size) {
			chunk_fail(c, MAYFLY_E_DAMAGED);
			return NULL;
		}
		name[i] = text + at;
		at += strlen(text + at) + 1;
	}
	if (at != size)
		chunk_fail(c, MAYFLY_E_DAMAGED);
	return c->error ? NULL : name;
}

static const struct mayfly_mapping *read_rows(struct chunk_reader *c, const char *const *name,
					      size_t names, size_t count)
{
	const uint64_t *kind = chunk_numbers(c, COLUMN_MAPPING_KIND, count);
	const uint64_t *start = chunk_numbers(c, COLUMN_MAPPING_START, count);
	const uint64_t *size = chunk_numbers(c, COLUMN_MAPPING_SIZE, count);
	const uint64_t *resident = chunk_numbers(c, COLUMN_MAPPING_RESIDENT, count);
	const uint64_t *number = chunk_numbers(c, COLUMN_MAPPING_NAME, count);
	struct mayfly_mapping *mapping = chunk_memory(c, count, sizeof(*mapping));
	uint64_t last = 0, end;

	if (!kind || !start || !size || !resident || !number || !mapping)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (__builtin_add_overflow(last, start[i], &last) ||
		    __builtin_add_overflow(last, size[i], &end) ||
		    resident[i] > TRACE_MOST_RESIDENT || number[i] > names) {
			chunk_fail(c, MAYFLY_E_DAMAGED);
			return NULL;
		}
		mapping[i] = (struct mayfly_mapping){last, size[i], resident[i],
						     kind[i] < MAYFLY_MAPPING_KINDS
							 ? (enum mayfly_mapping_kind)kind[i]
							 : MAYFLY_MAPPING_OTHER,
						     name[number[i]]};
	}
	return mapping;
}

/* Rows and names become the trace's. NULL: c->error is set. */
static struct mayfly_mapping *keep_mappings(struct mayfly_trace *t, struct chunk_reader *c,
					    const struct mayfly_mapping *row, size_t count,
					    const char *names, const char *end)
{
	size_t room = 0, size = (size_t)(end - names);
	char *text = trace_keep(t, c, size, 1);
	struct mayfly_mapping *mapping = NULL;

	if (!text || !chunk_grow(c, GROWING(mapping, room, 0), (uint64_t)count + 1))
		return NULL;
	memcpy(text, names, size);
	for (size_t i = 0; i < count; i++) {
		mapping[i] = row[i];
		mapping[i].name = text + (row[i].name - names);
	}
	return mapping;
}

void residency_read(struct mayfly_trace *t, struct chunk_reader *c)
{
	uint64_t moment = varint_u(&c->head), unit = varint_u(&c->head), names, count;
	const struct mayfly_mapping *row;
	struct mayfly_residency r = {0};
	const char **name, *end;
	int64_t time = varint_s(&c->head);

	r.resident = varint_u(&c->head);
	names = varint_u(&c->head);
	count = varint_u(&c->head);
	if (!chunk_columns(c, 0xaaa) || moment >= RESIDENCY_MOMENTS)
		return; /* a moment that is not known here */
	if (unit < 1 || unit > 1000000000 || r.resident > TRACE_MOST_RESIDENT ||
	    names > UINT32_MAX || count > UINT32_MAX) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return;
	}
	r.time_ns = chunk_time(c, time, unit);
	name = read_names(c, (size_t)names, &end);
	row = name ? read_rows(c, name, (size_t)names, (size_t)count) : NULL;
	if (!row || c->error)
		return;
	r.count = (size_t)count;
	r.mapping = keep_mappings(t, c, row, r.count, names ? name[1] : end, end);
	if (!r.mapping)
		return;
	free((void *)(uintptr_t)t->residency[moment].mapping);
	t->residency[moment] = r;
	t->lost.residency[moment] = false;
}

void residency_close(struct mayfly_trace *t)
{
	for (size_t i = 0; i < RESIDENCY_MOMENTS; i++)
		free((void *)(uintptr_t)t->residency[i].mapping);
}

const struct mayfly_residency *mayfly_trace_residency(const struct mayfly_trace *trace, bool at_end)
{
	const struct mayfly_residency *of[] = {&trace->residency[RESIDENCY_PEAK],
					       &trace->residency[RESIDENCY_END]};

	if (trace->lost.residency[at_end ? RESIDENCY_END : RESIDENCY_PEAK])
		return NULL;
	/* If both are the same moment, it is stored once. */
	if (of[at_end]->mapping)
		return of[at_end];
	return of[!at_end]->mapping ? of[!at_end] : NULL;
}
