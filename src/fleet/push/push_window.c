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
	if (fleet_push(p->c, trace, &facts, p->known, &there))
		return there ? PUSH_THERE : PUSH_GOOD;
	snprintf(why, PUSH_WHY, "%s", p->c->why);
	return PUSH_AWAY;
}

/* ---- a collector ---- */

static enum push_done to_collector(const struct push_to *p, const struct mayfly_trace *trace,
				   struct export_options *options, char *why)
{
	options->purpose = "";
	options->process = named_process_of(p->process, mayfly_trace_info(trace));
	return collector_push(p->collector, trace, options, why);
}

/*
 * The part of a running process's trace that comes next, as a question: blocks that were allocated in it,
 * and what is live at its end.
 *
 *	0	given->end_ns	     end, in whole ms
 *	├── pushed ──┼── this window ──┼── may still change ──
 */
static bool next_part(const struct push_to *p, const struct mayfly_info *info, bool ended,
		      struct window_given *given, struct mayfly_query *part)
{
	int64_t end_ns = ended ? info->duration_ns : info->duration_ns / EDGE_NS * EDGE_NS;

	if (given->start_real_ns != info->start_real_ns) {
		*given = (struct window_given){info->start_real_ns, 0};
		if (info->start_real_ns < p->ours_ns) {
			cli_error("process %u: it ran before; what it allocated until now is not "
				  "pushed",
				  info->pid);
			given->end_ns = end_ns;
		}
	}
	mayfly_query_defaults(part);
	part->metric = MAYFLY_LIVE;
	part->at_ns = ended ? MAYFLY_AT_END : end_ns;
	part->from_ns = given->end_ns;
	part->to_ns = ended ? INT64_MAX : end_ns;
	return end_ns > given->end_ns;
}

static enum push_done window_to_collector(const struct push_to *p, const struct mayfly_trace *trace,
					  bool ended, struct window_given *given, char *why)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_query part;
	struct export_options options = {.query = &part, .window = true};
	enum push_done done;

	if (info->snapshot_ns) {
		snprintf(why, PUSH_WHY,
			 "is a recording of snapshots, which has no single blocks to "
			 "make windows of");
		return PUSH_TRACE;
	}
	if (!next_part(p, info, ended, given, &part))
		return PUSH_THERE;
	done = to_collector(p, trace, &options, why);
	if (done == PUSH_GOOD || done == PUSH_REFUSED)
		given->end_ns = ended ? info->duration_ns : part.to_ns;
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
