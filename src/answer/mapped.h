/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that was mapped, but not by malloc: what the track events "mmap", "munmap", "mremap" and
 * "brk" leave mapped at given moments, by calling function.
 *
 *	mmap [a, b)	a ───────────── b
 *	munmap		      ▒▒▒▒		ranges that do not overlap, in order
 *	mmap [c, d)	             c ──── d	a mapping over another one takes its place
 */
#ifndef MAYFLY_MAPPED_H
#define MAYFLY_MAPPED_H

#include <mayfly/trace.h>

#define MAPPED_MOMENTS 2
#define MAPPED_ACCESS  16

struct mapped_row {
	const char *allocator;		  /* whose code called; NULL: of none that is known */
	const struct mayfly_frame *frame; /* of the caller; NULL: unknown */
	const struct mayfly_location *location;
	char access[MAPPED_ACCESS]; /* as in /proc/PID/maps, or "brk" */
	uint64_t bytes[MAPPED_MOMENTS];
	size_t number; /* in the order of appearance */
};

struct mapped_range {
	uint64_t start, end;
	size_t row;
};

struct mapped {
	struct mapped_row *row; /* the largest at the last moment first */
	size_t rows, row_room;
	struct mapped_range *range[MAPPED_MOMENTS]; /* by address, none overlap */
	size_t ranges[MAPPED_MOMENTS];
	bool incomplete; /* there were too many mappings at once, or events were lost */
};

/* moment: ascending. 0 or a negative enum mayfly_error. */
int mapped_at(const struct mayfly_trace *trace, const int64_t *moment, size_t moments,
	      struct mapped *mapped);
/* The first range of a moment that ends after this address. */
size_t mapped_find(const struct mapped *mapped, size_t moment, uint64_t address);
void mapped_free(struct mapped *mapped);

#endif
