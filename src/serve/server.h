/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the page, and the answers that it asks for, to browsers on this machine:
 *
 *	GET /TOKEN/			the page
 *	GET /TOKEN/ask/REQUEST		view_ask(): the request is passed on as it was sent
 *	GET /TOKEN/compare/PATH		another file becomes what the trace is compared with
 *	GET /TOKEN/changes		{"generation": 3, "live": true}: 3 views were shown so far
 *
 * Other users and other web sites must get nothing. So the server listens on 127.0.0.1 only, the
 * token is a random number of 128 bits, and a request that comes from another page or under another
 * name than 127.0.0.1 or localhost (DNS rebinding) is refused.
 */
#ifndef MAYFLY_SERVER_H
#define MAYFLY_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/view.h"

struct server;

struct server_settings {
	uint16_t port;	  /* 0: any that is free */
	const char *page; /* HTML, stays the caller's as long as the server lives */
	size_t page_size;
	/* Shows the trace together with another file's: calls server_show(). False: that could not be
	 * opened. Called from any thread. NULL: the server compares with no other files. */
	bool (*compare)(void *context, const char *path);
	void *context;
};

/* False: this build has no HTTP library. */
bool server_supported(void);

/* 0 or an errno. There is nothing to see yet: requests for answers wait for server_show(). */
int server_start(const struct server_settings *settings, struct server **out);

/* With the token. Stays the server's. */
const char *server_url(const struct server *s);
uint16_t server_port(const struct server *s);

/*
 * Shows a view instead of the one before. live: there will be another one. release(context) is
 * called, from any thread, when no request needs the view any more; also when this fails. False:
 * out of memory.
 */
bool server_show(struct server *s, const struct view *view, bool live,
		 void (*release)(void *context), void *context);

/* The view that is shown is the last one. */
void server_settle(struct server *s);

/* Waits for the requests that are being answered, at most that long. False: some still are, and use
 * their view; then the server, and that view, stay. NULL is allowed. */
bool server_stop(struct server *s, unsigned int milliseconds);

#endif
