/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the profiles and figures of processes that run to collectors that come to fetch them: Prometheus, Parca,
 * Pyroscope's Alloy, go tool pprof (pull_request.h has the addresses).
 *
 *	collector ──> http_server ──> pull_profile, pull_metrics ──> source: what a recorder or the agent has
 *
 * A process that is asked about does not notice: what it wrote into its spool anyway is read.
 */
#ifndef MAYFLY_PULL_H
#define MAYFLY_PULL_H

#include "fleet/pull/pull_source.h"

struct pull;

/*
 * place: as http_place_read() takes it. Where other machines can reach it, the variable MAYFLY_LISTEN_TOKEN, or
 * the only line of the file `token` if that is not NULL, has what they must say. The source's context stays the
 * caller's. False after a line on stderr.
 */
bool pull_start(const char *place, const char *token, const struct pull_source *source,
		struct pull **out);
/* "http://127.0.0.1:9400/" */
const char *pull_address(const struct pull *p);

/* Waits for the answers that are being made. False: one still is, and uses the source; then it stays. NULL is
 * allowed. */
bool pull_stop(struct pull *p);

#endif
