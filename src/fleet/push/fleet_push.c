/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a window into a fleet's database: see fleet_push.h. */
#include "fleet/push/fleet_push.h"

/* The stacks that the database does not have, and their frames first. */
static bool insert_stacks(struct clickhouse *c, struct window_stacks *s, struct known_stacks *known)
{
	bool good = known_stacks_ask(known, c, &s->ids);
	struct bytes stacks = {0}, frames = {0};
	struct interner named = {0};

	for (uint32_t i = 0; good && i < s->ids.count; i++)
		if (!known_stacks_has(known, s->ids.key[i]))
			good = window_stacks_put(s, i, &named, &stacks, &frames) ||
			       clickhouse_no_memory(c);
	good = good && clickhouse_insert(c, "frames", &frames) &&
	       clickhouse_insert(c, "stacks", &stacks);
	if (good)
		known_stacks_add(known, &s->ids);
	interner_free(&named);
	bytes_free(&stacks);
	bytes_free(&frames);
	return good;
}

bool fleet_push(struct clickhouse *c, const struct mayfly_trace *trace,
		const struct window_facts *facts, struct known_stacks *known, bool *there)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct window_rows rows = {0};
	struct window_past past;
	bool good;
	int error;

	clickhouse_current(c);
	*there = false;
	if (!window_past_fetch(c, window_process(trace, facts), &past))
		return false;
	*there = info->start_real_ns + info->duration_ns <= past.end_ns;
	error = *there ? 0 : window_rows_make(&rows, trace, facts, &past);
	known_stacks_add(known, &past.stacks);
	window_past_free(&past);
	good = error ? clickhouse_fail(c, "%s", mayfly_error_text(error))
		     : *there || (insert_stacks(c, &rows.stacks, known) &&
				  clickhouse_insert(c, "samples", &rows.samples) &&
				  clickhouse_insert(c, "windows", &rows.windows));
	window_rows_free(&rows);
	return good;
}
