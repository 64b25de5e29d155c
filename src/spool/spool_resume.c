/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what a reader that was killed knew: see spool_resume.h. A step, after its size and its
 * checksum (4 bytes each), all numbers as varints unless said otherwise:
 *
 *	part_bytes	8 bytes
 *	tail		4 bytes
 *	whole		1 byte: what the steps before said is void
 *	counts		SPOOL_COUNTS, then the time in ns, signed
 *	places		count, then of each: writer, sequence, bytes
 *	keys		count, then of each: serial, key, both as differences to the one before
 *	forks		count, then of each: ticks, keys
 *
 * Keys are turned (SPOOL_TURN), as blocks are aligned.
 */
#include "spool/spool_resume.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "format/spool_format.h"
#include "base/varint.h"
#include "trace/read/cursor.h"

#define HEAD_BYTES 12u /* of the file */

void spool_resume_begin(struct bytes *to)
{
	bytes_put(to, RESUME_MAGIC, 8);
	bytes_put_fixed(to, RESUME_VERSION, 4);
}

static void free_forks(struct spool_resume *r)
{
	for (size_t i = 0; i < r->forks; i++)
		free(r->fork[i].key);
	r->forks = 0;
}

void spool_resume_free(struct spool_resume *r)
{
	free_forks(r);
	free(r->place);
	free(r->key);
	free(r->fork);
	free(r->block);
	free(r->last_serial);
	free(r->span);
	*r = (struct spool_resume){0};
}

/* ---- steps ---- */

/* Adds keys to those of the array, in the order of their serials. 0 or an error. */
static int read_keys(struct varint_in *in, struct resume_key **key, size_t *keys, size_t *room)
{
	uint64_t count = varint_u(in), serial = *keys ? (*key)[*keys - 1].serial : 0, turned = 0;

	for (uint64_t i = 0; i < count && !in->bad; i++) {
		uint64_t more = varint_u(in);

		if (__builtin_add_overflow(serial, more, &serial) || (*keys && !more))
			varint_fail(in);
		turned += (uint64_t)varint_s(in);
		if (in->bad)
			break;
		if (!array_reserve(key, room, *keys, sizeof(**key)))
			return MAYFLY_E_MEMORY;
		(*key)[(*keys)++] = (struct resume_key){serial, SPOOL_UNTURN(turned)};
	}
	return 0;
}

static int read_forks(struct spool_resume *r, struct varint_in *in)
{
	uint64_t count = varint_u(in);
	int error = 0;

	for (uint64_t i = 0; i < count && !in->bad && !error; i++) {
		struct resume_fork *f;
		size_t room = 0;

		if (!array_reserve(&r->fork, &r->fork_room, r->forks, sizeof(*r->fork)))
			return MAYFLY_E_MEMORY;
		f = &r->fork[r->forks++];
		*f = (struct resume_fork){.ticks = varint_u(in)};
		error = read_keys(in, &f->key, &f->keys, &room);
	}
	return error;
}

static int compare_places(const void *a, const void *b)
{
	const struct resume_place *x = a, *y = b;

	return (x->writer > y->writer) - (x->writer < y->writer);
}

struct resume_place *spool_resume_place(const struct spool_resume *r, size_t places,
					uint32_t writer)
{
	const struct resume_place wanted = {.writer = writer};

	return places ? bsearch(&wanted, r->place, places, sizeof(*r->place), compare_places)
		      : NULL;
}

static int read_places(struct spool_resume *r, struct varint_in *in)
{
	uint64_t count = varint_u(in);
	size_t before = r->places;

	for (uint64_t i = 0; i < count && !in->bad; i++) {
		struct resume_place p = {.writer = (uint32_t)varint_u(in)}, *known;

		p.sequence = varint_u(in);
		p.bytes = (uint32_t)varint_u(in);
		known = spool_resume_place(r, before, p.writer);
		if (in->bad)
			break;
		if (known) {
			*known = p;
			continue;
		}
		if (!ARRAY_ADD(r->place, r->place_room, r->places, p))
			return MAYFLY_E_MEMORY;
	}
	if (r->places > before)
		qsort(r->place, r->places, sizeof(*r->place), compare_places);
	return 0;
}

static int read_step(struct spool_resume *r, struct varint_in *in)
{
	int error;

	r->part_bytes = varint_fixed(in, 8);
	varint_fixed(in, 4);
	if (varint_byte(in)) {
		r->places = r->keys = 0;
		free_forks(r);
	}
#define READ(name) r->counts.name = varint_u(in);
	SPOOL_COUNTS(READ)
#undef READ
	r->now_ns = varint_s(in);
	error = read_places(r, in);
	if (!error)
		error = read_keys(in, &r->key, &r->keys, &r->key_room);
	return error ? error : read_forks(r, in);
}

/* The step belongs to what is there of the part. */
static bool is_there(const struct varint_in *step, const uint8_t *part, size_t part_size)
{
	struct varint_in in = *step;
	uint64_t bytes = varint_fixed(&in, 8), tail = varint_fixed(&in, 4);
	size_t length = bytes < RESUME_TAIL_BYTES ? (size_t)bytes : RESUME_TAIL_BYTES;

	return !in.bad && bytes <= part_size &&
	       trace_checksum(0, part + bytes - length, length) == tail;
}

/* The next step; false: there is none that is whole. */
static bool next_step(struct varint_in *in, struct varint_in *step)
{
	uint64_t size = varint_fixed(in, 4), sum = varint_fixed(in, 4);
	const uint8_t *bytes = varint_bytes(in, size);

	if (in->bad || !bytes || trace_checksum(0, bytes, (size_t)size) != sum)
		return false;
	*step = varint_begin(bytes, (size_t)size);
	return true;
}

int spool_resume_read(struct spool_resume *r, const void *keys, size_t size, const void *part,
		      size_t part_size)
{
	struct varint_in all = varint_begin(keys, size), in, step;
	const uint8_t *last = NULL;
	int error = MAYFLY_E_EMPTY;

	*r = (struct spool_resume){0};
	if (size < HEAD_BYTES || memcmp(keys, RESUME_MAGIC, 8) != 0)
		return MAYFLY_E_EMPTY;
	varint_bytes(&all, 8);
	if (varint_fixed(&all, 4) != RESUME_VERSION)
		return MAYFLY_E_EMPTY;
	in = all;
	while (next_step(&in, &step))
		if (is_there(&step, part, part_size))
			last = step.at;
	in = all;
	while (last && next_step(&in, &step)) {
		bool is_last = step.at == last;

		error = read_step(r, &step);
		if (!error && step.bad)
			error = MAYFLY_E_EMPTY;
		if (error || is_last)
			break;
	}
	if (error)
		spool_resume_free(r);
	return error;
}

/* ---- blocks ---- */

static int compare_blocks(const void *a, const void *b)
{
	const struct resume_block *x = a, *y = b;

	return (x->serial > y->serial) - (x->serial < y->serial);
}

static struct resume_block *find_block(const struct spool_resume *r, uint64_t serial)
{
	const struct resume_block wanted = {.serial = serial};

	return r->blocks ? bsearch(&wanted, r->block, r->blocks, sizeof(wanted), compare_blocks)
			 : NULL;
}

const struct resume_block *spool_resume_block(const struct spool_resume *r, uint64_t serial)
{
	return find_block(r, serial);
}

/* One for each key, whatever names it. */
static bool list_blocks(struct spool_resume *r)
{
	size_t count = r->keys, used = 0;

	for (size_t i = 0; i < r->forks; i++)
		count += r->fork[i].keys;
	r->block = calloc(count + 1, sizeof(*r->block));
	if (!r->block)
		return false;
	for (size_t i = 0; i < r->keys; i++)
		r->block[used++].serial = r->key[i].serial;
	for (size_t i = 0; i < r->forks; i++)
		for (size_t k = 0; k < r->fork[i].keys; k++)
			r->block[used++].serial = r->fork[i].key[k].serial;
	if (r->forks)
		qsort(r->block, used, sizeof(*r->block), compare_blocks);
	for (size_t i = 0; i < used; i++)
		if (!r->blocks || r->block[r->blocks - 1].serial != r->block[i].serial)
			r->block[r->blocks++] = r->block[i];
	return true;
}

/* What the blocks' allocations say, and which of them are freed. next: the first block whose serial
 * has not come yet. */
static void take_resume_batch(struct spool_resume *r, const struct cursor_batch *b, size_t *next,
			      uint8_t *freed)
{
	for (size_t i = 0; i < b->e.allocs; i++) {
		uint64_t serial = b->e.first_sample + i;
		struct resume_block *block = &r->block[*next];

		r->last_serial[b->e.thread[i]] = serial + 1;
		if (*next == r->blocks || block->serial != serial)
			continue;
		block->found = true;
		block->block = (struct trace_block){
		    .size = b->e.size[i],
		    .node = b->e.node[i],
		    .thread = b->e.thread[i],
		    .hits = b->e.hits[i],
		    .interval_log2 = b->e.interval_log2[i],
		    .flags = b->e.alloc_flags[i],
		    .labels = b->e.labels ? b->e.labels[i] : 0,
		};
		++*next;
	}
	for (size_t i = 0; i < b->e.events - b->e.allocs; i++) {
		const struct resume_block *block = find_block(r, b->e.freed[i]);

		if (block)
			freed[block - r->block] = 1;
	}
}

/* Leaves the keys of live blocks. */
static void drop_freed(struct spool_resume *r, const uint8_t *freed)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->keys; i++) {
		const struct resume_block *block = find_block(r, r->key[i].serial);

		if (block && block->found && !freed[block - r->block])
			r->key[kept++] = r->key[i];
	}
	r->keys = kept;
}

static int read_blocks(struct spool_resume *r, const struct mayfly_trace *part)
{
	uint8_t *freed = calloc(r->blocks + 1, 1);
	struct mayfly_cursor *cursor = NULL;
	struct cursor_batch batch;
	size_t next = 0;
	int more = freed ? mayfly_cursor_open(part, &cursor) : MAYFLY_E_MEMORY;

	while (!more && (more = cursor_next_batch(cursor, &batch)) == 1) {
		take_resume_batch(r, &batch, &next, freed);
		more = 0;
	}
	if (!more)
		drop_freed(r, freed);
	mayfly_cursor_close(cursor);
	free(freed);
	return more;
}

static void end_span(struct spool_resume *r, const struct mayfly_track_event *e)
{
	for (size_t i = r->spans; i-- > 0;) {
		if (r->span[i].type != e->type || r->span[i].thread != e->thread)
			continue;
		r->spans--;
		memmove(&r->span[i], &r->span[i + 1], (r->spans - i) * sizeof(*r->span));
		return;
	}
}

static int read_spans(struct spool_resume *r, const struct mayfly_trace *part)
{
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event e;
	int more = mayfly_track_cursor_open(part, &cursor);

	while (!more && (more = mayfly_track_cursor_next(cursor, &e)) == 1) {
		more = 0;
		if (e.kind == MAYFLY_TRACK_END)
			end_span(r, &e);
		if (e.kind != MAYFLY_TRACK_BEGIN)
			continue;
		if (!array_reserve(&r->span, &r->span_room, r->spans, sizeof(*r->span)))
			more = MAYFLY_E_MEMORY;
		else
			r->span[r->spans++] = (struct resume_span){e.type, e.thread};
	}
	mayfly_track_cursor_close(cursor);
	return more;
}

int spool_resume_blocks(struct spool_resume *r, const struct mayfly_trace *part)
{
	int error;

	r->threads = part->info.threads;
	r->last_serial = calloc(r->threads + 1, sizeof(*r->last_serial));
	if (!r->last_serial || !list_blocks(r))
		return MAYFLY_E_MEMORY;
	error = read_blocks(r, part);
	return error ? error : read_spans(r, part);
}
