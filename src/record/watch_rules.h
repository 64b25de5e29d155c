/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about a process's memory, and when they come true.
 *
 *	live>2G				what the program has allocated and not freed
 *	rss>90% of cgroup		resident memory; of the least limit that the process has
 *	live>3G for 30s			all the time, as far as it was looked at
 *	growth>100M/min for 5m		of live, on average over 5 minutes; without "for": a minute
 */
#ifndef MAYFLY_WATCH_RULES_H
#define MAYFLY_WATCH_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WATCH_EXAMPLES "'live>2G', 'rss>90% of cgroup' or 'growth>100M/min for 5m'"

/* What a rule can be about: its name, the function of watch_list.c that reads it from outside, and
 * whether a rule limits its growth over a time instead of itself. */
#define WATCH_QUANTITIES(QUANTITY)                                                                 \
	QUANTITY(LIVE, "live", recorder_live_bytes, false)                                         \
	QUANTITY(RSS, "rss", read_rss, false)                                                      \
	QUANTITY(GROWTH, "growth", recorder_live_bytes, true)

#define WATCH_KEY(key, ...) WATCH_##key,
enum watch_quantity { WATCH_QUANTITIES(WATCH_KEY) WATCH_COUNT };

struct watch_rule {
	enum watch_quantity quantity;
	double limit;	/* bytes; of_cgroup: a share of the cgroup's limit; growth: bytes in a ns */
	bool of_cgroup; /* not of growth */
	int64_t for_ns; /* growth: over this time, never 0 */
	bool peak;	/* instead of a limit: it has risen by a fifth since this last came true */
};

/* Below so many bytes, nothing is a peak. */
#define WATCH_PEAK_LEAST (256u << 10)

/* NULL, or what the text should have at text + *at. */
const char *watch_rule_parse(const char *text, struct watch_rule *rule, size_t *at);

struct watch_reading {
	int64_t now_ns;
	struct {
		bool known;
		uint64_t bytes;
	} of[WATCH_COUNT];     /* what grows, of a growth */
	uint64_t cgroup_limit; /* 0: there is none */
};

#define WATCH_POINTS 128 /* in two times the time that growth is looked at */

struct watch_point {
	int64_t ns;
	uint64_t bytes;
};

/* A rule and a process. All 0 at first. */
struct watch_state {
	bool holds, told;
	int64_t since_ns;  /* it has held */
	uint64_t high;	   /* of a peak: when it last came true */
	unsigned int made; /* the caller's: what it did about it */
	struct watch_point *point;
	size_t points, next; /* a ring */
};

/* True: the rule has come true. It comes true again after it has been false in between. Where a
 * quantity is not known, nothing changes. */
bool watch_rule_look(const struct watch_rule *rule, struct watch_state *state,
		     const struct watch_reading *reading);
void watch_state_free(struct watch_state *state);

#endif
