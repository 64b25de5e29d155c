/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held_types.c: holders by types, in one pass: the slots of the question by type are divided by the
 * slots of one by holder, as heat.c divides those of two kinds of classes.
 */
#include "query/held_types.h"

#include <stdlib.h>

#include "query/query.h"

struct held_run {
	struct query_state s;
	struct held_types *a;
	size_t slots_each; /* of a holder */
};

/* All holders that are not asked for share the last site. */
static bool choose_holders(struct held_run *r, const struct mayfly_picture *p,
			   const uint32_t *holder, size_t holders)
{
	struct query_state *s = &r->s;
	uint32_t *site = query_scratch(s, p->holders + 1, sizeof(*site));

	if (s->error)
		return false;
	for (size_t i = 0; i <= p->holders; i++)
		site[i] = (uint32_t)holders;
	for (size_t i = 0; i < holders; i++) {
		if (holder[i] >= p->holders)
			return query_fail(s, MAYFLY_E_RANGE);
		site[holder[i]] = (uint32_t)i;
	}
	s->site_of = site;
	s->site_by = MAYFLY_BY_HOLDER;
	s->sites = holders + 1;
	return true;
}

static size_t count_types(const struct held_run *r, size_t site)
{
	size_t count = 0;

	for (size_t i = 0; i < r->slots_each; i++)
		count += query_summed(&r->s, (uint32_t)(site * r->slots_each + i)) != NONE;
	return count;
}

static struct held_type describe(const struct held_run *r, uint32_t type)
{
	size_t known = query_type_slots(&r->s);
	struct group class;

	if (type < known)
		return (struct held_type){.name = r->s.picture->type[type]};
	class = query_class_group(MAYFLY_BY_SIZE, type - (uint32_t)known);
	return (struct held_type){.name = "", .low = class.low, .high = class.high};
}

static int by_size(const void *a, const void *b)
{
	const struct held_type *x = a, *y = b;
	double left = x->sum.bytes.estimate, right = y->sum.bytes.estimate;

	return left != right ? (left < right) - (left > right)
			     : (x->low > y->low) - (x->low < y->low);
}

static void list_types(struct held_run *r, size_t site, struct held_list *list)
{
	struct query_state *s = &r->s;
	size_t count = count_types(r, site);
	struct held_type *type = answer_array(s, r->a, count, sizeof(*type));

	if (s->error)
		return;
	list->type = type;
	for (size_t i = 0; i < r->slots_each; i++) {
		uint32_t at = query_summed(s, (uint32_t)(site * r->slots_each + i));
		struct tally sum;

		if (at == NONE)
			continue;
		sum = query_tally(s, &s->sum, at);
		type[list->types] = describe(r, (uint32_t)i);
		type[list->types++].sum = tally_estimate(&sum, query_unseen(s, 0, SPREAD_SELF));
	}
	qsort(type, count, sizeof(*type), by_size);
}

static void list_holders(struct held_run *r, size_t holders)
{
	struct held_list *list = answer_array(&r->s, r->a, holders, sizeof(*list));

	r->a->holders = holders;
	r->a->of = list;
	r->slots_each = r->s.slots / r->s.sites;
	for (size_t i = 0; i < holders && !r->s.error; i++)
		list_types(r, i, &list[i]);
}

int held_types_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		   const uint32_t *holder, size_t holders, struct held_types **types)
{
	const struct mayfly_picture *p = mayfly_trace_picture(trace);
	struct mayfly_query by_type = *query;
	struct held_run r = {0};

	by_type.metric = MAYFLY_IN_PICTURE;
	by_type.by = MAYFLY_BY_TYPE;
	by_type.sort = MAYFLY_SORT_SELF;
	r.a = answer_new(&r.s, sizeof(*r.a));
	if (r.a && !p)
		query_fail(&r.s, MAYFLY_E_ABSENT);
	else if (r.a && choose_holders(&r, p, holder, holders) &&
		 query_begin(&r.s, trace, &by_type))
		list_holders(&r, holders);
	return answer_finish(&r.s, r.a, types);
}

void held_types_free(struct held_types *types)
{
	answer_free(types);
}
