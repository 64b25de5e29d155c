/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings with resident pages at a moment, as the `maps` chunk has them: doc/FORMAT.md.
 *
 *	row	kind, start, size, resident, name ──┐
 *	names	"" 0 "/usr/bin/x" 0 "[heap]" 0	◄───┘ an offset
 */
#ifndef MAYFLY_RESIDENCY_H
#define MAYFLY_RESIDENCY_H

#include <mayfly/trace.h>

#include "base/bytes.h"
#include "format/format.h"

#define RESIDENCY_MOST 1024u /* rows; the rest becomes a row for each kind */

struct residency_row {
	uint64_t start, size, resident;
	uint32_t kind; /* enum mayfly_mapping_kind */
	uint32_t name; /* offset in names */
};

struct residency {
	int64_t time_ns;
	uint64_t resident;
	struct residency_row *row;
	size_t rows, room;
	struct bytes names;
};

void residency_free(struct residency *r);

/* The name is compared with that of the row before only. False: no memory. */
bool residency_add(struct residency *r, const struct residency_row *row, const char *name);
const char *residency_name(const struct residency *r, const struct residency_row *row);

/* Keeps the RESIDENCY_MOST largest rows, and one more for each kind that has others. False: no
 * memory. */
bool residency_shrink(struct residency *r);

struct column_writer;

/* Appends the chunk, with the rows sorted by address; where two overlap, the later one begins
 * where the earlier one ends. */
void residency_write(struct residency *r, enum residency_moment moment,
		     struct column_writer *columns, struct bytes *out);

#endif
