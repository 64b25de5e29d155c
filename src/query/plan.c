/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c: the standard errors of sampling, computed from all allocations.
 *
 * Three passes over the events: the moment of the peak; which blocks are live then; the sums. Each
 * figure is about the bytes of one domain:
 *
 *	domain 0: all blocks   1: live at the peak   2...: the rows, under the query's metric
 *
 * Stratified. A thread's small blocks lie on a line that is cut into strata of S bytes with one
 * point each, independent of each other. If b of a stratum's S bytes belong to a domain, the point
 * falls into the domain with probability b/S. If each point counted S bytes, this would give
 *
 *	line     |aaa.bbbb...cccc|cc...dddddddd...|     variance = sum of S^2 (b/S) (1 - b/S)
 *	domain    ###     ####    ##   ########                  = sum of b (S - b)
 *	          b = 11          b = 10
 *
 * Then one point of each group of n = R/S points of a class is taken. If k of the n points belong
 * to the domain, this draw adds the variance S^2 k (n - k). A group stands for about R bytes of its
 * class, so the blocks of a class are a line of their own here, cut into strata of R bytes. With b
 * bytes of such a stratum in the domain, k varies around n b/R. It adds b (R - b) (1 - 1/n) on
 * average if the domain's points are spread at random among those of the class, and up to
 * 1/(n - 1) more if they come in one piece. This code uses the average:
 *
 *	variance = sum over strata of S bytes, b (S - b)
 *	         + sum over strata of R bytes of a class, (1 - 1/n) b (R - b)
 *
 * Classes are those of the sampler, except that other pairs of them collide in its 256 slots.
 *
 * Poisson. Blocks are independent: variance = sum of Z^2 (1 - p) / p with p = 1 - exp(-Z/R).
 *
 * Memory: a bit for each live block (in pages that are freed when all their bits are clear), a few
 * kilobytes for each thread and for each of its classes, four bytes for each node of the tree.
 */
#include "query/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DOMAIN_ALL  0
#define DOMAIN_PEAK 1
#define DOMAIN_ROWS 2
#define DOMAINS	    (DOMAIN_ROWS + PLAN_ROWS)

/* ---- live blocks: a bit for each sample number, in pages ---- */

#define PAGE_BITS  4096
#define PAGE_WORDS (PAGE_BITS / 64)

struct page {
	uint64_t word[PAGE_WORDS];
	uint32_t set;
};

struct live_set {
	struct page **page; /* NULL: none of its bits is set */
	size_t pages;
};

static int grow_live(struct live_set *l, size_t index)
{
	size_t pages = l->pages ? l->pages : 64;
	struct page **grown;

	while (pages <= index)
		pages *= 2;
	grown = realloc(l->page, pages * sizeof(*grown));
	if (!grown)
		return MAYFLY_E_MEMORY;
	memset(grown + l->pages, 0, (pages - l->pages) * sizeof(*grown));
	l->page = grown;
	l->pages = pages;
	return 0;
}

static int live_add(struct live_set *l, uint64_t sample)
{
	size_t index = (size_t)(sample / PAGE_BITS);
	uint64_t bit = 1ull << sample % 64;
	struct page *p;

	/* Sample numbers count events, so no real file gets here. */
	if (sample / PAGE_BITS > SIZE_MAX / 4 / sizeof(*l->page))
		return MAYFLY_E_TOO_LARGE;
	if (index >= l->pages && grow_live(l, index))
		return MAYFLY_E_MEMORY;
	p = l->page[index];
	if (!p) {
		p = l->page[index] = calloc(1, sizeof(*p));
		if (!p)
			return MAYFLY_E_MEMORY;
	}
	p->set += !(p->word[sample % PAGE_BITS / 64] & bit);
	p->word[sample % PAGE_BITS / 64] |= bit;
	return 0;
}

static bool live_has(const struct live_set *l, uint64_t sample)
{
	const struct page *p = sample / PAGE_BITS < l->pages ? l->page[sample / PAGE_BITS] : NULL;

	return p && p->word[sample % PAGE_BITS / 64] >> sample % 64 & 1;
}

static void live_remove(struct live_set *l, uint64_t sample)
{
	struct page *p;

	if (!live_has(l, sample))
		return;
	p = l->page[sample / PAGE_BITS];
	p->word[sample % PAGE_BITS / 64] &= ~(1ull << sample % 64);
	if (--p->set == 0) {
		free(p);
		l->page[sample / PAGE_BITS] = NULL;
	}
}

static void live_free(struct live_set *l)
{
	for (size_t i = 0; i < l->pages; i++)
		free(l->page[i]);
	free(l->page);
}

/* ---- passes 1 and 2: the peak ---- */

static int plan_find_peak(const struct mayfly_trace *trace, struct plan *plan, uint64_t *peak_event)
{
	uint64_t events = 0, live = 0, live_blocks = 0;
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more = mayfly_cursor_open(trace, &cursor);

	if (more)
		return more;
	*peak_event = 0;
	while ((more = mayfly_cursor_next(cursor, &e)) == 1) {
		events++;
		if (e.kind == MAYFLY_FREE) {
			live -= e.size;
			live_blocks--;
			continue;
		}
		plan->blocks++;
		plan->allocated_bytes += e.size;
		live += e.size;
		live_blocks++;
		if (live > plan->peak_bytes) {
			plan->peak_bytes = live;
			plan->peak_blocks = live_blocks;
			plan->peak_ns = e.time_ns;
			*peak_event = events;
		}
	}
	mayfly_cursor_close(cursor);
	return more;
}

static int find_live(const struct mayfly_trace *trace, uint64_t peak_event, struct live_set *live)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more = mayfly_cursor_open(trace, &cursor);

	if (more)
		return more;
	for (uint64_t i = 0; i < peak_event; i++) {
		more = mayfly_cursor_next(cursor, &e);
		if (more != 1)
			break;
		more = 0;
		if (e.kind == MAYFLY_FREE)
			live_remove(live, e.sample);
		else
			more = live_add(live, e.sample);
		if (more)
			break;
	}
	mayfly_cursor_close(cursor);
	return more;
}

/* ---- the rows that a node belongs to ---- */

/* The rows of each node, as bits. By thread and by size, rows depend on the event instead. */
struct row_finder {
	const struct mayfly_trace *trace;
	const struct mayfly_query *query;
	const struct mayfly_row *row;
	size_t rows;
	uint32_t *node_mask;	/* NULL: by thread or size */
	size_t *first_location; /* frame -> index in `hidden` of its first location */
	bool *hidden;		/* the query's matcher is asked once for each location */
};

static bool same_text(const char *a, const char *b)
{
	return a == b || strcmp(a ? a : "", b ? b : "") == 0;
}

static const char *module_path(const struct row_finder *f, const struct mayfly_frame *frame)
{
	const struct mayfly_module *m = mayfly_trace_module(f->trace, frame->module);

	return m ? m->path : "";
}

static bool hides(const struct row_finder *f, const char *text)
{
	const struct mayfly_match *hide = &f->query->hide;

	return hide->matches && *text && hide->matches(hide->context, text);
}

static const struct mayfly_location unknown_location = {.function = "", .file = ""};

static size_t locations(const struct mayfly_frame *frame)
{
	return frame->locations ? frame->locations : 1;
}

static const struct mayfly_location *location(const struct mayfly_frame *frame, size_t index)
{
	return frame->locations ? &frame->location[index] : &unknown_location;
}

static bool plan_is_hidden(const struct row_finder *f, size_t frame, size_t index)
{
	return f->hidden[f->first_location[frame] + index];
}

static int find_hidden(struct row_finder *f)
{
	size_t frames = mayfly_trace_info(f->trace)->frames, count = 0;

	f->first_location = calloc(frames + 1, sizeof(*f->first_location));
	for (size_t i = 0; f->first_location && i < frames; i++) {
		f->first_location[i] = count;
		count += locations(mayfly_trace_frame(f->trace, i));
	}
	f->hidden = calloc(count + 1, sizeof(*f->hidden));
	if (!f->first_location || !f->hidden)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < frames; i++) {
		const struct mayfly_frame *frame = mayfly_trace_frame(f->trace, i);
		bool *hidden = f->hidden + f->first_location[i];

		if (frame->kind != MAYFLY_FRAME_CODE)
			continue;
		for (size_t k = 0; k < locations(frame); k++) {
			const struct mayfly_location *l = location(frame, k);

			hidden[k] = hides(f, l->function) || hides(f, l->file) ||
				    hides(f, module_path(f, frame));
		}
	}
	return 0;
}

/* Whether the row stands for this place. */
static bool is_row(const struct row_finder *f, const struct mayfly_row *row,
		   const struct mayfly_frame *frame, const struct mayfly_location *l)
{
	if (f->query->by == MAYFLY_BY_MODULE)
		return same_text(row->module, module_path(f, frame));
	if (!same_text(row->function, l->function))
		return false;
	if (!*l->function)
		return row->stack_length > 0 && row->stack[0].address == frame->address &&
		       same_text(row->module, module_path(f, frame));
	return f->query->by != MAYFLY_BY_LINE ||
	       (row->line == l->line && same_text(row->file, l->file));
}

static uint32_t rows_of_place(const struct row_finder *f, const struct mayfly_frame *frame,
			      size_t index)
{
	for (size_t r = 0; r < f->rows && f->query->by != MAYFLY_BY_STACK; r++)
		if (is_row(f, &f->row[r], frame, location(frame, index)))
			return 1u << r;
	return 0;
}

/* The row of blocks without a visible place. Its name is in the field that the grouping uses. */
static uint32_t rows_of_nothing(const struct row_finder *f, bool hidden)
{
	const char *name = hidden ? "[hidden]" : "[no stack]";

	for (size_t r = 0; r < f->rows; r++) {
		const struct mayfly_row *row = &f->row[r];
		const char *key = f->query->by == MAYFLY_BY_MODULE ? row->module : row->function;

		if (f->query->by == MAYFLY_BY_STACK)
			key = row->stack_length == 1 ? row->stack[0].function : "";
		if (same_text(key, name))
			return 1u << r;
	}
	return 0;
}

struct frame_rows {
	uint32_t self, total;
	bool visible, hidden;
};

static struct frame_rows rows_of_frame(const struct row_finder *f, size_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(f->trace, index);
	struct frame_rows found = {0};

	if (!frame)
		return found;
	if (frame->kind != MAYFLY_FRAME_CODE) {
		/* A mark is a line of a printed stack; other groupings ignore it. */
		found.visible = f->query->by == MAYFLY_BY_STACK;
		return found;
	}
	for (size_t i = 0; i < locations(frame); i++) {
		uint32_t rows;

		if (plan_is_hidden(f, index, i)) {
			found.hidden = true;
			continue;
		}
		rows = rows_of_place(f, frame, i);
		if (!found.visible)
			found.self = rows;
		found.visible = true;
		found.total |= rows;
	}
	return found;
}

struct node_state {
	bool visible, hidden; /* for any place between the node and the root */
};

/* Parents come before their children, so each node adds its frame to its parent's result. */
static int mark_nodes(struct row_finder *f)
{
	const struct mayfly_info *info = mayfly_trace_info(f->trace);
	bool by_total = f->query->sort == MAYFLY_SORT_TOTAL;
	struct frame_rows *frame = calloc(info->frames + 1, sizeof(*frame));
	struct node_state *state = calloc(info->nodes + 1, sizeof(*state));

	for (size_t i = 0; frame && i < info->frames; i++)
		frame[i] = rows_of_frame(f, i);
	for (size_t i = 0; frame && state && i < info->nodes; i++) {
		struct mayfly_node n = mayfly_trace_node(f->trace, i);
		struct frame_rows own = {0};
		bool covered;

		if (i > 0 && n.frame < info->frames)
			own = frame[n.frame];
		if (i > 0 && n.parent < i)
			state[i] = state[n.parent];
		covered = state[i].visible;
		state[i].visible |= own.visible;
		state[i].hidden |= own.hidden;
		if (!state[i].visible)
			f->node_mask[i] = rows_of_nothing(f, state[i].hidden);
		else if (by_total)
			f->node_mask[i] = own.total | (covered ? f->node_mask[n.parent] : 0);
		else
			f->node_mask[i] = own.visible ? own.self : f->node_mask[n.parent];
	}
	free(frame);
	free(state);
	return frame && state ? 0 : MAYFLY_E_MEMORY;
}

/* Stacks are compared from the leaf: there most of them differ. */
static bool same_place(const struct row_finder *f, const struct mayfly_place *p,
		       const struct mayfly_frame *frame, size_t index)
{
	const struct mayfly_location *l = location(frame, index);

	if (p->kind != frame->kind)
		return false;
	if (frame->kind != MAYFLY_FRAME_CODE)
		return p->address == frame->address;
	if (!same_text(p->function, l->function) || !same_text(p->file, l->file) ||
	    !same_text(p->module, module_path(f, frame)))
		return false;
	return p->line == l->line && p->inlined == l->inlined &&
	       (*l->function || p->address == frame->address);
}

/* The number of places of the row's stack, from `at` on, that the frame matches; SIZE_MAX: it
 * differs. */
static size_t follow_frame(const struct row_finder *f, const struct mayfly_row *row, size_t at,
			   size_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(f->trace, index);
	size_t count;

	if (!frame)
		return at;
	count = frame->kind == MAYFLY_FRAME_CODE ? locations(frame) : 1;
	for (size_t i = 0; i < count; i++) {
		if (plan_is_hidden(f, index, i))
			continue;
		if (at >= row->stack_length || !same_place(f, &row->stack[at], frame, i))
			return SIZE_MAX;
		at++;
	}
	return at;
}

static bool is_stack(const struct row_finder *f, const struct mayfly_row *row, size_t node)
{
	size_t at = 0;

	while (node > 0) {
		struct mayfly_node n = mayfly_trace_node(f->trace, node);

		at = follow_frame(f, row, at, n.frame);
		if (at == SIZE_MAX || n.parent >= node)
			return false;
		node = n.parent;
	}
	return at == row->stack_length && at > 0;
}

static int mark_stacks(struct row_finder *f)
{
	const struct mayfly_info *info = mayfly_trace_info(f->trace);
	bool by_total = f->query->sort == MAYFLY_SORT_TOTAL;
	int status = mark_nodes(f); /* finds only rows without any place */

	for (size_t i = 1; !status && i < info->nodes; i++) {
		struct mayfly_node n = mayfly_trace_node(f->trace, i);

		if (by_total && n.parent < i)
			f->node_mask[i] |= f->node_mask[n.parent];
		for (size_t r = 0; r < f->rows; r++)
			if (is_stack(f, &f->row[r], i))
				f->node_mask[i] |= 1u << r;
	}
	return status;
}

static bool in_size_class(const struct mayfly_row *row, uint64_t size)
{
	return row->low == 0 ? size <= (uint64_t)row->high
			     : size > (uint64_t)row->low && size <= (uint64_t)row->high;
}

static uint32_t rows_of_event(const struct row_finder *f, const struct mayfly_event *e)
{
	if (f->node_mask)
		return e->node < mayfly_trace_info(f->trace)->nodes ? f->node_mask[e->node] : 0;
	for (size_t r = 0; r < f->rows; r++) {
		if (f->query->by == MAYFLY_BY_THREAD ? f->row[r].thread == e->alloc_thread
						     : in_size_class(&f->row[r], e->size))
			return 1u << r;
	}
	return 0;
}

static int find_rows(struct row_finder *f)
{
	int status;

	if (f->query->by == MAYFLY_BY_THREAD || f->query->by == MAYFLY_BY_SIZE)
		return 0;
	f->node_mask = calloc(mayfly_trace_info(f->trace)->nodes + 1, sizeof(*f->node_mask));
	if (!f->node_mask)
		return MAYFLY_E_MEMORY;
	status = find_hidden(f);
	if (status)
		return status;
	return f->query->by == MAYFLY_BY_STACK ? mark_stacks(f) : mark_nodes(f);
}

/* ---- pass 3: the sums ---- */

/* As in the sampler: the most points of a group, and the smallest distance between points. */
#define CLASSES		256
#define MOST_IN_GROUP	16
#define LEAST_STEP_LOG2 12

/* The open stratum of a line. */
struct stratum {
	uint32_t used; /* bytes filled so far */
	uint32_t bytes[DOMAINS];
};

_Static_assert(PLAN_FIRST_LOG2 + PLAN_LEVELS <= 32, "bytes of a stratum");

/* A thread's allocations at each interval: of all its points, or of one class of its blocks. */
struct line {
	struct stratum level[PLAN_LEVELS];
};

struct thread {
	struct line points;
	struct line *class[CLASSES]; /* NULL: it has no blocks */
};

/* The terms of a block of this size under Poisson, cached because sizes repeat. */
struct poisson_terms {
	uint64_t size;
	double chance[PLAN_LEVELS], variance[PLAN_LEVELS];
};

#define TERM_SLOTS 512

struct sums {
	const struct mayfly_trace *trace;
	struct thread **thread; /* the allocating threads, and one for inherited blocks */
	size_t threads;
	struct poisson_terms terms[TERM_SLOTS];
	double samples[PLAN_LEVELS][2];
	double variance[PLAN_LEVELS][2][DOMAINS];
};

static uint64_t interval_of(size_t level)
{
	return 1ull << (PLAN_FIRST_LOG2 + level);
}

static uint64_t step_of(size_t level)
{
	uint64_t step = interval_of(level) / MOST_IN_GROUP;

	return step > 1ull << LEAST_STEP_LOG2 ? step : 1ull << LEAST_STEP_LOG2;
}

/* Strata of a level: their length, and the factor of b (length - b) in the variance. */
struct strata {
	size_t level;
	uint64_t length;
	double part;
};

static void close_stratum(struct sums *s, const struct strata *k, struct stratum *t)
{
	for (size_t d = 0; d < DOMAINS; d++) {
		double b = (double)t->bytes[d];

		s->variance[k->level][MAYFLY_STRATIFIED][d] +=
		    k->part * b * ((double)k->length - b);
	}
	memset(t, 0, sizeof(*t));
}

/* Adds up to `size` bytes to the open stratum; returns how many fitted. */
static uint64_t fill_stratum(struct sums *s, const struct strata *k, struct stratum *t,
			     uint64_t size, uint32_t domains)
{
	uint64_t room = k->length - t->used;
	uint32_t part = (uint32_t)(size < room ? size : room);

	for (; domains; domains &= domains - 1)
		t->bytes[__builtin_ctz(domains)] += part;
	t->used += part;
	if (part == room)
		close_stratum(s, k, t);
	return part;
}

/* Adds a block; returns the probability that no stratum has its point in it. */
static double add_to_strata(struct sums *s, const struct strata *k, struct stratum *t,
			    uint64_t size, uint32_t domains)
{
	double missed = 1;

	while (size > 0) {
		uint64_t part = fill_stratum(s, k, t, size, domains);

		missed *= 1 - (double)part / (double)k->length;
		size -= part;
	}
	return missed;
}

static struct strata points_of(size_t level)
{
	return (struct strata){level, step_of(level), 1};
}

static struct strata groups_of(size_t level)
{
	uint64_t interval = interval_of(level);

	return (struct strata){level, interval, 1 - (double)step_of(level) / (double)interval};
}

static void add_stratified(struct sums *s, size_t level, struct thread *t, struct line *class,
			   uint64_t size, uint32_t domains)
{
	struct strata points = points_of(level), groups = groups_of(level);
	double missed;

	if (size >= interval_of(level)) { /* always recorded, with its exact size */
		s->samples[level][MAYFLY_STRATIFIED] += 1;
		return;
	}
	add_to_strata(s, &points, &t->points.level[level], size, domains);
	missed = add_to_strata(s, &groups, &class->level[level], size, domains);
	s->samples[level][MAYFLY_STRATIFIED] += 1 - missed;
}

static const struct poisson_terms *poisson_terms(struct sums *s, uint64_t size)
{
	struct poisson_terms *t = &s->terms[(size ^ size >> 9) % TERM_SLOTS];

	if (t->size == size)
		return t;
	t->size = size;
	for (size_t l = 0; l < PLAN_LEVELS; l++) {
		double z = (double)size, p = -expm1(-z / (double)interval_of(l));

		t->chance[l] = p;
		t->variance[l] = z * z * (1 - p) / p;
	}
	return t;
}

static void add_poisson(struct sums *s, uint64_t size, uint32_t domains)
{
	const struct poisson_terms *t = poisson_terms(s, size);

	for (size_t l = 0; l < PLAN_LEVELS; l++) {
		s->samples[l][MAYFLY_POISSON] += t->chance[l];
		for (uint32_t d = domains; d; d &= d - 1)
			s->variance[l][MAYFLY_POISSON][__builtin_ctz(d)] += t->variance[l];
	}
}

static struct thread *thread_of(struct sums *s, const struct mayfly_event *e)
{
	size_t index = e->alloc_thread;

	/* The parent process sampled these before any thread of this process began. */
	if (e->flags & MAYFLY_FLAG_INHERITED || index >= s->threads)
		index = s->threads - 1;
	if (!s->thread[index])
		s->thread[index] = calloc(1, sizeof(*s->thread[index]));
	return s->thread[index];
}

/* As in the sampler: from the caller of the allocator and the size rounded to a quarter of a
 * power of two. */
static uint32_t class_of(const struct sums *s, const struct mayfly_event *e)
{
	uint64_t caller = 0, size = e->size;

	if (e->node < mayfly_trace_info(s->trace)->nodes)
		caller = mayfly_trace_node(s->trace, e->node).frame;
	if (size > 8) {
		unsigned int shift = 61 - (unsigned int)__builtin_clzll(size);

		size = (uint64_t)(shift + 1) << 3 | size >> shift;
	}
	return (uint32_t)((caller << 9 ^ size) * 0x9e3779b97f4a7c15u >> 56) % CLASSES;
}

static int plan_add_block(struct sums *s, const struct mayfly_event *e, uint32_t domains)
{
	struct thread *t;
	struct line **class;

	if (e->size == 0) /* no byte for a point to fall on */
		return 0;
	t = thread_of(s, e);
	if (!t)
		return MAYFLY_E_MEMORY;
	class = &t->class[class_of(s, e)];
	if (!*class)
		*class = calloc(1, sizeof(**class));
	if (!*class)
		return MAYFLY_E_MEMORY;
	for (size_t l = 0; l < PLAN_LEVELS; l++)
		add_stratified(s, l, t, *class, e->size, domains);
	add_poisson(s, e->size, domains);
	return 0;
}

static int add_blocks(struct sums *s, const struct row_finder *f, const struct live_set *live,
		      struct plan *plan)
{
	bool rows_at_peak = f->query->metric == MAYFLY_PEAK;
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more = mayfly_cursor_open(f->trace, &cursor);

	if (more)
		return more;
	while ((more = mayfly_cursor_next(cursor, &e)) == 1) {
		uint32_t domains = 1u << DOMAIN_ALL, rows;
		bool at_peak;

		if (e.kind == MAYFLY_FREE)
			continue;
		at_peak = live_has(live, e.sample);
		rows = at_peak || !rows_at_peak ? rows_of_event(f, &e) : 0;
		if (at_peak)
			domains |= 1u << DOMAIN_PEAK;
		domains |= rows << DOMAIN_ROWS;
		for (; rows; rows &= rows - 1)
			plan->row_bytes[__builtin_ctz(rows)] += e.size;
		more = plan_add_block(s, &e, domains);
		if (more)
			break;
	}
	mayfly_cursor_close(cursor);
	return more;
}

/* The last stratum of each line is not full; its point may lie beyond the end. */
static void close_thread(struct sums *s, struct thread *t)
{
	for (size_t l = 0; l < PLAN_LEVELS; l++) {
		struct strata points = points_of(l), groups = groups_of(l);

		close_stratum(s, &points, &t->points.level[l]);
		for (size_t c = 0; c < CLASSES; c++)
			if (t->class[c])
				close_stratum(s, &groups, &t->class[c] -> level[l]);
	}
}

static void free_thread(struct thread *t)
{
	for (size_t c = 0; c < CLASSES; c++)
		free(t->class[c]);
	free(t);
}

static void put_sums(const struct sums *s, struct plan *plan)
{
	for (size_t l = 0; l < PLAN_LEVELS; l++) {
		for (size_t k = 0; k < 2; k++) {
			struct plan_scheme *to = &plan->scheme[l][k];

			to->samples = s->samples[l][k];
			to->allocated_variance = s->variance[l][k][DOMAIN_ALL];
			to->peak_variance = s->variance[l][k][DOMAIN_PEAK];
			memcpy(to->row_variance, &s->variance[l][k][DOMAIN_ROWS],
			       sizeof(to->row_variance));
		}
	}
}

static int sum_up(const struct row_finder *f, const struct live_set *live, struct plan *plan)
{
	struct sums *s = calloc(1, sizeof(*s));
	int status = MAYFLY_E_MEMORY;

	if (!s)
		return status;
	s->trace = f->trace;
	s->threads = mayfly_trace_info(f->trace)->threads + 1;
	s->thread = calloc(s->threads, sizeof(struct thread *));
	if (s->thread)
		status = add_blocks(s, f, live, plan);
	for (size_t i = 0; s->thread && i < s->threads; i++) {
		if (!s->thread[i])
			continue;
		if (status == 0)
			close_thread(s, s->thread[i]);
		free_thread(s->thread[i]);
	}
	if (status == 0)
		put_sums(s, plan);
	free(s->thread);
	free(s);
	return status;
}

static bool can_plan(const struct mayfly_query *q)
{
	if (q->metric != MAYFLY_PEAK && q->metric != MAYFLY_ALLOCATED)
		return false;
	if (q->focus.matches || q->ignore.matches || q->thread.matches || q->label.matches ||
	    q->from_ns > 0)
		return false;
	if (q->to_ns < INT64_MAX || q->min_size > 0 || q->max_size < UINT64_MAX)
		return false;
	return q->min_lifetime_ns <= 0 && q->max_lifetime_ns == INT64_MAX &&
	       q->by != MAYFLY_BY_LIFETIME;
}

static double row_figure(const struct mayfly_query *q, const struct mayfly_row *row)
{
	return (q->sort == MAYFLY_SORT_TOTAL ? row->total : row->self).bytes.estimate;
}

static size_t rows_that_count(const struct mayfly_query *q, const struct mayfly_result *result)
{
	size_t rows = 0;

	while (rows < PLAN_ROWS && rows < result->rows && row_figure(q, &result->row[rows]) > 0 &&
	       row_figure(q, &result->row[rows]) >=
		   PLAN_LEAST_SHARE * row_figure(q, &result->row[0]))
		rows++;
	return rows;
}

int plan_make(const struct mayfly_trace *trace, const struct mayfly_query *query,
	      const struct mayfly_result *result, struct plan *plan)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct row_finder finder = {.trace = trace, .query = query, .row = result->row};
	struct live_set live = {0};
	uint64_t peak_event;
	int status;

	memset(plan, 0, sizeof(*plan));
	if (!can_plan(query))
		return MAYFLY_E_RANGE;
	if (info->mode != MAYFLY_EXACT || info->thinned || info->snapshot_ns)
		return MAYFLY_E_ABSENT;
	finder.rows = plan->rows = rows_that_count(query, result);
	status = plan_find_peak(trace, plan, &peak_event);
	if (!status)
		status = find_live(trace, peak_event, &live);
	if (!status)
		status = find_rows(&finder);
	if (!status)
		status = sum_up(&finder, &live, plan);
	free(finder.node_mask);
	free(finder.first_location);
	free(finder.hidden);
	live_free(&live);
	return status;
}
