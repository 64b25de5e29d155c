/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a fleet's database in groups: mayfly fleet list, and mayfly report --by host. */
#ifndef MAYFLY_FLEET_LIST_H
#define MAYFLY_FLEET_LIST_H

#include "fleet/push/fleet_login.h"

/* by: service, version, host, program or label.KEY; address: a question. Prints a table, or JSON, and returns an
 * exit status. */
int fleet_list(const char *by, const char *address, const struct fleet_login *login, bool json);

#endif
