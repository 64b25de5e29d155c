/* SPDX-License-Identifier: Apache-2.0 */
/* One trace into a fleet's database, with what the user says of its process. */
#ifndef MAYFLY_PUSH_WINDOW_H
#define MAYFLY_PUSH_WINDOW_H

#include "fleet/fleet_push.h"

struct push_to {
	struct clickhouse *c;
	struct server_url url;
	const char *service; /* NULL: MAYFLY_SERVICE, else the program's name */
	const char *host;
	const struct window_label *label;
	size_t labels;
	/* As in struct window_facts. */
	double share;
	bool same_share;
	int64_t begin_ns;
	struct known_stacks *known; /* from one window to the next */
};

/* Labels that the environment of a process has, and the variables, as Kubernetes' manifests name them. Ends
 * with a key NULL. */
extern const struct window_label push_surroundings[];

enum push_done {
	PUSH_GOOD,
	PUSH_THERE,   /* the database had it */
	PUSH_TRACE,   /* the trace cannot be pushed */
	PUSH_DATABASE /* the database cannot be had, or does not take it */
};

/* rss_bytes: at the trace's end, or 0. On the last two, why[CLICKHOUSE_WHY] is one line. */
enum push_done push_window(const struct push_to *p, const struct mayfly_trace *trace,
			   uint64_t rss_bytes, char *why);

#endif
