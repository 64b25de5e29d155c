/* SPDX-License-Identifier: Apache-2.0 */
/* What the resident memory consists of: see rss.h. */
#include "answer/rss.h"

#include <math.h>
#include <string.h>

const struct rss_part_name rss_part_names[RSS_PARTS] = {
    [RSS_LIVE] = {"live", "live blocks"},
    [RSS_OVERHEAD] = {"allocator_overhead", "allocator: headers, rounding, caches"},
    [RSS_METADATA] = {"allocator_metadata", "allocator: its own tables"},
    [RSS_FRAGMENTED] = {"allocator_fragmented", "allocator: free, in pages with live blocks"},
    [RSS_KEPT] = {"allocator_free", "allocator: free, kept for later"},
    [RSS_UNTOUCHED] = {"not_resident", "of these never touched, or given back"},
    [RSS_ANONYMOUS] = {"other_anonymous", "other anonymous memory"},
    [RSS_STACKS] = {"stacks", "stacks"},
    [RSS_FILES] = {"files", "files: code, data, mapped files"},
    [RSS_SHARED] = {"shared", "shared memory"},
    [RSS_OTHER] = {"other", "other mappings"},
    [RSS_OWN] = {"mayfly", "mayfly's spool"},
    [RSS_UNEXPLAINED] = {"not_explained", "not explained"},
};

/* ---- counters ---- */

const struct mayfly_counter *counter_named(const struct mayfly_trace *trace, const char *name)
{
	size_t counters = mayfly_trace_info(trace)->counters;

	for (size_t i = 0; i < counters; i++) {
		const struct mayfly_counter *c = mayfly_trace_counter(trace, i);

		if (c->points && !strcmp(c->name, name))
			return c;
	}
	return NULL;
}

/* The last point at or before this time; the first point for earlier times. */
static size_t point_at(const struct mayfly_counter *c, int64_t ns)
{
	size_t low = 0, high = c->points;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (c->time_ns[middle] <= ns)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static double value_at(const struct mayfly_trace *trace, const char *name, int64_t ns)
{
	const struct mayfly_counter *c = counter_named(trace, name);

	return c && c->time_ns[0] <= ns ? c->value[point_at(c, ns)] : 0;
}

double last_value(const struct mayfly_counter *c)
{
	return c->value[c->points - 1];
}

double largest_value(const struct mayfly_counter *c)
{
	double most = 0;

	for (size_t i = 0; i < c->points; i++)
		most = fmax(most, c->value[i]);
	return most;
}

/* The largest value in each step; a step without a point has the value before it. */
bool counter_steps(const struct mayfly_trace *trace, const char *name, double *value, size_t steps)
{
	const struct mayfly_counter *c = counter_named(trace, name);
	int64_t end = mayfly_trace_info(trace)->duration_ns;

	if (!c)
		return false;
	for (size_t i = 0; i < steps; i++)
		value[i] =
		    value_at(trace, name, (int64_t)((double)end * (double)(i + 1) / (double)steps));
	for (size_t i = 0; i < c->points; i++) {
		size_t k = (size_t)((double)c->time_ns[i] / (double)end * (double)steps);

		if (k < steps && value[k] < c->value[i])
			value[k] = c->value[i];
	}
	return true;
}

/* ---- the parts ---- */

/* Live blocks of malloc at this time. OCaml's heaps lie in such blocks. */
static int malloc_live_at(const struct mayfly_trace *trace, int64_t ns,
			  struct mayfly_estimate *live)
{
	struct mayfly_result *result;
	struct mayfly_query query;
	int error;

	mayfly_query_defaults(&query);
	query.metric = MAYFLY_LIVE;
	query.by = MAYFLY_BY_MODULE;
	query.at_ns = ns < 0 ? 0 : ns;
	if (mayfly_trace_info(trace)->ocaml_interval_bytes)
		query.heaps = 1u << MAYFLY_HEAP_MALLOC;
	error = mayfly_query_run(trace, &query, &result);
	if (error)
		return error;
	*live = result->total;
	mayfly_result_free(result);
	return 0;
}

/* The allocator's own figures. */
struct allocator_view {
	double in_use, metadata, fragmented, kept, mapped_blocks;
};

static bool ask_allocator(struct rss *r, struct rss_moment *m, struct allocator_view *v)
{
	static const struct {
		const char *name, *marker;
	} known[] = {{"jemalloc", "jemalloc.allocated"},
		     {"mimalloc", "mimalloc.committed"},
		     {"tcmalloc", "tcmalloc.allocated"},
		     {"glibc", "glibc.in_use"}};
	const struct mayfly_trace *t = r->trace;
	const struct mayfly_counter *c = NULL;
	int64_t ns;

	*v = (struct allocator_view){0};
	m->allocator_ns = -1;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known) && !c; i++) {
		c = counter_named(t, known[i].marker);
		r->allocator = c ? known[i].name : NULL;
	}
	if (!c)
		return false;
	m->allocator_ns = ns = c->time_ns[point_at(c, m->time_ns)];
	if (!strcmp(r->allocator, "glibc")) {
		v->mapped_blocks = value_at(t, "glibc.mmapped", ns);
		v->in_use = value_at(t, "glibc.in_use", ns) + v->mapped_blocks;
		v->kept = value_at(t, "glibc.free", ns);
		m->top = value_at(t, "glibc.top", ns);
	} else if (!strcmp(r->allocator, "jemalloc")) {
		double active = value_at(t, "jemalloc.active", ns); /* pages with live blocks */

		v->in_use = value_at(t, "jemalloc.allocated", ns);
		v->fragmented = active - v->in_use;
		v->metadata = value_at(t, "jemalloc.metadata", ns);
		v->kept = fmax(0, value_at(t, "jemalloc.resident", ns) - active - v->metadata);
	} else if (!strcmp(r->allocator, "tcmalloc")) {
		v->in_use = value_at(t, "tcmalloc.allocated", ns);
		v->kept = value_at(t, "tcmalloc.page_heap_free", ns) +
			  value_at(t, "tcmalloc.central_free", ns) +
			  value_at(t, "tcmalloc.transfer_free", ns) +
			  value_at(t, "tcmalloc.thread_free", ns);
	} else {
		/* It does not report what is in use and what is free. */
		struct mayfly_estimate live = {0};

		malloc_live_at(t, ns, &live);
		v->in_use = live.bytes.estimate;
		v->kept = fmax(0, value_at(t, "mimalloc.committed", ns) - v->in_use);
	}
	return true;
}

/* Resident memory of the heap's mappings beyond live blocks is free, whatever has happened since
 * glibc reported its figures. */
static void split_glibc(struct rss_moment *m, const struct allocator_view *v, double heap,
			double anonymous)
{
	double in_heap = fmax(0, m->part[RSS_LIVE] - v->mapped_blocks) + m->part[RSS_OVERHEAD];

	m->part[RSS_KEPT] = fmax(m->part[RSS_KEPT], heap - in_heap);
	m->part[RSS_ANONYMOUS] = fmax(0, anonymous - v->mapped_blocks);
}

/* Splits the resident memory of the heap's (and arenas') and of anonymous mappings. */
static int split_anonymous(struct rss *r, struct rss_moment *m, double heap, double anonymous)
{
	struct mayfly_estimate then = {0};
	struct allocator_view v;
	double rest;
	int error = malloc_live_at(r->trace, m->time_ns, &m->live);

	if (error)
		return error;
	m->part[RSS_LIVE] = m->live.bytes.estimate;
	if (ask_allocator(r, m, &v)) {
		/* Both at the time of the allocator's figures. */
		error = malloc_live_at(r->trace, m->allocator_ns, &then);
		m->part[RSS_OVERHEAD] = fmax(0, v.in_use - then.bytes.estimate);
		m->part[RSS_METADATA] = v.metadata;
		m->part[RSS_FRAGMENTED] = v.fragmented;
		/* It has got what was freed since then, and may have given it back. */
		m->part[RSS_KEPT] = v.kept + fmax(0, then.bytes.estimate - m->live.bytes.estimate);
		if (!strcmp(r->allocator, "glibc") && m->mappings)
			split_glibc(m, &v, heap, anonymous);
	}
	rest = heap + anonymous;
	for (unsigned int i = RSS_LIVE; i <= RSS_KEPT; i++)
		rest -= m->part[i];
	m->part[RSS_ANONYMOUS] = fmax(m->part[RSS_ANONYMOUS], rest);
	m->part[RSS_UNTOUCHED] = rest - m->part[RSS_ANONYMOUS];
	return error;
}

static int fill_moment(struct rss *r, struct rss_moment *m)
{
	const struct mayfly_trace *t = r->trace;
	int64_t ns = m->time_ns;
	double heap = value_at(t, "maps.heap.resident", ns);
	double arenas = value_at(t, "maps.arenas.resident", ns);
	double anonymous = value_at(t, "maps.anonymous.resident", ns);

	m->mappings = true;
	m->rss = value_at(t, "process.resident", ns);
	m->arenas = value_at(t, "maps.arenas.count", ns);
	m->stacks = value_at(t, "maps.stacks.count", ns);
	m->part[RSS_STACKS] = value_at(t, "maps.stacks.resident", ns);
	m->part[RSS_FILES] = value_at(t, "maps.files.resident", ns) +
			     value_at(t, "maps.data.resident", ns) +
			     value_at(t, "maps.copies.resident", ns);
	m->part[RSS_SHARED] = value_at(t, "maps.shared.resident", ns);
	m->part[RSS_OTHER] = value_at(t, "maps.other.resident", ns);
	m->part[RSS_OWN] = value_at(t, "maps.mayfly.resident", ns);
	m->part[RSS_UNEXPLAINED] = m->rss - value_at(t, "maps.resident", ns);
	return split_anonymous(r, m, heap + arenas, anonymous);
}

/* No recorder watched the process: what the agent saw at exit. */
static int fill_own(struct rss *r, struct rss_moment *m)
{
	double files = value_at(r->trace, "self.resident_files", m->time_ns);

	m->rss = value_at(r->trace, "self.resident", m->time_ns);
	m->part[RSS_FILES] = files;
	return split_anonymous(r, m, 0, m->rss - files);
}

/* The moments at which the mappings were read: the one with the largest RSS, and the last. */
static int find_moments(struct rss *r)
{
	const struct mayfly_counter *maps = counter_named(r->trace, "maps.resident");
	const struct mayfly_counter *own = counter_named(r->trace, "self.resident");
	const struct mayfly_counter *peak = counter_named(r->trace, "process.resident_peak");
	double most = -1;
	int error;

	if (peak)
		r->highest = last_value(peak);
	if (!maps) {
		r->moments = 1;
		r->moment[0].which = "end";
		r->moment[0].time_ns = own->time_ns[own->points - 1];
		return fill_own(r, &r->moment[0]);
	}
	r->moments = 2;
	r->moment[0].which = "peak";
	r->moment[1].which = "end";
	r->moment[1].time_ns = maps->time_ns[maps->points - 1];
	for (size_t i = 0; i < maps->points; i++) {
		double rss = value_at(r->trace, "process.resident", maps->time_ns[i]);

		if (rss > most) {
			most = rss;
			r->moment[0].time_ns = maps->time_ns[i];
		}
	}
	error = fill_moment(r, &r->moment[0]);
	return error ? error : fill_moment(r, &r->moment[1]);
}

bool rss_is_known(const struct mayfly_trace *trace)
{
	return counter_named(trace, "maps.resident") || counter_named(trace, "self.resident");
}

int rss_begin(struct rss *r, const struct mayfly_trace *trace)
{
	int64_t times[MAPPED_MOMENTS];
	int error;

	*r = (struct rss){.trace = trace};
	error = find_moments(r);
	for (size_t i = 0; i < r->moments; i++)
		times[i] = r->moment[i].time_ns;
	return error ? error : mapped_at(trace, times, r->moments, &r->mapped);
}

void rss_end(struct rss *r)
{
	mapped_free(&r->mapped);
}
