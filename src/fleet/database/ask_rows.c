/* SPDX-License-Identifier: Apache-2.0 */
/* Answers row by row: see ask_rows.h. */
#include "fleet/database/ask_rows.h"

#include <stdio.h>
#include <stdlib.h>

static enum clickhouse_failure fail(char *why, const char *reason)
{
	snprintf(why, CLICKHOUSE_WHY, "%s", reason);
	return CLICKHOUSE_REFUSED;
}

enum clickhouse_failure ask_rows(struct clickhouse *c, const char *statement,
				 const struct clickhouse_table *table, ask_rows_take *take,
				 void *context, char *why)
{
	char *answer = NULL;
	size_t size = 0;
	enum clickhouse_failure failure =
	    table ? clickhouse_ask(c, statement, table, &answer, &size, why)
		  : clickhouse_run(c, statement, NULL, 0, &answer, &size, why);
	struct row_binary r = {0};

	if (!failure)
		r = (struct row_binary){(uint8_t *)answer, (uint8_t *)answer + size, false};
	while (!failure && r.at < r.end)
		if (!take(context, &r))
			failure = fail(why, "out of memory");
	if (!failure && r.short_)
		failure = fail(why, "its answer is cut off");
	free(answer);
	return failure;
}
