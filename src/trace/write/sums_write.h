/* SPDX-License-Identifier: Apache-2.0 */
/* Writing per-stack counters: doc/FORMAT.md, "SUMS". */
#ifndef MAYFLY_SUMS_WRITE_H
#define MAYFLY_SUMS_WRITE_H

#include "format/columns.h"
#include "trace/sums_build.h"

struct sums_tables {
	const uint32_t *node_frame, *chain_end;
	size_t chains, frames;
};

/* Appends the SUMS chunk of up to two parts, those without events left out, and clears them. */
bool sums_write(struct sums_build *const part[2], const struct sums_tables *tables,
		struct column_writer *columns, struct bytes *out);

#endif
