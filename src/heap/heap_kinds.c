/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks are: see heap_kinds.h. */
#include "heap/heap_kinds.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/interner.h"

#define PAIRS_MOST (1u << 22) /* of kinds and tops */

static struct heap_kind kind_of(const struct heap_graph *g, uint32_t block, size_t *region)
{
	uint16_t type = g->edges.type[block];
	uint64_t bytes, rounded = HEAP_EXACT_MOST;

	if (type)
		return (struct heap_kind){.type = 1 + g->edges.used[type - 1]};
	*region = heap_blocks_region(&g->blocks, block, *region);
	bytes = heap_block_bytes(&g->blocks, &g->blocks.region[*region], block);
	if (bytes <= HEAP_EXACT_MOST)
		return (struct heap_kind){.bytes = bytes};
	while (rounded < bytes)
		rounded *= 2;
	return (struct heap_kind){.bytes = rounded};
}

static uint64_t own_bytes(const struct heap_graph *g, uint32_t block, size_t *region)
{
	*region = heap_blocks_region(&g->blocks, block, *region);
	return heap_block_bytes(&g->blocks, &g->blocks.region[*region], block);
}

/* ---- by kind ---- */

static int compare_sums(const void *a, const void *b)
{
	const struct heap_kind_sum *x = a, *y = b;

	return (x->own.bytes < y->own.bytes) - (x->own.bytes > y->own.bytes);
}

/* Bytes of a kind below a top. */
struct pairs {
	struct interner numbers;
	uint64_t *bytes;
	size_t capacity;
};

static bool add_pair(struct pairs *p, uint32_t kind, uint32_t top, uint64_t bytes,
		     struct heap_kind_sum *sum)
{
	bool is_new;
	uint32_t pair;

	if (p->numbers.count >= PAIRS_MOST &&
	    interner_find(&p->numbers, (struct key){{kind, top}}) == INTERNER_NONE)
		return true;
	pair = interner_add(&p->numbers, (struct key){{kind, top}}, &is_new);
	if (pair == INTERNER_NONE ||
	    !array_reserve_filled(&p->bytes, &p->capacity, pair, sizeof(*p->bytes), 0))
		return false;
	p->bytes[pair] += bytes;
	if (p->bytes[pair] > sum->top_bytes) {
		sum->top_bytes = p->bytes[pair];
		sum->top = top;
	}
	return true;
}

bool heap_kinds_find(const struct heap_graph *g, struct heap_kinds *k)
{
	struct interner numbers = {0};
	struct pairs pairs = {0};
	size_t capacity = 0, region = 0;
	bool good = true;

	*k = (struct heap_kinds){0};
	for (uint32_t block = 0; block < g->blocks.count && good; block++) {
		struct heap_kind kind = kind_of(g, block, &region);
		uint64_t bytes = own_bytes(g, block, &region);
		uint32_t number = g->reach.number[block], at;
		struct heap_kind_sum *sum;
		bool is_new;

		at = interner_add(&numbers, (struct key){{kind.type, kind.bytes}}, &is_new);
		good =
		    at != INTERNER_NONE && array_reserve(&k->sum, &capacity, at, sizeof(*k->sum));
		if (!good)
			break;
		sum = &k->sum[at];
		if (is_new) {
			*sum = (struct heap_kind_sum){.kind = kind};
			k->count++;
		}
		sum->own.bytes += bytes;
		sum->own.blocks++;
		heap_waste_add(&g->waste, block, bytes, &sum->waste);
		if (number > g->reach.lost) {
			sum->lost.bytes += bytes;
			sum->lost.blocks++;
		}
		good = add_pair(&pairs, at, g->top[number], bytes, sum);
	}
	interner_free(&numbers);
	interner_free(&pairs.numbers);
	free(pairs.bytes);
	if (!good)
		heap_kinds_free(k);
	else if (k->count)
		qsort(k->sum, k->count, sizeof(*k->sum), compare_sums);
	return good;
}

void heap_kinds_free(struct heap_kinds *k)
{
	free(k->sum);
	*k = (struct heap_kinds){0};
}

/* ---- stages ---- */

static bool same_kind(struct heap_kind a, struct heap_kind b)
{
	return a.type == b.type && a.bytes == b.bytes;
}

/* The stage of a block, from that of its dominator. */
static uint8_t stage_of(const struct heap_graph *g, uint32_t number, const uint8_t *stage,
			struct heap_kind kind)
{
	uint32_t above = g->owners.dominator[number], block = g->reach.node[above];
	size_t region = 0;

	if (!above || block >= g->edges.blocks)
		return 0;
	if (same_kind(kind, kind_of(g, block, &region)))
		return stage[above];
	return (uint8_t)(stage[above] < HEAP_STAGES ? stage[above] + 1u : HEAP_STAGES);
}

struct stage_sums {
	struct interner numbers;
	struct heap_total *total;
	size_t capacity;
};

/* Adds to the sum of this kind in this stage, and notes the kind when it has become the largest. */
static bool add_stage(struct stage_sums *s, struct heap_stage *stage, uint64_t slot,
		      struct heap_kind kind, uint64_t bytes)
{
	bool is_new;
	uint32_t at =
	    interner_add(&s->numbers, (struct key){{slot, kind.type, kind.bytes}}, &is_new);

	if (at == INTERNER_NONE ||
	    !array_reserve_filled(&s->total, &s->capacity, at, sizeof(*s->total), 0))
		return false;
	s->total[at].bytes += bytes;
	s->total[at].blocks++;
	stage->stage.bytes += bytes;
	stage->stage.blocks++;
	if (s->total[at].bytes > stage->kinds.bytes || same_kind(stage->kind, kind)) {
		stage->kind = kind;
		stage->kinds = s->total[at];
	}
	return true;
}

bool heap_stages_find(const struct heap_graph *g, uint32_t (*slot_of)(void *context, uint32_t top),
		      void *context, size_t wanted, struct heap_stage *stage)
{
	uint8_t *stages = calloc(g->reach.count, 1);
	struct stage_sums sums = {0};
	uint32_t last_top = 0, slot = HEAP_NONE;
	size_t region = 0;
	bool good = stages != NULL;

	for (size_t i = 0; i < wanted * HEAP_STAGES; i++)
		stage[i] = (struct heap_stage){0};
	for (uint32_t number = 1; number < g->reach.count && good; number++) {
		uint32_t block = g->reach.node[number];
		struct heap_kind kind;

		if (g->top[number] != last_top) {
			last_top = g->top[number];
			slot = slot_of(context, last_top);
		}
		if (slot == HEAP_NONE || block >= g->edges.blocks)
			continue;
		kind = kind_of(g, block, &region);
		stages[number] = stage_of(g, number, stages, kind);
		if (stages[number] < HEAP_STAGES) {
			size_t at = slot * HEAP_STAGES + stages[number];

			good = add_stage(&sums, &stage[at], at, kind, own_bytes(g, block, &region));
		}
	}
	interner_free(&sums.numbers);
	free(sums.total);
	free(stages);
	return good;
}
