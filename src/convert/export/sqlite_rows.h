/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database that is being made, and its rows. After an error functions do nothing: d->error has
 * the first one, an errno or a negative enum mayfly_error.
 *
 *	database_begin_rows, { database_bind_... for each column, database_end_row } ...,
 *	database_end_rows
 */
#ifndef MAYFLY_SQLITE_ROWS_H
#define MAYFLY_SQLITE_ROWS_H

#include <mayfly/trace.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

struct database {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct mayfly_query *query;
	sqlite3 *db;
	sqlite3_stmt *insert;
	int error;
	int column; /* of the row at hand */
	uint64_t allocs_at_peak, events_at_peak;
	int64_t peak_ns;
	double peak_bytes;
	uint64_t events; /* so far */
	int64_t *symbol; /* of a frame: that callers see first, -1 when all are hidden */
	int64_t *leaf;	 /* of a node: the symbol of the place that allocates, -1 for none */
};

/* What SQLite returned. */
void database_fail(struct database *d, int code);
void database_run(struct database *d, const char *sql);

void database_begin_rows(struct database *d, const char *sql);
void database_end_row(struct database *d);
void database_end_rows(struct database *d);

/* For rows of several tables in turn: a statement for each, which sqlite3_finalize() ends. */
sqlite3_stmt *database_prepare(struct database *d, const char *sql);
void database_into(struct database *d, sqlite3_stmt *insert);

void database_bind_integer(struct database *d, int64_t value);
/* SQLite's integers are signed: what is larger is a REAL. */
void database_bind_unsigned(struct database *d, uint64_t value);
void database_bind_real(struct database *d, double value);
void database_bind_null(struct database *d);
/* A time that may be forever: NULL. */
void database_bind_time(struct database *d, int64_t ns);
/* What is not UTF-8 becomes U+FFFD: readers would stop at it. */
void database_bind_string(struct database *d, const char *text);
/* A name: "" is NULL. */
void database_bind_text(struct database *d, const char *text);

#endif
