/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a heap, as the `heap` chunk has it: doc/FORMAT.md. */
#ifndef MAYFLY_PICTURE_WRITE_H
#define MAYFLY_PICTURE_WRITE_H

#include <mayfly/trace.h>

#include "format/columns.h"

/* Appends the chunk. Blocks by ascending number, each once. */
void picture_write(const struct mayfly_picture *p, struct column_writer *columns,
		   struct bytes *out);

#endif
