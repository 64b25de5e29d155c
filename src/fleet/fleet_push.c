/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a window into a fleet's database: see fleet_push.h. */
#include "fleet/fleet_push.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STATEMENT_BYTES 256

static enum clickhouse_failure look_for_window(struct clickhouse *c, const struct server_url *url,
					       uint64_t window, bool *there, char *why)
{
	char statement[STATEMENT_BYTES], *answer = NULL;
	enum clickhouse_failure failure;

	snprintf(statement, sizeof(statement),
		 "SELECT count() FROM %s.windows WHERE window = %" PRIu64, url->database, window);
	failure = clickhouse_run(c, statement, NULL, 0, &answer, NULL, why);
	*there = !failure && strtoul(answer, NULL, 10) != 0;
	free(answer);
	return failure;
}

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
	enum clickhouse_failure failure = look_for_window(c, url, facts->window, there, why);
	struct window_rows rows = {0};
	int error;

	if (failure || *there)
		return failure;
	error = window_rows_make(&rows, trace, facts);
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
