/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks, or pushes to, a server: see fleet_login.h. A password is never on a command line or in a message. */
#include "fleet/push/fleet_login.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fleet/database/fleet_schema.h"
#include "terminal/message.h"

#define LOGIN_BYTES 8192
#define TOKEN	    "Bearer "

const struct option_row fleet_login_rows[] = {
    {"auth", .argument = "FILE", OPTION_TEXT(struct fleet_login, auth), .words = OPTION_FILES,
     .help =
	 "a file, yours alone, with USER:PASSWORD, or for OTLP and Pyroscope 'Bearer TOKEN'; "
	 "without it variables count, MAYFLY_CLICKHOUSE_USER and MAYFLY_CLICKHOUSE_PASSWORD, or "
	 "MAYFLY_PUSH_USER and MAYFLY_PUSH_PASSWORD or MAYFLY_PUSH_TOKEN"},
    OPTION_END,
};

/* The first line of a file that nobody else may read. */
static bool read_file(const char *path, char *text)
{
	FILE *file = fopen(path, "re");
	struct stat status = {0};
	int error = !file || fstat(fileno(file), &status) ? errno : 0;
	bool shared = status.st_mode & 077;

	*text = 0;
	if (!error && !shared && !fgets(text, LOGIN_BYTES, file) && ferror(file))
		error = errno;
	if (file)
		fclose(file);
	if (error)
		return cli_fail("%s: %s", path, strerror(error));
	text[strcspn(text, "\r\n")] = 0;
	return !shared ||
	       cli_fail("%s: others may read it; 'chmod 600 %s' makes it yours alone", path, path);
}

/* Into *who, whose parts lie in text[LOGIN_BYTES] or in the environment. */
static bool take_login(const struct fleet_login *login, enum server_kind kind, char *text,
		       struct server_login *who)
{
	bool database = kind == SERVER_CLICKHOUSE;
	char *colon;

	*text = 0;
	if (!login->auth) {
		who->user = getenv(database ? "MAYFLY_CLICKHOUSE_USER" : "MAYFLY_PUSH_USER");
		who->password =
		    getenv(database ? "MAYFLY_CLICKHOUSE_PASSWORD" : "MAYFLY_PUSH_PASSWORD");
		who->token = database ? NULL : getenv("MAYFLY_PUSH_TOKEN");
		return true;
	}
	if (!read_file(login->auth, text))
		return false;
	colon = strchr(text, ':');
	if (!database && !strncmp(text, TOKEN, strlen(TOKEN))) {
		who->token = text + strlen(TOKEN);
	} else if (colon) {
		*colon = 0;
		who->user = text;
		who->password = colon + 1;
	} else {
		return cli_fail("%s: its first line is not USER:PASSWORD%s", login->auth,
				database ? "" : " or Bearer TOKEN");
	}
	return true;
}

bool server_address(const char *address, struct server_url *url)
{
	char why[SERVER_URL_WHY];

	if (!server_url_is(address))
		return cli_fail("'%s' is no address of a server, as " SERVER_URL_FORMS,
				strchr(address, '@') ? "..." : address);
	return server_url_read(address, url, why) ||
	       cli_fail("the %s's address: %s",
			server_url_kind(address) == SERVER_CLICKHOUSE ? "database" : "server", why);
}

struct clickhouse *fleet_connect(const char *address, const struct fleet_login *login)
{
	char text[LOGIN_BYTES], why[CLICKHOUSE_WHY];
	struct server_login who = {0};
	struct clickhouse *c = NULL;
	struct server_url url;

	if (!server_address(address, &url))
		return NULL;
	if (url.kind != SERVER_CLICKHOUSE) {
		cli_error("%s: only takes what is pushed; what can be asked is "
			  "clickhouse://HOST[:PORT]/DATABASE",
			  url.shown);
		return NULL;
	}
	if (take_login(login, url.kind, text, &who)) {
		c = clickhouse_open(&url, &who, why);
		if (!c)
			cli_error("%s: %s", url.shown, why);
	}
	explicit_bzero(text, sizeof(text));
	return c;
}

struct clickhouse *fleet_connect_checked(const char *address, const struct fleet_login *login)
{
	struct clickhouse *c = fleet_connect(address, login);

	if (!c || fleet_schema_check(c))
		return c;
	fleet_error(c);
	clickhouse_close(c);
	return NULL;
}

int fleet_error(const struct clickhouse *c)
{
	return cli_error("%s: %s", c->url.shown, c->why);
}

struct collector *collector_connect(const struct server_url *url, const struct fleet_login *login)
{
	char text[LOGIN_BYTES], why[PUSH_WHY];
	struct server_login who = {0};
	struct collector *f = NULL;

	if (take_login(login, url->kind, text, &who)) {
		f = collector_open(url, &who, why);
		if (!f)
			cli_error("%s: %s", url->shown, why);
	}
	explicit_bzero(text, sizeof(text));
	return f;
}
