/* SPDX-License-Identifier: Apache-2.0 */
/* One trace, or a window of a process that runs, to a server, with what the user says of its process. */
#ifndef MAYFLY_PUSH_WINDOW_H
#define MAYFLY_PUSH_WINDOW_H

#include "fleet/push/named_process.h"
#include "fleet/push/collector_push.h"
#include "fleet/push/fleet_push.h"

struct push_to {
	struct server_url url;
	struct clickhouse *c; /* NULL: it is a collector */
	struct collector *collector;
	const struct named_process *process;
	/* Processes that began earlier, in ns since 1970, may have been pushed by somebody else. */
	int64_t ours_ns;
	/* As in struct window_facts. */
	double share;
	bool same_share;
	int64_t begin_ns;
	struct known_stacks *known; /* from one window to the next */
};

/* What a server that does not tell what it has (collector_push.h) was given of a running process. All zero:
 * nothing. */
struct window_given {
	int64_t start_real_ns; /* of the image */
	int64_t end_ns;
};

/* A whole trace. */
enum push_done push_trace(const struct push_to *p, const struct mayfly_trace *trace, char *why);
/* What the process has done since the last window. rss_bytes: at the trace's end, or 0. */
enum push_done push_window(const struct push_to *p, const struct mayfly_trace *trace, bool ended,
			   struct window_given *given, uint64_t rss_bytes, char *why);

#endif
