/* SPDX-License-Identifier: Apache-2.0 */
/* A statement whose answer is in RowBinary (row_binary.h), taken row by row. */
#ifndef MAYFLY_ASK_ROWS_H
#define MAYFLY_ASK_ROWS_H

#include "fleet/clickhouse.h"
#include "fleet/row_binary.h"

/* Takes a row, of which *row is at the first value. False: out of memory. */
typedef bool ask_rows_take(void *context, struct row_binary *row);

/* table: that the statement asks, or NULL. On a failure why[CLICKHOUSE_WHY] says so, and some rows may have been
 * taken. */
enum clickhouse_failure ask_rows(struct clickhouse *c, const char *statement,
				 const struct clickhouse_table *table, ask_rows_take *take,
				 void *context, char *why);

#endif
