/* SPDX-License-Identifier: Apache-2.0 */
/* A server as a command was told of it: its address, and who asks or pushes. */
#ifndef MAYFLY_FLEET_LOGIN_H
#define MAYFLY_FLEET_LOGIN_H

#include "fleet/database/clickhouse.h"
#include "fleet/push/collector_push.h"
#include "question/option_row.h"

struct fleet_login {
	const char *auth; /* --auth FILE, or NULL: the environment */
};

extern const struct option_row fleet_login_rows[];

/* False after a line on stderr. */
bool server_address(const char *address, struct server_url *url);

/* A database. NULL after a line on stderr. */
struct clickhouse *fleet_connect(const char *address, const struct fleet_login *login);
/* The same with tables of this version, to ask or to push to. */
struct clickhouse *fleet_connect_checked(const char *address, const struct fleet_login *login);
/* Says c->why on stderr; CLI_FAILED. */
int fleet_error(const struct clickhouse *c);
/* A server that is no database. NULL after a line on stderr. */
struct collector *collector_connect(const struct server_url *url, const struct fleet_login *login);

#endif
