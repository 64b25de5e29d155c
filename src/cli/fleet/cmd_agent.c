/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly agent: see fleet/host/host_agent.h. */
#include <getopt.h>

#include "cli/cli.h"
#include "cli/option_table.h"
#include "fleet/host/host_agent.h"

struct agent_command {
	struct host_agent agent;
	bool check;
};

static const struct option_row agent_rows[] = {
    {"config", .argument = "FILE", OPTION_FILE(struct agent_command, agent.config),
     .words = OPTION_FILES, .help = "what to watch, where to push, and the rules"},
    {"check", .help = "say what the configuration means, and end",
     OPTION_FLAG(struct agent_command, check)},
    {"verbose", 'v', .help = "a line for each window",
     OPTION_FLAG(struct agent_command, agent.verbose)},
    OPTION_END,
};

const struct option_table agent_option_table = {
    .usage = "agent --config FILE [OPTIONS]",
    .about =
	"Pushes windows of all processes whose spools are in the watched folders, and switches\n"
	"a share of the dormant ones on, by rule. One for a host, as a service of systemd.\n",
    .rows = agent_rows,
    .notes = "Processes take part with LD_PRELOAD=libmayfly.so and, in MAYFLY,\n"
	     "'output=/run/mayfly/%p.spool,start=dormant'. SIGHUP reads FILE again.\n",
};

static int run(const struct agent_command *a)
{
	struct host_config config;
	int status;

	if (!host_config_read(&config, a->agent.config))
		return CLI_USAGE;
	if (a->check) {
		host_config_print(&config);
		status = cli_finish();
	} else {
		status = host_agent_run(&a->agent, &config) ? CLI_OK : CLI_FAILED;
	}
	host_config_free(&config);
	return status;
}

int cmd_agent(int argc, char **argv)
{
	struct agent_command a = {0};
	int status = options_take(&agent_option_table, &a, argc, argv);

	if (status != OPTIONS_TAKEN)
		return status;
	if (argc > optind)
		return cli_usage("'%s' is one word too many", argv[optind]);
	if (!a.agent.config)
		return cli_usage("name the configuration: --config FILE");
	return run(&a);
}
