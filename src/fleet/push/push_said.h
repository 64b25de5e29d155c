/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of windows of processes that run. */
#ifndef MAYFLY_PUSH_SAID_H
#define MAYFLY_PUSH_SAID_H

#include <mayfly/trace.h>
#include <stdbool.h>

#include "fleet/http/server_url.h"

struct push_said {
	bool quiet;
	bool away;	 /* the last push failed, and was complained about */
	int64_t away_ns; /* since then, CLOCK_MONOTONIC */
};

/* The server has answered as it should: if it was away, says so, and for how long it was. */
void push_say_back(struct push_said *s, const struct server_url *url);

/* A window was pushed: prints a line. */
void push_say_window(struct push_said *s, const struct mayfly_info *info, bool ended);

/* The server could not be reached: says so once, with the time of day, until push_say_back(). last: there will be no
 * other window. */
void push_say_away(struct push_said *s, const struct server_url *url, const char *why, bool last);

#endif
