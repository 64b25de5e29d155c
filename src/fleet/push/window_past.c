/* SPDX-License-Identifier: Apache-2.0 */
/* What the database has of a process: see window_past.h. */
#include "fleet/push/window_past.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"

static bool add_era(struct window_past *past, int64_t end_ns, double share)
{
	if (!(share > 0))
		return true;
	if (past->eras && past->era[past->eras - 1].share == share)
		past->eras--;
	return ARRAY_ADD(past->era, past->era_room, past->eras, (struct window_era){end_ns, share});
}

static bool take_era(void *past, struct row_binary *r)
{
	int64_t end_ns = (int64_t)row_binary_fixed(r, 8);

	return add_era(past, end_ns, row_binary_real(r));
}

/* The eras of a process whose windows have several shares. */
static bool fetch_eras(struct clickhouse *c, uint64_t process, struct window_past *past)
{
	return clickhouse_rows(
	    c, NULL, take_era, past,
	    "SELECT argMin(end_ns, push) AS e, argMin(share, push) FROM %s.windows WHERE "
	    "process = %" PRIu64 " GROUP BY window ORDER BY e FORMAT RowBinary",
	    c->url.database, process);
}

static bool fetch_end(struct clickhouse *c, uint64_t process, struct window_past *past)
{
	char *answer = clickhouse_text(
	    c,
	    "SELECT max(e), sum(s), sum(a), min(p), max(p) FROM (SELECT argMin(end_ns, push) "
	    "AS e, argMin(samples, push) AS s, argMin(allocated_bytes, push) AS a, "
	    "argMin(share, push) AS p FROM %s.windows WHERE process = %" PRIu64 " GROUP BY window)",
	    c->url.database, process);
	double least = 0, most = 0;
	bool good =
	    answer && (sscanf(answer, "%" SCNd64 " %" SCNu64 " %lf %lf %lf", &past->end_ns,
			      &past->samples, &past->allocated_bytes, &least, &most) == 5 ||
		       clickhouse_fail(c, "its answer has another form than was asked for"));

	free(answer);
	if (!good || !past->end_ns)
		return good;
	return least != most ? fetch_eras(c, process, past)
			     : add_era(past, past->end_ns, most) || clickhouse_no_memory(c);
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

static bool fetch_stacks(struct clickhouse *c, uint64_t process, struct window_past *past)
{
	return clickhouse_rows(
	    c, NULL, take_row, past,
	    "SELECT stack, sum(allocated_bytes), sum(allocated_bytes_variance), "
	    "sum(allocated_blocks), sum(allocated_blocks_variance), sum(allocated_samples) "
	    "FROM %s.samples WHERE push IN (SELECT min(push) FROM %s.windows WHERE process = "
	    "%" PRIu64 " GROUP BY window) GROUP BY stack FORMAT RowBinary",
	    c->url.database, c->url.database, process);
}

bool window_past_fetch(struct clickhouse *c, uint64_t process, struct window_past *past)
{
	*past = (struct window_past){0};
	if (fetch_end(c, process, past) && (!past->end_ns || fetch_stacks(c, process, past)))
		return true;
	window_past_free(past);
	return false;
}

void window_past_free(struct window_past *past)
{
	interner_free(&past->stacks);
	free(past->era);
	free(past->allocated);
	*past = (struct window_past){0};
}
