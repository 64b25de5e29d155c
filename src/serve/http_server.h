/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers requests of HTTP, GET and HEAD, for the page of mayfly view and for collectors that come to fetch
 * profiles. Requests that show that they come from elsewhere, have the wrong method, a body or too long a URI
 * are refused; clients that are slow, idle or many hold up nobody (request_check.h says what is checked).
 */
#ifndef MAYFLY_HTTP_SERVER_H
#define MAYFLY_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "serve/http_place.h"

struct http_server;

struct http_answer {
	int64_t asked_ns;    /* CLOCK_MONOTONIC: when the request came; the server's */
	unsigned int status; /* of HTTP */
	const char *type;    /* as of Content-Type */
	/* The body: bytes, which the server frees, or if there are none, `kept`, which stays the caller's as
	 * long as the server lives. */
	struct bytes bytes;
	const void *kept;
	size_t kept_size;
};

enum http_route {
	HTTP_NOTHING,  /* there is nothing of that name */
	HTTP_ANSWERED, /* at once */
	HTTP_ASK,      /* answer() will, after *delay_ns */
};

struct http_server_settings {
	struct http_place place;
	const char *token; /* NULL: whoever reaches the server may ask */
	bool waits;	   /* nothing is passed to answer() before http_server_go() */
	/* uri: as it was sent. In the thread of the sockets, which must not wait. */
	enum http_route (*route)(void *context, const char *uri, struct http_answer *answer,
				 int64_t *delay_ns);
	/* In one of some threads. False: it cannot be answered now. */
	bool (*answer)(void *context, const char *uri, struct http_answer *answer);
	void *context;
};

/* False: this build has no HTTP library. */
bool http_server_supported(void);

/* 0 or an errno; EINVAL: the token is none. */
int http_server_start(const struct http_server_settings *settings, struct http_server **out);
void http_server_go(struct http_server *s);

/* With the port that it got. */
const struct http_place *http_server_place(const struct http_server *s);

/* Waits for the requests that are being answered, at most that long. False: some still are; then the server
 * stays. NULL is allowed. */
bool http_server_stop(struct http_server *s, unsigned int milliseconds);

#endif
