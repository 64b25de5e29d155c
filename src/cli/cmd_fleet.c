/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly fleet init: makes the tables that mayfly push fills. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/fleet_login.h"
#include "cli/option_table.h"
#include "fleet/fleet_schema.h"

struct fleet_command {
	struct fleet_login login;
	bool quiet;
};

static const struct option_row fleet_rows[] = {
    OPTION_GROUP(fleet_login_rows, struct fleet_command, login),
    {"quiet", 'q', .help = "report only errors", OPTION_FLAG(struct fleet_command, quiet)},
    OPTION_END,
};

const struct option_table fleet_option_table = {
    .usage = "fleet init [OPTIONS] clickhouse://HOST[:PORT]/DATABASE",
    .about = "Makes the database and its tables for 'mayfly push', in a ClickHouse server.\n",
    .rows = fleet_rows,
    .notes = "A second run changes nothing. clickhouses:// uses TLS.\n",
};

static int init(const struct fleet_command *f, const char *address)
{
	struct server_url url;
	struct clickhouse *c = fleet_connect(address, &f->login, &url);
	char why[CLICKHOUSE_WHY];
	bool made, good;

	if (!c)
		return CLI_FAILED;
	good = fleet_schema_make(c, url.database, &made, why);
	clickhouse_close(c);
	if (!good)
		return cli_error("%s: %s", url.shown, why);
	if (!f->quiet)
		printf("%s: %s\n", url.shown,
		       made ? "the tables are made; 'mayfly push --to' fills them"
			    : "the tables are there already");
	return CLI_OK;
}

int cmd_fleet(int argc, char **argv)
{
	struct fleet_command f = {0};
	int status = options_take(&fleet_option_table, &f, argc, argv);

	if (status != OPTIONS_TAKEN)
		return status;
	if (optind >= argc || strcmp(argv[optind], "init"))
		return cli_usage("say what to do: 'init'");
	if (optind + 2 != argc)
		return cli_usage("name one database, as clickhouse://HOST/DATABASE");
	return init(&f, argv[optind + 1]);
}
