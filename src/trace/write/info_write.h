/* SPDX-License-Identifier: Apache-2.0 */
/* Writing INFO: what a trace says of the recording as a whole. */
#ifndef MAYFLY_INFO_WRITE_H
#define MAYFLY_INFO_WRITE_H

#include "base/bytes.h"
#include "trace/write/recording.h"

/* Appends the fields that differ from those in `before`, which a reader has already. Texts are the
 * recording's; the other members are those of `info`. Out of memory shows as fields->failed. */
void info_write(const struct recording *r, const struct mayfly_info *info,
		const struct bytes *before, struct bytes *fields);

#endif
