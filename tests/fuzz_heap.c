/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: any bytes are the memory of a process, in the maps of heap_made.h, with a variable as holder.
 * Without memory there, the words are zero.
 */
#include <stdlib.h>
#include <string.h>

#include "heap/heap_graph.h"
#include "heap/heap_kinds.h"
#include "heap/heap_shared.h"
#include "heap/python_interpreter.h"

#include "fuzz_main.h"
#include "heap_made.h"

static uint32_t slot_of(void *context, uint32_t top)
{
	(void)context;
	return top % 4;
}

static void look(const struct heap_graph *g, uint32_t holders)
{
	struct heap_stage stage[4 * HEAP_STAGES];
	struct heap_shared shared;
	struct heap_kinds kinds;
	struct heap_waste_sum waste[4] = {0};
	uint64_t sum = 0, wasted = 0, ends = 0;

	if (!heap_shared_find(g, &shared) || !heap_kinds_find(g, &kinds) ||
	    !heap_stages_find(g, slot_of, NULL, 4, stage))
		abort();
	for (uint32_t i = 0; i <= holders; i++)
		sum += g->retained[heap_graph_holder(g, i)];
	for (size_t i = 0; i < shared.groups; i++)
		sum += shared.group[i].bytes;
	if (sum != g->all.bytes)
		abort();
	heap_graph_waste(g, slot_of, NULL, waste);
	for (int i = 0; i < 4; i++) {
		wasted += waste[i].zero_bytes + waste[i].copy_bytes;
		ends += waste[i].end_bytes;
	}
	if (wasted > g->all.bytes || ends > g->all.bytes)
		abort();
	heap_shared_free(&shared);
	heap_kinds_free(&kinds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct made_memory *m = calloc(1, sizeof(*m));
	const struct heap_root root[] = {
	    {made_start[MADE_DATA], made_start[MADE_DATA] + MADE_BYTES / 2, 0},
	    {made_start[MADE_DATA] + MADE_BYTES / 2, made_start[MADE_DATA] + MADE_BYTES, 1},
	};
	const struct heap_type type = {made_start[MADE_ROOM], made_start[MADE_ROOM] + 4096};
	struct python_interpreter python = {.type_type = made_type(MADE_TYPE),
					    .module_type = made_type(MADE_MODULE),
					    .code_type = made_type(MADE_CODE),
					    .runtime = made_address(MADE_DATA, MADE_VARIABLES)};
	const uint8_t rank[2] = {0, 1};
	const struct heap_question q = {.root = root,
					.roots = 2,
					.rank = rank,
					.holders = 2,
					.type = &type,
					.types = 1,
					.python = &python,
					.waste_contents = 8,
					.waste_texts = true};
	/* Not known, with plain links, with mixed links. */
	static const unsigned int versions[] = {0, 231, 236};
	static const unsigned int pythons[] = {311, 312, 313};
	struct heap_problem problem;
	struct heap_graph g;

	if (!m)
		abort();
	made_begin(m);
	memcpy(m->bytes, data, size < sizeof(m->bytes) ? size : sizeof(m->bytes));
	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		python.version = pythons[i];
		if (heap_graph_make(&m->image, versions[i], &q, &g, &problem)) {
			look(&g, heap_graph_holders(&g));
			heap_graph_free(&g);
		}
	}
	free(m);
	return 0;
}
