/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grew from picture to picture: pictures of made heaps with few holders, whose numbers, names and places
 * change as they do in a process; and more pictures than are kept.
 */
#include "cli/heap/heap_growth.h"
#include "heap_made.h"
#include "test.h"

#include <stdlib.h>

#define HOLDERS	    4u
#define BLOCKS_MOST 60u
#define CHUNK	    64u
#define BLOCK	    (CHUNK - 8)

/* What a picture has: each block is held by the holders of a set of bits, or by none. */
struct made_picture {
	struct holder holder[HOLDERS];
	uint32_t holders;
	uint32_t held_by[BLOCKS_MOST];
	uint32_t blocks;
};

static bool make(struct picture *p, const struct made_picture *want)
{
	struct made_memory *m = calloc(1, sizeof(*m));
	struct made_arena a = {.m = m, .map = MADE_BREAK};
	struct heap_root root[HOLDERS];
	const uint8_t rank[HOLDERS] = {0};
	struct heap_question q = {
	    .root = root, .roots = want->holders, .rank = rank, .holders = want->holders};
	struct heap_problem problem;
	uint64_t used[HOLDERS] = {0};
	bool good;

	*p = (struct picture){.pid = 1, .program = "made", .libc_version = 236};
	for (uint32_t i = 0; i < want->holders; i++) {
		uint64_t start = made_address(MADE_DATA, MADE_VARIABLES + 1024 * (uint64_t)i);
		struct holder_list *l = &p->holders;

		root[i] = (struct heap_root){start, start + 1024, i};
		CHECK(holder_list_add(l, want->holder[i]) == i);
	}
	for (uint32_t i = 0; i < want->blocks; i++) {
		uint64_t block = made_address(MADE_BREAK, made_chunk(&a, CHUNK, true));

		for (uint32_t h = 0; h < want->holders; h++)
			if (want->held_by[i] >> h & 1)
				made_put(m, MADE_DATA, MADE_VARIABLES + 1024 * h + 8 * used[h]++,
					 block);
	}
	made_put_state(m, MADE_DATA, MADE_STATE, made_top(&a), made_address(MADE_DATA, MADE_STATE));
	made_put_par(m, 0, 0);
	made_begin(m);
	good = heap_graph_make(&m->image, 236, &q, &p->graph, &problem) &&
	       heap_shared_find(&p->graph, &p->shared);
	free(m);
	return good;
}

static void take(struct heap_growth *g, const struct made_picture *want, int64_t at_ns)
{
	struct picture p;

	CHECK(make(&p, want));
	CHECK(heap_growth_add(g, &p, at_ns));
	picture_free(&p);
}

static struct holder variable(const char *name)
{
	return (struct holder){
	    .kind = HOLDER_VARIABLE, .name = name, .module = "program", .thread = ""};
}

static void hold(struct made_picture *m, uint32_t count, uint32_t holders)
{
	for (uint32_t i = 0; i < count; i++)
		m->held_by[m->blocks++] = holders;
}

static const struct heap_series *series(const struct heap_growth *g, enum heap_series_kind kind,
					const char *name)
{
	const struct heap_series *found = NULL;

	for (size_t i = 0; i < g->count; i++)
		if (g->series[i].kind == kind && !strcmp(g->series[i].name, name)) {
			CHECK(!found, "%s is there twice", name);
			found = &g->series[i];
		}
	CHECK(found, "no %s", name);
	return found;
}

static void check_blocks(const struct heap_series *s, const uint64_t *blocks, size_t moments)
{
	for (size_t i = 0; s && i < moments; i++) {
		struct heap_total t = heap_series_at(s, i);

		CHECK(t.blocks == blocks[i] && t.bytes == blocks[i] * BLOCK, "%s, %zu: %ld",
		      s->name, i, (long)t.blocks);
	}
}

/* Their numbers change; a thread has another name, a mapping another size; one holder comes, one goes. */
static void holders_are_matched(void)
{
	const struct holder stack = {
	    .kind = HOLDER_STACK, .name = "run", .module = "", .tid = 7, .thread = "worker"};
	const struct holder mapping = {.kind = HOLDER_MAPPING,
				       .name = "mapping of 1.0 MiB at 7f00",
				       .module = "",
				       .address = 0x7f00,
				       .thread = ""};
	struct made_picture first = {.holder = {variable("g_a"), stack, mapping, variable("g_old")},
				     .holders = 4};
	struct made_picture then = {.holder = {mapping, variable("g_new"), variable("g_a"), stack},
				    .holders = 4};
	struct heap_growth g = {0};

	hold(&first, 2, 1);
	hold(&first, 3, 2);
	hold(&first, 4, 4);
	hold(&first, 5, 8);
	hold(&first, 1, 0);
	hold(&first, 6, 1 | 4); /* g_a and the mapping */
	then.holder[0].name = "mapping of 2.0 MiB at 7f00";
	then.holder[3].thread = "renamed";
	hold(&then, 9, 1);
	hold(&then, 7, 2);
	hold(&then, 8, 4);
	hold(&then, 3, 8);
	hold(&then, 10, 1 | 4);
	take(&g, &first, 0);
	take(&g, &then, 1000000000);
	check_blocks(series(&g, HEAP_SERIES_HOLDER, "g_a"), (const uint64_t[]){2, 8}, 2);
	check_blocks(series(&g, HEAP_SERIES_HOLDER, "stack of 'renamed' 7"),
		     (const uint64_t[]){3, 3}, 2);
	check_blocks(series(&g, HEAP_SERIES_HOLDER, "mapping of 2.0 MiB at 7f00"),
		     (const uint64_t[]){4, 9}, 2);
	check_blocks(series(&g, HEAP_SERIES_HOLDER, "g_old"), (const uint64_t[]){5, 0}, 2);
	check_blocks(series(&g, HEAP_SERIES_HOLDER, "g_new"), (const uint64_t[]){0, 7}, 2);
	check_blocks(series(&g, HEAP_SERIES_LOST, "nothing: lost"), (const uint64_t[]){1, 0}, 2);
	check_blocks(series(&g, HEAP_SERIES_TYPE, "56-byte blocks"), (const uint64_t[]){21, 37}, 2);
	for (size_t i = 0; i < g.count; i++)
		if (g.series[i].kind == HEAP_SERIES_SHARED) {
			check_blocks(&g.series[i], (const uint64_t[]){6, 10}, 2);
			CHECK(g.series[i].sharers == 2 && !g.series[i].others);
		}
	CHECK(g.count == 8, "%zu", g.count);
	heap_growth_free(&g);
}

/* Two static variables of two functions; one of another module is another. */
static void one_name_twice(void)
{
	struct made_picture m = {
	    .holder = {variable("cache"), variable("cache"), variable("cache")}, .holders = 3};
	struct heap_growth g = {0};

	m.holder[2].module = "library";
	hold(&m, 1, 1);
	hold(&m, 2, 2);
	hold(&m, 4, 4);
	take(&g, &m, 0);
	for (size_t i = 0; i < g.count; i++)
		if (g.series[i].kind == HEAP_SERIES_HOLDER)
			check_blocks(
			    &g.series[i],
			    (const uint64_t[]){strcmp(g.series[i].where, "library") ? 3 : 4}, 1);
	CHECK(g.count == 4, "%zu", g.count);
	heap_growth_free(&g);
}

/* Block counts over the pictures, and whether that still grows. */
static void which_still_grow(void)
{
	static const struct {
		size_t pictures;
		uint32_t blocks[9];
		bool growing;
	} cases[] = {
	    {1, {5}, false},
	    {2, {5, 6}, true},
	    {2, {6, 6}, false},
	    {3, {1, 5, 6}, true},
	    {3, {1, 6, 6}, false},
	    {5, {1, 2, 3, 4, 5}, true},
	    {5, {1, 2, 3, 3, 9}, false},
	    {5, {1, 2, 3, 9, 9}, false},
	    {9, {1, 1, 1, 1, 1, 1, 2, 2, 3}, true},
	    {9, {1, 9, 20, 30, 30, 30, 30, 30, 30}, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct heap_growth g = {0};
		const struct heap_series *s;

		for (size_t k = 0; k < cases[i].pictures; k++) {
			struct made_picture m = {.holder = {variable("g_a")}, .holders = 1};

			hold(&m, cases[i].blocks[k], 1);
			take(&g, &m, (int64_t)k * 1000000000);
		}
		s = series(&g, HEAP_SERIES_HOLDER, "g_a");
		CHECK(heap_series_growing(&g, s) == cases[i].growing, "case %zu", i);
		if (i == 5) {
			CHECK(heap_series_grown(&g, s) == 4 * BLOCK);
			CHECK(heap_series_rate(&g, s) == BLOCK);
		}
		heap_growth_free(&g);
	}
}

/* The first and the last one stay, and each figure belongs to its time. */
static void many_pictures(void)
{
	const size_t count = 4 * HEAP_MOMENTS_MOST + 3;
	struct heap_growth g = {0};

	for (size_t i = 0; i < count; i++) {
		struct made_picture m = {.holder = {variable("g_a"), variable("g_late")},
					 .holders = 2};

		hold(&m, 1 + i % 40, 1);
		hold(&m, i > count / 2 ? 2 : 0, 2);
		take(&g, &m, (int64_t)i);
	}
	CHECK(g.moments <= HEAP_MOMENTS_MOST && g.moments > HEAP_MOMENTS_MOST / 2, "%zu",
	      g.moments);
	CHECK(g.moment[0].at_ns == 0 && g.moment[g.moments - 1].at_ns == (int64_t)count - 1);
	for (size_t i = 1; i + 1 < g.moments; i++)
		CHECK(g.moment[i].at_ns == (int64_t)i * g.moment[1].at_ns);
	for (size_t i = 0; i < g.moments; i++) {
		uint64_t at = (uint64_t)g.moment[i].at_ns;

		CHECK(heap_series_at(series(&g, HEAP_SERIES_HOLDER, "g_a"), i).blocks ==
		      1 + at % 40);
		CHECK(heap_series_at(series(&g, HEAP_SERIES_HOLDER, "g_late"), i).blocks ==
		      (at > count / 2 ? 2 : 0));
		CHECK(g.moment[i].blocks == 1 + at % 40 + (at > count / 2 ? 2 : 0));
	}
	heap_growth_free(&g);
}

int main(void)
{
	RUN(holders_are_matched);
	RUN(one_name_twice);
	RUN(which_still_grow);
	RUN(many_pictures);
	DONE();
}
