/* SPDX-License-Identifier: Apache-2.0 */
/* POST through libcurl: see http_post.h. */
#include "fleet/http/http_post.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <curl/curl.h>

#include "base/bytes.h"
#include "base/dlopen_note.h"
#include "base/utf8.h"

#define LIBRARY	     "libcurl.so.4"
#define CONNECT_SECS 10L
#define SILENT_SECS  120L /* without a byte */
#define PATIENT_SECS 3600L
#define SAID_MOST    400

DLOPEN_NOTE(curl_note, LIBRARY, "push", "sending to servers", "recommended");

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

struct http {
	CURL *curl;
	size_t answer_most;
	bool patient;
	struct curl_slist *headers;
	char *user, *password; /* NULL: no login */
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

static bool no_memory(char *why)
{
	snprintf(why, HTTP_WHY, "out of memory");
	return false;
}

struct http *http_open(size_t answer_most, char *why)
{
	struct http *h;

	if (!load_library()) {
		snprintf(why, HTTP_WHY, "needs %s, which is not here; Debian's package is libcurl4",
			 LIBRARY);
		return NULL;
	}
	h = calloc(1, sizeof(*h));
	if (h)
		h->curl = library.init();
	/* Else libcurl asks first whether a large body is welcome, which old servers do not answer. */
	if (h && h->curl && http_header(h, "Expect", "", why)) {
		h->answer_most = answer_most;
		return h;
	}
	http_close(h);
	no_memory(why);
	return NULL;
}

static void forget(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

void http_close(struct http *h)
{
	if (!h)
		return;
	if (h->headers)
		library.free_all(h->headers);
	if (h->curl)
		library.cleanup(h->curl);
	forget(h->user);
	forget(h->password);
	free(h);
}

static bool add_line(struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = library.append(*list, line);

	if (longer)
		*list = longer;
	return longer != NULL;
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
	size_t size = strlen(name) + strlen(value) + 3;
	char *line = malloc(size);
	bool added = false;

	if (line) {
		snprintf(line, size, "%s: %s", name, value);
		added = add_line(list, line);
	}
	forget(line);
	return added;
}

bool http_header(struct http *h, const char *name, const char *value, char *why)
{
	/* It would end the header. */
	if (strpbrk(value, "\r\n")) {
		snprintf(why, HTTP_WHY, "a name, password or token has a line break");
		return false;
	}
	return add_header(&h->headers, name, value) || no_memory(why);
}

bool http_login(struct http *h, const char *user, const char *password, char *why)
{
	h->user = strdup(user);
	h->password = strdup(password);
	return (h->user && h->password) || no_memory(why);
}

void http_patient(struct http *h)
{
	h->patient = true;
}

char *http_escape(struct http *h, const char *text)
{
	char *escaped = library.escape(h->curl, text, 0), *copy = escaped ? strdup(escaped) : NULL;

	if (escaped)
		library.free(escaped);
	return copy;
}

/* ---- one request ---- */

struct reply {
	struct bytes text;
	size_t most;
};

static size_t take_reply(char *bytes, size_t one, size_t count, void *to)
{
	struct reply *r = to;
	size_t size = one * count;

	if (size >= r->most - r->text.used)
		return 0;
	bytes_put(&r->text, bytes, size);
	return r->text.failed ? 0 : size;
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

static bool perform(struct http *h, struct http_answer *answer, char *why)
{
	struct reply reply = {.most = h->answer_most};
	const char *type = NULL;
	CURLcode error;

	library.setopt(h->curl, CURLOPT_WRITEFUNCTION, take_reply);
	library.setopt(h->curl, CURLOPT_WRITEDATA, &reply);
	library.setopt(h->curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECS);
	library.setopt(h->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	library.setopt(h->curl, CURLOPT_LOW_SPEED_TIME, h->patient ? PATIENT_SECS : SILENT_SECS);
	library.setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
	error = library.perform(h->curl);
	answer->size = reply.text.used;
	bytes_put(&reply.text, "", 1);
	answer->text = (char *)reply.text.at;
	if (!error && !reply.text.failed) {
		library.getinfo(h->curl, CURLINFO_RESPONSE_CODE, &answer->status);
		library.getinfo(h->curl, CURLINFO_CONTENT_TYPE, &type);
		snprintf(answer->type, sizeof(answer->type), "%s", type ? type : "");
		return true;
	}
	free(answer->text);
	*answer = (struct http_answer){0};
	snprintf(why, HTTP_WHY, "%s", error ? library.strerror(error) : "out of memory");
	return false;
}

bool http_post(struct http *h, const struct http_request *request, struct http_answer *answer,
	       char *why)
{
	struct curl_slist *headers = NULL;
	const void *body = request->body;
	size_t size = request->size;
	void *packed = NULL;
	bool good = true;

	*answer = (struct http_answer){0};
	for (struct curl_slist *one = h->headers; good && one; one = one->next)
		good = add_line(&headers, one->data);
	if (good && request->type)
		good = add_header(&headers, "Content-Type", request->type);
	if (good && request->pack)
		good = (body = packed = compressed(body, size, &size)) &&
		       add_header(&headers, "Content-Encoding", "gzip");
	if (good) {
		library.reset(h->curl);
		library.setopt(h->curl, CURLOPT_URL, request->address);
		library.setopt(h->curl, CURLOPT_POSTFIELDS, body);
		library.setopt(h->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
		library.setopt(h->curl, CURLOPT_HTTPHEADER, headers);
		if (h->user) {
			library.setopt(h->curl, CURLOPT_USERNAME, h->user);
			library.setopt(h->curl, CURLOPT_PASSWORD, h->password);
		}
		good = perform(h, answer, why);
	} else {
		no_memory(why);
	}
	if (headers)
		library.free_all(headers);
	free(packed);
	return good;
}

void http_say(char *why, const char *before, const char *text)
{
	size_t used = (size_t)snprintf(why, HTTP_WHY, "%s", before), most = used + SAID_MOST, step;

	for (; *text && *text != '\r' && *text != '\n'; text += step) {
		size_t length = utf8_length(text);
		bool plain = length && (unsigned char)*text >= ' ' && *text != 127;

		step = length ? length : 1;
		if (used + step >= (most < HTTP_WHY ? most : HTTP_WHY))
			break;
		if (plain)
			memcpy(why + used, text, step);
		else
			why[used] = '?';
		used += plain ? step : 1;
	}
	why[used] = 0;
}
