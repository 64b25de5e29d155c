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
#include "fleet/clickhouse.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "format/bytes.h"
#include "format/compress.h"

#define LIBRARY	     "libcurl.so.4"
#define CONNECT_SECS 10L
#define SILENT_SECS  120L /* without a byte */
#define ANSWER_MOST  ((size_t)1 << 30)

static struct {
	bool loaded;
	__typeof__(curl_easy_init) *init;
	__typeof__(curl_easy_setopt) *(setopt);
	__typeof__(curl_easy_perform) *perform;
	__typeof__(curl_easy_getinfo) *(getinfo);
	__typeof__(curl_easy_reset) *reset;
	__typeof__(curl_easy_cleanup) *cleanup;
	__typeof__(curl_easy_escape) *escape;
	__typeof__(curl_easy_strerror) *strerror;
	__typeof__(curl_free) *free;
	__typeof__(curl_slist_append) *append;
	__typeof__(curl_slist_free_all) *free_all;
} library;

struct clickhouse {
	CURL *curl;
	struct server_url url;
	struct curl_slist *login; /* headers */
	bool distributed;
};

static bool load_library(void)
{
	static const char *const names[] = {
	    "curl_easy_init",  "curl_easy_setopt",  "curl_easy_perform",  "curl_easy_getinfo",
	    "curl_easy_reset", "curl_easy_cleanup", "curl_easy_escape",	  "curl_easy_strerror",
	    "curl_free",       "curl_slist_append", "curl_slist_free_all"};
	void **functions[] = {
	    (void **)&library.init,    (void **)&library.setopt,   (void **)&library.perform,
	    (void **)&library.getinfo, (void **)&library.reset,	   (void **)&library.cleanup,
	    (void **)&library.escape,  (void **)&library.strerror, (void **)&library.free,
	    (void **)&library.append,  (void **)&library.free_all};
	void *handle;

	if (library.loaded)
		return true;
	handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	library.loaded = handle != NULL;
	for (size_t i = 0; handle && i < sizeof(names) / sizeof(*names); i++) {
		*functions[i] = dlsym(handle, names[i]);
		library.loaded &= *functions[i] != NULL;
	}
	return library.loaded;
}

static enum clickhouse_failure no_memory(char *why)
{
	snprintf(why, CLICKHOUSE_WHY, "out of memory");
	return CLICKHOUSE_REFUSED;
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
	size_t size = strlen(name) + strlen(value) + 3;
	char *line = malloc(size);
	struct curl_slist *longer = NULL;

	if (line) {
		snprintf(line, size, "%s: %s", name, value);
		longer = library.append(*list, line);
		free(line);
	}
	if (longer)
		*list = longer;
	return longer != NULL;
}

struct clickhouse *clickhouse_open(const struct server_url *url,
				   const struct clickhouse_login *login, char *why)
{
	struct clickhouse *c;

	if (!load_library()) {
		snprintf(why, CLICKHOUSE_WHY,
			 "needs %s, which is not here; Debian's package is libcurl4", LIBRARY);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c) {
		c->url = *url;
		c->curl = library.init();
	}
	if (c && c->curl &&
	    (!login->user || add_header(&c->login, "X-ClickHouse-User", login->user)) &&
	    (!login->password || add_header(&c->login, "X-ClickHouse-Key", login->password)))
		return c;
	clickhouse_close(c);
	no_memory(why);
	return NULL;
}

void clickhouse_close(struct clickhouse *c)
{
	if (!c)
		return;
	if (c->login)
		library.free_all(c->login);
	if (c->curl)
		library.cleanup(c->curl);
	free(c);
}

void clickhouse_distributed(struct clickhouse *c)
{
	c->distributed = true;
}

/* ---- one request ---- */

struct reply {
	char *text;
	size_t size;
};

static size_t take_reply(char *bytes, size_t one, size_t count, void *to)
{
	struct reply *r = to;
	size_t size = one * count;
	char *grown = size < ANSWER_MOST - r->size ? realloc(r->text, r->size + size + 1) : NULL;

	if (!grown)
		return 0;
	memcpy(grown + r->size, bytes, size);
	r->text = grown;
	r->size += size;
	r->text[r->size] = 0;
	return size;
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
	bytes_put(to, table->rows, table->size);
	put_text(to, "\r\n--" BOUNDARY "--\r\n");
	return !to->failed;
}

/* The first line of what the server said, without its version. */
static void say_first_line(char *why, const char *text)
{
	static const char before[] = "DB::Exception: ";
	const char *message = strstr(text, before);
	size_t length;

	text = message ? message + strlen(before) : text;
	length = strcspn(text, "\r\n");
	snprintf(why, CLICKHOUSE_WHY, "the server says: %.*s", (int)(length < 400 ? length : 400),
		 text);
}

/* https://github.com/ClickHouse/ClickHouse, src/Common/ErrorCodes.cpp */
static enum clickhouse_failure failure_of(const char *text)
{
	long code = strncmp(text, "Code: ", 6) ? 0 : strtol(text + 6, NULL, 10);

	return code == 60 || code == 81 ? CLICKHOUSE_NO_TABLE : CLICKHOUSE_REFUSED;
}

/* more: settings, each with a '&' at its end. statement NULL: it is the body. */
static char *address_of(struct clickhouse *c, const char *more, const char *statement)
{
	const char *settings =
	    c->distributed ? "distributed_product_mode=global&insert_distributed_sync=1&" : "";
	char *escaped = statement ? library.escape(c->curl, statement, 0) : NULL, *address = NULL;

	if ((!statement || escaped) &&
	    asprintf(&address, "%s?%s%s%s%s", c->url.base, settings, more,
		     statement ? "query=" : "", escaped ? escaped : "") < 0)
		address = NULL;
	if (escaped)
		library.free(escaped);
	return address;
}

static enum clickhouse_failure perform(struct clickhouse *c, char **answer, size_t *answer_size,
				       char *why)
{
	struct reply reply = {0};
	enum clickhouse_failure failure = CLICKHOUSE_GOOD;
	CURLcode error;
	long status = 0;

	library.setopt(c->curl, CURLOPT_WRITEFUNCTION, take_reply);
	library.setopt(c->curl, CURLOPT_WRITEDATA, &reply);
	library.setopt(c->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECS);
	library.setopt(c->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	library.setopt(c->curl, CURLOPT_LOW_SPEED_TIME, SILENT_SECS);
	library.setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
	error = library.perform(c->curl);
	if (!error)
		library.getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	if (error) {
		snprintf(why, CLICKHOUSE_WHY, "%s", library.strerror(error));
		failure = CLICKHOUSE_AWAY;
	} else if (status != 200) {
		say_first_line(why, reply.text ? reply.text : "");
		failure = failure_of(reply.text ? reply.text : "");
		if (!reply.text)
			snprintf(why, CLICKHOUSE_WHY, "the server answers with HTTP status %ld",
				 status);
	}
	if (answer_size)
		*answer_size = reply.size;
	if (failure || !answer)
		free(reply.text);
	else
		*answer = reply.text ? reply.text : calloc(1, 1);
	return failure;
}

static bool add_headers(const struct clickhouse *c, struct curl_slist **headers, const char *type)
{
	bool good = add_header(headers, "Expect", "") &&
		    (!type || add_header(headers, "Content-Type", type));

	for (struct curl_slist *h = c->login; good && h; h = h->next) {
		struct curl_slist *longer = library.append(*headers, h->data);

		good = longer != NULL;
		*headers = good ? longer : *headers;
	}
	return good;
}

/* Frees the address. type: of the body, or NULL. */
static enum clickhouse_failure post(struct clickhouse *c, char *address, const char *type,
				    const void *body, size_t size, char **answer,
				    size_t *answer_size, char *why)
{
	struct curl_slist *headers = NULL;
	enum clickhouse_failure failure = CLICKHOUSE_REFUSED;

	if (address && add_headers(c, &headers, type)) {
		library.reset(c->curl);
		library.setopt(c->curl, CURLOPT_URL, address);
		library.setopt(c->curl, CURLOPT_POSTFIELDS, body);
		library.setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
		library.setopt(c->curl, CURLOPT_HTTPHEADER, headers);
		failure = perform(c, answer, answer_size, why);
	} else {
		no_memory(why);
	}
	if (headers)
		library.free_all(headers);
	free(address);
	return failure;
}

enum clickhouse_failure clickhouse_run(struct clickhouse *c, const char *statement,
				       const void *data, size_t size, char **answer,
				       size_t *answer_size, char *why)
{
	struct bytes body = {0};
	enum clickhouse_failure failure;

	if (data && !put_compressed(&body, data, size))
		failure = no_memory(why);
	else if (data)
		failure = post(c, address_of(c, compression, statement), NULL, body.at, body.used,
			       answer, answer_size, why);
	else
		failure = post(c, address_of(c, "", NULL), NULL, statement, strlen(statement),
			       answer, answer_size, why);
	bytes_free(&body);
	return failure;
}

enum clickhouse_failure clickhouse_ask(struct clickhouse *c, const char *statement,
				       const struct clickhouse_table *table, char **answer,
				       size_t *answer_size, char *why)
{
	char *columns = library.escape(c->curl, table->columns, 0), *more = NULL;
	enum clickhouse_failure failure = CLICKHOUSE_REFUSED;
	struct bytes form = {0};

	if (columns && asprintf(&more, "%s_format=RowBinary&%s_structure=%s&", table->name,
				table->name, columns) < 0)
		more = NULL;
	if (more && put_form(&form, table))
		failure = post(c, address_of(c, more, statement),
			       "multipart/form-data; boundary=" BOUNDARY, form.at, form.used,
			       answer, answer_size, why);
	else
		no_memory(why);
	if (columns)
		library.free(columns);
	free(more);
	bytes_free(&form);
	return failure;
}
