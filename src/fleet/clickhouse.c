/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ClickHouse server: see clickhouse.h.
 *
 *	POST http://HOST:PORT/?query=INSERT...	body: rows, with gzip
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
#include <zlib.h>

#include <curl/curl.h>

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
	snprintf(why, CLICKHOUSE_WHY, "out of memory");
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

/* NULL: out of memory. */
static void *compressed(const void *data, size_t size, size_t *made)
{
	z_stream z = {.next_in = (Bytef *)(size_t)data};
	uint8_t *to;

	/* 16: with gzip's header. The fastest level: what is sent is numbers. */
	if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return NULL;
	*made = deflateBound(&z, size) + 64;
	to = size < UINT32_MAX / 2 ? malloc(*made) : NULL;
	if (to) {
		z.next_out = to;
		z.avail_out = (uInt)*made;
		z.avail_in = (uInt)size;
		deflate(&z, Z_FINISH);
		*made = z.total_out;
	}
	deflateEnd(&z);
	return to;
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

static char *address_of(struct clickhouse *c, const char *statement, bool data)
{
	static const char settings[] = "distributed_product_mode=global&insert_distributed_sync=1&";
	char *escaped = data ? library.escape(c->curl, statement, 0) : NULL;
	size_t size = strlen(c->url.base) + (escaped ? strlen(escaped) : 0) + sizeof(settings) + 8;
	char *address = data && !escaped ? NULL : malloc(size);

	if (address)
		snprintf(address, size, "%s?%s%s%s", c->url.base, c->distributed ? settings : "",
			 data ? "query=" : "", data ? escaped : "");
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

enum clickhouse_failure clickhouse_run(struct clickhouse *c, const char *statement,
				       const void *data, size_t size, char **answer,
				       size_t *answer_size, char *why)
{
	char *address = address_of(c, statement, data != NULL);
	struct curl_slist *headers = NULL;
	enum clickhouse_failure failure = CLICKHOUSE_REFUSED;
	void *body = NULL;
	size_t made = 0;
	bool good = address && add_header(&headers, "Expect", "");

	for (struct curl_slist *h = c->login; good && h; h = h->next) {
		struct curl_slist *longer = library.append(headers, h->data);

		good = longer != NULL;
		headers = good ? longer : headers;
	}
	if (good && data)
		good = (body = compressed(data, size, &made)) &&
		       add_header(&headers, "Content-Encoding", "gzip");
	if (good) {
		library.reset(c->curl);
		library.setopt(c->curl, CURLOPT_URL, address);
		library.setopt(c->curl, CURLOPT_POSTFIELDS, data ? body : statement);
		library.setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE,
			       (curl_off_t)(data ? made : strlen(statement)));
		library.setopt(c->curl, CURLOPT_HTTPHEADER, headers);
		failure = perform(c, answer, answer_size, why);
	} else {
		snprintf(why, CLICKHOUSE_WHY, "out of memory");
	}
	if (headers)
		library.free_all(headers);
	free(body);
	free(address);
	return failure;
}
