/* SPDX-License-Identifier: Apache-2.0 */
/* The address of a server: see server_url.h. */
#include "fleet/http/server_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scheme {
	const char *begin;
	enum server_kind kind;
	bool secure;
	long port; /* of the server's HTTP interface, by default */
};

static const struct scheme schemes[] = {
    {"clickhouse://", SERVER_CLICKHOUSE, false, 8123},
    {"clickhouses://", SERVER_CLICKHOUSE, true, 8443},
    {"otlp://", SERVER_OTLP, false, 4318},
    {"otlps://", SERVER_OTLP, true, 4318},
    {"pyroscope://", SERVER_PYROSCOPE, false, 4040},
    {"pyroscopes://", SERVER_PYROSCOPE, true, 4040},
};

#define NAME_BYTES                                                                                 \
	"abcdefghijklmnopqrstuvwxyz"                                                               \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define HOST_BYTES NAME_BYTES ".-"
#define PATH_BYTES HOST_BYTES "/~"

#define HOST_MOST 250
#define PATH_MOST 200

static const struct scheme *scheme_of(const char *text)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		if (!strncmp(text, schemes[i].begin, strlen(schemes[i].begin)))
			return &schemes[i];
	return NULL;
}

bool server_url_is(const char *text)
{
	return scheme_of(text) != NULL;
}

enum server_kind server_url_kind(const char *text)
{
	return scheme_of(text)->kind;
}

static bool wrong(char *why, const char *what)
{
	snprintf(why, SERVER_URL_WHY, "%s", what);
	return false;
}

/* "[::1]" or a name; its length. 0: it is neither. */
static size_t host_length(const char *at)
{
	size_t n;

	if (*at != '[')
		return strspn(at, HOST_BYTES);
	n = strspn(at + 1, "0123456789abcdefABCDEF:.");
	return at[1 + n] == ']' ? n + 2 : 0;
}

/* NULL: it is wrong. */
static const char *read_database(const char *at, struct server_url *url, char *why)
{
	size_t name;

	if (*at != '/')
		return wrong(why, "it names no database: clickhouse://HOST[:PORT]/DATABASE"), NULL;
	name = strspn(++at, NAME_BYTES);
	if (!name || name >= sizeof(url->database) || strchr("0123456789", *at) ||
	    (at[name] && at[name] != '?'))
		return wrong(why, "a database's name has letters, digits and '_', and begins with "
				  "a letter"),
		       NULL;
	memcpy(url->database, at, name);
	return at + name;
}

static const char *read_path(const char *at, struct server_url *url, char *why)
{
	size_t length = *at == '/' ? strspn(at, PATH_BYTES) : 0, base = strlen(url->base);

	if (at[length])
		return wrong(why,
			     "after HOST[:PORT] only a path may follow, of letters, digits and "
			     "-._~"),
		       NULL;
	if (length > PATH_MOST)
		return wrong(why, "its path is too long"), NULL;
	if (length > 1)
		snprintf(url->base + base, sizeof(url->base) - base, "%s%s", at + 1,
			 at[length - 1] == '/' ? "" : "/");
	return at + length;
}

bool server_url_read(const char *text, struct server_url *url, char *why)
{
	const struct scheme *scheme = scheme_of(text);
	const char *at = text + strlen(scheme->begin);
	long port = scheme->port;
	size_t host = host_length(at);
	const char *rest;
	char *end;

	if (strchr(at, '@'))
		return wrong(why, scheme->kind == SERVER_CLICKHOUSE
				      ? "an address has no user and password: set "
					"MAYFLY_CLICKHOUSE_USER and MAYFLY_CLICKHOUSE_PASSWORD, or "
					"use --auth FILE"
				      : "an address has no user and password: set MAYFLY_PUSH_USER "
					"and MAYFLY_PUSH_PASSWORD, or use --auth FILE");
	if (!host || host > HOST_MOST)
		return wrong(why, "it names no host: " SERVER_URL_FORMS);
	end = (char *)(size_t)(at + host);
	if (*end == ':') {
		port = strtol(end + 1, &end, 10);
		if (port < 1 || port > 65535)
			return wrong(why, "its port is not a number from 1 to 65535");
	}
	*url = (struct server_url){.kind = scheme->kind};
	snprintf(url->base, sizeof(url->base), "%s://%.*s:%ld/", scheme->secure ? "https" : "http",
		 (int)host, at, port);
	rest = scheme->kind == SERVER_CLICKHOUSE ? read_database(end, url, why)
						 : read_path(end, url, why);
	if (rest)
		snprintf(url->shown, sizeof(url->shown), "%.*s", (int)(rest - text), text);
	return rest != NULL;
}
