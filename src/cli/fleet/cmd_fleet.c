/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly fleet init: makes the tables that mayfly push fills. mayfly fleet list: the processes in them, in
 * groups. mayfly fleet rollup: joins old windows. mayfly fleet trim: forgets old processes. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "cli/cli.h"
#include "cli/fleet/fleet_list.h"
#include "cli/option_table.h"
#include "terminal/output.h"
#include "fleet/database/fleet_rollup.h"
#include "fleet/database/fleet_schema.h"
#include "fleet/database/fleet_trim.h"

#define HOUR_NS INT64_C(3600000000000)
#define DAY_NS	(24 * HOUR_NS)

struct fleet_command {
	struct fleet_login login;
	const char *by, *cluster;
	int64_t keep_ns, older_ns, to_ns;
	bool quiet, json, replicas;
};

static const struct option_row fleet_rows[] = {
    OPTION_GROUP(fleet_login_rows, struct fleet_command, login),
    {"by", .argument = "WHAT", OPTION_TEXT(struct fleet_command, by),
     .help = "list: a row for each service (default), version, host, program or label.KEY"},
    OPTION_JSON(struct fleet_command, json),
    {"cluster", .argument = "NAME", OPTION_TEXT(struct fleet_command, cluster),
     .help = "init: the rows are spread over the servers of this cluster of the server's "
	     "configuration; each needs an init"},
    {"replicas", OPTION_FLAG(struct fleet_command, replicas),
     .help = "init: the servers of a shard of the cluster are replicas, which have the same rows"},
    {"keep", .argument = "TIME", .least = 1, OPTION_TIME(struct fleet_command, keep_ns),
     .help = "trim: forget the processes whose last window is older, such as 30d"},
    {"older", .argument = "TIME", .least = 1, OPTION_TIME(struct fleet_command, older_ns),
     .help = "rollup: join the windows that ended longer ago, such as 7d"},
    {"to", .argument = "TIME", .least = 1000000000, OPTION_TIME(struct fleet_command, to_ns),
     .help = "rollup: those of a process that begin in the same TIME, such as 5m or 1h (default)"},
    {"quiet", 'q', .help = "init, rollup, trim: report only errors",
     OPTION_FLAG(struct fleet_command, quiet)},
    OPTION_END,
};

const struct option_table fleet_option_table = {
    .usage = "fleet init|list|rollup|trim [OPTIONS] clickhouse://HOST[:PORT]/DATABASE",
    .about = "init makes the database and its tables for 'mayfly push', in a ClickHouse server.\n"
	     "list shows what they hold, by service, version, host, program or label; the address\n"
	     "may go on with a question, as in 'clickhouse://HOST/DATABASE?service=api&from=-1h'.\n"
	     "rollup --older 7d --to 1h joins old windows of a process to one for each hour.\n"
	     "trim --keep 30d removes the processes that ended before.\n",
    .rows = fleet_rows,
    .notes =
	"init brings the tables of an older mayfly up to date, and else changes nothing that is\n"
	"there. clickhouses:// uses TLS.\n",
};

static void say_untried(struct clickhouse *c)
{
	char *version = fleet_schema_untried(c);

	if (version)
		printf("%s: ClickHouse %s was never tried with mayfly, which is tested "
		       "with " FLEET_TRIED_OLDEST " and " FLEET_TRIED_NEWEST "\n",
		       c->url.shown, version);
	free(version);
}

static int init(const struct fleet_command *f, const char *address)
{
	static const char *const done[] = {
	    [FLEET_SCHEMA_MADE] = "the tables are made; 'mayfly push --to' fills them",
	    [FLEET_SCHEMA_MIGRATED] = "the tables are brought to this mayfly's version",
	    [FLEET_SCHEMA_THERE] = "the tables are there already"};
	struct clickhouse *c = fleet_connect(address, &f->login);
	enum fleet_schema_made made = FLEET_SCHEMA_THERE;
	int status = CLI_FAILED;

	if (c)
		status =
		    fleet_schema_make(c, f->cluster, f->replicas, &made) ? CLI_OK : fleet_error(c);
	if (status == CLI_OK && !f->quiet) {
		printf("%s: %s\n", c->url.shown, done[made]);
		say_untried(c);
	}
	clickhouse_close(c);
	return status;
}

static int64_t before(int64_t ns)
{
	return clock_ns(CLOCK_REALTIME) - ns;
}

static int rollup(const struct fleet_command *f, const char *address)
{
	struct clickhouse *c = fleet_connect_checked(address, &f->login);
	struct fleet_rollup how = {before(f->older_ns), f->to_ns ? f->to_ns : HOUR_NS};
	char number[2][FIGURE_TEXT];
	uint64_t windows = 0, joined = 0;
	int status = CLI_FAILED;

	if (c)
		status = fleet_rollup(c, &how, &windows, &joined) ? CLI_OK : fleet_error(c);
	if (status == CLI_OK && !f->quiet)
		printf("%s: %s windows joined to %s\n", c->url.shown,
		       text_count(number[0], sizeof(number[0]), windows),
		       text_count(number[1], sizeof(number[1]), joined));
	clickhouse_close(c);
	return status;
}

static int trim(const struct fleet_command *f, const char *address)
{
	struct clickhouse *c = fleet_connect_checked(address, &f->login);
	char number[FIGURE_TEXT];
	uint64_t processes = 0;
	int status = CLI_FAILED;

	if (c)
		status = fleet_trim(c, before(f->keep_ns), &processes) ? CLI_OK : fleet_error(c);
	if (status == CLI_OK && !f->quiet)
		printf("%s: %s process%s forgotten\n", c->url.shown,
		       text_count(number, sizeof(number), processes), processes == 1 ? "" : "es");
	clickhouse_close(c);
	return status;
}

static int list(const struct fleet_command *f, const char *address)
{
	return fleet_list(f->by ? f->by : "service", address, &f->login, f->json);
}

int cmd_fleet(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(const struct fleet_command *, const char *);
	} jobs[] = {{"init", init}, {"list", list}, {"rollup", rollup}, {"trim", trim}};
	struct fleet_command f = {0};
	int status = options_take(&fleet_option_table, &f, argc, argv);
	size_t job = 0;

	if (status != OPTIONS_TAKEN)
		return status;
	while (job < sizeof(jobs) / sizeof(*jobs) &&
	       (optind >= argc || strcmp(argv[optind], jobs[job].name) != 0))
		job++;
	if (job == sizeof(jobs) / sizeof(*jobs))
		return cli_usage("say what to do: 'init', 'list', 'rollup' or 'trim'");
	if (optind + 2 != argc)
		return cli_usage("name one database, as clickhouse://HOST/DATABASE");
	if (jobs[job].run != list && (f.by || f.json))
		return cli_usage("%s is for list", f.by ? "--by" : "--json");
	if (jobs[job].run != init && f.cluster)
		return cli_usage("--cluster is for init");
	if (f.replicas && !f.cluster)
		return cli_usage("--replicas is for init, with --cluster NAME");
	if ((jobs[job].run == trim) != (f.keep_ns != 0))
		return cli_usage(f.keep_ns ? "--keep is for trim"
					   : "trim: say how much to keep, as --keep 30d");
	if ((jobs[job].run == rollup) != (f.older_ns != 0))
		return cli_usage(f.older_ns ? "--older is for rollup"
					    : "rollup: say which windows to join, as --older 7d");
	if (f.to_ns && (jobs[job].run != rollup || DAY_NS % f.to_ns))
		return cli_usage(jobs[job].run != rollup
				     ? "--to is for rollup"
				     : "--to: a day is no multiple of it; take 5m, 1h or 1d");
	return jobs[job].run(&f, argv[optind + 1]);
}
