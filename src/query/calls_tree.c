/* SPDX-License-Identifier: Apache-2.0 */
/* calls_tree.c: the call tree as an answer: see calls_tree.h. */
#include "query/calls_parts.h"

#include <stdlib.h>
#include <string.h>

/* A call tree on its way from one trace, or from two. */
struct making {
	struct calls_side side[CALLS_SIDES];
	size_t sides;
	struct calls_names names; /* of two traces */
	struct raw_calls raw;
	struct calls_shape shape;
	uint32_t *order;
	struct calls_figures figures[CALLS_SIDES];
};

static void making_end(struct making *m)
{
	for (size_t i = 0; i < m->sides; i++) {
		query_sums_free(&m->side[i].sum);
		free(m->side[i].name_of);
		query_end(&m->side[i].s);
	}
	interner_free(&m->names.text);
	free(m->names.name);
	raw_calls_free(&m->raw);
	calls_shape_free(&m->shape);
}

static bool make_figures(struct calls_side *side, const struct calls_shape *shape,
			 const uint32_t *order, struct calls_figures *f, bool estimates)
{
	struct query_state *s = &side->s;

	f->brief_self = query_scratch(s, shape->nodes, sizeof(*f->brief_self));
	f->brief_total = query_scratch(s, shape->nodes, sizeof(*f->brief_total));
	if (estimates) {
		f->self = query_scratch(s, shape->nodes, sizeof(*f->self));
		f->total = query_scratch(s, shape->nodes, sizeof(*f->total));
	}
	return !s->error && calls_figures(side, shape, order, f);
}

/* Takes all steps; trace, query: of each side. */
static bool make(struct making *m, const struct mayfly_trace *const trace[CALLS_SIDES],
		 const struct mayfly_query *query, const struct calls_options *o, bool estimates)
{
	bool done = raw_calls_begin(&m->raw, &m->side[0].s);

	for (uint32_t i = 0; done && i < m->sides; i++) {
		m->side[i].number = i;
		m->side[i].shared = m->sides > 1 ? &m->names : NULL;
		done = calls_sum(&m->side[i], trace[i], query, o->by_line) &&
		       calls_grow(&m->raw, &m->side[i], o->fold);
	}
	for (size_t i = 0; done && i < m->sides; i++)
		done = calls_weigh(&m->raw, &m->side[i], o->blocks);
	done = done && calls_make_shape(&m->shape, &m->raw, m->side, m->sides, o);
	for (size_t i = 0; done && i < m->sides; i++)
		done = calls_collect(&m->side[i], &m->raw, &m->shape);
	m->order = done ? calls_order(&m->shape, m->side, m->sides) : NULL;
	done = m->order != NULL;
	for (size_t i = 0; done && i < m->sides; i++)
		done = make_figures(&m->side[i], &m->shape, m->order, &m->figures[i], estimates);
	return done;
}

static int making_error(const struct making *m)
{
	for (size_t i = 0; i < m->sides; i++)
		if (m->side[i].s.error)
			return m->side[i].s.error;
	return 0;
}

/* ---- the answer ---- */

/* Whether a node has blocks; all that it calls has none if it has none. */
static bool making_shows(const struct making *m, uint32_t node)
{
	for (size_t i = 0; i < m->sides; i++)
		if (m->side[i].shown[node])
			return true;
	return node == 0;
}

static uint32_t few_samples(uint64_t samples)
{
	return samples < UINT32_MAX ? (uint32_t)samples : UINT32_MAX;
}

/* The figures of the last side: what the picture shows. */
static void put_node(const struct making *m, struct calls_node *node, size_t at, bool blocks)
{
	const struct calls_figures *f = &m->figures[m->sides - 1];
	const struct shape_call *shape = &m->shape.node[m->order[at]];
	const struct tally_brief *self = &f->brief_self[at], *total = &f->brief_total[at];

	*node = (struct calls_node){
	    .depth = shape->depth,
	    .place = shape->name,
	    .smaller = shape->smaller,
	    .samples = few_samples(total->samples),
	    .self_samples = few_samples(self->samples),
	    .self = blocks ? self->blocks : self->bytes,
	    .total = blocks ? total->blocks : total->bytes,
	    .self_stderror = (float)(blocks ? self->blocks_stderror : self->bytes_stderror),
	    .total_stderror = (float)(blocks ? total->blocks_stderror : total->bytes_stderror),
	};
}

/* Fills parent, end and left; in preorder, with depths. */
static bool link_nodes(struct query_state *s, struct calls *c)
{
	size_t deepest = 0;
	uint32_t *way;
	double *next;

	for (size_t i = 0; i < c->nodes; i++)
		if (deepest < c->node[i].depth)
			deepest = c->node[i].depth;
	way = query_scratch(s, deepest + 1, sizeof(*way));
	next = query_scratch(s, deepest + 2, sizeof(*next));
	if (!way || !next)
		return false;
	for (uint32_t i = 0; i < c->nodes; i++) {
		struct calls_node *n = &c->node[i];

		n->parent = n->depth ? way[n->depth - 1] : CALLS_NONE;
		n->end = i + 1;
		n->left = next[n->depth];
		next[n->depth] += n->total;
		next[n->depth + 1] = n->left;
		way[n->depth] = i;
	}
	for (size_t i = c->nodes; i-- > 1;) {
		struct calls_node *parent = &c->node[c->node[i].parent];

		if (parent->end < c->node[i].end)
			parent->end = c->node[i].end;
	}
	return true;
}

static bool put_places(struct making *m, struct calls *c)
{
	struct query_state *s = &m->side[0].s;
	struct mayfly_place *place;

	c->places = m->sides > 1 ? m->names.text.count : s->group_key.count;
	place = c->place = answer_array(s, c, c->places, sizeof(*place));
	for (size_t i = 0; place && i < c->places; i++) {
		const struct calls_name one = {0, (uint32_t)i};
		const struct calls_name *name = m->sides > 1 ? &m->names.name[i] : &one;
		const struct query_state *from = &m->side[name->side].s;

		place[i] = query_place(from, &from->group[name->group]);
	}
	return place != NULL;
}

static void put_estimates(const struct making *m, struct calls *c, size_t at)
{
	const struct calls_figures *f = &m->figures[m->sides - 1];

	if (!c->self || !c->total_of)
		return;
	c->self[c->nodes] = f->self[at];
	c->total_of[c->nodes] = f->total[at];
}

/* kept: place in the answer -> in the order of the shape; NULL: not wanted. */
static struct calls *put_calls(struct making *m, const struct calls_options *o, uint32_t *kept)
{
	struct calls_side *side = &m->side[m->sides - 1];
	struct query_state *s = &m->side[0].s;
	struct calls *c = answer_new(s, sizeof(*c));
	struct tally all = query_tally(&side->s, &side->s.all, 0);

	if (!c)
		return NULL;
	c->node = answer_array(s, c, m->shape.nodes, sizeof(*c->node));
	if (o->estimates) {
		c->self = answer_array(s, c, m->shape.nodes, sizeof(*c->self));
		c->total_of = answer_array(s, c, m->shape.nodes, sizeof(*c->total_of));
	}
	for (size_t i = 0; !s->error && i < m->shape.nodes; i++) {
		if (!making_shows(m, m->order[i]))
			continue;
		put_node(m, &c->node[c->nodes], i, o->blocks);
		put_estimates(m, c, i);
		if (kept)
			kept[c->nodes] = (uint32_t)i;
		c->nodes++;
	}
	c->all = tally_estimate(&all, query_unseen(&side->s, 0, SPREAD_ALL));
	c->time_ns = query_answer_time(&side->s);
	if (s->error || !link_nodes(s, c) || !put_places(m, c)) {
		answer_free(c);
		return NULL;
	}
	return c;
}

int calls_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
	      const struct calls_options *options, struct calls **calls)
{
	const struct mayfly_trace *const traces[CALLS_SIDES] = {trace};
	struct making m = {.sides = 1};
	int error;

	*calls = make(&m, traces, query, options, options->estimates) ? put_calls(&m, options, NULL)
								      : NULL;
	error = making_error(&m);
	making_end(&m);
	return error;
}

void calls_free(struct calls *calls)
{
	answer_free(calls);
}

/* ---- two traces ---- */

/* kept: node of the answer -> place in the order of the shape. */
static bool compare_nodes(struct making *m, struct calls_diff *d, const uint32_t *kept,
			  struct diff_per per, bool blocks)
{
	const struct calls_figures *f = m->figures;

	for (size_t i = 0; i < d->after->nodes; i++) {
		const struct mayfly_estimate *x = &f[0].total[kept[i]], *y = &f[1].total[kept[i]];

		d->before[i] = blocks ? x->blocks.estimate : x->bytes.estimate;
		d->change[i] = diff_compare(blocks ? &x->blocks : &x->bytes, x->samples,
					    blocks ? &y->blocks : &y->bytes, y->samples, per);
	}
	return diff_adjust(d->change, sizeof(*d->change), d->after->nodes) ||
	       query_fail(&m->side[0].s, MAYFLY_E_MEMORY);
}

static struct calls_diff *put_diff(struct making *m, const struct mayfly_trace *const trace[],
				   const struct calls_options *o)
{
	struct query_state *s = &m->side[0].s;
	const struct diff_per per = {1, 1, diff_caution(trace[0], trace[1])};
	struct calls_diff *d = answer_new(s, sizeof(*d));
	uint32_t *kept = query_scratch(s, m->shape.nodes, sizeof(*kept));

	if (!d)
		return NULL;
	d->after = kept ? put_calls(m, o, kept) : NULL;
	if (d->after) {
		d->before = answer_array(s, d, d->after->nodes, sizeof(*d->before));
		d->change = answer_array(s, d, d->after->nodes, sizeof(*d->change));
		answer_adopt(d, d->after);
	}
	if (s->error || !compare_nodes(m, d, kept, per, o->blocks)) {
		answer_free(d);
		return NULL;
	}
	d->before_all = m->figures[0].total[0];
	for (size_t i = 0; diff_is_blind(trace[0], trace[1]) && i < d->after->nodes; i++)
		diff_forget_verdict(&d->change[i]);
	return d;
}

int calls_diff_run(const struct mayfly_trace *before, const struct mayfly_trace *after,
		   const struct mayfly_query *query, const struct calls_options *options,
		   struct calls_diff **diff)
{
	const struct mayfly_trace *const traces[CALLS_SIDES] = {before, after};
	struct calls_options o = *options;
	struct making m = {.sides = CALLS_SIDES};
	int error;

	o.by_line = o.estimates = false;
	*diff = make(&m, traces, query, &o, true) ? put_diff(&m, traces, &o) : NULL;
	error = making_error(&m);
	making_end(&m);
	return error;
}

void calls_diff_free(struct calls_diff *diff)
{
	answer_free(diff);
}
