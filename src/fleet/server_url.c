/* SPDX-License-Identifier: Apache-2.0 */
/* The address of a fleet's database: see server_url.h. */
#include "fleet/server_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN  "clickhouse://"
#define SECURE "clickhouses://"
/* Of ClickHouse's HTTP interface. */
#define PLAIN_PORT  8123
#define SECURE_PORT 8443

#define NAME_BYTES                                                                                 \
	"abcdefghijklmnopqrstuvwxyz"                                                               \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
#define HOST_BYTES NAME_BYTES ".-"

bool server_url_is(const char *text)
{
	return !strncmp(text, PLAIN, strlen(PLAIN)) || !strncmp(text, SECURE, strlen(SECURE));
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

bool server_url_read(const char *text, struct server_url *url, char *why)
{
	bool secure = !strncmp(text, SECURE, strlen(SECURE));
	const char *at = text + strlen(secure ? SECURE : PLAIN);
	long port = secure ? SECURE_PORT : PLAIN_PORT;
	size_t host = host_length(at), name;
	char *end;

	if (strchr(at, '@'))
		return wrong(why, "an address has no user and password: set "
				  "MAYFLY_CLICKHOUSE_USER and MAYFLY_CLICKHOUSE_PASSWORD, or use "
				  "--auth FILE");
	if (!host || host > 250)
		return wrong(why, "it names no host: clickhouse://HOST[:PORT]/DATABASE");
	end = (char *)(size_t)(at + host);
	if (*end == ':') {
		port = strtol(end + 1, &end, 10);
		if (port < 1 || port > 65535)
			return wrong(why, "its port is not a number from 1 to 65535");
	}
	if (*end != '/')
		return wrong(why, "it names no database: clickhouse://HOST[:PORT]/DATABASE");
	name = strspn(++end, NAME_BYTES);
	if (!name || name >= sizeof(url->database) || strchr("0123456789", *end) ||
	    (end[name] && end[name] != '?'))
		return wrong(why, "a database's name has letters, digits and '_', and begins with "
				  "a letter");
	*url = (struct server_url){0};
	snprintf(url->base, sizeof(url->base), "%s://%.*s:%ld/", secure ? "https" : "http",
		 (int)host, at, port);
	memcpy(url->database, end, name);
	snprintf(url->shown, sizeof(url->shown), "%.*s", (int)(end + name - text), text);
	return true;
}
