/* SPDX-License-Identifier: Apache-2.0 */
/* One trace, or a window, to a server: see push_window.h. */
#include "fleet/push/push_window.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "terminal/message.h"
#include "convert/export/exports.h"

/* Times of blocks are rounded down to some us, so windows that begin and end at whole ms neither
 * share a block nor lack one. */
#define EDGE_NS 1000000

_Static_assert(CLICKHOUSE_WHY <= PUSH_WHY && COLLECTOR_WHY <= PUSH_WHY, "all reasons fit");

static const char *why_not(const struct mayfly_info *info)
{
	if (info->absent & MAYFLY_ABSENT_START)
		return "does not say when it was recorded, as it comes from another tool";
	if (info->duration_ns < 0 || info->start_real_ns > INT64_MAX - info->duration_ns)
		return "has impossible times";
	if (info->absent & MAYFLY_ABSENT_ALLOCATIONS)
		return "has no blocks";
	return NULL;
}

/* ---- a database ---- */

static enum push_done push_database(const struct push_to *p, const struct mayfly_trace *trace,
				    uint64_t rss_bytes, char *why)
{
	size_t program = export_program(trace);
	char version[BUILD_ID_TEXT] = "";
	struct window_facts facts = {
	    .process = named_process_of(p->process, mayfly_trace_info(trace)),
	    .version = version,
	    .pushed_s = time(NULL),
	    .share = p->share,
	    .same_share = p->same_share,
	    .begin_ns = p->begin_ns,
	    .rss_bytes = rss_bytes,
	};
	bool there = false;

	if (getrandom(&facts.random, sizeof(facts.random), 0) != sizeof(facts.random)) {
		snprintf(why, PUSH_WHY, "no random numbers: %s", strerror(errno));
		return PUSH_TRACE;
	}
	if (program < mayfly_trace_info(trace)->modules)
		export_build_id(version, mayfly_trace_module(trace, program));
	if (fleet_push(p->c, &p->url, trace, &facts, p->known, &there, why))
		return PUSH_AWAY;
	return there ? PUSH_THERE : PUSH_GOOD;
}

/* ---- a collector ---- */

static enum push_done to_collector(const struct push_to *p, const struct mayfly_trace *trace,
				   struct export_options *options, char *why)
{
	options->purpose = "";
	options->process = named_process_of(p->process, mayfly_trace_info(trace));
	switch (collector_push(p->collector, trace, options, why)) {
	case COLLECTOR_GOOD:
		return PUSH_GOOD;
	case COLLECTOR_AWAY:
		return PUSH_AWAY;
	case COLLECTOR_REFUSED:
		return PUSH_REFUSED;
	case COLLECTOR_TRACE:
		break;
	}
	return PUSH_TRACE;
}

/* Where the first window of a process begins. */
static int64_t first_begin(const struct push_to *p, const struct mayfly_info *info, int64_t end_ns)
{
	if (info->start_real_ns >= p->ours_ns)
		return 0;
	cli_error("process %u: it ran before; what it allocated until now is not pushed",
		  info->pid);
	return end_ns;
}

static enum push_done window_to_collector(const struct push_to *p, const struct mayfly_trace *trace,
					  bool ended, struct window_given *given, char *why)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	int64_t end_ns = ended ? info->duration_ns : info->duration_ns / EDGE_NS * EDGE_NS;
	struct mayfly_query query;
	struct export_options options = {.query = &query, .window = true};
	enum push_done done;

	if (info->snapshot_ns) {
		snprintf(why, PUSH_WHY,
			 "is a recording of snapshots, which has no single blocks to "
			 "make windows of");
		return PUSH_TRACE;
	}
	if (given->start_real_ns != info->start_real_ns)
		*given = (struct window_given){info->start_real_ns, first_begin(p, info, end_ns)};
	if (end_ns <= given->end_ns)
		return PUSH_THERE;
	mayfly_query_defaults(&query);
	query.metric = MAYFLY_LIVE;
	query.at_ns = ended ? MAYFLY_AT_END : end_ns;
	query.from_ns = given->end_ns;
	query.to_ns = ended ? INT64_MAX : end_ns;
	done = to_collector(p, trace, &options, why);
	if (done == PUSH_GOOD || done == PUSH_REFUSED)
		given->end_ns = end_ns;
	return done;
}

/* ---- both ---- */

enum push_done push_trace(const struct push_to *p, const struct mayfly_trace *trace, char *why)
{
	const char *not = why_not(mayfly_trace_info(trace));
	struct mayfly_query query;
	struct export_options options = {.query = &query};

	mayfly_query_defaults(&query);
	if (!not )
		return p->c ? push_database(p, trace, 0, why)
			    : to_collector(p, trace, &options, why);
	snprintf(why, PUSH_WHY, "%s", not );
	return PUSH_TRACE;
}

enum push_done push_window(const struct push_to *p, const struct mayfly_trace *trace, bool ended,
			   struct window_given *given, uint64_t rss_bytes, char *why)
{
	if (p->c)
		return push_database(p, trace, rss_bytes, why);
	return window_to_collector(p, trace, ended, given, why);
}
