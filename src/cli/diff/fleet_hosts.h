/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a question to a fleet's database, in groups, with the answer to each group alone. */
#ifndef MAYFLY_FLEET_HOSTS_H
#define MAYFLY_FLEET_HOSTS_H

#include "cli/input/open_trace.h"
#include "query/diff_hosts.h"

/* So many hosts are groups of one. More are put into groups by a hash of their names. */
#define FLEET_HOSTS_ALONE  32
#define FLEET_HOSTS_GROUPS 16

struct fleet_hosts {
	uint64_t processes, hosts;
	double stand_for; /* processes, of which these were chosen */
	struct diff_hosts groups;
	/* One for each group; groups.group has their traces. */
	struct opened_trace *opened;
	struct diff_host_group *group;
};

/* False after a line on stderr. address: fleet_is_sum(). */
bool fleet_hosts_ask(const char *address, struct fleet_hosts *hosts);
void fleet_hosts_free(struct fleet_hosts *hosts);

#endif
