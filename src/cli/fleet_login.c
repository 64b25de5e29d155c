/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks a fleet's database: see fleet_login.h. A password is never on a command line or in a message. */
#include "cli/fleet_login.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"

#define LOGIN_BYTES 1024

const struct option_row fleet_login_rows[] = {
    {"auth", .argument = "FILE", OPTION_TEXT(struct fleet_login, auth), .words = OPTION_FILES,
     .help = "a file, yours alone, with USER:PASSWORD; without it MAYFLY_CLICKHOUSE_USER and "
	     "MAYFLY_CLICKHOUSE_PASSWORD count"},
    OPTION_END,
};

static bool read_file(const char *path, char *text)
{
	FILE *file = fopen(path, "re");
	struct stat status;
	bool read = file && !fstat(fileno(file), &status);
	int error = errno;

	if (read && status.st_mode & 077) {
		fclose(file);
		return cli_fail("%s: others may read it; 'chmod 600 %s' makes it yours alone", path,
				path);
	}
	*text = 0;
	if (read)
		read = fgets(text, LOGIN_BYTES, file) != NULL || !ferror(file);
	if (file)
		fclose(file);
	if (!read)
		return cli_fail("%s: %s", path, strerror(error));
	text[strcspn(text, "\r\n")] = 0;
	return strchr(text, ':') || cli_fail("%s: its first line is not USER:PASSWORD", path);
}

struct clickhouse *fleet_connect(const char *address, const struct fleet_login *login,
				 struct server_url *url)
{
	struct clickhouse_login who = {getenv("MAYFLY_CLICKHOUSE_USER"),
				       getenv("MAYFLY_CLICKHOUSE_PASSWORD")};
	char text[LOGIN_BYTES], why[CLICKHOUSE_WHY];
	struct clickhouse *c;

	if (!server_url_is(address)) {
		cli_error("'%s' is no address of a fleet's database, as "
			  "clickhouse://HOST[:PORT]/DATABASE",
			  strchr(address, '@') ? "..." : address);
		return NULL;
	}
	if (!server_url_read(address, url, why)) {
		cli_error("the database's address: %s", why);
		return NULL;
	}
	if (login->auth) {
		if (!read_file(login->auth, text))
			return NULL;
		who.user = text;
		who.password = strchr(text, ':') + 1;
		*strchr(text, ':') = 0;
	}
	c = clickhouse_open(url, &who, why);
	explicit_bzero(text, sizeof(text));
	if (!c)
		cli_error("%s: %s", url->shown, why);
	return c;
}
