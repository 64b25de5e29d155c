/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly push: traces to a server: a fleet's database (fleet/push/fleet_push.h), or one of fleet/push/collector_push.h. */
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "cli/cli.h"
#include "fleet/push/fleet_login.h"
#include "cli/input/open_trace.h"
#include "cli/option_table.h"
#include "cli/fleet/push_every.h"

#define LEAST_NS 1000000000

struct push_command {
	struct fleet_login login;
	struct named_process process;
	const char *to;
	int64_t every_ns; /* 0: traces */
	bool from_start, quiet;
	char this_host[HOST_NAME_MAX + 1];
};

static const struct option_row push_rows[] = {
    {"to", .argument = "URL", OPTION_TEXT(struct push_command, to),
     .help = "the server: clickhouse://HOST[:PORT]/DATABASE, otlp://HOST[:PORT] or "
	     "pyroscope://HOST[:PORT]; clickhouses://, otlps:// and pyroscopes:// use TLS"},
    OPTION_GROUP(named_process_rows, struct push_command, process),
    {"label", .argument = "KEY=VALUE",
     OPTION_IN(named_process_take_label, struct named_process, struct push_command, process),
     .help = "a label of the process, to ask by; may be repeated"},
    OPTION_GROUP(fleet_login_rows, struct push_command, login),
    {"every", .argument = "TIME", .least = LEAST_NS, OPTION_TIME(struct push_command, every_ns),
     .help =
	 "push what runs, every TIME: the processes named by number, name or spool, or all that "
	 "are recorded on this machine"},
    {"from-start",
     .help = "with --every and a server that is no database: begin with all that processes have "
	     "done so far, where nobody has pushed it",
     OPTION_FLAG(struct push_command, from_start)},
    {"quiet", 'q', .help = "report only errors", OPTION_FLAG(struct push_command, quiet)},
    OPTION_END,
};

const struct option_table push_option_table = {
    .usage = "push --to URL [OPTIONS] TRACE... | --every TIME [PID|NAME|SPOOL]...",
    .about = "Sends traces, or what processes do while they run, to a ClickHouse database, to ask\n"
	     "questions over many processes, to an OpenTelemetry collector, or to Pyroscope.\n",
    .rows = push_rows,
    .notes =
	"In a database, each part of a process counts once, however often it is pushed. 'mayfly\n"
	"fleet init' makes it; doc/FLEET.md has its tables and questions to them.\n",
};

/* *away: there is no use in trying the next one. */
static bool push_file(const struct push_command *p, const struct push_to *to, const char *path,
		      bool *away)
{
	enum push_done done = PUSH_TRACE;
	char why[PUSH_WHY];
	struct opened_trace t;

	if (!open_trace(path, &t))
		return false;
	if (t.info->spool)
		snprintf(why, sizeof(why),
			 "is a recording that goes on or was cut off; 'mayfly push --every 60s' "
			 "pushes it as it goes on");
	else
		done = push_trace(to, t.trace, why);
	close_trace(&t);
	switch (done) {
	case PUSH_GOOD:
	case PUSH_THERE:
		if (!p->quiet)
			printf("%s: %s\n", path,
			       done == PUSH_THERE ? "is there already" : "pushed");
		return true;
	case PUSH_TRACE:
		return cli_fail("%s: %s", path, why);
	case PUSH_AWAY:
		*away = true;
		return cli_fail("%s: %s: %s", to->url.shown, path, why);
	case PUSH_REFUSED:
		return cli_fail("%s: %s: %s", to->url.shown, path, why);
	}
	return false;
}

static bool push_files(const struct push_command *p, const struct push_to *to, char **paths,
		       int count)
{
	bool good = true, away = false;

	for (int i = 0; i < count && !away; i++)
		good &= push_file(p, to, paths[i], &away);
	return good;
}

static bool connect_to(const struct push_command *p, struct push_to *to)
{
	if (!server_address(p->to, &to->url))
		return false;
	if (to->url.kind != SERVER_CLICKHOUSE)
		return (to->collector = collector_connect(&to->url, &p->login)) != NULL;
	to->c = fleet_connect_checked(p->to, &p->login);
	return to->c != NULL;
}

static int push(struct push_command *p, char **named, int count)
{
	struct known_stacks known = {0};
	struct push_to to = {.process = &p->process,
			     .share = 1,
			     .known = &known,
			     .ours_ns = p->from_start ? 0 : clock_ns(CLOCK_REALTIME) - p->every_ns};
	struct push_every every = {&to, p->every_ns, named, count, p->quiet};
	int status = CLI_FAILED;

	if (connect_to(p, &to)) {
		if (p->every_ns)
			status = push_every(&every);
		else
			status = push_files(p, &to, named, count) ? CLI_OK : CLI_FAILED;
	}
	clickhouse_close(to.c);
	known_stacks_forget(&known);
	collector_close(to.collector);
	return status;
}

int cmd_push(int argc, char **argv)
{
	struct push_command p = {0};
	int status = options_take(&push_option_table, &p, argc, argv);

	if (status == OPTIONS_TAKEN && !p.to)
		status = cli_usage("name the server: --to " SERVER_URL_FORMS);
	else if (status == OPTIONS_TAKEN && p.from_start && !p.every_ns)
		status = cli_usage("--from-start needs --every");
	else if (status == OPTIONS_TAKEN && optind == argc && !p.every_ns)
		status = cli_usage("name the traces to push, or push what runs with --every 60s");
	else if (status == OPTIONS_TAKEN) {
		gethostname(p.this_host, sizeof(p.this_host) - 1);
		if (!p.process.host)
			p.process.host = p.this_host;
		named_process_surroundings(&p.process);
		status = push(&p, argv + optind, argc - optind);
	}
	named_process_free(&p.process);
	return status;
}
