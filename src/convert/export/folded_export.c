/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks for flamegraph.pl, inferno and speedscope: a line for each stack, root first.
 *
 *	main;parse;read_line 4096
 */
#include "convert/export/call_tree.h"
#include "convert/export/exports.h"
#include "convert/out.h"

#include <stdlib.h>

#include "base/array.h"

struct folding {
	struct export_job *job;
	struct call_tree tree;
	uint32_t *path;
	size_t path_capacity;
};

static void print_stack(struct folding *f, uint32_t node, uint64_t bytes)
{
	struct out *o = &f->job->out;
	size_t depth = 0;

	for (uint32_t at = node; at > 0; at = f->tree.node[at].parent) {
		if (!ARRAY_ADD(f->path, f->path_capacity, depth, at)) {
			out_fail(o, MAYFLY_E_MEMORY);
			return;
		}
	}
	while (depth-- > 0) {
		out_folded(o, shown_text(&f->job->stacks, f->tree.node[f->path[depth]].name));
		out_char(o, depth ? ';' : ' ');
	}
	out_unsigned(o, bytes);
	out_char(o, '\n');
}

void export_folded(struct export_job *j)
{
	struct folding f = {.job = j};
	struct rounding bytes = {0};
	size_t left;

	export_sums(j, false);
	export_stacks(j);
	if (!j->out.error)
		out_fail(&j->out, call_tree_make(&f.tree, &j->stacks, &j->sums, false));
	if (!j->out.error)
		out_fail(&j->out, call_tree_sort(&f.tree, CALL_BYTES(0)));
	for (uint32_t i = 0;
	     !j->out.error && (i = call_tree_next(&f.tree, i, &left)) != CALL_NONE;) {
		uint64_t own = rounding_next(&bytes, f.tree.node[i].self[CALL_BYTES(0)]);

		if (own)
			print_stack(&f, i, own);
	}
	call_tree_free(&f.tree);
	free(f.path);
}
