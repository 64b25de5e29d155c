/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a server listens, as people write it:
 *
 *	9400, 127.0.0.1:9400, localhost:9400, [::1]:9400	this machine alone
 *	0.0.0.0:9400, 192.0.2.7:9400, [::]:9400			other machines, too
 *	unix:/run/mayfly/agent.sock				whom the socket's permissions admit
 *
 * The port 0 is any that is free.
 */
#ifndef MAYFLY_HTTP_PLACE_H
#define MAYFLY_HTTP_PLACE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct http_place {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un un;
	} address;
	socklen_t size;
	bool loopback; /* 127.0.0.1 or [::1], which only this machine reaches */
};

#define HTTP_PLACE_FORMS "PORT, ADDRESS:PORT or unix:/PATH"

/* False: it is none of these. */
bool http_place_read(const char *text, struct http_place *place);

static inline bool http_place_is(const char *text)
{
	struct http_place place;

	return http_place_read(text, &place);
}

static inline bool http_place_is_unix(const struct http_place *place)
{
	return place->address.any.sa_family == AF_UNIX;
}

/* A socket that listens there; *place then has the port that it got. An errno, or 0. Only this user and
 * this group reach one of Unix. What a server that is gone has left at its path is replaced. */
int http_place_listen(struct http_place *place, int *fd);
/* Closes it for newcomers: takes the path of a socket of Unix away. */
void http_place_leave(const struct http_place *place);

/* "http://127.0.0.1:9400/", or the path of the socket. */
#define HTTP_PLACE_TEXT 128
char *http_place_text(const struct http_place *place, char text[HTTP_PLACE_TEXT]);
/* 0: it has none. */
uint16_t http_place_port(const struct http_place *place);

#endif
