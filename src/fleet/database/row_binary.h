/* SPDX-License-Identifier: Apache-2.0 */
/* ClickHouse's format RowBinary: values one after the other, in the order of the columns. A read past the end
 * of an answer gives zero and sets short_. Numbers are written with base/bytes.h. */
#ifndef MAYFLY_ROW_BINARY_H
#define MAYFLY_ROW_BINARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct row_binary {
	const uint8_t *at, *end;
	bool short_; /* it ended within a value */
};

/* A number of up to 8 bytes. */
uint64_t row_binary_fixed(struct row_binary *r, unsigned bytes);
double row_binary_real(struct row_binary *r);
/* A length, of items with at least so many bytes each, which are all there. */
size_t row_binary_length(struct row_binary *r, size_t item);

void row_binary_put_text(struct bytes *b, const char *text);
void row_binary_put_real(struct bytes *b, double value);

#endif
