/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream's blocks: allocations and frees find each other by address or id and go to the
 * trace_writer; what is live at a fork is kept for the child. See spool_internal.h.
 */
#include "spool/spool_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/weights.h"
#include "spool/spool_describe.h"
#include "spool/fragments_measure.h"
#include "trace/write/thin_rule.h"

#define MOST_FORK_BLOCKS (4u << 20) /* of all forks together; the newest fork is always kept */
#define MANY_LIVE	 ((size_t)1 << 17)
#define PEAK_OVER	 0.98
#define PEAK_HIGHER	 1.1
#define PEAK_LEAST	 1048576.0

/* ---- events ---- */

static double sampled_weight(const struct spool_stream *s, const struct live_block *b)
{
	double interval, rate, bytes, blocks;

	if (!b->sample.hits)
		return (double)b->size;
	interval = (double)((uint64_t)1 << b->sample.interval_log2);
	if (mayfly_heap_is_ocaml(MAYFLY_FLAG_HEAP(b->flags)) &&
	    (rate = spool_ocaml_rate(s->packets.header)) > 0)
		interval = 8 / rate;
	sample_weight(estimate_sampler(s->header.sampler, (uint32_t)b->flags), interval, b->size,
		      b->sample.hits, &bytes, &blocks);
	return bytes;
}

/* The weight, in bytes, of a block that stays when an exact recording is thinned. */
static double thinned_weight(const struct spool_stream *s, const struct live_block *b)
{
	struct trace_block block = {.size = b->size, .flags = (uint8_t)b->flags};
	double bytes, blocks;

	/* A coin of 0 keeps the block and sets the hits and the interval that it then has. */
	thin_block(s->header.sampler, s->thin_log2, 0, &block);
	if (!block.hits)
		return (double)b->size;
	sample_weight(estimate_sampler(s->header.sampler, (uint32_t)b->flags),
		      ldexp(1, block.interval_log2), b->size, block.hits, &bytes, &blocks);
	return bytes;
}

static inline bool is_mapping(uint32_t flags)
{
	return MAYFLY_FLAG_HEAP(flags) == MAYFLY_HEAP_MAPPING;
}

/* The bytes that a block adds to the live ones. A block of a pool lies in a malloc block, which
 * counts already; mappings do not count. */
static inline double live_weight(const struct spool_stream *s, const struct live_block *b)
{
	if (MAYFLY_FLAG_HEAP(b->flags) == MAYFLY_HEAP_POOL || is_mapping((uint32_t)b->flags))
		return 0;
	if (s->forgets)
		return thinned_weight(s, b);
	return s->exact ? (double)b->size : sampled_weight(s, b);
}

struct trace_block stream_block(const struct spool_stream *s, const struct live_block *b)
{
	return (struct trace_block){
	    .size = b->size,
	    .node = b->node,
	    .thread = b->thread,
	    .hits = s->exact ? 0 : b->sample.hits,
	    .interval_log2 = s->exact ? 0 : (uint8_t)b->sample.interval_log2,
	    .flags = (uint8_t)(b->flags & ~LIVE_OVERLAPPED),
	    .labels = b->labels,
	};
}

static void count_mapped(struct spool_stream *s, const struct live_block *b, int64_t sign)
{
	if (!is_mapping((uint32_t)b->flags))
		return;
	s->mapped_bytes += (uint64_t)sign * b->size;
	s->mapped_blocks += (uint64_t)sign;
	/* What a damaged spool unmaps without mapping it is more than there can be. */
	if (s->mapped_bytes > s->mapped_peak && s->mapped_bytes <= INT64_MAX)
		s->mapped_peak = s->mapped_bytes;
}

void stream_hand_alloc(struct spool_stream *s, int64_t ns, struct live_block *b,
		       struct trace_block *block)
{
	uint64_t serial = s->allocations;

	count_mapped(s, b, 1);
	s->live_bytes += live_weight(s, b);
	s->allocations++;
	if (s->trace) {
		if (s->thin_log2 && !thin_block(s->header.sampler, s->thin_log2,
						thin_coin(s->thin_seed, serial), block)) {
			b->serial = LIVE_THINNED;
			return;
		}
		stream_fail(s, trace_writer_alloc(s->trace, ns, block, &serial));
	}
	b->serial = serial & LIVE_THINNED;
	if (s->options.mark && !s->error)
		stream_note_key(s, b);
}

/* A block that is freed before the next step needs no key there. */
static inline void forget_key(struct spool_stream *s, const struct live_block *b)
{
	uint64_t index = b->serial - s->marks.first_serial;

	if (index < s->marks.keys)
		s->marks.key[index] = 0;
}

void stream_count_live(struct spool_stream *s, const struct live_block *b)
{
	s->live_bytes += live_weight(s, b);
}

void stream_hand_free(struct spool_stream *s, int64_t ns, const struct live_block *b,
		      uint32_t thread, uint32_t flags)
{
	/* For sampled blocks the agent cannot tell that the allocation was the parent's. */
	if (b->flags & MAYFLY_FLAG_INHERITED)
		flags &= ~MAYFLY_FLAG_TEMPORARY;
	count_mapped(s, b, -1);
	s->live_bytes -= live_weight(s, b);
	s->frees++;
	forget_key(s, b);
	if (s->trace && b->serial != LIVE_THINNED) {
		struct trace_block block = stream_block(s, b);

		stream_fail(s, trace_writer_free(s->trace, ns, b->serial, &block, thread, flags));
	}
}

/* The writer whose realloc of this block has no outcome yet; NULL: none. */
static struct stream_writer *find_moving(struct spool_stream *s, uint64_t key)
{
	for (size_t i = 0; i < s->writers; i++)
		if (s->writer[i]->moving == key)
			return s->writer[i];
	return NULL;
}

/* Another block has its address, so it has gone: by a realloc that is not over yet, or past the hooks
 * (when sampled, the spool is damaged). False: past the hooks. */
static bool end_overlapped(struct spool_stream *s, const struct live_block *b, uint64_t key,
			   int64_t ns, uint32_t thread)
{
	struct stream_writer *w = s->exact ? find_moving(s, key) : NULL;

	if (!w) {
		stream_hand_free(s, ns, b, thread, 0);
		s->missed_frees++;
		return false;
	}
	w->moving = 0;
	w->moved = true;
	stream_hand_free(s, ns, b, stream_this_thread(s, w), MAYFLY_FLAG_REALLOC);
	return true;
}

struct live_block *stream_new_block(struct spool_stream *s, uint64_t key, int64_t ns,
				    uint32_t thread, uint32_t flags)
{
	bool there;
	struct live_block *b = live_put(&s->live, key, &there);

	if (!b) {
		stream_fail(s, MAYFLY_E_MEMORY);
		return NULL;
	}
	if (there && !end_overlapped(s, b, key, ns, thread))
		flags |= LIVE_OVERLAPPED;
	b->flags = flags & 0xff;
	b->thread = thread;
	return b;
}

/* If the block is dropped, there is nothing to know of it but that the one before it has gone. What is
 * left of a mapping is drawn anew, so these are all known. */
static bool is_forgotten(struct spool_stream *s, const struct stream_waiting *e, int64_t ns)
{
	struct trace_block block = e->block;
	uint32_t *place;

	if (!s->forgets || is_mapping(e->block.flags) ||
	    thin_block(s->header.sampler, s->thin_log2, thin_coin(s->thin_seed, s->allocations),
		       &block))
		return false;
	place = live_find(&s->live, e->key);
	if (place) {
		end_overlapped(s, live_at(&s->live, place), e->key, ns, e->block.thread);
		live_remove(&s->live, place);
	}
	s->allocations++;
	s->last_key[e->block.thread] = e->key;
	return true;
}

static void exact_alloc(struct spool_stream *s, struct stream_waiting *e)
{
	int64_t ns = stream_moment(s, e->ticks);
	struct live_block *b;

	if (is_forgotten(s, e, ns))
		return;
	b = stream_new_block(s, e->key, ns, e->block.thread, e->block.flags);
	if (!b)
		return;
	b->size = e->block.size;
	b->node = e->block.node;
	b->labels = e->block.labels;
	b->ticks = e->ticks;
	s->last_key[e->block.thread] = e->key;
	stream_hand_alloc(s, ns, b, &e->block);
}

void stream_take_block(struct spool_stream *s, struct stream_waiting *e)
{
	uint64_t *last_key = &s->last_key[e->block.thread], before = *last_key;

	exact_alloc(s, e);
	*last_key = before; /* malloc's blocks are temporary as without it */
}

/* The free of the block before at this address has been found. */
static void missed_no_more(struct spool_stream *s, struct live_block *b)
{
	b->flags &= ~LIVE_OVERLAPPED;
	s->missed_frees--;
}

/*
 * Blocks of one address follow each other, so the block that is live at a RELEASE is nearly always
 * the one that is released. There are two exceptions. A record that a signal handler wrote late is
 * older than the live block. And where the ticks of two CPUs differ, the live block's ALLOC may
 * have come before this RELEASE of the block before it, which was then taken for missed.
 */
static void exact_release(struct spool_stream *s, const struct stream_waiting *e)
{
	uint32_t *place = live_find(&s->live, e->key);
	struct live_block *b = place ? live_at(&s->live, place) : NULL;
	uint32_t flags = e->block.flags, thread = e->block.thread;

	if (!b && s->forgets)
		return;
	if (!b || e->ticks < b->ticks) {
		s->unknown_frees++;
		if (b && b->flags & LIVE_OVERLAPPED)
			missed_no_more(s, b);
		return;
	}
	if (b->flags & LIVE_OVERLAPPED) {
		if (thread != b->thread && e->ticks - b->ticks <= s->inversion_ticks) {
			missed_no_more(s, b);
			return;
		}
		b->flags &= ~LIVE_OVERLAPPED;
	}
	if (thread == b->thread && s->last_key[thread] == e->key)
		flags |= MAYFLY_FLAG_TEMPORARY;
	stream_hand_free(s, stream_moment(s, e->ticks), b, thread, flags);
	live_remove(&s->live, place);
}

void stream_shrink(struct spool_stream *s, uint64_t key, uint64_t ticks, uint64_t bytes,
		   uint32_t thread, uint32_t flags)
{
	uint32_t *place = live_find(&s->live, key);
	struct live_block *b = place ? live_at(&s->live, place) : NULL;
	int64_t ns = stream_moment(s, ticks);
	struct trace_block block;

	if (!b || !is_mapping((uint32_t)b->flags)) {
		s->unknown_frees++;
		return;
	}
	if (bytes >= b->size) {
		stream_hand_free(s, ns, b, thread, flags);
		live_remove(&s->live, place);
		return;
	}
	stream_hand_free(s, ns, b, thread, MAYFLY_FLAG_REALLOC);
	b->size -= bytes;
	b->flags = (b->flags & MAYFLY_FLAG_HEAP_MASK) | MAYFLY_FLAG_REALLOC;
	block = stream_block(s, b);
	stream_hand_alloc(s, ns, b, &block);
}

void stream_measure_pages(struct spool_stream *s, enum fragments_kind kind)
{
	struct fragments f;
	int error;

	if (!s->exact || !s->trace || s->error || s->forgets)
		return;
	error = fragments_measure(&f, &s->live, s->tables->nodes, s->now_ns)
		    ? trace_writer_fragments(s->trace, kind, &f)
		    : MAYFLY_E_MEMORY;
	fragments_free(&f);
	stream_fail(s, error);
}

/* A peak is known only when it is over, so pages are measured just after it. Not after each of many
 * growing peaks; and if live bytes never fall, pages are measured at the end. */
static void watch_peak(struct spool_stream *s)
{
	if (s->live_bytes >= s->most_live) {
		s->most_live = s->live_bytes;
	} else if (s->live_bytes < PEAK_OVER * s->most_live && s->most_live >= PEAK_LEAST &&
		   s->most_live > PEAK_HIGHER * s->measured_live) {
		s->measured_live = s->most_live;
		stream_measure_pages(s, FRAGMENTS_PEAK);
	}
}

void stream_apply_waiting(struct spool_stream *s)
{
	size_t count = s->waiting_count;

	s->waiting_count = 0;
	if (s->passing)
		return;
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

void stream_end_ocaml(struct spool_stream *s, int64_t ns, uint32_t thread)
{
	for (size_t i = 0, size = s->live.block_size; i < s->live.high && !s->error;) {
		struct live_block *b = &s->live.block[i++];

		if (!b->key || !mayfly_heap_is_ocaml(MAYFLY_FLAG_HEAP(b->flags)))
			continue;
		stream_hand_free(s, ns, b, thread, 0);
		live_remove(&s->live, live_find(&s->live, b->key));
		if (s->live.block_size != size) { /* the table has shrunk: all have moved */
			size = s->live.block_size;
			i = 0;
		}
	}
}

/* Most are dropped: a table that is made anew has the others sooner than each of those is taken out. */
void stream_forget_thinned(struct spool_stream *s)
{
	struct live_table kept = {0};

	if (!s->exact || s->options.keep_forks || (!s->forgets && s->live.used < MANY_LIVE))
		return;
	s->forgets = true;
	s->live_bytes = 0;
	for (size_t i = 0; i < s->live.high && !s->error; i++) {
		const struct live_block *old = &s->live.block[i];
		struct live_block *b;
		uint32_t next;
		bool there;

		if (!old->key || (old->serial == LIVE_THINNED && !is_mapping((uint32_t)old->flags)))
			continue;
		b = live_put(&kept, old->key, &there);
		if (!b) {
			stream_fail(s, MAYFLY_E_MEMORY);
			break;
		}
		next = b->next;
		*b = *old;
		b->next = next;
		s->live_bytes += live_weight(s, b);
	}
	live_free(&s->live);
	s->live = kept;
}

/* ---- forks ---- */

static int compare_serial(const void *a, const void *b)
{
	const struct live_block *x = a, *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

void stream_forget_fork(struct spool_stream *s, size_t index)
{
	s->fork_blocks -= s->fork[index].blocks;
	free(s->fork[index].block);
	s->forks--;
	memmove(s->fork + index, s->fork + index + 1, (s->forks - index) * sizeof(*s->fork));
}

void stream_keep_fork(struct spool_stream *s, uint64_t ticks)
{
	struct stream_fork *f;

	while (s->forks &&
	       (s->forks == STREAM_MOST_FORKS || s->fork_blocks + s->live.used > MOST_FORK_BLOCKS))
		stream_forget_fork(s, 0);
	f = &s->fork[s->forks];
	*f = (struct stream_fork){.ticks = ticks};
	f->block = malloc((s->live.used + 1) * sizeof(*f->block));
	if (!f->block) {
		stream_fail(s, MAYFLY_E_MEMORY);
		return;
	}
	for (size_t i = 0; i < s->live.high; i++)
		if (s->live.block[i].key)
			f->block[f->blocks++] = s->live.block[i];
	qsort(f->block, f->blocks, sizeof(*f->block), compare_serial);
	s->fork_blocks += f->blocks;
	s->forks++;
	if (s->options.mark)
		stream_note_fork(s, f);
}

/* The child's set of labels for one of the parent's. sets: those found before. */
static uint32_t inherit_labels(struct spool_stream *s, const struct recording *parent,
			       uint32_t labels, uint32_t *sets)
{
	struct recording_label label[RECORDING_LABELS];
	const struct recording_labels *old;

	if (!labels || labels >= parent->label_sets)
		return 0;
	if (sets[labels] != RECORDING_NONE)
		return sets[labels];
	old = &parent->label_set[labels];
	for (uint32_t i = 0; i < old->count && i < RECORDING_LABELS; i++) {
		const struct recording_label *l = &parent->label[old->first + i];

		label[i].key = recording_name(s->tables, recording_text(parent, l->key));
		label[i].value = recording_name(s->tables, recording_text(parent, l->value));
	}
	sets[labels] = recording_labels(s->tables, label, old->count);
	if (sets[labels] == RECORDING_NONE) /* there are too many */
		sets[labels] = 0;
	return sets[labels];
}

/* The child's allocations at time 0. */
static int inherit_blocks(struct spool_stream *s, const struct recording *parent,
			  const struct stream_fork *f, struct stacks_heritage *h, uint32_t *sets)
{
	for (size_t i = 0; i < f->blocks && !s->error; i++) {
		const struct live_block *old = &f->block[i];
		const struct recording_thread *t = &parent->thread[old->thread];
		const char *name = recording_text(parent, t->name);
		struct trace_block block;
		struct live_block *b;
		bool there;

		stream_name_thread(s, t->tid, name, strlen(name));
		b = live_put(&s->live, old->key, &there);
		if (!b || s->error)
			return MAYFLY_E_MEMORY;
		b->serial = old->serial;
		b->size = old->size;
		b->ticks = old->ticks; /* or sample */
		b->flags = (old->flags & (MAYFLY_FLAG_REALLOC | MAYFLY_FLAG_HEAP_MASK)) |
			   MAYFLY_FLAG_INHERITED;
		b->thread = stream_index_thread(s, t->tid);
		b->node = heritage_node(h, old->node);
		b->labels = inherit_labels(s, parent, old->labels, sets);
		if (b->node == RECORDING_NONE || s->tables->failed)
			return MAYFLY_E_MEMORY;
		if (s->exact)
			b->ticks = 0;
		s->truncated += heritage_truncated(h, old->node);
		s->inherited++;
		block = stream_block(s, b);
		stream_hand_alloc(s, 0, b, &block);
	}
	return s->error;
}

int stream_inherit(struct spool_stream *s, struct spool_stream *parent)
{
	struct stacks_heritage *h;
	uint32_t *sets;
	size_t i;
	int error;

	if (!parent || !s->header.fork_parent_pid || parent->exact != s->exact)
		return 0;
	for (i = 0; i < parent->forks; i++)
		if (parent->fork[i].ticks == s->header.fork_ticks)
			break;
	if (i == parent->forks)
		return 0;
	sets = malloc((parent->tables->label_sets + 1) * sizeof(*sets));
	h = sets ? heritage_begin(&s->stacks, parent->tables) : NULL;
	if (!h) {
		free(sets);
		return MAYFLY_E_MEMORY;
	}
	memset(sets, 0xff, (parent->tables->label_sets + 1) * sizeof(*sets));
	error = inherit_blocks(s, parent->tables, &parent->fork[i], h, sets);
	heritage_end(h);
	free(sets);
	stream_forget_fork(parent, i);
	return error;
}
