/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the errors of sums: see errors_write.h, and doc/FORMAT.md, "errs". */
#include "trace/write/errors_write.h"

#include <math.h>
#include <stdlib.h>

static int compare_rows(const void *a, const void *b)
{
	const struct error_row *x = a, *y = b;

	return (x->node > y->node) - (x->node < y->node);
}

size_t errors_join(struct error_row *row, size_t rows)
{
	size_t kept = 0;

	if (rows)
		qsort(row, rows, sizeof(*row), compare_rows);
	for (size_t i = 0; i < rows; i++) {
		if (!kept || row[kept - 1].node != row[i].node) {
			row[kept++] = row[i];
			continue;
		}
		for (size_t k = 0; k < ERROR_SUMS; k++) {
			row[kept - 1].of[k].bytes_variance += row[i].of[k].bytes_variance;
			row[kept - 1].of[k].blocks_variance += row[i].of[k].blocks_variance;
			row[kept - 1].of[k].choice_bytes += row[i].of[k].choice_bytes;
			row[kept - 1].of[k].choice_blocks += row[i].of[k].choice_blocks;
			row[kept - 1].of[k].samples += row[i].of[k].samples;
		}
	}
	return kept;
}

static uint64_t whole(double error)
{
	return error < 0x1p62 ? (uint64_t)llround(fmax(0, error)) : (uint64_t)1 << 62;
}

/* Differences of sums may leave a little below zero. */
static uint64_t root(double variance, double unit)
{
	return whole(variance > 0 ? sqrt(variance) * unit : 0);
}

void errors_write(const struct error_row *row, size_t rows, struct column_writer *columns,
		  struct bytes *out)
{
	struct chunk_maker c = {0};
	uint64_t *node = chunk_add(&c, COLUMN_ERROR_NODE, rows);
	uint32_t next = 0;

	for (unsigned k = 0; k < ERROR_SUMS; k++) {
		unsigned step = k * COLUMN_ERROR_STEP;
		uint64_t *bytes = chunk_add(&c, COLUMN_ERROR_BYTES + step, rows);
		uint64_t *blocks = chunk_add(&c, COLUMN_ERROR_BLOCKS + step, rows);
		uint64_t *samples = chunk_add(&c, COLUMN_ERROR_SAMPLES + step, rows);
		unsigned choice = k * COLUMN_CHOICE_STEP;
		uint64_t *choice_bytes = chunk_add(&c, COLUMN_CHOICE_BYTES + choice, rows);
		uint64_t *choice_blocks = chunk_add(&c, COLUMN_CHOICE_BLOCKS + choice, rows);

		for (size_t i = 0; i < rows && !c.failed; i++) {
			bytes[i] = root(row[i].of[k].bytes_variance, 1);
			blocks[i] = root(row[i].of[k].blocks_variance, ERROR_BLOCK);
			samples[i] = row[i].of[k].samples;
			choice_bytes[i] = whole(row[i].of[k].choice_bytes);
			choice_blocks[i] = whole(row[i].of[k].choice_blocks * ERROR_BLOCK);
		}
	}
	for (size_t i = 0; i < rows && !c.failed; i++) {
		node[i] = row[i].node - next;
		next = row[i].node + 1;
	}
	bytes_put_u(&c.head, rows);
	chunk_finish(&c, columns, TRACE_ERRORS, out);
}
