/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control words of a spool, for a process that is neither the recorder nor recorded. A change is
 * a store into the file that both map: nothing is stopped. Each thread of the program sees it at its
 * next sample, or, while recording is off, after about 512 KiB of allocations.
 */
#ifndef MAYFLY_SPOOL_CONTROL_H
#define MAYFLY_SPOOL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "format/spool_format.h"

struct spool_control {
	struct spool_header *header; /* mapped */
};

/* 0 or an errno; EINVAL when it is no spool of this version. */
int spool_control_open(struct spool_control *c, const char *path, bool change);
void spool_control_close(struct spool_control *c);

void spool_control_enable(struct spool_control *c, bool on);
void spool_control_interval(struct spool_control *c, uint32_t log2);

#endif
