/* SPDX-License-Identifier: Apache-2.0 */
/* query_state.c: the state shared by all steps of an answer: the first error, memory, sums. */
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* A block of memory that is freed with others; the first block of an answer is the answer. */
struct owned {
	struct owned *next;
	max_align_t item[];
};

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

/* ---- memory that is freed together ---- */

/* Links a new block into the list at `after`. */
static void *owned_new(struct query_state *s, struct owned **after, size_t count, size_t bytes)
{
	struct owned *o = NULL;
	size_t size;

	if (!__builtin_mul_overflow(count, bytes, &size) &&
	    !__builtin_add_overflow(size, sizeof(*o), &size))
		o = calloc(1, size);
	if (!o) {
		query_fail(s, MAYFLY_E_MEMORY);
		return NULL;
	}
	o->next = *after;
	*after = o;
	return o->item;
}

static void owned_free(struct owned *o)
{
	while (o) {
		struct owned *next = o->next;

		free(o);
		o = next;
	}
}

static struct owned *owned_of(void *item)
{
	return (struct owned *)((char *)item - offsetof(struct owned, item));
}

void *query_scratch(struct query_state *s, size_t count, size_t bytes)
{
	return owned_new(s, &s->scratch, count, bytes);
}

void *answer_new(struct query_state *s, size_t bytes)
{
	struct owned *none = NULL;

	return owned_new(s, &none, 1, bytes);
}

void *answer_array(struct query_state *s, void *answer, size_t count, size_t bytes)
{
	return owned_new(s, &owned_of(answer)->next, count, bytes);
}

void answer_adopt(void *answer, void *other)
{
	struct owned *last = owned_of(answer);

	while (last->next)
		last = last->next;
	last->next = owned_of(other);
}

void answer_free(void *answer)
{
	if (answer)
		owned_free(owned_of(answer));
}

void query_scratch_free(struct query_state *s)
{
	owned_free(s->scratch);
}

/* ---- growing arrays, sums ---- */

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
