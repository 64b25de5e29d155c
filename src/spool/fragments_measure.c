/* SPDX-License-Identifier: Apache-2.0 */
/* Which stacks hold nearly empty pages: see fragments_measure.h. */
#include "spool/fragments_measure.h"

#include <stdlib.h>

#include "base/array.h"
#include "format/spool_format.h"

#define MOST_SIZE  ((uint64_t)1 << 47) /* no block of a real program is larger */
#define PAGE_SHIFT 12

struct place {
	uint64_t number;
	uint32_t region;
};

/* A program may have millions of stacks, and so many sums. */
struct sum {
	double held;
	uint64_t bytes, pages, last_page;
	uint32_t blocks; /* there are fewer than 2^32 in a live table */
};

/* The bytes of a stack in the current page. */
struct share {
	uint32_t sum; /* index */
	uint64_t bytes;
};

struct measure {
	struct sum *sum; /* of the stacks that hold blocks */
	size_t sums, sum_room;
	uint32_t *sum_of; /* [nodes]: index + 1; 0: none yet */
	size_t nodes;
	uint64_t page; /* at hand */
	struct share *share;
	size_t shares, share_room;
	uint64_t page_bytes; /* of all shares */
	uint64_t blocks, bytes, pages;
	uint64_t runs, run_first, run_last; /* of pages; the current one */
	bool failed;
};

static int compare_regions(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static void end_page(struct measure *m)
{
	for (size_t i = 0; i < m->shares; i++) {
		struct sum *s = &m->sum[m->share[i].sum];

		s->held +=
		    (double)FRAGMENT_PAGE_BYTES * (double)m->share[i].bytes / (double)m->page_bytes;
		s->pages += s->last_page != m->page;
		s->last_page = m->page;
	}
	m->pages += m->shares != 0;
	m->shares = 0;
	m->page_bytes = 0;
}

static void add_share(struct measure *m, uint64_t page, uint32_t sum, uint64_t bytes)
{
	if (page != m->page)
		end_page(m);
	m->page = page;
	m->page_bytes += bytes;
	if (m->shares && m->share[m->shares - 1].sum == sum) {
		m->share[m->shares - 1].bytes += bytes;
		return;
	}
	if (!array_reserve(&m->share, &m->share_room, m->shares, sizeof(*m->share)))
		m->failed = true;
	else
		m->share[m->shares++] = (struct share){sum, bytes};
}

/* Where blocks are not in order, the same pages may become two runs. */
static void add_to_run(struct measure *m, uint64_t first, uint64_t last)
{
	if (m->runs && first >= m->run_first && first <= m->run_last + 1) {
		if (m->run_last < last)
			m->run_last = last;
		return;
	}
	m->runs++;
	m->run_first = first;
	m->run_last = last;
}

/* NULL: no memory. Few of the nodes hold blocks. */
static struct sum *sum_of_node(struct measure *m, uint32_t node)
{
	if (!m->sum_of[node]) {
		if (!ARRAY_ADD(m->sum, m->sum_room, m->sums, (struct sum){0})) {
			m->failed = true;
			return NULL;
		}
		m->sum_of[node] = (uint32_t)m->sums;
	}
	return &m->sum[m->sum_of[node] - 1];
}

/* Blocks inside a malloc block are skipped: that block holds the page. So are those of OCaml, which have
 * no addresses, and mappings, which are pages. */
static void add_live_block(struct measure *m, const struct live_block *b)
{
	uint32_t heap = MAYFLY_FLAG_HEAP(b->flags);
	uint64_t other = heap == MAYFLY_HEAP_POOL_MAPPED ? SPOOL_ADDRESS_POOL_MAPPED : 0;
	uint64_t address = b->key & ~other, size = b->size ? b->size : 1, end, first, last, head;
	struct sum *sum;
	uint32_t at;

	if (size > MOST_SIZE || __builtin_add_overflow(address, size, &end) ||
	    b->node >= m->nodes || heap == MAYFLY_HEAP_POOL || heap == MAYFLY_HEAP_MAPPING ||
	    mayfly_heap_is_ocaml(heap))
		return;
	first = address >> PAGE_SHIFT;
	last = (end - 1) >> PAGE_SHIFT;
	head = ((first + 1) << PAGE_SHIFT) - address;
	sum = sum_of_node(m, b->node);
	if (!sum)
		return;
	at = (uint32_t)(sum - m->sum);
	m->blocks++;
	m->bytes += b->size;
	sum->blocks++;
	sum->bytes += b->size;
	add_to_run(m, first, last);
	add_share(m, first, at, head < size ? head : size);
	if (last == first)
		return;
	/* The pages between belong to this block alone. */
	sum->held += (double)(last - first - 1) * FRAGMENT_PAGE_BYTES;
	sum->pages += last - first - 1;
	m->pages += last - first - 1;
	add_share(m, last, at, end - (last << PAGE_SHIFT));
}

/* By ascending address. Exceptions: blocks less than 16 bytes apart, and blocks of mapped pools,
 * which come last and have pages of their own. */
static void add_region(struct measure *m, const struct live_table *t,
		       const struct live_region *region)
{
	for (size_t i = 0; i < LIVE_LEAVES; i++) {
		if (!region->leaf[i])
			continue;
		for (size_t k = 0; k < LIVE_SLOTS; k++) {
			uint32_t b = t->leaf[region->leaf[i] - 1].slot[k];

			for (; b && !m->failed; b = t->block[b - 1].next)
				add_live_block(m, &t->block[b - 1]);
		}
	}
}

static bool go_through(struct measure *m, const struct live_table *t)
{
	struct place *place = malloc((t->regions + 1) * sizeof(*place));
	size_t places = 0;

	if (!place)
		return false;
	for (size_t i = 0; i < t->entries && places < t->regions; i++)
		if (t->entry[i].region && t->region[t->entry[i].region - 1].leaves)
			place[places++] =
			    (struct place){t->entry[i].number, t->entry[i].region - 1};
	if (places)
		qsort(place, places, sizeof(*place), compare_regions);
	for (size_t i = 0; i < places; i++)
		add_region(m, t, &t->region[place[i].region]);
	end_page(m);
	free(place);
	return !m->failed;
}

static uint64_t held_bytes(const struct sum *s)
{
	return (uint64_t)(s->held + 0.5);
}

static uint64_t wasted_bytes(const struct sum *s)
{
	return held_bytes(s) > s->bytes ? held_bytes(s) - s->bytes : 0;
}

/* There are more than FRAGMENTS_MOST: what the last one wastes that is kept. Found bit by bit, which
 * costs less than to sort them. */
static uint64_t least_waste(const struct measure *m)
{
	uint64_t least = 0;

	for (uint64_t bit = (uint64_t)1 << 63; bit; bit >>= 1) {
		size_t as_much = 0;

		for (size_t i = 0; i < m->sums; i++)
			as_much += wasted_bytes(&m->sum[i]) >= (least | bit);
		if (as_much >= FRAGMENTS_MOST)
			least |= bit;
	}
	return least;
}

/* Keeps the stacks that waste most, and of those that waste the same the first. */
static bool choose(struct fragments *f, const struct measure *m)
{
	size_t most = m->sums < FRAGMENTS_MOST ? m->sums : FRAGMENTS_MOST;
	size_t equal = m->sums; /* how many of the least are kept */
	uint64_t least = 0;

	f->entry = malloc((most + 1) * sizeof(*f->entry));
	if (!f->entry)
		return false;
	if (m->sums > FRAGMENTS_MOST) {
		least = least_waste(m);
		equal = FRAGMENTS_MOST;
		for (size_t i = 0; i < m->sums; i++)
			equal -= wasted_bytes(&m->sum[i]) > least;
	}
	for (size_t node = 0; node < m->nodes; node++) {
		const struct sum *s = m->sum_of[node] ? &m->sum[m->sum_of[node] - 1] : NULL;

		if (!s || wasted_bytes(s) < least || (wasted_bytes(s) == least && !equal))
			continue;
		equal -= wasted_bytes(s) == least;
		f->entry[f->entries++] = (struct mayfly_fragment){.node = (uint32_t)node,
								  .blocks = s->blocks,
								  .bytes = s->bytes,
								  .pages = s->pages,
								  .held_bytes = held_bytes(s)};
	}
	return true;
}

bool fragments_measure(struct fragments *f, const struct live_table *live, size_t nodes,
		       int64_t time_ns)
{
	struct measure m = {.sum_of = calloc(nodes + 1, sizeof(*m.sum_of)), .nodes = nodes};
	bool done = m.sum_of && go_through(&m, live);

	*f = (struct fragments){.time_ns = time_ns,
				.blocks = m.blocks,
				.bytes = m.bytes,
				.pages = m.pages,
				.runs = m.runs};
	done = done && choose(f, &m);
	free(m.share);
	free(m.sum);
	free(m.sum_of);
	return done;
}
