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

bool fleet_fetch_file(struct clickhouse *c, const char *address, const struct fleet_filter *filter,
		      struct loaded_file *file)
{
	struct trace_buffer buffer = {0};

	if (!fleet_fetch(c, address, filter, trace_buffer_sink, &buffer)) {
		free(buffer.bytes);
		fleet_error(c);
		return false;
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

struct clickhouse *fleet_ask_begin(const char *address, struct fleet_filter *filter)
{
	char why[FLEET_FILTER_WHY];
	struct clickhouse *c = NULL;

	if (!fleet_filter_read(address, time(NULL), filter, why))
		cli_error("the question to the database: %s", why);
	else
		c = fleet_connect_checked(address, &(struct fleet_login){0});
	if (!c)
		bytes_free(&filter->sql);
	return c;
}

void fleet_ask_end(struct clickhouse *c, struct fleet_filter *filter)
{
	clickhouse_close(c);
	bytes_free(&filter->sql);
}

bool fleet_load(const char *address, struct loaded_file *file)
{
	struct fleet_filter filter;
	struct clickhouse *c = fleet_ask_begin(address, &filter);
	bool good = c && fleet_fetch_file(c, address, &filter, file);

	if (c)
		fleet_ask_end(c, &filter);
	return good;
}
