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
	const struct shown_stacks *stacks;
	struct call_tree tree;
	struct out out;
	uint32_t *path;
	size_t path_capacity;
};

static bool print_stack(struct folding *f, uint32_t node, uint64_t bytes)
{
	size_t depth = 0;

	for (uint32_t at = node; at > 0; at = f->tree.node[at].parent) {
		if (!array_reserve(&f->path, &f->path_capacity, depth, sizeof(*f->path)))
			return false;
		f->path[depth++] = at;
	}
	while (depth-- > 0) {
		out_folded(&f->out, shown_text(f->stacks, f->tree.node[f->path[depth]].name));
		out_char(&f->out, depth ? ';' : ' ');
	}
	out_unsigned(&f->out, bytes);
	out_char(&f->out, '\n');
	return true;
}

static int print_tree(struct folding *f)
{
	struct rounding bytes = {0};
	size_t left;

	for (uint32_t i = call_tree_next(&f->tree, 0, &left); i != CALL_NONE;
	     i = call_tree_next(&f->tree, i, &left)) {
		uint64_t own = rounding_next(&bytes, f->tree.node[i].self[CALL_BYTES(0)]);

		if (own && !print_stack(f, i, own))
			return MAYFLY_E_MEMORY;
	}
	return 0;
}

int export_folded(const struct mayfly_trace *trace, const struct export_options *options,
		  trace_sink *sink, void *context)
{
	struct folding f = {0};
	struct shown_stacks stacks;
	struct stack_sums sums;
	int error = stack_sums_begin(&sums, trace, options->query, NULL), written;

	if (error)
		return error;
	out_begin(&f.out, sink, context);
	f.stacks = &stacks;
	error = shown_begin(&stacks, trace, options->query);
	if (!error)
		error = call_tree_make(&f.tree, &stacks, &sums, false);
	stack_sums_end(&sums);
	if (!error)
		error = call_tree_sort(&f.tree, CALL_BYTES(0));
	if (!error)
		error = print_tree(&f);
	written = out_end(&f.out);
	call_tree_free(&f.tree);
	shown_end(&stacks);
	free(f.path);
	return error ? error : written;
}
