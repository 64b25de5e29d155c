/* SPDX-License-Identifier: Apache-2.0 */
/* Serves what collectors come to fetch: see pull.h. */
#include "fleet/pull/pull.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fleet/pull/pull_index.h"
#include "fleet/pull/pull_metrics.h"
#include "fleet/pull/pull_profile.h"
#include "fleet/pull/pull_request.h"
#include "serve/http_server.h"
#include "serve/request_check.h"
#include "terminal/message.h"

#define SECOND_NS 1000000000ll
#define STOP_MS	  2000u /* for the answers that are being made */

static const char text_type[] = "text/plain; charset=utf-8";

struct pull {
	struct pull_source source;
	struct http_server *http;
	char address[HTTP_PLACE_TEXT];
	pthread_mutex_t lock; /* one answer is made at a time: they read large files */
	struct pull_seen seen;
};

const char *pull_address(const struct pull *p)
{
	return p->address;
}

/* ---- answers ---- */

static void say(struct http_answer *answer, unsigned int status, const char *text)
{
	answer->status = status;
	answer->type = text_type;
	answer->bytes.used = 0;
	bytes_put(&answer->bytes, text, strlen(text));
	bytes_put(&answer->bytes, "\n", 1);
}

/* Neither waits for a process or a disk. */
static void say_health(struct pull *p, bool ready, struct http_answer *answer)
{
	const char *why = p->source.health(p->source.context, ready);

	say(answer, why ? 503 : 200, why ? why : "ok");
}

static enum http_route route(void *context, const char *uri, struct http_answer *answer,
			     int64_t *delay_ns)
{
	struct pull_request r;

	pull_request_read(&r, uri);
	if (r.what == PULL_NOTHING)
		return HTTP_NOTHING;
	if (!r.why && r.what != PULL_HEALTH && r.what != PULL_READY) {
		*delay_ns = r.seconds * SECOND_NS;
		return HTTP_ASK;
	}
	if (r.why)
		say(answer, 400, r.why);
	else
		say_health(context, r.what == PULL_READY, answer);
	return HTTP_ANSWERED;
}

static bool answer_profile(struct pull *p, const struct pull_request *r, struct http_answer *answer)
{
	char why[PULL_WHY];

	answer->status = 200;
	answer->type = "application/octet-stream";
	switch (pull_profile(&p->source, r, answer->asked_ns, &answer->bytes, why)) {
	case PULL_GOOD:
		break;
	case PULL_NOBODY:
		say(answer, 404, why);
		break;
	case PULL_NOT_NOW:
		say(answer, 503, why);
		break;
	case PULL_NOT_THIS:
		say(answer, 409, why);
		break;
	case PULL_FAILED:
		say(answer, 500, why);
		break;
	}
	return true;
}

static bool answer_asked(struct pull *p, const struct pull_request *r, struct http_answer *answer)
{
	answer->status = 200;
	switch (r->what) {
	case PULL_HEAP:
	case PULL_ALLOCS:
		return answer_profile(p, r, answer);
	case PULL_METRICS:
		answer->type = "text/plain; version=0.0.4; charset=utf-8";
		return pull_metrics(&p->source, &p->seen, &answer->bytes);
	case PULL_TARGETS:
		answer->type = "application/json";
		return pull_targets(&p->source, p->address, &answer->bytes);
	case PULL_INDEX:
		answer->type = text_type;
		return pull_index(&p->source, p->address, &answer->bytes);
	case PULL_HEALTH:
	case PULL_READY:
	case PULL_NOTHING:
		break;
	}
	return false;
}

static bool answer(void *context, const char *uri, struct http_answer *to)
{
	struct pull *p = context;
	struct pull_request r;
	bool good;

	pull_request_read(&r, uri);
	pthread_mutex_lock(&p->lock);
	good = answer_asked(p, &r, to);
	pthread_mutex_unlock(&p->lock);
	return good;
}

/* ---- the token ---- */

#define TOKEN_ROOM (LOGIN_MOST + 2)

static bool read_token_file(const char *path, char text[TOKEN_ROOM])
{
	FILE *file = fopen(path, "re");
	struct stat status = {0};
	bool got = file && !fstat(fileno(file), &status) && fgets(text, TOKEN_ROOM, file);

	if (!got)
		cli_error("%s: %s", path, file && !ferror(file) ? "is empty" : strerror(errno));
	else if (status.st_mode & 077)
		got = cli_fail("%s: others may read it; 'chmod 600 %s' makes it yours alone", path,
			       path);
	if (file)
		fclose(file);
	text[strcspn(text, "\r\n")] = 0;
	return got;
}

/* *token: NULL: there is none. False after a line on stderr. */
static bool take_token(const char *path, char text[TOKEN_ROOM], const char **token)
{
	const char *variable = getenv("MAYFLY_LISTEN_TOKEN");
	struct request_login unused;

	*token = path ? text : variable && *variable ? variable : NULL;
	if (path && !read_token_file(path, text))
		return false;
	return !*token || request_login_make(&unused, *token) ||
	       cli_fail("%s: a token has %u to %u bytes, and no spaces",
			path ? path : "MAYFLY_LISTEN_TOKEN", LOGIN_LEAST, LOGIN_MOST - 1);
}

/* ---- begin and end ---- */

static bool say_not_started(const char *place, int error)
{
	if (error == ENOSYS)
		return cli_fail("listen: this build of mayfly lacks libmicrohttpd; install "
				"libmicrohttpd-dev and build it again");
	return cli_fail("listen: %s: %s", place, strerror(error));
}

static bool start(struct pull *p, const char *text, const char *token_file)
{
	struct http_server_settings http = {.route = route, .answer = answer, .context = p};
	char room[TOKEN_ROOM];
	int error;

	if (!http_place_read(text, &http.place))
		return cli_fail("listen: '%s' is not " HTTP_PLACE_FORMS, text);
	if (!take_token(token_file, room, &http.token))
		return false;
	if (!http.token && !http.place.loopback && !http_place_is_unix(&http.place))
		return cli_fail(
		    "listen: %s: other machines reach this, so it needs a token: a line in a file "
		    "of yours (token = FILE), or MAYFLY_LISTEN_TOKEN",
		    text);
	error = http_server_start(&http, &p->http);
	explicit_bzero(room, sizeof(room));
	if (error)
		return say_not_started(text, error);
	http_place_text(http_server_place(p->http), p->address);
	return true;
}

bool pull_start(const char *place, const char *token, const struct pull_source *source,
		struct pull **out)
{
	struct pull *p = calloc(1, sizeof(*p));

	*out = NULL;
	if (!p)
		return cli_fail("out of memory");
	p->source = *source;
	pthread_mutex_init(&p->lock, NULL);
	if (start(p, place, token)) {
		*out = p;
		return true;
	}
	pull_stop(p);
	return false;
}

bool pull_stop(struct pull *p)
{
	if (!p)
		return true;
	if (!http_server_stop(p->http, STOP_MS))
		return false;
	pull_seen_free(&p->seen);
	pthread_mutex_destroy(&p->lock);
	free(p);
	return true;
}
