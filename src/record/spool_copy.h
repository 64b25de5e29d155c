/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spool of somebody who may write anything into it, and make it shorter, at any moment: it is read and
 * steered through its descriptor and never mapped, so that no access to it can end this process.
 */
#ifndef MAYFLY_SPOOL_COPY_H
#define MAYFLY_SPOOL_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/spool_format.h"

/* 0 or an errno; EINVAL when it is no spool of this version. */
int spool_copy_header(int fd, struct spool_header *to);

/* The header and the packets that have been begun, for the caller to free. 0 or an errno; EFBIG when that is
 * more than `most` bytes. */
int spool_copy(int fd, uint64_t most, void **data, size_t *size);

/* Switches recording on, with a sample for each 1 << log2 bytes, or off. log2 is not for exact spools, and
 * not used for off. 0 or an errno. */
int spool_copy_steer(int fd, bool on, uint32_t log2);

#endif
