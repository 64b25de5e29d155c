/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes to OpenTelemetry's collectors and to Pyroscope: see collector_push.h.
 *
 * https://opentelemetry.io/docs/specs/otlp/ describes OTLP/HTTP: its answers are messages, and which
 * statuses are worth another try. Pyroscope's /ingest is in pkg/ingester/pyroscope of
 * https://github.com/grafana/pyroscope: it stores a profile by its own time, and takes the four sample
 * types of a heap profile of pprof as they are, so no sample_type_config is needed.
 */
#include "fleet/push/collector_push.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/export/exports.h"
#include "convert/import/protobuf_read.h"
#include "fleet/http/http_post.h"
#include "base/bytes.h"
#include "base/utf8.h"

#define ANSWER_MOST ((size_t)4 << 20)
#define OTLP_MOST   ((size_t)64 << 20) /* what servers take by default, unpacked */

#define NAME_BYTES                                                                                 \
	"abcdefghijklmnopqrstuvwxyz"                                                               \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."

_Static_assert(HTTP_WHY <= PUSH_WHY, "a reason of http_post() fits");

struct collector {
	struct http *http;
	struct server_url url;
};

static bool add_login(struct collector *f, const struct server_login *login, char *why)
{
	struct bytes value = {0};
	bool added;

	if (!login->token)
		return !login->user || http_login(f->http, login->user,
						  login->password ? login->password : "", why);
	bytes_put(&value, "Bearer ", 7);
	bytes_put(&value, login->token, strlen(login->token) + 1);
	added = !value.failed && http_header(f->http, "Authorization", (const char *)value.at, why);
	if (value.at)
		explicit_bzero(value.at, value.size);
	bytes_free(&value);
	return added;
}

struct collector *collector_open(const struct server_url *url, const struct server_login *login,
				 char *why)
{
	struct collector *f = calloc(1, sizeof(*f));

	snprintf(why, PUSH_WHY, "out of memory");
	if (!f)
		return NULL;
	f->url = *url;
	f->http = http_open(ANSWER_MOST, why);
	if (f->http && add_login(f, login, why))
		return f;
	collector_close(f);
	return NULL;
}

void collector_close(struct collector *f)
{
	if (!f)
		return;
	http_close(f->http);
	free(f);
}

/* ---- what the server says ---- */

/* The text of a field of a message, with a zero at its end, for the caller to free; *number: the value of
 * field 1. NULL: out of memory. */
static char *text_in(const void *message, size_t size, uint32_t field, uint64_t *number)
{
	struct protobuf in = protobuf_begin(message, size);
	struct protobuf_field found;
	char *text = calloc(1, 1);

	while (text && protobuf_next(&in, &found)) {
		if (found.number == 1 && !found.bytes)
			*number = found.value;
		if (found.number != field || !found.bytes)
			continue;
		free(text);
		text = strndup((const char *)found.bytes, found.size);
	}
	return text;
}

/* google.rpc.Status: field 2 is the message. */
static void say_refused(char *why, const struct http_answer *answer)
{
	bool message = strstr(answer->type, "protobuf") != NULL;
	uint64_t code = 0;
	char *text = message ? text_in(answer->text, answer->size, 2, &code) : NULL;
	const char *said = message ? text : answer->text;
	char before[64];

	snprintf(before, sizeof(before), "the server answers with HTTP status %ld%s",
		 answer->status, said && *said ? ": " : "");
	http_say(why, before, said ? said : "");
	free(text);
}

/* ExportProfilesServiceResponse: field 1 is what was not taken, of which field 1 is the number of
 * profiles and field 2 the reason. False: all was taken. */
static bool took_a_part(const struct http_answer *answer, char *why)
{
	struct protobuf in = protobuf_begin(answer->text, answer->size);
	struct protobuf_field part;
	uint64_t rejected = 0;

	while (protobuf_next(&in, &part)) {
		char *text;

		if (part.number != 1 || !part.bytes)
			continue;
		text = text_in(part.bytes, part.size, 2, &rejected);
		if (rejected)
			http_say(why, "the server did not take all of it: ", text ? text : "");
		free(text);
	}
	return rejected != 0;
}

/* Those of OTLP; and when it does not know us, it has not looked at what it was sent. */
static bool may_be_tried_again(long status)
{
	static const long later[] = {401, 403, 404, 408, 429, 502, 503, 504};

	for (size_t i = 0; i < sizeof(later) / sizeof(*later); i++)
		if (status == later[i])
			return true;
	return false;
}

static enum push_done post(struct collector *f, const struct http_request *request, char *why)
{
	enum push_done failure = PUSH_GOOD;
	struct http_answer answer;

	if (!http_post(f->http, request, &answer, why))
		return PUSH_AWAY;
	if (answer.status / 100 != 2) {
		say_refused(why, &answer);
		failure = may_be_tried_again(answer.status) ? PUSH_AWAY : PUSH_REFUSED;
	} else if (f->url.kind == SERVER_OTLP && took_a_part(&answer, why)) {
		failure = PUSH_REFUSED;
	}
	free(answer.text);
	return failure;
}

/* ---- Pyroscope's name: service{key=value,...} ---- */

/* Bytes that its parser does not take, or that would end what they are in, become '_'. */
static void put_name(struct bytes *b, const char *text, const char *taken)
{
	size_t plain;

	for (; *text; text++) {
		plain = strspn(text, taken);
		bytes_put(b, text, plain);
		text += plain;
		if (!*text)
			return;
		bytes_put(b, "_", 1);
	}
}

static void put_value(struct bytes *b, const char *text)
{
	size_t length;

	for (; *text; text += length) {
		length = utf8_length(text);
		if (!length || (unsigned char)*text < ' ' || strchr(",}\x7f", *text)) {
			length = length ? length : 1;
			bytes_put(b, "_", 1);
		} else {
			bytes_put(b, text, length);
		}
	}
}

/* first: where the labels begin. */
static void put_label(struct bytes *b, size_t first, const char *key, const char *value)
{
	if (!value || !*value)
		return;
	if (b->used > first)
		bytes_put(b, ",", 1);
	put_name(b, key, NAME_BYTES);
	bytes_put(b, "=", 1);
	put_value(b, value);
}

/* The server takes the last one of a key, so the user's come last. */
static void put_process(struct bytes *b, const struct mayfly_trace *trace,
			const struct export_process *process)
{
	size_t program = export_program(trace);
	char build_id[BUILD_ID_TEXT] = "";
	size_t first;

	if (program < mayfly_trace_info(trace)->modules)
		export_build_id(build_id, mayfly_trace_module(trace, program));
	put_name(b, *process->service ? process->service : "unknown", NAME_BYTES "-/");
	bytes_put(b, "{", 1);
	first = b->used;
	put_label(b, first, "hostname", process->host);
	put_label(b, first, "version", build_id);
	for (size_t i = 0; i < process->labels; i++)
		put_label(b, first, process->label[i].key, process->label[i].value);
	bytes_put(b, "}", 2);
}

/* For the caller to free. NULL: out of memory. */
static char *ingest_address(struct collector *f, const struct mayfly_trace *trace,
			    const struct export_options *options)
{
	static const char form[] =
	    "%singest?name=%s&from=%" PRId64 "&until=%" PRId64 "&format=pprof&spyName=mayfly";
	struct bytes name = {0};
	int64_t start_ns, duration_ns;
	char *escaped, *address = NULL;
	size_t size;

	put_process(&name, trace, &options->process);
	escaped = name.failed ? NULL : http_escape(f->http, (const char *)name.at);
	bytes_free(&name);
	export_times(trace, options->query, &start_ns, &duration_ns);
	size = escaped ? strlen(f->url.base) + strlen(escaped) + sizeof(form) + 64 : 0;
	if (escaped && (address = malloc(size)))
		snprintf(address, size, form, f->url.base, escaped, start_ns / 1000000000,
			 (start_ns + duration_ns) / 1000000000 + 1);
	free(escaped);
	return address;
}

/* ---- a push ---- */

static char *address_of(struct collector *f, const struct mayfly_trace *trace,
			const struct export_options *options)
{
	struct bytes address = {0};

	if (f->url.kind == SERVER_PYROSCOPE)
		return ingest_address(f, trace, options);
	bytes_put(&address, f->url.base, strlen(f->url.base));
	bytes_put(&address, "v1development/profiles", sizeof("v1development/profiles"));
	return address.failed ? bytes_free(&address), NULL : (char *)address.at;
}

enum push_done collector_push(struct collector *f, const struct mayfly_trace *trace,
			      const struct export_options *options, char *why)
{
	bool otlp = f->url.kind == SERVER_OTLP;
	struct trace_buffer body = {0};
	int error =
	    export_run(otlp ? export_otlp : export_pprof, trace, options, trace_buffer_sink, &body);
	char *address = error ? NULL : address_of(f, trace, options);
	enum push_done failure = PUSH_TRACE;
	const struct http_request request = {
	    .address = address,
	    .type = otlp ? "application/x-protobuf" : "application/octet-stream",
	    .body = body.bytes,
	    .size = body.used,
	    .pack = otlp, /* pprof's format is packed by itself */
	};

	if (!address)
		snprintf(why, PUSH_WHY, "%s", mayfly_error_text(error ? error : MAYFLY_E_MEMORY));
	else if (otlp && body.used > OTLP_MOST)
		snprintf(why, PUSH_WHY, "is a profile of %zu MiB, and servers take 64 MiB",
			 body.used >> 20);
	else
		failure = post(f, &request, why);
	free(address);
	free(body.bytes);
	return failure;
}
