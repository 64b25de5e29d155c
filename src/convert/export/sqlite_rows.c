/* SPDX-License-Identifier: Apache-2.0 */
/* Inserting rows into a new database: see sqlite_rows.h. */
#include "convert/export/sqlite_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "convert/export/out.h"

void database_fail(struct database *d, int code)
{
	if (d->error || code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW)
		return;
	if (code == SQLITE_NOMEM)
		d->error = MAYFLY_E_MEMORY;
	else if (code == SQLITE_TOOBIG)
		d->error = MAYFLY_E_TOO_LARGE;
	else
		d->error = code == SQLITE_FULL ? ENOSPC : EIO;
}

void database_run(struct database *d, const char *sql)
{
	if (!d->error)
		database_fail(d, sqlite3_exec(d->db, sql, NULL, NULL, NULL));
}

sqlite3_stmt *database_prepare(struct database *d, const char *sql)
{
	sqlite3_stmt *insert = NULL;

	if (!d->error)
		database_fail(d, sqlite3_prepare_v2(d->db, sql, -1, &insert, NULL));
	return insert;
}

void database_into(struct database *d, sqlite3_stmt *insert)
{
	d->insert = insert;
	d->column = 0;
}

void database_begin_rows(struct database *d, const char *sql)
{
	database_into(d, database_prepare(d, sql));
}

void database_end_rows(struct database *d)
{
	sqlite3_finalize(d->insert);
	d->insert = NULL;
}

void database_end_row(struct database *d)
{
	if (!d->error)
		database_fail(d, sqlite3_step(d->insert));
	if (!d->error)
		database_fail(d, sqlite3_reset(d->insert));
	d->column = 0;
}

void database_bind_integer(struct database *d, int64_t value)
{
	if (!d->error)
		database_fail(d, sqlite3_bind_int64(d->insert, ++d->column, value));
}

void database_bind_unsigned(struct database *d, uint64_t value)
{
	if (d->error)
		return;
	if (value <= INT64_MAX)
		database_fail(d, sqlite3_bind_int64(d->insert, ++d->column, (int64_t)value));
	else
		database_fail(d, sqlite3_bind_double(d->insert, ++d->column, (double)value));
}

void database_bind_real(struct database *d, double value)
{
	if (!d->error)
		database_fail(d, sqlite3_bind_double(d->insert, ++d->column, value));
}

void database_bind_null(struct database *d)
{
	if (!d->error)
		database_fail(d, sqlite3_bind_null(d->insert, ++d->column));
}

void database_bind_time(struct database *d, int64_t ns)
{
	if (ns == INT64_MAX)
		database_bind_null(d);
	else
		database_bind_integer(d, ns);
}

void database_bind_string(struct database *d, const char *text)
{
	size_t length = strlen(text), used = 0;
	char *clean;

	if (d->error)
		return;
	clean = malloc(length * 3 + 1);
	if (!clean) {
		d->error = MAYFLY_E_MEMORY;
		return;
	}
	while (*text) {
		size_t valid = utf8_length(text);

		memcpy(clean + used, valid ? text : "\xef\xbf\xbd", valid ? valid : 3);
		used += valid ? valid : 3;
		text += valid ? valid : 1;
	}
	database_fail(d,
		      sqlite3_bind_text64(d->insert, ++d->column, clean, used, free, SQLITE_UTF8));
}

void database_bind_text(struct database *d, const char *text)
{
	if (*text)
		database_bind_string(d, text);
	else
		database_bind_null(d);
}
