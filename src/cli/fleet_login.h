/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet's database as a command was told of it: its address, and who asks. */
#ifndef MAYFLY_FLEET_LOGIN_H
#define MAYFLY_FLEET_LOGIN_H

#include "fleet/clickhouse.h"
#include "question/option_row.h"

struct fleet_login {
	const char *auth; /* --auth FILE, or NULL: the environment */
};

extern const struct option_row fleet_login_rows[];

/* NULL after a line on stderr. */
struct clickhouse *fleet_connect(const char *address, const struct fleet_login *login,
				 struct server_url *url);

#endif
