/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heat.c: size by lifetime, in one pass: the slots of the question by lifetime are divided by the
 * slots of one by size, as histogram.c divides them by rows.
 */
#include "query/heat.h"

#include "query/query.h"

struct heat_run {
	struct query_state s;
	struct heat *a;
	size_t all_sizes, all_lifetimes;      /* possible classes */
	struct tally *cell, *size, *lifetime; /* of those */
	uint32_t *kept_size, *kept_lifetime;  /* the classes of the answer */
};

static bool heat_allocate(struct heat_run *r)
{
	struct query_state *s = &r->s;
	uint32_t *site;

	r->all_sizes = query_classes(MAYFLY_BY_SIZE);
	r->all_lifetimes = query_classes(MAYFLY_BY_LIFETIME);
	r->cell = query_scratch(s, r->all_sizes * r->all_lifetimes, sizeof(*r->cell));
	r->size = query_scratch(s, r->all_sizes, sizeof(*r->size));
	r->lifetime = query_scratch(s, r->all_lifetimes, sizeof(*r->lifetime));
	r->kept_size = query_scratch(s, r->all_sizes, sizeof(*r->kept_size));
	r->kept_lifetime = query_scratch(s, r->all_lifetimes, sizeof(*r->kept_lifetime));
	site = query_scratch(s, r->all_sizes, sizeof(*site));
	if (s->error)
		return false;
	for (size_t i = 0; i < r->all_sizes; i++)
		site[i] = (uint32_t)i;
	s->site_of = site;
	s->site_by = MAYFLY_BY_SIZE;
	s->sites = r->all_sizes;
	return true;
}

static void sum_classes(struct heat_run *r)
{
	struct query_state *s = &r->s;

	for (size_t i = 0; i < s->slots; i++) {
		uint32_t at = query_summed(s, (uint32_t)i);

		if (at == NONE)
			continue;
		r->cell[i] = query_tally(s, &s->sum, at);
		tally_merge(&r->size[i / r->all_lifetimes], &r->cell[i]);
		tally_merge(&r->lifetime[i % r->all_lifetimes], &r->cell[i]);
	}
}

/* Lists the classes from the first with a block to the last one. */
static size_t list_classes(const struct tally *tally, size_t first, size_t end, uint32_t *kept)
{
	size_t count = 0;

	while (end > first && !tally[end - 1].exact_count && !tally[end - 1].seen_blocks)
		end--;
	while (first < end && !tally[first].exact_count && !tally[first].seen_blocks)
		first++;
	while (first < end)
		kept[count++] = (uint32_t)first++;
	return count;
}

/* The bound on blocks that were not seen depends on their sizes. */
static struct unseen unseen_from(const struct heat_run *r, uint64_t low)
{
	return query_unseen(&r->s, low, SPREAD_SELF);
}

static void fill_cells(struct heat_run *r)
{
	struct heat *a = r->a;
	struct heat_class *size = answer_array(&r->s, a, a->sizes, sizeof(*size));
	struct heat_class *lifetime = answer_array(&r->s, a, a->lifetimes, sizeof(*lifetime));
	struct mayfly_estimate *cell =
	    answer_array(&r->s, a, a->sizes * a->lifetimes, sizeof(*cell));

	if (r->s.error)
		return;
	for (size_t i = 0; i < a->lifetimes; i++) {
		struct group g = query_class_group(MAYFLY_BY_LIFETIME, r->kept_lifetime[i]);

		lifetime[i] = (struct heat_class){
		    g.low, g.high,
		    tally_estimate(&r->lifetime[r->kept_lifetime[i]], unseen_from(r, 0))};
	}
	for (size_t i = 0; i < a->sizes; i++) {
		const struct tally *row = &r->cell[r->kept_size[i] * r->all_lifetimes];
		struct group g = query_class_group(MAYFLY_BY_SIZE, r->kept_size[i]);
		struct unseen unseen = unseen_from(r, r->kept_size[i] ? (uint64_t)g.low + 1 : 0);

		size[i] = (struct heat_class){g.low, g.high,
					      tally_estimate(&r->size[r->kept_size[i]], unseen)};
		for (size_t k = 0; k < a->lifetimes; k++)
			cell[i * a->lifetimes + k] =
			    tally_estimate(&row[r->kept_lifetime[k]], unseen);
	}
	a->size = size;
	a->lifetime = lifetime;
	a->cell = cell;
}

static void fill_heat(struct heat_run *r)
{
	struct tally all = query_tally(&r->s, &r->s.all, 0);
	size_t finite = r->all_lifetimes - 1;

	sum_classes(r);
	r->a->time_ns = query_answer_time(&r->s);
	r->a->total = tally_estimate(&all, query_unseen(&r->s, 0, SPREAD_ALL));
	r->a->sizes = list_classes(r->size, 0, r->all_sizes, r->kept_size);
	r->a->lifetimes = list_classes(r->lifetime, 0, finite, r->kept_lifetime);
	r->a->lifetimes +=
	    list_classes(r->lifetime, finite, r->all_lifetimes, r->kept_lifetime + r->a->lifetimes);
	fill_cells(r);
}

int heat_run(const struct mayfly_trace *trace, const struct mayfly_query *query, struct heat **heat)
{
	struct mayfly_query by_lifetime = *query;
	struct heat_run r = {0};

	by_lifetime.by = MAYFLY_BY_LIFETIME;
	by_lifetime.sort = MAYFLY_SORT_SELF;
	r.a = answer_new(&r.s, sizeof(*r.a));
	if (r.a && mayfly_trace_info(trace)->absent & MAYFLY_ABSENT_SIZES)
		query_fail(&r.s, MAYFLY_E_ABSENT);
	else if (r.a && heat_allocate(&r) && query_begin(&r.s, trace, &by_lifetime))
		fill_heat(&r);
	return answer_finish(&r.s, r.a, heat);
}

void heat_free(struct heat *heat)
{
	answer_free(heat);
}
