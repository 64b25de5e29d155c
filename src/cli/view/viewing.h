/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Showing traces to a browser, for `mayfly view` and `mayfly record --view`: the server, and the
 * traces that it shows, one after the other.
 */
#ifndef MAYFLY_VIEWING_H
#define MAYFLY_VIEWING_H

#include <signal.h>
#include <stdio.h>

#include "cli/input/open_trace.h"
#include "serve/server.h"

struct viewing_settings {
	size_t port; /* 0: any */
	bool no_browser;
	const char *base; /* a trace to compare with, or NULL */
};

struct viewing {
	struct server *server;
	struct opened_trace base;
	const char *base_path; /* NULL: none */
	const char
	    *path; /* of a file that can be opened again, to compare it with others; or NULL */
	bool no_browser;
};

/* As open_trace(), and a question to a fleet's database is asked over time. */
bool viewing_open(const char *path, struct opened_trace *opened);

/* Opens the base and starts the server, which shows nothing yet. False after a line on stderr. */
bool viewing_start(struct viewing *v, const struct viewing_settings *settings);

/* Shows a trace and takes it over, also when that fails. live: there will be another one. False:
 * out of memory. */
bool viewing_show(struct viewing *v, const char *path, struct opened_trace *opened, bool live);

/* Says where `what` is to be seen; opens the browser. prefix: of each line; note: after the
 * address. */
void viewing_announce(const struct viewing *v, FILE *to, const char *prefix, const char *what,
		      const char *note);

/* Signals that end the server, for sigwait(). Its threads block all signals. */
void viewing_signals(sigset_t *set);

/* Releases everything, or, when an answer is still being made, ends the process with `status`. */
void viewing_end(struct viewing *v, int status);

#endif
