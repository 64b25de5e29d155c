/* SPDX-License-Identifier: Apache-2.0 */
/* clickhouse://HOST/DATABASE?service=... in the place of a trace's file: a question to a fleet's database. */
#ifndef MAYFLY_FLEET_TRACE_H
#define MAYFLY_FLEET_TRACE_H

#include "cli/open_trace.h"

/* A copy of what a command was given, for one that shows times: of an address that does not say every=, with
 * every=auto. NULL: out of memory. */
char *fleet_over_time(const char *address);
/* False after a line on stderr. */
bool fleet_load(const char *address, struct loaded_file *file);

#endif
