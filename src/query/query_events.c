/* SPDX-License-Identifier: Apache-2.0 */
/* query_events.c: a pass over the events of a trace. */
#include "query/query.h"

static bool take_events(const struct event_pass *p, const struct cursor_batch *b)
{
	size_t alloc = 0, freed = 0;
	bool more = true;

	for (size_t i = 0; more && i < b->e.events; i++) {
		if (b->e.is_free[i])
			more = !p->freed || p->freed(p->context, b, i, freed++);
		else
			more = !p->alloc || p->alloc(p->context, b, i, alloc++);
	}
	return more;
}

static bool take_batch(const struct event_pass *p, const struct cursor_batch *b)
{
	return (!p->before || p->before(p->context, b)) &&
	       ((!p->alloc && !p->freed) || take_events(p, b)) &&
	       (!p->after || p->after(p->context, b));
}

bool query_pass(struct query_state *s, const struct event_pass *p)
{
	struct mayfly_cursor *cursor;
	struct cursor_batch batch;
	int more = mayfly_cursor_open(s->trace, &cursor);

	if (more)
		return query_fail(s, more);
	if (p->first_chunk)
		more = cursor_start_at(cursor, p->first_chunk);
	while (more >= 0 && (more = cursor_next_batch(cursor, &batch)) == 1)
		if (!take_batch(p, &batch))
			break;
	if (more >= 0 && !s->error && p->live)
		cursor_live(cursor, p->live, p->context);
	mayfly_cursor_close(cursor);
	return more >= 0 ? !s->error : query_fail(s, more);
}
