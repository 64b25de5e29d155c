/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format of Valgrind's Massif: live bytes at moments, and at some moments a tree of the code
 * that holds them, from the allocating functions to their callers.
 *
 *	desc: ...			snapshot=2		the whole file is text
 *	cmd: ...			time=120		ms
 *	time_unit: ms			mem_heap_B=300
 *	#-----------			mem_heap_extra_B=0
 *	snapshot=0			mem_stacks_B=0
 *	...				heap_tree=peak		or detailed, or empty
 *					n2: 300 (heap allocation functions) ...
 *					 n1: 200 0x4011FE: grow (parse.c:31)
 *					  n0: 200 0x4012AA: main (main.c:10)
 *					 n0: 100 in 3 places, all below the threshold (1.00%)
 *
 * The tree is never built: the sites of a level are sorted by the line that calls them, and only
 * large enough groups are followed, so memory is proportional to the sites.
 *
 *	site: where blocks were allocated -> the current line, one level further up each time
 */
#include "convert/export/exports.h"

#include "convert/export/curve.h"
#include "convert/out.h"
#include "answer/shown_stacks.h"
#include "base/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SNAPSHOTS   100
#define DETAILED    10	 /* one of this many snapshots has a tree */
#define THRESHOLD   0.01 /* least share of the total for a place in the tree; as in Massif */
#define DEPTH	    30	 /* limit of the tree; as in Massif */
#define NANO_PER_MS 1000000

struct site {
	uint32_t node;	/* 0: the current line is the last one */
	uint32_t frame; /* of the current line: index of a shown frame */
	uint32_t line;	/* in the frame: 0 is the innermost; NO_LINE: past the root */
	double bytes;
};

#define NO_LINE UINT32_MAX

struct group { /* of sites with the same current line */
	size_t first, count;
	double bytes;
};

struct massif {
	struct export_job *job;
	const struct mayfly_trace *trace;
	struct shown_stacks *stacks; /* and */
	struct out *out;	     /* those of `job` */
	struct site *site;
	size_t sites;
	struct curve curve;
	double least; /* bytes that a place needs to be in the tree */
};

/* ---- sites ---- */

static const struct shown_line *line_of(const struct massif *m, const struct site *s)
{
	return &m->stacks->line[m->stacks->frame[s->frame].first + s->line];
}

/* Moves to the next frame above with a shown line. */
static void climb(const struct massif *m, struct site *s)
{
	while (s->node) {
		struct mayfly_node n = mayfly_trace_node(m->trace, s->node);

		s->frame = shown_node(m->stacks, s->node);
		s->node = n.parent < s->node ? n.parent : 0;
		s->line = 0;
		if (s->frame != SHOWN_NOTHING && m->stacks->frame[s->frame].count)
			return;
	}
	s->line = NO_LINE;
}

static void to_caller(const struct massif *m, struct site *s)
{
	if (++s->line >= m->stacks->frame[s->frame].count)
		climb(m, s);
}

static void begin_site(struct massif *m, struct site *s, const struct mayfly_node_sum *sum)
{
	const uint32_t *path;
	size_t length = export_path(m->job, sum->node, &path);

	*s = (struct site){.node = sum->node, .bytes = sum->self.bytes.estimate};
	if (!length)
		return;
	if (shown_is_instead(m->stacks, path[0])) {
		/* No code is left of it: its only line says why, or stands for it. */
		s->node = 0;
		s->frame = path[0];
		return;
	}
	climb(m, s);
}

static int compare_lines(const struct shown_line *a, const struct shown_line *b)
{
	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	return a->line < b->line ? -1 : a->line > b->line;
}

static int compare_sites(const void *left, const void *right, void *context)
{
	const struct site *a = left, *b = right;

	if (a->line == NO_LINE || b->line == NO_LINE)
		return (a->line == NO_LINE) - (b->line == NO_LINE);
	return compare_lines(line_of(context, a), line_of(context, b));
}

static int compare_groups(const void *left, const void *right)
{
	const struct group *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return a->first < b->first ? -1 : a->first > b->first;
}

/* ---- the tree ---- */

static bool is_large(const struct massif *m, const struct group *g)
{
	return g->bytes >= m->least && m->site[g->first].line != NO_LINE;
}

/* Sorts sites into groups, largest bytes first; the group without a line is last. */
static void make_groups(struct massif *m, size_t first, size_t count, struct group **groups,
			size_t *made)
{
	size_t room = 0;

	qsort_r(m->site + first, count, sizeof(*m->site), compare_sites, m);
	for (size_t i = first; i < first + count; i++) {
		struct group *last = *made ? &(*groups)[*made - 1] : NULL;

		if (!last || compare_sites(&m->site[last->first], &m->site[i], m) != 0) {
			if (!array_reserve(groups, &room, *made, sizeof(**groups))) {
				out_fail(m->out, MAYFLY_E_MEMORY);
				return;
			}
			last = &(*groups)[(*made)++];
			*last = (struct group){.first = i};
		}
		last->count++;
		last->bytes += m->site[i].bytes;
	}
	if (*made)
		qsort(*groups, *made, sizeof(**groups), compare_groups);
}

static void indent(struct massif *m, int depth)
{
	for (int i = 0; i < depth; i++)
		out_char(m->out, ' ');
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Replaces line ends and bytes that are not UTF-8. */
static void massif_put_text(struct massif *m, const char *text)
{
	while (*text) {
		size_t length = utf8_length(text);
		bool shows = length > 0 && (unsigned char)*text >= ' ';

		out_bytes(m->out, shows ? text : "?", shows ? length : 1);
		text += length ? length : 1;
	}
}

static void put_place(struct massif *m, const struct site *s)
{
	const struct shown_line *line = line_of(m, s);
	const struct mayfly_frame *f = mayfly_trace_frame(m->trace, s->frame);
	const struct mayfly_module *module = f ? mayfly_trace_module(m->trace, f->module) : NULL;
	const char *file = shown_text(m->stacks, line->file);

	if (f && f->kind == MAYFLY_FRAME_CODE)
		out_format(m->out, "0x%" PRIX64 ": ", export_address(m->trace, f));
	massif_put_text(m, shown_text(m->stacks, line->name));
	if (*file) {
		out_text(m->out, " (");
		massif_put_text(m, base_of(file));
		out_format(m->out, ":%" PRIu32 ")", line->line);
	} else if (module) {
		out_text(m->out, " (in ");
		massif_put_text(m, module->path);
		out_char(m->out, ')');
	}
	out_char(m->out, '\n');
}

/* Begins a line of the tree; below: the number of its children. */
static void begin_line(struct massif *m, int depth, size_t below, double bytes)
{
	indent(m, depth);
	out_format(m->out, "n%zu: %.0f ", below, bytes);
}

static void put_small(struct massif *m, int depth, size_t places, double bytes)
{
	begin_line(m, depth, 0, bytes);
	out_format(m->out, "in %zu place%s, %s below the threshold (%.2f%%)\n", places,
		   places == 1 ? "" : "s", places == 1 ? "" : "all", THRESHOLD * 100);
}

/* The groups of callers with their own lines, and the sum of all others. */
struct callers {
	struct group *group;
	size_t groups, large, small;
	double small_bytes;
};

static void find_callers(struct massif *m, const struct group *g, struct callers *c)
{
	make_groups(m, g->first, g->count, &c->group, &c->groups);
	for (size_t i = 0; i < c->groups; i++) {
		if (is_large(m, &c->group[i])) {
			c->large++;
		} else if (m->site[c->group[i].first].line != NO_LINE) {
			c->small++;
			c->small_bytes += c->group[i].bytes;
		}
	}
}

/* place: what the line shows; NULL for the top. The current line of the group's sites is that of
 * their callers. */
static void put_tree(struct massif *m, const struct group *g, const struct site *place, int depth)
{
	struct callers c = {0};

	if (depth < DEPTH)
		find_callers(m, g, &c);
	begin_line(m, depth, c.large + (c.small > 0), g->bytes);
	if (place)
		put_place(m, place);
	else
		out_text(m->out,
			 "(heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n");
	for (size_t i = 0; !m->out->error && i < c.groups; i++) {
		struct group callee = c.group[i];
		struct site at = m->site[callee.first];

		if (!is_large(m, &callee))
			continue;
		for (size_t k = callee.first; k < callee.first + callee.count; k++)
			to_caller(m, &m->site[k]);
		put_tree(m, &callee, &at, depth + 1);
	}
	if (c.small)
		put_small(m, depth + 1, c.small, c.small_bytes);
	free(c.group);
}

static void put_tree_at(struct massif *m, int64_t time_ns)
{
	struct mayfly_query query = *m->job->query;
	struct mayfly_node_sums *sums;
	struct group all = {0};

	query.metric = MAYFLY_LIVE;
	query.at_ns = time_ns;
	query.from_ns = 0;
	query.to_ns = INT64_MAX;
	out_fail(m->out, mayfly_node_sums_run(m->trace, &query, &sums));
	if (m->out->error)
		return;
	m->sites = 0;
	m->site = malloc((sums->count + 1) * sizeof(*m->site));
	for (size_t i = 0; m->site && i < sums->count; i++) {
		begin_site(m, &m->site[m->sites], &sums->sum[i]);
		all.bytes += m->site[m->sites++].bytes;
	}
	all.count = m->sites;
	m->least = all.bytes * THRESHOLD;
	mayfly_node_sums_free(sums);
	out_fail(m->out, m->site ? 0 : MAYFLY_E_MEMORY);
	if (!m->out->error)
		put_tree(m, &all, NULL, 0);
	free(m->site);
}

/* ---- snapshots ---- */

enum tree { NO_TREE, TREE, PEAK_TREE };

struct massif_moment {
	int64_t time_ns; /* in the trace */
	double bytes;
	enum tree tree;
};

static void put_snapshot(struct massif *m, size_t number, const struct massif_moment *at)
{
	static const char *const trees[] = {"empty", "detailed", "peak"};

	out_format(m->out,
		   "#-----------\nsnapshot=%zu\n#-----------\ntime=%.6f\nmem_heap_B=%.0f\n"
		   "mem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n",
		   number, (double)(at->time_ns < 0 ? 0 : at->time_ns) / NANO_PER_MS, at->bytes,
		   trees[at->tree]);
	if (at->tree != NO_TREE)
		put_tree_at(m, at->tree == PEAK_TREE ? MAYFLY_AT_PEAK : at->time_ns);
}

/* The moments in order of time: the start, the ends of all steps, and the peak, which has the
 * report's figure. In a trace of samples others may have a little more: see peak.h. */
static size_t choose_moments(const struct curve *curve, const struct mayfly_query *query,
			     struct massif_moment moments[SNAPSHOTS + 2])
{
	struct massif_moment peak = {curve->peak_ns, curve->peak.bytes.estimate, PEAK_TREE};
	bool want_peak = peak.bytes > 0 && peak.time_ns >= query->from_ns &&
			 peak.time_ns <= curve->step[curve->steps - 1].to_ns;
	size_t count = 0;

	if (query->from_ns == 0)
		moments[count++] = (struct massif_moment){0};
	for (size_t i = 0; i < curve->steps; i++) {
		const struct curve_step *step = &curve->step[i];
		bool tree = (i + 1) % DETAILED == 0 || i + 1 == curve->steps;

		if (want_peak && peak.time_ns <= step->to_ns) {
			moments[count++] = peak;
			want_peak = false;
		}
		moments[count++] = (struct massif_moment){
		    step->to_ns, step->live_bytes, tree && step->live_bytes > 0 ? TREE : NO_TREE};
	}
	return count;
}

void export_massif(struct export_job *j)
{
	struct massif m = {.job = j, .trace = j->trace, .stacks = &j->stacks, .out = &j->out};
	struct massif_moment moments[SNAPSHOTS + 2];
	size_t count;

	out_fail(&j->out, curve_make(j->trace, j->query, SNAPSHOTS, 0, &m.curve));
	out_fail(&j->out, m.curve.steps ? 0 : MAYFLY_E_ABSENT);
	export_stacks(j);
	count = j->out.error ? 0 : choose_moments(&m.curve, j->query, moments);
	out_text(&j->out, j->info->mode == MAYFLY_EXACT
			      ? "desc: mayfly, every allocation\ncmd: "
			      : "desc: mayfly, estimates from samples\ncmd: ");
	massif_put_text(&m, *j->options->purpose ? j->options->purpose
			    : *j->info->program	 ? j->info->program
						 : "unknown");
	out_text(&j->out, "\ntime_unit: ms\n");
	for (size_t i = 0; !j->out.error && i < count; i++)
		put_snapshot(&m, i, &moments[i]);
	curve_free(&m.curve);
}
