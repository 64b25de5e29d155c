/* SPDX-License-Identifier: Apache-2.0 */
/* query_rows.c: the answer: rows made from groups or stacks, and sorted. */
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

/* The most places of all stacks of an answer; if there are more, stacks are cut at the root. */
#define MAX_STACK_PLACES (4u << 20)

/* Row numbers are sorted first; then the rows are put in that order and get their stacks. */
struct ranking {
	struct query_state *s;
	struct mayfly_result *a;
	struct mayfly_row *row;
	uint32_t *source; /* row -> group or stack */
	size_t rows;
};

static const char *group_text(const struct query_state *s, uint32_t text)
{
	return text == NONE ? "" : s->text[text].text;
}

struct mayfly_place query_place(const struct query_state *s, const struct group *g)
{
	return (struct mayfly_place){
	    .function = group_text(s, g->function),
	    .file = group_text(s, g->file),
	    .module = group_text(s, g->module),
	    .line = g->line,
	    .address = g->address,
	    .kind = g->kind,
	    .inlined = g->inlined,
	    .first_char = g->first_char,
	    .last_char = g->last_char,
	};
}

/* Whether no block counts for the group, or for what it calls. */
static bool rows_is_empty(const struct query_state *s, size_t group)
{
	struct tally t = query_tally(s, &s->group_sums, 2 * group + 1);

	return t.seen_blocks == 0 && t.exact_count == 0;
}

/* At one sample for each word, no block of OCaml's heaps is missed. */
static bool misses_ocaml(const struct query_state *s)
{
	return s->info->ocaml_rate < 1 || s->info->thinned;
}

/*
 * The interval at which blocks of at least this size may have been missed; 0: none was, since the
 * stratified sampler records all blocks from its interval up. OCaml's may miss blocks of any size.
 */
static double unseen_interval(const struct query_state *s, uint64_t smallest)
{
	if (smallest < s->query->min_size)
		smallest = s->query->min_size;
	if (s->info->sampler == MAYFLY_STRATIFIED && (double)smallest >= s->largest_interval &&
	    !query_of_ocaml(s))
		return 0;
	if (query_of_ocaml(s) && !query_of_heaps(s, (uint32_t)~MAYFLY_HEAPS_OCAML) &&
	    !misses_ocaml(s))
		return 0;
	return s->largest_interval;
}

struct unseen query_unseen(const struct query_state *s, uint64_t smallest, enum spread_of of)
{
	return (struct unseen){unseen_interval(s, smallest), s->spread[of],
			       query_at_peak(s->query) && !s->exact};
}

/* Rows come from sums 2 i (self) and 2 i + 1 (total). */
static void measure_spread(struct query_state *s, const struct sums *sums, size_t rows)
{
	for (int total = 0; total < 2 && !s->exact; total++) {
		struct spread spread = {0};

		for (size_t i = 0; i < rows; i++)
			spread_add(&spread, &sums->tally[2 * i + (size_t)total]);
		s->spread[total] = spread_variance(&spread);
	}
}

/* What a row may have missed. One that has shown only blocks in OCaml's heaps misses only such. */
static struct unseen unseen_of(const struct query_state *s, const struct tally *self,
			       uint64_t smallest, enum spread_of of)
{
	struct unseen unseen = query_unseen(s, smallest, of);

	if (!s->exact && query_of_ocaml(s) && self->other_blocks == 0 &&
	    self->seen_blocks + self->exact_count > 0)
		unseen.interval = misses_ocaml(s) ? (double)s->info->ocaml_interval_bytes : 0;
	return unseen;
}

static void set_figures(const struct query_state *s, struct mayfly_row *row,
			const struct sums *sums, size_t i, uint64_t smallest)
{
	struct tally self = query_tally(s, sums, 2 * i), total = query_tally(s, sums, 2 * i + 1);
	bool no_callees = memcmp(&self, &total, sizeof(self)) == 0;

	row->self = tally_estimate(&self, unseen_of(s, &self, smallest, SPREAD_SELF));
	row->total = row->self;
	if (no_callees && !s->exact)
		row->total = tally_estimate(&total, unseen_of(s, &total, smallest, SPREAD_TOTAL));
	else if (!no_callees)
		row->total = tally_estimate(&total, query_unseen(s, smallest, SPREAD_TOTAL));
}

static void make_row(const struct query_state *s, struct mayfly_row *row, size_t group)
{
	const struct group *g = &s->group[group];
	bool by_size = s->query->by == MAYFLY_BY_SIZE;

	*row = (struct mayfly_row){
	    .function = group_text(s, g->function),
	    .file = group_text(s, g->file),
	    .module = group_text(s, g->module),
	    .line = g->line,
	    .thread = g->thread,
	    .free_thread = g->free_thread,
	    .low = g->low,
	    .high = g->high,
	};
	set_figures(s, row, &s->group_sums, group, by_size ? (uint64_t)g->low + 1 : 0);
}

#define COMPARE(a, b)                                                                              \
	do {                                                                                       \
		if ((a) != (b))                                                                    \
			return (a) < (b) ? -1 : 1;                                                 \
	} while (0)

static bool ranking_begin(struct ranking *r, size_t rows)
{
	r->row = answer_array(r->s, r->a, rows, sizeof(*r->row));
	r->source = query_zeroed(r->s, rows, sizeof(*r->source));
	return r->row && r->source;
}

static bool rows_make_rows(struct ranking *r)
{
	struct query_state *s = r->s;
	size_t rows = 0;

	for (size_t i = 0; i < s->group_key.count; i++)
		rows += !rows_is_empty(s, i);
	if (!ranking_begin(r, rows))
		return false;
	measure_spread(s, &s->group_sums, s->group_key.count);
	for (size_t i = 0; i < s->group_key.count; i++) {
		if (rows_is_empty(s, i))
			continue;
		make_row(s, &r->row[r->rows], i);
		r->source[r->rows++] = (uint32_t)i;
	}
	return true;
}

struct stack_order {
	double first, second; /* bytes: the sort key, and the other of self and total */
	uint32_t node, stack;
};

/* Ties keep the order of the tree: comparing the names of stacks is expensive. */
static int compare_stacks(const void *x, const void *y)
{
	const struct stack_order *a = x, *b = y;

	COMPARE(b->first, a->first);
	COMPARE(b->second, a->second);
	COMPARE(a->node, b->node);
	return 0;
}

static double sum_bytes(const struct query_state *s, size_t i)
{
	const struct tally t = query_tally(s, &s->stack_sums, i);

	return t.exact_bytes + t.sampled_bytes;
}

static struct stack_order order_of(const struct query_state *s, size_t i)
{
	double self = sum_bytes(s, 2 * i), total = sum_bytes(s, 2 * i + 1);
	bool by_total = s->query->sort == MAYFLY_SORT_TOTAL;

	return (struct stack_order){by_total ? total : self, by_total ? self : total,
				    s->stack[i].node, (uint32_t)i};
}

/* Puts an item into a heap whose top is the last item in sort order, from the free place `at`
 * down. */
static void rows_sift_down(struct stack_order *heap, size_t count, size_t at,
			   struct stack_order item)
{
	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < count && compare_stacks(&heap[child + 1], &heap[child]) > 0)
			child++;
		if (child >= count || compare_stacks(&heap[child], &item) <= 0)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = item;
}

/* The first `rows` stacks in sort order, found with a heap: usually there are many more stacks. */
static struct stack_order *order_stacks(struct query_state *s, size_t rows)
{
	struct stack_order *order = query_zeroed(s, rows, sizeof(*order));

	if (!order || !rows)
		return order;
	for (size_t i = 0; i < rows; i++)
		order[i] = order_of(s, i);
	if (rows < s->stacks)
		for (size_t i = rows / 2; i-- > 0;)
			rows_sift_down(order, rows, i, order[i]);
	for (size_t i = rows; i < s->stacks; i++) {
		struct stack_order item = order_of(s, i);

		if (compare_stacks(&item, &order[0]) < 0)
			rows_sift_down(order, rows, 0, item);
	}
	qsort(order, rows, sizeof(*order), compare_stacks);
	return order;
}

/* The requested number of rows of stacks, in order. */
static bool make_stack_rows(struct ranking *r)
{
	struct query_state *s = r->s;
	size_t wanted = s->query->stack_rows, rows = s->stacks;
	struct stack_order *order;

	if (wanted && wanted < rows)
		rows = wanted;
	order = order_stacks(s, rows);
	if (!order || !ranking_begin(r, rows)) {
		free(order);
		return false;
	}
	measure_spread(s, &s->stack_sums, s->stacks);
	for (size_t i = 0; i < rows; i++) {
		r->row[i] = (struct mayfly_row){.function = "", .file = "", .module = ""};
		set_figures(s, &r->row[i], &s->stack_sums, order[i].stack, 0);
		r->source[i] = order[i].stack;
	}
	free(order);
	r->rows = rows;
	s->ranked = r->source;
	r->source = NULL;
	return true;
}

/* ---- order ---- */

static int compare_text(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a, b);
}

static int compare_three(const char *a1, const char *b1, const char *a2, const char *b2,
			 const char *a3, const char *b3)
{
	int order = compare_text(a1, b1);

	if (order == 0)
		order = compare_text(a2, b2);
	return order ? order : compare_text(a3, b3);
}

/* Compares the fields that places and rows share. */
#define COMPARE_NAMES(a, b)                                                                        \
	compare_three((a)->function, (b)->function, (a)->file, (b)->file, (a)->module, (b)->module)

static int compare_names(const struct mayfly_row *a, const struct mayfly_row *b)
{
	int order = COMPARE_NAMES(a, b);

	if (order != 0)
		return order;
	COMPARE(a->line, b->line);
	COMPARE(a->thread, b->thread);
	COMPARE(a->free_thread, b->free_thread);
	COMPARE(a->low, b->low);
	COMPARE(a->high, b->high);
	return 0;
}

/* Tells rows of functions without a name apart. */
static int compare_groups(const struct query_state *s, uint32_t a, uint32_t b)
{
	COMPARE(s->group[a].by_address, s->group[b].by_address);
	COMPARE(s->group[a].address, s->group[b].address);
	return 0;
}

/* With a pointer to the ranking, because qsort() passes no context. */
struct row_order {
	const struct ranking *ranking;
	uint32_t row;
};

static int rows_compare_rows(const void *x, const void *y)
{
	const struct ranking *r = ((const struct row_order *)x)->ranking;
	uint32_t i = ((const struct row_order *)x)->row, k = ((const struct row_order *)y)->row;
	const struct mayfly_row *a = &r->row[i], *b = &r->row[k];
	int order;

	if (r->s->query->sort == MAYFLY_SORT_TOTAL)
		COMPARE(b->total.bytes.estimate, a->total.bytes.estimate);
	COMPARE(b->self.bytes.estimate, a->self.bytes.estimate);
	COMPARE(b->total.bytes.estimate, a->total.bytes.estimate);
	order = compare_names(a, b);
	if (order != 0)
		return order;
	order = compare_groups(r->s, r->source[i], r->source[k]);
	if (order != 0)
		return order;
	COMPARE(i, k);
	return 0;
}

/* Moves row number order[i].row to place i, in place, cycle by cycle. */
static void put_in_order(struct ranking *r, struct row_order *order)
{
	for (size_t i = 0; i < r->rows; i++) {
		struct mayfly_row first = r->row[i];
		size_t at = i;

		if (order[i].row == NONE)
			continue;
		while (order[at].row != i) {
			size_t from = order[at].row;

			r->row[at] = r->row[from];
			order[at].row = NONE;
			at = from;
		}
		r->row[at] = first;
		order[at].row = NONE;
	}
}

static bool rows_sort_rows(struct ranking *r)
{
	struct row_order *order = malloc((r->rows + 1) * sizeof(*order));
	uint32_t *ranked = malloc((r->rows + 1) * sizeof(*ranked));

	if (!order || !ranked) {
		free(order);
		free(ranked);
		return query_fail(r->s, MAYFLY_E_MEMORY);
	}
	for (size_t i = 0; i < r->rows; i++)
		order[i] = (struct row_order){r, (uint32_t)i};
	qsort(order, r->rows, sizeof(*order), rows_compare_rows);
	for (size_t i = 0; i < r->rows; i++)
		ranked[i] = r->source[order[i].row];
	put_in_order(r, order);
	free(order);
	r->s->ranked = ranked;
	return true;
}

/* ---- stacks ---- */

/* Copies a stack, leaf first, at most `limit` places; a mark stands for places that were cut. */
static size_t copy_stack(const struct query_state *s, struct mayfly_place *place,
			 const struct stack_cells *c, uint32_t top, size_t limit)
{
	size_t length = stack_cells_length(c, top), count = 0;

	for (; top != NONE; top = c->cell[top].before) {
		if (count + 1 >= limit && length - count > 1) {
			place[count] = (struct mayfly_place){.function = "",
							     .file = "",
							     .module = "",
							     .kind = MAYFLY_FRAME_ELIDED,
							     .address = length - count};
			count++;
			break;
		}
		place[count] = query_place(s, &s->group[c->cell[top].place]);
		place[count++].recursive = c->cell[top].recursive;
	}
	return count;
}

static bool stack_cells_of_row(struct query_state *s, struct stack_cells *c, uint32_t number,
			       uint32_t *top)
{
	const struct stack *stack = &s->stack[number];

	if (stack->special == NONE)
		return stack_cells_of(s, c, stack->shown, top);
	c->count = 0;
	*top = NONE;
	return stack_cells_push(s, c, top, stack->special);
}

/* The rows' stacks one after the other, or with place == NULL the number of all their places. False:
 * s->error. */
static bool fill_stacks(struct ranking *r, struct mayfly_place *place, size_t limit, size_t *places)
{
	struct stack_cells c = {0};
	uint32_t top;
	size_t i;

	for (i = 0; i < r->rows && stack_cells_of_row(r->s, &c, r->s->ranked[i], &top); i++) {
		if (!place) {
			*places += stack_cells_length(&c, top);
			continue;
		}
		r->row[i].stack = place;
		r->row[i].stack_length = copy_stack(r->s, place, &c, top, limit);
		place += r->row[i].stack_length;
	}
	stack_cells_free(&c);
	return i == r->rows;
}

static bool make_stacks(struct ranking *r)
{
	size_t places = 0, limit = SIZE_MAX;
	struct mayfly_place *place;

	if (!fill_stacks(r, NULL, limit, &places))
		return false;
	if (places > MAX_STACK_PLACES) {
		limit = MAX_STACK_PLACES / r->rows + 2;
		places = r->rows * limit;
	}
	place = answer_array(r->s, r->a, places, sizeof(*place));
	return place && fill_stacks(r, place, limit, NULL);
}

/* The row of an unknown function has a stack of one place: its frame. */
static bool make_addresses(struct ranking *r)
{
	struct query_state *s = r->s;
	struct mayfly_place *place = answer_array(s, r->a, r->rows, sizeof(*place));

	for (size_t i = 0; place && i < r->rows; i++) {
		const struct group *g = &s->group[s->ranked[i]];

		if (!g->by_address || s->query->by == MAYFLY_BY_MODULE)
			continue;
		*place = query_place(s, g);
		r->row[i].stack = place++;
		r->row[i].stack_length = 1;
	}
	return place != NULL;
}

/* ---- the answer ---- */

int64_t query_answer_time(const struct query_state *s)
{
	const struct mayfly_query *q = s->query;

	if (query_at_peak(q))
		return s->peak.best.time_ns;
	if (s->picture)
		return s->picture->time_ns;
	if (q->metric == MAYFLY_LIVE && q->at_ns != MAYFLY_AT_END)
		return query_rounded(s, q->at_ns);
	if (q->metric != MAYFLY_LIVE && q->to_ns < s->info->duration_ns)
		return query_rounded(s, q->to_ns);
	return s->info->duration_ns;
}

struct mayfly_result *query_make_result(struct query_state *s)
{
	bool stacks = s->query->by == MAYFLY_BY_STACK;
	struct ranking r = {.s = s, .a = answer_new(s, sizeof(*r.a))};
	struct mayfly_result *a = r.a;
	struct tally all = query_tally(s, &s->all, 0), none = {0};
	bool done = a && (stacks ? make_stack_rows(&r) && make_stacks(&r)
				 : rows_make_rows(&r) && rows_sort_rows(&r) && make_addresses(&r));

	free(r.source);
	if (!done) {
		answer_free(a);
		return NULL;
	}
	a->row = r.row;
	a->rows = r.rows;
	a->all_rows = stacks ? s->stacks : r.rows;
	a->time_ns = query_answer_time(s);
	a->total = tally_estimate(&all, query_unseen(s, 0, SPREAD_ALL));
	a->nothing = tally_estimate(&none, query_unseen(s, 0, SPREAD_SELF));
	return a;
}

void mayfly_result_free(struct mayfly_result *result)
{
	answer_free(result);
}
