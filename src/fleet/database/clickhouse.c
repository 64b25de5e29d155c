/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ClickHouse server: see clickhouse.h.
 *
 *	POST http://HOST:PORT/?query=INSERT...	body: rows, compressed
 *	POST http://HOST:PORT/?query=SELECT...	body: a form with a table for the statement
 *	POST http://HOST:PORT/			body: the statement
 *
 * https://clickhouse.com/docs/en/interfaces/http describes the interface.
 */
#include "fleet/database/clickhouse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/http/http_post.h"
#include "format/compress.h"

#define ANSWER_MOST ((size_t)1 << 30)

_Static_assert(HTTP_WHY <= CLICKHOUSE_WHY, "a reason of http_post() fits");

struct clickhouse *clickhouse_open(const struct server_url *url, const struct server_login *login,
				   char *why)
{
	struct clickhouse *c = calloc(1, sizeof(*c));

	if (!c) {
		snprintf(why, CLICKHOUSE_WHY, "out of memory");
		return NULL;
	}
	c->url = *url;
	c->http = http_open(ANSWER_MOST, why);
	if (c->http &&
	    (!login->user || http_header(c->http, "X-ClickHouse-User", login->user, why)) &&
	    (!login->password || http_header(c->http, "X-ClickHouse-Key", login->password, why)))
		return c;
	clickhouse_close(c);
	return NULL;
}

void clickhouse_close(struct clickhouse *c)
{
	if (!c)
		return;
	http_close(c->http);
	free(c);
}

void clickhouse_distributed(struct clickhouse *c)
{
	c->distributed = true;
}

void clickhouse_current(struct clickhouse *c)
{
	c->current = true;
}

void clickhouse_patient(struct clickhouse *c)
{
	http_patient(c->http);
}

bool clickhouse_fail(struct clickhouse *c, const char *format, ...)
{
	char why[CLICKHOUSE_WHY]; /* what is said may be a part of it */
	va_list list;

	va_start(list, format);
	vsnprintf(why, sizeof(why), format, list);
	va_end(list);
	memcpy(c->why, why, sizeof(why));
	c->failure = CLICKHOUSE_REFUSED;
	return false;
}

bool clickhouse_no_memory(struct clickhouse *c)
{
	return clickhouse_fail(c, "out of memory");
}

/* ---- bodies ---- */

/* A block of ClickHouse's own compression: 16 bytes of a checksum, which the server is told to ignore, as TCP
 * and zstd have theirs; the method; 4 bytes of the size from the method on; 4 bytes of the size before. */
#define CHECKSUM    16
#define BLOCK_HEAD  (CHECKSUM + 9)
#define METHOD_ZSTD 0x90
#define BLOCK_BYTES ((size_t)1 << 20)

static const char compression[] =
    "decompress=1&http_native_compression_disable_checksumming_on_decompress=1&";

static bool put_block(struct compress *z, struct bytes *to, const uint8_t *data, size_t size)
{
	uint8_t *block = bytes_extend(to, BLOCK_HEAD + compress_bound(size));
	size_t made =
	    block ? compress_block(z, block + BLOCK_HEAD, compress_bound(size), data, size) : 0;

	if (!made)
		return false;
	bytes_put(to, (const uint8_t[CHECKSUM]){0}, CHECKSUM);
	bytes_put_fixed(to, METHOD_ZSTD, 1);
	bytes_put_fixed(to, made + BLOCK_HEAD - CHECKSUM, 4);
	bytes_put_fixed(to, size, 4);
	to->used += made;
	return true;
}

static bool put_compressed(struct bytes *to, const uint8_t *data, size_t size)
{
	struct compress *z = compress_new(1); /* the fastest level: what is sent is numbers */
	bool good = z != NULL;

	for (size_t at = 0; good && at < size; at += BLOCK_BYTES)
		good =
		    put_block(z, to, data + at, size - at < BLOCK_BYTES ? size - at : BLOCK_BYTES);
	compress_free(z);
	return good;
}

#define BOUNDARY "d0f1b7a2c96e4e5f8a3b"

static void put_text(struct bytes *to, const char *text)
{
	bytes_put(to, text, strlen(text));
}

/* A form with one file: https://www.rfc-editor.org/rfc/rfc7578 */
static bool put_form(struct bytes *to, const struct clickhouse_table *table)
{
	put_text(to, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"");
	put_text(to, table->name);
	put_text(to, "\"; filename=\"rows\"\r\n\r\n");
	bytes_put(to, table->rows->at, table->rows->used);
	put_text(to, "\r\n--" BOUNDARY "--\r\n");
	return !to->failed && !table->rows->failed;
}

/* ---- one request ---- */

/* What the server said, without its version. */
static void say_refused(char *why, const struct http_answer *answer)
{
	static const char before[] = "DB::Exception: ";
	const char *message = strstr(answer->text, before);

	if (answer->size)
		http_say(why,
			 "the server says: ", message ? message + strlen(before) : answer->text);
	else
		snprintf(why, CLICKHOUSE_WHY, "the server answers with HTTP status %ld",
			 answer->status);
}

/* https://github.com/ClickHouse/ClickHouse, src/Common/ErrorCodes.cpp */
static enum clickhouse_failure failure_of(const char *text)
{
	long code = strncmp(text, "Code: ", 6) ? 0 : strtol(text + 6, NULL, 10);

	return code == 60 || code == 81 ? CLICKHOUSE_NO_TABLE : CLICKHOUSE_REFUSED;
}

/* All choose the same one of a part's replicas while it is there, and none that is 3 s behind. */
static const char distributed[] =
    "distributed_product_mode=global&insert_distributed_sync=1&load_balancing=in_order&"
    "max_replica_delay_for_distributed_queries=3&";
static const char current[] = "fallback_to_stale_replicas_for_distributed_queries=0&";

/* more: settings, each with a '&' at its end. statement NULL: it is the body. */
static char *address_of(struct clickhouse *c, const char *more, const char *statement)
{
	char *escaped = statement ? http_escape(c->http, statement) : NULL, *address = NULL;

	if ((!statement || escaped) &&
	    asprintf(&address, "%s?%s%s%s%s%s", c->url.base, c->distributed ? distributed : "",
		     c->distributed && c->current ? current : "", more, statement ? "query=" : "",
		     escaped ? escaped : "") < 0)
		address = NULL;
	free(escaped);
	return address;
}

/* Frees the address. type: the body's, or NULL. answer: NULL when what the server says does not matter. */
static bool post(struct clickhouse *c, char *address, const char *type, const struct bytes *body,
		 struct bytes *answer)
{
	const struct http_request request = {
	    .address = address, .type = type, .body = body->at, .size = body->used};
	struct http_answer said;
	bool good;

	if (!address || body->failed) {
		free(address);
		return clickhouse_no_memory(c);
	}
	good = http_post(c->http, &request, &said, c->why);
	free(address);
	if (!good) {
		c->failure = CLICKHOUSE_AWAY;
		return false;
	}
	good = said.status == 200;
	if (!good) {
		say_refused(c->why, &said);
		c->failure = failure_of(said.text);
	}
	if (good && answer)
		*answer = (struct bytes){(uint8_t *)said.text, said.size, said.size + 1, false};
	else
		free(said.text);
	return good;
}

static bool ask_with(struct clickhouse *c, const char *statement,
		     const struct clickhouse_table *table, struct bytes *answer)
{
	char *columns = http_escape(c->http, table->columns), *more = NULL, *address = NULL;
	struct bytes form = {0};
	bool good;

	if (columns && asprintf(&more, "%s_format=RowBinary&%s_structure=%s&", table->name,
				table->name, columns) < 0)
		more = NULL;
	if (more && put_form(&form, table))
		address = address_of(c, more, statement);
	good = post(c, address, "multipart/form-data; boundary=" BOUNDARY, &form, answer);
	free(columns);
	free(more);
	bytes_free(&form);
	return good;
}

static bool ask(struct clickhouse *c, const struct clickhouse_table *table, struct bytes *answer,
		const char *format, va_list list)
{
	char *statement;
	int length = vasprintf(&statement, format, list);
	bool good;

	if (length < 0)
		return clickhouse_no_memory(c);
	if (table)
		good = ask_with(c, statement, table, answer);
	else
		good = post(c, address_of(c, "", NULL), NULL,
			    &(struct bytes){(uint8_t *)statement, (size_t)length}, answer);
	free(statement);
	return good;
}

bool clickhouse_run(struct clickhouse *c, const char *format, ...)
{
	va_list list;
	bool good;

	va_start(list, format);
	good = ask(c, NULL, NULL, format, list);
	va_end(list);
	return good;
}

char *clickhouse_text(struct clickhouse *c, const char *format, ...)
{
	struct bytes answer = {0};
	va_list list;

	va_start(list, format);
	ask(c, NULL, &answer, format, list);
	va_end(list);
	return (char *)answer.at;
}

bool clickhouse_number(struct clickhouse *c, uint64_t *number, const char *format, ...)
{
	struct bytes answer = {0};
	va_list list;
	bool good;

	va_start(list, format);
	good = ask(c, NULL, &answer, format, list);
	va_end(list);
	*number = good ? strtoull((char *)answer.at, NULL, 10) : 0;
	bytes_free(&answer);
	return good;
}

bool clickhouse_rows(struct clickhouse *c, const struct clickhouse_table *table,
		     clickhouse_take *take, void *context, const char *format, ...)
{
	struct bytes answer = {0};
	struct row_binary r = {0};
	va_list list;
	bool good;

	va_start(list, format);
	good = ask(c, table, take ? &answer : NULL, format, list);
	va_end(list);
	if (good && take)
		r = (struct row_binary){answer.at, answer.at + answer.used, false};
	while (good && r.at < r.end)
		good = take(context, &r) || clickhouse_no_memory(c);
	if (good && r.short_)
		good = clickhouse_fail(c, "its answer is cut off");
	bytes_free(&answer);
	return good;
}

bool clickhouse_insert(struct clickhouse *c, const char *table, const struct bytes *rows)
{
	struct bytes body = {0};
	char statement[200];
	bool good;

	if (rows->failed)
		return clickhouse_no_memory(c);
	if (!rows->used)
		return true;
	snprintf(statement, sizeof(statement), "INSERT INTO %s.%s FORMAT RowBinary",
		 c->url.database, table);
	if (put_compressed(&body, rows->at, rows->used))
		good = post(c, address_of(c, compression, statement), NULL, &body, NULL);
	else
		good = clickhouse_no_memory(c);
	bytes_free(&body);
	return good;
}
