/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly push: traces into a fleet's database. fleet/fleet_push.h does it. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/fleet_login.h"
#include "cli/open_trace.h"
#include "cli/option_table.h"
#include "cli/output.h"
#include "cli/push_every.h"
#include "fleet/fleet_schema.h"

#define LABELS_MOST 32u
#define LEAST_NS    1000000000

struct push_command {
	struct fleet_login login;
	const char *to, *service, *host;
	struct window_label label[LABELS_MOST];
	size_t labels;
	int64_t every_ns; /* 0: traces */
	bool quiet;
	char this_host[HOST_NAME_MAX + 1];
};

/* "key=value"; the row's value lasts as long as argv. */
static bool take_label(const struct given *given, void *to)
{
	struct push_command *p = to;
	const char *equals = strchr(given->value, '=');
	char *key;

	if (!equals || equals == given->value)
		return complain(given->complaint, "%s: '%s' is not KEY=VALUE", given->option,
				given->value);
	if (p->labels == LABELS_MOST)
		return complain(given->complaint, "%s: at most %u labels", given->option,
				LABELS_MOST);
	key = strndup(given->value, (size_t)(equals - given->value));
	if (!key)
		return complain(given->complaint, "out of memory");
	p->label[p->labels++] = (struct window_label){key, equals + 1};
	return true;
}

static const struct option_row push_rows[] = {
    {"to", .argument = "URL", OPTION_TEXT(struct push_command, to),
     .help = "the database, as clickhouse://HOST[:PORT]/DATABASE; clickhouses:// uses TLS"},
    {"service", .argument = "NAME", OPTION_TEXT(struct push_command, service),
     .help = "what the program is part of (default MAYFLY_SERVICE, else the program's name)"},
    {"host", .argument = "NAME", OPTION_TEXT(struct push_command, host),
     .help = "where it ran (default this machine)"},
    {"label", .argument = "KEY=VALUE", OPTION_OWN(take_label),
     .help = "a label of the process, to ask by; may be repeated"},
    OPTION_GROUP(fleet_login_rows, struct push_command, login),
    {"every", .argument = "TIME", .least = LEAST_NS, OPTION_TIME(struct push_command, every_ns),
     .help =
	 "push what runs, every TIME: the processes named by number, name or spool, or all that "
	 "are recorded on this machine"},
    {"quiet", 'q', .help = "report only errors", OPTION_FLAG(struct push_command, quiet)},
    OPTION_END,
};

const struct option_table push_option_table = {
    .usage = "push --to URL [OPTIONS] TRACE... | --every TIME [PID|NAME|SPOOL]...",
    .about =
	"Puts traces, or what processes do while they run, into a ClickHouse database, to ask\n"
	"questions over many processes.\n",
    .rows = push_rows,
    .notes = "Each part of a process counts once, however often it is pushed. 'mayfly fleet init'\n"
	     "makes the database; doc/FLEET.md has its tables and questions to them.\n",
};

/* What Kubernetes tells a container, when its manifest says so. */
static void add_surroundings(struct push_command *p)
{
	for (const struct window_label *known = push_surroundings; known->key; known++) {
		const char *value = getenv(known->value);
		bool given = !value || p->labels == LABELS_MOST;

		for (size_t k = 0; !given && k < p->labels; k++)
			given = !strcmp(p->label[k].key, known->key);
		if (!given)
			p->label[p->labels++] = (struct window_label){strdup(known->key), value};
	}
}

/* *away: there is no use in trying the next one. */
static bool push_file(const struct push_command *p, const struct push_to *to, const char *path,
		      bool *away)
{
	enum push_done done = PUSH_TRACE;
	char why[CLICKHOUSE_WHY];
	struct opened_trace t;

	if (!open_trace(path, &t))
		return false;
	if (t.info->spool)
		snprintf(why, sizeof(why),
			 "is a recording that goes on or was cut off; 'mayfly push --every 60s' "
			 "pushes it as it goes on");
	else
		done = push_window(to, t.trace, 0, why);
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
	case PUSH_DATABASE:
		*away = true;
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

static int push(struct push_command *p, char **named, int count)
{
	enum clickhouse_failure failure;
	char why[CLICKHOUSE_WHY];
	struct known_stacks known = {0};
	struct push_to to = {.service = p->service,
			     .host = p->host ? p->host : p->this_host,
			     .label = p->label,
			     .labels = p->labels,
			     .share = 1,
			     .known = &known};
	struct push_every every = {&to, p->every_ns, named, count, p->quiet};
	int status;

	to.c = fleet_connect(p->to, &p->login, &to.url);
	if (!to.c)
		return CLI_FAILED;
	if (!fleet_schema_check(to.c, &to.url, &failure, why))
		status = cli_error("%s: %s", to.url.shown, why);
	else if (p->every_ns)
		status = push_every(&every);
	else
		status = push_files(p, &to, named, count) ? CLI_OK : CLI_FAILED;
	clickhouse_close(to.c);
	known_stacks_forget(&known);
	return status;
}

int cmd_push(int argc, char **argv)
{
	struct push_command p = {0};
	int status = options_take(&push_option_table, &p, argc, argv);

	if (status == OPTIONS_TAKEN && !p.to)
		status = cli_usage("name the database: --to clickhouse://HOST/DATABASE");
	else if (status == OPTIONS_TAKEN && optind == argc && !p.every_ns)
		status = cli_usage("name the traces to push, or push what runs with --every 60s");
	else if (status == OPTIONS_TAKEN) {
		gethostname(p.this_host, sizeof(p.this_host) - 1);
		add_surroundings(&p);
		status = push(&p, argv + optind, argc - optind);
	}
	for (size_t i = 0; i < p.labels; i++)
		free((char *)(size_t)p.label[i].key);
	return status;
}
