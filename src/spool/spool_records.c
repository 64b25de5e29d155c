/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One writer's records, one after the other. See spool_internal.h.
 *
 *	packet: | THREAD | SAMPLE | FREE | TRACK | ...
 *		  at ------^				read_due(): when; then read_...(): what
 *
 * Time, id and address of a record are relative to those of the record before it in its packet, so
 * each writer keeps the last ones. A record's time is read first, to know when the record is due;
 * the rest is read when it is applied, by the function that record_kinds[] has for its tag.
 *
 * The spool is memory that the program may change at any time. Some bytes, such as tags, are read
 * twice and may differ the second time; whatever they say, no read leaves the packet.
 */
#include "spool/spool_internal.h"

#include <string.h>

#include "format/format.h"

static const uint64_t width_mask[4] = {0xff, 0xffff, 0xffffffff, UINT64_MAX};

/* A field of 1 << code bytes; bytes beyond the limit count as 0. */
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

typedef void read_record_fn(struct spool_stream *s, struct stream_writer *w, struct varint_in *in);

static read_record_fn read_sample, read_free, read_thread, read_interval, read_module, read_gone,
    read_lost, read_fork, read_promote, read_place, read_heap_end, read_allocator, read_shrink;

/* What stands before a record's time, and what reads the fields after it. */
static const struct {
	enum { TIME, FLAGS_AND_TIME, NO_TIME } begins;
	read_record_fn *read;
} record_kinds[] = {
    [SPOOL_PAD] = {NO_TIME, NULL},
    [SPOOL_SAMPLE] = {FLAGS_AND_TIME, read_sample},
    [SPOOL_FREE] = {FLAGS_AND_TIME, read_free},
    [SPOOL_THREAD] = {NO_TIME, read_thread},
    [SPOOL_INTERVAL] = {NO_TIME, read_interval},
    [SPOOL_MODULE] = {TIME, read_module},
    [SPOOL_GONE] = {TIME, read_gone},
    [SPOOL_LOST] = {TIME, read_lost},
    [SPOOL_FORK] = {TIME, read_fork},
    [SPOOL_PROMOTE] = {TIME, read_promote},
    [SPOOL_PLACE] = {TIME, read_place},
    [SPOOL_HEAP_END] = {TIME, read_heap_end},
    [SPOOL_ALLOCATOR] = {TIME, read_allocator},
    [SPOOL_TYPE] = {NO_TIME, stream_read_type},
    [SPOOL_LABEL] = {NO_TIME, stream_read_label},
    [SPOOL_LABELS] = {NO_TIME, stream_read_labels},
    [SPOOL_SHRINK] = {FLAGS_AND_TIME, read_shrink},
};
_Static_assert(sizeof(record_kinds) / sizeof(*record_kinds) == SPOOL_TAGS, "each tag has a row");

/* Sets when the current record is due. False: it is damaged. */
static inline bool read_due(struct stream_writer *w)
{
	uint8_t tag = *w->at;
	struct varint_in in;

	w->fields = w->at + 1;
	if (tag & SPOOL_EXACT_RECORD) {
		w->due = w->ticks +
			 varint_unzigzag(load_field(w->at + 1, spool_time_width(tag), w->limit));
		return true;
	}
	if (tag & SPOOL_TRACK) {
		unsigned code = tag >> SPOOL_TRACK_WIDTH_SHIFT & 3;

		w->due = w->ticks + varint_unzigzag(load_field(w->at + 1, code, w->limit));
		return true;
	}
	w->due = w->ticks;
	if (tag < SPOOL_TAGS && record_kinds[tag].begins == NO_TIME)
		return true;
	in = varint_begin(w->fields, (size_t)(w->end - w->fields));
	if (tag < SPOOL_TAGS && record_kinds[tag].begins == FLAGS_AND_TIME)
		w->flags = varint_byte(&in);
	w->due += (uint64_t)varint_s(&in);
	w->fields = in.at;
	return !in.bad;
}

static void pass_taken(struct spool_stream *s, struct stream_writer *w);

static void begin_writer_packet(struct spool_stream *s, struct stream_writer *w)
{
	const struct spool_packet *p = w->first->packet;
	uint32_t tid = p->tid;

	w->begun = true;
	w->over = false;
	w->moving = 0;
	w->moved = false;
	w->at = w->end = (const uint8_t *)(p + 1);
	w->limit = w->at + w->first->readable;
	w->ticks = p->ticks;
	w->turned = 0;
	w->id = s->header.first_sample_id;
	w->interval_log2 = p->interval_log2;
	if (w->interval_log2 > TRACE_MAX_INTERVAL)
		stream_damaged(s, w);
	if (tid != w->tid) {
		w->tid = tid;
		w->thread = RECORDING_NONE;
	}
	stream_forget_ids(w);
	stack_begin_packet(&w->stack, s->packets.packet_bytes);
	if (s->options.resume) {
		pass_taken(s, w);
		stream_resume_spans(s, w);
	}
}

/* Looks how much has been written to the current packet by now. */
static void look_again(struct spool_stream *s, struct stream_writer *w)
{
	const struct spool_packet *p = w->first->packet;
	uint32_t used = atomic_load_explicit(&p->used, memory_order_acquire);
	size_t before = (size_t)(w->end - (const uint8_t *)(p + 1));

	if (used < before || used > s->packets.packet_bytes - sizeof(*p)) {
		stream_damaged(s, w);
		return;
	}
	if (used > w->first->readable) { /* cut off */
		s->packets.damaged = true;
		used = (uint32_t)w->first->readable;
	}
	w->end = (const uint8_t *)(p + 1) + used;
}

bool stream_next_record(struct spool_stream *s, struct stream_writer *w)
{
	while (w->first) {
		struct spool_queued *q = w->first;

		if (!w->begun)
			begin_writer_packet(s, w);
		if (!w->over && w->at == w->end)
			look_again(s, w);
		if (!w->over && w->at < w->end) {
			if (read_due(w))
				return true;
			stream_damaged(s, w);
		}
		/* A packet is finished once its writer has a later one. That must have been known
		 * before `used` was read, so that the packet cannot have grown since. */
		if (!q->next)
			return false;
		w->first = q->next;
		w->begun = false;
		stream_apply_waiting(s);
		packets_consumed(&s->packets, q, s->trace ? trace_writer_chunks(s->trace) : 0);
	}
	return false;
}

/* The flags that the address of an ALLOC gives its block: its heap. */
static inline uint32_t flags_of_heap(uint64_t address)
{
	if (__builtin_expect(!(address & (SPOOL_ADDRESS_POOL | SPOOL_ADDRESS_POOL_MAPPED)), 1))
		return 0;
	return (address & SPOOL_ADDRESS_POOL ? MAYFLY_HEAP_POOL : MAYFLY_HEAP_POOL_MAPPED)
	       << MAYFLY_FLAG_HEAP_SHIFT;
}

/* Events are applied many at a time, so that their slots and blocks are fetched into the cache
 * together. */
static inline struct stream_waiting *add_waiting(struct spool_stream *s, struct stream_writer *w,
						 uint64_t address, uint32_t flags)
{
	struct stream_waiting *e;

	if (s->waiting_count == STREAM_MOST_WAITING)
		stream_apply_waiting(s);
	e = &s->waiting[s->waiting_count++];
	e->ticks = w->ticks;
	e->key = stream_key(address);
	e->block = (struct trace_block){
	    .thread = stream_this_thread(s, w), .flags = (uint8_t)flags, .labels = w->labels};
	return e;
}

enum outcome { GONE, UNDONE, UNKNOWN, DONE /* by the ALLOC of another block */ };

/* Goes past one record that is not an event of a block, on the way to the outcome of a realloc.
 * known: types of the packet. */
static bool skip_record(struct spool_stream *s, const struct stream_ids *known,
			struct varint_in *in)
{
	uint8_t tag = *in->at;

	if (tag & SPOOL_EXACT_RECORD)
		return false;
	if (tag != SPOOL_THREAD && tag != SPOOL_INTERVAL)
		return stream_skip_track(s, known, in);
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
	size_t offset = 1 + (1u << spool_time_width(tag)) + (1u << spool_address_width(tag)) +
			(1u << spool_size_width(tag));

	if (!(tag & SPOOL_EXACT_RECORD) || tag & SPOOL_EXACT_RELEASE ||
	    varint_left(in) < offset + 2)
		return false;
	return spool_alloc_flags(at[offset] | (uint32_t)at[offset + 1] << 8) & SPOOL_FLAG_UNDO;
}

/* The outcome of the realloc whose RELEASE ends at `at`. The writer's next event of a block tells
 * it. */
static enum outcome realloc_outcome(struct spool_stream *s, struct stream_writer *w,
				    const uint8_t *at)
{
	struct spool_queued *q = w->first;
	const uint8_t *end = w->end;
	uint32_t used;

	stream_look_ahead(s);
	for (;;) {
		struct varint_in in = varint_begin(at, (size_t)(end - at));

		while (varint_left(&in))
			if (!skip_record(s, q == w->first ? &w->types : NULL, &in))
				return in.bad || !is_undo(&in) ? GONE : UNDONE;
		if (q == w->first) { /* more may have come since */
			at = end;
			look_again(s, w);
			end = w->end;
			if (w->over)
				return GONE;
			if (at < end)
				continue;
		}
		q = q->next;
		if (!q)
			return s->final ? GONE : UNKNOWN;
		used = atomic_load_explicit(&q->packet->used, memory_order_acquire);
		if (used > q->readable)
			return GONE;
		stream_look_ahead(s);
		at = (const uint8_t *)(q->packet + 1);
		end = at + used;
	}
}

/* Changes the packet's stack by the frames at *in. False: they are damaged, and the packet ends
 * here. */
static inline bool change_stack(struct spool_stream *s, struct stream_writer *w, uint32_t pop,
				uint32_t push, struct varint_in *in)
{
	enum stack_result result = stack_change(&s->stacks, &w->stack, pop, push, in);

	if (__builtin_expect(result == STACK_DONE, 1))
		return true;
	if (result == STACK_MEMORY)
		stream_fail(s, MAYFLY_E_MEMORY);
	stream_damaged(s, w);
	return false;
}

/* ALLOC: what comes after the address. */
static void read_alloc_record(struct spool_stream *s, struct stream_writer *w, const uint8_t *at,
			      uint8_t tag, uint64_t ticks, uint64_t turned)
{
	unsigned width = spool_size_width(tag);
	uint64_t size = load_field(at, width, w->limit);
	uint32_t word, pop, push;
	struct varint_in in;
	struct stream_waiting *e;

	at += 1u << width;
	word = (uint32_t)load_field(at, 1, w->limit);
	at += 2;
	pop = spool_alloc_pop(word);
	push = spool_alloc_push(word);
	if (pop == SPOOL_ALLOC_MORE) {
		pop = (uint32_t)load_field(at, 1, w->limit);
		at += 2;
	}
	if (push == SPOOL_ALLOC_MORE) {
		push = (uint32_t)load_field(at, 1, w->limit);
		at += 2;
	}
	if (at > w->end) {
		stream_damaged(s, w);
		return;
	}
	w->ticks = ticks;
	w->turned = turned;
	if (spool_alloc_flags(word) & SPOOL_FLAG_UNDO) {
		w->at = at;
		return;
	}
	in = varint_begin(at, (size_t)(w->end - at));
	if (!change_stack(s, w, pop, push, &in))
		return;
	w->at = in.at;
	turned = SPOOL_UNTURN(turned);
	e = add_waiting(s, w, turned,
			(spool_alloc_flags(word) & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0) |
			    flags_of_heap(turned));
	e->release = false;
	e->block.size = size;
	e->block.node = stack_node(&w->stack);
	s->truncated += stack_truncated(&w->stack);
}

/* ALLOC or RELEASE. False: it has to wait for the records after it. */
static uint8_t release_flags(uint8_t tag)
{
	return spool_release_flags(tag) & SPOOL_RELEASE_ENDING ? MAYFLY_FLAG_ENDING : 0;
}

static bool read_exact(struct spool_stream *s, struct stream_writer *w, uint8_t tag)
{
	const uint8_t *at = w->at + 1 + (1u << spool_time_width(tag));
	unsigned width = spool_address_width(tag);
	uint64_t turned = w->turned + varint_unzigzag(load_field(at, width, w->limit));
	enum outcome outcome = GONE;
	bool realloced;

	at += 1u << width;
	if (!(tag & SPOOL_EXACT_RELEASE)) {
		read_alloc_record(s, w, at, tag, w->due, turned);
		return true;
	}
	if (at > w->end) {
		stream_damaged(s, w);
		return true;
	}
	realloced = spool_release_flags(tag) & SPOOL_FLAG_REALLOC;
	if (realloced && !s->passing) {
		outcome = w->moved ? DONE : realloc_outcome(s, w, at);
		w->moved = false;
		w->moving = outcome == UNKNOWN ? stream_key(SPOOL_UNTURN(turned)) : 0;
		if (outcome == UNKNOWN)
			return false;
	}
	w->at = at;
	w->ticks = w->due;
	w->turned = turned;
	if (outcome == GONE)
		add_waiting(s, w, SPOOL_UNTURN(turned),
			    realloced ? MAYFLY_FLAG_REALLOC : release_flags(tag))
		    ->release = true;
	return true;
}

/* The record's fields have been read: takes its time. False: it is damaged, or in the part already. */
static bool is_new_record(struct spool_stream *s, struct stream_writer *w,
			  const struct varint_in *in)
{
	if (in->bad)
		return false;
	w->ticks = w->due;
	return !s->passing;
}

static void next_id(struct stream_writer *w, struct varint_in *in)
{
	w->id += (uint64_t)varint_s(in);
}

static void take_block(struct spool_stream *s, struct stream_writer *w, uint32_t flags,
		       uint64_t size)
{
	struct stream_waiting e = {
	    .ticks = w->ticks,
	    .key = stream_block_key(s, w->id),
	    .block = {.size = size,
		      .node = stack_node(&w->stack),
		      .thread = stream_this_thread(s, w),
		      .flags = (uint8_t)flags,
		      .labels = w->labels},
	};

	stream_take_block(s, &e);
}

static void read_sample(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint32_t flags = w->flags, heap = flags >> SPOOL_FLAG_HEAP_SHIFT & 7;
	uint32_t interval_log2 = w->interval_log2;
	uint64_t size, hits, pop, push;
	enum stack_result result;
	struct trace_block block;
	struct live_block *b;
	int64_t ns;

	if (mayfly_heap_is_ocaml(heap))
		interval_log2 = atomic_load(&s->packets.header->ocaml_interval_log2);
	if (interval_log2 > TRACE_MAX_INTERVAL || heap > SPOOL_HEAP_MAPPING ||
	    (s->exact && heap != SPOOL_HEAP_MAPPING && !mayfly_heap_is_ocaml(heap)))
		varint_fail(in);
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
		stream_fail(s, MAYFLY_E_MEMORY);
	if (result != STACK_DONE) {
		varint_fail(in);
		return;
	}
	if (s->passing)
		return;
	s->truncated += stack_truncated(&w->stack);
	flags =
	    (flags & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0) | heap << MAYFLY_FLAG_HEAP_SHIFT;
	if (s->exact) {
		take_block(s, w, flags, size);
		return;
	}
	ns = stream_moment(s, w->ticks);
	b = stream_new_block(s, stream_block_key(s, w->id), ns, stream_this_thread(s, w), flags);
	if (!b)
		return;
	b->size = size;
	b->node = stack_node(&w->stack);
	b->sample.hits = hits < UINT32_MAX ? (uint32_t)hits : UINT32_MAX;
	b->sample.interval_log2 = interval_log2;
	b->labels = w->labels;
	block = stream_block(s, b);
	stream_hand_alloc(s, ns, b, &block);
}

static void read_free(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint8_t flags = w->flags;
	uint32_t *place;

	next_id(w, in);
	if (!is_new_record(s, w, in))
		return;
	place = live_find(&s->live, stream_block_key(s, w->id));
	if (!place) {
		s->unknown_frees += !s->forgets;
		return;
	}
	stream_hand_free(s, stream_moment(s, w->ticks), live_at(&s->live, place),
			 stream_this_thread(s, w),
			 (flags & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0) |
			     (flags & SPOOL_FLAG_TEMPORARY ? MAYFLY_FLAG_TEMPORARY : 0) |
			     (flags & SPOOL_FLAG_ENDING ? MAYFLY_FLAG_ENDING : 0));
	live_remove(&s->live, place);
}

static void read_shrink(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint8_t flags = w->flags;
	uint64_t bytes;

	next_id(w, in);
	bytes = varint_u(in);
	if (is_new_record(s, w, in))
		stream_shrink(s, stream_block_key(s, w->id), w->ticks, bytes,
			      stream_this_thread(s, w),
			      flags & SPOOL_FLAG_REALLOC ? MAYFLY_FLAG_REALLOC : 0);
}

static const uint8_t *read_length_and_bytes(struct varint_in *in, size_t *length)
{
	uint64_t bytes = varint_u(in);

	*length = (size_t)bytes;
	return varint_bytes(in, bytes);
}

static void read_thread(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint64_t tid = varint_u(in);
	size_t length;
	const uint8_t *name = read_length_and_bytes(in, &length);

	if (tid > UINT32_MAX)
		varint_fail(in);
	if (in->bad)
		return;
	if (w->tid != (uint32_t)tid) {
		w->tid = (uint32_t)tid;
		w->thread = RECORDING_NONE;
	}
	stream_name_thread(s, w->tid, name, length);
}

static void read_interval(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint8_t log2 = varint_byte(in);

	(void)s;
	if (log2 > TRACE_MAX_INTERVAL)
		varint_fail(in);
	else
		w->interval_log2 = log2;
}

static void read_module(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	struct stacks_module m = {.start = varint_fixed(in, 8)};

	m.end = varint_fixed(in, 8);
	m.bias = varint_fixed(in, 8);
	m.path = read_length_and_bytes(in, &m.path_length);
	m.build_id = read_length_and_bytes(in, &m.build_id_length);
	if (m.end < m.start)
		varint_fail(in);
	if (is_new_record(s, w, in) &&
	    !stacks_module_seen(&s->stacks, &m, stream_moment(s, w->ticks)))
		stream_fail(s, MAYFLY_E_MEMORY);
}

static void read_gone(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint64_t start = varint_fixed(in, 8);

	if (is_new_record(s, w, in) &&
	    !stacks_module_gone(&s->stacks, start, stream_moment(s, w->ticks)))
		stream_fail(s, MAYFLY_E_MEMORY);
}

static void read_lost(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint64_t samples = varint_u(in), frees = varint_u(in), events = varint_u(in);

	if (!is_new_record(s, w, in))
		return;
	if (samples < UINT32_MAX)
		s->lost_samples += samples;
	if (frees < UINT32_MAX)
		s->lost_frees += frees;
	if (events < UINT32_MAX)
		s->lost_events += events;
	if (events || (!samples && !frees))
		stream_open_doubt(w);
	if (samples && w->thread != RECORDING_NONE)
		s->last_key[w->thread] = 0;
}

static void read_place(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint64_t address = varint_fixed(in, 8);
	enum stack_result result;

	if (in->bad)
		return;
	w->ticks = w->due;
	result = stacks_place(&s->stacks, address, in);
	if (result == STACK_MEMORY)
		stream_fail(s, MAYFLY_E_MEMORY);
	if (result == STACK_DAMAGED)
		varint_fail(in);
}

static void read_promote(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	const struct live_block *b;
	const uint32_t *place;

	next_id(w, in);
	if (!is_new_record(s, w, in))
		return;
	place = live_find(&s->live, stream_block_key(s, w->id));
	b = place ? live_at(&s->live, place) : NULL;
	if (!b || !s->trace || b->serial == LIVE_THINNED)
		return;
	stream_fail(s, trace_writer_promote(s->trace, stream_moment(s, w->ticks), b->serial));
}

static void read_heap_end(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	if (is_new_record(s, w, in))
		stream_end_ocaml(s, stream_moment(s, w->ticks), stream_this_thread(s, w));
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
	uint32_t string = recording_name(s->tables, name);

	stream_fail(s, trace_writer_counter(s->trace, ns, string,
					    recording_name(s->tables, "bytes"), (double)value));
}

static void read_allocator(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	uint64_t value[SPOOL_ALLOCATOR_VALUES], whose = varint_u(in), count = varint_u(in);
	int64_t ns;

	if (whose >= sizeof(allocator_counters) / sizeof(*allocator_counters) ||
	    count > SPOOL_ALLOCATOR_VALUES)
		varint_fail(in);
	for (uint64_t i = 0; i < count && !in->bad; i++)
		value[i] = varint_u(in);
	if (!is_new_record(s, w, in))
		return;
	ns = stream_moment(s, w->ticks);
	for (uint64_t i = 0; s->trace && i < count && !s->error; i++)
		if (allocator_counters[whose][i])
			add_counter(s, ns, allocator_counters[whose][i], value[i]);
}

static void read_fork(struct spool_stream *s, struct stream_writer *w, struct varint_in *in)
{
	if (!is_new_record(s, w, in))
		return;
	stream_moment(s, w->ticks);
	if (s->options.only_fork) {
		if (w->ticks != s->options.only_fork)
			return;
		s->stopped = true;
	}
	if (s->options.keep_forks)
		stream_keep_fork(s, w->ticks);
}

/* ---- one after the other ---- */

/* Applies a record with a tag. */
static void read_tagged(struct spool_stream *s, struct stream_writer *w, uint8_t tag)
{
	struct varint_in in = varint_begin(w->fields, (size_t)(w->end - w->fields));

	if (tag != SPOOL_TYPE && tag != SPOOL_LABEL && tag != SPOOL_LABELS)
		stream_apply_waiting(s);
	if (tag == SPOOL_PAD) {
		w->over = true;
		return;
	}
	if (tag < SPOOL_TAGS)
		record_kinds[tag].read(s, w, &in);
	else
		stream_read_track(s, w, tag, &in);
	if (in.bad)
		stream_damaged(s, w);
	else
		w->at = in.at;
}

/* The records of the packet that are in the part already change what the next ones are relative to,
 * and nothing else. */
static void pass_taken(struct spool_stream *s, struct stream_writer *w)
{
	const uint8_t *to = w->at + stream_taken_bytes(s, w);
	uint64_t truncated = s->truncated;

	if (w->over || to == w->at)
		return;
	look_again(s, w);
	stream_apply_waiting(s);
	s->passing = true;
	while (!w->over && w->at < to && w->at < w->end && !s->error) {
		uint8_t tag = *w->at;

		if (!read_due(w) || (tag & SPOOL_EXACT_RECORD && !s->exact))
			stream_damaged(s, w);
		else if (tag & SPOOL_EXACT_RECORD)
			read_exact(s, w, tag);
		else
			read_tagged(s, w, tag);
	}
	stream_apply_waiting(s);
	s->passing = false;
	s->truncated = truncated;
	if (w->at != to)
		stream_damaged(s, w);
}

#define FAST_BYTES 64u /* that must be readable before fields are loaded without a check */

static inline uint64_t load_fast(const uint8_t *at, unsigned code)
{
	uint64_t value;

	memcpy(&value, at, 8);
	return value & width_mask[code];
}

/*
 * Takes the common records: ALLOC with few frames popped and pushed, RELEASE without realloc. Stops
 * before anything else (other records, records not yet due, damage, the end), which is left to the
 * careful functions above.
 */
static void run_exact(struct spool_stream *s, struct stream_writer *w, uint64_t last,
		      uint64_t *records)
{
	const uint8_t *end = w->end;
	const uint8_t *at = w->at, *next;
	uint64_t ticks = w->ticks, turned = w->turned, due, place;
	uint32_t thread = stream_this_thread(s, w), labels = w->labels;

	while (*records && w->limit - at >= (ptrdiff_t)FAST_BYTES && at < end) {
		uint8_t tag = *at;
		unsigned width = 1u << spool_time_width(tag);
		unsigned place_width = 1u << spool_address_width(tag);
		struct stream_waiting *e;

		due = ticks + varint_unzigzag(load_fast(at + 1, spool_time_width(tag)));
		if (!(tag & SPOOL_EXACT_RECORD) || due > last)
			break;
		next = at + 1 + width;
		place = turned + varint_unzigzag(load_fast(next, spool_address_width(tag)));
		next += place_width;
		if (s->waiting_count == STREAM_MOST_WAITING)
			stream_apply_waiting(s);
		e = &s->waiting[s->waiting_count];
		e->release = tag & SPOOL_EXACT_RELEASE;
		if (e->release) {
			if (spool_release_flags(tag) & SPOOL_FLAG_REALLOC || next > end)
				break;
		} else {
			unsigned size_code = spool_size_width(tag);
			uint32_t word, pop, push;
			struct varint_in in;

			e->block.size = load_fast(next, size_code);
			next += 1u << size_code;
			word = (uint32_t)load_fast(next, 1);
			next += 2;
			pop = spool_alloc_pop(word);
			push = spool_alloc_push(word);
			if (pop == SPOOL_ALLOC_MORE || push == SPOOL_ALLOC_MORE ||
			    spool_alloc_flags(word) & SPOOL_FLAG_UNDO || next > end)
				break;
			in = varint_begin(next, (size_t)(end - next));
			if (!change_stack(s, w, pop, push, &in))
				break;
			next = in.at;
			e->block.node = stack_node(&w->stack);
			e->block.flags = (uint8_t)((spool_alloc_flags(word) & SPOOL_FLAG_REALLOC
							? MAYFLY_FLAG_REALLOC
							: 0) |
						   flags_of_heap(SPOOL_UNTURN(place)));
			s->truncated += stack_truncated(&w->stack);
		}
		if (e->release)
			e->block.flags = release_flags(tag);
		e->block.hits = 0;
		e->block.interval_log2 = 0;
		e->ticks = ticks = due;
		turned = place;
		e->key = stream_key(SPOOL_UNTURN(turned));
		e->block.thread = thread;
		e->block.labels = labels;
		s->waiting_count++;
		at = next;
		--*records;
	}
	w->at = at;
	w->ticks = ticks;
	w->turned = turned;
}

bool stream_run_writer(struct spool_stream *s, struct stream_writer *w, uint64_t last,
		       uint64_t *records)
{
	uint64_t most = *records;

	while (w->due <= last && most && !s->error && !s->stopped) {
		uint8_t tag = *w->at;

		if (tag & SPOOL_EXACT_RECORD && s->exact) {
			const uint8_t *before = w->at;

			run_exact(s, w, last, &most);
			if (w->at != before || w->over) {
				if (stream_next_record(s, w))
					continue;
				*records = most;
				return false;
			}
		}
		most--;
		if (!(tag & SPOOL_EXACT_RECORD)) {
			read_tagged(s, w, tag);
		} else if (!s->exact) {
			stream_damaged(s, w);
		} else if (!read_exact(s, w, tag)) {
			*records = most;
			return false;
		}
		if (!w->over && w->at < w->end && *w->at & SPOOL_EXACT_RECORD) {
			read_due(w);
		} else if (!stream_next_record(s, w)) {
			*records = most;
			return false;
		}
	}
	*records = most;
	return true;
}
