/* SPDX-License-Identifier: Apache-2.0 */
/* The service of a process that was pushed before: see fleet_service.h. The number of a process is a hash
 * that its service is part of, so a service is known by trying it. */
#include "fleet/fleet_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/fleet_filter.h"
#include "fleet/row_binary.h"

/* A service with which the number is that of the process, or NULL. */
static char *take_row(struct row_binary *r, const struct mayfly_trace *trace,
		      const struct window_facts *facts)
{
	struct window_facts with = *facts;
	size_t length = row_binary_length(r, 1);
	char *service = r->short_ ? NULL : strndup((const char *)r->at, length);

	if (!r->short_)
		r->at += length;
	with.process.service = service;
	if (service && row_binary_fixed(r, 8) == window_process(trace, &with) && !r->short_)
		return service;
	free(service);
	return NULL;
}

enum clickhouse_failure fleet_service_of(struct clickhouse *c, const struct server_url *url,
					 const struct mayfly_trace *trace,
					 const struct window_facts *facts, char **service,
					 char *why)
{
	enum clickhouse_failure failure = CLICKHOUSE_REFUSED;
	char *answer = NULL, text[160];
	struct bytes sql = {0};
	struct row_binary r;
	size_t size = 0;

	*service = NULL;
	snprintf(text, sizeof(text),
		 "SELECT DISTINCT service, process FROM %s.windows WHERE pid = %u AND host = ",
		 url->database, mayfly_trace_info(trace)->pid);
	bytes_put(&sql, text, strlen(text));
	fleet_filter_put_text(&sql, facts->process.host);
	bytes_put(&sql, " FORMAT RowBinary", sizeof(" FORMAT RowBinary"));
	if (sql.failed)
		snprintf(why, CLICKHOUSE_WHY, "out of memory");
	else
		failure = clickhouse_run(c, (char *)sql.at, NULL, 0, &answer, &size, why);
	bytes_free(&sql);
	r = (struct row_binary){(uint8_t *)answer, (uint8_t *)answer + size, false};
	while (!failure && !*service && !r.short_ && r.at < r.end)
		*service = take_row(&r, trace, facts);
	free(answer);
	return failure;
}
