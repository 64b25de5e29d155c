/* SPDX-License-Identifier: Apache-2.0 */
/* Whole spools in memory, as recordings that were killed leave them behind, become traces. */
#ifndef MAYFLY_SPOOL_CONVERT_H
#define MAYFLY_SPOOL_CONVERT_H

#include "spool/spool_stream.h"

/* A spool that lies whole in memory becomes the bytes of a trace without symbols (NULL names);
 * symbolise, when not NULL, may add them to the tables before they are written. parent_* may be
 * NULL: the parent's spool, for a forked child. *bytes is malloc'ed. */
int spool_convert(const void *data, size_t size, const void *parent_data, size_t parent_size,
		  const struct spool_ending *ending, int level,
		  void (*symbolise)(void *context, struct recording *tables), void *context,
		  uint8_t **bytes, size_t *bytes_size);

#endif
