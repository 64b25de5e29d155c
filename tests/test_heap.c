/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of a heap: blocks of all kinds in a made heap, and for random graphs what each holder
 * retains, compared with an answer by definition: what is no longer reached without it.
 */
#include "heap/heap_graph.h"
#include "heap/heap_kinds.h"
#include "heap/heap_shared.h"
#include "heap/python_interpreter.h"
#include "heap_made.h"
#include "random_numbers.h"
#include "test.h"

#include <stdlib.h>

static struct made_memory *made(void)
{
	struct made_memory *m = calloc(1, sizeof(*m));

	made_begin(m);
	return m;
}

static struct made_arena main_arena(struct made_memory *m)
{
	return (struct made_arena){.m = m, .map = MADE_BREAK};
}

/* Closes the main arena, which is the only one. */
static void close_main(struct made_arena *a)
{
	made_put_state(a->m, MADE_DATA, MADE_STATE, made_top(a),
		       made_address(MADE_DATA, MADE_STATE));
	made_put_par(a->m, 0, 0);
}

static bool make(struct made_memory *m, const struct heap_question *q, struct heap_graph *g,
		 struct heap_problem *problem)
{
	return heap_graph_make(&m->image, 236, q, g, problem);
}

/* ---- blocks ---- */

static void used_and_free_chunks(void)
{
	struct made_memory *m = made();
	struct made_arena a = main_arena(m);
	struct heap_question q = {0};
	struct heap_problem problem;
	struct heap_graph g;

	made_chunk(&a, 32, true);
	made_chunk(&a, 64, false);
	made_chunk(&a, 0x500, true);
	made_chunk(&a, 48, true);
	made_chunk(&a, 4096, false);
	made_chunk(&a, 1024, true);
	close_main(&a);
	CHECK(make(m, &q, &g, &problem), "%d at %lx", problem.trouble, (long)problem.where);
	CHECK(g.all.blocks == 4 && g.all.bytes == 24 + 0x4f8 + 40 + 1016);
	CHECK(g.sums.chunk_bytes == 32 + 0x500 + 48 + 1024);
	CHECK(g.sums.free_bytes == MADE_BYTES - g.sums.chunk_bytes, "%ld", (long)g.sums.free_bytes);
	CHECK(g.lost_directly.blocks == 4 && g.lost_indirectly.blocks == 0);
	heap_graph_free(&g);
	free(m);
}

/* A thread's cache with two chunks of 48 bytes and one of 64; fastbins with one of 32. */
static void cached_chunks(void)
{
	struct made_memory *m = made();
	struct made_arena a = main_arena(m);
	uint64_t cache = made_chunk(&a, 0x290, true), c[4];
	struct heap_question q = {0};
	struct heap_problem problem;
	struct heap_graph g;

	made_chunk(&a, 48, true);
	c[0] = made_chunk(&a, 48, true);
	c[1] = made_chunk(&a, 48, true);
	c[2] = made_chunk(&a, 64, true);
	c[3] = made_chunk(&a, 32, true);
	m->bytes[MADE_BREAK][cache + 2] = 2; /* counts of two bytes: the second list, the third */
	m->bytes[MADE_BREAK][cache + 4] = 1;
	made_put(m, MADE_BREAK, cache + 128 + 8, made_address(MADE_BREAK, c[0]));
	made_put(m, MADE_BREAK, cache + 128 + 16, made_address(MADE_BREAK, c[2]));
	made_put(m, MADE_BREAK, c[0],
		 made_address(MADE_BREAK, c[0]) >> 12 ^ made_address(MADE_BREAK, c[1]));
	made_put(m, MADE_BREAK, c[1], made_address(MADE_BREAK, c[1]) >> 12);
	made_put(m, MADE_BREAK, c[2], made_address(MADE_BREAK, c[2]) >> 12);
	made_put(m, MADE_BREAK, c[3], made_address(MADE_BREAK, c[3]) >> 12);
	close_main(&a);
	made_put(m, MADE_DATA, MADE_STATE + 16, made_address(MADE_BREAK, c[3]) - 16);
	CHECK(make(m, &q, &g, &problem), "%d at %lx", problem.trouble, (long)problem.where);
	CHECK(g.all.blocks == 2 && g.all.bytes == 0x288 + 40, "%ld", (long)g.all.blocks);
	CHECK(g.sums.cached == 4 && g.sums.cached_bytes == 48 + 48 + 64 + 32);
	heap_graph_free(&g);
	/* A list of the fastbins that leads elsewhere: damaged. */
	made_put(m, MADE_BREAK, c[3], 1234567);
	CHECK(!make(m, &q, &g, &problem) && problem.trouble == HEAP_DAMAGED);
	free(m);
}

static void further_arenas_and_mappings(void)
{
	struct made_memory *m = made();
	struct made_arena a = main_arena(m), b = {.m = m, .map = MADE_ARENA, .flags = 4};
	struct heap_question q = {0};
	struct heap_problem problem;
	struct heap_graph g;
	uint64_t state = 0x30;

	made_chunk(&a, 32, true);
	close_main(&a);
	b.at = (state + 2200 + 15) & ~15ull;
	made_chunk(&b, 112, true);
	made_chunk(&b, 32, false);
	made_chunk(&b, 112, true);
	made_put_state(m, MADE_ARENA, state, made_top(&b), made_address(MADE_DATA, MADE_STATE));
	made_put(m, MADE_ARENA, 0, made_address(MADE_ARENA, state));
	made_put(m, MADE_ARENA, 16, MADE_BYTES);
	made_put(m, MADE_DATA, MADE_STATE + 2160, made_address(MADE_ARENA, state));
	/* One mapped block of two pages, and one of a page, aligned to 256. */
	made_put(m, MADE_ROOM, 0x1008, 0x2000 | 2);
	made_put(m, MADE_ROOM, 0x3008, 0x1000 | 2);
	made_put(m, MADE_ROOM, 0x30f0, 0xf0);
	made_put(m, MADE_ROOM, 0x30f8, 0xf10 | 2);
	made_put_par(m, 2, 0x3000);
	CHECK(make(m, &q, &g, &problem), "%d at %lx", problem.trouble, (long)problem.where);
	CHECK(g.all.blocks == 5, "%ld", (long)g.all.blocks);
	CHECK(g.all.bytes == 24 + 2 * 104 + 0x2000 - 16 + 0xf10 - 16);
	CHECK(g.sums.arenas == 2 && g.sums.mapped == 2 && g.sums.mapped_missing == 0);
	heap_graph_free(&g);
	/* Its heap belongs to another arena. */
	made_put(m, MADE_ARENA, 0, made_address(MADE_ARENA, state) + 8);
	CHECK(!make(m, &q, &g, &problem) && problem.trouble == HEAP_DAMAGED &&
	      problem.where == made_start[MADE_ARENA]);
	free(m);
}

/* Between two fences, others have taken from the break. */
static void foreign_break(void)
{
	struct made_memory *m = made();
	struct made_arena a = main_arena(m);
	struct heap_question q = {0};
	struct heap_problem problem;
	struct heap_graph g;

	made_chunk(&a, 64, true);
	made_chunk(&a, 16, true);
	made_chunk(&a, 16, true);
	memset(m->bytes[MADE_BREAK] + a.at, 0x5a, 4096);
	a.at += 4096;
	made_chunk(&a, 128, true);
	close_main(&a);
	CHECK(make(m, &q, &g, &problem), "%d at %lx", problem.trouble, (long)problem.where);
	CHECK(g.all.blocks == 2 && g.all.bytes == 56 + 120, "%ld", (long)g.all.blocks);
	heap_graph_free(&g);
	free(m);
}

static void refusals(void)
{
	struct made_memory *m = made();
	struct made_arena a = main_arena(m);
	struct heap_question q = {0};
	struct heap_problem problem;
	struct heap_graph g;

	CHECK(!make(m, &q, &g, &problem) && problem.trouble == HEAP_NO_MALLOC);
	made_chunk(&a, 64, true);
	made_chunk(&a, 64, true);
	close_main(&a);
	CHECK(!heap_graph_make(&m->image, 230, &q, &g, &problem) &&
	      problem.trouble == HEAP_OLD_LIBC);
	CHECK(!heap_graph_make(&m->image, 242, &q, &g, &problem) &&
	      problem.trouble == HEAP_NEW_LIBC);
	/* A chunk that ends outside, and a free one whose successor knows another size. */
	made_put(m, MADE_BREAK, 64 + 8, 0x100001);
	CHECK(!make(m, &q, &g, &problem) && problem.trouble == HEAP_DAMAGED &&
	      problem.where == made_start[MADE_BREAK] + 64);
	made_put(m, MADE_BREAK, 64 + 8, 64);
	made_put(m, MADE_BREAK, 64, 48);
	CHECK(!make(m, &q, &g, &problem) && problem.trouble == HEAP_DAMAGED &&
	      problem.where == made_start[MADE_BREAK]);
	free(m);
}

/* ---- Python ---- */

static const struct python_interpreter python = {.version = 311};

/* A pool with three free blocks and four used ones, of which the variable reaches two. */
static void blocks_of_python(void)
{
	struct made_memory *m = made();
	struct made_arena a = main_arena(m);
	const uint64_t pool = made_start[MADE_POOLS] + MADE_POOL_HEAD;
	const struct heap_root root[] = {
	    {made_address(MADE_DATA, MADE_VARIABLES), made_address(MADE_DATA, MADE_VARIABLES + 8),
	     0},
	    {made_start[MADE_POOLS], made_start[MADE_POOLS] + MADE_ARENA_BYTES, 1}};
	const uint8_t rank[2] = {0, 0};
	struct heap_question q = {
	    .root = root, .roots = 2, .rank = rank, .holders = 2, .python = &python};
	struct heap_problem problem;
	struct heap_graph g;

	made_put_arena(&a);
	made_chunk(&a, 32, true);
	close_main(&a);
	made_put_pool(m, 80, 4, 3);
	made_put(m, MADE_DATA, MADE_VARIABLES, pool + 3 * 80);
	made_put(m, MADE_POOLS, MADE_POOL_HEAD + 3 * 80 + 16, pool + 5 * 80 + 79);
	CHECK(make(m, &q, &g, &problem), "%d at %lx", problem.trouble, (long)problem.where);
	CHECK(g.python.arenas == 1 && g.python.blocks == 4 && g.python.used[4] == 4);
	CHECK(g.python.bytes == 320 && g.python.free_bytes == 240 && !g.python.damaged);
	CHECK(g.all.blocks == 6 && g.all.bytes == 320 + 776 + 24);
	CHECK(g.retained[heap_graph_holder(&g, 0)] == 160);
	CHECK(g.retained[heap_graph_holder(&g, 1)] == 0, "the arena holds nothing");
	heap_graph_free(&g);
	/* A list that leads out of the pool: all seven count. */
	made_put(m, MADE_POOLS, MADE_POOL_HEAD + 80, 4711);
	CHECK(make(m, &q, &g, &problem));
	CHECK(g.python.blocks == 7 && g.python.damaged == 1);
	heap_graph_free(&g);
	/* A pool of another arena: this is no Python. */
	made_put(m, MADE_POOLS, 32, (uint64_t)4 << 32 | 1);
	CHECK(make(m, &q, &g, &problem));
	CHECK(g.python.arenas == 0 && g.all.blocks == 2);
	heap_graph_free(&g);
	free(m);
}

/*
 * A module with a name for an object, which leads to a block. What must not count: the collector's pointer to it,
 * and the pointer that a list had where it has no item any more.
 */
static void names_of_python(void)
{
	struct made_memory *m = made();
	struct made_arena a = main_arena(m);
	const uint64_t list = made_address(MADE_DATA, MADE_VARIABLES);
	const struct heap_root root = {list, list + 8, 0};
	const uint8_t rank = 0;
	const struct python_interpreter known = {.version = 311,
						 .type_type = made_type(MADE_TYPE),
						 .module_type = made_type(MADE_MODULE)};
	struct heap_question q = {
	    .root = &root, .roots = 1, .rank = &rank, .holders = 1, .python = &known};
	uint64_t order, held, module, alone;
	const struct python_objects *o;
	struct heap_problem problem;
	struct heap_graph g;

	made_put_types(&a);
	order = made_object(&a, MADE_ORDER, 16);
	held = made_chunk(&a, 208, true);
	alone = made_object(&a, MADE_ORDER, 16);
	made_put(m, MADE_BREAK, order + 16, made_address(MADE_BREAK, held));
	made_put(m, MADE_BREAK, order + 48,
		 made_address(MADE_BREAK, alone)); /* behind its 48 bytes */
	module = made_module(&a, "CACHE", made_address(MADE_BREAK, order));
	made_put(m, MADE_DATA, MADE_VARIABLES, made_address(MADE_BREAK, alone - 16));
	close_main(&a);
	CHECK(make(m, &q, &g, &problem), "%d at %lx", problem.trouble, (long)problem.where);
	o = &g.objects;
	CHECK(o->holders == 2 && heap_graph_holders(&g) == 3, "%zu", o->holders);
	CHECK(!strcmp(o->types.name[o->holder[0].name], "module a module"));
	CHECK(!strcmp(o->types.name[o->holder[1].name], "a module.CACHE"));
	CHECK(g.retained[heap_graph_holder(&g, 2)] == 72 + 200, "the object and its block");
	CHECK(g.retained[heap_graph_holder(&g, 0)] == 0, "the collector holds nothing");
	CHECK(g.retained[heap_graph_holder(&g, 1)] == 72 + 72 + 136 + 56,
	      "module, dict, table, key");
	CHECK(g.edges.types == 4, "%zu", g.edges.types);
	heap_graph_free(&g);
	/* Types that are each other's types, and a table that says it is larger than it can be. */
	made_put(m, MADE_BREAK, 32 + 8, made_type(MADE_DICT));
	CHECK(make(m, &q, &g, &problem));
	heap_graph_free(&g);
	made_put(m, MADE_BREAK, 32 + 8, made_type(MADE_TYPE));
	made_put(m, MADE_BREAK, module + MADE_MODULE_TABLE + 24, UINT64_MAX >> 33);
	CHECK(make(m, &q, &g, &problem));
	CHECK(g.objects.holders == 2);
	heap_graph_free(&g);
	free(m);
}

/* Two dictionaries that say that they have the same table: its names count once. */
static void one_table_of_two_modules(void)
{
	struct made_memory *m = made();
	struct made_arena a = main_arena(m);
	const struct python_interpreter known = {.version = 311,
						 .type_type = made_type(MADE_TYPE),
						 .module_type = made_type(MADE_MODULE)};
	const struct heap_question q = {.python = &known};
	struct heap_problem problem;
	struct heap_graph g;
	uint64_t order, first, second;

	made_put_types(&a);
	order = made_address(MADE_BREAK, made_object(&a, MADE_ORDER, 16));
	first = made_module(&a, "FIRST", order);
	second = made_module(&a, "SECOND", order);
	made_put(m, MADE_BREAK, second + MADE_MODULE_DICT + 32,
		 made_address(MADE_BREAK, first + MADE_MODULE_TABLE));
	close_main(&a);
	CHECK(make(m, &q, &g, &problem), "%d at %lx", problem.trouble, (long)problem.where);
	CHECK(g.objects.holders == 2, "%zu", g.objects.holders);
	heap_graph_free(&g);
	free(m);
}

/* A frame that has called itself, and a table of global variables that ends nowhere: both are read for a limited time. */
static void frames_in_a_circle(void)
{
	struct made_memory *m = made();
	struct made_arena a = main_arena(m);
	const uint64_t runtime = MADE_VARIABLES, interpreter = runtime + 0x100;
	const uint64_t thread = runtime + 0x200, inner = runtime + 0x300, frame = runtime + 0x400;
	const struct python_interpreter known = {.version = 311,
						 .type_type = made_type(MADE_TYPE),
						 .code_type = made_type(MADE_CODE),
						 .runtime = made_address(MADE_DATA, runtime)};
	const struct heap_question q = {.python = &known};
	struct heap_problem problem;
	struct heap_graph g;
	uint64_t code, module;

	made_put_types(&a);
	code = made_chunk(&a, 208, true);
	made_put(m, MADE_BREAK, code, 1);
	made_put(m, MADE_BREAK, code + 8, made_type(MADE_CODE));
	made_put(m, MADE_BREAK, code + 76, 200);
	module = made_module(&a, "CACHE", made_address(MADE_BREAK, code));
	made_put(m, MADE_BREAK, module + MADE_MODULE_TABLE + 24, UINT64_MAX >> 33);
	close_main(&a);
	made_put(m, MADE_DATA, runtime + 40, made_address(MADE_DATA, interpreter));
	made_put(m, MADE_DATA, interpreter + 16, made_address(MADE_DATA, thread));
	made_put(m, MADE_DATA, thread + 56, made_address(MADE_DATA, inner));
	made_put(m, MADE_DATA, inner + 8, made_address(MADE_DATA, frame));
	made_put(m, MADE_DATA, frame + 8, made_address(MADE_BREAK, module + MADE_MODULE_DICT));
	made_put(m, MADE_DATA, frame + 32, made_address(MADE_BREAK, code));
	made_put(m, MADE_DATA, frame + 48, made_address(MADE_DATA, frame));
	made_put(m, MADE_DATA, frame + 72, made_address(MADE_BREAK, code));
	CHECK(make(m, &q, &g, &problem), "%d at %lx", problem.trouble, (long)problem.where);
	CHECK(g.objects.holders > 1 && g.objects.holders < 100000, "%zu", g.objects.holders);
	CHECK(g.objects.reader.searched > 1000000 && g.objects.reader.searched <= 1u << 22, "%u",
	      g.objects.reader.searched);
	heap_graph_free(&g);
	free(m);
}

/* ---- graphs ---- */

#define MOST	24
#define HOLDERS 4u

/* The truth of a random graph: node i < blocks is a block, then come the holders. */
struct truth {
	uint32_t blocks, holders;
	bool edge[MOST + HOLDERS][MOST];
	uint64_t bytes[MOST];
	uint8_t passing[HOLDERS];
	int level[MOST];
};

static void reach(const struct truth *t, uint32_t from, uint32_t without, int level, bool *seen)
{
	for (uint32_t to = 0; to < t->blocks; to++) {
		if (!t->edge[from][to] || seen[to] || to == without)
			continue;
		if (level >= 0 && t->level[to] != level)
			continue;
		seen[to] = true;
		reach(t, to, without, level, seen);
	}
}

static void find_levels(struct truth *t)
{
	for (uint32_t i = 0; i < t->blocks; i++)
		t->level[i] = 2;
	for (int level = 1; level >= 0; level--) {
		bool seen[MOST] = {false};

		for (uint32_t h = 0; h < t->holders; h++)
			if (t->passing[h] == level)
				reach(t, t->blocks + h, HEAP_NONE, -1, seen);
		for (uint32_t i = 0; i < t->blocks; i++)
			if (seen[i])
				t->level[i] = level;
	}
}

/* What holder h alone keeps: reached with all, and not without it. */
static uint64_t retained_by(const struct truth *t, uint32_t h)
{
	bool with[MOST] = {false}, without[MOST] = {false};
	int level = t->passing[h];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->holders; i++) {
		if (t->passing[i] != level)
			continue;
		reach(t, t->blocks + i, HEAP_NONE, level, with);
		if (i != h)
			reach(t, t->blocks + i, HEAP_NONE, level, without);
	}
	for (uint32_t i = 0; i < t->blocks; i++)
		sum += with[i] && !without[i] && t->level[i] == level ? t->bytes[i] : 0;
	return sum;
}

static uint64_t block_retains(const struct truth *t, uint32_t b)
{
	bool without[MOST] = {false};
	uint64_t sum = 0;

	for (uint32_t h = 0; h < t->holders; h++)
		if (t->passing[h] == t->level[b])
			reach(t, t->blocks + h, b, t->level[b], without);
	for (uint32_t i = 0; i < t->blocks; i++)
		sum += t->level[i] == t->level[b] && !without[i] ? t->bytes[i] : 0;
	return sum;
}

/* Blocks that are reached by nothing, but from one of these all others are: one of each circle. */
static uint64_t heads(const struct truth *t)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < t->blocks; i++) {
		bool from_here[MOST] = {false}, head = t->level[i] == 2;

		reach(t, i, HEAP_NONE, -1, from_here);
		for (uint32_t other = 0; other < t->blocks && head; other++) {
			bool there[MOST] = {false};

			if (t->level[other] != 2 || other == i)
				continue;
			reach(t, other, HEAP_NONE, -1, there);
			/* The first one of a circle that all else hangs on counts. */
			if (there[i] && (!from_here[other] || other < i))
				head = false;
		}
		count += head;
	}
	return count;
}

static void check_truth(const struct truth *t, const struct heap_graph *g)
{
	uint64_t lost = 0, shared = 0, held = 0;
	struct heap_shared s;
	struct heap_kinds kinds;

	for (uint32_t h = 0; h < t->holders; h++) {
		uint64_t bytes = g->retained[heap_graph_holder(g, h)];

		CHECK(bytes == retained_by(t, h), "holder %u: %ld, not %ld", h, (long)bytes,
		      (long)retained_by(t, h));
		held += bytes;
	}
	for (uint32_t i = 0; i < t->blocks; i++) {
		uint32_t number = g->reach.number[i];

		lost += t->level[i] == 2 ? t->bytes[i] : 0;
		if (t->level[i] != 2)
			CHECK(g->retained[number] == block_retains(t, i), "block %u: %ld, not %ld",
			      i, (long)g->retained[number], (long)block_retains(t, i));
	}
	CHECK(g->retained[heap_graph_holder(g, t->holders)] == lost);
	CHECK(g->lost_directly.bytes + g->lost_indirectly.bytes == lost);
	CHECK(g->lost_directly.blocks == heads(t), "%ld, not %ld", (long)g->lost_directly.blocks,
	      (long)heads(t));
	CHECK(heap_shared_find(g, &s));
	for (size_t i = 0; i < s.groups; i++) {
		CHECK(__builtin_popcountll(s.group[i].holders) > 1, "%lx",
		      (long)s.group[i].holders);
		shared += s.group[i].bytes;
	}
	CHECK(held + shared + lost == g->all.bytes);
	heap_shared_free(&s);
	CHECK(heap_kinds_find(g, &kinds));
	heap_kinds_free(&kinds);
}

static void random_graphs(void)
{
	struct made_memory *m = made();

	for (int round = 0; round < 20000 && !test_bad; round++) {
		struct truth t = {.blocks = 1 + below(MOST), .holders = 1 + below(HOLDERS)};
		struct made_arena a = main_arena(m);
		struct heap_root root[HOLDERS];
		struct heap_question q = {
		    .root = root, .roots = t.holders, .rank = t.passing, .holders = t.holders};
		struct heap_problem problem;
		struct heap_graph g;
		uint64_t at[MOST];
		uint32_t edges = below(2 * t.blocks + 2);

		memset(m->bytes, 0, sizeof(m->bytes));
		for (uint32_t i = 0; i < t.blocks; i++) {
			uint64_t chunk = 208 + 16 * below(8);

			at[i] = made_chunk(&a, chunk, true);
			t.bytes[i] = chunk - 8;
			if (below(3) == 0)
				made_chunk(&a, 64, false);
		}
		close_main(&a);
		for (uint32_t h = 0; h < t.holders; h++) {
			uint64_t place = MADE_VARIABLES + 256 * h;

			t.passing[h] = below(2);
			root[h] = (struct heap_root){made_address(MADE_DATA, place),
						     made_address(MADE_DATA, place + 256), h};
		}
		for (uint32_t i = 0; i < edges; i++) {
			uint32_t from = below(t.blocks + t.holders), to = below(t.blocks);
			uint64_t word = made_address(MADE_BREAK, at[to]) +
					(below(4) ? 0 : below(200)); /* sometimes inside */

			t.edge[from][to] = true;
			if (from < t.blocks)
				made_put(m, MADE_BREAK, at[from] + 8 * (to % MOST), word);
			else
				made_put(m, MADE_DATA,
					 MADE_VARIABLES + 256 * (from - t.blocks) + 8 * to, word);
		}
		find_levels(&t);
		CHECK(make(m, &q, &g, &problem), "%d at %lx", problem.trouble, (long)problem.where);
		if (!test_bad) {
			check_truth(&t, &g);
			heap_graph_free(&g);
		}
	}
	free(m);
}

int main(void)
{
	RUN(used_and_free_chunks);
	RUN(cached_chunks);
	RUN(further_arenas_and_mappings);
	RUN(foreign_break);
	RUN(refusals);
	RUN(blocks_of_python);
	RUN(names_of_python);
	RUN(one_table_of_two_modules);
	RUN(frames_in_a_circle);
	RUN(random_graphs);
	DONE();
}
