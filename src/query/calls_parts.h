/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps of calls_tree.h hand to one another. */
#ifndef MAYFLY_CALLS_PARTS_H
#define MAYFLY_CALLS_PARTS_H

#include "query/calls_tree.h"
#include "query/query.h"

#define CALLS_SIDES 2

/* A node; its parent has a smaller number. Node 0 is the root. */
struct raw_call {
	uint32_t parent, name;
};

/* The merged tree of one trace, or of two: their blocks are summed apart. */
struct raw_calls {
	struct raw_call *node;
	size_t nodes, room;
	struct interner child;	/* parent, name -> node - 1 */
	struct interner folded; /* fold: parent, name -> ... */
	uint32_t *folds_to;	/* ... the node on the path */
	size_t folds_room;
};

/* The functions of both traces of a difference: equal names are one. */
struct calls_names {
	struct interner text; /* module, function or address -> name */
	struct calls_name {
		uint32_t side, group; /* where it was first seen */
	} * name;
	size_t room;
};

struct calls_side {
	struct query_state s;
	struct calls_names *shared; /* NULL: a name is a group of this side */
	uint32_t number;	    /* of this side */
	uint32_t *name_of;	    /* shared: group -> name + 1 */
	size_t name_room;
	uint32_t *raw; /* rank in s.summed -> raw node */

	/* By raw node: what is allocated there, and in its callees; in the answer's unit. */
	double *weight, *total;
	uint8_t *filled; /* has blocks, itself or in its callees */

	/* By shape node. */
	struct sums sum;
	uint32_t *sum_at; /* number of its own sum + 1 */
	double *width;	  /* total, to order them */
	uint8_t *shown;	  /* has blocks, itself or in its callees */
	struct calls_share {
		double bytes, blocks; /* what pairs of samples in different callees share */
	} * share;
};

struct shape_call {
	uint32_t parent, name; /* name NONE: the root, or: */
	uint32_t smaller;      /* number of nodes that it stands for; 0: deeper callers */
	uint32_t rest;	       /* the child that stands for smaller ones, or NONE */
	uint32_t depth;
};

struct calls_shape {
	struct shape_call *node;
	size_t nodes, room;
	uint32_t *of; /* raw node -> the shape node that has its own blocks */
};

/* ---- calls_grow.c ---- */

/* Sums what the query asks for, by node of the trace. */
bool calls_sum(struct calls_side *side, const struct mayfly_trace *trace,
	       const struct mayfly_query *query, bool by_line);
bool raw_calls_begin(struct raw_calls *raw, struct query_state *s);
/* Adds the side's stacks to the tree. */
bool calls_grow(struct raw_calls *raw, struct calls_side *side, bool fold);
/* Fills weight, total and filled. */
bool calls_weigh(const struct raw_calls *raw, struct calls_side *side, bool blocks);
void raw_calls_free(struct raw_calls *raw);
/* The number of the function of a group. NONE: out of memory. */
uint32_t calls_name(struct calls_side *side, uint32_t group);

/* ---- calls_shape.c ---- */

/* Errors are those of the first side. */
bool calls_make_shape(struct calls_shape *shape, const struct raw_calls *raw,
		      struct calls_side *side, size_t sides, const struct calls_options *options);
void calls_shape_free(struct calls_shape *shape);

/* ---- calls_sums.c ---- */

/* Fills what the side has by shape node. */
bool calls_collect(struct calls_side *side, const struct raw_calls *raw,
		   const struct calls_shape *shape);
/* The numbers of the shape's nodes in the order of the answer; query_scratch() of the first side. */
uint32_t *calls_order(const struct calls_shape *shape, struct calls_side *side, size_t sides);

/* Fills the figures of all nodes, also those without blocks; order: of the nodes. */
struct calls_figures {
	struct mayfly_estimate *self, *total; /* by place in the order; or NULL */
	struct tally_brief *brief_self, *brief_total;
};
bool calls_figures(struct calls_side *side, const struct calls_shape *shape, const uint32_t *order,
		   const struct calls_figures *to);

#endif
