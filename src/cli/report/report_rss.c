/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report --rss: what the resident memory consists of.
 *
 *	RSS = live blocks			our estimate
 *	    + allocator: overhead, free		its own figures (counters of the agent)
 *	    + other anonymous memory		what is left of the heap's and anonymous mappings
 *	    + stacks, files, shared, ...	mappings by kind (counters of the recorder)
 *	    + not explained
 *
 * The kernel counts pages that were touched, the allocator what it has handed out. Where less is
 * resident than the allocator says it has, the difference stands as a negative row: never touched,
 * or given back. So the rows always add up.
 */
#include "cli/report/report_rss.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/message.h"
#include "cli/json.h"
#include "answer/mapped.h"
#include "cli/places.h"

#define SPARKLINE_STEPS 48
#define PEAK_MISSED	1.05 /* the kernel's own maximum is so much above what was seen */
#define WORTH_A_WORD	0.25 /* of RSS */
#define MOSTLY		0.5
#define LEAST_BYTES	(1u << 20)
#define MAPPED_ROWS	8
#define FAR_NS		1500000000ll

enum part {
	LIVE,
	OVERHEAD,
	METADATA,
	FRAGMENTED,
	KEPT,
	UNTOUCHED,
	ANONYMOUS,
	STACKS,
	FILES,
	SHARED,
	OTHER,
	OWN,
	UNEXPLAINED,
	PARTS
};

static const struct {
	const char *key, *name;
} parts[PARTS] = {
    [LIVE] = {"live", "live blocks"},
    [OVERHEAD] = {"allocator_overhead", "allocator: headers, rounding, caches"},
    [METADATA] = {"allocator_metadata", "allocator: its own tables"},
    [FRAGMENTED] = {"allocator_fragmented", "allocator: free, in pages with live blocks"},
    [KEPT] = {"allocator_free", "allocator: free, kept for later"},
    [UNTOUCHED] = {"not_resident", "of these never touched, or given back"},
    [ANONYMOUS] = {"other_anonymous", "other anonymous memory"},
    [STACKS] = {"stacks", "stacks"},
    [FILES] = {"files", "files: code, data, mapped files"},
    [SHARED] = {"shared", "shared memory"},
    [OTHER] = {"other", "other mappings"},
    [OWN] = {"mayfly", "mayfly's spool"},
    [UNEXPLAINED] = {"not_explained", "not explained"},
};

struct moment {
	const char *which;
	int64_t time_ns;
	double rss, part[PARTS];
	struct mayfly_estimate live;
	double arenas, stacks, top; /* arenas, stacks: how many; top: free at the heap's end */
	int64_t allocator_ns;	    /* when the allocator was asked; < 0: never */
	bool mappings;		    /* by kind */
};

struct rss {
	const struct opened_trace *file;
	const struct mayfly_trace *trace;
	const struct output *out;
	const char *allocator; /* or NULL */
	struct moment moment[2];
	size_t moments;
	struct mapped mapped; /* at these moments */
	double highest;	      /* that the kernel knows of; 0: unknown */
};

/* ---- counters ---- */

static const struct mayfly_counter *find(const struct mayfly_trace *trace, const char *name)
{
	size_t counters = mayfly_trace_info(trace)->counters;

	for (size_t i = 0; i < counters; i++) {
		const struct mayfly_counter *c = mayfly_trace_counter(trace, i);

		if (c->points && !strcmp(c->name, name))
			return c;
	}
	return NULL;
}

/* The last point at or before this time; of those before the first one, that. */
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
	const struct mayfly_counter *c = find(trace, name);

	return c && c->time_ns[0] <= ns ? c->value[point_at(c, ns)] : 0;
}

static double last(const struct mayfly_counter *c)
{
	return c->value[c->points - 1];
}

static double largest(const struct mayfly_counter *c)
{
	double most = 0;

	for (size_t i = 0; i < c->points; i++)
		most = fmax(most, c->value[i]);
	return most;
}

/* ---- the parts ---- */

/* What malloc has handed out at this time. Blocks of OCaml's heaps lie in such blocks. */
static int live_at(const struct mayfly_trace *trace, int64_t ns, struct mayfly_estimate *live)
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

/* What the allocator says it has. */
struct view {
	double in_use, metadata, fragmented, kept, mapped_blocks;
};

static bool allocator_view(struct rss *r, struct moment *m, struct view *v)
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

	*v = (struct view){0};
	m->allocator_ns = -1;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known) && !c; i++) {
		c = find(t, known[i].marker);
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
		/* It does not tell what is in use and what is free. */
		struct mayfly_estimate live = {0};

		live_at(t, ns, &live);
		v->in_use = live.bytes.estimate;
		v->kept = fmax(0, value_at(t, "mimalloc.committed", ns) - v->in_use);
	}
	return true;
}

/* What the heap's mappings have resident beyond live blocks is free, whatever happened since glibc
 * was asked. */
static void split_glibc(struct moment *m, const struct view *v, double heap, double anonymous)
{
	double in_heap = fmax(0, m->part[LIVE] - v->mapped_blocks) + m->part[OVERHEAD];

	m->part[KEPT] = fmax(m->part[KEPT], heap - in_heap);
	m->part[ANONYMOUS] = fmax(0, anonymous - v->mapped_blocks);
}

/* Splits what is resident of the heap's (and arenas') and of anonymous mappings. */
static int split_anonymous(struct rss *r, struct moment *m, double heap, double anonymous)
{
	struct mayfly_estimate then = {0};
	struct view v;
	double rest;
	int error = live_at(r->trace, m->time_ns, &m->live);

	if (error)
		return error;
	m->part[LIVE] = m->live.bytes.estimate;
	if (allocator_view(r, m, &v)) {
		/* Both at the time when it was asked. */
		error = live_at(r->trace, m->allocator_ns, &then);
		m->part[OVERHEAD] = fmax(0, v.in_use - then.bytes.estimate);
		m->part[METADATA] = v.metadata;
		m->part[FRAGMENTED] = v.fragmented;
		/* What was freed since then, it has; it may have given it back. */
		m->part[KEPT] = v.kept + fmax(0, then.bytes.estimate - m->live.bytes.estimate);
		if (!strcmp(r->allocator, "glibc") && m->mappings)
			split_glibc(m, &v, heap, anonymous);
	}
	rest = heap + anonymous;
	for (unsigned int i = LIVE; i <= KEPT; i++)
		rest -= m->part[i];
	m->part[ANONYMOUS] = fmax(m->part[ANONYMOUS], rest);
	m->part[UNTOUCHED] = rest - m->part[ANONYMOUS];
	return error;
}

static int fill_moment(struct rss *r, struct moment *m)
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
	m->part[STACKS] = value_at(t, "maps.stacks.resident", ns);
	m->part[FILES] = value_at(t, "maps.files.resident", ns);
	m->part[SHARED] = value_at(t, "maps.shared.resident", ns);
	m->part[OTHER] = value_at(t, "maps.other.resident", ns);
	m->part[OWN] = value_at(t, "maps.mayfly.resident", ns);
	m->part[UNEXPLAINED] = m->rss - value_at(t, "maps.resident", ns);
	return split_anonymous(r, m, heap + arenas, anonymous);
}

/* Nobody has watched the process: what the agent saw when it left. */
static int fill_own(struct rss *r, struct moment *m)
{
	double files = value_at(r->trace, "self.resident_files", m->time_ns);

	m->rss = value_at(r->trace, "self.resident", m->time_ns);
	m->part[FILES] = files;
	return split_anonymous(r, m, 0, m->rss - files);
}

/* The moments at which the mappings were read: the one with the largest RSS, and the last. */
static int find_moments(struct rss *r)
{
	const struct mayfly_counter *maps = find(r->trace, "maps.resident");
	const struct mayfly_counter *own = find(r->trace, "self.resident");
	const struct mayfly_counter *peak = find(r->trace, "process.resident_peak");
	double most = -1;
	int error;

	if (peak)
		r->highest = last(peak);
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

/* ---- advice ---- */

/* Free memory that is really resident, as far as it can be told. */
static double kept(const struct moment *m)
{
	return fmax(0, m->part[KEPT] + m->part[UNTOUCHED]);
}

static void advise_kept(const struct rss *r, const struct moment *m, char *text, size_t size)
{
	char bytes[FIGURE_TEXT];

	text_bytes(bytes, sizeof(bytes), kept(m));
	if (!strcmp(r->allocator, "jemalloc"))
		snprintf(text, size,
			 "jemalloc keeps %s of free pages: it returns them sooner with shorter "
			 "dirty_decay_ms and muzzy_decay_ms, or background_thread:true, in "
			 "MALLOC_CONF.",
			 bytes);
	else if (!strcmp(r->allocator, "tcmalloc"))
		snprintf(text, size,
			 "tcmalloc keeps %s free: MallocExtension's ReleaseFreeMemory() returns "
			 "it, TCMALLOC_RELEASE_RATE does so steadily.",
			 bytes);
	else if (!strcmp(r->allocator, "mimalloc"))
		snprintf(text, size,
			 "mimalloc has %s more than is live, part of it free: mi_collect(true) "
			 "returns it, a shorter MIMALLOC_PURGE_DELAY (or RESET_DELAY) sooner.",
			 bytes);
	else if (m->top > MOSTLY * m->part[KEPT])
		snprintf(text, size,
			 "glibc keeps %s free, most of it at the end of its heap: "
			 "malloc_trim(0) returns it, a smaller M_TRIM_THRESHOLD at once.",
			 bytes);
	else if (m->arenas >= 2)
		snprintf(text, size,
			 "glibc keeps %s free in %.0f heaps of its arenas: MALLOC_ARENA_MAX=2 "
			 "makes fewer of them, malloc_trim(0) returns whole free pages.",
			 bytes, m->arenas + 1);
	else
		snprintf(text, size,
			 "glibc keeps %s free between live blocks: malloc_trim(0) returns whole "
			 "free pages. Which blocks hold the others: mayfly record --exact, then "
			 "report --fragmentation.",
			 bytes);
}

static bool is_python(const struct mayfly_info *info)
{
	return !strncmp(path_base(info->program), "python", 6);
}

/* A sentence about the part that matters most; PARTS: none does. */
static enum part advise(const struct rss *r, const struct moment *m, char *text, size_t size)
{
	double share[PARTS], most = 0;
	enum part which = PARTS;
	char bytes[FIGURE_TEXT];

	for (unsigned int i = 0; i < PARTS; i++)
		share[i] = m->rss > 0 ? m->part[i] / m->rss : 0;
	share[UNTOUCHED] = 0;
	share[KEPT] = m->rss > 0 ? kept(m) / m->rss : 0;
	for (unsigned int i = 0; i < PARTS; i++) {
		if (share[i] <= most)
			continue;
		most = share[i];
		which = i;
	}
	if (most < WORTH_A_WORD || m->rss < LEAST_BYTES)
		return PARTS;
	text_bytes(bytes, sizeof(bytes), m->part[which]);
	switch (which) {
	case LIVE:
		if (-m->part[UNTOUCHED] > MOSTLY * m->part[LIVE])
			snprintf(text, size,
				 "the heap is larger than what is resident: much of it was "
				 "allocated and never written to.");
		else
			snprintf(text, size,
				 "the largest part is live heap: 'mayfly report' says whose.");
		break;
	case OVERHEAD:
	case METADATA:
		snprintf(text, size,
			 "%s is the allocator's overhead: small blocks have a header and are "
			 "rounded up; fewer, larger ones cost less.",
			 bytes);
		break;
	case FRAGMENTED:
		snprintf(text, size,
			 "%s are free in pages that still hold live blocks, so %s cannot give them "
			 "back. Whose blocks those are: mayfly record --exact, then report "
			 "--fragmentation.",
			 bytes, r->allocator);
		break;
	case KEPT:
		advise_kept(r, m, text, size);
		break;
	case ANONYMOUS:
		snprintf(text, size,
			 "%s is anonymous memory that did not come from malloc: mapped by the "
			 "program or by an allocator of its own%s%s.",
			 bytes, r->mapped.rows ? ", see below" : "",
			 is_python(r->file->info) ? " (Python's is seen with PYTHONMALLOC=malloc)"
						  : "");
		break;
	case STACKS:
		snprintf(text, size,
			 "%s are stacks (%.0f of them): what a thread's stack has once reached "
			 "stays resident.",
			 bytes, m->stacks);
		break;
	case FILES:
		snprintf(text, size,
			 "%s are pages of files, code among them: the kernel takes back those "
			 "that were not changed when memory is short, and other processes may "
			 "share them (PSS counts only their share).",
			 bytes);
		break;
	case SHARED:
		snprintf(text, size,
			 "%s is shared memory, which counts in each process that has it mapped.",
			 bytes);
		break;
	default:
		return PARTS;
	}
	return which;
}

/* ---- text ---- */

static char *say_part(char *buffer, size_t size, const struct rss *r, const struct moment *m,
		      unsigned int i)
{
	char bytes[FIGURE_TEXT], error[FIGURE_TEXT];

	if (i == LIVE) {
		text_figure_value(bytes, sizeof(bytes), &m->live.bytes, m->live.samples);
		text_figure_error(error, sizeof(error), r->out, &m->live.bytes, m->live.samples);
		snprintf(buffer, size, "%s%s%s", bytes, *error ? " " : "", error);
		return buffer;
	}
	text_bytes(bytes, sizeof(bytes), fabs(m->part[i]));
	snprintf(buffer, size, "%s%s", m->part[i] < 0 && strcmp(bytes, "0 B") ? "-" : "", bytes);
	return buffer;
}

static bool is_shown(const struct rss *r, unsigned int part)
{
	for (size_t i = 0; i < r->moments; i++)
		if (fabs(r->moment[i].part[part]) >= 1)
			return true;
	return part == LIVE || part == UNEXPLAINED;
}

static bool put_rows(struct table *t, const struct rss *r)
{
	char text[256];

	for (unsigned int i = 0; i < PARTS; i++) {
		if (!is_shown(r, i))
			continue;
		for (size_t k = 0; k < r->moments; k++) {
			const struct moment *m = &r->moment[k];

			bool share = m->part[i] >= 0 && m->part[i] <= m->rss;

			if (!table_cell(t, say_part(text, sizeof(text), r, m, i)) ||
			    !table_cell(t,
					share ? text_percent(text, sizeof(text), m->part[i], m->rss)
					      : ""))
				return false;
		}
		snprintf(text, sizeof(text), "%s", parts[i].name);
		if (i == STACKS && r->moment[0].mappings)
			snprintf(text, sizeof(text), "%s (%.0f)", parts[i].name,
				 r->moment[r->moments - 1].stacks);
		if (!table_cell(t, text))
			return false;
	}
	for (size_t k = 0; k < r->moments; k++)
		if (!table_cell(t, text_bytes(text, sizeof(text), r->moment[k].rss)) ||
		    !table_cell(t, ""))
			return false;
	return table_cell(t, "resident in all (RSS)");
}

static bool print_parts(const struct rss *r)
{
	struct column columns[5] = {{"", true, 0, STYLE_PLAIN, false},
				    {"", true, 1, STYLE_DIM, true},
				    {"", true, 0, STYLE_PLAIN, false},
				    {"", true, 1, STYLE_DIM, true},
				    {"WHAT", false, 0, STYLE_PLAIN, false}};
	struct table *t;
	bool done;

	for (size_t k = 0; k < r->moments; k++)
		columns[2 * k].title =
		    strcmp(r->moment[k].which, "peak") ? "AT THE END" : "AT THE PEAK";
	columns[2 * r->moments] = columns[4];
	t = table_new(columns, 2 * r->moments + 1);
	done = t && put_rows(t, r);
	if (done)
		table_print(t, r->out, 0);
	table_free(t);
	return done;
}

static void print_sparkline(const struct rss *r, const char *name, const double *value,
			    size_t steps)
{
	char line[SPARKLINE_STEPS * 4 + 1], bytes[FIGURE_TEXT];
	double most = 0;

	for (size_t i = 0; i < steps; i++)
		most = fmax(most, value[i]);
	text_sparkline(line, sizeof(line), r->out, value, steps);
	print_styled(r->out, STYLE_BOLD, name);
	printf("%*s", (int)(FIELD_INDENT - strlen(name)), "");
	print_styled(r->out, STYLE_BAR, line);
	printf("  at most %s\n", text_bytes(bytes, sizeof(bytes), most));
}

/* The largest of each step; where no point lies, what holds there. */
static bool steps_of(const struct rss *r, const char *name, double *value, size_t steps)
{
	const struct mayfly_counter *c = find(r->trace, name);
	int64_t end = r->file->info->duration_ns;

	if (!c)
		return false;
	for (size_t i = 0; i < steps; i++)
		value[i] = value_at(r->trace, name,
				    (int64_t)((double)end * (double)(i + 1) / (double)steps));
	for (size_t i = 0; i < c->points; i++) {
		size_t k = (size_t)((double)c->time_ns[i] / (double)end * (double)steps);

		if (k < steps && value[k] < c->value[i])
			value[k] = c->value[i];
	}
	return true;
}

static void print_over_time(const struct rss *r)
{
	size_t room = (size_t)r->out->width - FIELD_INDENT - 20;
	size_t steps = room < SPARKLINE_STEPS ? room : SPARKLINE_STEPS;
	double value[SPARKLINE_STEPS];

	if (!r->out->utf8 || r->file->info->duration_ns <= 0 || r->out->width < FIELD_INDENT + 30)
		return;
	if (steps_of(r, "process.resident", value, steps))
		print_sparkline(r, "RSS", value, steps);
	if (!mayfly_timeline(r->trace, steps, value))
		print_sparkline(r, "Live heap", value, steps);
	if (steps_of(r, "glibc.free", value, steps))
		print_sparkline(r, "Free", value, steps);
	putchar('\n');
}

static void print_times(const struct rss *r)
{
	const struct mayfly_counter *maps = find(r->trace, "maps.resident");
	const struct mayfly_counter *own = find(r->trace, "self.resident");
	char peak[FIGURE_TEXT], end[FIGURE_TEXT], asked[FIGURE_TEXT];
	const struct moment *m = &r->moment[0];

	text_duration(peak, sizeof(peak), (double)m->time_ns);
	if (r->moments == 2) {
		text_duration(end, sizeof(end), (double)r->moment[1].time_ns);
		print_wrapped(r->out, STYLE_DIM, 0,
			      "The peak is at %s, the end at %s: of %zu moment%s at which the "
			      "mappings were read, the one with most resident and the last.",
			      peak, end, maps->points, maps->points == 1 ? "" : "s");
	}
	if (r->allocator && llabs(m->allocator_ns - m->time_ns) > FAR_NS)
		print_wrapped(r->out, STYLE_DIM, 0, "%s was asked at %s for the peak.",
			      r->allocator,
			      text_duration(asked, sizeof(asked), (double)m->allocator_ns));
	if (r->moments == 2 && r->highest > PEAK_MISSED * m->rss)
		print_wrapped(r->out, STYLE_NOTE, 0,
			      "Between two of them RSS was higher: up to %s.",
			      text_bytes(peak, sizeof(peak), r->highest));
	if (r->moments == 2 && own && fabs(last(own) - r->moment[1].rss) > 0.05 * r->moment[1].rss)
		print_wrapped(r->out, STYLE_NOTE, 0, "When the program left, RSS was %s.",
			      text_bytes(end, sizeof(end), last(own)));
	if (!r->allocator)
		print_wrapped(r->out, STYLE_NOTE, 0,
			      "The allocator gave no figures: what it keeps free is part of the "
			      "other anonymous memory.");
}

/* "function  file.c:12". */
static char *say_caller(char *buffer, size_t size, const struct rss *r,
			const struct mapped_row *row)
{
	size_t length;

	if (!row->frame) {
		snprintf(buffer, size, "[no stack]");
		return buffer;
	}
	frame_name(buffer, size, r->trace, row->frame, row->location);
	length = strlen(buffer);
	if (row->location && *row->location->file && length + 3 < size) {
		strcpy(buffer + length, "  ");
		location_text(buffer + length + 2, size - length - 2, row->location->file,
			      row->location->line, "-", r->out->wide);
	}
	return buffer;
}

static bool put_mapped(struct table *t, const struct rss *r, const struct mapped_row *row)
{
	char text[1024];

	for (size_t k = 0; k < r->moments; k++)
		if (!table_cell(t, text_bytes(text, sizeof(text), (double)row->bytes[k])))
			return false;
	return table_cell(t, row->access) && table_cell(t, say_caller(text, sizeof(text), r, row));
}

static bool print_mapped(const struct rss *r)
{
	const struct column what[2] = {{"ACCESS", false, 0, STYLE_PLAIN, false},
				       {"MAPPED BY", false, 0, STYLE_PLAIN, false}};
	struct column columns[4] = {0};
	size_t shown = r->mapped.rows < MAPPED_ROWS ? r->mapped.rows : MAPPED_ROWS;
	bool done = true;
	struct table *t;

	if (!shown)
		return true;
	for (size_t k = 0; k < r->moments; k++)
		columns[k] = (struct column){strcmp(r->moment[k].which, "peak") ? "AT THE END"
										: "AT THE PEAK",
					     true, 0, STYLE_PLAIN, false};
	memcpy(columns + r->moments, what, sizeof(what));
	t = table_new(columns, r->moments + 2);
	done = t != NULL;
	for (size_t i = 0; i < shown && done; i++)
		done = put_mapped(t, r, &r->mapped.row[i]);
	if (done) {
		print_wrapped(r->out, STYLE_PLAIN, 0,
			      "What other code than the C library has mapped, resident or not:");
		table_print(t, r->out, 0);
	}
	table_free(t);
	if (done && r->mapped.rows > shown)
		print_wrapped(r->out, STYLE_DIM, 0, "%zu more with less.", r->mapped.rows - shown);
	if (done && r->mapped.incomplete)
		print_wrapped(r->out, STYLE_NOTE, 0, "Some events were lost; this may be wrong.");
	putchar('\n');
	return done;
}

static int print_text(const struct rss *r)
{
	char line[1024];
	enum part before = PARTS;
	bool any = false;

	print_over_time(r);
	if (!print_parts(r))
		return cli_error("out of memory");
	putchar('\n');
	for (size_t i = 0; i < r->moments; i++) {
		enum part which = advise(r, &r->moment[i], line, sizeof(line));

		if (which == before || which == PARTS)
			continue;
		print_wrapped(r->out, STYLE_BOLD, 0, "At the %s: %s", r->moment[i].which, line);
		before = which;
		any = true;
	}
	if (any)
		putchar('\n');
	if (!print_mapped(r))
		return cli_error("out of memory");
	print_times(r);
	return cli_finish();
}

/* ---- JSON ---- */

static bool set(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value) == 0;
}

static json_t *json_moment(const struct rss *r, const struct moment *m)
{
	json_t *o = json_object(), *all = json_object();
	char line[1024];
	bool good = o && all;

	for (unsigned int i = 0; good && i < PARTS; i++)
		good = set(all, parts[i].key, json_integer((json_int_t)llround(m->part[i])));
	good = good && set(o, "which", json_string(m->which)) &&
	       set(o, "time_ns", json_integer(m->time_ns)) &&
	       set(o, "rss", json_integer((json_int_t)llround(m->rss))) &&
	       set(o, "live", json_estimate(&m->live)) &&
	       set(o, "allocator_time_ns",
		   m->allocator_ns < 0 ? json_null() : json_integer(m->allocator_ns)) &&
	       set(o, "arenas", json_integer((json_int_t)m->arenas)) &&
	       set(o, "stacks", json_integer((json_int_t)m->stacks)) &&
	       set(o, "advice",
		   advise(r, m, line, sizeof(line)) != PARTS ? json_string(line) : json_null());
	if (good && json_object_set(o, "parts", all) == 0) {
		json_decref(all);
		return o;
	}
	json_decref(all);
	json_decref(o);
	return NULL;
}

static json_t *json_counter(const struct mayfly_counter *c)
{
	json_t *times = json_array(), *values = json_array();

	for (size_t i = 0; times && values && i < c->points; i++) {
		double value = c->value[i];
		json_t *number = value == floor(value) && fabs(value) < 0x1p53
				     ? json_integer((json_int_t)value)
				     : json_real(value);

		if (json_array_append_new(times, json_integer(c->time_ns[i])) ||
		    json_array_append_new(values, number)) {
			json_decref(times);
			times = NULL;
		}
	}
	return json_pack("{s:o, s:o, s:o, s:o}", "name", json_text(c->name), "unit",
			 json_text(c->unit), "time_ns", times, "value", values);
}

static json_t *json_mapped(const struct rss *r, const struct mapped_row *row)
{
	json_t *bytes = json_array(), *o = json_object();
	char name[512];
	bool good = bytes && o;

	for (size_t k = 0; good && k < r->moments; k++)
		good = !json_array_append_new(bytes, json_integer((json_int_t)row->bytes[k]));
	if (row->frame)
		frame_name(name, sizeof(name), r->trace, row->frame, row->location);
	good = good && set(o, "access", json_text(row->access)) &&
	       set(o, "function", row->frame ? json_text(name) : json_null()) &&
	       set(o, "file", row->location ? json_text(row->location->file) : json_null()) &&
	       set(o, "line", json_integer(row->location ? row->location->line : 0)) &&
	       !json_object_set(o, "bytes", bytes);
	json_decref(bytes);
	if (good)
		return o;
	json_decref(o);
	return NULL;
}

static int print_json(const struct rss *r)
{
	json_t *o = json_object(), *moments = json_array(), *counters = json_array();
	json_t *mapped = json_array();
	bool good = o && moments && counters && mapped;

	for (size_t i = 0; good && i < r->moments; i++)
		good = !json_array_append_new(moments, json_moment(r, &r->moment[i]));
	for (size_t i = 0; good && i < r->mapped.rows; i++)
		good = !json_array_append_new(mapped, json_mapped(r, &r->mapped.row[i]));
	for (size_t i = 0; good && i < r->file->info->counters; i++)
		good = !json_array_append_new(counters,
					      json_counter(mayfly_trace_counter(r->trace, i)));
	good = good &&
	       set(o, "allocator", r->allocator ? json_string(r->allocator) : json_null()) &&
	       set(o, "highest_rss", r->highest > 0 ? json_real(r->highest) : json_null()) &&
	       !json_object_set(o, "moments", moments) && !json_object_set(o, "mapped", mapped) &&
	       !json_object_set(o, "counters", counters);
	json_decref(moments);
	json_decref(mapped);
	json_decref(counters);
	if (good)
		return json_print(o);
	json_decref(o);
	return json_print(NULL);
}

/* ---- the command ---- */

int report_rss(const struct opened_trace *file, const char *name, const struct output *out,
	       bool json)
{
	struct rss r = {.file = file, .trace = file->trace, .out = out};
	int64_t times[MAPPED_MOMENTS];
	int error, status;

	if (!find(r.trace, "maps.resident") && !find(r.trace, "self.resident"))
		return cli_error(
		    "%s: does not hold what was resident; 'mayfly record' records it "
		    "of programs that run for some milliseconds, 'mayfly merge' leaves "
		    "it out",
		    name);
	error = find_moments(&r);
	for (size_t i = 0; i < r.moments; i++)
		times[i] = r.moment[i].time_ns;
	if (!error)
		error = mapped_at(r.trace, times, r.moments, &r.mapped);
	if (error)
		return cli_error("%s: %s", name, mayfly_error_text(error));
	status = json ? print_json(&r) : print_text(&r);
	mapped_free(&r.mapped);
	return status;
}

void print_resident(const struct output *out, const struct mayfly_trace *trace)
{
	const struct mayfly_counter *now = find(trace, "process.resident");
	const struct mayfly_counter *peak = find(trace, "process.resident_peak");
	const struct mayfly_counter *own = find(trace, "self.resident");
	double end = own ? last(own) : now ? last(now) : 0;
	char most[FIGURE_TEXT], left[FIGURE_TEXT];

	if (!end)
		return;
	text_bytes(left, sizeof(left), end);
	if (peak)
		text_bytes(most, sizeof(most), fmax(largest(peak), end));
	print_field(out, "Resident", "%s%s%s at the end; 'mayfly report --rss' explains it",
		    peak ? most : "", peak ? " at most, " : "", left);
}
