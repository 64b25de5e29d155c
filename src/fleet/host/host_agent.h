/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of a host, mayfly agent: one process for all that runs there. Each second it looks into the
 * watched folders, steers the processes that rules are for, and pushes those that have ended; each `every`,
 * all that have something to tell. It keeps nothing on the disk. Times are of the monotonic clock, so a step
 * of the other one changes nothing.
 *
 *	folders ──> host_process: what a spool is ──> host_rules, host_steer: on or off
 *	                 └── host_turns: whose turn it is ──> host_push: a window to the database
 *
 * SIGTERM and SIGINT end it, SIGHUP has it read its configuration again.
 */
#ifndef MAYFLY_HOST_AGENT_H
#define MAYFLY_HOST_AGENT_H

#include "fleet/host/host_config.h"

struct host_agent {
	const char *config; /* the file */
	bool verbose;	    /* a line for each window */
};

/* Runs until a signal ends it. *config: the file's; afterwards the one that was in force, for the caller to
 * free. False after a line on stderr. */
bool host_agent_run(const struct host_agent *a, struct host_config *config);

#endif
