/* SPDX-License-Identifier: Apache-2.0 */
/* What the database has of a process: see window_past.h. */
#include "fleet/push/window_past.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "fleet/database/ask_rows.h"

#define STATEMENT_BYTES 1024

static enum clickhouse_failure not_as_asked(char *why)
{
	snprintf(why, CLICKHOUSE_WHY, "its answer has another form than was asked for");
	return CLICKHOUSE_REFUSED;
}

static enum clickhouse_failure no_memory(char *why)
{
	snprintf(why, CLICKHOUSE_WHY, "out of memory");
	return CLICKHOUSE_REFUSED;
}

static bool add_era(struct window_past *past, int64_t end_ns, double share)
{
	if (!(share > 0))
		return true;
	if (past->eras && past->era[past->eras - 1].share == share)
		past->eras--;
	if (!array_reserve(&past->era, &past->era_room, past->eras, sizeof(*past->era)))
		return false;
	past->era[past->eras++] = (struct window_era){end_ns, share};
	return true;
}

static bool take_era(void *past, struct row_binary *r)
{
	int64_t end_ns = (int64_t)row_binary_fixed(r, 8);

	return add_era(past, end_ns, row_binary_real(r));
}

/* The eras of a process whose windows have several shares. */
static enum clickhouse_failure fetch_eras(struct clickhouse *c, const struct server_url *url,
					  uint64_t process, struct window_past *past, char *why)
{
	char statement[STATEMENT_BYTES];

	snprintf(statement, sizeof(statement),
		 "SELECT argMin(end_ns, push) AS e, argMin(share, push) FROM %s.windows WHERE "
		 "process = %" PRIu64 " GROUP BY window ORDER BY e FORMAT RowBinary",
		 url->database, process);
	return ask_rows(c, statement, NULL, take_era, past, why);
}

static enum clickhouse_failure fetch_end(struct clickhouse *c, const struct server_url *url,
					 uint64_t process, struct window_past *past, char *why)
{
	char statement[STATEMENT_BYTES], *answer = NULL;
	enum clickhouse_failure failure;
	double least, most;

	snprintf(statement, sizeof(statement),
		 "SELECT max(e), sum(s), sum(a), min(p), max(p) FROM (SELECT argMin(end_ns, push) "
		 "AS e, argMin(samples, push) AS s, argMin(allocated_bytes, push) AS a, "
		 "argMin(share, push) AS p FROM %s.windows WHERE process = %" PRIu64
		 " GROUP BY window)",
		 url->database, process);
	failure = clickhouse_run(c, statement, NULL, 0, &answer, NULL, why);
	if (!failure && sscanf(answer, "%" SCNd64 " %" SCNu64 " %lf %lf %lf", &past->end_ns,
			       &past->samples, &past->allocated_bytes, &least, &most) != 5)
		failure = not_as_asked(why);
	free(answer);
	if (!failure && past->end_ns && least != most)
		failure = fetch_eras(c, url, process, past, why);
	else if (!failure && past->end_ns && !add_era(past, past->end_ns, most))
		failure = no_memory(why);
	return failure;
}

static bool take_row(void *context, struct row_binary *r)
{
	struct window_past *past = context;
	struct window_sum *sum;
	struct key stack = {{row_binary_fixed(r, 8)}};
	bool new;
	uint32_t number = interner_add(&past->stacks, stack, &new);

	if (number == INTERNER_NONE ||
	    !array_reserve(&past->allocated, &past->room, number, sizeof(*past->allocated)))
		return false;
	sum = &past->allocated[number];
	sum->bytes = row_binary_real(r);
	sum->bytes_variance = row_binary_real(r);
	sum->blocks = row_binary_real(r);
	sum->blocks_variance = row_binary_real(r);
	sum->samples = row_binary_fixed(r, 8);
	return true;
}

static enum clickhouse_failure fetch_stacks(struct clickhouse *c, const struct server_url *url,
					    uint64_t process, struct window_past *past, char *why)
{
	char statement[STATEMENT_BYTES];

	snprintf(statement, sizeof(statement),
		 "SELECT stack, sum(allocated_bytes), sum(allocated_bytes_variance), "
		 "sum(allocated_blocks), sum(allocated_blocks_variance), sum(allocated_samples) "
		 "FROM %s.samples WHERE push IN (SELECT min(push) FROM %s.windows WHERE process = "
		 "%" PRIu64 " GROUP BY window) GROUP BY stack FORMAT RowBinary",
		 url->database, url->database, process);
	return ask_rows(c, statement, NULL, take_row, past, why);
}

enum clickhouse_failure window_past_fetch(struct clickhouse *c, const struct server_url *url,
					  uint64_t process, struct window_past *past, char *why)
{
	enum clickhouse_failure failure;

	*past = (struct window_past){0};
	failure = fetch_end(c, url, process, past, why);
	if (!failure && past->end_ns)
		failure = fetch_stacks(c, url, process, past, why);
	if (failure)
		window_past_free(past);
	return failure;
}

void window_past_free(struct window_past *past)
{
	interner_free(&past->stacks);
	free(past->era);
	free(past->allocated);
	*past = (struct window_past){0};
}
