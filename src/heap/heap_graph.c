/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a heap: see heap_graph.h. */
#include "heap/heap_graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "heap/heap_declared.h"

/* ---- roots without what is malloc's own ---- */

struct roots {
	struct heap_root *root;
	size_t count, capacity;
};

static bool add_root(struct roots *r, uint64_t start, uint64_t end, uint32_t holder)
{
	if (start >= end)
		return true;
	if (!array_reserve(&r->root, &r->capacity, r->count, sizeof(*r->root)))
		return false;
	r->root[r->count++] = (struct heap_root){start, end, holder};
	return true;
}

/* The first range that ends after the address. */
static size_t range_after(const struct heap_ranges *own, uint64_t address)
{
	return FIRST_THAT(i, 0, own->count, own->range[i].end > address);
}

/* Malloc's state points to the ends of blocks, and what is in free chunks means nothing. */
static bool cut_roots(const struct heap_question *q, const struct heap_ranges *own,
		      struct roots *roots)
{
	for (size_t i = 0; i < q->roots; i++) {
		const struct heap_root *r = &q->root[i];
		uint64_t at = r->start;

		for (size_t k = range_after(own, at); k < own->count && at < r->end; k++) {
			uint64_t until =
			    own->range[k].start < r->end ? own->range[k].start : r->end;

			if (!add_root(roots, at, until, r->holder))
				return false;
			at = own->range[k].end > at ? own->range[k].end : at;
		}
		if (!add_root(roots, at, r->end, r->holder))
			return false;
	}
	return true;
}

/* ---- Python's holders ---- */

/* What the question has, and behind it Python's. */
struct holders {
	struct heap_value *value;
	uint8_t *rank;
};

static bool join_holders(struct heap_question *q, const struct python_objects *o, struct holders *h)
{
	const uint8_t most = HEAP_RANKS - 1 - PYTHON_RANKS;

	*h = (struct holders){0};
	if (!o->blocks)
		return true;
	h->value = malloc((q->values + o->values + 1) * sizeof(*h->value));
	h->rank = malloc(q->holders + o->holders + 1);
	if (!h->value || !h->rank)
		return false;
	if (q->values)
		memcpy(h->value, q->value, q->values * sizeof(*h->value));
	for (size_t i = 0; i < o->values; i++)
		h->value[q->values + i] =
		    (struct heap_value){o->value[i].value, q->holders + o->value[i].holder};
	for (size_t i = 0; i < q->holders; i++)
		h->rank[i] =
		    (uint8_t)(q->rank[i] < most ? q->rank[i] + PYTHON_RANKS : most + PYTHON_RANKS);
	for (size_t i = 0; i < o->holders; i++)
		h->rank[q->holders + i] = (uint8_t)o->holder[i].rank;
	q->value = h->value;
	q->values += o->values;
	q->rank = h->rank;
	q->holders += (uint32_t)o->holders;
	return true;
}

/* ---- sums ---- */

static bool add_up(struct heap_graph *g)
{
	const struct heap_reach *r = &g->reach;
	size_t count = r->count, region = 0;

	g->retained = calloc(count, sizeof(*g->retained));
	g->retained_blocks = calloc(count, sizeof(*g->retained_blocks));
	g->top = calloc(count, sizeof(*g->top));
	if (!g->retained || !g->retained_blocks || !g->top)
		return false;
	for (uint32_t i = 0; i < g->blocks.count; i++) {
		uint32_t number = r->number[i];

		region = heap_blocks_region(&g->blocks, i, region);
		g->retained[number] = heap_block_bytes(&g->blocks, &g->blocks.region[region], i);
		g->retained_blocks[number] = 1;
		g->all.bytes += g->retained[number];
		g->all.blocks++;
	}
	for (uint32_t i = r->lost + 1; i < count; i++) {
		bool directly = r->parent[i] == r->lost;
		struct heap_total *t = directly ? &g->lost_directly : &g->lost_indirectly;

		t->bytes += g->retained[i];
		t->blocks++;
	}
	for (size_t i = count; --i > 0;) {
		uint32_t above = g->owners.dominator[i];

		g->retained[above] += g->retained[i];
		g->retained_blocks[above] += g->retained_blocks[i];
	}
	for (uint32_t i = 1; i < count; i++) {
		uint32_t above = g->owners.dominator[i];

		g->top[i] = above ? g->top[above] : i;
	}
	return true;
}

bool heap_graph_make(const struct heap_image *image, unsigned int version,
		     const struct heap_question *q, struct heap_graph *g,
		     struct heap_problem *problem)
{
	struct heap_question cut = *q;
	struct heap_ranges own = {0};
	struct roots roots = {0};
	struct holders holders = {0};
	bool good;

	*g = (struct heap_graph){0};
	*problem = (struct heap_problem){0};
	good = glibc_heap_walk(image, version, &g->blocks, &g->sums, &own, problem);
	if (good && q->python)
		good = pymalloc_heap_walk(image, &g->blocks, &g->python, &own, problem);
	if (good && !cut_roots(q, &own, &roots))
		good = heap_fail(problem, HEAP_NO_MEMORY, 0);
	cut.root = roots.root;
	cut.roots = roots.count;
	good = good && python_objects_find(&g->objects, image, &g->blocks, q->python, problem);
	if (good && !join_holders(&cut, &g->objects, &holders))
		good = heap_fail(problem, HEAP_NO_MEMORY, 0);
	good =
	    good &&
	    heap_edges_find(image, &g->blocks, &cut, &g->objects, &g->edges, &g->waste, problem) &&
	    heap_declared_find(image, &g->blocks, q, &g->objects, &g->edges, problem);
	python_objects_read_all(&g->objects);
	free(roots.root);
	free(own.range);
	if (q->read_all)
		q->read_all(q->context);
	g->words = g->edges.words;
	g->pointers = g->edges.count;
	good = good && heap_reach_find(&g->edges, &cut, &g->reach, problem) &&
	       heap_owners_find(&g->edges, &g->reach, &g->owners, problem);
	free(holders.value);
	free(holders.rank);
	if (good && !add_up(g))
		good = heap_fail(problem, HEAP_NO_MEMORY, 0);
	if (!good)
		heap_graph_free(g);
	return good;
}

void heap_graph_waste(const struct heap_graph *g, uint32_t (*slot_of)(void *context, uint32_t top),
		      void *context, struct heap_waste_sum *sum)
{
	uint32_t last_top = 0, slot = HEAP_NONE;
	size_t region = 0;

	for (uint32_t block = 0; block < g->waste.blocks; block++) {
		uint32_t top = g->top[g->reach.number[block]];

		if (top != last_top) {
			last_top = top;
			slot = slot_of(context, top);
		}
		region = heap_blocks_region(&g->blocks, block, region);
		if (slot != HEAP_NONE)
			heap_waste_add(
			    &g->waste, block,
			    heap_block_bytes(&g->blocks, &g->blocks.region[region], block),
			    &sum[slot]);
	}
}

void heap_graph_free(struct heap_graph *g)
{
	heap_blocks_free(&g->blocks);
	heap_edges_free(&g->edges);
	heap_reach_free(&g->reach);
	heap_owners_free(&g->owners);
	heap_waste_free(&g->waste);
	python_objects_free(&g->objects);
	free(g->retained);
	free(g->retained_blocks);
	free(g->top);
	*g = (struct heap_graph){0};
}
