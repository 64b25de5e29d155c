/* SPDX-License-Identifier: Apache-2.0 */
/* Dominators: see heap_owners.h. */
#include "heap/heap_owners.h"

#include <stdlib.h>
#include <string.h>

/* ---- edges, by where they lead to ---- */

/* Calls for each edge that counts; source NULL: counts them into from[number + 1], else stores them. */
static void turn_edges(const struct heap_edges *e, const struct heap_reach *r, uint32_t *from,
		       uint32_t *source)
{
	for (uint32_t node = 0; node < e->nodes; node++) {
		uint32_t a = r->number[node];

		for (uint32_t i = e->from[node]; i < e->from[node + 1]; i++) {
			uint32_t b = r->number[e->to[i] & ~HEAP_INSIDE];

			if (r->parent[b] == a || !heap_reach_same_rank(r, a, b))
				continue;
			if (source)
				source[from[b]++] = a;
			else
				from[b + 1]++;
		}
	}
}

static bool turn(struct heap_edges *e, const struct heap_reach *r, struct heap_owners *o)
{
	o->count = r->count;
	o->from = calloc(o->count + 1, sizeof(*o->from));
	if (!o->from)
		return false;
	turn_edges(e, r, o->from, NULL);
	for (size_t i = 0; i < o->count; i++)
		o->from[i + 1] += o->from[i];
	o->source = malloc(((size_t)o->from[o->count] + 1) * sizeof(*o->source));
	if (!o->source)
		return false;
	turn_edges(e, r, o->from, o->source);
	/* Each has moved on to the begin of the next. */
	memmove(o->from + 1, o->from, o->count * sizeof(*o->from));
	o->from[0] = 0;
	free(e->to);
	free(e->from);
	e->to = e->from = NULL;
	return true;
}

/* ---- dominators ---- */

/*
 * semi	the semidominator; of a number that is not yet linked: itself
 * best	the number with the least semi on the way up to the root of its tree. Of a number that is
 *	not yet linked it is not needed, and heads the list of those whose semidominator it is
 * up	its parent in the forest of linked numbers, shortened by each look
 * dominator	of a number in such a list, the next one
 */
struct forest {
	uint32_t *semi, *best, *up, *dominator;
	uint32_t linked; /* from this number on */
};

/* Shortens the way from `number` to the root of its tree; without a stack, by turning its pointers. */
static uint32_t evaluate(struct forest *f, uint32_t number)
{
	uint32_t at = number, back = 0;

	if (number < f->linked)
		return number;
	/* Down again from the number below the root: turn the pointers on the way up ... */
	while (f->up[at] >= f->linked) {
		uint32_t above = f->up[at];

		f->up[at] = back;
		back = at;
		at = above;
	}
	/* ... and set them on the way down. `at` is just below the root. */
	while (back) {
		uint32_t below = back;

		back = f->up[below];
		if (f->semi[f->best[at]] < f->semi[f->best[below]])
			f->best[below] = f->best[at];
		f->up[below] = f->up[at];
		at = below;
	}
	return f->best[number];
}

static void take_list(struct forest *f, uint32_t of)
{
	uint32_t next;

	for (uint32_t v = f->best[of]; v; v = next) {
		uint32_t least = evaluate(f, v);

		next = f->dominator[v];
		f->dominator[v] = f->semi[least] < f->semi[v] ? least : of;
	}
	f->best[of] = 0;
}

static void dominate(const struct heap_owners *o, struct forest *f)
{
	for (uint32_t w = (uint32_t)o->count - 1; w > 0; w--) {
		uint32_t parent = f->up[w], semi = parent;

		for (uint32_t i = o->from[w]; i < o->from[w + 1]; i++) {
			uint32_t least = f->semi[evaluate(f, o->source[i])];

			semi = least < semi ? least : semi;
		}
		f->semi[w] = semi;
		f->dominator[w] = f->best[semi];
		f->best[semi] = w;
		f->best[w] = w;
		f->linked = w;
		take_list(f, parent);
	}
	for (uint32_t w = 1; w < o->count; w++)
		if (f->dominator[w] != f->semi[w])
			f->dominator[w] = f->dominator[f->dominator[w]];
}

bool heap_owners_find(struct heap_edges *e, const struct heap_reach *r, struct heap_owners *o,
		      struct heap_problem *problem)
{
	struct forest f = {.linked = UINT32_MAX};
	bool good;

	*o = (struct heap_owners){0};
	good = turn(e, r, o);
	if (good) {
		f.semi = malloc(o->count * sizeof(*f.semi));
		f.best = calloc(o->count, sizeof(*f.best));
		f.up = malloc(o->count * sizeof(*f.up));
		f.dominator = calloc(o->count, sizeof(*f.dominator));
		good = f.semi && f.best && f.up && f.dominator;
	}
	if (good) {
		memcpy(f.up, r->parent, o->count * sizeof(*f.up));
		for (uint32_t i = 0; i < o->count; i++)
			f.semi[i] = i;
		dominate(o, &f);
		o->dominator = f.dominator;
		f.dominator = NULL;
	}
	free(f.semi);
	free(f.best);
	free(f.up);
	free(f.dominator);
	return good || heap_fail(problem, HEAP_NO_MEMORY, 0);
}

void heap_owners_free(struct heap_owners *o)
{
	free(o->dominator);
	free(o->from);
	free(o->source);
	*o = (struct heap_owners){0};
}
