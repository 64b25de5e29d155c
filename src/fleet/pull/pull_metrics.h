/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of processes that are recorded, as Prometheus reads them: https://prometheus.io/docs/instrumenting/exposition_formats/ */
#ifndef MAYFLY_PULL_METRICS_H
#define MAYFLY_PULL_METRICS_H

#include "base/bytes.h"
#include "base/interner.h"
#include "fleet/pull/pull_source.h"

/* What is remembered from one time to the next, so that a service's counters go on when processes end. All zero:
 * nothing. */
struct pull_seen {
	struct pull_count *process, *ended;
	size_t processes, process_room, services, service_room;
};

/* False: out of memory. */
bool pull_metrics(const struct pull_source *source, struct pull_seen *seen, struct bytes *to);
void pull_seen_free(struct pull_seen *seen);

#endif
