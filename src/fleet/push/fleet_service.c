/* SPDX-License-Identifier: Apache-2.0 */
/* The service of a process that was pushed before: see fleet_service.h. The number of a process is a
 * hash of, among others, its service. So each service of the host is tried until the number fits. */
#include "fleet/push/fleet_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/database/ask_rows.h"
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

enum clickhouse_failure fleet_service_of(struct clickhouse *c, const struct server_url *url,
					 const struct mayfly_trace *trace,
					 const struct window_facts *facts, char **service,
					 char *why)
{
	enum clickhouse_failure failure = CLICKHOUSE_REFUSED;
	struct search search = {trace, facts, NULL};
	struct bytes sql = {0};
	char text[160];

	snprintf(text, sizeof(text),
		 "SELECT DISTINCT service, process FROM %s.windows WHERE pid = %u AND host = ",
		 url->database, mayfly_trace_info(trace)->pid);
	bytes_put(&sql, text, strlen(text));
	fleet_filter_put_text(&sql, facts->process.host);
	bytes_put(&sql, " FORMAT RowBinary", sizeof(" FORMAT RowBinary"));
	if (sql.failed)
		snprintf(why, CLICKHOUSE_WHY, "out of memory");
	else
		failure = ask_rows(c, (char *)sql.at, NULL, take_service, &search, why);
	bytes_free(&sql);
	if (failure) {
		free(search.service);
		search.service = NULL;
	}
	*service = search.service;
	return failure;
}
