/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page's server: see server.h. A view is counted by those who use it: the server, and each request that
 * is being answered.
 */
#include "serve/server.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/percent.h"
#include "serve/http_server.h"
#include "serve/request_check.h"

#define URL_TEXT 80

/* A view with its users. */
struct shown {
	struct view view;
	size_t users;
	void (*release)(void *context);
	void *context;
};

struct server {
	struct http_server *http;
	char token[TOKEN_TEXT];
	char url[URL_TEXT];
	struct server_settings with;

	pthread_mutex_t lock; /* of what follows */
	struct shown *shown;
	unsigned long generation;
	bool live;
};

bool server_supported(void)
{
	return http_server_supported();
}

const char *server_url(const struct server *s)
{
	return s->url;
}

uint16_t server_port(const struct server *s)
{
	return http_place_port(http_server_place(s->http));
}

/* ---- views ---- */

static struct shown *take_view(struct server *s)
{
	struct shown *shown;

	pthread_mutex_lock(&s->lock);
	shown = s->shown;
	shown->users++;
	pthread_mutex_unlock(&s->lock);
	return shown;
}

static void drop_view(struct server *s, struct shown *shown)
{
	bool unused;

	if (!shown)
		return;
	pthread_mutex_lock(&s->lock);
	assert(shown->users);
	unused = --shown->users == 0;
	pthread_mutex_unlock(&s->lock);
	if (!unused)
		return;
	shown->release(shown->context);
	free(shown);
}

bool server_show(struct server *s, const struct view *view, bool live,
		 void (*release)(void *context), void *context)
{
	struct shown *made = malloc(sizeof(*made)), *before;

	if (!made) {
		release(context);
		return false;
	}
	*made = (struct shown){*view, 1, release, context};
	pthread_mutex_lock(&s->lock);
	before = s->shown;
	s->shown = made;
	s->generation++;
	s->live = live;
	pthread_mutex_unlock(&s->lock);
	drop_view(s, before);
	http_server_go(s->http);
	return true;
}

void server_settle(struct server *s)
{
	pthread_mutex_lock(&s->lock);
	s->live = false;
	pthread_mutex_unlock(&s->lock);
}

/* ---- answers ---- */

static void put_text(struct http_answer *answer, const char *type, const char *text)
{
	answer->status = VIEW_OK;
	answer->type = type;
	bytes_put(&answer->bytes, text, strlen(text));
}

static void put_changes(struct server *s, struct http_answer *answer)
{
	char text[64];

	pthread_mutex_lock(&s->lock);
	snprintf(text, sizeof(text), "{\"generation\": %lu, \"live\": %s}\n", s->generation,
		 s->live ? "true" : "false");
	pthread_mutex_unlock(&s->lock);
	put_text(answer, "application/json", text);
}

/* The rest of a text that begins with this, or NULL. */
static const char *after(const char *text, const char *begin)
{
	size_t length = strlen(begin);

	return strncmp(text, begin, length) == 0 ? text + length : NULL;
}

static enum http_route route(void *context, const char *uri, struct http_answer *answer,
			     int64_t *delay_ns)
{
	struct server *s = context;
	const char *rest = request_after_token(uri, s->token);

	(void)delay_ns;
	if (!rest)
		return HTTP_NOTHING;
	if (strcmp(rest, "changes") == 0) {
		put_changes(s, answer);
		return HTTP_ANSWERED;
	}
	if (*rest && *rest != '?')
		return after(rest, "ask/") || after(rest, "compare/") ? HTTP_ASK : HTTP_NOTHING;
	*answer = (struct http_answer){.status = VIEW_OK,
				       .type = "text/html; charset=utf-8",
				       .kept = s->with.page,
				       .kept_size = s->with.page_size};
	return HTTP_ANSWERED;
}

/* Only a program that was told this page's token can name files, and it is the user's. A file that is no
 * trace is no error of the page. */
static void compare_with(struct server *s, const char *path, struct http_answer *answer)
{
	char *decoded = strdup(path);
	bool done = decoded && s->with.compare && percent_decode(decoded) &&
		    s->with.compare(s->with.context, decoded);

	free(decoded);
	put_text(answer, "application/json",
		 done ? "{\"compared\": true}\n"
		      : "{\"error\": \"It could not be opened as a trace; the terminal says "
			"why.\"}\n");
}

static bool answer_request(void *context, const char *uri, struct http_answer *answer)
{
	struct server *s = context;
	const char *rest = request_after_token(uri, s->token);
	const char *path = after(rest, "compare/");
	struct view_answer said = {0};
	struct shown *shown;

	if (path) {
		compare_with(s, path, answer);
		return true;
	}
	shown = take_view(s);
	view_ask(&shown->view, after(rest, "ask/"), &said);
	drop_view(s, shown);
	*answer = (struct http_answer){
	    .status = (unsigned int)said.status, .type = said.type, .bytes = said.bytes};
	return true;
}

/* ---- start and end ---- */

static int make_token(char *text)
{
	uint8_t random[(TOKEN_TEXT - 1) / 2];
	ssize_t got;

	do
		got = getrandom(random, sizeof(random), 0);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(random))
		return got < 0 ? errno : EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		sprintf(text + 2 * i, "%02x", random[i]);
	return 0;
}

static void free_server(struct server *s)
{
	drop_view(s, s->shown);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

bool server_stop(struct server *s, unsigned int milliseconds)
{
	if (!s)
		return true;
	if (!http_server_stop(s->http, milliseconds))
		return false;
	free_server(s);
	return true;
}

int server_start(const struct server_settings *settings, struct server **out)
{
	struct server *s = calloc(1, sizeof(*s));
	struct http_server_settings http = {
	    .waits = true, .route = route, .answer = answer_request, .context = s};
	char port[8];
	int error;

	*out = NULL;
	if (!s)
		return ENOMEM;
	s->with = *settings;
	s->live = true; /* the first view comes */
	pthread_mutex_init(&s->lock, NULL);
	snprintf(port, sizeof(port), "%u", settings->port);
	http_place_read(port, &http.place);
	error = make_token(s->token);
	if (!error)
		error = http_server_start(&http, &s->http);
	if (error) {
		free_server(s);
		return error;
	}
	snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u/%s/", server_port(s), s->token);
	*out = s;
	return 0;
}
