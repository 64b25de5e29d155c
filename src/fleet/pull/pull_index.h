/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to be fetched. */
#ifndef MAYFLY_PULL_INDEX_H
#define MAYFLY_PULL_INDEX_H

#include "base/bytes.h"
#include "fleet/pull/pull_source.h"

/* For people: the processes and their addresses. False: out of memory, as of the other. */
bool pull_index(const struct pull_source *source, const char *address, struct bytes *to);
/* A target for each service, for http_sd_configs of Prometheus and what has its way of finding targets (Parca,
 * Alloy's discovery.http): https://prometheus.io/docs/prometheus/latest/http_sd/ */
bool pull_targets(const struct pull_source *source, const char *address, struct bytes *to);

#endif
