/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent of a host serves to collectors (`listen` in its configuration). The agent tells what it knows once
 * a second; the server's threads read the spools themselves, with their owners' rights.
 *
 *	agent ── host_pull_tell() ──> copies of what it knows <── the server's threads
 */
#ifndef MAYFLY_HOST_PULL_H
#define MAYFLY_HOST_PULL_H

#include "fleet/host/host_process.h"
#include "fleet/host/host_push.h"

struct host_pull;

/* NULL: nothing is to be served, or, after a line on stderr, it cannot be (*good is false). */
struct host_pull *host_pull_start(const struct host_config *c, bool *good);
/* False: out of memory; what was told before stays. NULL is allowed. */
bool host_pull_tell(struct host_pull *h, const struct host_config *c,
		    struct host_process *const *process, size_t count,
		    const struct host_push *push);
/* NULL is allowed. */
void host_pull_stop(struct host_pull *h);

#endif
