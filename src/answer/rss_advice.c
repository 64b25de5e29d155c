/* SPDX-License-Identifier: Apache-2.0 */
/* rss_advice.c: what to do about the resident memory, and all of it as JSON: see rss.h. */
#include "answer/rss.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "answer/figures.h"
#include "answer/json_parts.h"
#include "answer/trace_names.h"
#include "answer/text_format.h"

#define WORTH_A_WORD 0.25 /* of RSS */
#define MOSTLY	     0.5
#define LEAST_BYTES  (1u << 20)

/* Free memory that is really resident, as far as it can be told. */
static double kept(const struct rss_moment *m)
{
	return fmax(0, m->part[RSS_KEPT] + m->part[RSS_UNTOUCHED]);
}

static void advise_kept(const struct rss *r, const struct rss_moment *m, char *text, size_t size)
{
	char bytes[FIGURE_TEXT];

	text_bytes(bytes, sizeof(bytes), kept(m));
	if (!strcmp(r->allocator, "jemalloc"))
		text_format(text, size,
			    "jemalloc keeps %s of free pages: it returns them sooner with shorter "
			    "dirty_decay_ms and muzzy_decay_ms, or background_thread:true, in "
			    "MALLOC_CONF.",
			    bytes);
	else if (!strcmp(r->allocator, "tcmalloc"))
		text_format(text, size,
			    "tcmalloc keeps %s free: MallocExtension's ReleaseFreeMemory() returns "
			    "it, TCMALLOC_RELEASE_RATE does so steadily.",
			    bytes);
	else if (!strcmp(r->allocator, "mimalloc"))
		text_format(text, size,
			    "mimalloc has %s more than is live, part of it free: mi_collect(true) "
			    "returns it, a shorter MIMALLOC_PURGE_DELAY (or RESET_DELAY) sooner.",
			    bytes);
	else if (m->top > MOSTLY * m->part[RSS_KEPT])
		text_format(text, size,
			    "glibc keeps %s free, most of it at the end of its heap: "
			    "malloc_trim(0) returns it, a smaller M_TRIM_THRESHOLD at once.",
			    bytes);
	else if (m->arenas >= 2)
		text_format(text, size,
			    "glibc keeps %s free in %.0f heaps of its arenas: MALLOC_ARENA_MAX=2 "
			    "makes fewer of them, malloc_trim(0) returns whole free pages.",
			    bytes, m->arenas + 1);
	else
		text_format(text, size,
			    "glibc keeps %s free between live blocks: malloc_trim(0) returns whole "
			    "free pages. Which blocks hold the others: mayfly record --exact, then "
			    "report --fragmentation.",
			    bytes);
}

static bool is_python(const struct mayfly_info *info)
{
	return !strncmp(path_base(info->program), "python", 6);
}

enum rss_part rss_advice(const struct rss *r, const struct rss_moment *m, char *text, size_t size)
{
	double share[RSS_PARTS], most = 0;
	enum rss_part which = RSS_PARTS;
	char bytes[FIGURE_TEXT];

	for (unsigned int i = 0; i < RSS_PARTS; i++)
		share[i] = m->rss > 0 ? m->part[i] / m->rss : 0;
	share[RSS_UNTOUCHED] = 0;
	share[RSS_KEPT] = m->rss > 0 ? kept(m) / m->rss : 0;
	for (unsigned int i = 0; i < RSS_PARTS; i++) {
		if (share[i] <= most)
			continue;
		most = share[i];
		which = i;
	}
	if (most < WORTH_A_WORD || m->rss < LEAST_BYTES)
		return RSS_PARTS;
	text_bytes(bytes, sizeof(bytes), m->part[which]);
	switch (which) {
	case RSS_LIVE:
		if (-m->part[RSS_UNTOUCHED] > MOSTLY * m->part[RSS_LIVE])
			text_format(text, size,
				    "the heap is larger than what is resident: much of it was "
				    "allocated and never written to.");
		else
			text_format(text, size,
				    "the largest part is live heap: 'mayfly report' says whose.");
		break;
	case RSS_OVERHEAD:
	case RSS_METADATA:
		text_format(text, size,
			    "%s is the allocator's overhead: small blocks have a header and are "
			    "rounded up; fewer, larger ones cost less.",
			    bytes);
		break;
	case RSS_FRAGMENTED:
		text_format(
		    text, size,
		    "%s are free in pages that still hold live blocks, so %s cannot give them "
		    "back. Whose blocks those are: mayfly record --exact, then report "
		    "--fragmentation.",
		    bytes, r->allocator);
		break;
	case RSS_KEPT:
		advise_kept(r, m, text, size);
		break;
	case RSS_ANONYMOUS:
		text_format(text, size,
			    "%s is anonymous memory that did not come from malloc: mapped by the "
			    "program or by an allocator of its own%s%s.",
			    bytes, r->mapped.rows ? ", see below" : "",
			    is_python(mayfly_trace_info(r->trace))
				? " (Python's is seen with PYTHONMALLOC=malloc)"
				: "");
		break;
	case RSS_STACKS:
		text_format(text, size,
			    "%s are stacks (%.0f of them): what a thread's stack has once reached "
			    "stays resident.",
			    bytes, m->stacks);
		break;
	case RSS_FILES:
		text_format(text, size,
			    "%s are pages of files, code among them: the kernel takes back those "
			    "that were not changed when memory is short, and other processes may "
			    "share them (PSS counts only their share).",
			    bytes);
		break;
	case RSS_SHARED:
		text_format(text, size,
			    "%s is shared memory, which counts in each process that has it mapped.",
			    bytes);
		break;
	case RSS_UNTOUCHED:
	case RSS_OTHER:
	case RSS_OWN:
	case RSS_UNEXPLAINED:
	case RSS_PARTS:
		return RSS_PARTS;
	}
	return which;
}

/* ---- JSON ---- */

static void put_moment(struct json *j, const struct rss *r, const struct rss_moment *m)
{
	char line[1024];

	json_object(j, NULL);
	json_text(j, "which", m->which);
	json_integer(j, "time_ns", m->time_ns);
	json_integer(j, "rss", llround(m->rss));
	json_estimate(j, "live", &m->live);
	json_unsigned_or_null(j, "allocator_time_ns", m->allocator_ns >= 0,
			      (uint64_t)m->allocator_ns);
	json_integer(j, "arenas", (int64_t)m->arenas);
	json_integer(j, "stacks", (int64_t)m->stacks);
	json_text_or_null(j, "advice",
			  rss_advice(r, m, line, sizeof(line)) == RSS_PARTS ? NULL : line);
	json_object(j, "parts");
	for (unsigned int i = 0; i < RSS_PARTS; i++)
		json_integer(j, rss_part_names[i].key, llround(m->part[i]));
	json_end(j);
	json_end(j);
}

static void put_mapped(struct json *j, const struct rss *r, const struct mapped_row *row)
{
	const struct mayfly_location *location = row->location;
	char name[512];

	json_object(j, NULL);
	json_text(j, "access", row->access);
	json_text_or_null(
	    j, "function",
	    row->frame ? frame_name(name, sizeof(name), r->trace, row->frame, location) : NULL);
	if (location)
		json_text(j, "file", location->file);
	else
		json_null(j, "file");
	json_integer(j, "line", location ? location->line : 0);
	json_array(j, "bytes");
	for (size_t k = 0; k < r->moments; k++)
		json_integer(j, NULL, (int64_t)row->bytes[k]);
	json_end(j);
	json_end(j);
}

static void put_counter(struct json *j, const struct mayfly_counter *c)
{
	json_object(j, NULL);
	json_text(j, "name", c->name);
	json_text(j, "unit", c->unit);
	json_array(j, "time_ns");
	for (size_t i = 0; i < c->points; i++)
		json_integer(j, NULL, c->time_ns[i]);
	json_end(j);
	json_array(j, "value");
	for (size_t i = 0; i < c->points; i++) {
		double value = c->value[i];

		if (value == floor(value) && fabs(value) < 0x1p53)
			json_integer(j, NULL, (int64_t)value);
		else
			json_real(j, NULL, value);
	}
	json_end(j);
	json_end(j);
}

void json_rss(struct json *j, const struct rss *r)
{
	size_t counters = mayfly_trace_info(r->trace)->counters;

	json_text_or_null(j, "allocator", r->allocator);
	json_real(j, "highest_rss", r->highest > 0 ? r->highest : NAN);
	json_array(j, "moments");
	for (size_t i = 0; i < r->moments; i++)
		put_moment(j, r, &r->moment[i]);
	json_end(j);
	json_array(j, "mapped");
	for (size_t i = 0; i < r->mapped.rows; i++)
		put_mapped(j, r, &r->mapped.row[i]);
	json_end(j);
	json_array(j, "counters");
	for (size_t i = 0; i < counters; i++)
		put_counter(j, mayfly_trace_counter(r->trace, i));
	json_end(j);
}
