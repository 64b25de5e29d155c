/* SPDX-License-Identifier: Apache-2.0 */
/* Standard errors of the sums of stacks, as the `errs` chunk has them: doc/FORMAT.md. */
#ifndef MAYFLY_ERRORS_WRITE_H
#define MAYFLY_ERRORS_WRITE_H

#include "format/columns.h"
#include "format/format.h"

/* The error of a sum that was estimated from so many samples. */
struct sum_error {
	double bytes_variance, blocks_variance;
	/* Standard errors from what all stacks have in common: which processes were chosen. They add up. */
	double choice_bytes, choice_blocks;
	uint64_t samples;
};

struct error_row {
	uint32_t node;
	struct sum_error of[ERROR_SUMS];
};

/* Sorts the rows by node, and joins those of the same one. Returns how many there are then. */
size_t errors_join(struct error_row *row, size_t rows);

/* Appends the chunk. Rows by ascending node of the file, each once. */
void errors_write(const struct error_row *row, size_t rows, struct column_writer *columns,
		  struct bytes *out);

#endif
