/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c: the standard errors of sampling, computed from all allocations.
 *
 * Three passes over the events: the moment of the peak; which blocks are live then; the sums. Each
 * figure is about the bytes of one domain:
 *
 *	domain 0: allocated    1: live at the peak   2...: the rows, under the query's metric
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
 * Memory: a bit for each block, a few kilobytes for each thread and for each of its classes, and
 * what the query needs.
 */
#include "query/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "query/query.h"

#define DOMAIN_ALL  0
#define DOMAIN_PEAK 1
#define DOMAIN_ROWS 2
#define DOMAINS	    (DOMAIN_ROWS + PLAN_ROWS)

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

/* A thread's allocations at each interval: all of them, or those of one class of blocks. */
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

struct plan_run {
	struct query_state *s;
	struct plan *plan;

	/* the peak */
	uint64_t events, peak_event; /* the number of events before it */
	uint64_t live_bytes, live_blocks;
	uint64_t *live; /* a bit for each block: live at the peak */
	size_t live_room;
	uint64_t budget;

	/* the sums */
	struct thread **thread; /* the allocating threads, and one for inherited blocks */
	size_t threads;
	struct poisson_terms terms[TERM_SLOTS];
	double samples[PLAN_LEVELS][2];
	double variance[PLAN_LEVELS][2][DOMAINS];
};

/* ---- passes 1 and 2: the peak ---- */

static bool pass_alloc(void *context, const struct cursor_batch *b, size_t event, size_t alloc)
{
	struct plan_run *r = context;
	struct plan *plan = r->plan;

	r->events++;
	if (!(b->e.alloc_flags[alloc] & MAYFLY_FLAG_INHERITED)) {
		plan->blocks++;
		plan->allocated_bytes += b->e.size[alloc];
	}
	r->live_bytes += b->e.size[alloc];
	r->live_blocks++;
	if (r->live_bytes > plan->peak_bytes) {
		plan->peak_bytes = r->live_bytes;
		plan->peak_blocks = r->live_blocks;
		plan->peak_ns = b->e.time_ns[event];
		r->peak_event = r->events;
	}
	return true;
}

static bool pass_free(void *context, const struct cursor_batch *b, size_t event, size_t freed)
{
	struct plan_run *r = context;

	(void)event;
	r->events++;
	r->live_bytes -= b->freed[freed].size;
	r->live_blocks--;
	return true;
}

static bool plan_grow_live(void *context, const struct cursor_batch *b)
{
	struct plan_run *r = context;

	return query_grow(r->s, &r->budget, &r->live, &r->live_room,
			  (b->e.first_sample + b->e.allocs) / 64, sizeof(*r->live));
}

/* False: the peak is reached. */
static bool live_alloc(void *context, const struct cursor_batch *b, size_t event, size_t alloc)
{
	struct plan_run *r = context;

	(void)event;
	query_set_bit(r->live, b->e.first_sample + alloc);
	return --r->events > 0;
}

static bool live_free(void *context, const struct cursor_batch *b, size_t event, size_t freed)
{
	struct plan_run *r = context;
	uint64_t number = b->e.freed[freed];

	(void)event;
	if (number / 64 < r->live_room)
		r->live[number / 64] &= ~((uint64_t)1 << number % 64);
	return --r->events > 0;
}

static bool find_live(struct plan_run *r)
{
	const struct event_pass peak = {.context = r, .alloc = pass_alloc, .freed = pass_free};
	const struct event_pass live = {
	    .context = r,
	    .before = plan_grow_live,
	    .alloc = live_alloc,
	    .freed = live_free,
	};

	if (!query_pass(r->s, &peak))
		return false;
	r->events = r->peak_event;
	return r->events == 0 || query_pass(r->s, &live);
}

/* ---- pass 3: the sums ---- */

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

static void close_stratum(struct plan_run *r, const struct strata *k, struct stratum *t)
{
	for (size_t d = 0; d < DOMAINS; d++) {
		double b = (double)t->bytes[d];

		r->variance[k->level][MAYFLY_STRATIFIED][d] +=
		    k->part * b * ((double)k->length - b);
	}
	memset(t, 0, sizeof(*t));
}

/* Adds up to `size` bytes to the open stratum; returns how many fitted. */
static uint64_t fill_stratum(struct plan_run *r, const struct strata *k, struct stratum *t,
			     uint64_t size, uint32_t domains)
{
	uint64_t room = k->length - t->used;
	uint32_t part = (uint32_t)(size < room ? size : room);

	for (; domains; domains &= domains - 1)
		t->bytes[__builtin_ctz(domains)] += part;
	t->used += part;
	if (part == room)
		close_stratum(r, k, t);
	return part;
}

/* Adds a block; returns the probability that no stratum has its point in it. */
static double add_to_strata(struct plan_run *r, const struct strata *k, struct stratum *t,
			    uint64_t size, uint32_t domains)
{
	double missed = 1;

	while (size > 0) {
		uint64_t part = fill_stratum(r, k, t, size, domains);

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

static void add_stratified(struct plan_run *r, size_t level, struct thread *t, struct line *class,
			   uint64_t size, uint32_t domains)
{
	struct strata points = points_of(level), groups = groups_of(level);
	double missed;

	if (size >= interval_of(level)) { /* always recorded, with its exact size */
		r->samples[level][MAYFLY_STRATIFIED] += 1;
		return;
	}
	add_to_strata(r, &points, &t->points.level[level], size, domains);
	missed = add_to_strata(r, &groups, &class->level[level], size, domains);
	r->samples[level][MAYFLY_STRATIFIED] += 1 - missed;
}

static const struct poisson_terms *poisson_terms(struct plan_run *r, uint64_t size)
{
	struct poisson_terms *t = &r->terms[(size ^ size >> 9) % TERM_SLOTS];

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

static void add_poisson(struct plan_run *r, uint64_t size, uint32_t domains)
{
	const struct poisson_terms *t = poisson_terms(r, size);

	for (size_t l = 0; l < PLAN_LEVELS; l++) {
		r->samples[l][MAYFLY_POISSON] += t->chance[l];
		for (uint32_t d = domains; d; d &= d - 1)
			r->variance[l][MAYFLY_POISSON][__builtin_ctz(d)] += t->variance[l];
	}
}

/* NULL: out of memory. */
static struct thread *thread_of(struct plan_run *r, const struct cursor_block *b)
{
	size_t index = b->thread;

	/* The parent process sampled these before any thread of this process began. */
	if (b->flags & MAYFLY_FLAG_INHERITED || index >= r->threads)
		index = r->threads - 1;
	if (!r->thread[index])
		r->thread[index] = query_scratch(r->s, 1, sizeof(*r->thread[index]));
	return r->thread[index];
}

/* As in the sampler: from the caller of the allocator and the size rounded to a quarter of a
 * power of two. */
static uint32_t class_of(const struct plan_run *r, const struct cursor_block *b)
{
	uint64_t caller = 0, size = b->size;

	if (b->node < r->s->info->nodes)
		caller = mayfly_trace_node(r->s->trace, b->node).frame;
	if (size > 8) {
		unsigned int shift = 61 - (unsigned int)__builtin_clzll(size);

		size = (uint64_t)(shift + 1) << 3 | size >> shift;
	}
	return (uint32_t)((caller << 9 ^ size) * 0x9e3779b97f4a7c15u >> 56) % CLASSES;
}

static bool plan_add_block(struct plan_run *r, const struct cursor_block *b, uint32_t domains)
{
	struct thread *t;
	struct line **class;

	if (b->size == 0) /* no byte for a point to fall on */
		return true;
	t = thread_of(r, b);
	if (!t)
		return false;
	class = &t->class[class_of(r, b)];
	if (!*class)
		*class = query_scratch(r->s, 1, sizeof(**class));
	if (!*class)
		return false;
	for (size_t l = 0; l < PLAN_LEVELS; l++)
		add_stratified(r, l, t, *class, b->size, domains);
	add_poisson(r, b->size, domains);
	return true;
}

/* The rows that a block belongs to, as bits. */
static uint32_t rows_of(const struct plan_run *r, const struct cursor_block *b)
{
	const struct shown *shown = &r->s->shown;
	uint32_t rows = 0;

	for (uint32_t i = shown->head[query_slot(r->s, b, NEVER_FREED)]; i != NONE;
	     i = shown->cell[i].next)
		if (shown->cell[i].row < r->plan->rows)
			rows |= 1u << shown->cell[i].row;
	return rows;
}

static bool sum_alloc(void *context, const struct cursor_batch *batch, size_t event, size_t alloc)
{
	struct plan_run *r = context;
	const struct cursor_block b = query_block(batch, alloc);
	uint64_t number = batch->e.first_sample + alloc;
	bool at_peak = number / 64 < r->live_room && query_has_bit(r->live, number);
	bool allocated = !(b.flags & MAYFLY_FLAG_INHERITED);
	bool in_rows = r->s->query->metric == MAYFLY_PEAK ? at_peak : allocated;
	uint32_t rows = in_rows ? rows_of(r, &b) : 0;
	uint32_t domains = (uint32_t)allocated << DOMAIN_ALL | (uint32_t)at_peak << DOMAIN_PEAK |
			   rows << DOMAIN_ROWS;

	(void)event;
	for (; rows; rows &= rows - 1)
		r->plan->row_bytes[__builtin_ctz(rows)] += b.size;
	return plan_add_block(r, &b, domains);
}

/* The last stratum of each line is not full; its point may lie beyond the end. */
static void close_thread(struct plan_run *r, struct thread *t)
{
	for (size_t l = 0; l < PLAN_LEVELS; l++) {
		struct strata points = points_of(l), groups = groups_of(l);

		close_stratum(r, &points, &t->points.level[l]);
		for (size_t c = 0; c < CLASSES; c++)
			if (t->class[c])
				close_stratum(r, &groups, &t->class[c] -> level[l]);
	}
}

static void put_sums(const struct plan_run *r)
{
	for (size_t l = 0; l < PLAN_LEVELS; l++) {
		for (size_t k = 0; k < 2; k++) {
			struct plan_scheme *to = &r->plan->scheme[l][k];

			to->samples = r->samples[l][k];
			to->allocated_variance = r->variance[l][k][DOMAIN_ALL];
			to->peak_variance = r->variance[l][k][DOMAIN_PEAK];
			memcpy(to->row_variance, &r->variance[l][k][DOMAIN_ROWS],
			       sizeof(to->row_variance));
		}
	}
}

static void sum_up(struct plan_run *r)
{
	const struct event_pass pass = {.context = r, .alloc = sum_alloc};

	r->threads = r->s->info->threads + 1;
	r->thread = query_scratch(r->s, r->threads, sizeof(struct thread *));
	if (!r->thread || !query_pass(r->s, &pass))
		return;
	for (size_t i = 0; i < r->threads; i++)
		if (r->thread[i])
			close_thread(r, r->thread[i]);
	put_sums(r);
}

/* ---- the answer ---- */

static bool can_plan(const struct mayfly_query *q)
{
	if (q->metric != MAYFLY_PEAK && q->metric != MAYFLY_ALLOCATED)
		return false;
	if (q->focus.matches || q->ignore.matches || q->show.matches || q->show_from.matches ||
	    q->thread.matches || q->label.matches || q->from_ns > 0)
		return false;
	if (q->to_ns < INT64_MAX || q->min_size > 0 || q->max_size < UINT64_MAX)
		return false;
	return q->min_lifetime_ns <= 0 && q->max_lifetime_ns == INT64_MAX && !query_by_fate(q->by);
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

static void make_plan(struct query_state *s, const struct mayfly_trace *trace,
		      const struct mayfly_query *query, struct plan *plan)
{
	struct plan_run *r = query_scratch(s, 1, sizeof(*r));

	if (!r)
		return;
	plan->result = query_shown(s, plan, trace, query, PLAN_ROWS);
	if (!plan->result)
		return;
	r->s = s;
	r->plan = plan;
	r->budget = trace_budget(trace);
	plan->rows = rows_that_count(query, plan->result);
	if (find_live(r))
		sum_up(r);
	free(r->live);
}

int plan_make(const struct mayfly_trace *trace, const struct mayfly_query *query,
	      struct plan **plan)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct query_state s = {0};
	struct plan *p;

	if (!can_plan(query))
		return MAYFLY_E_RANGE;
	if (info->mode != MAYFLY_EXACT || info->thinned || info->snapshot_ns)
		return MAYFLY_E_ABSENT;
	p = answer_new(&s, sizeof(*p));
	if (p)
		make_plan(&s, trace, query, p);
	return answer_finish(&s, p, plan);
}

void plan_free(struct plan *plan)
{
	answer_free(plan);
}
