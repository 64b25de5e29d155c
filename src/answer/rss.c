/* SPDX-License-Identifier: Apache-2.0 */
/* What the resident memory consists of: see rss.h. */
#include "answer/rss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/counter_values.h"
#include "query/query_two.h"

const struct rss_name rss_fact_names[FACTS] = {
    [FACT_LIVE] = {"live", "live blocks"},
    [FACT_SAMPLER] = {"ocaml_sampler", "of that tables of OCaml's sampler, for mayfly"},
    [FACT_IN_USE] = {"in_use", "in use"},
    [FACT_LARGE] = {"in_own_mappings", "of that in mappings of their own"},
    [FACT_FREE] = {"free", "free, kept"},
    [FACT_TOP] = {"free_at_top", "of that at the end of the heap"},
    [FACT_CACHED] = {"free_in_caches", "free, in caches"},
    [FACT_FRAGMENTED] = {"free_in_used_pages", "free, in pages with live blocks"},
    [FACT_METADATA] = {"metadata", "tables of the allocator"},
    [FACT_COMMITTED] = {"committed", "committed for blocks"},
    [FACT_ABSENT] = {"live_not_resident", "live blocks that are not resident"},
    [FACT_EMPTY] = {"returnable", "whole free pages that are resident"},
};

/* ---- blocks ---- */

static struct mayfly_query question(const struct mayfly_trace *trace, enum mayfly_metric metric)
{
	struct mayfly_query query;

	mayfly_query_defaults(&query);
	query.metric = metric;
	/* OCaml's heaps lie in blocks of malloc. */
	if (mayfly_trace_info(trace)->ocaml_interval_bytes)
		query.heaps = 1u << MAYFLY_HEAP_MALLOC;
	return query;
}

static int ask(const struct mayfly_trace *trace, enum mayfly_metric metric, int64_t from_ns,
	       struct mayfly_estimate *total)
{
	struct mayfly_query query = question(trace, metric);
	int64_t time_ns;

	query.from_ns = from_ns;
	return query_total(trace, &query, total, &time_ns);
}

/* What is live at each moment, or only what `focus` keeps of it. */
static int ask_live(const struct rss *r, const struct mayfly_match *focus,
		    struct mayfly_estimate total[RSS_MOMENTS])
{
	struct mayfly_query query = question(r->trace, MAYFLY_LIVE);
	int64_t at_ns[RSS_MOMENTS];

	query.focus = *focus;
	for (size_t i = 0; i < r->moments; i++)
		at_ns[i] = r->moment[i].time_ns < 0 ? 0 : r->moment[i].time_ns;
	return query_live_totals(r->trace, &query, at_ns, r->moments, total);
}

static int is_sampler(void *context, const char *text)
{
	(void)context;
	return !strncmp(text, "caml_memprof_", 13);
}

/* mayfly has started OCaml's sampler, so its tables are none of the program's blocks (overlap.c). */
static int find_sampler(struct rss *r)
{
	struct mayfly_estimate tables[RSS_MOMENTS] = {0};
	int error = 0;

	if (mayfly_trace_info(r->trace)->ocaml_interval_bytes)
		error = ask_live(r, &(struct mayfly_match){is_sampler, NULL}, tables);
	for (size_t i = 0; i < r->moments; i++)
		r->moment[i].fact[FACT_SAMPLER] = tables[i].bytes.estimate;
	return error;
}

/* ---- the allocator's own figures ---- */

static void ask_glibc(const struct mayfly_trace *t, int64_t ns, double *fact)
{
	fact[FACT_LARGE] = counter_at(t, "glibc.mmapped", ns);
	fact[FACT_IN_USE] = counter_at(t, "glibc.in_use", ns) + fact[FACT_LARGE];
	fact[FACT_FREE] = counter_at(t, "glibc.free", ns);
	fact[FACT_TOP] = counter_at(t, "glibc.top", ns);
}

static void ask_jemalloc(const struct mayfly_trace *t, int64_t ns, double *fact)
{
	double active = counter_at(t, "jemalloc.active", ns); /* pages with live blocks */

	fact[FACT_IN_USE] = counter_at(t, "jemalloc.allocated", ns);
	fact[FACT_FRAGMENTED] = active - fact[FACT_IN_USE];
	fact[FACT_METADATA] = counter_at(t, "jemalloc.metadata", ns);
	fact[FACT_FREE] =
	    fmax(0, counter_at(t, "jemalloc.resident", ns) - active - fact[FACT_METADATA]);
}

static void ask_tcmalloc(const struct mayfly_trace *t, int64_t ns, double *fact)
{
	fact[FACT_IN_USE] = counter_at(t, "tcmalloc.allocated", ns);
	fact[FACT_FREE] = counter_at(t, "tcmalloc.page_heap_free", ns);
	fact[FACT_CACHED] = counter_at(t, "tcmalloc.central_free", ns) +
			    counter_at(t, "tcmalloc.transfer_free", ns) +
			    counter_at(t, "tcmalloc.thread_free", ns);
}

static void ask_mimalloc(const struct mayfly_trace *t, int64_t ns, double *fact)
{
	fact[FACT_COMMITTED] = counter_at(t, "mimalloc.committed", ns);
}

static const struct {
	const char *name, *marker;
	void (*ask)(const struct mayfly_trace *t, int64_t ns, double *fact);
} allocators[] = {{"jemalloc", "jemalloc.allocated", ask_jemalloc},
		  {"mimalloc", "mimalloc.committed", ask_mimalloc},
		  {"tcmalloc", "tcmalloc.allocated", ask_tcmalloc},
		  {"glibc", "glibc.in_use", ask_glibc}};

static void ask_allocator(struct rss *r, struct rss_moment *m)
{
	m->allocator_ns = -1;
	for (size_t i = 0; i < sizeof(allocators) / sizeof(*allocators); i++) {
		const struct mayfly_counter *c = counter_named(r->trace, allocators[i].marker);

		if (!c)
			continue;
		r->allocator = allocators[i].name;
		m->allocator_ns = counter_nearest(c, m->time_ns);
		allocators[i].ask(r->trace, m->allocator_ns, m->fact);
		return;
	}
}

/* ---- what can be concluded ---- */

#define PAGE_BYTES 4096.0
/* Blocks in a thread's cache of glibc look live to malloc_trim(): 7 in each of 64 classes. */
#define CACHED_BLOCKS 448
#define BLOCK_PAGES   2 /* that a small block may lie in */

/*
 * The heap of glibc (brk) holds its blocks only, so resident pages there in which no live block lies
 * are free. This counts what malloc_trim() returns of them, at least, from the pages with live
 * blocks at the end of an exact trace:
 *
 *	resident pages of the heap
 *	- pages with live blocks at the end, and those of blocks that were freed before it
 *	- a page at each end of a run of pages with live blocks: the allocator's words between blocks
 *	- pages of blocks that threads may have in their caches
 *
 * In other arenas malloc_trim() does not return the end, so they do not count. The fact stays
 * unknown if the trace cannot show it.
 */
static int find_empty(const struct rss *r, struct rss_moment *m)
{
	const struct mayfly_info *info = mayfly_trace_info(r->trace);
	const struct mayfly_fragmentation *f = mayfly_trace_fragmentation(r->trace, true);
	struct mayfly_estimate since = {0}, end = {0};
	double freed, freed_bytes, runs, pages, threads;
	int error;

	if (!f || !r->by_mapping || !m->at_end || info->mode != MAYFLY_EXACT || info->snapshot_ns ||
	    (info->heaps & ~(1u << MAYFLY_HEAP_MAPPING)) != 1u << MAYFLY_HEAP_MALLOC ||
	    info->dropped_samples || !r->allocator || strcmp(r->allocator, "glibc") != 0)
		return 0;
	for (size_t i = 0; i < r->mapped.rows; i++)
		if (!strcmp(r->mapped.row[i].access, "brk"))
			return 0;
	error = ask(r->trace, MAYFLY_ALLOCATED, m->time_ns, &since);
	if (!error)
		error = ask(r->trace, MAYFLY_LIVE, 0, &end);
	freed = m->live.blocks.estimate + since.blocks.estimate - end.blocks.estimate;
	freed_bytes = m->live.bytes.estimate + since.bytes.estimate - end.bytes.estimate;
	threads = fmax(1, counter_at(r->trace, "process.threads", m->time_ns));
	runs = (double)(f->runs ? f->runs : f->pages) + freed + 1;
	pages = (double)f->pages + BLOCK_PAGES * freed + freed_bytes / PAGE_BYTES + 2 * runs +
		BLOCK_PAGES * CACHED_BLOCKS * threads;
	m->fact[FACT_EMPTY] = fmax(0, m->kind[RSS_HEAP] - PAGE_BYTES * pages);
	return error;
}

/* More is live than what is resident where blocks can be. */
static void find_absent(struct rss_moment *m)
{
	double room = m->kind[RSS_HEAP] + m->kind[RSS_ARENAS] + m->kind[RSS_ALLOCATOR] +
		      m->kind[RSS_ANONYMOUS] + m->kind[RSS_STACKS] + m->kind[RSS_SHARED];

	m->fact[FACT_ABSENT] = fmax(0, m->live.bytes.low - room);
}

static int find_facts(struct rss *r)
{
	struct mayfly_estimate live[RSS_MOMENTS];
	int error = ask_live(r, &(struct mayfly_match){0}, live);

	for (size_t k = 0; k < r->moments && !error; k++) {
		struct rss_moment *m = &r->moment[k];

		for (size_t i = 0; i < FACTS; i++)
			m->fact[i] = NAN;
		m->live = live[k];
		m->fact[FACT_LIVE] = m->live.bytes.estimate;
		ask_allocator(r, m);
		find_absent(m);
		error = find_empty(r, m);
	}
	return error ? error : find_sampler(r);
}

/* ---- the moments ---- */

/* The moments at which the mappings were read: the one with most resident, and the last. */
static void find_read_moments(struct rss *r, const struct mayfly_counter *maps)
{
	double most = -1;

	r->moments = 2;
	r->moment[0].which = "peak";
	r->moment[1].which = "end";
	r->moment[1].at_end = true;
	r->moment[1].time_ns = maps->time_ns[maps->points - 1];
	for (size_t i = 0; i < maps->points; i++) {
		double rss = counter_at(r->trace, "process.resident", maps->time_ns[i]);

		if (rss > most) {
			most = rss;
			r->moment[0].time_ns = maps->time_ns[i];
		}
	}
	for (size_t i = 0; i < 2; i++)
		r->moment[i].rss = counter_at(r->trace, "process.resident", r->moment[i].time_ns);
}

static void find_moments(struct rss *r)
{
	const struct mayfly_counter *maps = counter_named(r->trace, "maps.resident");
	const struct mayfly_counter *own = counter_named(r->trace, "self.resident");
	const struct mayfly_counter *peak = counter_named(r->trace, "process.resident_peak");

	if (peak)
		r->highest = last_value(peak);
	r->by_mapping = mayfly_trace_residency(r->trace, false) != NULL;
	r->by_kind = r->by_mapping || maps;
	if (r->by_mapping) {
		r->moments = 2;
		for (size_t i = 0; i < 2; i++) {
			const struct mayfly_residency *m = mayfly_trace_residency(r->trace, i);

			r->moment[i] = (struct rss_moment){.which = i ? "end" : "peak",
							   .time_ns = m->time_ns,
							   .rss = (double)m->resident,
							   .at_end = i};
		}
	} else if (maps) {
		find_read_moments(r, maps);
	} else {
		r->moments = 1;
		r->moment[0].which = "end";
		r->moment[0].at_end = true;
		r->moment[0].time_ns = own->time_ns[own->points - 1];
		r->moment[0].rss = last_value(own);
	}
}

bool rss_is_known(const struct mayfly_trace *trace)
{
	return mayfly_trace_residency(trace, false) || counter_named(trace, "maps.resident") ||
	       counter_named(trace, "self.resident");
}

int rss_begin(struct rss *r, const struct mayfly_trace *trace)
{
	struct mayfly_estimate peak = {0};
	int64_t times[RSS_MOMENTS];
	int error;

	*r = (struct rss){.trace = trace, .live_peak = -1};
	find_moments(r);
	r->data_apart = r->by_mapping || counter_named(trace, "maps.data.resident");
	for (size_t i = 0; i < r->moments; i++)
		times[i] = r->moment[i].time_ns;
	error = mapped_at(trace, times, r->moments, &r->mapped);
	if (!error && !rss_find_rows(r))
		error = MAYFLY_E_MEMORY;
	if (!error)
		error = find_facts(r);
	if (!error)
		error = ask(trace, MAYFLY_PEAK, 0, &peak);
	r->live_peak = peak.bytes.high;
	return error;
}

void rss_end(struct rss *r)
{
	free(r->row);
	mapped_free(&r->mapped);
}
