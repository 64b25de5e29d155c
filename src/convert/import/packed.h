/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input that may be compressed: zstd, gzip or plain files are read piece by piece. Memory is
 * bounded by the compression's window (128 MiB at most) and the longest line, whatever size the
 * file claims to have unpacked.
 */
#ifndef MAYFLY_PACKED_H
#define MAYFLY_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the first `want` bytes, to recognise the format; returns how many there are. */
size_t packed_peek(const void *data, size_t size, void *to, size_t want);

/* Reads everything into memory, at most `most` bytes. 0, MAYFLY_E_MEMORY or MAYFLY_E_TOO_LARGE. The
 * caller frees *bytes. *problem tells why reading stopped: "" at the end of the input, otherwise
 * "cut off" or "cannot be unpacked". */
int packed_all(const void *data, size_t size, size_t most, uint8_t **bytes, size_t *used,
	       const char **problem);

/* ---- by lines ---- */

#define PACKED_LINE_MAX ((size_t)4 << 20)

struct packed_lines {
	struct packed *packed;
	char *buffer;
	size_t room, begin, end;
	uint64_t number;     /* of the current line, from 1 */
	bool ended;	     /* the input has ended */
	const char *problem; /* "" or why there are no more lines */
	int error;	     /* MAYFLY_E_MEMORY */
};

bool packed_lines_open(struct packed_lines *l, const void *data, size_t size);
void packed_lines_close(struct packed_lines *l);
/* The next line, zero-terminated, without its line end; NULL: there are no more. A last line that
 * was cut off is dropped. */
char *packed_lines_next(struct packed_lines *l, size_t *length);

#endif
