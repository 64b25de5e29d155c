/* SPDX-License-Identifier: Apache-2.0 */
/* What several holders hold together: see heap_shared.h. */
#include "heap/heap_shared.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/interner.h"
#include "base/search.h"

/* Each pass takes masks on by one shared block at least; more than a heap's structure needs. */
#define PASSES_MOST 64u

static bool list_shared(const struct heap_graph *g, struct heap_shared *s)
{
	size_t capacity = 0;

	for (uint32_t i = 1; i < g->reach.count; i++) {
		if (g->owners.dominator[i] || heap_graph_holder_of(g, i) != HEAP_NONE)
			continue;
		if (!array_reserve(&s->shared, &capacity, s->count, sizeof(*s->shared)))
			return false;
		s->shared[s->count++] = i;
	}
	return true;
}

/* Calls for each number that points to a shared block: the parent of the walk, and the others. */
static uint32_t pointing(const struct heap_graph *g, uint32_t number, uint32_t i)
{
	uint32_t from = g->owners.from[number];

	if (i > g->owners.from[number + 1] - from)
		return HEAP_NONE;
	return i ? g->owners.source[from + i - 1] : g->reach.parent[number];
}

/* ---- which holders are told apart ---- */

struct weight {
	uint32_t holder;
	uint64_t bytes;
};

static int compare_weights(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;

	return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
				    : (x->holder > y->holder) - (x->holder < y->holder);
}

static bool choose_sharers(const struct heap_graph *g, struct heap_shared *s)
{
	size_t holders = g->edges.nodes - g->edges.blocks + 1, used = 0;
	struct weight *weights = calloc(holders, sizeof(*weights));

	if (!weights)
		return false;
	for (size_t i = 0; i < holders; i++)
		weights[i].holder = (uint32_t)i;
	for (size_t i = 0; i < s->count; i++) {
		uint32_t from;

		for (uint32_t k = 0; (from = pointing(g, s->shared[i], k)) != HEAP_NONE; k++) {
			uint32_t holder = heap_graph_holder_of(g, g->top[from]);

			if (holder != HEAP_NONE)
				weights[holder].bytes += g->retained[s->shared[i]];
		}
	}
	qsort(weights, holders, sizeof(*weights), compare_weights);
	while (used < holders && used < HEAP_SHARERS_MOST && weights[used].bytes)
		s->sharer[s->sharers++] = weights[used++].holder;
	free(weights);
	return true;
}

static uint64_t bit_of(const struct heap_shared *s, uint32_t holder)
{
	for (unsigned int i = 0; i < s->sharers; i++)
		if (s->sharer[i] == holder)
			return 1ull << i;
	return HEAP_OTHER_SHARERS;
}

/* ---- who holds each ---- */

static size_t place_of(const struct heap_shared *s, uint32_t number)
{
	return FIRST_THAT(i, 0, s->count, s->shared[i] >= number);
}

static void find_masks(const struct heap_graph *g, const struct heap_shared *s, uint64_t *mask)
{
	bool changed = true;

	for (unsigned int pass = 0; changed && pass < PASSES_MOST; pass++) {
		changed = false;
		for (size_t i = 0; i < s->count; i++) {
			uint64_t all = mask[i];
			uint32_t from;

			for (uint32_t k = 0; (from = pointing(g, s->shared[i], k)) != HEAP_NONE;
			     k++) {
				uint32_t top = g->top[from];
				uint32_t holder = heap_graph_holder_of(g, top);

				all |= holder != HEAP_NONE ? bit_of(s, holder)
							   : mask[place_of(s, top)];
			}
			changed |= all != mask[i];
			mask[i] = all;
		}
	}
}

static int compare_groups(const void *a, const void *b)
{
	const struct heap_group *x = a, *y = b;

	return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
				    : (x->holders > y->holders) - (x->holders < y->holders);
}

static bool make_groups(const struct heap_graph *g, struct heap_shared *s, const uint64_t *mask)
{
	struct interner numbers = {0};
	size_t capacity = 0;
	bool good = true;

	for (size_t i = 0; i < s->count && good; i++) {
		bool is_new;
		uint32_t group = interner_add(&numbers, (struct key){{mask[i]}}, &is_new);

		good = group != INTERNER_NONE &&
		       array_reserve(&s->group, &capacity, group, sizeof(*s->group));
		if (!good)
			break;
		if (is_new)
			s->group[s->groups++] = (struct heap_group){.holders = mask[i]};
		s->group[group].bytes += g->retained[s->shared[i]];
		s->group[group].blocks += g->retained_blocks[s->shared[i]];
	}
	interner_free(&numbers);
	if (good && s->groups)
		qsort(s->group, s->groups, sizeof(*s->group), compare_groups);
	return good;
}

/* After the groups have been sorted. */
static bool find_group_of(struct heap_shared *s, const uint64_t *mask)
{
	struct interner numbers = {0};
	bool is_new, good = true;

	s->group_of = malloc((s->count + 1) * sizeof(*s->group_of));
	for (size_t i = 0; s->group_of && i < s->groups && good; i++)
		good = interner_add(&numbers, (struct key){{s->group[i].holders}}, &is_new) == i;
	for (size_t i = 0; s->group_of && i < s->count && good; i++)
		s->group_of[i] = interner_find(&numbers, (struct key){{mask[i]}});
	interner_free(&numbers);
	return s->group_of && good;
}

bool heap_shared_find(const struct heap_graph *g, struct heap_shared *s)
{
	uint64_t *mask = NULL;
	bool good;

	*s = (struct heap_shared){0};
	good = list_shared(g, s) && choose_sharers(g, s);
	if (good) {
		mask = calloc(s->count + 1, sizeof(*mask));
		good = mask != NULL;
	}
	if (good) {
		find_masks(g, s, mask);
		good = make_groups(g, s, mask) && find_group_of(s, mask);
	}
	free(mask);
	if (!good)
		heap_shared_free(s);
	return good;
}

uint32_t heap_shared_group(const struct heap_shared *s, uint32_t number)
{
	size_t at = place_of(s, number);

	return at < s->count && s->shared[at] == number ? s->group_of[at] : HEAP_NONE;
}

void heap_shared_free(struct heap_shared *s)
{
	free(s->group);
	free(s->shared);
	free(s->group_of);
	*s = (struct heap_shared){0};
}
