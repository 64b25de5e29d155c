/* SPDX-License-Identifier: Apache-2.0 */
/* What there is to be fetched: see pull_index.h. */
#include "fleet/pull/pull_index.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void put_text(struct bytes *to, const char *text)
{
	bytes_put(to, text, strlen(text));
}

bool pull_index(const struct pull_source *source, const char *address, struct bytes *to)
{
	struct pull_list list = {0};
	bool good = source->list(source->context, &list);

	put_text(to, "mayfly " MAYFLY_VERSION "\n\n");
	for (size_t i = 0; i < list.count; i++) {
		const struct pull_process *p = &list.process[i];
		char number[32];

		snprintf(number, sizeof(number), "?pid=%d\t", (int)p->pid);
		put_text(to, address);
		put_text(to, "debug/pprof/heap");
		put_text(to, number);
		put_text(to, p->service);
		put_text(to, "\t");
		put_text(to, p->program);
		put_text(to, "\n");
	}
	put_text(to, list.count ? "\n" : "No process is recorded now.\n\n");
	put_text(to, "/debug/pprof/heap    what is live: ?pid=N, ?service=NAME, ?seconds=N\n"
		     "/debug/pprof/allocs  what was allocated: the same\n"
		     "/metrics             figures for Prometheus\n"
		     "/targets             the services, for http_sd_configs\n"
		     "/healthz, /readyz\n");
	pull_list_free(&list);
	return good && !to->failed;
}

/* ---- targets ---- */

static void put_json(struct bytes *to, const char *text)
{
	char escaped[8];

	put_text(to, "\"");
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		snprintf(escaped, sizeof(escaped),
			 c < ' ' || c == 127	 ? "\\u%04x"
			 : c == '"' || c == '\\' ? "\\%c"
						 : "%c",
			 c);
		put_text(to, escaped);
	}
	put_text(to, "\"");
}

/* "127.0.0.1:9400" of "http://127.0.0.1:9400/"; where any address is meant, this machine's name stands for it. */
static void put_host(struct bytes *to, const char *address)
{
	static const char scheme[] = "http://", any4[] = "0.0.0.0:", any6[] = "[::]:";
	char host[HOST_NAME_MAX + 16] = "", name[HOST_NAME_MAX + 1] = "localhost";
	size_t any;

	if (!strncmp(address, scheme, sizeof(scheme) - 1))
		address += sizeof(scheme) - 1;
	any = !strncmp(address, any4, sizeof(any4) - 1)	  ? sizeof(any4) - 1
	      : !strncmp(address, any6, sizeof(any6) - 1) ? sizeof(any6) - 1
							  : 0;
	if (any && gethostname(name, sizeof(name) - 1))
		strcpy(name, "localhost");
	snprintf(host, sizeof(host), "%s%s%s", any ? name : "", any ? ":" : "", address + any);
	host[strcspn(host, "/")] = 0;
	put_json(to, host);
}

static bool is_first(const struct pull_list *list, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (!strcmp(list->process[i].service, list->process[at].service))
			return false;
	return true;
}

bool pull_targets(const struct pull_source *source, const char *address, struct bytes *to)
{
	struct pull_list list = {0};
	bool good = source->list(source->context, &list);
	const char *between = "\n";

	put_text(to, "[");
	for (size_t i = 0; i < list.count; i++) {
		if (!is_first(&list, i))
			continue;
		put_text(to, between);
		put_text(to, "  {\"targets\": [");
		put_host(to, address);
		put_text(to, "], \"labels\": {\"__param_service\": ");
		put_json(to, list.process[i].service);
		put_text(to, ", \"service_name\": ");
		put_json(to, list.process[i].service);
		put_text(to, "}}");
		between = ",\n";
	}
	put_text(to, "\n]\n");
	pull_list_free(&list);
	return good && !to->failed;
}
