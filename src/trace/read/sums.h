/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-stack counters over parts of the history. They make questions about an exact trace cheap, and
 * a trace of snapshots has nothing else. doc/FORMAT.md, "SUMS".
 *
 *	EVNT 0 | EVNT 1 | EVNT 2 | EVNT 3 || EVNT 4 | EVNT 5 ...
 *	|------- part 0 -------|- part 1 -||---- part 2 ----
 *	                       ^ live bytes are larger here than ever before
 *
 * In an exact trace the parts cover all events in order. About each four chunks of events are one
 * part, or two when live bytes reach a new maximum of the whole history so far in them: one up to
 * the event that reaches the largest (the first one that does), and the rest. So the state at the
 * peak, at the end, and all totals are sums of whole parts; for any other moment, add the events
 * between the last part's end and it. In a trace of snapshots a part ends with each interval in
 * which anything happened, and a new maximum makes no part of its own. Sampled traces have none:
 * sums_cursor_open() is MAYFLY_E_ABSENT.
 */
#ifndef MAYFLY_SUMS_H
#define MAYFLY_SUMS_H

#include <mayfly/trace.h>

struct sums_part {
	int64_t from_ns, to_ns; /* its first and last event's; snapshots: the interval's */
	uint64_t end_event;	/* events of the history up to its end */
	uint64_t largest_bytes; /* live bytes: the largest in it, at its events */
	size_t nodes;		/* that have any counter other than 0 */
	const uint32_t *node;	/* ascending; 0: no stack */
	/* New in this part, by the node itself. These are the allocations and the blocks that a
	 * forked child inherited; subtract the latter to get what was allocated. */
	const uint64_t *allocs, *alloc_bytes;
	const uint64_t *frees, *free_bytes; /* freed in this part, wherever allocated */
	const uint64_t *temps, *temp_bytes; /* freed in this part as temporary allocations */
	const uint64_t *inherited, *inherited_bytes; /* the inherited ones among allocs */
};

size_t trace_sums_parts(const struct mayfly_trace *trace);

struct sums_cursor;
int sums_cursor_open(const struct mayfly_trace *trace, struct sums_cursor **cursor);
/* 1: *part is the next one, valid until the next call; 0: no more; negative: error. */
int sums_cursor_next(struct sums_cursor *cursor, struct sums_part *part);
void sums_cursor_close(struct sums_cursor *cursor);

/* Finds the first part of an exact trace at whose end `most` bytes are live. 1: found; only
 * end_event and to_ns of *part are set. 0: there is none; negative: error. */
int sums_find_peak(const struct mayfly_trace *trace, uint64_t most, struct sums_part *part);

#endif
