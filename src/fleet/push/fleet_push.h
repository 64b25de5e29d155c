/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a window into a fleet's database, once: what the trace has beyond the windows of its process that
 * are there.
 *
 *	frames, stacks	those that it does not have; the same rows again do no harm
 *	samples		have the number of this push
 *	windows		one row, with that number: it makes the samples count
 *
 * A push that was interrupted has no row in windows. When a window was pushed twice, the push with the
 * smallest number counts (doc/FLEET.md).
 */
#ifndef MAYFLY_FLEET_PUSH_H
#define MAYFLY_FLEET_PUSH_H

#include "fleet/push/known_stacks.h"
#include "fleet/push/window_rows.h"

/* *there: the database has windows up to the trace's end already, and nothing is sent. False: c->why. */
bool fleet_push(struct clickhouse *c, const struct mayfly_trace *trace,
		const struct window_facts *facts, struct known_stacks *known, bool *there);

#endif
