/* SPDX-License-Identifier: Apache-2.0 */
/* Types of blocks from what debug information declares: in a made heap, with made types. */
#include "heap/heap_graph.h"
#include "heap_made.h"
#include "random_numbers.h"
#include "test.h"

#include <stdlib.h>

/* The variable points to a node. */
enum { NODE, PLAIN, BYTES, POINTER, OPEN, LAYOUTS };

/* A heap with a variable that points to its first block, and types without slots. */
struct bench {
	struct made_memory *m;
	struct made_arena a;
	struct heap_layout layout[LAYOUTS];
	struct heap_slot slot[LAYOUTS][4];
	struct heap_variable variable[2];
	struct heap_layouts layouts;
	struct heap_root root;
	struct heap_question q;
	struct heap_graph g;
};

static const uint8_t rank;

static void begin(struct bench *b)
{
	static const uint64_t bytes[LAYOUTS] = {40, 24, 1, 8, 16};
	const uint64_t variables = made_address(MADE_DATA, MADE_VARIABLES);

	*b = (struct bench){.m = calloc(1, sizeof(*b->m))};
	made_begin(b->m);
	b->a = (struct made_arena){.m = b->m, .map = MADE_BREAK};
	for (int i = 0; i < LAYOUTS; i++)
		b->layout[i] =
		    (struct heap_layout){.bytes = bytes[i], .slot = b->slot[i], .complete = true};
	b->slot[POINTER][0] = (struct heap_slot){.stride = 8, .count = 1, .layout = NODE};
	b->layout[POINTER].slots = 1;
	b->variable[0] = (struct heap_variable){variables, POINTER};
	b->layouts = (struct heap_layouts){
	    .layout = b->layout, .count = LAYOUTS, .variable = b->variable, .variables = 1};
	b->root = (struct heap_root){variables, variables + 256, 0};
	b->q = (struct heap_question){
	    .root = &b->root, .roots = 1, .rank = &rank, .holders = 1, .layouts = &b->layouts};
}

static void add_slot(struct bench *b, int layout, uint64_t offset, int to, enum heap_slot_to kind)
{
	b->slot[layout][b->layout[layout].slots++] = (struct heap_slot){
	    .offset = offset, .stride = 8, .count = 1, .layout = (uint32_t)to, .to = kind};
}

static uint64_t block(struct bench *b, uint64_t chunk_bytes)
{
	return made_chunk(&b->a, chunk_bytes, true);
}

static void point(struct bench *b, uint64_t at, uint64_t to)
{
	made_put(b->m, MADE_BREAK, at, made_address(MADE_BREAK, to));
}

static void point_variable(struct bench *b, uint64_t offset, uint64_t to)
{
	made_put(b->m, MADE_DATA, MADE_VARIABLES + offset, made_address(MADE_BREAK, to));
}

static bool make(struct bench *b)
{
	struct heap_problem problem;

	made_put_state(b->m, MADE_DATA, MADE_STATE, made_top(&b->a),
		       made_address(MADE_DATA, MADE_STATE));
	made_put_par(b->m, 0, 0);
	return heap_graph_make(&b->m->image, 236, &b->q, &b->g, &problem);
}

static void end(struct bench *b)
{
	heap_graph_free(&b->g);
	free(b->m);
}

#define NO_TYPE -1

/* Twice a layout, and 1 more for an array; NO_TYPE. */
static int type_of(const struct bench *b, uint64_t at)
{
	uint64_t offset;
	uint32_t number = heap_blocks_find(&b->g.blocks, made_address(MADE_BREAK, at), &offset);
	uint16_t type = b->g.edges.type[number];

	return type ? (int)(b->g.edges.used[type - 1] - b->q.types) : NO_TYPE;
}

/* node -> node -> plain, an array of these, one that is too small, and bytes. */
static void along_pointers(void)
{
	struct bench b;
	uint64_t first, second, plain, array, small, text, none;

	begin(&b);
	add_slot(&b, NODE, 0, NODE, HEAP_TO_SOME);
	add_slot(&b, NODE, 8, PLAIN, HEAP_TO_SOME);
	add_slot(&b, NODE, 16, BYTES, HEAP_TO_BYTES);
	first = block(&b, 48);
	second = block(&b, 48);
	plain = block(&b, 32);
	array = block(&b, 24 * 10 + 16);
	text = block(&b, 112);
	small = block(&b, 32);
	none = block(&b, 64);
	point_variable(&b, 0, first);
	point(&b, first, second);
	point(&b, first + 8, plain);
	point(&b, first + 16, text);
	point(&b, first + 24, none);
	point(&b, second, small); /* a node has 40 bytes, this has 24 */
	point(&b, second + 8, array);
	CHECK(make(&b));
	CHECK(type_of(&b, first) == 2 * NODE && type_of(&b, second) == 2 * NODE);
	CHECK(type_of(&b, plain) == 2 * PLAIN, "%d", type_of(&b, plain));
	CHECK(type_of(&b, array) == 2 * PLAIN + 1, "%d", type_of(&b, array));
	CHECK(type_of(&b, text) == 2 * BYTES + 1, "%d", type_of(&b, text));
	CHECK(type_of(&b, small) == NO_TYPE && type_of(&b, none) == NO_TYPE);
	end(&b);
}

/* The nearest pointer counts, bytes only where there is nothing better, and a table of virtual functions always. */
static void contradictions(void)
{
	const struct heap_type vtable = {made_address(MADE_DATA, 0x2000),
					 made_address(MADE_DATA, 0x2040)};
	struct bench b;
	uint64_t first, second, both, text, object, behind;

	begin(&b);
	b.q.type = &vtable;
	b.q.types = 1;
	add_slot(&b, NODE, 0, NODE, HEAP_TO_ONE);
	add_slot(&b, NODE, 8, PLAIN, HEAP_TO_ONE);
	add_slot(&b, NODE, 16, BYTES, HEAP_TO_BYTES);
	first = block(&b, 48);
	second = block(&b, 48);
	both = block(&b, 48);
	text = block(&b, 48);
	object = block(&b, 48);
	behind = block(&b, 48);
	point_variable(&b, 0, first);
	point(&b, first, second);
	point(&b, first + 8, both);
	point(&b, second, both); /* a step further */
	point(&b, first + 16, text);
	CHECK(make(&b));
	CHECK(type_of(&b, both) == 2 * PLAIN && type_of(&b, text) == 2 * BYTES + 1);
	heap_graph_free(&b.g);
	point(&b, second, text);
	point(&b, second + 8, object);
	point(&b, text, object);
	made_put(b.m, MADE_BREAK, object, vtable.start + 16);
	point(&b, text + 8, behind);
	CHECK(make(&b));
	CHECK(type_of(&b, text) == 2 * NODE, "%d", type_of(&b, text));
	CHECK(b.g.edges.used[b.g.edges.type[b.g.edges.blocks - 2] - 1] == 0, "the virtual one");
	CHECK(type_of(&b, behind) == 2 * PLAIN, "%d", type_of(&b, behind));
	end(&b);
}

/* A small type that points to itself is what a block begins with, not an array. */
static void links(void)
{
	struct bench b;
	uint64_t first;

	begin(&b);
	add_slot(&b, OPEN, 8, OPEN, HEAP_TO_SOME);
	b.slot[POINTER][0].layout = OPEN;
	first = block(&b, 16 * 10 + 16);
	point_variable(&b, 0, first);
	CHECK(make(&b));
	CHECK(type_of(&b, first) == 2 * OPEN, "%d", type_of(&b, first));
	end(&b);
}

/* A pointer to the inside: its block has no type, but what is there leads on, once. */
static void inside_of_blocks(void)
{
	struct bench b;
	uint64_t around, behind;

	begin(&b);
	add_slot(&b, NODE, 0, NODE, HEAP_TO_SOME);
	add_slot(&b, NODE, 8, PLAIN, HEAP_TO_SOME);
	around = block(&b, 112);
	behind = block(&b, 32);
	point_variable(&b, 0, around + 16);
	point(&b, around + 16, around + 16);
	point(&b, around + 24, behind);
	CHECK(make(&b));
	CHECK(type_of(&b, around) == NO_TYPE && type_of(&b, behind) == 2 * PLAIN);
	end(&b);
}

/* A member at the end that takes the rest, and pointers that never end. */
static void open_ends(void)
{
	struct bench b;
	uint64_t first, plain[5];

	begin(&b);
	b.layout[OPEN].open_end = true;
	b.layout[OPEN].slots = 1;
	b.slot[OPEN][0] = (struct heap_slot){
	    .offset = 16, .stride = 8, .count = HEAP_TO_THE_END, .layout = PLAIN};
	b.slot[POINTER][0].layout = OPEN;
	first = block(&b, 64); /* 56 bytes: five pointers */
	for (int i = 0; i < 5; i++) {
		plain[i] = block(&b, 32);
		point(&b, first + 16 + 8 * (uint64_t)i, plain[i]);
	}
	point_variable(&b, 0, first);
	CHECK(make(&b));
	CHECK(type_of(&b, first) == 2 * OPEN, "%d", type_of(&b, first));
	for (int i = 0; i < 5; i++)
		CHECK(type_of(&b, plain[i]) == 2 * PLAIN, "%d", i);
	end(&b);
}

/* Any numbers: no type gets out of the table, and it ends. */
static void hostile_layouts(void)
{
	struct bench b;
	uint64_t at[8];

	for (unsigned int round = 0; round < 3000; round++) {
		begin(&b);
		for (int i = 0; i < 8; i++)
			at[i] = block(&b, 64 + 16 * (random_number() % 8));
		for (int i = 0; i < 8; i++)
			for (uint64_t k = 0; k < 56; k += 8)
				point(&b, at[i] + k,
				      at[random_number() % 8] + random_number() % 64);
		for (int i = 0; i < LAYOUTS; i++) {
			b.layout[i].bytes = random_number() >> random_number() % 64;
			b.layout[i].open_end = random_number() % 4 == 0;
			b.layout[i].slots = 4;
			for (int k = 0; k < 4; k++)
				b.slot[i][k] = (struct heap_slot){
				    .offset = random_number() >> random_number() % 64,
				    .stride = random_number() >> random_number() % 64,
				    .count = random_number() >> random_number() % 64,
				    .layout = (uint32_t)(random_number() % (LAYOUTS + 1)),
				    .to = (enum heap_slot_to)(random_number() % 4)};
		}
		b.variable[1] = (struct heap_variable){random_number() >> random_number() % 64,
						       (uint32_t)random_number() % 8};
		b.layouts.variables = 2;
		point_variable(&b, 0, at[0]);
		CHECK(make(&b));
		for (size_t i = 0; i < b.g.edges.types; i++)
			CHECK(b.g.edges.used[i] < 2 * LAYOUTS, "%u", b.g.edges.used[i]);
		end(&b);
	}
}

int main(void)
{
	RUN(along_pointers);
	RUN(contradictions);
	RUN(inside_of_blocks);
	RUN(links);
	RUN(open_ends);
	RUN(hostile_layouts);
	DONE();
}
