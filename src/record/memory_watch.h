/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel reports about a recorded process: how much memory is resident, in mappings of
 * which kind, page faults, CPU time. It is read from /proc, from outside; the process notices
 * nothing.
 *
 *	status, stat	some 20 us			each second
 *	smaps		each mapping: 0.1 to 100 ms	each second, less often where it takes long
 *	smaps_rollup	where smaps takes too long	PSS alone
 *
 * smaps is also read when RSS is 5 % above what it was at any reading before.
 *
 * In the first second all of this comes sooner: a short program has something to tell, too.
 * Points wait here until there is a trace to put them into.
 */
#ifndef MAYFLY_MEMORY_WATCH_H
#define MAYFLY_MEMORY_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/smaps.h"
#include "trace/write/writer.h"

#define MEMORY_COUNTERS 48 /* room for those of memory_watch.c */

struct memory_point {
	int64_t mono_ns;
	uint32_t counter;
	double value;
};

struct memory_watch {
	bool begun;
	int64_t begun_ns;		     /* on CLOCK_MONOTONIC, as all of these */
	int64_t next_ns, maps_ns, rollup_ns; /* when each is due */
	double last
	    [MEMORY_COUNTERS]; /* the last values that were written; a point says what has changed */
	bool known[MEMORY_COUNTERS];
	struct memory_point *point;
	size_t points, room;

	int64_t maps_read_ns, maps_cost_ns;    /* the last time */
	struct residency peak_rows, last_rows; /* no last_rows: the peak was last */
	uint64_t peak_bytes;
	struct module_cache modules;
};

/* Reads the files that are due. spool: the name of the file that the agent has mapped there. */
void memory_watch_look(struct memory_watch *m, pid_t pid, const char *spool);

/* True: enough points are waiting to be written. */
bool memory_watch_is_full(const struct memory_watch *m);

/* Hands over the waiting points. start_mono_ns: time 0 of the trace. 0 or a negative enum
 * mayfly_error. */
int memory_watch_hand(struct memory_watch *m, int64_t start_mono_ns, struct recording *tables,
		      struct trace_writer *to);

/* Hands over the mappings at the largest RSS and at the last reading: once, when the process has
 * ended. */
void memory_watch_hand_rows(struct memory_watch *m, int64_t start_mono_ns, struct trace_writer *to);

void memory_watch_free(struct memory_watch *m);

#endif
