/* SPDX-License-Identifier: Apache-2.0 */
/* The table that programs find by mayfly/mayfly.h. Each call keeps errno. */
#include "agent/events/calls.h"

#include <errno.h>

#include "agent/labels.h"
#include "agent/events/pools.h"
#include "agent/spool.h"
#include "agent/events/tracks.h"

/* Labels are kept even while nothing is recorded, as recording may be enabled while they hold. */
static void label_push(const char *key, const char *value)
{
	int error = errno;

	labels_push(atomic_load_explicit(&agent_state, memory_order_relaxed) == AGENT_OFF
			? 0
			: labels_number(key, value));
	errno = error;
}

static int active(void)
{
	return tracks_wanted();
}

EXPORT const struct mayfly_agent_calls mayfly_agent_calls = {
    .span_begin = tracks_span_begin,
    .span_end = tracks_span_end,
    .instant = tracks_instant,
    .counter = tracks_counter,
    .label_push = label_push,
    .label_pop = labels_pop,
    .pool_alloc = pools_alloc,
    .pool_free = pools_free,
    .active = active,
    .awake = &spool_awake,
};
