/* SPDX-License-Identifier: Apache-2.0 */
/* Processes in groups: see fleet_groups.h. */
#include "fleet/ask/fleet_groups.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/*
 * Nested queries, from the innermost: the windows that count, processes, hosts, groups. No name is that of
 * a column, as the server would take one for the other. If processes were chosen with a share, their
 * number is an average over time: the times that they recorded, each divided by its share, are summed and
 * divided by the length of the whole time.
 */
static const char question[] =
    "SELECT g4, toUInt64(sum(n3)), toUInt64(count()), sum(a3), sum(l3), sum(w3), "
    "avgIf(l3 / w3, w3 > 0), "
    "if(countIf(w3 > 0) > 1, 1.96 * sqrt(varSampIf(l3 / w3, w3 > 0) / countIf(w3 > 0)), nan), "
    "toUInt64(max(r3)), toInt64(max(e3)) "
    "FROM (SELECT g2 AS g4, h2, count() AS n3, sum(a2) AS a3, sum(l2) AS l3, "
    "sum(if(s2 = 1, 1, t2 / assumeNotNull((SELECT greatest(1, max(end_ns) - min(begin_ns)) "
    "FROM %s.windows WHERE %s AND share < 1)))) AS w3, max(r2) AS r3, max(e2) AS e3 FROM "
    "(SELECT o1, any(g1) AS g2, any(h1) AS h2, sum(a1) AS a2, argMax(l1, e1) AS l2, max(r1) AS r2, "
    "max(e1) AS e2, argMax(s1, e1) AS s2, sum((e1 - b1) * (m1 > 0) / s1) AS t2 FROM "
    "(SELECT window, any(process) AS o1, any(%s) AS g1, any(host) AS h1, "
    "argMin(allocated_bytes, push) AS a1, argMin(live_bytes, push) AS l1, "
    "argMin(greatest(rss_bytes, rss_most_bytes), push) AS r1, argMin(end_ns, push) AS e1, "
    "argMin(begin_ns, push) AS b1, argMin(share, push) AS s1, argMin(samples, push) AS m1 "
    "FROM %s.windows WHERE %s GROUP BY window) GROUP BY o1) GROUP BY g2, h2) GROUP BY g4 "
    "ORDER BY sum(l3) DESC, g4 FORMAT RowBinary";

static bool take_group(void *context, struct row_binary *r)
{
	struct fleet_groups *groups = context;
	struct fleet_group g;
	size_t length = row_binary_length(r, 1);

	if (!array_reserve(&groups->group, &groups->room, groups->count, sizeof(g)))
		return false;
	g.name = strndup((const char *)r->at, length);
	r->at += length;
	g.processes = row_binary_fixed(r, 8);
	g.hosts = row_binary_fixed(r, 8);
	g.allocated_bytes = row_binary_real(r);
	g.live_bytes = row_binary_real(r);
	g.stands_for = row_binary_real(r);
	g.live_each = row_binary_real(r);
	g.live_each_within = row_binary_real(r);
	g.rss_most_bytes = row_binary_fixed(r, 8);
	g.end_ns = (int64_t)row_binary_fixed(r, 8);
	if (!g.name)
		return false;
	groups->group[groups->count++] = g;
	return true;
}

bool fleet_groups_fetch(struct clickhouse *c, const char *by, const char *sql,
			struct fleet_groups *groups)
{
	const char *database = c->url.database;

	*groups = (struct fleet_groups){0};
	if (clickhouse_rows(c, NULL, take_group, groups, question, database, sql, by, database,
			    sql))
		return true;
	fleet_groups_free(groups);
	return false;
}

void fleet_groups_free(struct fleet_groups *groups)
{
	for (size_t i = 0; i < groups->count; i++)
		free(groups->group[i].name);
	free(groups->group);
	*groups = (struct fleet_groups){0};
}
