/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a window into a fleet's database: see fleet_push.h. */
#include "fleet/push/fleet_push.h"

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

/* The stacks that the database does not have, and their frames first. */
static enum clickhouse_failure insert_stacks(struct clickhouse *c, const struct server_url *url,
					     struct window_stacks *s, struct known_stacks *known,
					     char *why)
{
	enum clickhouse_failure failure = known_stacks_ask(known, c, url, &s->ids, why);
	struct bytes stacks = {0}, frames = {0};
	struct interner named = {0};
	bool good = true;

	for (uint32_t i = 0; !failure && good && i < s->ids.count; i++)
		if (!known_stacks_has(known, s->ids.key[i]))
			good = window_stacks_put(s, i, &named, &stacks, &frames);
	if (!failure && (!good || stacks.failed || frames.failed)) {
		snprintf(why, CLICKHOUSE_WHY, "out of memory");
		failure = CLICKHOUSE_REFUSED;
	}
	if (!failure)
		failure = insert(c, url, "frames", &frames, why);
	if (!failure)
		failure = insert(c, url, "stacks", &stacks, why);
	if (!failure)
		known_stacks_add(known, &s->ids);
	interner_free(&named);
	bytes_free(&stacks);
	bytes_free(&frames);
	return failure;
}

enum clickhouse_failure fleet_push(struct clickhouse *c, const struct server_url *url,
				   const struct mayfly_trace *trace,
				   const struct window_facts *facts, struct known_stacks *known,
				   bool *there, char *why)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct window_rows rows = {0};
	struct window_past past;
	enum clickhouse_failure failure;
	int error;

	clickhouse_current(c);
	failure = window_past_fetch(c, url, window_process(trace, facts), &past, why);
	*there = !failure && info->start_real_ns + info->duration_ns <= past.end_ns;
	error = failure || *there ? 0 : window_rows_make(&rows, trace, facts, &past);
	known_stacks_add(known, &past.stacks);
	window_past_free(&past);
	if (error) {
		snprintf(why, CLICKHOUSE_WHY, "%s", mayfly_error_text(error));
		failure = CLICKHOUSE_REFUSED;
	}
	if (!failure && !*there)
		failure = insert_stacks(c, url, &rows.stacks, known, why);
	if (!failure)
		failure = insert(c, url, "samples", &rows.samples, why);
	if (!failure)
		failure = insert(c, url, "windows", &rows.windows, why);
	window_rows_free(&rows);
	return failure;
}
