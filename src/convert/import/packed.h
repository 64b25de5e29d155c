/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input that may be compressed: zstd and gzip files, or plain ones, are read as what they hold,
 * piece by piece. Memory is bounded by the compression's window (128 MiB at most) and the longest
 * line, whatever the file claims to become.
 */
#ifndef MAYFLY_PACKED_H
#define MAYFLY_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first bytes; how many there are, up to `size`. For recognising what it is. */
size_t packed_peek(const void *data, size_t size, void *to, size_t want);

/* All of it in memory, when that is no more than `most` bytes. 0, MAYFLY_E_MEMORY or
 * MAYFLY_E_TOO_LARGE. *bytes is the caller's; *problem says why there is no more: "" when the
 * input is at its end; else "cut off" or "cannot be unpacked". */
int packed_all(const void *data, size_t size, size_t most, uint8_t **bytes, size_t *used,
	       const char **problem);

/* ---- by lines ---- */

#define PACKED_LINE_MAX ((size_t)4 << 20)

struct packed_lines {
	struct packed *packed;
	char *buffer;
	size_t room, begin, end;
	uint64_t number;     /* of the line at hand, from 1 */
	bool ended;	     /* the input has */
	const char *problem; /* "" or why the last line was the last one */
	int error;	     /* MAYFLY_E_MEMORY */
};

bool packed_lines_open(struct packed_lines *l, const void *data, size_t size);
void packed_lines_close(struct packed_lines *l);
/* The next line, without its end, and with a zero behind it; NULL: no more. A last line that was
 * cut off is none. */
char *packed_lines_next(struct packed_lines *l, size_t *length);

#endif
