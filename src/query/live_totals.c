/* SPDX-License-Identifier: Apache-2.0 */
/* live_totals.c: the totals of what is live at several moments, by one pass over the events of an exact trace. */
#include "query/query.h"
#include "query/query_two.h"

#include "base/search.h"

struct live_totals {
	struct query_state *s;
	const int64_t *at_ns;
	size_t moments;
	struct plain *live; /* of each moment, so far */
	bool plain;	    /* every block that is not twice in the trace counts */
};

static bool keeps(const struct live_totals *t, const struct cursor_block *b)
{
	return query_in_window(t->s->query, b->time_ns) && query_keeps(t->s, b);
}

static inline bool alloc_counts(const struct live_totals *t, const struct cursor_batch *b,
				size_t alloc)
{
	struct cursor_block block;

	if (t->plain)
		return trace_counts(t->s->trace, MAYFLY_FLAG_HEAP(b->e.alloc_flags[alloc]),
				    b->e.node[alloc]);
	block = query_block(b, alloc);
	return keeps(t, &block);
}

static inline bool freed_counts(const struct live_totals *t, const struct cursor_block *block)
{
	return t->plain ? trace_counts(t->s->trace, MAYFLY_FLAG_HEAP(block->flags), block->node)
			: keeps(t, block);
}

/* Counts the first `events` events of the batch. */
static void count_events(const struct live_totals *t, const struct cursor_batch *b, size_t events,
			 struct plain *live)
{
	size_t allocs = 0, frees;

	for (size_t i = 0; i < events; i++)
		allocs += !b->e.is_free[i];
	frees = events - allocs;
	for (size_t i = 0; i < allocs; i++) {
		bool counts = alloc_counts(t, b, i);

		live->blocks += counts;
		live->bytes += counts ? b->e.size[i] : 0;
	}
	for (size_t i = 0; i < frees; i++) {
		bool counts = freed_counts(t, &b->freed[i]);

		live->blocks -= counts;
		live->bytes -= counts ? b->freed[i].size : 0;
	}
}

/* False: all moments have passed. */
static bool totals_take_batch(void *context, const struct cursor_batch *b)
{
	struct live_totals *t = context;
	bool more = false;

	for (size_t k = 0; k < t->moments; k++) {
		if (b->chunk->from_ns > t->at_ns[k])
			continue;
		count_events(t, b, FIRST_THAT(i, 0, b->e.events, b->e.time_ns[i] > t->at_ns[k]),
			     &t->live[k]);
		more |= b->chunk->to_ns <= t->at_ns[k];
	}
	return more;
}

static bool pass_totals(struct query_state *s, const int64_t *at_ns, size_t moments,
			struct plain *live)
{
	struct live_totals t = {s, at_ns, moments, live, query_has_no_filter(s)};
	const struct event_pass pass = {.context = &t, .before = totals_take_batch};

	return live && query_pass(s, &pass);
}

static int ask_each(const struct mayfly_trace *trace, const struct mayfly_query *query,
		    const int64_t *at_ns, size_t moments, struct mayfly_estimate *total)
{
	struct mayfly_query q = *query;
	int64_t time_ns;
	int error = 0;

	for (size_t k = 0; k < moments && !error; k++) {
		q.at_ns = at_ns[k];
		error = query_total(trace, &q, &total[k], &time_ns);
	}
	return error;
}

int query_live_totals(const struct mayfly_trace *trace, const struct mayfly_query *query,
		      const int64_t *at_ns, size_t moments, struct mayfly_estimate *total)
{
	struct query_state s = {0};
	struct plain *live;

	if (!query_choose(&s, trace, query) || !query_sums_reserve(&s, &s.all, 1) || !s.exact ||
	    s.info->snapshot_ns || query_asks_fate(&s)) {
		query_end(&s);
		return s.error ? s.error : ask_each(trace, query, at_ns, moments, total);
	}
	live = query_scratch(&s, moments, sizeof(*live));
	if (pass_totals(&s, at_ns, moments, live))
		for (size_t k = 0; k < moments; k++) {
			struct tally all;

			s.all.plain[0] = live[k];
			all = query_tally(&s, &s.all, 0);
			total[k] = tally_estimate(&all, query_unseen(&s, 0, SPREAD_ALL));
		}
	query_end(&s);
	return s.error;
}
