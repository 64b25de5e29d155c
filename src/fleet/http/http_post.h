/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP's POST, through libcurl, which is loaded when it is first needed. For one thread at a time. No
 * message shows a header or a login.
 */
#ifndef MAYFLY_HTTP_POST_H
#define MAYFLY_HTTP_POST_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_WHY 600

struct http;

/* An answer of more bytes than answer_most counts as none. NULL: why[HTTP_WHY] says so. */
struct http *http_open(size_t answer_most, char *why);
void http_close(struct http *h);

/* From now on with each request; all is copied. False: why[] says so. */
bool http_header(struct http *h, const char *name, const char *value, char *why);
/* Basic authentication. */
bool http_login(struct http *h, const char *user, const char *password, char *why);

/* From now on, a server that is silent for long counts as busy, not as away. */
void http_patient(struct http *h);

/* A text as a part of an address, for the caller to free. NULL: out of memory. */
char *http_escape(struct http *h, const char *text);

struct http_request {
	const char *address; /* http:// or https:// */
	const char *type;    /* of the body; NULL: no word about it */
	const void *body;
	size_t size;
	bool pack; /* the body is sent with gzip */
};

struct http_answer {
	long status; /* 0: there was no answer */
	char
	    *text; /* with a zero at its end, for the caller to free; never NULL if there was one */
	size_t size; /* without that */
	char type[64];
};

/* Sends it once. False: why[] is one line without a line break, and *answer is empty. */
bool http_post(struct http *h, const struct http_request *request, struct http_answer *answer,
	       char *why);

/* The first line of what a server said, without bytes that are none of a text. why[HTTP_WHY]. */
void http_say(char *why, const char *before, const char *text);

#endif
