/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A database that is being made: its tables (sqlite_schema.c) and their rows. After an error
 * functions do nothing: d->error has the first one, an errno or a negative enum mayfly_error.
 *
 *	database_begin
 *	DATABASE_ROW(d, THREADS, INTEGER(1), INTEGER(tid), TEXT(name)) ...
 *	database_end
 */
#ifndef MAYFLY_SQLITE_ROWS_H
#define MAYFLY_SQLITE_ROWS_H

#include <mayfly/trace.h>
#include <sqlite3.h>
#include <stdint.h>

#include "query/peak.h"

enum table {
	INFO,
	MODULES,
	THREADS,
	FRAMES,
	SYMBOLS,
	STACKS,
	SAMPLES,
	LABELS,
	TRACK_TYPES,
	TRACK_FIELDS,
	SPANS,
	INSTANTS,
	COUNTER_EVENTS,
	FLOWS,
	SAMPLE_SPANS,
	PROMOTIONS,
	INTERVALS,
	FUNCTIONS,
	COUNTERS,
	TABLES,
};

/* What follows "CREATE TABLE ", in the order in which they are made. */
extern const char *const sqlite_tables[TABLES];
/* To be made after the rows. */
extern const char sqlite_views[];

struct database {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct mayfly_query *query;
	sqlite3 *db;
	sqlite3_stmt *insert[TABLES]; /* NULL: there is no row yet */
	int error;
	struct peak peak;
	uint64_t samples_at[PEAK_BEST + 1]; /* before each of its moments, as far as is known */
	int64_t peak_ns;
	double peak_bytes;
	uint64_t events; /* so far */
	int64_t *symbol; /* frame -> its first shown symbol, or -1 if all are hidden */
	int64_t *leaf;	 /* node -> symbol of the allocating place, or -1 */
};

/* An error of ours, or 0. */
void database_error(struct database *d, int error);
/* The file at `path` gets empty tables. */
void database_begin(struct database *d, const char *path);
/* Makes the views, and closes the file. */
void database_end(struct database *d);

enum cell_kind { CELL_NULL, CELL_INTEGER, CELL_UNSIGNED, CELL_REAL, CELL_STRING };

struct cell {
	enum cell_kind kind;
	union mayfly_value value;
};

#define INTEGER(x) ((struct cell){CELL_INTEGER, {.i = (x)}})
/* SQLite's integers are signed: a larger value becomes a REAL. */
#define UNSIGNED(x) ((struct cell){CELL_UNSIGNED, {.u = (x)}})
#define REAL(x)	    ((struct cell){CELL_REAL, {.f = (x)}})
/* Bytes that are not UTF-8 become U+FFFD: some readers would stop at them. */
#define STRING(x) ((struct cell){CELL_STRING, {.text = (x)}})
#define NOTHING	  ((struct cell){.kind = CELL_NULL})
/* A name: "" is NULL. */
#define TEXT(x) (*(x) ? STRING(x) : NOTHING)

void database_put(struct database *d, enum table table, const struct cell *cell, int count);
#define DATABASE_ROW(d, table, ...)                                                                \
	database_put(d, table, (const struct cell[]){__VA_ARGS__},                                 \
		     sizeof((const struct cell[]){__VA_ARGS__}) / sizeof(struct cell))

/* ---- rows of track events and labels: sqlite_tracks.c ---- */

void sqlite_put_labels(struct database *d);
void sqlite_put_tracks(struct database *d);

#endif
