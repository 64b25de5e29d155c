/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly push: traces into a fleet's database. fleet/fleet_push.h does it. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "answer/trace_names.h"
#include "cli/cli.h"
#include "cli/fleet_login.h"
#include "cli/open_trace.h"
#include "cli/option_table.h"
#include "cli/output.h"
#include "fleet/fleet_push.h"
#include "fleet/fleet_schema.h"
#include "format/numbering.h"

#define LABELS_MOST 32u

struct push_command {
	struct fleet_login login;
	const char *to, *service, *host;
	struct window_label label[LABELS_MOST];
	size_t labels;
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
    {"quiet", 'q', .help = "report only errors", OPTION_FLAG(struct push_command, quiet)},
    OPTION_END,
};

const struct option_table push_option_table = {
    .usage = "push --to clickhouse://HOST[:PORT]/DATABASE [OPTIONS] TRACE...",
    .about = "Puts traces into a ClickHouse database, to ask questions over many processes.\n",
    .rows = push_rows,
    .notes =
	"The same trace counts once, however often it is pushed. 'mayfly fleet init URL' makes\n"
	"the database; doc/FLEET.md has its tables and questions to them.\n",
};

/* What Kubernetes tells a container, when its manifest says so. */
static void add_surroundings(struct push_command *p)
{
	static const struct window_label known[] = {
	    {"pod", "POD_NAME"}, {"namespace", "POD_NAMESPACE"}, {"node", "NODE_NAME"}};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		const char *value = getenv(known[i].value);
		bool given = !value || p->labels == LABELS_MOST;

		for (size_t k = 0; !given && k < p->labels; k++)
			given = !strcmp(p->label[k].key, known[i].key);
		if (!given)
			p->label[p->labels++] = (struct window_label){strdup(known[i].key), value};
	}
}

/* The same file is the same window. */
static uint64_t window_of(const struct loaded_file *file)
{
	const uint8_t *at = file->data;
	uint64_t hash = file->size;
	uint8_t rest[8] = {0};
	size_t i;

	for (i = 0; i + 8 <= file->size; i += 8)
		hash = numbering_mix(hash ^ bytes_load(at + i)) * 0x9e3779b97f4a7c15u + 1;
	memcpy(rest, at + i, file->size - i);
	return numbering_mix(hash ^ bytes_load(rest));
}

static bool random_number(uint64_t *number)
{
	do {
		if (getrandom(number, sizeof(*number), 0) != sizeof(*number))
			return cli_fail("no random numbers: %s", strerror(errno));
	} while (!*number);
	return true;
}

static const char *service_of(const struct push_command *p, const struct mayfly_info *info)
{
	const char *variable = getenv("MAYFLY_SERVICE");

	return p->service	       ? p->service
	       : variable && *variable ? variable
				       : path_base(info->program);
}

static const char *why_not(const struct opened_trace *t)
{
	if (t->info->spool)
		return "is a recording that goes on or was cut off; push a trace, as 'mayfly ctl "
		       "PID "
		       "snapshot' makes it";
	if (t->info->absent & MAYFLY_ABSENT_START)
		return "does not say when it was recorded, as it comes from another tool";
	if (t->info->absent & MAYFLY_ABSENT_ALLOCATIONS)
		return "has no blocks";
	return NULL;
}

/* *away: there is no use in trying the next one. */
static bool push_one(const struct push_command *p, struct clickhouse *c,
		     const struct server_url *url, const char *path, bool *away)
{
	char version[65], why[CLICKHOUSE_WHY];
	enum clickhouse_failure failure;
	struct window_facts facts = {
	    .version = version,
	    .host = p->host ? p->host : p->this_host,
	    .label = p->label,
	    .labels = p->labels,
	    .pushed_s = time(NULL),
	};
	struct opened_trace t;
	bool there = false;

	if (!open_trace(path, &t))
		return false;
	if (why_not(&t)) {
		cli_error("%s: %s", path, why_not(&t));
		close_trace(&t);
		return false;
	}
	window_version(t.trace, version);
	facts.service = service_of(p, t.info);
	facts.window = window_of(&t.file);
	failure = random_number(&facts.push) ? fleet_push(c, url, t.trace, &facts, &there, why)
					     : CLICKHOUSE_REFUSED;
	if (failure)
		cli_error("%s: %s: %s", url->shown, path, why);
	else if (!p->quiet)
		printf("%s: %s\n", path, there ? "is there already" : "pushed");
	*away = failure != CLICKHOUSE_GOOD;
	close_trace(&t);
	return !failure;
}

static int push(struct push_command *p, char **paths, int count)
{
	enum clickhouse_failure failure;
	char why[CLICKHOUSE_WHY];
	struct server_url url;
	struct clickhouse *c = fleet_connect(p->to, &p->login, &url);
	bool good, away = false;

	if (!c)
		return CLI_FAILED;
	good = fleet_schema_check(c, &url, &failure, why);
	if (!good)
		cli_error("%s: %s", url.shown, why);
	away = !good;
	for (int i = 0; i < count && !away; i++)
		good &= push_one(p, c, &url, paths[i], &away);
	clickhouse_close(c);
	return good ? CLI_OK : CLI_FAILED;
}

int cmd_push(int argc, char **argv)
{
	struct push_command p = {0};
	int status = options_take(&push_option_table, &p, argc, argv);

	if (status == OPTIONS_TAKEN && !p.to)
		status = cli_usage("name the database: --to clickhouse://HOST/DATABASE");
	else if (status == OPTIONS_TAKEN && optind == argc)
		status = cli_usage("name the traces to push");
	else if (status == OPTIONS_TAKEN) {
		gethostname(p.this_host, sizeof(p.this_host) - 1);
		add_surroundings(&p);
		status = push(&p, argv + optind, argc - optind);
	}
	for (size_t i = 0; i < p.labels; i++)
		free((char *)(size_t)p.label[i].key);
	return status;
}
