/* SPDX-License-Identifier: Apache-2.0 */
/* clickhouse://HOST/DATABASE?service=... in the place of a trace's file: a question to a fleet's database. */
#ifndef MAYFLY_FLEET_TRACE_H
#define MAYFLY_FLEET_TRACE_H

#include "cli/input/open_trace.h"
#include "fleet/database/clickhouse.h"
#include "fleet/database/fleet_filter.h"

/* Whether it is a question, and one without every= and per=. */
bool fleet_is_sum(const char *address);
/* A copy of what a command was given, for one that shows times: of an address that fleet_is_sum(), with
 * every=auto. NULL: out of memory. */
char *fleet_over_time(const char *address);
/* False after a line on stderr. */
bool fleet_load(const char *address, struct loaded_file *file);
/* The database that the question is put to, and what it asks. NULL after a line on stderr. */
struct clickhouse *fleet_ask_begin(const char *address, struct fleet_filter *filter);
void fleet_ask_end(struct clickhouse *c, struct fleet_filter *filter);
/* An answer with a condition of one's own. False after a line on stderr. */
bool fleet_fetch_file(struct clickhouse *c, const char *address, const struct fleet_filter *filter,
		      struct loaded_file *file);

#endif
