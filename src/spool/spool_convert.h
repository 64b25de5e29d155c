/* SPDX-License-Identifier: Apache-2.0 */
/* Turns whole spools in memory, as killed recordings leave them behind, into traces. */
#ifndef MAYFLY_SPOOL_CONVERT_H
#define MAYFLY_SPOOL_CONVERT_H

#include "spool/spool_stream.h"

/* Turns a spool that lies whole in memory into the bytes of a trace without names; symbolise, if
 * not NULL, may add names to the tables before they are written. parent_data: for a forked child,
 * the parent's spool, or NULL. *bytes is malloc'ed. */
int spool_convert(const void *data, size_t size, const void *parent_data, size_t parent_size,
		  const struct spool_ending *ending, int level,
		  void (*symbolise)(void *context, struct recording *tables), void *context,
		  uint8_t **bytes, size_t *bytes_size);

#endif
