/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of some processes as a profile in pprof's format, while they run. */
#ifndef MAYFLY_PULL_PROFILE_H
#define MAYFLY_PULL_PROFILE_H

#include "base/bytes.h"
#include "fleet/pull/pull_request.h"
#include "fleet/pull/pull_source.h"

/* What went wrong; PULL_WHY is enough for it. */
#define PULL_WHY 200
enum pull_done {
	PULL_GOOD,
	PULL_NOBODY,   /* no such process */
	PULL_NOT_NOW,  /* nothing is recorded so far */
	PULL_NOT_THIS, /* it cannot be had of these processes */
	PULL_FAILED,
};

/* The processes are those that the request names; it came at asked_ns (CLOCK_MONOTONIC), and its
 * seconds are over. */
enum pull_done pull_profile(const struct pull_source *source, const struct pull_request *request,
			    int64_t asked_ns, struct bytes *to, char why[PULL_WHY]);

#endif
