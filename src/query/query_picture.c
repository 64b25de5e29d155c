/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_picture.c: the blocks of the heap's picture, by holder and by type. Rows:
 *
 *	by holder	the picture's holders | what the heap did not have
 *	by type		the picture's types | classes of size, of blocks whose type is not known
 */
#include "query/query.h"

static bool name_matches(const struct mayfly_match *match, const char *name)
{
	return !match->matches || match->matches(match->context, name) != 0;
}

static bool holding_fits(enum mayfly_holding holding, enum mayfly_holder_kind kind)
{
	bool lost = kind == MAYFLY_HOLDER_LOST || kind == MAYFLY_HOLDER_LOST_BY;

	switch (holding) {
	case MAYFLY_LOST_OR_HELD:
		break;
	case MAYFLY_ONLY_LOST:
		return lost;
	case MAYFLY_ONLY_HELD:
		return !lost;
	}
	return true;
}

bool query_prepare_picture(struct query_state *s)
{
	const struct mayfly_query *q = s->query;
	const struct mayfly_picture *p = mayfly_trace_picture(s->trace);

	if (q->metric != MAYFLY_IN_PICTURE)
		return true;
	if (!p)
		return query_fail(s, MAYFLY_E_ABSENT);
	s->picture = p;
	s->holder_kept = query_zeroed(s, p->holders + 1, 1);
	s->type_kept = query_zeroed(s, p->types + 1, 1);
	if (s->error)
		return false;
	for (size_t i = 0; i < p->holders; i++)
		s->holder_kept[i] = name_matches(&q->holder, p->holder[i].name) &&
				    holding_fits(q->holding, p->holder[i].kind);
	s->holder_kept[p->holders] = !q->holder.matches && q->holding == MAYFLY_LOST_OR_HELD;
	for (size_t i = 0; i < p->types; i++)
		s->type_kept[i] = name_matches(&q->type, p->type[i]);
	s->type_kept[p->types] = !q->type.matches;
	return true;
}

static size_t holder_slot(const struct mayfly_picture *p, uint32_t holder)
{
	return holder < p->holders ? holder : p->holders;
}

bool query_pictured(struct query_state *s, uint64_t number)
{
	const struct mayfly_picture *p = s->picture;
	const struct mayfly_held *h;

	while (s->held < p->count && p->held[s->held].number < number)
		s->held++;
	if (s->held == p->count || p->held[s->held].number != number)
		return false;
	h = &p->held[s->held];
	return s->holder_kept[holder_slot(p, h->holder)] &&
	       s->type_kept[h->type < p->types ? h->type : p->types];
}

size_t query_holder_slots(const struct query_state *s)
{
	return s->picture ? s->picture->holders + 1 : 1;
}

size_t query_type_slots(const struct query_state *s)
{
	return s->picture ? s->picture->types : 0;
}

/* The block that counts now. */
static const struct mayfly_held *held_now(const struct query_state *s)
{
	return s->picture && s->held < s->picture->count ? &s->picture->held[s->held] : NULL;
}

uint32_t query_holder_slot(const struct query_state *s)
{
	const struct mayfly_held *h = held_now(s);

	return h ? (uint32_t)holder_slot(s->picture, h->holder) : 0;
}

uint32_t query_type_slot(const struct query_state *s)
{
	const struct mayfly_held *h = held_now(s);

	return h && h->type < s->picture->types ? h->type : NONE;
}

struct group query_picture_group(struct query_state *s, uint32_t slot)
{
	const struct mayfly_picture *p = s->picture;

	if (!p)
		return (struct group){0};
	if (s->query->by == MAYFLY_BY_HOLDER)
		return (struct group){
		    .low = slot,
		    .high = slot,
		    .function = query_text(s, slot < p->holders ? p->holder[slot].name : ""),
		    .file = query_text(s, slot < p->holders ? p->holder[slot].place : "")};
	return (struct group){.function = query_text(s, p->type[slot])};
}
