/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fleet's database on a ClickHouse server, by its HTTP interface (http_post.h). For one thread at a time.
 *
 * A function that returns false or NULL has said why in c->why, one line without a line break that shows
 * neither a user nor a password; c->failure is then the kind. Statements are formats of printf().
 */
#ifndef MAYFLY_CLICKHOUSE_H
#define MAYFLY_CLICKHOUSE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "fleet/database/row_binary.h"
#include "fleet/http/server_url.h"

#define CLICKHOUSE_WHY 600

enum clickhouse_failure {
	CLICKHOUSE_AWAY,     /* no answer: the server may be tried again later */
	CLICKHOUSE_NO_TABLE, /* the database or a table is not there */
	CLICKHOUSE_REFUSED,  /* the login, or what was asked */
};

struct clickhouse {
	struct server_url url;
	char why[CLICKHOUSE_WHY];
	enum clickhouse_failure failure;
	/* clickhouse.c's */
	struct http *http;
	bool distributed, current;
};

/* The login is copied; without one the server's default counts. NULL: why[CLICKHOUSE_WHY] says so. */
struct clickhouse *clickhouse_open(const struct server_url *url, const struct server_login *login,
				   char *why);
void clickhouse_close(struct clickhouse *c);

/* From now on, tables may be spread over the servers of a cluster: a question inside another is answered
 * once for all of them, and rows are there when the statement that inserts them has ended. */
void clickhouse_distributed(struct clickhouse *c);

/* From now on, a statement fails when of a part of the cluster only replicas answer that are behind the others. */
void clickhouse_current(struct clickhouse *c);

/* From now on, a server that is silent for long counts as busy, not as away: it adds up very many rows. */
void clickhouse_patient(struct clickhouse *c);

/* A failure that is not the server's: false. */
bool clickhouse_fail(struct clickhouse *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool clickhouse_no_memory(struct clickhouse *c);

/* A statement without an answer. */
bool clickhouse_run(struct clickhouse *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What it answers, with a zero at its end, for the caller to free. */
char *clickhouse_text(struct clickhouse *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A statement whose answer is a number, or none: 0. */
bool clickhouse_number(struct clickhouse *c, uint64_t *number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A table that is there for one statement only. */
struct clickhouse_table {
	const char *name, *columns; /* "stack UInt64" */
	const struct bytes *rows;   /* RowBinary */
};

/* Reads one whole row of an answer, whose first value *row is at. False: out of memory. */
typedef bool clickhouse_take(void *context, struct row_binary *row);

/* A statement whose answer is in RowBinary, handed over row by row. table, take: may be NULL. On a failure
 * `take` may have been called for some of the rows. */
bool clickhouse_rows(struct clickhouse *c, const struct clickhouse_table *table,
		     clickhouse_take *take, void *context, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Inserts rows, if there are any, into a table of the database. */
bool clickhouse_insert(struct clickhouse *c, const char *table, const struct bytes *rows);

#endif
