/* SPDX-License-Identifier: Apache-2.0 */
/* The stream's side of spool_resume.h: its steps, and taking one up again. */
#include "spool/spool_resume.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "spool/spool_internal.h"

/* ---- a step ---- */

static void put_places(struct spool_stream *s, bool whole, struct bytes *to)
{
	size_t changed = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < s->writers; i++) {
			struct stream_writer *w = s->writer[i];
			const uint8_t *body =
			    w->first ? (const uint8_t *)(w->first->packet + 1) : NULL;
			uint32_t bytes = body && w->begun ? (uint32_t)(w->at - body) : 0;

			if (!body || (!whole && w->told_sequence == w->first->sequence &&
				      w->told_bytes == bytes))
				continue;
			changed += !pass;
			if (!pass)
				continue;
			bytes_put_u(to, w->number);
			bytes_put_u(to, w->first->sequence);
			bytes_put_u(to, bytes);
			w->told_sequence = w->first->sequence;
			w->told_bytes = bytes;
		}
		if (!pass)
			bytes_put_u(to, changed);
	}
}

static int compare_keys(const void *a, const void *b)
{
	const struct resume_key *x = a, *y = b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

static void put_all_keys(struct spool_stream *s,
			 uint64_t (*renumber)(void *context, uint64_t serial), void *context,
			 struct bytes *to)
{
	struct resume_key *key = malloc((s->live.used + 1) * sizeof(*key));
	struct stream_key_out o = {.to = to};
	size_t keys = 0;

	if (!key) {
		to->failed = true;
		return;
	}
	for (size_t i = 0; i < s->live.high; i++) {
		const struct live_block *b = &s->live.block[i];
		uint64_t serial = b->serial;

		if (b->key && serial != LIVE_THINNED && renumber)
			serial = renumber(context, serial) & LIVE_THINNED;
		if (b->key && serial != LIVE_THINNED)
			key[keys++] = (struct resume_key){serial, b->key};
	}
	qsort(key, keys, sizeof(*key), compare_keys);
	bytes_put_u(to, keys);
	for (size_t i = 0; i < keys; i++)
		stream_put_key(&o, key[i].serial, key[i].key);
	s->marks.told_serial = o.serial;
	free(key);
}

/* Those of the blocks that are newer than the step before. */
static void put_new_keys(struct spool_stream *s, struct bytes *to)
{
	struct stream_marks *m = &s->marks;
	struct stream_key_out o = {.to = to, .serial = m->told_serial};
	size_t keys = 0;

	for (size_t i = 0; i < m->keys; i++)
		keys += m->key[i] != 0;
	bytes_put_u(to, keys);
	for (size_t i = 0; i < m->keys; i++)
		if (m->key[i])
			stream_put_key(&o, m->first_serial + i, m->key[i]);
	m->told_serial = o.serial;
}

void spool_resume_step(struct spool_stream *s, bool whole, uint64_t part_bytes, uint32_t tail,
		       uint64_t (*renumber)(void *context, uint64_t serial), void *context,
		       struct bytes *to)
{
	struct stream_marks *m = &s->marks;
	struct bytes step = {0};

	assert(!s->waiting_count);
	bytes_put_fixed(&step, part_bytes, 8);
	bytes_put_fixed(&step, tail, 4);
	bytes_put_fixed(&step, whole, 1);
#define PUT(name) bytes_put_u(&step, s->name);
	SPOOL_COUNTS(PUT)
#undef PUT
	bytes_put_s(&step, s->now_ns);
	put_places(s, whole, &step);
	if (whole)
		put_all_keys(s, renumber, context, &step);
	else
		put_new_keys(s, &step);
	bytes_put_u(&step, renumber ? 0 : m->forks);
	if (!renumber && m->forks)
		bytes_put(&step, m->forks_told.at, m->forks_told.used);
	to->failed |= step.failed | m->forks_told.failed;
	if (!to->failed) {
		bytes_put_fixed(to, step.used, 4);
		bytes_put_fixed(to, trace_checksum(0, step.at, step.used), 4);
		bytes_put(to, step.at, step.used);
	}
	bytes_free(&step);
	m->forks = 0;
	m->forks_told.used = 0;
	m->first_serial += m->keys;
	m->keys = 0;
}

/* ---- going on ---- */

static const struct resume_place *place_of(const struct spool_stream *s, uint32_t writer)
{
	const struct spool_resume *r = s->options.resume;

	return r ? spool_resume_place(r, r->places, writer) : NULL;
}

bool stream_has_taken(const struct spool_stream *s, uint32_t writer, uint64_t sequence)
{
	const struct resume_place *p = place_of(s, writer);

	return p && sequence < p->sequence;
}

uint32_t stream_taken_bytes(const struct spool_stream *s, const struct stream_writer *w)
{
	const struct resume_place *p = place_of(s, w->number);

	return p && w->first->sequence == p->sequence ? p->bytes : 0;
}

void stream_resume_spans(struct spool_stream *s, struct stream_writer *w)
{
	const struct spool_resume *r = s->options.resume;

	if (w->resumed || !r)
		return;
	w->resumed = true;
	for (size_t i = 0; i < r->spans; i++)
		if (s->tables->thread[r->span[i].thread].tid == w->tid)
			stream_open_begin(s, w, r->span[i].type, true);
}

static int resume_threads(struct spool_stream *s, const struct spool_resume *r)
{
	for (uint32_t i = 0; i < s->tables->threads && !s->error; i++)
		stream_know_thread(s, i);
	for (size_t i = 0; i < r->keys; i++) {
		const struct resume_block *b = spool_resume_block(r, r->key[i].serial);

		if (b && b->block.thread < s->last_keys &&
		    r->last_serial[b->block.thread] == b->serial + 1)
			s->last_key[b->block.thread] = r->key[i].key;
	}
	return s->error;
}

static void fill_live(const struct spool_stream *s, struct live_block *to, uint64_t serial,
		      const struct trace_block *from)
{
	to->serial = serial & LIVE_THINNED;
	to->flags = from->flags;
	to->size = from->size;
	to->node = from->node;
	to->thread = from->thread;
	to->labels = from->labels;
	to->ticks = 0;
	if (!s->exact) {
		to->sample.hits = from->hits;
		to->sample.interval_log2 = from->interval_log2;
	}
}

static int resume_live(struct spool_stream *s, const struct spool_resume *r)
{
	for (size_t i = 0; i < r->keys; i++) {
		const struct resume_block *from = spool_resume_block(r, r->key[i].serial);
		struct live_block *b;
		bool there;

		if (!from || !from->found)
			continue;
		b = live_put(&s->live, stream_key(r->key[i].key), &there);
		if (!b)
			return MAYFLY_E_MEMORY;
		fill_live(s, b, r->key[i].serial, &from->block);
		stream_count_live(s, b);
	}
	return 0;
}

static int resume_forks(struct spool_stream *s, const struct spool_resume *r)
{
	for (size_t i = 0; i < r->forks && s->options.keep_forks; i++) {
		const struct resume_fork *from = &r->fork[i];
		struct stream_fork *f;

		if (s->forks == STREAM_MOST_FORKS)
			stream_forget_fork(s, 0);
		f = &s->fork[s->forks];
		*f = (struct stream_fork){.ticks = from->ticks};
		f->block = calloc(from->keys + 1, sizeof(*f->block));
		if (!f->block)
			return MAYFLY_E_MEMORY;
		s->forks++;
		for (size_t k = 0; k < from->keys; k++) {
			const struct resume_block *b = spool_resume_block(r, from->key[k].serial);

			if (!b || !b->found)
				continue;
			f->block[f->blocks].key = stream_key(from->key[k].key);
			fill_live(s, &f->block[f->blocks++], b->serial, &b->block);
		}
		s->fork_blocks += f->blocks;
	}
	return 0;
}

int stream_resume(struct spool_stream *s)
{
	const struct spool_resume *r = s->options.resume;
	int error;

	if (!r)
		return 0;
#define TAKE(name) s->name = r->counts.name;
	SPOOL_COUNTS(TAKE)
#undef TAKE
	s->now_ns = r->now_ns;
	s->mapped_unknown = true;
	error = resume_threads(s, r);
	if (!error)
		error = resume_live(s, r);
	return error ? error : resume_forks(s, r);
}
