/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a window into a fleet's database: see fleet_push.h. */
#include "fleet/fleet_push.h"

#include <stdio.h>

#define STATEMENT_BYTES 256

static enum clickhouse_failure insert(struct clickhouse *c, const struct server_url *url,
				      const char *table, const struct bytes *rows, char *why)
{
	char statement[STATEMENT_BYTES];

	if (!rows->used)
		return CLICKHOUSE_GOOD;
	snprintf(statement, sizeof(statement), "INSERT INTO %s.%s FORMAT RowBinary", url->database,
		 table);
	return clickhouse_run(c, statement, rows->at, rows->used, NULL, NULL, why);
}

enum clickhouse_failure fleet_push(struct clickhouse *c, const struct server_url *url,
				   const struct mayfly_trace *trace,
				   const struct window_facts *facts, bool *there, char *why)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct window_rows rows = {0};
	struct window_past past;
	enum clickhouse_failure failure =
	    window_past_fetch(c, url, window_process(trace, facts), &past, why);
	int error;

	*there = !failure && info->start_real_ns + info->duration_ns <= past.end_ns;
	error = failure || *there ? 0 : window_rows_make(&rows, trace, facts, &past);
	window_past_free(&past);
	if (failure || *there)
		return failure;
	if (error) {
		snprintf(why, CLICKHOUSE_WHY, "%s", mayfly_error_text(error));
		failure = CLICKHOUSE_REFUSED;
	}
	if (!failure)
		failure = insert(c, url, "frames", &rows.frames, why);
	if (!failure)
		failure = insert(c, url, "stacks", &rows.stacks, why);
	if (!failure)
		failure = insert(c, url, "samples", &rows.samples, why);
	if (!failure)
		failure = insert(c, url, "windows", &rows.windows, why);
	window_rows_free(&rows);
	return failure;
}
