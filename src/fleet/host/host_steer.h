/* SPDX-License-Identifier: Apache-2.0 */
/* Switches dormant processes on when it is their turn, and off after it. */
#ifndef MAYFLY_HOST_STEER_H
#define MAYFLY_HOST_STEER_H

#include "fleet/host/host_process.h"

/* Steers a process that is known and runs. `stop`: the agent ends, and nobody would switch it off later. *p->urgent:
 * its turn has come, with another share than that of its recording. */
void host_steer(struct host_process *p, const struct host_config *c, int64_t now_ns, bool stop);

#endif
