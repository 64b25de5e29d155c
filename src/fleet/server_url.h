/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of a fleet's database: clickhouse://HOST[:PORT]/DATABASE, or clickhouses:// for TLS.
 * Never with a user or a password: those come from the environment or a file.
 */
#ifndef MAYFLY_SERVER_URL_H
#define MAYFLY_SERVER_URL_H

#include <stdbool.h>
#include <stddef.h>

#define SERVER_URL_WHY 256

struct server_url {
	char base[320];	   /* http://HOST:PORT/, for the HTTP client */
	char database[64]; /* letters, digits and '_': needs no quotes in SQL */
	char shown[400];   /* for messages: what the user gave, without what follows a '?' */
};

/* Whether a text is meant as such an address, right or wrong. */
bool server_url_is(const char *text);

/* False: why[SERVER_URL_WHY] is a clause that says what is wrong, without repeating a password. */
bool server_url_read(const char *text, struct server_url *url, char *why);

#endif
