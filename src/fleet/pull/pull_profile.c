/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of processes that run: see pull_profile.h.
 *
 * A recording has everything since its start, so one look at the end is enough for a difference:
 *
 *	start of the first		 request		  request + seconds
 *	├────────────────────────────────┼────────────────────────┤
 *				  live here is subtracted,  from what is live here;
 *				  allocated: what lies between
 *
 * Several processes are merged by the clock.
 */
#include "fleet/pull/pull_profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "convert/export/exports.h"
#include "trace/read/reader.h"
#include "trace/rewrite/merge.h"

#define SECOND_NS 1000000000ll

struct profile {
	const struct pull_source *source;
	const struct pull_request *request;
	struct trace_merge *merge;
	struct live_trace *open; /* those that the merge still reads */
	size_t count, kept;
	int64_t asked_ns;
	int64_t first_real_ns,
	    first_ns; /* when the first of them started: since 1970, CLOCK_MONOTONIC */
	struct trace_buffer merged;
	struct mayfly_trace *trace; /* what is exported */
	char *why;
};

static enum pull_done because(struct profile *p, enum pull_done done, const char *why)
{
	snprintf(p->why, PULL_WHY, "%s", why);
	return done;
}

static bool is_asked_for(const struct pull_request *r, const struct pull_process *process)
{
	return (!r->pid || r->pid == process->pid) &&
	       (!*r->service || !strcmp(r->service, process->service));
}

/* ---- traces ---- */

static int open_one(struct profile *p, const struct pull_process *process)
{
	struct live_trace *t = &p->open[p->kept];
	int error = p->source->open(p->source->context, process, true, t);
	const struct mayfly_info *info;

	/* It has just ended, or has allocated nothing so far. */
	if (error)
		return error == MAYFLY_E_EMPTY || error == MAYFLY_E_NOT_A_TRACE || error > 0
			   ? 0
			   : error;
	live_trace_say_whole(t);
	info = mayfly_trace_info(t->trace);
	if (!p->kept++ || info->start_real_ns < p->first_real_ns) {
		p->first_real_ns = info->start_real_ns;
		p->first_ns = t->start_ns;
	}
	return 0;
}

static int open_all(struct profile *p, const struct pull_list *list)
{
	int error = 0;

	p->open = calloc(list->count + 1, sizeof(*p->open));
	if (!p->open)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; !error && i < list->count; i++) {
		if (!is_asked_for(p->request, &list->process[i]))
			continue;
		p->count++;
		error = open_one(p, &list->process[i]);
	}
	return error;
}

/* One trace of several. */
static int merge_all(struct profile *p)
{
	int error = 0;
	bool stay;

	p->merge = trace_merge_new(MERGE_BY_CLOCK);
	if (!p->merge)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; !error && i < p->kept; i++) {
		error = trace_merge_add(p->merge, p->open[i].trace, &stay);
		if (!error && !stay)
			live_trace_close(&p->open[i]);
	}
	if (!error)
		error = trace_merge_write(p->merge, "", trace_buffer_sink, &p->merged);
	if (!error)
		error = trace_open(p->merged.bytes, p->merged.used, &p->trace);
	return error;
}

static void end(struct profile *p)
{
	if (p->merged.bytes)
		mayfly_trace_close(p->trace);
	free(p->merged.bytes);
	trace_merge_free(p->merge);
	for (size_t i = 0; i < p->kept; i++)
		live_trace_close(&p->open[i]);
	free(p->open);
}

/* ---- the profile ---- */

static int put_sink(void *to, const void *bytes, size_t size)
{
	struct bytes *b = to;

	bytes_put(b, bytes, size);
	return b->failed ? MAYFLY_E_MEMORY : 0;
}

static int export_it(struct profile *p, struct bytes *to)
{
	int64_t seconds_ns = p->request->seconds * SECOND_NS;
	int64_t from_ns = p->asked_ns - p->first_ns;
	struct mayfly_query now, before;
	struct export_options options = {.purpose = "",
					 .query = &now,
					 .window = true,
					 .taken_ns = clock_ns(CLOCK_REALTIME),
					 .allocated_first = p->request->what == PULL_ALLOCS};

	mayfly_query_defaults(&now);
	now.metric = MAYFLY_LIVE;
	now.at_ns = MAYFLY_AT_END;
	if (seconds_ns) {
		now.from_ns = from_ns > 0 ? from_ns : 0;
		now.at_ns = now.to_ns = from_ns + seconds_ns;
		before = now;
		before.at_ns = now.from_ns;
		options.before = &before;
	}
	return export_run(export_pprof, p->trace, &options, put_sink, to);
}

static enum pull_done make(struct profile *p, const struct pull_list *list, struct bytes *to)
{
	int error = open_all(p, list);

	if (!error && !p->count)
		return because(p, PULL_NOBODY,
			       list->count ? "no such process is recorded"
					   : "no process is recorded");
	if (!error && !p->kept)
		return because(p, PULL_NOT_NOW, "nothing is recorded so far");
	if (!error && p->kept == 1)
		p->trace = p->open[0].trace;
	else if (!error)
		error = merge_all(p);
	if (error == MAYFLY_E_RANGE)
		return because(
		    p, PULL_NOT_THIS,
		    "these processes are sampled in different ways, and have no sum; ask for one "
		    "with pid=N");
	if (!error && p->request->seconds && mayfly_trace_info(p->trace)->snapshot_ns)
		return because(p, PULL_NOT_THIS,
			       "a recording of snapshots has no single blocks, and no seconds=N");
	if (!error)
		error = export_it(p, to);
	return error ? because(p, PULL_FAILED, mayfly_error_text(error)) : PULL_GOOD;
}

enum pull_done pull_profile(const struct pull_source *source, const struct pull_request *request,
			    int64_t asked_ns, struct bytes *to, char why[PULL_WHY])
{
	struct profile p = {.source = source, .request = request, .asked_ns = asked_ns, .why = why};
	struct pull_list list = {0};
	enum pull_done done = PULL_FAILED;

	*why = 0;
	if (source->list(source->context, &list))
		done = make(&p, &list, to);
	else
		because(&p, PULL_FAILED, "out of memory");
	end(&p);
	pull_list_free(&list);
	return done;
}
