/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds the memory: the picture of the heap by holder, and what each holds by type.
 *
 *	holder		retained (all)	recorded (what the filters keep)	types of that
 *	g_sessions	8.91 GB		8.76 GB +-1 %				Session, ...
 *
 * What is retained is known of all blocks, so holders are in its order; recorded blocks may be samples.
 */
#include <stdlib.h>

#include "answer/json_parts.h"
#include "answer/picture_headline.h"
#include "query/held_types.h"
#include "view/answers.h"

#define MOST_CELLS (1u << 20) /* of holders by types */
#define MOST_TYPED 32u	      /* holders whose types are told */
#define TYPE_ROWS  12u	      /* of a holder */

struct ranked_holder {
	uint64_t bytes;
	uint32_t holder;
};

struct held_view {
	const struct mayfly_picture *picture;
	struct ranked_holder *rank; /* those that are shown, what retains most first */
	size_t holders;
	const struct mayfly_row **row; /* [picture->holders + 1] what was recorded; NULL: nothing */
	struct mayfly_result *recorded;
	struct held_types *types; /* of the first ones; NULL: of none */
};

static int by_bytes(const void *a, const void *b)
{
	const struct ranked_holder *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return (x->holder > y->holder) - (x->holder < y->holder);
}

static bool rank_holders(struct held_view *h, const struct mayfly_match *chosen)
{
	const struct mayfly_picture *p = h->picture;

	h->rank = calloc(p->holders + 1, sizeof(*h->rank));
	h->row = calloc(p->holders + 1, sizeof(*h->row));
	if (!h->rank || !h->row)
		return false;
	for (uint32_t i = 0; i < p->holders; i++)
		if (!chosen->matches || chosen->matches(chosen->context, p->holder[i].name))
			h->rank[h->holders++] = (struct ranked_holder){p->holder[i].bytes, i};
	qsort(h->rank, h->holders, sizeof(*h->rank), by_bytes);
	for (size_t i = 0; i < h->recorded->rows; i++)
		h->row[h->recorded->row[i].low] = &h->recorded->row[i];
	return true;
}

static int find_types(struct held_view *h, const struct request *r)
{
	size_t most = MOST_CELLS / (h->picture->types + 100);
	uint32_t holder[MOST_TYPED];
	size_t count = 0;

	if (most > MOST_TYPED)
		most = MOST_TYPED;
	for (; count < h->holders && count < most; count++)
		holder[count] = h->rank[count].holder;
	return count ? held_types_run(r->trace, &r->q.query, holder, count, &h->types) : 0;
}

static void put_types(struct json *j, const struct request *r, const struct held_list *list)
{
	json_unsigned(j, "types_count", list->types);
	JSON_ROWS(j, "types", i, i < list->types && i < TYPE_ROWS) {
		const struct held_type *t = &list->type[i];
		const struct mayfly_row key = {.function = t->name, .low = t->low, .high = t->high};

		json_row_key(j, r->trace, MAYFLY_BY_TYPE, &key);
		json_estimate(j, "self", &t->sum);
	}
}

static void put_holder(struct json *j, const struct request *r, const struct held_view *h, size_t i)
{
	uint32_t holder = h->rank[i].holder;
	const struct mayfly_row key = {.low = holder}, *row = h->row[holder];
	static const struct held_list none;

	json_object(j, NULL);
	json_row_key(j, r->trace, MAYFLY_BY_HOLDER, &key);
	json_bool(j, "lost", holder_is_lost(h->picture->holder[holder].kind));
	json_estimate(j, "self", row ? &row->self : &h->recorded->nothing);
	put_types(j, r, h->types && i < h->types->holders ? &h->types->of[i] : &none);
	json_end(j);
}

static void put_held(struct json *j, const struct request *r, const struct held_view *h)
{
	const struct mayfly_picture *p = h->picture;

	json_integer(j, "time_ns", p->time_ns);
	json_unsigned(j, "bytes", p->bytes);
	json_unsigned(j, "blocks", p->blocks);
	json_estimate(j, "total", &h->recorded->total);
	json_unsigned(j, "rows_count", h->holders);
	json_array(j, "rows");
	for (size_t i = r->skip; i < h->holders && (!r->top || i - r->skip < r->top); i++)
		put_holder(j, r, h, i);
	json_end(j);
	if (h->row[p->holders])
		json_estimate(j, "elsewhere", &h->row[p->holders]->self);
	else
		json_null(j, "elsewhere");
}

int view_held(struct request *r, struct json *j)
{
	struct held_view h = {.picture = mayfly_trace_picture(r->trace)};
	int error;

	r->q.query.metric = MAYFLY_IN_PICTURE;
	r->q.query.by = MAYFLY_BY_HOLDER;
	if (!h.picture)
		return MAYFLY_E_ABSENT;
	error = mayfly_query_run(r->trace, &r->q.query, &h.recorded);
	if (!error && !rank_holders(&h, &r->q.query.holder))
		error = MAYFLY_E_MEMORY;
	if (!error)
		error = find_types(&h, r);
	if (!error)
		put_held(j, r, &h);
	held_types_free(h.types);
	mayfly_result_free(h.recorded);
	free(h.rank);
	free(h.row);
	return error;
}
