/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ClickHouse server, by its HTTP interface (http_post.h). For one thread at a time. Nothing here shows
 * a user or a password in a message.
 */
#ifndef MAYFLY_CLICKHOUSE_H
#define MAYFLY_CLICKHOUSE_H

#include <stdbool.h>
#include <stddef.h>

#include "fleet/http/server_url.h"

#define CLICKHOUSE_WHY 600

struct clickhouse;

struct clickhouse_login {
	const char *user, *password; /* NULL: the server's default; copied */
};

/* NULL: why[CLICKHOUSE_WHY] says so. */
struct clickhouse *clickhouse_open(const struct server_url *url,
				   const struct clickhouse_login *login, char *why);
void clickhouse_close(struct clickhouse *c);

/* From now on, tables may be spread over the servers of a cluster: a question inside another is answered
 * once for all of them, and rows are there when the statement that inserts them has ended. */
void clickhouse_distributed(struct clickhouse *c);

/* From now on, a statement fails when of a part of the cluster only replicas answer that are behind the others. */
void clickhouse_current(struct clickhouse *c);

/* From now on, a server that is silent for long counts as busy, not as away: it adds up very many rows. */
void clickhouse_patient(struct clickhouse *c);

enum clickhouse_failure {
	CLICKHOUSE_GOOD,
	CLICKHOUSE_AWAY,     /* no answer: the server may be tried again later */
	CLICKHOUSE_NO_TABLE, /* the database or a table is not there */
	CLICKHOUSE_REFUSED,  /* the login, or what was asked */
};

/*
 * Runs a statement, with data for it or data NULL. *answer, if not NULL: what it printed, with a zero at
 * its end, for the caller to free; *answer_size, if not NULL: its bytes without that. On a failure why[] is one line without a line break.
 */
enum clickhouse_failure clickhouse_run(struct clickhouse *c, const char *statement,
				       const void *data, size_t size, char **answer,
				       size_t *answer_size, char *why);

/* A table that is there for one question only. */
struct clickhouse_table {
	const char *name, *columns; /* "stack UInt64" */
	const void *rows;	    /* RowBinary */
	size_t size;
};

/* Runs a statement that asks it; the rest as above. */
enum clickhouse_failure clickhouse_ask(struct clickhouse *c, const char *statement,
				       const struct clickhouse_table *table, char **answer,
				       size_t *answer_size, char *why);

#endif
