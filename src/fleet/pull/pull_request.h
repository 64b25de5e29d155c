/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked for:
 *
 *	/				a list of what there is
 *	/debug/pprof/heap		what is live, as pprof's format
 *	/debug/pprof/allocs		the same, and tools show first what was allocated
 *		?seconds=N		the difference over the next N seconds
 *		?pid=N			of one process
 *		?service=NAME		the sum of one service's; without both: of all
 *	/metrics			in the text format of Prometheus
 *	/targets			the services, as Prometheus' http_sd_configs want them
 *	/healthz, /readyz
 */
#ifndef MAYFLY_PULL_REQUEST_H
#define MAYFLY_PULL_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PULL_SECONDS_MOST 600
#define PULL_SERVICE_MOST 256u

enum pull_what {
	PULL_NOTHING,
	PULL_INDEX,
	PULL_HEAP,
	PULL_ALLOCS,
	PULL_METRICS,
	PULL_TARGETS,
	PULL_HEALTH,
	PULL_READY,
};

struct pull_request {
	enum pull_what what;
	int64_t seconds;		 /* 0: not given */
	pid_t pid;			 /* 0: not given */
	char service[PULL_SERVICE_MOST]; /* "": not given */
	const char *why;		 /* NULL, or why it cannot be answered */
};

/* uri: as it was sent. */
void pull_request_read(struct pull_request *r, const char *uri);

#endif
