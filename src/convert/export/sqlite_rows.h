/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inserting rows into a new database. After an error functions do nothing: d->error has the first
 * one, an errno or a negative enum mayfly_error.
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
	int column; /* of the current row */
	uint64_t allocs_at_peak, events_at_peak;
	int64_t peak_ns;
	double peak_bytes;
	uint64_t events; /* so far */
	int64_t *symbol; /* frame -> its first shown symbol, or -1 if all are hidden */
	int64_t *leaf;	 /* node -> symbol of the allocating place, or -1 */
};

/* code: what SQLite returned. */
void database_fail(struct database *d, int code);
void database_run(struct database *d, const char *sql);

void database_begin_rows(struct database *d, const char *sql);
void database_end_row(struct database *d);
void database_end_rows(struct database *d);

/* For inserting into several tables in turn: a statement for each; the caller frees it with
 * sqlite3_finalize(). */
sqlite3_stmt *database_prepare(struct database *d, const char *sql);
void database_into(struct database *d, sqlite3_stmt *insert);

void database_bind_integer(struct database *d, int64_t value);
/* SQLite's integers are signed: a larger value becomes a REAL. */
void database_bind_unsigned(struct database *d, uint64_t value);
void database_bind_real(struct database *d, double value);
void database_bind_null(struct database *d);
/* A time; "never" (INT64_MAX) becomes NULL. */
void database_bind_time(struct database *d, int64_t ns);
/* Bytes that are not UTF-8 become U+FFFD: some readers would stop at them. */
void database_bind_string(struct database *d, const char *text);
/* A name: "" is NULL. */
void database_bind_text(struct database *d, const char *text);

#endif
