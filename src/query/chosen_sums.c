/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of sets of stacks: see chosen_sums.h. */
#include "query/chosen_sums.h"

#include <stdlib.h>

#include "query/query.h"

struct choosing {
	struct query_state *s;
	uint32_t *set; /* [rank in s->summed], or NONE: nothing counts for the node */
	struct sums sums;
	size_t count;
};

static bool make_set(struct choosing *c, uint32_t set)
{
	if (!query_sums_reserve(c->s, &c->sums, (size_t)set + 1))
		return false;
	while (c->count <= set)
		query_sum_clear(c->s, &c->sums, c->count++);
	return true;
}

/* When the peak is asked for, a node may have blocks at other moments only. */
static bool counts(const struct query_state *s, uint32_t sum)
{
	return s->exact || s->sum.tally[sum].seen_blocks || s->sum.tally[sum].exact_count;
}

static bool add_nodes(struct choosing *c, uint32_t (*set_of)(void *context, uint32_t node),
		      void *context)
{
	struct query_state *s = c->s;
	size_t rank = 0;

	for (size_t word = 0; word < s->summed.words; word++)
		for (uint64_t bits = s->summed.bits[word]; bits; bits &= bits - 1, rank++) {
			uint32_t node = (uint32_t)(word * 64 + (size_t)__builtin_ctzll(bits));
			uint32_t sum = s->summed_at[rank];

			c->set[rank] = NONE;
			if (!counts(s, sum))
				continue;
			c->set[rank] = set_of(context, node);
			if (c->set[rank] == CHOSEN_NO_MEMORY || !make_set(c, c->set[rank]))
				return query_fail(s, MAYFLY_E_MEMORY);
			query_sum_add(s, &c->sums, c->set[rank], &s->sum, sum);
		}
	return true;
}

static uint32_t set_of_slot(const struct choosing *c, uint32_t slot)
{
	return rank_set_has(&c->s->summed, slot) ? c->set[rank_set_rank(&c->s->summed, slot)]
						 : NONE;
}

/* As strata_share(): pairs within one node are in its own sum. */
static void share_pairs(struct choosing *c)
{
	struct strata_pair pair;

	for (size_t at = 0; strata_next_pair(c->s, &at, &pair);) {
		uint32_t set;

		if (pair.slot[0] == pair.slot[1])
			continue;
		set = set_of_slot(c, pair.slot[0]);
		if (set == NONE || set != set_of_slot(c, pair.slot[1]))
			continue;
		c->sums.tally[set].shared_bytes += pair.bytes;
		c->sums.tally[set].shared_blocks += pair.blocks;
	}
}

static bool take_sums(struct choosing *c, struct chosen_sums *sums)
{
	struct tally all = query_tally(c->s, &c->s->all, 0);

	sums->of = query_zeroed(c->s, c->count, sizeof(*sums->of));
	if (!sums->of)
		return false;
	sums->count = c->count;
	sums->total = tally_brief(&all);
	for (size_t i = 0; i < c->count; i++) {
		struct tally t = query_tally(c->s, &c->sums, i);

		sums->of[i] = tally_brief(&t);
	}
	return true;
}

int chosen_sums_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		    uint32_t (*set_of)(void *context, uint32_t node), void *context,
		    struct chosen_sums *sums)
{
	struct query_state s = {0};
	struct mayfly_query by_node = *query;
	struct choosing c = {.s = &s};

	*sums = (struct chosen_sums){0};
	by_node.by = MAYFLY_BY_FUNCTION;
	if (query_begin(&s, trace, &by_node)) {
		c.set = query_scratch(&s, s.summed.count, sizeof(*c.set));
		if (c.set && add_nodes(&c, set_of, context)) {
			share_pairs(&c);
			take_sums(&c, sums);
		}
	}
	query_sums_free(&c.sums);
	query_end(&s);
	if (s.error)
		chosen_sums_free(sums);
	return s.error;
}

void chosen_sums_free(struct chosen_sums *sums)
{
	free(sums->of);
	*sums = (struct chosen_sums){0};
}
