/* SPDX-License-Identifier: Apache-2.0 */
/* Inserting rows into a new database: see sqlite_rows.h. */
#include "convert/export/sqlite_rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/out.h"

static const char settings[] = "PRAGMA page_size = 16384; PRAGMA journal_mode = OFF;"
			       "PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
			       "PRAGMA cache_size = -32768; BEGIN;";

void database_error(struct database *d, int error)
{
	if (!d->error)
		d->error = error;
}

/* code: what SQLite returned. */
static void check_result(struct database *d, int code)
{
	if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW)
		return;
	database_error(d, code == SQLITE_NOMEM	  ? MAYFLY_E_MEMORY
			  : code == SQLITE_TOOBIG ? MAYFLY_E_TOO_LARGE
			  : code == SQLITE_FULL	  ? ENOSPC
						  : EIO);
}

static void database_run(struct database *d, const char *sql)
{
	if (!d->error)
		check_result(d, sqlite3_exec(d->db, sql, NULL, NULL, NULL));
}

void database_begin(struct database *d, const char *path)
{
	char sql[1024];

	if (!d->error)
		check_result(d, sqlite3_open_v2(path, &d->db, SQLITE_OPEN_READWRITE, NULL));
	database_run(d, settings);
	for (int i = 0; i < TABLES; i++) {
		snprintf(sql, sizeof(sql), "CREATE TABLE %s;", sqlite_tables[i]);
		database_run(d, sql);
	}
}

void database_end(struct database *d)
{
	for (int i = 0; i < TABLES; i++)
		sqlite3_finalize(d->insert[i]);
	database_run(d, sqlite_views);
	database_run(d, "COMMIT");
	check_result(d, sqlite3_close(d->db));
}

static void prepare(struct database *d, enum table table, int count)
{
	const char *name = sqlite_tables[table];
	char sql[256];
	int used =
	    snprintf(sql, sizeof(sql), "INSERT INTO %.*s VALUES(?", (int)strcspn(name, "("), name);

	while (--count > 0)
		used += snprintf(sql + used, sizeof(sql) - (size_t)used, ",?");
	snprintf(sql + used, sizeof(sql) - (size_t)used, ")");
	check_result(d, sqlite3_prepare_v2(d->db, sql, -1, &d->insert[table], NULL));
}

static int bind_string(sqlite3_stmt *insert, int column, const char *text)
{
	char *clean = malloc(strlen(text) * 3 + 1);
	size_t used = 0;

	if (!clean)
		return SQLITE_NOMEM;
	while (*text) {
		size_t valid = utf8_length(text);

		memcpy(clean + used, valid ? text : UTF8_REPLACEMENT, valid ? valid : 3);
		used += valid ? valid : 3;
		text += valid ? valid : 1;
	}
	return sqlite3_bind_text64(insert, column, clean, used, free, SQLITE_UTF8);
}

static int bind(sqlite3_stmt *insert, int column, const struct cell *c)
{
	switch (c->kind) {
	case CELL_UNSIGNED:
		if (c->value.u > INT64_MAX)
			return sqlite3_bind_double(insert, column, (double)c->value.u);
		break;
	case CELL_REAL:
		return sqlite3_bind_double(insert, column, c->value.f);
	case CELL_STRING:
		return bind_string(insert, column, c->value.text);
	case CELL_NULL:
		return sqlite3_bind_null(insert, column);
	case CELL_INTEGER:
		break;
	}
	return sqlite3_bind_int64(insert, column, c->value.i);
}

void database_put(struct database *d, enum table table, const struct cell *cell, int count)
{
	if (!d->error && !d->insert[table])
		prepare(d, table, count);
	for (int i = 0; i < count && !d->error; i++)
		check_result(d, bind(d->insert[table], i + 1, &cell[i]));
	if (!d->error)
		check_result(d, sqlite3_step(d->insert[table]));
	if (!d->error)
		check_result(d, sqlite3_reset(d->insert[table]));
}
