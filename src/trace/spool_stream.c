/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream: records of many writers become one history. See spool_stream.h.
 *
 *	writer 0:  packet -> packet -> packet	each writer's next record waits at its place
 *	writer 1:  packet			  |
 *	writer 2:  packet -> packet		heap by time of the next record
 *						  |  a run from one writer, until another's is due
 *						apply: live table, tables, trace_writer
 *
 * What a record says of time, id and address is relative to the one before it in its packet, so a
 * writer keeps those, and decodes a record's time twice at most: to know when it is due and to
 * apply it.
 *
 * The spool is memory of the program, which may change it at any time: each byte is read once.
 */
#include "trace/spool_stream.h"

#include <stdlib.h>
#include <string.h>

#include "trace/estimate.h"
#include "trace/format.h"
#include "trace/fragments.h"
#include "trace/live_table.h"
#include "trace/spool_describe.h"
#include "trace/spool_format.h"
#include "trace/spool_packets.h"
#include "trace/spool_stacks.h"
#include "trace/thin.h"
#include "trace/tick_clock.h"
#include "trace/varint.h"

#define ROUND_RECORDS 262144u /* after about so many, advance() returns for once */
#define MOST_WAITING  64u
#define MOST_FORKS    64u
#define MOST_FORK_BLOCKS                                                                           \
	(4u << 20) /* in all forks together, but the newest is kept in any case                    \
		    */
#define PEAK_OVER    0.98
#define PEAK_HIGHER  1.1
#define PEAK_LEAST   1048576.0
#define INVERSION_NS 1000 /* by how much the ticks of two CPUs may be wrong */

struct writer {
	uint32_t number;
	uint32_t tid, thread;		   /* thread: in the tables, RECORDING_NONE until needed */
	struct spool_queued *first, *last; /* first: the one at hand */
	bool begun;			   /* the first one's state has been set up */
	bool over;			   /* nothing more of it is read: its end, or damaged */
	const uint8_t *at, *end, *limit;   /* limit: of what may be read at all */
	uint64_t ticks, turned, id;
	uint32_t interval_log2;
	uint64_t due; /* ticks of the next record */
	struct spool_stack stack;
};

/* An ALLOC or RELEASE that has been decoded. Its block is in the form that the writer takes: were
 * it made just before, reading it would wait for the stores. */
struct waiting {
	uint64_t ticks, key;
	struct trace_block block; /* RELEASE: only thread and flags */
	bool release;
};

/* What is known of a thread number. */
struct named_thread {
	uint32_t tid, index, name;
};

/* What was live at a FORK record, by serial. */
struct fork {
	uint64_t ticks;
	struct live_block *block;
	size_t blocks;
};

struct spool_stream {
	struct spool_stream_options options;
	struct spool_header header; /* the constant fields count */
	struct spool_packets packets;
	struct tick_clock clock;
	struct spool_stacks stacks;
	struct recording *tables;
	struct trace_writer *trace; /* NULL: only what is live is wanted */
	bool exact, final;
	bool settled;	 /* the clock of a whole spool */
	bool unfinished; /* the round at hand was left early: the next call goes on with it */
	bool beginning_missing;
	int error; /* sticks */

	struct writer **writer;
	size_t writers, writers_size;
	uint32_t *writer_slot; /* hash of number -> index + 1 */
	size_t writer_slots;
	struct writer **heap;
	size_t heaped;

	struct live_table live;
	struct waiting waiting[MOST_WAITING];
	size_t waiting_count;
	struct named_thread *thread;
	size_t threads, threads_size;
	uint32_t *thread_slot; /* hash of tid -> index + 1 */
	size_t thread_slots;
	uint64_t *last_key; /* [tables' threads]: of the thread's latest allocation, 0 none */
	size_t last_keys;

	struct fork fork[MOST_FORKS];
	size_t forks, fork_blocks;
	bool stopped; /* nothing more is read */

	int64_t now_ns;
	uint64_t ticks; /* of the latest round */
	uint64_t inversion_ticks;
	uint64_t allocations, frees, inherited, truncated, unknown_frees;
	uint64_t lost_samples, lost_frees;
	double live_bytes;
	double most_live, measured_live; /* largest so far, and when pages were last looked at */
	uint32_t thin_log2;		 /* 0: all blocks are handed over */
	uint64_t thin_seed;
};

static bool room(void *array, size_t used, size_t *size, size_t item)
{
	size_t want = *size ? *size + *size / 2 : 16;
	void **place = array;
	void *bigger;

	if (used < *size)
		return true;
	if (want > SIZE_MAX / item)
		return false;
	bigger = realloc(*place, want * item);
	if (!bigger)
		return false;
	*place = bigger;
	*size = want;
	return true;
}

static void fail(struct spool_stream *s, int error)
{
	if (!s->error)
		s->error = error;
}

/* ---- small hash tables: numbers to indices ---- */

static size_t number_slot(const uint32_t *slot, size_t slots, uint32_t number,
			  uint32_t (*number_at)(const struct spool_stream *s, uint32_t index),
			  const struct spool_stream *s)
{
	size_t i = (number * 0x9e3779b1u >> 4) & (slots - 1);

	while (slot[i] && number_at(s, slot[i] - 1) != number)
		i = (i + 1) & (slots - 1);
	return i;
}

/* Room for one more number. */
static bool grow_slots(struct spool_stream *s, uint32_t **slot, size_t *slots, size_t items,
		       uint32_t (*number_at)(const struct spool_stream *s, uint32_t index))
{
	size_t size = *slots ? 2 * *slots : 64;
	uint32_t *fresh;

	if (items < *slots / 2)
		return true;
	fresh = calloc(size, sizeof(*fresh));
	if (!fresh)
		return false;
	for (size_t i = 0; i < items; i++)
		fresh[number_slot(fresh, size, number_at(s, (uint32_t)i), number_at, s)] =
		    (uint32_t)i + 1;
	free(*slot);
	*slot = fresh;
	*slots = size;
	return true;
}

static uint32_t writer_number(const struct spool_stream *s, uint32_t index)
{
	return s->writer[index]->number;
}

static uint32_t thread_number(const struct spool_stream *s, uint32_t index)
{
	return s->thread[index].tid;
}

static struct writer *find_writer(struct spool_stream *s, uint32_t number)
{
	struct writer *w;
	size_t slot;

	if (!grow_slots(s, &s->writer_slot, &s->writer_slots, s->writers, writer_number))
		return NULL;
	slot = number_slot(s->writer_slot, s->writer_slots, number, writer_number, s);
	if (s->writer_slot[slot])
		return s->writer[s->writer_slot[slot] - 1];
	if (s->writers == s->writers_size) {
		struct writer **bigger;
		size_t size = s->writers_size;

		if (!room(&s->writer, s->writers, &s->writers_size, sizeof(*s->writer)))
			return NULL;
		bigger = realloc(s->heap, s->writers_size * sizeof(*s->heap));
		if (!bigger) {
			s->writers_size = size;
			return NULL;
		}
		s->heap = bigger;
	}
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->number = number;
	w->thread = RECORDING_NONE;
	s->writer[s->writers++] = w;
	s->writer_slot[slot] = (uint32_t)s->writers;
	return w;
}

/* ---- threads ---- */

static struct named_thread *find_named(struct spool_stream *s, uint32_t tid)
{
	size_t slot;

	if (!grow_slots(s, &s->thread_slot, &s->thread_slots, s->threads, thread_number) ||
	    !room(&s->thread, s->threads, &s->threads_size, sizeof(*s->thread)))
		return NULL;
	slot = number_slot(s->thread_slot, s->thread_slots, tid, thread_number, s);
	if (!s->thread_slot[slot]) {
		s->thread[s->threads++] = (struct named_thread){tid, RECORDING_NONE, 0};
		s->thread_slot[slot] = (uint32_t)s->threads;
	}
	return &s->thread[s->thread_slot[slot] - 1];
}

/* The latest name counts. */
static void name_thread(struct spool_stream *s, uint32_t tid, const void *name, size_t length)
{
	struct named_thread *t = find_named(s, tid);
	uint32_t string = length ? recording_string(s->tables, name, length) : 0;

	if (!t || string == RECORDING_NONE) {
		fail(s, MAYFLY_E_MEMORY);
		return;
	}
	if (!string)
		return;
	t->name = string;
	if (t->index != RECORDING_NONE)
		s->tables->thread[t->index].name = string;
}

/* A thread is listed once it has an event. */
static uint32_t index_thread(struct spool_stream *s, uint32_t tid)
{
	struct named_thread *t = find_named(s, tid);

	if (!t) {
		fail(s, MAYFLY_E_MEMORY);
		return 0;
	}
	if (t->index == RECORDING_NONE) {
		uint32_t index = recording_thread(s->tables, tid, t->name);
		size_t size = s->last_keys;

		if (index == RECORDING_NONE ||
		    !room(&s->last_key, index, &size, sizeof(*s->last_key))) {
			fail(s, MAYFLY_E_MEMORY);
			return 0;
		}
		s->last_keys = size;
		s->last_key[index] = 0;
		t->index = index;
	}
	return t->index;
}

static inline uint32_t this_thread(struct spool_stream *s, struct writer *w)
{
	if (w->thread == RECORDING_NONE)
		w->thread = index_thread(s, w->tid);
	return w->thread;
}

/* ---- events ---- */

/* The moment of a record: never before what has been handed over already. */
static inline int64_t moment(struct spool_stream *s, uint64_t ticks)
{
	int64_t ns = tick_clock_ns(&s->clock, ticks);

	if (ns > s->now_ns)
		s->now_ns = ns;
	return s->now_ns;
}

static double weight(const struct spool_stream *s, const struct live_block *b)
{
	double interval, rate, bytes, blocks;

	if (s->exact || !b->sample.hits)
		return (double)b->size;
	interval = (double)((uint64_t)1 << b->sample.interval_log2);
	if (mayfly_heap_is_ocaml(MAYFLY_FLAG_HEAP(b->flags)) &&
	    (rate = spool_ocaml_rate(s->packets.header)) > 0)
		interval = 8 / rate;
	sample_weight(estimate_sampler(s->header.sampler, (uint32_t)b->flags), interval, b->size,
		      b->sample.hits, &bytes, &blocks);
	return bytes;
}

static struct trace_block trace_block(const struct spool_stream *s, const struct live_block *b)
{
	return (struct trace_block){
	    .size = b->size,
	    .node = b->node,
	    .thread = b->thread,
	    .hits = s->exact ? 0 : b->sample.hits,
	    .interval_log2 = s->exact ? 0 : (uint8_t)b->sample.interval_log2,
	    .flags = (uint8_t)(b->flags & ~LIVE_OVERLAPPED),
	};
}

/* Hands over a block whose fields are set but its serial. block: the same for the writer. */
static void hand_alloc(struct spool_stream *s, int64_t ns, struct live_block *b,
		       struct trace_block *block)
{
	uint64_t serial = s->allocations;

	s->live_bytes += weight(s, b);
	s->allocations++;
	if (s->trace) {
		int error;

		if (s->thin_log2 && !thin_block(s->header.sampler, s->thin_log2,
						thin_coin(s->thin_seed, serial), block)) {
			b->serial = LIVE_THINNED;
			return;
		}
		error = trace_writer_alloc(s->trace, ns, block, &serial);
		if (error)
			fail(s, error);
	}
	b->serial = serial & LIVE_THINNED;
}

static void hand_free(struct spool_stream *s, int64_t ns, const struct live_block *b,
		      uint32_t thread, uint32_t flags)
{
	s->live_bytes -= weight(s, b);
	s->frees++;
	if (s->trace && b->serial != LIVE_THINNED) {
		struct trace_block block = trace_block(s, b);
		int error = trace_writer_free(s->trace, ns, b->serial, &block, thread, flags);

		if (error)
			fail(s, error);
	}
}

/* 0 marks free places. */
static inline uint64_t key_of(uint64_t number)
{
	return number ? number : UINT64_MAX;
}

/* As far apart as addresses are. */
static inline uint64_t id_key(uint64_t id)
{
	return key_of((id + 1) << 4);
}

/* The table's block for a new allocation. If the key is live, the free of the block before went
 * past the hooks (or, sampled, the spool is damaged): it is freed now. */
static struct live_block *new_block(struct spool_stream *s, uint64_t key, int64_t ns,
				    uint32_t thread, uint32_t flags)
{
	bool there;
	struct live_block *b = live_put(&s->live, key, &there);

	if (!b) {
		fail(s, MAYFLY_E_MEMORY);
		return NULL;
	}
	if (there) {
		hand_free(s, ns, b, thread, 0);
		flags |= LIVE_OVERLAPPED;
	}
	b->flags = flags & 0xff;
	b->thread = thread;
	return b;
}

static void exact_alloc(struct spool_stream *s, struct waiting *e)
{
	int64_t ns = moment(s, e->ticks);
	struct live_block *b = new_block(s, e->key, ns, e->block.thread, e->block.flags);

	if (!b)
		return;
	b->size = e->block.size;
	b->node = e->block.node;
	b->ticks = e->ticks;
	s->last_key[e->block.thread] = e->key;
	hand_alloc(s, ns, b, &e->block);
}

/*
 * Blocks of one address follow each other, so the one that is live at a RELEASE is nearly always
 * the one that is released. Not so when the record was written late, by a signal handler: it is
 * older than the live block. Nor when the ticks of two CPUs are at odds, and the block's ALLOC came
 * before this RELEASE of the block before it, which was taken for missed then.
 */
static void exact_release(struct spool_stream *s, const struct waiting *e)
{
	struct live_block *b = live_find(&s->live, e->key);
	uint32_t flags = e->block.flags, thread = e->block.thread;

	if (!b || e->ticks < b->ticks) {
		s->unknown_frees++;
		return;
	}
	if (b->flags & LIVE_OVERLAPPED) {
		b->flags &= ~LIVE_OVERLAPPED;
		if (thread != b->thread && e->ticks - b->ticks <= s->inversion_ticks)
			return;
	}
	if (thread == b->thread && s->last_key[thread] == e->key)
		flags |= MAYFLY_FLAG_TEMPORARY;
	hand_free(s, moment(s, e->ticks), b, thread, flags);
	live_remove(&s->live, b);
}

/* Which stacks hold nearly empty pages now. */
static void measure_pages(struct spool_stream *s, enum fragments_kind kind)
{
	struct fragments f;
	int error;

	if (!s->exact || !s->trace || s->error)
		return;
	error = fragments_measure(&f, &s->live, s->tables->nodes, s->now_ns)
		    ? trace_writer_fragments(s->trace, kind, &f)
		    : MAYFLY_E_MEMORY;
	fragments_free(&f);
	if (error)
		fail(s, error);
}

/* The peak is known when it is over: just after it pages are looked at. Not after each of many
 * growing ones, and what never falls is looked at in the end. */
static void watch_peak(struct spool_stream *s)
{
	if (s->live_bytes >= s->most_live) {
		s->most_live = s->live_bytes;
	} else if (s->live_bytes < PEAK_OVER * s->most_live && s->most_live >= PEAK_LEAST &&
		   s->most_live > PEAK_HIGHER * s->measured_live) {
		s->measured_live = s->most_live;
		measure_pages(s, FRAGMENTS_PEAK);
	}
}

/* Applies the events that wait. To be called before anything that depends on them. */
static void apply_waiting(struct spool_stream *s)
{
	size_t count = s->waiting_count;

	s->waiting_count = 0;
	for (size_t i = 0; i < count; i++)
		live_prefetch(&s->live, s->waiting[i].key);
	for (size_t i = 0; i < count && !s->error; i++) {
		if (s->waiting[i].release)
			exact_release(s, &s->waiting[i]);
		else
			exact_alloc(s, &s->waiting[i]);
	}
	if (count)
		watch_peak(s);
}

/* Events are applied many at a time: their slots and blocks come into the cache together. */
static inline struct waiting *add_waiting(struct spool_stream *s, struct writer *w,
					  uint64_t address, uint32_t flags)
{
	struct waiting *e;

	if (s->waiting_count == MOST_WAITING)
		apply_waiting(s);
	e = &s->waiting[s->waiting_count++];
	e->ticks = w->ticks;
	e->key = key_of(address);
	e->block = (struct trace_block){.thread = this_thread(s, w), .flags = (uint8_t)flags};
	return e;
}

/* ---- records ---- */

static void damaged(struct spool_stream *s, struct writer *w)
{
	s->packets.damaged = true;
	w->over = true;
}

static const uint64_t width_mask[4] = {0xff, 0xffff, 0xffffffff, UINT64_MAX};

/* A field of 1 << code bytes; what lies beyond the limit counts as 0. */
static inline uint64_t load_field(const uint8_t *at, unsigned code, const uint8_t *limit)
{
	uint64_t value = 0;

	if (at + 8 <= limit) {
		memcpy(&value, at, 8);
		return value & width_mask[code];
	}
	for (unsigned i = 0; i < 1u << code && at + i < limit; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

/* When the record at hand is due. False: it is damaged. */
static inline bool read_due(struct writer *w)
{
	uint8_t tag = *w->at;
	struct varint_in in;

	if (tag & SPOOL_EXACT_RECORD) {
		w->due = w->ticks + varint_unzigzag(load_field(w->at + 1, tag & 3, w->limit));
		return true;
	}
	w->due = w->ticks;
	if (tag == SPOOL_PAD || tag == SPOOL_THREAD || tag == SPOOL_INTERVAL)
		return true;
	in = varint_begin(w->at + 1, (size_t)(w->end - w->at - 1));
	if (tag == SPOOL_SAMPLE || tag == SPOOL_FREE)
		varint_byte(&in);
	w->due += (uint64_t)varint_s(&in);
	return !in.bad;
}

static void begin_packet(struct spool_stream *s, struct writer *w)
{
	const struct spool_packet *p = w->first->packet;
	uint32_t tid = p->tid;

	w->begun = true;
	w->over = false;
	w->at = w->end = (const uint8_t *)(p + 1);
	w->limit = w->at + w->first->readable;
	w->ticks = p->ticks;
	w->turned = 0;
	w->id = s->header.first_sample_id;
	w->interval_log2 = p->interval_log2;
	if (w->interval_log2 > TRACE_MAX_INTERVAL)
		damaged(s, w);
	if (tid != w->tid) {
		w->tid = tid;
		w->thread = RECORDING_NONE;
	}
	stack_begin_packet(&w->stack, s->packets.packet_bytes);
}

/* What has been written to the packet at hand by now. */
static void look_again(struct spool_stream *s, struct writer *w)
{
	const struct spool_packet *p = w->first->packet;
	uint32_t used = atomic_load_explicit(&p->used, memory_order_acquire);
	size_t before = (size_t)(w->end - (const uint8_t *)(p + 1));

	if (used < before || used > s->packets.packet_bytes - sizeof(*p)) {
		damaged(s, w);
		return;
	}
	if (used > w->first->readable) { /* cut off */
		s->packets.damaged = true;
		used = (uint32_t)w->first->readable;
	}
	w->end = (const uint8_t *)(p + 1) + used;
}

/* Goes to the writer's next record and sets when it is due. False: there is none yet. */
static bool next_record(struct spool_stream *s, struct writer *w)
{
	while (w->first) {
		struct spool_queued *q = w->first;

		if (!w->begun)
			begin_packet(s, w);
		if (!w->over && w->at == w->end)
			look_again(s, w);
		if (!w->over && w->at < w->end) {
			if (read_due(w))
				return true;
			damaged(s, w);
		}
		/* A packet is finished when its writer has a later one; known before `used` was
		 * read, for it not to grow afterwards. */
		if (!q->next)
			return false;
		w->first = q->next;
		w->begun = false;
		apply_waiting(s);
		packets_consumed(&s->packets, q, s->trace ? trace_writer_chunks(s->trace) : 0);
	}
	return false;
}

enum outcome { GONE, UNDONE, UNKNOWN };

/* One record that is no event, on the way to what became of a realloc. */
static bool skip_record(struct varint_in *in)
{
	uint8_t tag = *in->at;

	if (tag != SPOOL_THREAD && tag != SPOOL_INTERVAL)
		return false;
	in->at++;
	if (tag == SPOOL_INTERVAL) {
		varint_byte(in);
	} else {
		varint_u(in);
		varint_bytes(in, varint_u(in));
	}
	return !in->bad;
}

static bool is_undo(const struct varint_in *in)
{
	const uint8_t *at = in->at;
	uint8_t tag = *at;
	size_t offset = 1 + (1u << (tag & 3)) + (1u << (tag >> 2 & 3)) + (1u << (tag >> 4 & 3));

	if (!(tag & SPOOL_EXACT_RECORD) || tag & SPOOL_EXACT_RELEASE ||
	    varint_left(in) < offset + 2)
		return false;
	return at[offset + 1] >> 4 & SPOOL_FLAG_UNDO;
}

/* What became of the realloc whose RELEASE ends at `at`: it stands in the writer's next record. */
static enum outcome realloc_outcome(struct spool_stream *s, struct writer *w, const uint8_t *at)
{
	struct spool_queued *q = w->first;
	const uint8_t *end = w->end;
	uint32_t used;

	for (;;) {
		struct varint_in in;

		if (at == end && q == w->first) {
			look_again(s, w);
			end = w->end;
			if (w->over)
				return GONE;
		}
		in = varint_begin(at, (size_t)(end - at));
		while (varint_left(&in))
			if (!skip_record(&in))
				return in.bad || !is_undo(&in) ? GONE : UNDONE;
		q = q->next;
		if (!q)
			return s->final ? GONE : UNKNOWN;
		used = atomic_load_explicit(&q->packet->used, memory_order_acquire);
		if (used > q->readable)
			return GONE;
		at = (const uint8_t *)(q->packet + 1);
		end = at + used;
	}
}

/* ALLOC: what comes after the address. */
static void read_alloc(struct spool_stream *s, struct writer *w, const uint8_t *at, uint8_t tag,
		       uint64_t ticks, uint64_t turned)
{
	unsigned width = tag >> 4 & 3;
	uint64_t size = load_field(at, width, w->limit);
	uint32_t word, pop, push;
	struct varint_in in;
	enum stack_result result;
	struct waiting *e;

	at += 1u << width;
	word = (uint32_t)load_field(at, 1, w->limit);
	at += 2;
	pop = word & 63;
	push = word >> 6 & 63;
	if (pop == 63) {
		pop = (uint32_t)load_field(at, 1, w->limit);
		at += 2;
	}
	if (push == 63) {
		push = (uint32_t)load_field(at, 1, w->limit);
		at += 2;
	}
	if (at > w->end) {
		damaged(s, w);
		return;
	}
	w->ticks = ticks;
	w->turned = turned;
	if (word >> 12 & SPOOL_FLAG_UNDO) {
		w->at = at;
		return;
	}
	in = varint_begin(at, (size_t)(w->end - at));
	result = stack_change(&s->stacks, &w->stack, pop, push, &in);
	if (result != STACK_DONE) {
		if (result == STACK_MEMORY)
			fail(s, MAYFLY_E_MEMORY);
		damaged(s, w);
		return;
	}
	w->at = in.at;
	e = add_waiting(s, w, turned << 4 | turned >> 60,
			word >> 12 & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0);
	e->release = false;
	e->block.size = size;
	e->block.node = stack_node(&w->stack);
	s->truncated += stack_truncated(&w->stack);
}

/* ALLOC or RELEASE. False: it has to wait for what comes after it. */
static bool read_exact(struct spool_stream *s, struct writer *w, uint8_t tag)
{
	const uint8_t *at = w->at + 1 + (1u << (tag & 3));
	unsigned width = tag >> 2 & 3;
	uint64_t turned = w->turned + varint_unzigzag(load_field(at, width, w->limit));
	enum outcome outcome = GONE;
	bool realloced;

	at += 1u << width;
	if (!(tag & SPOOL_EXACT_RELEASE)) {
		read_alloc(s, w, at, tag, w->due, turned);
		return true;
	}
	if (at > w->end) {
		damaged(s, w);
		return true;
	}
	realloced = tag >> 4 & 3 & SPOOL_FLAG_REALLOC;
	if (realloced) {
		outcome = realloc_outcome(s, w, at);
		if (outcome == UNKNOWN)
			return false;
	}
	w->at = at;
	w->ticks = w->due;
	w->turned = turned;
	if (outcome == GONE)
		add_waiting(s, w, turned << 4 | turned >> 60, realloced ? MAYFLY_FLAG_REALLOC : 0)
		    ->release = true;
	return true;
}

static void next_id(struct writer *w, struct varint_in *in)
{
	w->id += (uint64_t)varint_s(in);
}

static void read_sample(struct spool_stream *s, struct writer *w, struct varint_in *in)
{
	uint8_t flags = varint_byte(in);
	uint32_t heap = flags >> SPOOL_FLAG_HEAP_SHIFT & 3, interval_log2 = w->interval_log2;
	uint64_t size, hits, pop, push;
	enum stack_result result;
	struct trace_block block;
	struct live_block *b;
	int64_t ns;

	if (heap != SPOOL_HEAP_MALLOC)
		interval_log2 = atomic_load(&s->packets.header->ocaml_interval_log2);
	if (interval_log2 > TRACE_MAX_INTERVAL)
		varint_fail(in);

	varint_s(in); /* its time, which is w->due */
	next_id(w, in);
	size = varint_u(in);
	hits = varint_u(in);
	pop = varint_u(in);
	push = varint_u(in);
	if (in->bad)
		return;
	w->ticks = w->due;
	result = stack_change(&s->stacks, &w->stack, pop, push, in);
	if (result == STACK_MEMORY)
		fail(s, MAYFLY_E_MEMORY);
	if (result != STACK_DONE) {
		varint_fail(in);
		return;
	}
	ns = moment(s, w->ticks);
	b = new_block(s, id_key(w->id), ns, this_thread(s, w),
		      (flags & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0) |
			  heap << MAYFLY_FLAG_HEAP_SHIFT);
	if (!b)
		return;
	b->size = size;
	b->node = stack_node(&w->stack);
	b->sample.hits = hits < UINT32_MAX ? (uint32_t)hits : UINT32_MAX;
	b->sample.interval_log2 = interval_log2;
	s->truncated += stack_truncated(&w->stack);
	block = trace_block(s, b);
	hand_alloc(s, ns, b, &block);
}

static void read_free(struct spool_stream *s, struct writer *w, struct varint_in *in)
{
	uint8_t flags = varint_byte(in);
	struct live_block *b;

	varint_s(in);
	next_id(w, in);
	if (in->bad)
		return;
	w->ticks = w->due;
	b = live_find(&s->live, id_key(w->id));
	if (!b) {
		s->unknown_frees++;
		return;
	}
	hand_free(s, moment(s, w->ticks), b, this_thread(s, w),
		  (flags & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0) |
		      (flags & SPOOL_FLAG_TEMPORARY ? MAYFLY_FLAG_TEMPORARY : 0));
	live_remove(&s->live, b);
}

static void read_thread(struct spool_stream *s, struct writer *w, struct varint_in *in)
{
	uint64_t tid = varint_u(in);
	uint64_t length = varint_u(in);
	const uint8_t *name = varint_bytes(in, length);

	if (tid > UINT32_MAX)
		varint_fail(in);
	if (in->bad)
		return;
	if (w->tid != (uint32_t)tid) {
		w->tid = (uint32_t)tid;
		w->thread = RECORDING_NONE;
	}
	name_thread(s, w->tid, name, (size_t)length);
}

static void read_interval(struct writer *w, struct varint_in *in)
{
	uint8_t log2 = varint_byte(in);

	if (log2 > TRACE_MAX_INTERVAL)
		varint_fail(in);
	else
		w->interval_log2 = log2;
}

static void read_module(struct spool_stream *s, struct writer *w, struct varint_in *in, bool gone)
{
	struct stacks_module m = {0};
	uint64_t length;
	bool good;

	varint_s(in);
	m.start = varint_fixed(in, 8);
	if (!gone) {
		m.end = varint_fixed(in, 8);
		m.bias = varint_fixed(in, 8);
		length = varint_u(in);
		m.path = varint_bytes(in, length);
		m.path_length = (size_t)length;
		length = varint_u(in);
		m.build_id = varint_bytes(in, length);
		m.build_id_length = (size_t)length;
		if (m.end < m.start)
			varint_fail(in);
	}
	if (in->bad)
		return;
	w->ticks = w->due;
	if (gone)
		good = stacks_module_gone(&s->stacks, m.start, moment(s, w->ticks));
	else
		good = stacks_module_seen(&s->stacks, &m, moment(s, w->ticks));
	if (!good)
		fail(s, MAYFLY_E_MEMORY);
}

static void read_lost(struct spool_stream *s, struct writer *w, struct varint_in *in)
{
	uint64_t samples, frees;

	varint_s(in);
	samples = varint_u(in);
	frees = varint_u(in);
	if (in->bad)
		return;
	w->ticks = w->due;
	if (samples < UINT32_MAX)
		s->lost_samples += samples;
	if (frees < UINT32_MAX)
		s->lost_frees += frees;
	if (samples && w->thread != RECORDING_NONE)
		s->last_key[w->thread] = 0;
}

static void read_place(struct spool_stream *s, struct writer *w, struct varint_in *in)
{
	enum stack_result result;
	uint64_t address;

	varint_s(in);
	address = varint_fixed(in, 8);
	if (in->bad)
		return;
	w->ticks = w->due;
	result = stacks_place(&s->stacks, address, in);
	if (result == STACK_MEMORY)
		fail(s, MAYFLY_E_MEMORY);
	if (result == STACK_DAMAGED)
		varint_fail(in);
}

static void read_promote(struct spool_stream *s, struct writer *w, struct varint_in *in)
{
	const struct live_block *b;
	int error;

	varint_s(in);
	next_id(w, in);
	if (in->bad)
		return;
	w->ticks = w->due;
	b = live_find(&s->live, id_key(w->id));
	if (!b || !s->trace || b->serial == LIVE_THINNED)
		return;
	error = trace_writer_promote(s->trace, moment(s, w->ticks), b->serial);
	if (error)
		fail(s, error);
}

/* Nothing more is known of the blocks in OCaml's heaps: for the trace they end here. */
static void read_heap_end(struct spool_stream *s, struct writer *w, struct varint_in *in)
{
	int64_t ns;

	varint_s(in);
	if (in->bad)
		return;
	w->ticks = w->due;
	ns = moment(s, w->ticks);
	for (size_t i = 0, size = s->live.block_size; i < s->live.high && !s->error;) {
		struct live_block *b = &s->live.block[i++];

		if (!b->key || !mayfly_heap_is_ocaml(MAYFLY_FLAG_HEAP(b->flags)))
			continue;
		hand_free(s, ns, b, this_thread(s, w), 0);
		live_remove(&s->live, b);
		if (s->live.block_size != size) { /* the table has shrunk: all have moved */
			size = s->live.block_size;
			i = 0;
		}
	}
}

/* The counters that an ALLOCATOR record's values become. */
static const char *const allocator_counters[][SPOOL_ALLOCATOR_VALUES] = {
    [SPOOL_OF_PROCESS] = {"self.resident", "self.resident_files"},
    [SPOOL_OF_GLIBC] = {"glibc.arenas", "glibc.mmapped", "glibc.in_use", "glibc.free",
			"glibc.fastbins", "glibc.top"},
    [SPOOL_OF_JEMALLOC] = {"jemalloc.allocated", "jemalloc.active", "jemalloc.metadata",
			   "jemalloc.resident", "jemalloc.mapped", "jemalloc.retained"},
    [SPOOL_OF_MIMALLOC] = {"mimalloc.committed"},
    [SPOOL_OF_TCMALLOC] = {"tcmalloc.allocated", "tcmalloc.heap", "tcmalloc.page_heap_free",
			   "tcmalloc.page_heap_unmapped", "tcmalloc.central_free",
			   "tcmalloc.transfer_free", "tcmalloc.thread_free"},
};

static void add_counter(struct spool_stream *s, int64_t ns, const char *name, uint64_t value)
{
	uint32_t string = recording_string(s->tables, name, strlen(name));
	uint32_t unit = recording_string(s->tables, "bytes", 5);
	int error = string == RECORDING_NONE || unit == RECORDING_NONE
			? MAYFLY_E_MEMORY
			: trace_writer_counter(s->trace, ns, string, unit, (double)value);

	if (error)
		fail(s, error);
}

static void read_allocator(struct spool_stream *s, struct writer *w, struct varint_in *in)
{
	uint64_t value[SPOOL_ALLOCATOR_VALUES], whose, count;
	int64_t ns;

	varint_s(in);
	whose = varint_u(in);
	count = varint_u(in);
	if (whose >= sizeof(allocator_counters) / sizeof(*allocator_counters) ||
	    count > SPOOL_ALLOCATOR_VALUES)
		varint_fail(in);
	for (uint64_t i = 0; i < count && !in->bad; i++)
		value[i] = varint_u(in);
	if (in->bad)
		return;
	w->ticks = w->due;
	ns = moment(s, w->ticks);
	for (uint64_t i = 0; s->trace && i < count && !s->error; i++)
		if (allocator_counters[whose][i])
			add_counter(s, ns, allocator_counters[whose][i], value[i]);
}

/* ---- forks ---- */

static int compare_serial(const void *a, const void *b)
{
	const struct live_block *x = a, *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

static void forget_fork(struct spool_stream *s, size_t index)
{
	s->fork_blocks -= s->fork[index].blocks;
	free(s->fork[index].block);
	s->forks--;
	memmove(s->fork + index, s->fork + index + 1, (s->forks - index) * sizeof(*s->fork));
}

static void keep_fork(struct spool_stream *s, uint64_t ticks)
{
	struct fork *f;

	while (s->forks &&
	       (s->forks == MOST_FORKS || s->fork_blocks + s->live.used > MOST_FORK_BLOCKS))
		forget_fork(s, 0);
	f = &s->fork[s->forks];
	*f = (struct fork){.ticks = ticks};
	f->block = malloc((s->live.used + 1) * sizeof(*f->block));
	if (!f->block) {
		fail(s, MAYFLY_E_MEMORY);
		return;
	}
	for (size_t i = 0; i < s->live.high; i++)
		if (s->live.block[i].key)
			f->block[f->blocks++] = s->live.block[i];
	qsort(f->block, f->blocks, sizeof(*f->block), compare_serial);
	s->fork_blocks += f->blocks;
	s->forks++;
}

static void read_fork(struct spool_stream *s, struct writer *w, struct varint_in *in)
{
	varint_s(in);
	if (in->bad)
		return;
	w->ticks = w->due;
	moment(s, w->ticks);
	if (s->options.only_fork) {
		if (w->ticks != s->options.only_fork)
			return;
		s->stopped = true;
	}
	if (s->options.keep_forks)
		keep_fork(s, w->ticks);
}

/* The child's allocations at time 0. */
static int inherit_blocks(struct spool_stream *s, const struct recording *parent,
			  const struct fork *f, struct stacks_heritage *h)
{
	for (size_t i = 0; i < f->blocks && !s->error; i++) {
		const struct live_block *old = &f->block[i];
		const struct recording_thread *t = &parent->thread[old->thread];
		const char *name = recording_text(parent, t->name);
		struct trace_block block;
		struct live_block *b;
		bool there;

		name_thread(s, t->tid, name, strlen(name));
		b = live_put(&s->live, old->key, &there);
		if (!b || s->error)
			return MAYFLY_E_MEMORY;
		b->serial = old->serial;
		b->size = old->size;
		b->ticks = old->ticks; /* or sample */
		b->flags = (old->flags & (MAYFLY_FLAG_REALLOC | MAYFLY_FLAG_HEAP_MASK)) |
			   MAYFLY_FLAG_INHERITED;
		b->thread = index_thread(s, t->tid);
		b->node = heritage_node(h, old->node);
		if (b->node == RECORDING_NONE)
			return MAYFLY_E_MEMORY;
		if (s->exact)
			b->ticks = 0;
		s->truncated += heritage_truncated(h, old->node);
		s->inherited++;
		block = trace_block(s, b);
		hand_alloc(s, 0, b, &block);
	}
	return s->error;
}

/* What was live in the parent at the fork is live here. */
static int inherit(struct spool_stream *s, struct spool_stream *parent)
{
	struct stacks_heritage *h;
	size_t i;
	int error;

	if (!parent || !s->header.fork_parent_pid || parent->exact != s->exact)
		return 0;
	for (i = 0; i < parent->forks; i++)
		if (parent->fork[i].ticks == s->header.fork_ticks)
			break;
	if (i == parent->forks)
		return 0;
	h = heritage_begin(&s->stacks, parent->tables);
	if (!h)
		return MAYFLY_E_MEMORY;
	error = inherit_blocks(s, parent->tables, &parent->fork[i], h);
	heritage_end(h);
	forget_fork(parent, i);
	return error;
}

/* ---- rounds ---- */

/* Applies a record with a tag. */
static void read_tagged(struct spool_stream *s, struct writer *w, uint8_t tag)
{
	struct varint_in in = varint_begin(w->at + 1, (size_t)(w->end - w->at - 1));

	apply_waiting(s);
	/* In an exact spool blocks have no ids. */
	if (s->exact && (tag == SPOOL_SAMPLE || tag == SPOOL_FREE))
		tag = UINT8_MAX;
	switch (tag) {
	case SPOOL_PAD:
		w->over = true;
		return;
	case SPOOL_SAMPLE:
		read_sample(s, w, &in);
		break;
	case SPOOL_FREE:
		read_free(s, w, &in);
		break;
	case SPOOL_THREAD:
		read_thread(s, w, &in);
		break;
	case SPOOL_INTERVAL:
		read_interval(w, &in);
		break;
	case SPOOL_MODULE:
	case SPOOL_GONE:
		read_module(s, w, &in, tag == SPOOL_GONE);
		break;
	case SPOOL_LOST:
		read_lost(s, w, &in);
		break;
	case SPOOL_FORK:
		read_fork(s, w, &in);
		break;
	case SPOOL_PLACE:
		read_place(s, w, &in);
		break;
	case SPOOL_PROMOTE:
		read_promote(s, w, &in);
		break;
	case SPOOL_HEAP_END:
		read_heap_end(s, w, &in);
		break;
	case SPOOL_ALLOCATOR:
		read_allocator(s, w, &in);
		break;
	default:
		varint_fail(&in);
	}
	if (in.bad)
		damaged(s, w);
	else
		w->at = in.at;
}

#define FAST_BYTES 64u /* that must be readable for fields to be loaded without looking */

static inline uint64_t load_fast(const uint8_t *at, unsigned code)
{
	uint64_t value;

	memcpy(&value, at, 8);
	return value & width_mask[code];
}

/*
 * The common records, one after the other: ALLOC with few frames popped and pushed, RELEASE without
 * realloc. Stops before anything else, which the careful functions above then look at: other
 * records, records not due, damage, the end of what is there.
 */
static void run_exact(struct spool_stream *s, struct writer *w, uint64_t last, uint64_t *records)
{
	const uint8_t *end = w->end;
	const uint8_t *at = w->at, *next;
	uint64_t ticks = w->ticks, turned = w->turned, due, place;
	uint32_t thread = this_thread(s, w);

	while (*records && w->limit - at >= (ptrdiff_t)FAST_BYTES && at < end) {
		uint8_t tag = *at;
		unsigned width = 1u << (tag & 3), place_width = 1u << (tag >> 2 & 3);
		struct waiting *e;

		due = ticks + varint_unzigzag(load_fast(at + 1, tag & 3));
		if (!(tag & SPOOL_EXACT_RECORD) || due > last)
			break;
		next = at + 1 + width;
		place = turned + varint_unzigzag(load_fast(next, tag >> 2 & 3));
		next += place_width;
		if (s->waiting_count == MOST_WAITING)
			apply_waiting(s);
		e = &s->waiting[s->waiting_count];
		e->release = tag & SPOOL_EXACT_RELEASE;
		if (e->release) {
			if (tag >> 4 & 3 & SPOOL_FLAG_REALLOC || next > end)
				break;
		} else {
			unsigned size_code = tag >> 4 & 3;
			uint32_t word, pop, push;
			enum stack_result result;
			struct varint_in in;

			e->block.size = load_fast(next, size_code);
			next += 1u << size_code;
			word = (uint32_t)load_fast(next, 1);
			next += 2;
			pop = word & 63;
			push = word >> 6 & 63;
			if (pop == 63 || push == 63 || word >> 12 & SPOOL_FLAG_UNDO || next > end)
				break;
			in = varint_begin(next, (size_t)(end - next));
			result = stack_change(&s->stacks, &w->stack, pop, push, &in);
			if (result != STACK_DONE) {
				if (result == STACK_MEMORY)
					fail(s, MAYFLY_E_MEMORY);
				damaged(s, w);
				break;
			}
			next = in.at;
			e->block.node = stack_node(&w->stack);
			e->block.flags = word >> 12 & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0;
			s->truncated += stack_truncated(&w->stack);
		}
		if (e->release)
			e->block.flags = 0;
		e->block.hits = 0;
		e->block.interval_log2 = 0;
		e->ticks = ticks = due;
		turned = place;
		e->key = key_of(turned << 4 | turned >> 60);
		e->block.thread = thread;
		s->waiting_count++;
		at = next;
		--*records;
	}
	w->at = at;
	w->ticks = ticks;
	w->turned = turned;
}

/* Takes records of one writer that are due up to `last`. True: it goes on with a later one. */
static bool run_writer(struct spool_stream *s, struct writer *w, uint64_t last, uint64_t *records)
{
	uint64_t most = *records;

	while (w->due <= last && most && !s->error && !s->stopped) {
		uint8_t tag = *w->at;

		if (tag & SPOOL_EXACT_RECORD && s->exact) {
			const uint8_t *before = w->at;

			run_exact(s, w, last, &most);
			if (w->at != before || w->over) {
				if (next_record(s, w))
					continue;
				*records = most;
				return false;
			}
		}
		most--;
		if (!(tag & SPOOL_EXACT_RECORD)) {
			read_tagged(s, w, tag);
		} else if (!s->exact) {
			damaged(s, w);
		} else if (!read_exact(s, w, tag)) {
			*records = most;
			return false;
		}
		if (!w->over && w->at < w->end && *w->at & SPOOL_EXACT_RECORD) {
			read_due(w);
		} else if (!next_record(s, w)) {
			*records = most;
			return false;
		}
	}
	*records = most;
	return true;
}

static void sift_down(struct writer **heap, size_t count, size_t i)
{
	struct writer *w = heap[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= count)
			break;
		if (child + 1 < count && heap[child + 1]->due < heap[child]->due)
			child++;
		if (heap[child]->due >= w->due)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = w;
}

/* Up to when the first writer of the heap may go on. */
static uint64_t run_until(const struct spool_stream *s, uint64_t last)
{
	uint64_t until = last;

	for (size_t i = 1; i < 3 && i < s->heaped; i++)
		if (s->heap[i]->due < until)
			until = s->heap[i]->due;
	return until;
}

/* All records up to `last`, oldest first. */
static bool merge(struct spool_stream *s, uint64_t last, uint64_t records)
{
	s->heaped = 0;
	for (size_t i = 0; i < s->writers; i++)
		if (next_record(s, s->writer[i]) && s->writer[i]->due <= last)
			s->heap[s->heaped++] = s->writer[i];
	for (size_t i = s->heaped / 2; i--;)
		sift_down(s->heap, s->heaped, i);
	while (s->heaped && records && !s->error && !s->stopped) {
		bool more = run_writer(s, s->heap[0], run_until(s, last), &records);

		if (!more || s->heap[0]->due > last)
			s->heap[0] = s->heap[--s->heaped];
		if (s->heaped)
			sift_down(s->heap, s->heaped, 0);
	}
	return s->heaped != 0;
}

/* A packet that has been found goes into its writer's queue, which is in the order of sequence. */
static int enqueue(void *context, struct spool_queued *q)
{
	struct spool_stream *s = context;
	struct writer *w = find_writer(s, q->packet->writer);
	struct spool_queued **place;

	if (!w) {
		free(q);
		return MAYFLY_E_MEMORY;
	}
	if (!w->first) {
		w->first = w->last = q;
		w->begun = false;
		return 0;
	}
	if (w->last->sequence <= q->sequence) {
		w->last->next = q;
		w->last = q;
		return 0;
	}
	/* Not before the one at hand. */
	place = w->begun ? &w->first->next : &w->first;
	while (*place && (*place)->sequence <= q->sequence)
		place = &(*place)->next;
	q->next = *place;
	*place = q;
	if (!q->next)
		w->last = q;
	return 0;
}

/* ---- the stream ---- */

static int add_clock_points(struct spool_stream *s)
{
	int error = tick_clock_add(&s->clock, atomic_load(&s->packets.header->end_ticks),
				   atomic_load(&s->packets.header->end_mono_ns));

	for (size_t i = 0; i < s->writers; i++)
		for (struct spool_queued *q = s->writer[i]->first; q && !error; q = q->next) {
			const struct spool_packet *p = q->packet;

			if (!atomic_load(&p->used))
				continue;
			error = tick_clock_add(&s->clock, p->ticks, p->mono_ns);
			if (!error)
				error = tick_clock_add(&s->clock, atomic_load(&p->late_ticks),
						       atomic_load(&p->late_mono_ns));
		}
	return error;
}

/* A whole spool: all packets are found, all its clock pairs too. */
static int take_whole(struct spool_stream *s)
{
	int error = packets_find(&s->packets, true, enqueue, s);

	return error ? error : add_clock_points(s);
}

/* The MODULE records of consumed packets are not in the spool any more. */
static int know_modules(struct spool_stream *s, const struct mayfly_trace *before)
{
	size_t modules = before ? mayfly_trace_info(before)->modules : 0;

	for (size_t i = 0; i < modules; i++) {
		const struct mayfly_module *m = mayfly_trace_module(before, i);
		struct stacks_module known = {.start = m->start,
					      .end = m->end,
					      .bias = m->bias,
					      .path = (const uint8_t *)m->path,
					      .path_length = strlen(m->path),
					      .build_id = m->build_id,
					      .build_id_length = m->build_id_length};

		if (m->to_ns == INT64_MAX && m->start <= m->end &&
		    !stacks_module_seen(&s->stacks, &known, m->from_ns))
			return MAYFLY_E_MEMORY;
	}
	return 0;
}

static int set_up(struct spool_stream *s, const struct spool_source *source)
{
	const struct spool_header *mapped;
	int error = spool_read_header(source, &mapped, &s->header);

	if (error)
		return error;
	s->exact = s->header.mode == SPOOL_EXACT;
	s->beginning_missing = atomic_load(&s->header.consumed_packets) != 0;
	packets_begin(&s->packets, source, mapped, &s->header);
	tick_clock_begin(&s->clock, s->header.clock == SPOOL_CLOCK_TSC, s->header.start_ticks,
			 s->header.start_mono_ns);
	stacks_begin(&s->stacks, s->tables, s->trace);
	error = spool_describe(source, &s->header, s->beginning_missing, s->tables);
	if (!error)
		error = know_modules(s, s->options.before);
	if (!error)
		error = inherit(s, s->options.parent);
	s->options.parent = NULL;
	if (!error && !s->options.online)
		error = take_whole(s);
	return error;
}

int spool_stream_open(const struct spool_source *source, const struct spool_stream_options *options,
		      struct recording *tables, struct trace_writer *writer,
		      struct spool_stream **stream)
{
	struct spool_stream *s = calloc(1, sizeof(*s));
	int error;

	*stream = NULL;
	if (!s)
		return MAYFLY_E_MEMORY;
	s->options = *options;
	s->tables = tables;
	s->trace = writer;
	error = set_up(s, source);
	if (error) {
		spool_stream_close(s);
		return error;
	}
	*stream = s;
	return 0;
}

int spool_stream_writer_options(const struct spool_source *source,
				struct trace_writer_options *options)
{
	const struct spool_header *mapped;
	struct spool_header header;
	int error = spool_read_header(source, &mapped, &header);

	if (error)
		return error;
	options->mode = header.mode == SPOOL_EXACT ? MAYFLY_EXACT : MAYFLY_SAMPLED;
	options->sampler = header.sampler;
	options->interval_log2 = header.interval_log2;
	return 0;
}

static int release_packets(struct spool_stream *s)
{
	/* Without a writer nothing is waited for. */
	bool waits = s->trace && !s->options.release_early;

	return packets_release(&s->packets, waits ? trace_writer_chunks(s->trace) : UINT64_MAX);
}

/* Takes what is due up to `last`. */
static bool take(struct spool_stream *s, uint64_t last, uint64_t records)
{
	bool more;
	int error;

	if (s->error)
		return false;
	s->inversion_ticks = (uint64_t)(INVERSION_NS * s->clock.ticks_per_ns);
	more = merge(s, last, records);
	apply_waiting(s);
	error = release_packets(s);
	if (error)
		fail(s, error);
	return more && !s->error && !s->stopped;
}

/* Events up to the round's time have been taken, so its time is where the history is. */
static void reach_round(struct spool_stream *s)
{
	int error;

	moment(s, s->ticks);
	error = s->trace ? trace_writer_time(s->trace, s->now_ns) : 0;
	if (error)
		fail(s, error);
}

/* With the first record, or with what the recorder knows of the end. */
static void settle_clock(struct spool_stream *s, const struct spool_ending *ending)
{
	int error = 0;

	if (s->options.online || s->settled)
		return;
	s->settled = true;
	if (ending && ending->end_ticks)
		error = tick_clock_add(&s->clock, ending->end_ticks, ending->end_mono_ns);
	if (!error)
		error = tick_clock_settle(&s->clock);
	if (error)
		fail(s, error);
}

int spool_stream_advance(struct spool_stream *s, uint64_t ticks, uint64_t mono_ns, bool *more)
{
	uint64_t last = ticks ? ticks - 1 : UINT64_MAX;
	bool goes_on;
	int error;

	if (more)
		*more = false;
	if (s->error || s->stopped)
		return s->error;
	/* The clock's line must stay for the rest of a round: it only reaches back to the one
	 * before. */
	if (s->options.online && !s->unfinished) {
		if (ticks > s->ticks)
			s->ticks = ticks;
		if (!s->ticks)
			return 0;
		tick_clock_now(&s->clock, ticks, mono_ns);
		error = packets_find(&s->packets, false, enqueue, s);
		if (error)
			fail(s, error);
	}
	settle_clock(s, NULL);
	if (s->options.online)
		last = s->ticks - 1;
	goes_on = take(s, last, ROUND_RECORDS);
	s->unfinished = goes_on;
	if (!goes_on && s->options.online && !s->error)
		reach_round(s);
	if (more)
		*more = goes_on || (s->options.online && !s->error && ticks > s->ticks);
	return s->error;
}

int spool_stream_finish(struct spool_stream *s, const struct spool_ending *ending)
{
	struct spool_totals totals;
	int error;

	if (s->error)
		return s->error;
	s->final = true;
	settle_clock(s, ending);
	if (s->options.online) {
		if (ending && ending->end_ticks)
			tick_clock_now(&s->clock, ending->end_ticks, ending->end_mono_ns);
		error = packets_find(&s->packets, true, enqueue, s);
		if (error)
			fail(s, error);
	}
	take(s, UINT64_MAX, UINT64_MAX);
	measure_pages(s, FRAGMENTS_END);
	if (s->error)
		return s->error;
	totals = (struct spool_totals){
	    .allocations = s->allocations,
	    .frees = s->frees,
	    .inherited = s->inherited,
	    .truncated = s->truncated,
	    .lost_samples = s->lost_samples,
	    .lost_frees = s->lost_frees,
	    .last_ns = s->now_ns,
	    .damaged = s->packets.damaged,
	    .beginning_missing = s->beginning_missing,
	};
	error = spool_describe_end(&s->packets.source, s->packets.header, &s->clock, ending,
				   &totals, s->tables);
	if (!error && s->trace)
		error = trace_writer_time(s->trace, s->tables->info.duration_ns);
	return error;
}

static uint64_t tables_bytes(const struct recording *r)
{
	return r->module_size * sizeof(*r->module) + r->thread_size * sizeof(*r->thread) +
	       r->frame_size * sizeof(*r->frame) + r->location_size * sizeof(*r->location) +
	       r->node_size * sizeof(*r->node) + r->string_bytes_size +
	       r->strings_size * sizeof(*r->string_start) +
	       r->string_hash_size * sizeof(*r->string_hash) +
	       r->node_hash_size * sizeof(*r->node_hash) + r->latest_size * sizeof(*r->latest) +
	       r->frame_hash_size * sizeof(*r->frame_hash);
}

void spool_stream_status(const struct spool_stream *s, struct spool_stream_status *status)
{
	const struct spool_header *h = s->packets.header;

	*status = (struct spool_stream_status){
	    .time_ns = s->now_ns,
	    .allocations = s->allocations,
	    .frees = s->frees,
	    .unknown_frees = s->unknown_frees,
	    .live_blocks = s->live.used,
	    .live_bytes = s->live_bytes > 0 ? (uint64_t)s->live_bytes : 0,
	    .dropped = atomic_load(&h->dropped_samples) + atomic_load(&h->dropped_frees),
	    .held_packets = s->packets.held,
	    .memory_bytes = sizeof(*s) + live_bytes(&s->live) +
			    s->fork_blocks * sizeof(*s->live.block) +
			    s->stacks.addresses_size * sizeof(*s->stacks.address) +
			    s->packets.held * sizeof(struct spool_queued) + tables_bytes(s->tables),
	};
	for (size_t i = 0; i < s->writers; i++) {
		const struct spool_stack *stack = &s->writer[i]->stack;

		status->memory_bytes += sizeof(**s->writer) + stack->size * sizeof(*stack->frame);
		if (stack->cache)
			status->memory_bytes += SPOOL_CACHE_SIZE * sizeof(*stack->cache);
	}
}

void spool_stream_renumber(struct spool_stream *s, struct trace_writer *writer,
			   uint64_t (*renumber)(void *context, uint64_t serial), void *context)
{
	s->trace = writer;
	s->stacks.writer = writer;
	for (size_t i = 0; i < s->live.high; i++) {
		struct live_block *b = &s->live.block[i];

		if (b->key && b->serial != LIVE_THINNED)
			b->serial = renumber(context, b->serial) & LIVE_THINNED;
	}
}

void spool_stream_thin(struct spool_stream *s, uint32_t interval_log2, uint64_t seed)
{
	s->thin_log2 = interval_log2;
	s->thin_seed = seed;
}

void spool_stream_close(struct spool_stream *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->writers; i++) {
		struct writer *w = s->writer[i];

		while (w->first) {
			struct spool_queued *next = w->first->next;

			free(w->first);
			w->first = next;
		}
		stack_free(&w->stack);
		free(w);
	}
	while (s->forks)
		forget_fork(s, s->forks - 1);
	packets_free(&s->packets);
	tick_clock_free(&s->clock);
	stacks_free(&s->stacks);
	live_free(&s->live);
	free(s->writer);
	free(s->writer_slot);
	free(s->heap);
	free(s->thread);
	free(s->thread_slot);
	free(s->last_key);
	free(s);
}
