/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a fleet's database in groups: by service, version, host, program or a label. */
#ifndef MAYFLY_FLEET_GROUPS_H
#define MAYFLY_FLEET_GROUPS_H

#include <stdint.h>

#include "fleet/database/clickhouse.h"

struct fleet_group {
	char *name;
	uint64_t processes, hosts;
	double allocated_bytes; /* of all */
	double live_bytes;	/* of all, at the end of the last window of each */
	double
	    stands_for; /* processes: more when they were chosen with a share, and estimated then */
	/* A host's mean of what a process has live, as mean over the hosts; and half of its 95 %
	 * interval, from what differs between hosts, which includes the error of sampling. NAN: there
	 * are fewer than two hosts. */
	double live_each, live_each_within;
	uint64_t rss_most_bytes; /* of one; 0: not known */
	int64_t end_ns;		 /* the last that is known, since 1970 */
};

struct fleet_groups {
	struct fleet_group *group; /* most live first */
	size_t count, room;
};

/* by, sql: of fleet_filter_group() and fleet_filter_read(). False: c->why. */
bool fleet_groups_fetch(struct clickhouse *c, const char *by, const char *sql,
			struct fleet_groups *groups);
void fleet_groups_free(struct fleet_groups *groups);

#endif
