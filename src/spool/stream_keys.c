/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of blocks for the next step of spool_resume.h, noted while blocks come and go. */
#include "spool/spool_internal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/array.h"

void stream_note_key(struct spool_stream *s, const struct live_block *b)
{
	struct stream_marks *m = &s->marks;

	assert(b->serial == m->first_serial + m->keys);
	if (!array_reserve(&m->key, &m->key_room, m->keys, sizeof(*m->key)))
		stream_fail(s, MAYFLY_E_MEMORY);
	else
		m->key[m->keys++] = b->key;
}

void stream_put_key(struct stream_key_out *o, uint64_t serial, uint64_t key)
{
	uint64_t turned = SPOOL_TURN(key);

	bytes_put_u(o->to, serial - o->serial);
	bytes_put_s(o->to, (int64_t)(turned - o->turned));
	o->serial = serial;
	o->turned = turned;
}

void stream_note_fork(struct spool_stream *s, const struct stream_fork *f)
{
	struct stream_key_out o = {.to = &s->marks.forks_told};
	size_t blocks = 0;

	for (size_t i = 0; i < f->blocks; i++)
		blocks += f->block[i].serial != LIVE_THINNED;
	bytes_put_u(o.to, f->ticks);
	bytes_put_u(o.to, blocks);
	for (size_t i = 0; i < f->blocks; i++)
		if (f->block[i].serial != LIVE_THINNED)
			stream_put_key(&o, f->block[i].serial, f->block[i].key);
	s->marks.forks++;
}

static int compare_names(const void *a, const void *b)
{
	const struct spool_name *x = a, *y = b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

bool spool_stream_names(const struct spool_stream *s, struct spool_name **name, size_t *count)
{
	struct spool_name *found = malloc((s->live.used + 1) * sizeof(*found));
	size_t blocks = 0;

	if (!found)
		return false;
	for (size_t i = 0; i < s->live.high; i++) {
		const struct live_block *b = &s->live.block[i];

		if (b->key && b->serial != LIVE_THINNED)
			found[blocks++] = (struct spool_name){
			    b->serial, s->exact ? b->key : stream_key_id(b->key)};
	}
	if (blocks)
		qsort(found, blocks, sizeof(*found), compare_names);
	*name = found;
	*count = blocks;
	return true;
}
