/* SPDX-License-Identifier: Apache-2.0 */
/* query_state.c: the state shared by all steps of an answer: the first error, memory, sums. */
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

bool query_fail(struct query_state *s, int error)
{
	if (!s->error)
		s->error = error;
	return false;
}

void *query_zeroed(struct query_state *s, size_t count, size_t bytes)
{
	void *p = calloc(count ? count : 1, bytes);

	if (!p)
		query_fail(s, MAYFLY_E_MEMORY);
	return p;
}

bool query_grow(struct query_state *s, uint64_t *budget, void *array, size_t *room, size_t used,
		size_t item)
{
	size_t before = *room;
	void *grown;

	if (used < *room)
		return true;
	if (!array_reserve(array, room, used, item))
		return query_fail(s, MAYFLY_E_MEMORY);
	memcpy(&grown, array, sizeof(grown));
	memset((char *)grown + before * item, 0, (*room - before) * item);
	if ((*room - before) > *budget / item)
		return query_fail(s, MAYFLY_E_TOO_LARGE);
	*budget -= (*room - before) * item;
	return true;
}

bool query_sums_reserve(struct query_state *s, struct sums *sums, size_t count)
{
	bool done;

	if (count <= sums->room)
		return true;
	done = s->exact ? array_reserve(&sums->plain, &sums->room, count - 1, sizeof(*sums->plain))
			: array_reserve(&sums->tally, &sums->room, count - 1, sizeof(*sums->tally));
	return done || query_fail(s, MAYFLY_E_MEMORY);
}

void query_sums_free(struct sums *sums)
{
	free(sums->plain);
	free(sums->tally);
	*sums = (struct sums){0};
}

struct tally query_tally(const struct query_state *s, const struct sums *sums, size_t i)
{
	const struct plain *p;

	if (!s->exact)
		return sums->tally[i];
	p = &sums->plain[i];
	return (struct tally){
	    .exact_count = p->blocks,
	    .exact_blocks = (double)p->blocks,
	    .exact_bytes = (int64_t)p->bytes < 0 ? 0 : (double)p->bytes,
	};
}
