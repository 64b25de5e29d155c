/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rss_advice.c: what to do about the resident memory: see rss.h. Each sentence states what the trace
 * shows, and promises no more: a sampled trace does not tell which pages are free, and a figure of
 * the allocator is its own.
 */
#include "answer/rss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/counter_values.h"
#include "answer/figures.h"
#include "answer/text_format.h"
#include "answer/trace_names.h"

#define WORTH_A_WORD 0.25 /* of RSS */
#define MOSTLY	     0.5
#define LEAST_BYTES  (1u << 20)
#define FAR_NS	     3000000000ll /* between two times at which the allocator was asked */
#define WIDTH	     512

static bool is_much(const struct rss_moment *m, double bytes)
{
	return bytes >= WORTH_A_WORD * m->rss; /* false for NAN */
}

static double heap_of(const struct rss_moment *m)
{
	return m->kind[RSS_HEAP] + m->kind[RSS_ARENAS] + m->kind[RSS_ALLOCATOR];
}

/* ---- the heap ---- */

/* The smaller one of what glibc said before and after the moment. NAN: not asked near it. */
static double said_around(const struct rss *r, const struct rss_moment *m, const char *name)
{
	const struct mayfly_counter *asked = counter_named(r->trace, "glibc.in_use");
	const struct mayfly_counter *c = counter_named(r->trace, name);
	int64_t before = -1, after = -1;

	for (size_t i = 0; asked && i < asked->points; i++) {
		if (asked->time_ns[i] <= m->time_ns)
			before = asked->time_ns[i];
		else if (after < 0)
			after = asked->time_ns[i];
	}
	if (!c || before < 0 || after < 0 || after - before > FAR_NS)
		return NAN;
	return fmin(counter_at(r->trace, name, before), counter_at(r->trace, name, after));
}

/* The part of the free memory at the end of the heap that must be resident. */
static double resident_top(const struct rss *r, const struct rss_moment *m)
{
	double size = counter_at(r->trace, "maps.heap.size", m->time_ns);

	return said_around(r, m, "glibc.top") - fmax(0, size - m->kind[RSS_HEAP]);
}

/* Memory of arenas that others could have used: they hold more than was ever live at once. Sharing
 * two of them cannot save what lies in two. */
static double needless_arenas(const struct rss *r, const struct rss_moment *m)
{
	double in_use = m->fact[FACT_IN_USE], live = m->live.bytes.high;
	double overhead = in_use > live && live > 0 ? in_use / live : 1;

	if (!(r->live_peak >= 0) || m->arenas <= 2)
		return 0;
	return fmin(m->besides_two,
		    m->kind[RSS_HEAP] + m->kind[RSS_ARENAS] - r->live_peak * fmin(2, overhead));
}

static bool advise_glibc(const struct rss *r, const struct rss_moment *m, char *text, size_t size)
{
	char bytes[FIGURE_TEXT], live[FIGURE_TEXT];
	double top = resident_top(r, m), arenas = needless_arenas(r, m);

	if (is_much(m, top)) {
		text_format(
		    text, size,
		    "At least %s of resident memory is free at the end of glibc's heap: "
		    "malloc_trim(0) returns it; with a smaller M_TRIM_THRESHOLD free() does.",
		    text_bytes(bytes, sizeof(bytes), top));
		return true;
	}
	if (is_much(m, m->fact[FACT_EMPTY])) {
		text_format(
		    text, size,
		    "At least %s of glibc's heap are whole free pages: malloc_trim(0) returns "
		    "them.",
		    text_bytes(bytes, sizeof(bytes), m->fact[FACT_EMPTY]));
		return true;
	}
	if (!is_much(m, arenas))
		return false;
	text_format(text, size,
		    "glibc's heap and its %.0f arenas hold %s, but at most %s were ever live at "
		    "once: with MALLOC_ARENA_MAX=2 in the environment, threads reuse what others "
		    "have freed.",
		    m->arenas, text_bytes(bytes, sizeof(bytes), heap_of(m)),
		    text_bytes(live, sizeof(live), r->live_peak));
	return true;
}

/* The pages that live blocks lie in, and how full these are: in exact traces, at the end. */
static bool advise_scattered(const struct rss *r, const struct rss_moment *m, char *text,
			     size_t size)
{
	const struct mayfly_fragmentation *f =
	    m->at_end ? mayfly_trace_fragmentation(r->trace, true) : NULL;
	double pages = f ? (double)f->pages * (double)f->page_bytes : 0;
	char held[FIGURE_TEXT], live[FIGURE_TEXT];

	if (!f || !is_much(m, pages - (double)f->bytes) || (double)f->bytes > MOSTLY * pages)
		return false;
	text_format(
	    text, size,
	    "At the end of the recording %s of live blocks lie in %s of pages, which the "
	    "allocator cannot give back: 'mayfly report --fragmentation' shows whose blocks "
	    "these are.",
	    text_bytes(live, sizeof(live), (double)f->bytes),
	    text_bytes(held, sizeof(held), pages));
	return true;
}

static bool advise_jemalloc(const struct rss_moment *m, char *text, size_t size)
{
	char bytes[FIGURE_TEXT];

	if (is_much(m, m->fact[FACT_FREE])) {
		text_format(
		    text, size,
		    "jemalloc reports %s of free pages that it keeps: it returns them sooner "
		    "with shorter dirty_decay_ms and muzzy_decay_ms, or "
		    "background_thread:true, in MALLOC_CONF.",
		    text_bytes(bytes, sizeof(bytes), m->fact[FACT_FREE]));
		return true;
	}
	if (!is_much(m, m->fact[FACT_FRAGMENTED]))
		return false;
	text_format(text, size,
		    "jemalloc reports %s free in pages that still hold live blocks, so it cannot "
		    "give them back. Whose blocks those are: mayfly record --exact, then report "
		    "--fragmentation.",
		    text_bytes(bytes, sizeof(bytes), m->fact[FACT_FRAGMENTED]));
	return true;
}

static bool advise_tcmalloc(const struct rss_moment *m, char *text, size_t size)
{
	char bytes[FIGURE_TEXT];

	if (!is_much(m, m->fact[FACT_FREE]))
		return false;
	text_format(text, size,
		    "tcmalloc reports %s of free pages that it keeps: MallocExtension's "
		    "ReleaseFreeMemory() returns them, TCMALLOC_RELEASE_RATE does so steadily.",
		    text_bytes(bytes, sizeof(bytes), m->fact[FACT_FREE]));
	return true;
}

/* Most of the heap's pages hold no live blocks, but which do, samples do not tell. */
static bool advise_exact(const struct rss *r, const struct rss_moment *m, char *text, size_t size)
{
	char bytes[FIGURE_TEXT], live[FIGURE_TEXT];
	bool exact = mayfly_trace_info(r->trace)->mode == MAYFLY_EXACT;

	if (!is_much(m, heap_of(m) - m->live.bytes.high))
		return false;
	text_bytes(bytes, sizeof(bytes), heap_of(m));
	text_bytes(live, sizeof(live), m->live.bytes.high);
	if (exact)
		text_format(
		    text, size,
		    "The heap's mappings have %s resident, but only %s were live: the rest is free "
		    "or the allocator's own.",
		    bytes, live);
	else
		text_format(
		    text, size,
		    "The heap's mappings have %s resident, but at most %s were live: the rest "
		    "is free or the allocator's own. Samples do not tell which pages are free; "
		    "'mayfly record --exact' does.",
		    bytes, live);
	return true;
}

static bool advise_heap(const struct rss *r, const struct rss_moment *m, char *text, size_t size)
{
	bool asked = r->allocator && llabs(m->time_ns - m->allocator_ns) < FAR_NS;
	const char *name = asked ? r->allocator : "";
	char bytes[FIGURE_TEXT];

	if ((!strcmp(name, "glibc") && advise_glibc(r, m, text, size)) ||
	    (!strcmp(name, "jemalloc") && advise_jemalloc(m, text, size)) ||
	    (!strcmp(name, "tcmalloc") && advise_tcmalloc(m, text, size)) ||
	    advise_scattered(r, m, text, size) || advise_exact(r, m, text, size))
		return true;
	text_format(text, size,
		    "The heap is the largest part, with %s resident: 'mayfly report' shows whose "
		    "blocks are live.",
		    text_bytes(bytes, sizeof(bytes), heap_of(m)));
	return true;
}

/* ---- other memory ---- */

static const struct rss_row *largest_row(const struct rss *r, const struct rss_moment *m,
					 enum rss_kind kind)
{
	size_t moment = (size_t)(m - r->moment);
	const struct rss_row *most = NULL;

	for (size_t i = 0; i < r->rows; i++)
		if (r->row[i].kind == kind &&
		    (!most || r->row[i].resident[moment] > most->resident[moment]))
			most = &r->row[i];
	return most;
}

/* Who mapped it, or what else it may be. */
static void name_anonymous(const struct rss *r, const struct rss_moment *m, char *text, size_t size)
{
	const struct rss_row *row = largest_row(r, m, RSS_ANONYMOUS);
	double resident = row->resident[m - r->moment], large = m->fact[FACT_LARGE];
	char bytes[FIGURE_TEXT], place[WIDTH], mapped[FIGURE_TEXT];

	if (row->mapper && is_much(m, resident)) {
		text_format(text, size, "%s are in memory that %s has mapped.",
			    text_bytes(bytes, sizeof(bytes), resident),
			    rss_mapper(place, sizeof(place), r, row->mapper, false));
		return;
	}
	text_format(text, size, "%s is anonymous memory outside the heap",
		    text_bytes(bytes, sizeof(bytes), m->kind[RSS_ANONYMOUS]));
	if (!r->data_apart)
		text_append(text, size, ", .bss and large blocks of malloc among it.");
	else if (is_much(m, large))
		text_append(text, size,
			    ". glibc has large blocks of %s in such memory: 'mayfly report' shows "
			    "whose blocks are live.",
			    text_bytes(mapped, sizeof(mapped), large));
	else
		text_append(text, size, ".");
}

/* Python has small objects in mappings of its own, unless it is told to use malloc. */
static void advise_anonymous(const struct rss *r, const struct rss_moment *m, char *text,
			     size_t size)
{
	const struct mayfly_info *info = mayfly_trace_info(r->trace);
	const char *program = path_base(info->program);

	name_anonymous(r, m, text, size);
	if (!strncmp(program, "python", 6) && !(info->heaps >> MAYFLY_HEAP_POOL_MAPPED & 1) &&
	    is_much(m, m->kind[RSS_ANONYMOUS] - fmax(0, m->fact[FACT_LARGE])))
		text_append(text, size,
			    " With PYTHONMALLOC=malloc in the environment, Python's small objects "
			    "are blocks of malloc, which mayfly records.");
}

static void advise_data(const struct rss *r, const struct rss_moment *m, char *text, size_t size)
{
	const struct rss_row *row = largest_row(r, m, RSS_DATA);
	double resident = row->resident[m - r->moment];
	char bytes[FIGURE_TEXT];

	text_bytes(bytes, sizeof(bytes), m->kind[RSS_DATA]);
	if (resident > MOSTLY * m->kind[RSS_DATA] && *row->name)
		text_format(text, size,
			    "%s are variables of static storage (.data, .bss), most of them of %s: "
			    "'nm -S --size-sort' lists them by size.",
			    bytes, path_base(row->name));
	else
		text_format(text, size, "%s are variables of static storage (.data, .bss).", bytes);
}

/* Files of tmpfs have names like all others; the kernel counts their pages as shared memory. */
static bool advise_files(const struct rss *r, const struct rss_moment *m, char *text, size_t size)
{
	double in_memory =
	    counter_at(r->trace, "process.resident_shared", m->time_ns) - m->kind[RSS_SHARED];
	char bytes[FIGURE_TEXT];

	if (!r->data_apart)
		return false; /* static data is among them */
	text_bytes(bytes, sizeof(bytes), m->kind[RSS_FILES]);
	if (is_much(m, in_memory))
		text_format(
		    text, size,
		    "%s are pages of mapped files, most of them in a file system that is in "
		    "memory (tmpfs): they stay there as long as the files do.",
		    bytes);
	else
		text_format(
		    text, size,
		    "%s are pages of files, code among them: the kernel takes them back when "
		    "memory is short, and other processes may share them (PSS counts only "
		    "their share).",
		    bytes);
	return true;
}

static bool advise_kind(const struct rss *r, const struct rss_moment *m, enum rss_kind kind,
			char *text, size_t size)
{
	char bytes[FIGURE_TEXT];

	text_bytes(bytes, sizeof(bytes), m->kind[kind]);
	switch (kind) {
	case RSS_HEAP:
	case RSS_ARENAS:
	case RSS_ALLOCATOR:
		return advise_heap(r, m, text, size);
	case RSS_ANONYMOUS:
		advise_anonymous(r, m, text, size);
		return true;
	case RSS_DATA:
		advise_data(r, m, text, size);
		return true;
	case RSS_STACKS:
		text_format(text, size,
			    "%s are stacks (%.0f of them): what a thread's stack has once reached "
			    "stays resident.",
			    bytes, m->stacks);
		return true;
	case RSS_COPIES:
		text_format(text, size,
			    "%s are pages of private file mappings that the process has changed: "
			    "copies of its own.",
			    bytes);
		return true;
	case RSS_FILES:
		return advise_files(r, m, text, size);
	case RSS_SHARED:
		text_format(text, size,
			    "%s is shared memory, which counts in each process that has it mapped.",
			    bytes);
		return true;
	case RSS_OTHER:
	case RSS_OWN:
	case RSS_UNEXPLAINED:
	case RSS_KINDS:
		break;
	}
	return false;
}

/* What was resident at that moment when the mappings had been read long before, or after; else 0. The
 * mappings of a program that ends soon are read once, when it has hardly begun. */
static double unread(const struct rss *r, const struct rss_moment *m)
{
	const struct mayfly_counter *own = counter_named(r->trace, "self.resident");
	double last = own ? last_value(own) : 0, rss = 0;

	if (r->moments < 2)
		return 0;
	if (m->at_end && own)
		rss = last;
	else if (!m->at_end || m->time_ns == r->moment[0].time_ns)
		rss = fmax(r->highest, last);
	return rss * MOSTLY > m->rss ? rss : 0;
}

bool rss_advice(const struct rss *r, const struct rss_moment *m, char *text, size_t size)
{
	double most = heap_of(m);
	enum rss_kind which = RSS_HEAP;
	char bytes[FIGURE_TEXT], read[FIGURE_TEXT];
	double missed = unread(r, m);
	bool any = false;

	if (missed > 0) {
		text_format(
		    text, size,
		    "RSS was %s, but %s were resident when the mappings were read: what the "
		    "rest was is not known.",
		    text_bytes(bytes, sizeof(bytes), missed),
		    text_bytes(read, sizeof(read), m->rss));
		return true;
	}
	for (enum rss_kind i = RSS_ANONYMOUS; i < RSS_UNEXPLAINED; i++)
		if (m->kind[i] > most) {
			most = m->kind[i];
			which = i;
		}
	*text = 0;
	if (r->by_kind && is_much(m, most) && m->rss >= LEAST_BYTES)
		any = advise_kind(r, m, which, text, size);
	if (m->fact[FACT_ABSENT] < LEAST_BYTES || !is_much(m, m->fact[FACT_ABSENT]))
		return any;
	text_append(
	    text, size,
	    "%sAt least %s of the live blocks are not resident: never written to, given back "
	    "or swapped out.",
	    any ? " " : "", text_bytes(bytes, sizeof(bytes), m->fact[FACT_ABSENT]));
	return true;
}
