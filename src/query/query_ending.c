/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_ending.c: what a Python program had kept when its interpreter began to end. The interpreter then takes
 * all modules apart, and frees what they hold:
 *
 *	the program -> | Py_FinalizeEx: python_end_ns -> frees with MAYFLY_FLAG_ENDING -> exit
 *
 * Blocks of stacks with interpreted frames count as never freed if that is how they were.
 */
#include "query/query.h"

/* It is in no module, and has a file. */
static bool is_interpreted(const struct query_state *s, uint32_t index)
{
	const struct mayfly_frame *f = mayfly_trace_frame(s->trace, index);

	return f && f->kind == MAYFLY_FRAME_CODE && f->module >= s->info->modules && f->locations &&
	       *f->location[0].file;
}

bool query_ends_early(const struct query_state *s)
{
	return s->query->metric == MAYFLY_LEAKED && s->info->python_end_ns && !s->info->snapshot_ns;
}

bool query_prepare_ending(struct query_state *s)
{
	uint8_t *frame;

	if (!query_ends_early(s))
		return true;
	frame = query_scratch(s, s->info->frames + 1, 1);
	s->interpreted = query_scratch(s, s->info->nodes + 1, 1);
	if (s->error)
		return false;
	for (size_t i = 0; i < s->info->frames; i++)
		frame[i] = is_interpreted(s, (uint32_t)i);
	for (size_t i = 1; i < s->info->nodes; i++) {
		struct mayfly_node n = mayfly_trace_node(s->trace, i);

		s->interpreted[i] = (n.parent < i && s->interpreted[n.parent]) ||
				    (n.frame < s->info->frames && frame[n.frame]);
	}
	return true;
}

bool query_was_kept(const struct query_state *s, const struct cursor_batch *b, size_t freed)
{
	const struct cursor_block *block = &b->freed[freed];

	return s->interpreted && b->e.free_flags[freed] & MAYFLY_FLAG_ENDING &&
	       block->node < s->info->nodes && s->interpreted[block->node] &&
	       block->time_ns < s->info->python_end_ns;
}
