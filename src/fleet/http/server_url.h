/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of a server that traces are pushed to:
 *
 *	clickhouse://HOST[:PORT]/DATABASE	a fleet's database, which answers questions, too
 *	otlp://HOST[:PORT][/PATH]		a collector of OpenTelemetry
 *	pyroscope://HOST[:PORT][/PATH]
 *
 * and clickhouses://, otlps://, pyroscopes:// for TLS. Never with a user or a password: those come from
 * the environment or a file.
 */
#ifndef MAYFLY_SERVER_URL_H
#define MAYFLY_SERVER_URL_H

#include <stdbool.h>

#define SERVER_URL_WHY 256
#define SERVER_URL_FORMS                                                                           \
	"clickhouse://HOST[:PORT]/DATABASE, otlp://HOST[:PORT] or pyroscope://HOST[:PORT]"

enum server_kind { SERVER_CLICKHOUSE, SERVER_OTLP, SERVER_PYROSCOPE };

/* Who asks or pushes. NULL: not given. */
struct server_login {
	const char *user, *password, *token;
};

struct server_url {
	enum server_kind kind;
	char base[500];	   /* http://HOST:PORT/[PATH/], for the HTTP client */
	char database[64]; /* ClickHouse: letters, digits and '_': needs no quotes in SQL */
	char shown[500];   /* for messages: what the user gave, without what follows a '?' */
};

/* Whether a text is meant as such an address, right or wrong. */
bool server_url_is(const char *text);
/* The kind of a text that is. */
enum server_kind server_url_kind(const char *text);

/* False: why[SERVER_URL_WHY] is a clause that says what is wrong, without repeating a password. */
bool server_url_read(const char *text, struct server_url *url, char *why);

#endif
