/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a question to a fleet's database: see fleet_hosts.h. */
#include "cli/diff/fleet_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/push/fleet_login.h"
#include "cli/fleet/fleet_trace.h"
#include "terminal/message.h"
#include "fleet/database/fleet_filter.h"
#include "fleet/ask/fleet_groups.h"

struct asking {
	struct clickhouse *c;
	const char *address;
	struct fleet_filter filter;
};

static bool no_memory(void)
{
	return cli_fail("out of memory");
}

/* by: an SQL expression. */
static bool fetch_groups(struct asking *a, const char *by, struct fleet_groups *groups)
{
	if (fleet_groups_fetch(a->c, by, (const char *)a->filter.sql.at, groups))
		return true;
	fleet_error(a->c);
	return false;
}

/* The answer of a group alone. */
static bool ask_group(struct asking *a, const char *by, const struct fleet_group *group,
		      struct opened_trace *opened)
{
	struct fleet_filter alone = {0};
	struct loaded_file file;
	bool good;

	bytes_put(&alone.sql, a->filter.sql.at, a->filter.sql.used - 1);
	fleet_filter_add(&alone, by, group->name);
	good = alone.sql.failed ? no_memory() : fleet_fetch_file(a->c, a->address, &alone, &file);
	bytes_free(&alone.sql);
	return good && open_loaded(a->address, &file, opened);
}

static bool ask_groups(struct asking *a, const char *by, const struct fleet_groups *groups,
		       struct fleet_hosts *hosts)
{
	hosts->opened = calloc(groups->count + 1, sizeof(*hosts->opened));
	hosts->group = calloc(groups->count + 1, sizeof(*hosts->group));
	if (!hosts->opened || !hosts->group)
		return no_memory();
	hosts->groups.group = hosts->group;
	for (size_t i = 0; i < groups->count; i++) {
		if (!ask_group(a, by, &groups->group[i], &hosts->opened[i]))
			return false;
		hosts->group[i] =
		    (struct diff_host_group){hosts->opened[i].trace, groups->group[i].stands_for};
		hosts->groups.groups = i + 1;
	}
	return true;
}

static bool ask(struct asking *a, struct fleet_hosts *hosts)
{
	struct fleet_groups groups = {0};
	const char *by = "host";
	char hashed[64];
	bool good = fetch_groups(a, by, &groups);

	for (size_t i = 0; good && i < groups.count; i++) {
		hosts->processes += groups.group[i].processes;
		hosts->stand_for += groups.group[i].stands_for;
	}
	hosts->hosts = groups.count;
	if (good && groups.count > FLEET_HOSTS_ALONE) {
		fleet_groups_free(&groups);
		snprintf(hashed, sizeof(hashed), "toString(cityHash64(host) %% %d)",
			 FLEET_HOSTS_GROUPS);
		by = hashed;
		good = fetch_groups(a, by, &groups);
	}
	good = good && ask_groups(a, by, &groups, hosts);
	fleet_groups_free(&groups);
	return good;
}

bool fleet_hosts_ask(const char *address, struct fleet_hosts *hosts)
{
	struct asking a = {.address = address};
	bool good;

	*hosts = (struct fleet_hosts){0};
	a.c = fleet_ask_begin(address, &a.filter);
	if (!a.c)
		return false;
	good = ask(&a, hosts);
	fleet_ask_end(a.c, &a.filter);
	if (!good)
		fleet_hosts_free(hosts);
	return good;
}

void fleet_hosts_free(struct fleet_hosts *hosts)
{
	for (size_t i = 0; i < hosts->groups.groups; i++)
		close_trace(&hosts->opened[i]);
	free(hosts->opened);
	free(hosts->group);
	*hosts = (struct fleet_hosts){0};
}
