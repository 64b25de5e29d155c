/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a statement whose answer is in RowBinary (row_binary.h), and hands it over row by row. */
#ifndef MAYFLY_ASK_ROWS_H
#define MAYFLY_ASK_ROWS_H

#include "fleet/database/clickhouse.h"
#include "fleet/database/row_binary.h"

/* Reads one whole row, whose first value *row is at. False: out of memory. */
typedef bool ask_rows_take(void *context, struct row_binary *row);

/* table: rows that the statement uses as a temporary table, or NULL. On failure why[CLICKHOUSE_WHY] says
 * why, and `take` may have been called for some of the rows. */
enum clickhouse_failure ask_rows(struct clickhouse *c, const char *statement,
				 const struct clickhouse_table *table, ask_rows_take *take,
				 void *context, char *why);

#endif
