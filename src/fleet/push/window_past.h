/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fleet's database has of a process already: the end of its last window, what each stack had
 * allocated by then, and with which shares. A trace holds everything since the process's start, so the
 * next window is the difference of both.
 */
#ifndef MAYFLY_WINDOW_PAST_H
#define MAYFLY_WINDOW_PAST_H

#include "fleet/database/clickhouse.h"
#include "base/interner.h"

/* All may be added up and subtracted. */
struct window_sum {
	double bytes, bytes_variance, blocks, blocks_variance;
	uint64_t samples;
};

/* Windows of one share that follow each other. */
struct window_era {
	int64_t end_ns; /* since 1970, of the last one */
	double share;
};

struct window_past {
	int64_t end_ns; /* since 1970; 0: it has no window */
	struct window_era *era;
	size_t eras, era_room;
	uint64_t samples;
	double allocated_bytes;
	struct interner stacks;
	struct window_sum *allocated; /* by number of the stack */
	size_t room;
};

/* False: c->why, and it is empty. */
bool window_past_fetch(struct clickhouse *c, uint64_t process, struct window_past *past);
void window_past_free(struct window_past *past);

#endif
