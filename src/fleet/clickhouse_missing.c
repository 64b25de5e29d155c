/* SPDX-License-Identifier: Apache-2.0 */
/* clickhouse.h where mayfly is built without libcurl. */
#include <stdio.h>

#include "fleet/clickhouse.h"

struct clickhouse *clickhouse_open(const struct server_url *url,
				   const struct clickhouse_login *login, char *why)
{
	(void)url, (void)login;
	snprintf(
	    why, CLICKHOUSE_WHY,
	    "this build of mayfly has no libcurl; install libcurl4-openssl-dev and build again");
	return NULL;
}

void clickhouse_distributed(struct clickhouse *c)
{
	(void)c;
}

void clickhouse_close(struct clickhouse *c)
{
	(void)c;
}

enum clickhouse_failure clickhouse_run(struct clickhouse *c, const char *statement,
				       const void *data, size_t size, char **answer,
				       size_t *answer_size, char *why)
{
	(void)c, (void)statement, (void)data, (void)size, (void)answer, (void)answer_size,
	    (void)why;
	return CLICKHOUSE_REFUSED;
}

enum clickhouse_failure clickhouse_ask(struct clickhouse *c, const char *statement,
				       const struct clickhouse_table *table, char **answer,
				       size_t *answer_size, char *why)
{
	(void)c, (void)statement, (void)table, (void)answer, (void)answer_size, (void)why;
	return CLICKHOUSE_REFUSED;
}
