/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rss_rows.c: resident pages of mappings, by kind, name and who mapped them: see rss.h.
 *
 *	mapping of the kernel	├──────────────────────┤	the kernel merges neighbours
 *	mmap events (mapped.h)	   ├── f ──┤├── g ──┤
 *
 * If all of the mapping is resident, f and g have the bytes of their ranges. If not, the kernel does
 * not say whose pages are: they get a row for both, unless one range is nearly all of the mapping.
 */
#include "answer/rss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/counter_values.h"
#include "answer/text_format.h"
#include "answer/trace_names.h"
#include "base/array.h"

#define NEARLY 0.05 /* of the resident bytes, that may be another's */

const struct rss_name rss_kind_names[RSS_KINDS] = {
    [RSS_HEAP] = {"heap", "heap (brk)"},
    [RSS_ARENAS] = {"arenas", "heap: arenas of threads"},
    [RSS_ALLOCATOR] = {"allocator", "heap: mapped by"},
    [RSS_ANONYMOUS] = {"anonymous", "anonymous"},
    [RSS_DATA] = {"static_data", "static data"},
    [RSS_STACKS] = {"stacks", "stacks"},
    [RSS_COPIES] = {"changed_file_pages", "changed file pages"},
    [RSS_FILES] = {"files", "file pages"},
    [RSS_SHARED] = {"shared", "shared memory"},
    [RSS_OTHER] = {"other", "other mappings"},
    [RSS_OWN] = {"mayfly", "mayfly's own"},
    [RSS_UNEXPLAINED] = {"not_explained", "not explained"},
};

static const enum rss_kind kind_of[MAYFLY_MAPPING_KINDS] = {
    [MAYFLY_MAPPING_HEAP] = RSS_HEAP,		[MAYFLY_MAPPING_ARENA] = RSS_ARENAS,
    [MAYFLY_MAPPING_ANONYMOUS] = RSS_ANONYMOUS, [MAYFLY_MAPPING_STACK] = RSS_STACKS,
    [MAYFLY_MAPPING_DATA] = RSS_DATA,		[MAYFLY_MAPPING_COPIES] = RSS_COPIES,
    [MAYFLY_MAPPING_FILE] = RSS_FILES,		[MAYFLY_MAPPING_SHARED] = RSS_SHARED,
    [MAYFLY_MAPPING_OTHER] = RSS_OTHER,		[MAYFLY_MAPPING_OWN] = RSS_OWN,
};

/* Kinds whose rows have names. */
static bool is_named(enum rss_kind kind)
{
	return kind == RSS_ANONYMOUS || kind == RSS_DATA || kind == RSS_COPIES ||
	       kind == RSS_FILES || kind == RSS_SHARED;
}

static bool add(struct rss *r, size_t moment, const struct rss_row *key, double resident)
{
	struct rss_row *row = NULL;

	for (size_t i = 0; i < r->rows && !row; i++)
		if (r->row[i].kind == key->kind && r->row[i].mapper == key->mapper &&
		    r->row[i].several == key->several && !strcmp(r->row[i].name, key->name))
			row = &r->row[i];
	if (!row) {
		if (!array_reserve(&r->row, &r->row_room, r->rows, sizeof(*row)))
			return false;
		row = &r->row[r->rows++];
		*row = *key;
	}
	row->resident[moment] += resident;
	r->moment[moment].kind[key->kind] += resident;
	return true;
}

static bool add_mapped(struct rss *r, size_t moment, const struct mapped_row *mapper, bool several,
		       double resident)
{
	struct rss_row key = {.kind = RSS_ANONYMOUS, .name = "", .several = several};

	if (mapper && mapper->allocator) {
		key.kind = RSS_ALLOCATOR;
		key.name = mapper->allocator;
	} else {
		key.mapper = mapper;
	}
	return add(r, moment, &key, resident);
}

static uint64_t overlap(const struct mapped_range *range, const struct mayfly_mapping *m)
{
	uint64_t start = range->start > m->start ? range->start : m->start;
	uint64_t end = range->end < m->start + m->size ? range->end : m->start + m->size;

	return end > start ? end - start : 0;
}

/* Shares out an anonymous mapping among those who mapped it. */
static bool share_out(struct rss *r, size_t moment, const struct mayfly_mapping *m)
{
	const struct mapped *by = &r->mapped;
	size_t first = mapped_find(by, moment, m->start), last;
	const struct mapped_row *most = NULL;
	uint64_t covered = 0, largest = 0;
	bool single = true;

	for (last = first; last < by->ranges[moment]; last++) {
		const struct mapped_range *range = &by->range[moment][last];
		uint64_t bytes = overlap(range, m);

		if (!bytes)
			break;
		single &= !most || most == &by->row[range->row];
		covered += bytes;
		if (bytes > largest) {
			largest = bytes;
			most = &by->row[range->row];
		}
	}
	if (!covered)
		return add_mapped(r, moment, NULL, false, (double)m->resident);
	if (single && (double)(m->size - covered) <= NEARLY * (double)m->resident)
		return add_mapped(r, moment, most, false, (double)m->resident);
	if (m->resident < m->size)
		return add_mapped(r, moment, NULL, true, (double)m->resident);
	for (; first < last; first++) {
		const struct mapped_range *range = &by->range[moment][first];

		if (!add_mapped(r, moment, &by->row[range->row], false, (double)overlap(range, m)))
			return false;
	}
	return covered == m->size ||
	       add_mapped(r, moment, NULL, false, (double)(m->size - covered));
}

/* glibc's own calls of mmap() have no events: what has one only looks like an arena or a stack. */
static bool is_mapped(const struct rss *r, size_t moment, const struct mayfly_mapping *m)
{
	size_t at = mapped_find(&r->mapped, moment, m->start);

	return m->size && at < r->mapped.ranges[moment] && overlap(&r->mapped.range[moment][at], m);
}

/* The kernel names the target of a link. If the program was run by a link, all else has the link's name. */
static const char *name_of(const struct rss *r, const struct mayfly_mapping *m)
{
	const struct mayfly_info *info = mayfly_trace_info(r->trace);

	for (size_t i = 0; i < info->modules; i++) {
		const struct mayfly_module *module = mayfly_trace_module(r->trace, i);

		if (strcmp(module->path, info->program) == 0 && m->start < module->end &&
		    module->start < m->start + m->size &&
		    strncmp(module->path, m->name, strlen(m->name)) != 0) /* not " (deleted)" */
			return module->path;
	}
	return m->name;
}

static bool add_mapping(struct rss *r, size_t moment, const struct mayfly_mapping *m,
			double *largest)
{
	struct rss_row key = {.kind = kind_of[m->kind], .name = ""};
	double resident = (double)m->resident;

	if ((key.kind == RSS_ARENAS || (key.kind == RSS_STACKS && !*m->name)) &&
	    is_mapped(r, moment, m))
		key.kind = RSS_ANONYMOUS;
	if (key.kind == RSS_ANONYMOUS && !*m->name && m->size)
		return share_out(r, moment, m);
	if (key.kind == RSS_ARENAS) {
		r->moment[moment].arenas++;
		if (resident > largest[0]) {
			largest[1] = largest[0];
			largest[0] = resident;
		} else if (resident > largest[1]) {
			largest[1] = resident;
		}
	}
	r->moment[moment].stacks += key.kind == RSS_STACKS;
	if (is_named(key.kind) && strncmp(m->name, "/dev/zero", 9) != 0)
		key.name = name_of(r, m);
	return add(r, moment, &key, resident);
}

char *rss_mapper(char *buffer, size_t size, const struct rss *r, const struct mapped_row *row,
		 bool wide)
{
	char place[1024];

	if (row->allocator)
		return text_format(buffer, size, "%s", row->allocator);
	if (!row->frame)
		return text_format(buffer, size, "[no stack]");
	frame_name(buffer, size, r->trace, row->frame, row->location);
	if (!row->location || !*row->location->file)
		return buffer;
	return text_append(buffer, size, "  %s",
			   location_text(place, sizeof(place), row->location->file,
					 row->location->line, "-", wide));
}

/* From the counters, as old traces have nothing else. */
static bool add_kinds(struct rss *r, size_t moment)
{
	static const struct {
		const char *counter;
		enum rss_kind kind;
	} known[] = {
	    {"maps.heap.resident", RSS_HEAP},		{"maps.arenas.resident", RSS_ARENAS},
	    {"maps.anonymous.resident", RSS_ANONYMOUS}, {"maps.data.resident", RSS_DATA},
	    {"maps.stacks.resident", RSS_STACKS},	{"maps.copies.resident", RSS_COPIES},
	    {"maps.files.resident", RSS_FILES},		{"maps.shared.resident", RSS_SHARED},
	    {"maps.other.resident", RSS_OTHER},		{"maps.mayfly.resident", RSS_OWN}};
	struct rss_moment *m = &r->moment[moment];
	bool done = true;

	m->arenas = counter_at(r->trace, "maps.arenas.count", m->time_ns);
	m->stacks = counter_at(r->trace, "maps.stacks.count", m->time_ns);
	for (size_t i = 0; i < sizeof(known) / sizeof(*known) && done; i++) {
		double value = counter_at(r->trace, known[i].counter, m->time_ns);

		done = !(value > 0) ||
		       add(r, moment, &(struct rss_row){.kind = known[i].kind, .name = ""}, value);
	}
	return done;
}

/* No recorder watched the process: what the agent saw at exit. */
static bool add_own(struct rss *r)
{
	struct rss_moment *m = &r->moment[0];
	double files = counter_at(r->trace, "self.resident_files", m->time_ns);

	return add(r, 0, &(struct rss_row){.kind = RSS_FILES, .name = ""}, files) &&
	       add(r, 0, &(struct rss_row){.kind = RSS_ANONYMOUS, .name = ""}, m->rss - files);
}

static int compare_rows(const void *a, const void *b)
{
	const struct rss_row *x = a, *y = b;
	double larger_x = fmax(x->resident[0], x->resident[1]);
	double larger_y = fmax(y->resident[0], y->resident[1]);

	if (x->kind != y->kind)
		return x->kind > y->kind ? 1 : -1;
	if (larger_x != larger_y)
		return larger_x < larger_y ? 1 : -1;
	if (strcmp(x->name, y->name) != 0)
		return strcmp(x->name, y->name);
	return (x->mapper > y->mapper) - (x->mapper < y->mapper);
}

static bool find_rows_of(struct rss *r, size_t moment)
{
	const struct mayfly_residency *all =
	    mayfly_trace_residency(r->trace, r->moment[moment].at_end);
	double largest[2] = {0}, sum = 0;
	struct rss_moment *m = &r->moment[moment];
	bool done = true;

	if (r->by_mapping)
		for (size_t i = 0; i < all->count && done; i++)
			done = add_mapping(r, moment, &all->mapping[i], largest);
	else if (counter_named(r->trace, "maps.resident"))
		done = add_kinds(r, moment);
	else
		done = add_own(r);
	m->besides_two = m->kind[RSS_ARENAS] - largest[0] - largest[1];
	for (unsigned int i = 0; i < RSS_KINDS; i++)
		sum += m->kind[i];
	/* The kernel counts RSS at another time than mappings, and not to the page. */
	if (done && fabs(m->rss - sum) >= 1)
		done = add(r, moment, &(struct rss_row){.kind = RSS_UNEXPLAINED, .name = ""},
			   m->rss - sum);
	return done;
}

bool rss_find_rows(struct rss *r)
{
	for (size_t i = 0; i < r->moments; i++)
		if (!find_rows_of(r, i))
			return false;
	if (r->rows)
		qsort(r->row, r->rows, sizeof(*r->row), compare_rows);
	return true;
}
