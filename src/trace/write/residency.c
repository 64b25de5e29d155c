/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings with resident pages: see residency.h, and doc/FORMAT.md, "maps". */
#include "trace/write/residency.h"

#include <stdlib.h>
#include <string.h>

#include "format/columns.h"
#include "base/array.h"

#define UNIT_NS 1000

void residency_free(struct residency *r)
{
	free(r->row);
	bytes_free(&r->names);
	*r = (struct residency){0};
}

const char *residency_name(const struct residency *r, const struct residency_row *row)
{
	return (const char *)r->names.at + row->name;
}

bool residency_add(struct residency *r, const struct residency_row *row, const char *name)
{
	struct residency_row *to;

	if (!r->names.used)
		bytes_put(&r->names, "", 1);
	if (r->names.failed || r->names.used > UINT32_MAX / 2 ||
	    !array_reserve(&r->row, &r->room, r->rows, sizeof(*r->row)))
		return false;
	to = &r->row[r->rows];
	*to = *row;
	if (!*name) {
		to->name = 0;
	} else if (r->rows && !strcmp(name, residency_name(r, to - 1))) {
		to->name = to[-1].name;
	} else {
		to->name = (uint32_t)r->names.used;
		bytes_put(&r->names, name, strlen(name) + 1);
	}
	r->rows += !r->names.failed;
	return !r->names.failed;
}

static int compare_resident(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

/* The largest size that too many rows have. */
static bool find_least(const struct residency *r, uint64_t *least)
{
	uint64_t *size = malloc(r->rows * sizeof(*size));

	if (!size)
		return false;
	for (size_t i = 0; i < r->rows; i++)
		size[i] = r->row[i].resident;
	qsort(size, r->rows, sizeof(*size), compare_resident);
	*least = size[RESIDENCY_MOST];
	free(size);
	return true;
}

bool residency_shrink(struct residency *r)
{
	struct residency less = {.time_ns = r->time_ns, .resident = r->resident};
	uint64_t rest[MAYFLY_MAPPING_KINDS] = {0}, least;
	bool done = true;

	if (r->rows <= RESIDENCY_MOST)
		return true;
	if (!find_least(r, &least))
		return false;
	for (size_t i = 0; i < r->rows; i++)
		if (r->row[i].resident <= least)
			rest[r->row[i].kind] += r->row[i].resident;
	for (uint32_t i = 0; i < MAYFLY_MAPPING_KINDS && done; i++)
		if (rest[i])
			done = residency_add(
			    &less, &(struct residency_row){.resident = rest[i], .kind = i}, "");
	for (size_t i = 0; i < r->rows && done; i++)
		if (r->row[i].resident > least)
			done = residency_add(&less, &r->row[i], residency_name(r, &r->row[i]));
	if (!done) {
		residency_free(&less);
		return false;
	}
	residency_free(r);
	*r = less;
	return true;
}

/* The rows may come out of order from outside: a reader takes them in order only. Those of one start
 * stay as they are, and nearly all are in order. */
static void sort_rows(struct residency *r)
{
	for (size_t i = 1; i < r->rows; i++) {
		struct residency_row row = r->row[i];
		size_t at = i;

		for (; at && r->row[at - 1].start > row.start; at--)
			r->row[at] = r->row[at - 1];
		r->row[at] = row;
	}
}

/* False: all of the row is in those before it, which end there. */
static bool clip_row(struct residency_row *row, uint64_t end)
{
	uint64_t over = row->start < end ? end - row->start : 0;

	if (row->resident > TRACE_MOST_RESIDENT)
		row->resident = TRACE_MOST_RESIDENT;
	if (row->size > UINT64_MAX - row->start)
		row->size = UINT64_MAX - row->start;
	if (!over)
		return true;
	if (row->size && row->size <= over)
		return false;
	row->start = end;
	if (row->size) {
		row->size -= over;
		if (row->resident > row->size)
			row->resident = row->size;
	}
	return true;
}

/* Memory that was read twice, as of a mapping that grew meanwhile, counts once. */
static void clip_rows(struct residency *r)
{
	uint64_t end = 0;
	size_t kept = 0;

	for (size_t i = 0; i < r->rows; i++) {
		struct residency_row row = r->row[i];

		if (!clip_row(&row, end))
			continue;
		end = row.start + row.size;
		r->row[kept++] = row;
	}
	r->rows = kept;
}

/* Names from 1, in the order of the rows; the same name twice if it is not in consecutive rows. */
static uint64_t put_names(const struct residency *r, uint64_t *number, struct bytes *names)
{
	uint64_t count = 0;
	uint32_t last = 0;

	for (size_t i = 0; i < r->rows; i++) {
		const char *name = residency_name(r, &r->row[i]);

		if (*name && r->row[i].name != last) {
			bytes_put(names, name, strlen(name) + 1);
			count++;
			last = r->row[i].name;
		}
		number[i] = *name ? count : 0;
	}
	return count;
}

static void put_rows(const struct residency *r, struct chunk_maker *c, struct bytes *names,
		     uint64_t *count)
{
	uint64_t *kind = chunk_add(c, COLUMN_MAPPING_KIND, r->rows);
	uint64_t *start = chunk_add(c, COLUMN_MAPPING_START, r->rows);
	uint64_t *size = chunk_add(c, COLUMN_MAPPING_SIZE, r->rows);
	uint64_t *resident = chunk_add(c, COLUMN_MAPPING_RESIDENT, r->rows);
	uint64_t *name = chunk_add(c, COLUMN_MAPPING_NAME, r->rows);
	uint64_t last = 0;

	if (c->failed)
		return;
	for (size_t i = 0; i < r->rows; i++) {
		const struct residency_row *row = &r->row[i];

		kind[i] = row->kind;
		start[i] = row->start - last;
		last = row->start;
		size[i] = row->size;
		resident[i] = row->resident;
	}
	*count = put_names(r, name, names);
	c->failed |= names->failed;
}

void residency_write(struct residency *r, enum residency_moment moment,
		     struct column_writer *columns, struct bytes *out)
{
	struct chunk_maker c = {0};
	struct bytes names = {0};
	struct column *texts = &c.column[c.columns++];
	uint64_t count = 0;

	sort_rows(r);
	clip_rows(r);
	put_rows(r, &c, &names, &count);
	*texts = (struct column){.id = COLUMN_MAPPING_NAMES,
				 .bytes = names.used ? names.at : (void *)"",
				 .size = names.used};
	bytes_put_u(&c.head, moment);
	bytes_put_u(&c.head, UNIT_NS);
	bytes_put_s(&c.head, r->time_ns / UNIT_NS);
	bytes_put_u(&c.head, r->resident < TRACE_MOST_RESIDENT ? r->resident : TRACE_MOST_RESIDENT);
	bytes_put_u(&c.head, count);
	bytes_put_u(&c.head, r->rows);
	chunk_finish(&c, columns, TRACE_MAPPINGS, out);
	bytes_free(&names);
}
