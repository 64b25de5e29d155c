/* SPDX-License-Identifier: Apache-2.0 */
/* One trace into a fleet's database: see push_window.h. */
#include "cli/push_window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "answer/trace_names.h"

const struct window_label push_surroundings[] = {
    {"pod", "POD_NAME"}, {"namespace", "POD_NAMESPACE"}, {"node", "NODE_NAME"}, {0}};

static const char *service_of(const struct push_to *p, const struct mayfly_info *info)
{
	const char *variable = getenv("MAYFLY_SERVICE");

	return p->service	       ? p->service
	       : variable && *variable ? variable
				       : path_base(info->program);
}

static const char *why_not(const struct mayfly_info *info)
{
	if (info->absent & MAYFLY_ABSENT_START)
		return "does not say when it was recorded, as it comes from another tool";
	if (info->absent & MAYFLY_ABSENT_ALLOCATIONS)
		return "has no blocks";
	return NULL;
}

enum push_done push_window(const struct push_to *p, const struct mayfly_trace *trace,
			   uint64_t rss_bytes, char *why)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	char version[65];
	struct window_facts facts = {
	    .service = service_of(p, info),
	    .version = version,
	    .host = p->host,
	    .label = p->label,
	    .labels = p->labels,
	    .pushed_s = time(NULL),
	    .share = p->share,
	    .same_share = p->same_share,
	    .begin_ns = p->begin_ns,
	    .rss_bytes = rss_bytes,
	};
	bool there = false;

	if (why_not(info)) {
		snprintf(why, CLICKHOUSE_WHY, "%s", why_not(info));
		return PUSH_TRACE;
	}
	while (!facts.push) {
		if (getrandom(&facts.push, sizeof(facts.push), 0) != sizeof(facts.push)) {
			snprintf(why, CLICKHOUSE_WHY, "no random numbers: %s", strerror(errno));
			return PUSH_TRACE;
		}
	}
	window_version(trace, version);
	if (fleet_push(p->c, &p->url, trace, &facts, p->known, &there, why))
		return PUSH_DATABASE;
	return there ? PUSH_THERE : PUSH_GOOD;
}
