/* SPDX-License-Identifier: Apache-2.0 */
/* A question to a fleet's database as a trace: see fleet_trace.h. */
#include "cli/fleet/fleet_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "fleet/push/fleet_login.h"
#include "trace/write/writer.h"
#include "fleet/ask/fleet_fetch.h"
#include "fleet/database/fleet_filter.h"
#include "fleet/database/fleet_schema.h"

bool fleet_fetch_file(struct clickhouse *c, const struct server_url *url, const char *address,
		      const struct fleet_filter *filter, struct loaded_file *file)
{
	struct trace_buffer buffer = {0};
	char why[CLICKHOUSE_WHY];

	if (!fleet_fetch(c, url, address, filter, trace_buffer_sink, &buffer, why)) {
		free(buffer.bytes);
		return cli_fail("%s: %s", url->shown, why);
	}
	*file = (struct loaded_file){.data = buffer.bytes, .size = buffer.used};
	return true;
}

static bool asks_for(const char *address, const char *key)
{
	size_t length = strlen(key);

	for (const char *at = strchr(address, '?'); at; at = strchr(at + 1, '&'))
		if (!strncmp(at + 1, key, length) && at[1 + length] == '=')
			return true;
	return false;
}

bool fleet_is_sum(const char *address)
{
	return server_url_is(address) && !asks_for(address, "every") && !asks_for(address, "per");
}

char *fleet_over_time(const char *address)
{
	char *asked = NULL;

	if (!fleet_is_sum(address))
		return strdup(address);
	return asprintf(&asked, "%s%severy=auto", address, strchr(address, '?') ? "&" : "?") < 0
		   ? NULL
		   : asked;
}

bool fleet_load(const char *address, struct loaded_file *file)
{
	struct fleet_login login = {0};
	enum clickhouse_failure failure;
	char why[CLICKHOUSE_WHY];
	struct fleet_filter filter;
	struct server_url url;
	struct clickhouse *c;
	bool good;

	if (!fleet_filter_read(address, time(NULL), &filter, why)) {
		bytes_free(&filter.sql);
		return cli_fail("the question to the database: %s", why);
	}
	c = fleet_connect(address, &login, &url);
	good =
	    c && (fleet_schema_check(c, &url, &failure, why) || cli_fail("%s: %s", url.shown, why));
	good = good && fleet_fetch_file(c, &url, address, &filter, file);
	clickhouse_close(c);
	bytes_free(&filter.sql);
	return good;
}
