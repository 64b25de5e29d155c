/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is more than rows: sums of nodes, histograms, churn, chains of realloc. Against plain
 * questions, which test_query.c holds against a reference, and against a recount of the events.
 */
#include "random_trace.h"

#include <math.h>

static bool close_to(double a, double b)
{
	return fabs(a - b) <= 1e-9 * fmax(1, fmax(fabs(a), fabs(b)));
}

static bool same_figure(const struct mayfly_figure *a, const struct mayfly_figure *b)
{
	return close_to(a->estimate, b->estimate) && close_to(a->stderror, b->stderror) &&
	       close_to(a->low, b->low) && close_to(a->high, b->high);
}

static bool same_estimate(const struct mayfly_estimate *a, const struct mayfly_estimate *b)
{
	return a->samples == b->samples && same_figure(&a->bytes, &b->bytes) &&
	       same_figure(&a->blocks, &b->blocks);
}

/* ---- sums of nodes ---- */

/* The sums of nodes add up to the rows. */
static void check_against_stacks(const struct mayfly_trace *trace, const struct mayfly_query *query,
				 const struct mayfly_node_sums *sums)
{
	struct mayfly_query q = *query;
	struct mayfly_result *result;
	double bytes = 0, blocks = 0, row_bytes = 0;
	uint64_t samples = 0;

	q.by = MAYFLY_BY_STACK;
	CHECK(mayfly_query_run(trace, &q, &result) == 0);
	CHECK(same_estimate(&sums->total, &result->total));
	CHECK(sums->time_ns == result->time_ns);
	for (size_t i = 0; i < sums->count; i++) {
		CHECK(i == 0 || sums->sum[i].node > sums->sum[i - 1].node);
		CHECK(sums->sum[i].self.samples > 0);
		bytes += sums->sum[i].self.bytes.estimate;
		blocks += sums->sum[i].self.blocks.estimate;
		samples += sums->sum[i].self.samples;
	}
	for (size_t i = 0; i < result->rows; i++)
		row_bytes += result->row[i].self.bytes.estimate;
	CHECK(close_to(bytes, row_bytes) && close_to(bytes, result->total.bytes.estimate));
	CHECK(close_to(blocks, result->total.blocks.estimate));
	CHECK(samples == result->total.samples);
	mayfly_result_free(result);
}

/* Whether a block is live, or what else the metric asks for, is known from its events. */
struct recount {
	int64_t born, died, lifetime;
	struct mayfly_event alloc;
	uint32_t free_thread;
	bool freed, temporary;
};

struct counted {
	struct recount *block;
	size_t blocks;
};

static struct counted count_events(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct counted c = {calloc(info->samples + 1, sizeof(*c.block)), 0};
	struct mayfly_cursor *cursor;
	struct mayfly_event e;

	CHECK(mayfly_cursor_open(trace, &cursor) == 0);
	while (mayfly_cursor_next(cursor, &e) == 1) {
		struct recount *b = &c.block[e.sample];

		if (e.kind == MAYFLY_ALLOC) {
			*b = (struct recount){.born = e.time_ns,
					      .died = INT64_MAX,
					      .lifetime = INT64_MAX,
					      .alloc = e,
					      .free_thread = UINT32_MAX};
			c.blocks++;
			continue;
		}
		b->died = e.time_ns;
		b->lifetime = e.time_ns - b->born;
		b->freed = true;
		b->free_thread = e.thread;
		b->temporary = e.flags & MAYFLY_FLAG_TEMPORARY;
	}
	mayfly_cursor_close(cursor);
	return c;
}

/* The filters that say nothing of names. */
static bool plainly_kept(const struct mayfly_query *q, const struct recount *b)
{
	return b->alloc.size >= q->min_size && b->alloc.size <= q->max_size &&
	       b->lifetime >= q->min_lifetime_ns && b->lifetime <= q->max_lifetime_ns &&
	       b->born >= q->from_ns && (q->to_ns == INT64_MAX || b->born < q->to_ns);
}

static bool metric_has(const struct mayfly_query *q, const struct recount *b)
{
	switch (q->metric) {
	case MAYFLY_LEAKED:
		return !b->freed;
	case MAYFLY_TEMPORARY:
		return b->temporary;
	case MAYFLY_SURVIVED:
		return !b->freed || b->died > q->to_ns;
	case MAYFLY_LIVE: /* at the end */
		return !b->freed;
	default:
		return true;
	}
}

static void without_names(struct mayfly_query *q)
{
	q->focus = q->ignore = q->hide = q->thread = q->label = (struct mayfly_match){0};
	q->at_ns = MAYFLY_AT_END;
	if (q->metric == MAYFLY_PEAK)
		q->metric = MAYFLY_ALLOCATED;
}

static void check_nodes_plainly(const struct mayfly_trace *trace, const struct counted *c,
				const struct mayfly_query *query)
{
	size_t nodes = mayfly_trace_info(trace)->nodes;
	double *bytes = calloc(nodes + 1, sizeof(*bytes));
	uint64_t *samples = calloc(nodes + 1, sizeof(*samples));
	struct mayfly_query q = *query;
	struct mayfly_node_sums *sums;
	size_t some = 0;

	without_names(&q);
	for (size_t i = 0; i < c->blocks; i++) {
		const struct recount *b = &c->block[i];

		if (!plainly_kept(&q, b) || !metric_has(&q, b))
			continue;
		bytes[b->alloc.node] += b->alloc.weight_bytes;
		samples[b->alloc.node]++;
	}
	CHECK(mayfly_node_sums_run(trace, &q, &sums) == 0);
	for (size_t i = 0; i < sums->count; i++) {
		const struct mayfly_node_sum *s = &sums->sum[i];

		CHECK(close_to(s->self.bytes.estimate, bytes[s->node]), "node %u: %g, not %g",
		      s->node, s->self.bytes.estimate, bytes[s->node]);
		CHECK(s->self.samples == samples[s->node]);
	}
	for (size_t i = 0; i < nodes; i++)
		some += samples[i] > 0;
	CHECK(sums->count == some, "%zu nodes, not %zu", sums->count, some);
	mayfly_node_sums_free(sums);
	free(bytes);
	free(samples);
}

static void test_node_sums(void)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 60);
		struct counted c = count_events(o.trace);

		for (int i = 0; i < 10; i++) {
			struct mayfly_query q = random_query(mayfly_trace_info(o.trace));
			struct mayfly_node_sums *sums;

			CHECK(mayfly_node_sums_run(o.trace, &q, &sums) == 0);
			check_against_stacks(o.trace, &q, sums);
			mayfly_node_sums_free(sums);
			check_nodes_plainly(o.trace, &c, &q);
		}
		free(c.block);
		close_opened(&o);
		free_source(&source);
	}
}

/* ---- histograms ---- */

/* The file and module of a function are known when all its places agree, which may be fewer in
 * another answer. */
static bool same_row(enum mayfly_by by, const struct mayfly_row *a, const struct mayfly_row *b)
{
	if (by == MAYFLY_BY_MODULE)
		return !strcmp(a->module, b->module);
	if (by == MAYFLY_BY_FUNCTION && *a->function)
		return !strcmp(a->function, b->function);
	if (by == MAYFLY_BY_LINE && *a->function)
		return !strcmp(a->function, b->function) && !strcmp(a->file, b->file) &&
		       a->line == b->line;
	if (a->stack_length != b->stack_length)
		return false;
	for (size_t i = 0; i < a->stack_length; i++)
		if (strcmp(a->stack[i].function, b->stack[i].function) ||
		    strcmp(a->stack[i].file, b->stack[i].file) ||
		    strcmp(a->stack[i].module, b->stack[i].module) ||
		    a->stack[i].line != b->stack[i].line ||
		    a->stack[i].inlined != b->stack[i].inlined ||
		    a->stack[i].kind != b->stack[i].kind ||
		    (!*a->stack[i].function && a->stack[i].address != b->stack[i].address))
			return false;
	return !strcmp(a->function, b->function) && a->thread == b->thread &&
	       a->free_thread == b->free_thread && a->low == b->low && a->high == b->high;
}

static const struct mayfly_row *find_row(const struct mayfly_result *result, enum mayfly_by by,
					 const struct mayfly_row *row)
{
	for (size_t i = 0; i < result->rows; i++)
		if (same_row(by, &result->row[i], row))
			return &result->row[i];
	return NULL;
}

/* Only blocks of one class. */
static bool within(struct mayfly_query *q, enum mayfly_by by, int64_t low, int64_t high)
{
	if (by == MAYFLY_BY_SIZE) {
		if ((uint64_t)low + 1 > q->min_size && low > 0)
			q->min_size = (uint64_t)low + 1;
		if ((uint64_t)high < q->max_size)
			q->max_size = (uint64_t)high;
		return q->min_size <= q->max_size;
	}
	if (low > q->min_lifetime_ns)
		q->min_lifetime_ns = low;
	if (low != INT64_MAX && high - 1 < q->max_lifetime_ns)
		q->max_lifetime_ns = high - 1;
	return q->min_lifetime_ns <= q->max_lifetime_ns;
}

/* A class of a histogram is the same question, asked of the blocks in the class alone. */
static void check_class(const struct mayfly_trace *trace, const struct mayfly_query *query,
			const struct mayfly_histogram *h, enum mayfly_by by, size_t class)
{
	bool total = query->sort == MAYFLY_SORT_TOTAL;
	struct mayfly_query q = *query;
	struct mayfly_result *result;
	double all = h->cell[(h->rows - 1) * h->classes + class].bytes.estimate;

	if (!within(&q, by, h->low[class], h->high[class]))
		return;
	CHECK(mayfly_query_run(trace, &q, &result) == 0);
	for (size_t i = 0; i + 1 < h->rows; i++) {
		const struct mayfly_estimate *cell = &h->cell[i * h->classes + class];
		const struct mayfly_row *row = find_row(result, q.by, &h->row[i]);

		if (!row) {
			/* A stack without blocks of its own is no row, whatever its total. */
			CHECK(cell->samples == 0 || (total && q.by == MAYFLY_BY_STACK),
			      "by %d: no row, %d blocks", q.by, (int)cell->samples);
			continue;
		}
		CHECK(cell->samples == (total ? row->total : row->self).samples);
		CHECK(close_to(cell->bytes.estimate,
			       (total ? row->total : row->self).bytes.estimate));
		CHECK(close_to(cell->blocks.stderror,
			       (total ? row->total : row->self).blocks.stderror));
		all += cell->bytes.estimate;
	}
	if (!total)
		CHECK(close_to(all, result->total.bytes.estimate), "%g, not %g", all,
		      result->total.bytes.estimate);
	mayfly_result_free(result);
}

static void check_histogram(const struct mayfly_trace *trace, const struct mayfly_query *q,
			    enum mayfly_by by, size_t rows)
{
	struct mayfly_histogram *h;
	struct mayfly_result *result;
	uint64_t samples = 0, all = 0;

	CHECK(mayfly_histogram_run(trace, q, by, rows, &h) == 0);
	CHECK(mayfly_query_run(trace, q, &result) == 0);
	CHECK(h->rows == (rows < result->rows ? rows : result->rows) + 1);
	CHECK(same_estimate(&h->total, &result->total));
	for (size_t i = 0; i + 1 < h->rows; i++)
		CHECK(same_row(q->by, &h->row[i], &result->row[i]));
	for (size_t i = 0; i < h->classes; i++) {
		CHECK(i == 0 || h->low[i] >= h->high[i - 1]);
		check_class(trace, q, h, by, i);
	}
	for (size_t i = 0; i < h->rows * h->classes; i++)
		samples += h->cell[i].samples;
	for (size_t i = 0; i < result->rows && q->sort == MAYFLY_SORT_SELF; i++)
		all += result->row[i].self.samples;
	CHECK(q->sort == MAYFLY_SORT_TOTAL || samples == all, "%d blocks, not %d", (int)samples,
	      (int)all);
	mayfly_result_free(result);
	mayfly_histogram_free(h);
}

static void test_histograms(void)
{
	struct mayfly_histogram *none;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 60);

		for (int i = 0; i < 5; i++) {
			struct mayfly_query q = random_query(mayfly_trace_info(o.trace));

			check_histogram(o.trace, &q, below(2) ? MAYFLY_BY_SIZE : MAYFLY_BY_LIFETIME,
					below(2) ? below(8) : 1000);
			CHECK(mayfly_histogram_run(o.trace, &q, MAYFLY_BY_HEAP, 1, &none) ==
			      MAYFLY_E_RANGE);
		}
		close_opened(&o);
		free_source(&source);
	}
}

/* ---- churn ---- */

static int64_t lived_within(const struct recount *b, int64_t to_ns)
{
	int64_t end = b->died < to_ns ? b->died : to_ns;

	return end > b->born ? end - b->born : 0;
}

static void check_churn(const struct mayfly_trace *trace, const struct counted *c,
			const struct mayfly_query *q)
{
	size_t threads = mayfly_trace_info(trace)->threads;
	double *sum = calloc(threads + 1, sizeof(*sum)), total = 0;
	struct mayfly_churn *churn;
	int error = mayfly_churn_run(trace, q, SIZE_MAX, &churn);

	if (q->from_ns >= mayfly_trace_info(trace)->duration_ns || q->from_ns >= q->to_ns) {
		CHECK(error == MAYFLY_E_RANGE);
		free(sum);
		return;
	}
	CHECK(error == 0);
	for (size_t i = 0; i < c->blocks; i++) {
		const struct recount *b = &c->block[i];

		if (plainly_kept(q, b))
			sum[b->alloc.thread] +=
			    b->alloc.weight_bytes * (double)lived_within(b, churn->to_ns);
	}
	for (size_t i = 0; i < threads; i++) {
		sum[i] /= (double)(churn->to_ns - churn->from_ns);
		total += sum[i];
	}
	CHECK(close_to(churn->mean_live_total, total), "%g, not %g", churn->mean_live_total, total);
	for (size_t i = 0; i + 1 < churn->rows; i++)
		CHECK(close_to(churn->mean_live[i], sum[churn->row[i].thread]));
	CHECK(close_to(churn->mean_live[churn->rows - 1], 0));
	mayfly_churn_free(churn);
	free(sum);
}

/* With totals, a row's mean is that of the same question with nothing but the row's stacks. */
static void check_churn_of_all(const struct mayfly_trace *trace, const struct mayfly_query *query)
{
	struct mayfly_query q = *query;
	struct mayfly_churn *churn;
	double sum = 0;

	q.sort = MAYFLY_SORT_SELF;
	if (mayfly_churn_run(trace, &q, below(6), &churn) != 0)
		return;
	for (size_t i = 0; i < churn->rows; i++)
		sum += churn->mean_live[i];
	CHECK(close_to(sum, churn->mean_live_total));
	mayfly_churn_free(churn);
}

static void test_churn(void)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct source source = random_source(seed);
		struct opened o = open_source(&source, 0, 60);
		struct counted c = count_events(o.trace);

		for (int i = 0; i < 8; i++) {
			struct mayfly_query q = random_query(mayfly_trace_info(o.trace));

			check_churn_of_all(o.trace, &q);
			without_names(&q);
			q.by = MAYFLY_BY_THREAD;
			check_churn(o.trace, &c, &q);
		}
		free(c.block);
		close_opened(&o);
		free_source(&source);
	}
}

/* ---- chains of realloc ---- */

/* Makes some blocks take over from earlier ones; before[i] is the one before i, or SIZE_MAX. */
static size_t *add_reallocs(struct source *s)
{
	size_t *before = malloc((s->samples + 1) * sizeof(*before));

	for (size_t i = 0; i < s->samples; i++) {
		struct sample *p = &s->sample[i];
		size_t k = i ? i - 1 - below((uint32_t)(i < 20 ? i : 20)) : 0;
		struct sample *old = &s->sample[k];

		before[i] = SIZE_MAX;
		/* Nothing else may be allocated between its halves. */
		if (i == 0 || p->time_ns == p[-1].time_ns || below(4) == 0 ||
		    (i + 1 < s->samples && p->time_ns == p[1].time_ns) ||
		    old->free_flags & MAYFLY_FLAG_REALLOC)
			continue;
		before[i] = k;
		p->block.flags |= MAYFLY_FLAG_REALLOC;
		old->free_ns = p->time_ns;
		old->free_thread = p->block.thread;
		old->free_flags = MAYFLY_FLAG_REALLOC;
	}
	return before;
}

static struct mayfly_growth grow_of(const struct source *s, const size_t *before, size_t last)
{
	struct mayfly_growth g = {.chains = 1, .last_bytes = s->sample[last].block.size};

	for (; before[last] != SIZE_MAX; last = before[last]) {
		uint64_t size = s->sample[last].block.size;
		uint64_t old = s->sample[before[last]].block.size;

		g.steps++;
		g.copied_bytes += size < old ? size : old;
	}
	g.longest = g.steps;
	g.first_bytes = s->sample[last].block.size;
	return g;
}

static void add_growth(struct mayfly_growth *to, const struct mayfly_growth *from)
{
	to->chains += from->chains;
	to->steps += from->steps;
	if (from->longest > to->longest)
		to->longest = from->longest;
	to->copied_bytes += from->copied_bytes;
	to->first_bytes += from->first_bytes;
	to->last_bytes += from->last_bytes;
}

static void check_reallocs(const struct mayfly_trace *trace, const struct source *s,
			   const size_t *before, uint64_t min_size, uint64_t max_size)
{
	struct mayfly_growth by_thread[5] = {0}, total = {0}, rows = {0};
	struct mayfly_reallocs *r;
	struct mayfly_query q;

	mayfly_query_defaults(&q);
	q.by = MAYFLY_BY_THREAD;
	q.min_size = min_size;
	q.max_size = max_size;
	for (size_t i = 0; i < s->samples; i++) {
		const struct sample *p = &s->sample[i];
		struct mayfly_growth g;

		if (before[i] == SIZE_MAX || p->free_flags & MAYFLY_FLAG_REALLOC ||
		    p->block.size < min_size || p->block.size > max_size)
			continue;
		g = grow_of(s, before, i);
		add_growth(&by_thread[p->block.thread], &g);
		add_growth(&total, &g);
	}
	CHECK(mayfly_reallocs_run(trace, &q, SIZE_MAX, &r) == 0);
	CHECK(memcmp(&r->total, &total, sizeof(total)) == 0, "%d steps, not %d",
	      (int)r->total.steps, (int)total.steps);
	for (size_t i = 0; i + 1 < r->rows; i++) {
		CHECK(memcmp(&r->growth[i], &by_thread[r->row[i].thread], sizeof(total)) == 0);
		CHECK((uint64_t)r->row[i].self.bytes.estimate == r->growth[i].copied_bytes);
		CHECK((uint64_t)r->row[i].self.blocks.estimate == r->growth[i].chains);
	}
	mayfly_reallocs_free(r);
	q.by = (enum mayfly_by)below(4);
	CHECK(mayfly_reallocs_run(trace, &q, below(5), &r) == 0);
	for (size_t i = 0; i < r->rows; i++)
		add_growth(&rows, &r->growth[i]);
	CHECK(memcmp(&rows, &total, sizeof(total)) == 0);
	mayfly_reallocs_free(r);
}

static void test_reallocs(void)
{
	uint64_t longest = 0;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct source source = random_source(seed);
		struct mayfly_reallocs *r;
		struct mayfly_query q;
		struct opened o;
		size_t *before;

		mayfly_query_defaults(&q);
		if (source.mode != MAYFLY_EXACT) {
			o = open_source(&source, 0, 60);
			CHECK(mayfly_reallocs_run(o.trace, &q, 1, &r) == MAYFLY_E_ABSENT);
			close_opened(&o);
		}
		source.mode = MAYFLY_EXACT;
		source.interval_log2 = 0;
		add_samples(&source, below(400));
		before = add_reallocs(&source);
		o = open_source(&source, 0, 60);
		check_reallocs(o.trace, &source, before, 0, UINT64_MAX);
		check_reallocs(o.trace, &source, before, below(3000), 3000 + below(100000));
		if (mayfly_reallocs_run(o.trace, &q, 1, &r) == 0) {
			longest = r->total.longest > longest ? r->total.longest : longest;
			mayfly_reallocs_free(r);
		}
		close_opened(&o);
		free(before);
		free_source(&source);
	}
	CHECK(longest > 5, "the longest chain has %d steps", (int)longest);
}

/* ---- what has no such answers ---- */

static void test_snapshots_refuse(void)
{
	struct source source = random_source(3);
	struct mayfly_histogram *h;
	struct mayfly_reallocs *r;
	struct mayfly_churn *c;
	struct mayfly_query q;
	struct opened o;

	source.mode = MAYFLY_EXACT;
	source.interval_log2 = 0;
	add_samples(&source, 100);
	o = open_source(&source, 50 * TICK, 0);
	mayfly_query_defaults(&q);
	CHECK(mayfly_histogram_run(o.trace, &q, MAYFLY_BY_SIZE, 5, &h) == MAYFLY_E_ABSENT);
	CHECK(mayfly_churn_run(o.trace, &q, 5, &c) == MAYFLY_E_ABSENT);
	CHECK(mayfly_reallocs_run(o.trace, &q, 5, &r) == MAYFLY_E_ABSENT);
	close_opened(&o);
	free_source(&source);
}

int main(void)
{
	RUN(test_node_sums);
	RUN(test_histograms);
	RUN(test_churn);
	RUN(test_reallocs);
	RUN(test_snapshots_refuse);
	DONE();
}
