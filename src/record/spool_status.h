/* SPDX-License-Identifier: Apache-2.0 */
/* What the header of a spool says about how its process is recorded now. */
#ifndef MAYFLY_SPOOL_STATUS_H
#define MAYFLY_SPOOL_STATUS_H

#include <stdint.h>

#include "format/spool_format.h"

/* "waiting" (the program has not begun), "stopped" (the agent gave up), "on" or "off". */
const char *spool_state_word(const struct spool_header *h);
/* 0: every allocation is recorded. */
uint64_t spool_interval(const struct spool_header *h);
/* Samples of this image. */
uint64_t spool_samples(const struct spool_header *h);

#endif
