/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the ticks of a spool to nanoseconds since its start. doc/FORMAT.md, "Reading a spool".
 *
 *	ns |             .	Each point is one moment read on both clocks. Between two
 *	   |        ..o..	points time runs straight. The line at hand is kept, as the
 *	   |    o...		moments asked for are mostly ascending.
 *	   |  ..
 *	   o-----------> ticks
 */
#ifndef MAYFLY_TICK_CLOCK_H
#define MAYFLY_TICK_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TICK_CLOCK_LATEST ((int64_t)1 << 62)

struct tick_clock_point {
	uint64_t ticks;
	int64_t ns;
};

struct tick_clock {
	bool tsc;
	uint64_t start_ticks, start_mono_ns;
	double ticks_per_ns;		/* outside of the points */
	struct tick_clock_point *point; /* of a whole spool */
	size_t points, size;
	struct tick_clock_point last; /* of a spool that grows */
	/* The line at hand: ticks in [from, to) are at base + (ticks - from) * ns_per_tick, at most
	 * `most`. */
	uint64_t from, to;
	int64_t base, most;
	double ns_per_tick;
};

void tick_clock_begin(struct tick_clock *c, bool tsc, uint64_t start_ticks, uint64_t start_mono_ns);
void tick_clock_free(struct tick_clock *c);

/* For a whole spool: add all points in any order, then call settle() once. 0 or MAYFLY_E_MEMORY.
 * Points from before the start (and 0, 0) are ignored. */
int tick_clock_add(struct tick_clock *c, uint64_t ticks, uint64_t mono_ns);
int tick_clock_settle(struct tick_clock *c);

/* For a spool that grows: sets the current moment. The current line goes from the one before to it.
 * */
void tick_clock_now(struct tick_clock *c, uint64_t ticks, uint64_t mono_ns);

void tick_clock_find_line(struct tick_clock *c, uint64_t ticks);

/* About the ticks of a moment. In a spool that grows, a moment before the current line counts as
 * its beginning. */
uint64_t tick_clock_ticks(const struct tick_clock *c, int64_t ns);

/* A moment of any time, in ns since the start: also one before the current line of a spool that grows, as straight from
 * the start to it. */
int64_t tick_clock_past_ns(struct tick_clock *c, uint64_t ticks);

/* A moment in ns since the start; never less than 0. In a spool that grows, earlier ones than the current line count as
 * its beginning: records come in order. */
static inline int64_t tick_clock_ns(struct tick_clock *c, uint64_t ticks)
{
	double ns;

	if (ticks < c->from || ticks >= c->to)
		tick_clock_find_line(c, ticks);
	if (ticks <= c->from)
		return c->base;
	ns = (double)(ticks - c->from) * c->ns_per_tick;
	return ns >= (double)(c->most - c->base) ? c->most : c->base + (int64_t)ns;
}

#endif
