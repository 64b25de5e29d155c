/* SPDX-License-Identifier: Apache-2.0 */
/* The service of a process that was pushed before: see fleet_service.h. The number of a process is a
 * hash of, among others, its service. So each service of the host is tried until the number fits. */
#include "fleet/push/fleet_service.h"

#include <stdlib.h>
#include <string.h>

#include "fleet/database/fleet_filter.h"

struct search {
	const struct mayfly_trace *trace;
	const struct window_facts *facts;
	char *service; /* NULL: not found yet */
};

static bool take_service(void *context, struct row_binary *r)
{
	struct search *search = context;
	struct window_facts facts = *search->facts;
	size_t length = row_binary_length(r, 1);
	char *service = strndup((const char *)r->at, length);
	uint64_t process;

	if (!service)
		return false;
	r->at += length;
	process = row_binary_fixed(r, 8);
	facts.process.service = service;
	if (!search->service && !r->short_ && process == window_process(search->trace, &facts))
		search->service = service;
	else
		free(service);
	return true;
}

bool fleet_service_of(struct clickhouse *c, const struct mayfly_trace *trace,
		      const struct window_facts *facts, char **service)
{
	struct search search = {trace, facts, NULL};
	struct bytes host = {0};
	bool good;

	fleet_filter_put_text(&host, facts->process.host);
	bytes_put(&host, "", 1);
	good = host.failed
		   ? clickhouse_no_memory(c)
		   : clickhouse_rows(c, NULL, take_service, &search,
				     "SELECT DISTINCT service, process FROM %s.windows WHERE "
				     "pid = %u AND host = %s FORMAT RowBinary",
				     c->url.database, mayfly_trace_info(trace)->pid,
				     (const char *)host.at);
	bytes_free(&host);
	if (!good) {
		free(search.service);
		search.service = NULL;
	}
	*service = search.service;
	return good;
}
