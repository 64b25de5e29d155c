/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that programs call by mayfly/mayfly.h: their table, and those in tracks.c. */
#ifndef MAYFLY_CALLS_H
#define MAYFLY_CALLS_H

#include "agent/agent.h"
#include "mayfly/mayfly.h"

extern const struct mayfly_agent_calls mayfly_agent_calls;

void tracks_span_begin(const struct mayfly_event_type *type, uint64_t a, uint64_t b, uint64_t c,
		       uint64_t d);
void tracks_span_end(const struct mayfly_event_type *type);
void tracks_instant(const struct mayfly_event_type *type, uint64_t a, uint64_t b, uint64_t c,
		    uint64_t d);
void tracks_counter(const struct mayfly_event_type *type, uint64_t value);

#endif
