/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a fleet's database in groups: see fleet_list.h. */
#include "cli/fleet/fleet_list.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "terminal/output.h"
#include "terminal/print_json.h"
#include "fleet/database/fleet_filter.h"
#include "fleet/ask/fleet_groups.h"

static int print_json(const struct fleet_groups *groups)
{
	struct json j = json_document();

	JSON_ROWS(&j, "groups", i, i < groups->count) {
		const struct fleet_group *g = &groups->group[i];

		json_text(&j, "name", g->name);
		json_unsigned(&j, "processes", g->processes);
		json_unsigned(&j, "hosts", g->hosts);
		json_real(&j, "allocated_bytes", g->allocated_bytes);
		json_real(&j, "live_bytes", g->live_bytes);
		json_real(&j, "live_bytes_each", g->live_each);
		json_real(&j, "live_bytes_each_within", g->live_each_within);
		json_unsigned_or_null(&j, "rss_most_bytes", g->rss_most_bytes != 0,
				      g->rss_most_bytes);
		json_integer(&j, "end_ns", g->end_ns);
	}
	return json_print(&j);
}

struct listing {
	struct output out;
	const struct fleet_groups *groups;
};

static void put_group(struct table *t, const void *context, size_t row)
{
	const struct listing *l = context;
	const struct fleet_group *g = &l->groups->group[row];
	char text[FIGURE_TEXT], until[32] = "";
	time_t end = (time_t)(g->end_ns / 1000000000);
	struct tm tm;

	if (gmtime_r(&end, &tm))
		strftime(until, sizeof(until), "%Y-%m-%d %H:%M", &tm);
	table_count(COLUMN(t, "PROCESSES", true), g->processes);
	table_count(COLUMN(t, "HOSTS", true, 2), g->hosts);
	table_bytes(COLUMN(t, "ALLOCATED", true, 3), g->allocated_bytes);
	table_bytes(COLUMN(t, "LIVE", true), g->live_bytes);
	table_bytes(COLUMN(t, "LIVE EACH", true, 0, STYLE_BOLD), g->live_each);
	COLUMN(t, "", .close = true);
	if (isnan(g->live_each_within))
		table_cell(t, "");
	else
		table_format(t, "%s%s", l->out.utf8 ? "±" : "+-",
			     text_bytes(text, sizeof(text), g->live_each_within));
	COLUMN(t, "MOST RSS", true, 1);
	if (g->rss_most_bytes)
		table_bytes(t, (double)g->rss_most_bytes);
	else
		table_cell(t, "-");
	table_cell(COLUMN(t, "UNTIL (UTC)", false, 4, STYLE_DIM), until);
	table_cell(COLUMN(t, "NAME"), *g->name ? g->name : "(none)");
}

static int print_groups(const struct fleet_groups *groups)
{
	struct listing l = {.groups = groups};

	output_detect(&l.out);
	if (!table_print_rows(&l.out, groups->count, put_group, &l))
		return cli_error("out of memory");
	return cli_finish();
}

int fleet_list(const char *by, const char *address, const struct fleet_login *login, bool json)
{
	struct fleet_filter filter = {0};
	struct bytes expression = {0};
	struct fleet_groups groups = {0};
	struct clickhouse *c = NULL;
	char why[FLEET_FILTER_WHY];
	int status = CLI_FAILED;

	if (!fleet_filter_group(by, &expression)) {
		status =
		    cli_usage("--by: '%s' is not service, version, host, program or label.KEY", by);
	} else if (!fleet_filter_read(address, time(NULL), &filter, why)) {
		cli_error("the question to the database: %s", why);
	} else if (filter.every_ns) {
		status = cli_usage("a list of processes has no times: leave every= out");
	} else {
		bytes_put(&expression, "", 1);
		c = expression.failed ? NULL : fleet_connect_checked(address, login);
	}
	if (c && fleet_groups_fetch(c, (const char *)expression.at, (const char *)filter.sql.at,
				    &groups))
		status = json ? print_json(&groups)
			 : groups.count
			     ? print_groups(&groups)
			     : cli_error("%s: it has no windows like that", c->url.shown);
	else if (c)
		fleet_error(c);
	fleet_groups_free(&groups);
	clickhouse_close(c);
	bytes_free(&filter.sql);
	bytes_free(&expression);
	return status;
}
