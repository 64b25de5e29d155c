/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes spools for tests, by doc/FORMAT.md and not by the agent's code. Packets are small, so that
 * few records fill several. A writer per thread; each call appends one record.
 */
#ifndef MAYFLY_SPOOL_WRITER_H
#define MAYFLY_SPOOL_WRITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/spool_format.h"
#include "base/varint.h"

#define WRITER_HEADER_BYTES 8192u
#define WRITER_PACKET_BYTES 4096u
#define WRITER_STRINGS	    7168u /* offset of the strings in the header */
#define WRITER_MOST_BYTES   (8u << 20)

struct spool_file {
	uint8_t *data; /* stays where it is */
	size_t size, most;
	uint32_t packet_bytes;
	uint32_t strings; /* used, from WRITER_STRINGS */
	uint32_t writers;
	double ticks_per_ns; /* of the imitated clock */
	/* Packets that may be used again: the reader's done() puts them here. */
	uint64_t recycled[1024];
	size_t recycled_count;
};

struct spool_writer {
	struct spool_file *file;
	size_t packet; /* offset; 0 none */
	uint32_t number, tid, interval_log2;
	uint32_t used; /* of the packet; committed or not */
	bool hold;     /* do not commit */
	bool told;     /* for the caller: types and labels are in this packet */
	uint64_t ticks, id, turned;
	uint64_t cache[SPOOL_CACHE_SIZE];
	uint64_t stack[SPOOL_MAX_FRAMES];
	uint32_t depth;
};

static inline struct spool_header *spool_file_header(struct spool_file *f)
{
	return (struct spool_header *)f->data;
}

static inline uint32_t spool_file_text(struct spool_file *f, const char *text, uint32_t length)
{
	uint32_t at = WRITER_STRINGS + f->strings;

	memcpy(f->data + at, text, length);
	f->strings += length;
	return at;
}

static inline struct spool_file *spool_file_sized(uint32_t clock, double ticks_per_ns,
						  uint32_t packet_bytes, size_t most)
{
	struct spool_file *f = calloc(1, sizeof(*f));
	struct spool_header *h;

	f->size = WRITER_HEADER_BYTES;
	f->most = most;
	f->packet_bytes = packet_bytes;
	f->data = aligned_alloc(64, most);
	memset(f->data, 0, f->size);
	f->ticks_per_ns = ticks_per_ns;
	h = spool_file_header(f);
	memcpy(h->magic, SPOOL_MAGIC, 8);
	h->version = SPOOL_VERSION;
	h->header_bytes = WRITER_HEADER_BYTES;
	h->packet_bytes = packet_bytes;
	h->pid = 100;
	h->parent_pid = 50;
	h->start_real_ns = 1700000000000000000u;
	h->start_mono_ns = 5000000000u;
	h->start_ticks = clock == SPOOL_CLOCK_TSC ? 777000000000u : h->start_mono_ns;
	h->clock = clock;
	h->interval_log2 = 19;
	h->exe_length = 8;
	h->exe_offset = spool_file_text(f, "/bin/prg", 8);
	h->command_length = 8;
	h->command_offset = spool_file_text(f, "prg\0-x\0", 8);
	h->command_length = 7;
	atomic_store(&h->state, SPOOL_RUNNING);
	return f;
}

static inline struct spool_file *spool_file_new(uint32_t clock, double ticks_per_ns)
{
	return spool_file_sized(clock, ticks_per_ns, WRITER_PACKET_BYTES, WRITER_MOST_BYTES);
}

static inline void spool_file_free(struct spool_file *f)
{
	free(f->data);
	free(f);
}

/* The ticks of a moment `ns` after the start. */
static inline uint64_t spool_ticks(const struct spool_file *f, int64_t ns)
{
	const struct spool_header *h = (const struct spool_header *)f->data;

	return h->start_ticks + (uint64_t)(int64_t)((double)ns * f->ticks_per_ns);
}

static inline struct spool_writer *spool_writer_new(struct spool_file *f, uint32_t tid)
{
	struct spool_writer *w = calloc(1, sizeof(*w));

	w->file = f;
	w->number = f->writers++;
	w->tid = tid;
	w->interval_log2 = spool_file_header(f)->interval_log2;
	return w;
}

static inline struct spool_packet *spool_writer_packet(struct spool_writer *w)
{
	return (struct spool_packet *)(w->file->data + w->packet);
}

/* A packet that is used again, or one more. 0: the file is full. */
static inline size_t spool_file_packet(struct spool_file *f)
{
	struct spool_header *h = spool_file_header(f);
	size_t at = f->size;

	if (f->recycled_count)
		return WRITER_HEADER_BYTES + f->recycled[--f->recycled_count] * f->packet_bytes;
	if (at + f->packet_bytes > f->most)
		abort();
	memset(f->data + at, 0, f->packet_bytes);
	f->size += f->packet_bytes;
	atomic_fetch_add(&h->packets_claimed, 1);
	atomic_fetch_add(&h->packets_reserved, 1);
	return at;
}

static inline void spool_writer_begin(struct spool_writer *w, int64_t ns)
{
	struct spool_file *f = w->file;
	struct spool_header *h = spool_file_header(f);
	struct spool_packet *p;

	w->packet = spool_file_packet(f);
	p = spool_writer_packet(w);
	p->writer = w->number;
	p->tid = w->tid;
	p->ticks = w->ticks = spool_ticks(f, ns);
	p->mono_ns = h->start_mono_ns + (uint64_t)ns;
	p->interval_log2 = w->interval_log2;
	p->sequence = atomic_fetch_add(&h->claims, 1) + 1;
	atomic_store(&p->late_ticks, 0);
	atomic_store(&p->late_mono_ns, 0);
	atomic_store(&p->used, 0);
	p->magic = SPOOL_PACKET_MAGIC;
	w->id = h->first_sample_id;
	w->turned = 0;
	w->used = 0;
	w->depth = 0;
	w->told = false;
	memset(w->cache, 0, sizeof(w->cache));
}

/* A record while it is built. */
struct spool_record {
	uint8_t bytes[32768];
	size_t used;
};

static inline void record_u(struct spool_record *r, uint64_t value)
{
	r->used += varint_store(r->bytes + r->used, value);
}

static inline void record_fixed(struct spool_record *r, uint64_t value, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		r->bytes[r->used++] = (uint8_t)(value >> (8 * i));
}

static inline void record_bytes(struct spool_record *r, const void *data, size_t size)
{
	memcpy(r->bytes + r->used, data, size);
	r->used += size;
}

/* Makes sure that a record of `most` bytes fits into the packet. */
static inline void spool_writer_room(struct spool_writer *w, size_t most, int64_t ns)
{
	size_t body = w->file->packet_bytes - sizeof(struct spool_packet);

	if (!w->packet || w->used + most > body)
		spool_writer_begin(w, ns);
}

static inline void spool_writer_commit(struct spool_writer *w)
{
	w->hold = false;
	if (w->packet)
		atomic_store(&spool_writer_packet(w)->used, w->used);
}

static inline void spool_writer_put(struct spool_writer *w, const struct spool_record *r)
{
	memcpy((uint8_t *)(spool_writer_packet(w) + 1) + w->used, r->bytes, r->used);
	w->used += (uint32_t)r->used;
	if (!w->hold)
		spool_writer_commit(w);
}

static inline void record_time(struct spool_writer *w, struct spool_record *r, int64_t ns)
{
	uint64_t ticks = spool_ticks(w->file, ns);

	record_u(r, varint_zigzag((int64_t)(ticks - w->ticks)));
	w->ticks = ticks;
}

static inline void record_id(struct spool_writer *w, struct spool_record *r, uint64_t id)
{
	record_u(r, varint_zigzag((int64_t)(id - w->id)));
	w->id = id;
}

/* The frames of a stack from `same` on, which becomes the packet's. */
static inline void record_frames(struct spool_writer *w, struct spool_record *r, uint32_t same,
				 const uint64_t *stack, uint32_t depth)
{
	for (uint32_t i = same; i < depth; i++) {
		uint32_t slot = spool_cache_slot(stack[i]);

		w->stack[i] = stack[i];
		if (w->cache[slot] == stack[i]) {
			record_fixed(r, slot, 2);
			continue;
		}
		w->cache[slot] = stack[i];
		record_fixed(r, SPOOL_FRAME_LITERAL, 2);
		record_fixed(r, stack[i], 8);
	}
	w->depth = depth;
}

static inline uint32_t spool_writer_same(const struct spool_writer *w, const uint64_t *stack,
					 uint32_t depth)
{
	uint32_t same = 0;

	while (same < depth && same < w->depth && w->stack[same] == stack[same])
		same++;
	return same;
}

/* stack: root-most first */
static inline void spool_writer_sample(struct spool_writer *w, int64_t ns, uint64_t id,
				       uint64_t size, uint32_t hits, uint8_t flags,
				       const uint64_t *stack, uint32_t depth)
{
	struct spool_record r;
	uint32_t same;

	r.used = 0;
	spool_writer_room(w, 60 + 10 * (size_t)depth, ns);
	same = spool_writer_same(w, stack, depth);
	record_fixed(&r, SPOOL_SAMPLE, 1);
	record_fixed(&r, flags, 1);
	record_time(w, &r, ns);
	record_id(w, &r, id);
	record_u(&r, size);
	record_u(&r, hits);
	record_u(&r, w->depth - same);
	record_u(&r, depth - same);
	record_frames(w, &r, same, stack, depth);
	spool_writer_put(w, &r);
}

/* ---- OCaml ---- */

static inline void spool_writer_promote(struct spool_writer *w, int64_t ns, uint64_t id)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 40, ns);
	record_fixed(&r, SPOOL_PROMOTE, 1);
	record_time(w, &r, ns);
	record_id(w, &r, id);
	spool_writer_put(w, &r);
}

struct spool_writer_place {
	const char *function, *file;
	uint32_t line, first, last;
};

static inline void spool_writer_place(struct spool_writer *w, int64_t ns, uint64_t address,
				      const struct spool_writer_place *place, uint32_t count)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 2000, ns);
	record_fixed(&r, SPOOL_PLACE, 1);
	record_time(w, &r, ns);
	record_fixed(&r, address, 8);
	record_u(&r, count);
	for (uint32_t i = 0; i < count; i++) {
		record_u(&r, strlen(place[i].function));
		record_bytes(&r, place[i].function, strlen(place[i].function));
		record_u(&r, strlen(place[i].file));
		record_bytes(&r, place[i].file, strlen(place[i].file));
		record_u(&r, place[i].line);
		record_u(&r, place[i].first);
		record_u(&r, place[i].last);
	}
	spool_writer_put(w, &r);
}

static inline void spool_writer_heap_end(struct spool_writer *w, int64_t ns)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 40, ns);
	record_fixed(&r, SPOOL_HEAP_END, 1);
	record_time(w, &r, ns);
	spool_writer_put(w, &r);
}

static inline void spool_writer_allocator(struct spool_writer *w, int64_t ns, uint32_t whose,
					  uint64_t count, const uint64_t *value)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 200, ns);
	record_fixed(&r, SPOOL_ALLOCATOR, 1);
	record_time(w, &r, ns);
	record_u(&r, whose);
	record_u(&r, count);
	for (uint64_t i = 0; i < count && i < 10; i++)
		record_u(&r, value[i]);
	spool_writer_put(w, &r);
}

/* ---- exact ---- */

/* The code of the narrowest field for a value. */
static inline unsigned field_code(uint64_t value)
{
	return value >> 32 ? 3 : value >> 16 ? 2 : value >> 8 ? 1 : 0;
}

/* First byte, time, address. `more`: bits 4 to 6 of the first byte. */
static inline void record_exact(struct spool_writer *w, struct spool_record *r, int64_t ns,
				uint64_t address, unsigned more)
{
	uint64_t ticks = spool_ticks(w->file, ns), turned = SPOOL_TURN(address);
	uint64_t time = varint_zigzag((int64_t)(ticks - w->ticks));
	uint64_t step = varint_zigzag((int64_t)(turned - w->turned));

	w->ticks = ticks;
	w->turned = turned;
	record_fixed(r, SPOOL_EXACT_RECORD | field_code(time) | field_code(step) << 2 | more, 1);
	record_fixed(r, time, 1u << field_code(time));
	record_fixed(r, step, 1u << field_code(step));
}

static inline void spool_writer_alloc(struct spool_writer *w, int64_t ns, uint64_t address,
				      uint64_t size, uint8_t flags, const uint64_t *stack,
				      uint32_t depth)
{
	struct spool_record r;
	uint32_t same, pop, push;

	r.used = 0;
	spool_writer_room(w, 40 + 10 * (size_t)depth, ns);
	same = spool_writer_same(w, stack, depth);
	pop = w->depth - same;
	push = depth - same;
	record_exact(w, &r, ns, address, field_code(size) << SPOOL_EXACT_LAST_SHIFT);
	record_fixed(&r, size, 1u << field_code(size));
	record_fixed(&r, spool_alloc_word(pop, push, flags), 2);
	if (pop >= SPOOL_ALLOC_MORE)
		record_fixed(&r, pop, 2);
	if (push >= SPOOL_ALLOC_MORE)
		record_fixed(&r, push, 2);
	record_frames(w, &r, same, stack, depth);
	spool_writer_put(w, &r);
}

static inline void spool_writer_release(struct spool_writer *w, int64_t ns, uint64_t address,
					uint8_t flags)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 40, ns);
	record_exact(w, &r, ns, address,
		     SPOOL_EXACT_RELEASE | (unsigned)flags << SPOOL_EXACT_LAST_SHIFT);
	spool_writer_put(w, &r);
}

/* The realloc before this failed. */
static inline void spool_writer_undo(struct spool_writer *w, int64_t ns)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 40, ns);
	record_exact(w, &r, ns, 0x1230, 0);
	record_fixed(&r, 0, 1);
	record_fixed(&r, spool_alloc_word(5, 7, SPOOL_FLAG_UNDO), 2);
	spool_writer_put(w, &r);
}

/* ---- track events ---- */

static inline void record_text(struct spool_record *r, const char *text)
{
	record_u(r, strlen(text));
	record_bytes(r, text, strlen(text));
}

struct spool_writer_type {
	uint32_t id;
	uint8_t kind;
	const char *name, *category, *unit;
	uint32_t fields;
	struct {
		uint8_t type;
		const char *name;
	} field[5];
};

static inline void spool_writer_type(struct spool_writer *w, int64_t ns,
				     const struct spool_writer_type *t)
{
	struct spool_record r;
	size_t most = 40 + strlen(t->name) + strlen(t->category) + strlen(t->unit);

	for (uint32_t i = 0; i < t->fields && i < 5; i++)
		most += 3 + strlen(t->field[i].name);
	r.used = 0;
	spool_writer_room(w, most, ns);
	record_fixed(&r, SPOOL_TYPE, 1);
	record_u(&r, t->id);
	record_fixed(&r, t->kind, 1);
	record_text(&r, t->name);
	record_text(&r, t->category);
	record_text(&r, t->unit);
	record_u(&r, t->fields);
	for (uint32_t i = 0; i < t->fields && i < 5; i++) {
		record_fixed(&r, t->field[i].type, 1);
		record_text(&r, t->field[i].name);
	}
	spool_writer_put(w, &r);
}

static inline void spool_writer_label(struct spool_writer *w, int64_t ns, uint32_t id,
				      const char *key, const char *value)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 20 + strlen(key) + strlen(value), ns);
	record_fixed(&r, SPOOL_LABEL, 1);
	record_u(&r, id);
	record_text(&r, key);
	record_text(&r, value);
	spool_writer_put(w, &r);
}

static inline void spool_writer_labels(struct spool_writer *w, int64_t ns, uint32_t count,
				       const uint32_t *id)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 100, ns);
	record_fixed(&r, SPOOL_LABELS, 1);
	record_u(&r, count);
	for (uint32_t i = 0; i < count; i++)
		record_u(&r, id[i]);
	spool_writer_put(w, &r);
}

/* value: the type's fields' (number, or a text). stack NULL: none. */
static inline void spool_writer_track(struct spool_writer *w, int64_t ns, uint8_t kind,
				      const struct spool_writer_type *t, const uint64_t *value,
				      const uint64_t *stack, uint32_t depth)
{
	uint64_t ticks = spool_ticks(w->file, ns);
	size_t most = 80 + 10 * (size_t)depth;
	struct spool_record r;
	uint64_t time;
	uint32_t same;
	unsigned code;

	for (uint32_t i = 0; i < t->fields && kind != SPOOL_END; i++)
		if (t->field[i].type == SPOOL_TEXT)
			most += strlen((const char *)(uintptr_t)value[i]);
	r.used = 0;
	spool_writer_room(w, most, ns);
	time = varint_zigzag((int64_t)(ticks - w->ticks));
	code = field_code(time);
	w->ticks = ticks;
	record_fixed(&r,
		     SPOOL_TRACK | kind | code << SPOOL_TRACK_WIDTH_SHIFT |
			 (stack ? SPOOL_TRACK_STACK : 0),
		     1);
	record_fixed(&r, time, 1u << code);
	record_fixed(&r, t->id, 2);
	for (uint32_t i = 0; i < t->fields && kind != SPOOL_END; i++)
		if (t->field[i].type == SPOOL_TEXT) {
			const char *text = (const char *)(uintptr_t)value[i];

			record_fixed(&r, strlen(text), 1);
			record_bytes(&r, text, strlen(text));
		} else {
			record_fixed(&r, value[i], 8);
		}
	if (stack) {
		same = spool_writer_same(w, stack, depth);
		record_u(&r, w->depth - same);
		record_u(&r, depth - same);
		record_frames(w, &r, same, stack, depth);
	}
	spool_writer_put(w, &r);
}

static inline void spool_writer_fork(struct spool_writer *w, int64_t ns)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 40, ns);
	record_fixed(&r, SPOOL_FORK, 1);
	record_time(w, &r, ns);
	spool_writer_put(w, &r);
}

/* ---- others ---- */

static inline void record_end(struct spool_writer *w, struct spool_record *r, uint8_t tag,
			      uint8_t flags, int64_t ns, uint64_t id)
{
	r->used = 0;
	spool_writer_room(w, 50, ns);
	record_fixed(r, tag, 1);
	record_fixed(r, flags, 1);
	record_time(w, r, ns);
	record_id(w, r, id);
}

static inline void spool_writer_free(struct spool_writer *w, int64_t ns, uint64_t id, uint8_t flags)
{
	struct spool_record r;

	record_end(w, &r, SPOOL_FREE, flags, ns, id);
	spool_writer_put(w, &r);
}

static inline void spool_writer_shrink(struct spool_writer *w, int64_t ns, uint64_t id,
				       uint64_t bytes, uint8_t flags)
{
	struct spool_record r;

	record_end(w, &r, SPOOL_SHRINK, flags, ns, id);
	record_u(&r, bytes);
	spool_writer_put(w, &r);
}

static inline void spool_writer_thread(struct spool_writer *w, int64_t ns, uint32_t tid,
				       const char *name)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 40 + strlen(name), ns);
	record_fixed(&r, SPOOL_THREAD, 1);
	record_u(&r, tid);
	record_u(&r, strlen(name));
	record_bytes(&r, name, strlen(name));
	w->tid = tid;
	spool_writer_put(w, &r);
}

static inline void spool_writer_interval(struct spool_writer *w, int64_t ns, uint32_t log2)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 40, ns);
	record_fixed(&r, SPOOL_INTERVAL, 1);
	record_fixed(&r, log2, 1);
	w->interval_log2 = log2;
	spool_writer_put(w, &r);
}

static inline void spool_writer_module(struct spool_writer *w, int64_t ns, const char *path,
				       uint64_t start, uint64_t end, uint64_t bias)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 100 + strlen(path), ns);
	record_fixed(&r, SPOOL_MODULE, 1);
	record_time(w, &r, ns);
	record_fixed(&r, start, 8);
	record_fixed(&r, end, 8);
	record_fixed(&r, bias, 8);
	record_u(&r, strlen(path));
	record_bytes(&r, path, strlen(path));
	record_u(&r, 4);
	record_bytes(&r, "\x12\x34\x56\x78", 4);
	spool_writer_put(w, &r);
}

static inline void spool_writer_gone(struct spool_writer *w, int64_t ns, uint64_t start)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 40, ns);
	record_fixed(&r, SPOOL_GONE, 1);
	record_time(w, &r, ns);
	record_fixed(&r, start, 8);
	spool_writer_put(w, &r);
}

static inline void spool_writer_lost(struct spool_writer *w, int64_t ns, uint64_t samples,
				     uint64_t frees, uint64_t events)
{
	struct spool_record r;

	r.used = 0;
	spool_writer_room(w, 40, ns);
	record_fixed(&r, SPOOL_LOST, 1);
	record_time(w, &r, ns);
	record_u(&r, samples);
	record_u(&r, frees);
	record_u(&r, events);
	spool_writer_put(w, &r);
}

#endif
