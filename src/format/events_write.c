/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the EVNT chunk: see event_coding.h. */
#include "format/event_coding.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "base/varint.h"

#define FINEST_ERROR	 10000	/* ns, of times in exact traces */
#define COARSEST_ERROR	 640000 /* at most this; doubled from the finest */
#define MANY_EVENTS	 32768	/* in a chunk that makes choices for the next ones */
#define ERROR_UNITS	 5	/* units of time; the largest error of times in exact traces */
#define TRIAL_CHUNKS	 16	/* chunks until all ways are tried again */
#define TRIAL_PART	 16	/* a trial looks at this part of a large chunk */
#define ROOM_FOR_COLUMNS 24

enum question { FORM, WAY, KIND, QUESTIONS }; /* what a writer decides */
#define MOST_WAYS 8			      /* of any of them */

_Static_assert(sizeof(((struct event_past *)0)->decision) / sizeof(struct event_decision) ==
		   QUESTIONS,
	       "a decision for each question");

/* ---- memory ---- */

struct pair {
	uint64_t size;
	uint32_t site, id;
	uint32_t chunk;
};

/* The latest pair of a site: most blocks of a site have one size. */
struct site_pair {
	uint64_t size;
	uint32_t id, chunk;
};

struct event_coder {
	struct column_writer *columns;
	struct bytes head;
	uint64_t *memory; /* of the columns */
	size_t memory_size;
	struct recent_sizes *recent; /* of each frame or site */
	size_t recent_size;
	/* A node is the site that `number` says, if that is a site of this chunk and of this node. */
	uint32_t *number, *site_node;
	size_t number_size, site_node_size;
	struct pair *pair; /* a hash table, at most half full */
	size_t pair_size;
	struct site_pair *site_pair;
	size_t site_pair_size;
	uint32_t *stack, *event_of, *thread_last, *thread_labels;
	size_t stack_size, event_of_size, thread_last_size, thread_labels_size;
	uint64_t *dead;
	size_t dead_size;
	uint8_t *site_flags;
	size_t site_flags_size;
	uint32_t chunk;
	struct event_past past;			  /* of the trace whose chunk is being written */
	struct event_decision learned[QUESTIONS]; /* of the latest large chunk, of any trace */
	bool failed;
};

/* The numbers of the chunk's columns. */
struct event_columns {
	uint64_t *runs, *bits, *time, *time_events, *site, *node, *id, *size, *new_size;
	uint64_t *pair_id, *pair_site, *pair_size, *thread, *hits, *interval, *flags;
	uint64_t *rank, *back, *step, *life, *life_runs, *escape_back, *escape_step, *old_step;
	uint64_t *free_thread, *free_flags, *labels;
	size_t run_count, bit_bytes, segments, sites, nodes, new_sizes, pairs, escapes;
	size_t life_run_count, olds;
};

struct event_coder *event_coder_new(struct column_writer *columns)
{
	struct event_coder *c = calloc(1, sizeof(*c));

	if (c)
		c->columns = columns;
	return c;
}

void event_coder_free(struct event_coder *c)
{
	if (!c)
		return;
	bytes_free(&c->head);
	free(c->memory);
	free(c->recent);
	free(c->number);
	free(c->site_node);
	free(c->pair);
	free(c->site_pair);
	free(c->stack);
	free(c->event_of);
	free(c->thread_last);
	free(c->thread_labels);
	free(c->dead);
	free(c->site_flags);
	free(c);
}

void event_coder_rest(struct event_coder *c)
{
	free(c->memory);
	c->memory = NULL;
	c->memory_size = 0;
}

/* An array of at least `want` items; what it gains is zero when `zeroed`. */
static void grow_array(struct event_coder *c, void *array, size_t *size, size_t want, size_t item,
		       bool zeroed)
{
	if (!(zeroed ? array_reserve_filled(array, size, want, item, 0)
		     : array_reserve(array, size, want, item)))
		c->failed = true;
}

#define GROW(c, array, want, zeroed)                                                               \
	grow_array((c), &(c)->array, &(c)->array##_size, (want), sizeof(*(c)->array), (zeroed))

static bool give_memory(struct event_coder *c, struct event_columns *e,
			const struct event_context *x, const struct event_batch *b)
{
	uint64_t **column[] = {
	    &e->runs,	    &e->bits,	     &e->time,	      &e->time_events, &e->site,
	    &e->node,	    &e->id,	     &e->size,	      &e->new_size,    &e->pair_id,
	    &e->pair_site,  &e->pair_size,   &e->thread,      &e->hits,	       &e->interval,
	    &e->flags,	    &e->rank,	     &e->back,	      &e->step,	       &e->life,
	    &e->life_runs,  &e->escape_back, &e->escape_step, &e->old_step,    &e->free_thread,
	    &e->free_flags, &e->labels,
	};
	const size_t count = sizeof(column) / sizeof(*column), room = b->events + 2;

	memset(e, 0, sizeof(*e));
	c->failed = false; /* for another trace */
	if (++c->chunk == 0) {
		/* Marks of 2^32 chunks ago must not count. */
		c->chunk = 1;
		c->recent_size = c->site_pair_size = 0;
		free(c->pair);
		c->pair = NULL;
		c->pair_size = 0;
	}
	GROW(c, memory, room * count, false);
	GROW(c, recent, (x->exact ? b->allocs : x->frames) + 1, true);
	GROW(c, stack, b->allocs + 1, false);
	GROW(c, dead, b->allocs / 64 + 1, false);
	GROW(c, event_of, b->allocs + 1, false);
	if (b->labelled)
		GROW(c, thread_labels, x->threads + (size_t)1, false);
	if (x->exact) {
		GROW(c, number, x->nodes + 1, true);
		GROW(c, site_node, b->allocs + 1, false);
		GROW(c, thread_last, x->threads + (size_t)1, false);
		GROW(c, site_flags, b->allocs + 1, false);
	}
	for (size_t i = 0; i < count && !c->failed; i++)
		*column[i] = c->memory + i * room;
	return !c->failed;
}

/* ---- choices ---- */

/* Columns that together express one thing in one of several ways. */
struct alternative {
	struct column column[4];
	size_t columns;
	bool possible;
};

static void add_column(struct alternative *a, unsigned id, const uint64_t *value, size_t count)
{
	a->column[a->columns++] = (struct column){.id = id, .value = value, .count = count};
	a->possible = true;
}

/* Whether the columns of a way are needed: it is the chosen one, or all are tried. */
static bool wanted_columns(const struct event_decision *d, unsigned way)
{
	return !d->left || d->best == way;
}

/* What an alternative costs; in large chunks, only for a part of each of its columns. */
static size_t size_of_sample(struct event_coder *c, const struct alternative *a, bool large,
			     enum question question, unsigned way)
{
	struct alternative sample = *a;

	for (size_t i = 0; large && i < a->columns; i++) {
		struct column *column = &sample.column[i];

		column->value += column->count / TRIAL_PART * (TRIAL_PART / 2);
		column->count = (column->count + TRIAL_PART - 1) / TRIAL_PART;
	}
	return columns_size(c->columns, sample.column, sample.columns, question * MOST_WAYS + way);
}

static unsigned note_columns(struct event_decision *d, const struct alternative *a)
{
	d->columns = 0;
	for (size_t i = 0; i < a->columns; i++)
		d->columns |= (uint64_t)1 << a->column[i].id;
	return d->best;
}

static unsigned decide(struct event_coder *c, enum question question, const struct alternative *a,
		       unsigned count, bool remember)
{
	struct event_decision *d = &c->past.decision[question];
	size_t least = SIZE_MAX;

	if (d->left) {
		d->left--;
		return note_columns(d, &a[d->best]);
	}
	for (unsigned i = 0; i < count; i++) {
		size_t size;

		if (!a[i].possible)
			continue;
		size = size_of_sample(c, &a[i], remember, question, i);
		if (least == SIZE_MAX || size < least) {
			least = size;
			d->best = i;
		}
	}
	/* The first chunks, in which programs start, say little about later ones. */
	d->pause = d->pause ? d->pause * 2 : 1;
	if (d->pause > TRIAL_CHUNKS)
		d->pause = TRIAL_CHUNKS;
	d->left = remember ? d->pause : 0;
	d->cost = 0;
	return note_columns(d, &a[d->best]);
}

/* To be called when the chunk is written. If the chosen way costs much more or less than before,
 * the program has entered another phase, and the next chunk tries all ways again. */
static void check_decision(struct event_coder *c, struct event_decision *d, size_t events)
{
	size_t size = 0;
	double cost;

	for (unsigned id = 0; id < COLUMNS_MOST; id++)
		if (d->columns >> id & 1)
			size += column_written(c->columns, id);
	cost = (double)size / (double)events;
	if (!d->cost) {
		d->cost = cost;
	} else if (cost > 1.25 * d->cost + 0.005 || cost < 0.7 * d->cost - 0.005) {
		d->left = 0;
		d->pause /= 2;
	}
}

/* ---- kinds and times ---- */

static void put_runs(struct event_columns *e, const struct event_batch *b)
{
	e->run_count = 1;
	e->runs[0] = 0;
	/* Runs of allocations and of frees take turns; the first, of allocations, may be empty. */
	for (size_t i = 0; i < b->events; i++) {
		if ((e->run_count - 1) % 2 != b->is_free[i])
			e->runs[e->run_count++] = 0;
		e->runs[e->run_count - 1]++;
	}
}

static void put_kind_bits(struct event_columns *e, const struct event_batch *b)
{
	e->bit_bytes = (b->events + 7) / 8;
	for (size_t i = 0; i < e->bit_bytes; i++) {
		size_t left = b->events - 8 * i;
		unsigned byte = 0;

		for (unsigned k = 0; k < 8 && k < left; k++)
			byte |= (unsigned)(b->is_free[8 * i + k] != 0) << k;
		e->bits[i] = byte;
	}
}

static int64_t to_units(int64_t ns, int64_t unit)
{
	return ns / unit - (ns % unit < 0);
}

static void put_times(struct event_columns *e, const struct event_batch *b, int64_t unit)
{
	int64_t now = to_units(b->time_ns[0], unit);

	for (size_t i = 0; i < b->events; i++) {
		int64_t time = to_units(b->time_ns[i], unit);

		e->time[i] = (uint64_t)(time - now);
		now = time;
	}
}

/*
 * A line of straight parts through the times of the events, never further from a time than the
 * error. `now` is its last corner; [low, high] are the slopes that the next part may still have.
 */
struct broken_line {
	int64_t unit, now;
	size_t event;
	double low, high;
};

static double ns_between(int64_t from, int64_t to)
{
	int64_t gap;

	if (__builtin_sub_overflow(to, from, &gap))
		return to > from ? 0x1p63 : -0x1p63;
	return (double)gap;
}

/* Puts a corner at event `last`. */
static void end_part(struct event_columns *e, const struct event_batch *b, struct broken_line *l,
		     size_t last)
{
	double events = (double)(int64_t)(last - l->event);
	double wanted = ns_between(l->now, b->time_ns[last]);
	uint64_t step, most = (uint64_t)TRACE_LATEST_NS - (uint64_t)l->now;

	if (wanted < l->low * events)
		wanted = l->low * events;
	if (wanted > l->high * events)
		wanted = l->high * events;
	if (events == 1)
		wanted = ns_between(l->now, b->time_ns[last]);
	step = wanted > 0 ? (uint64_t)(wanted / (double)l->unit + 0.5) : 0;
	if (step > most / (uint64_t)l->unit)
		step = most / (uint64_t)l->unit;
	e->time_events[e->segments] = last - l->event - 1;
	e->time[e->segments++] = step;
	l->now += (int64_t)(step * (uint64_t)l->unit);
	l->event = last;
	l->low = 0;
	l->high = 1e300;
}

/*
 * Returns where the line ends. A corner lies on a whole unit, so it may be off its best place by
 * half a unit, and at the beginning of a chunk it may have to be moved up by a unit.
 */
static int64_t put_line(struct event_columns *e, const struct event_batch *b, int64_t unit,
			int64_t base)
{
	const double within = (double)((ERROR_UNITS - 1) * unit - unit / 2 - 2);
	struct broken_line l = {unit, base * unit, 0, 0, 1e300};

	for (size_t i = 1; i < b->events;) {
		double gap = ns_between(l.now, b->time_ns[i]),
		       events = (double)(int64_t)(i - l.event);
		double low = gap - within, high = gap + within > 0 ? gap + within : 0;

		/* Only the few events that make the slopes narrower need a division. */
		if (low > l.high * events || high < l.low * events) {
			end_part(e, b, &l, i - 1);
			continue;
		}
		if (low > l.low * events)
			l.low = low / events;
		if (high < l.high * events)
			l.high = high / events;
		/* Far away a double is no longer exact to the nanosecond. */
		if (gap > 1e15 && i - l.event == 1)
			end_part(e, b, &l, i);
		i++;
	}
	if (l.event + 1 < b->events)
		end_part(e, b, &l, b->events - 1);
	return l.now;
}

/* ---- allocations ---- */

/* The chain whose last node is `node`, or SIZE_MAX. */
static size_t find_chain(const struct event_context *x, uint32_t node)
{
	size_t low = FIRST_THAT(i, 0, x->chains, x->chain_end[i] >= node);

	return low < x->chains && x->chain_end[low] == node ? low : SIZE_MAX;
}

static void put_site(struct event_columns *e, const struct event_context *x, size_t *next_chain,
		     uint32_t node)
{
	size_t chain = *next_chain < x->chains && x->chain_end[*next_chain] == node
			   ? *next_chain
			   : find_chain(x, node);

	if (chain == SIZE_MAX || chain > *next_chain) {
		e->site[e->sites] = 1;
		e->node[e->nodes++] = node;
	} else if (chain == *next_chain) {
		e->site[e->sites] = 0;
		++*next_chain;
	} else {
		e->site[e->sites] = 2 + (*next_chain - 1 - chain);
	}
	e->sites++;
}

/* Branch-free, because sizes are unpredictable: a value that does not count is overwritten by the
 * next. */
static inline void put_size(struct event_columns *e, size_t i, struct recent_sizes *r,
			    uint64_t size)
{
	const uint64_t last = r->last, before = r->before;
	const bool other = size != last, new = other &(size != before);

	e->size[i] = (uint64_t)other + new;
	e->new_size[e->new_sizes] = size;
	e->new_sizes += new;
	r->before = other ? last : before;
	r->last = size;
}

static void put_direct(struct event_coder *c, struct event_columns *e,
		       const struct event_context *x, const struct event_batch *b)
{
	size_t next_chain = x->first_chain;

	for (size_t i = 0; i < b->allocs; i++) {
		uint64_t interval = (uint64_t)1 << b->interval_log2[i];

		put_site(e, x, &next_chain, b->node[i]);
		put_size(e, i, sizes_at(c->recent, c->chunk, size_place(x, b->node[i])),
			 b->size[i]);
		e->hits[i] = varint_zigzag((int64_t)b->hits[i] - (b->size[i] >= interval ? 0 : 1));
		e->interval[i] = b->interval_log2[i];
		e->flags[i] = b->alloc_flags[i];
	}
}

/* The columns that are mostly zero in exact traces. */
static void put_rare(struct event_coder *c, struct event_columns *e, const struct event_batch *b)
{
	if (!bytes_all_zero(b->hits, b->allocs * sizeof(*b->hits)))
		for (size_t i = 0; i < b->allocs; i++)
			e->hits[i] = b->hits[i];
	if (!bytes_all_zero(b->interval_log2, b->allocs))
		for (size_t i = 0; i < b->allocs; i++)
			e->interval[i] = b->interval_log2[i];
	if (bytes_all_zero(b->alloc_flags, b->allocs))
		return;
	memset(c->site_flags, 0, e->sites);
	for (size_t i = 0; i < b->allocs; i++) {
		uint8_t *last = &c->site_flags[e->id[i]];

		e->flags[i] = b->alloc_flags[i] ^ *last;
		*last = b->alloc_flags[i];
	}
}

/* The chunk's sites, numbered as they come. */
static void put_sites(struct event_coder *c, struct event_columns *e, const struct event_context *x,
		      const struct event_batch *b)
{
	size_t next_chain = x->first_chain;

	for (size_t i = 0; i < b->allocs; i++) {
		uint32_t node = b->node[i], *number = &c->number[node];

		if (*number >= e->sites || c->site_node[*number] != node) {
			*number = (uint32_t)e->sites;
			c->site_node[*number] = node;
			put_site(e, x, &next_chain, node);
		}
		e->id[i] = *number;
	}
}

static void put_sizes(struct event_coder *c, struct event_columns *e, const struct event_batch *b)
{
	for (size_t i = 0; i < b->allocs; i++)
		put_size(e, i, sizes_at(c->recent, c->chunk, e->id[i]), b->size[i]);
}

/* The pair's place in the table, or the free one where it belongs. */
static struct pair *find_pair(const struct event_coder *c, uint32_t site, uint64_t size)
{
	const size_t mask = c->pair_size - 1;
	uint64_t hash = (size ^ (uint64_t)site << 40) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = hash >> 32 & mask;

	while (c->pair[at].chunk == c->chunk &&
	       (c->pair[at].site != site || c->pair[at].size != size))
		at = (at + 1) & mask;
	return &c->pair[at];
}

/* Makes room for one more pair than there are. */
static bool grow_pairs(struct event_coder *c, size_t pairs)
{
	struct pair *old = c->pair;
	const size_t old_size = c->pair_size;

	if (pairs < old_size / 2)
		return true;
	c->pair_size = old_size ? 2 * old_size : 1024;
	c->pair = calloc(c->pair_size, sizeof(*c->pair));
	if (!c->pair) {
		c->pair = old;
		c->pair_size = old_size;
		return false;
	}
	for (size_t i = 0; i < old_size; i++)
		if (old[i].chunk == c->chunk)
			*find_pair(c, old[i].site, old[i].size) = old[i];
	free(old);
	return true;
}

/* False: there are too many pairs for this form to pay, or there is no memory. */
static bool put_pairs(struct event_coder *c, struct event_columns *e, const struct event_batch *b,
		      bool give_up)
{
	const size_t most = give_up ? b->allocs / 2 : b->allocs;
	uint32_t next_site = 0;

	GROW(c, site_pair, e->sites + 1, true);
	for (size_t i = 0; i < b->allocs && !c->failed; i++) {
		uint32_t site = (uint32_t)e->id[i];
		struct site_pair *latest = &c->site_pair[site];
		struct pair *p;

		if (latest->chunk == c->chunk && latest->size == b->size[i]) {
			e->pair_id[i] = latest->id;
			continue;
		}
		if (!grow_pairs(c, e->pairs)) {
			c->failed = true;
			return false;
		}
		p = find_pair(c, site, b->size[i]);
		if (p->chunk != c->chunk) {
			if (e->pairs == most)
				return false;
			*p = (struct pair){b->size[i], site, (uint32_t)e->pairs, c->chunk};
			e->pair_site[e->pairs] = next_site - site;
			next_site += site == next_site;
			e->pair_size[e->pairs++] = b->size[i];
		}
		*latest = (struct site_pair){p->size, p->id, c->chunk};
		e->pair_id[i] = p->id;
	}
	return !c->failed;
}

/* ---- frees ---- */

/* Ranks on the stack of live blocks; those from RANK_ESCAPE on are escaped. */
static void put_ranks(struct event_coder *c, struct event_columns *e, const struct event_batch *b)
{
	struct live_stack live = {.block = c->stack, .dead = c->dead};
	uint64_t last = b->first_sample;
	size_t allocs = 0, frees = 0;

	memset(c->dead, 0, (b->allocs / 64 + 1) * sizeof(*c->dead));
	for (size_t i = 0; i < b->events; i++) {
		uint64_t number;
		size_t rank = RANK_ESCAPE;

		if (!b->is_free[i]) {
			live_push(&live, (uint32_t)allocs++);
			continue;
		}
		number = b->freed[frees];
		if (number >= b->first_sample)
			rank = live_find(&live, (uint32_t)(number - b->first_sample));
		e->rank[frees++] = rank;
		if (rank < RANK_ESCAPE)
			continue;
		e->escape_back[e->escapes] = b->first_sample + allocs - 1 - number;
		e->escape_step[e->escapes++] = varint_zigzag((int64_t)(number - last));
		last = number;
	}
}

/* One loop for each way, branch-free, because event kinds are unpredictable: a value that does not
 * count is overwritten by the next. */
static void put_back_distances(struct event_columns *e, const struct event_batch *b)
{
	const size_t all_frees = b->events - b->allocs;
	uint64_t newest = b->first_sample - 1;
	size_t frees = 0;

	for (size_t i = 0; i < b->events && frees < all_frees; i++) {
		e->back[frees] = newest - b->freed[frees];
		frees += b->is_free[i] != 0;
		newest += !b->is_free[i];
	}
}

static void put_steps(struct event_columns *e, const struct event_batch *b)
{
	const size_t all_frees = b->events - b->allocs;
	uint64_t last = b->first_sample;

	for (size_t i = 0; i < all_frees; i++) {
		e->step[i] = varint_zigzag((int64_t)(b->freed[i] - last));
		last = b->freed[i];
	}
}

/* Lifetimes, and the kinds of those events that no lifetime predicts. */
static void put_lives(struct event_coder *c, struct event_columns *e, const struct event_batch *b)
{
	uint64_t last = b->first_sample;
	size_t allocs = 0, frees = 0;

	e->life_run_count = 1;
	e->life_runs[0] = 0;
	for (size_t i = 0; i < b->events; i++) {
		bool is_free = b->is_free[i];

		if (is_free) {
			uint64_t number = b->freed[frees++];

			if (number >= b->first_sample) {
				size_t local = (size_t)(number - b->first_sample);

				e->life[local] = i - c->event_of[local];
				continue;
			}
			e->old_step[e->olds++] = varint_zigzag((int64_t)(number - last));
			last = number;
		} else {
			e->life[allocs] = 0;
			c->event_of[allocs++] = (uint32_t)i;
		}
		if ((e->life_run_count - 1) % 2 != is_free)
			e->life_runs[e->life_run_count++] = 0;
		e->life_runs[e->life_run_count - 1]++;
	}
}

/* Threads and flags with FORM_DIRECT. */
static void put_direct_threads(struct event_columns *e, const struct event_batch *b)
{
	size_t allocs = 0, frees = 0;
	uint32_t thread = 0;

	for (size_t i = 0; i < b->events; i++) {
		uint32_t expected;

		if (!b->is_free[i]) {
			thread = b->thread[allocs];
			e->thread[allocs++] = thread;
			continue;
		}
		expected = expected_thread(b, b->freed[frees], thread);
		thread = b->free_thread[frees];
		e->free_thread[frees] = thread == expected ? 0 : 1 + (uint64_t)thread;
		e->free_flags[frees] = b->free_flags[frees];
		frees++;
	}
}

/* False: all events are of thread 0, and the column is left out. */
static bool many_threads(const struct event_batch *b)
{
	return !bytes_all_zero(b->thread, b->allocs * sizeof(*b->thread)) ||
	       !bytes_all_zero(b->free_thread, (b->events - b->allocs) * sizeof(*b->free_thread));
}

static void put_thread_column(struct event_coder *c, struct event_columns *e,
			      const struct event_context *x, const struct event_batch *b)
{
	size_t allocs = 0, frees = 0;

	memset(c->thread_last, 0xff, x->threads * sizeof(*c->thread_last));
	for (size_t i = 0; i < b->events; i++) {
		uint32_t thread;
		uint64_t local;
		bool is_last;

		if (!b->is_free[i]) {
			thread = b->thread[allocs];
			e->thread[i] = thread;
			c->thread_last[thread] = (uint32_t)allocs++;
			continue;
		}
		thread = b->free_thread[frees];
		e->thread[i] = thread;
		local = b->freed[frees] - b->first_sample;
		is_last = local == c->thread_last[thread];
		e->free_flags[frees] = b->free_flags[frees] ^
				       expected_free_flags(realloc_follows(b, i, allocs), is_last);
		frees++;
	}
}

/* The same for a chunk of thread 0 only. Branch-free, because event kinds are unpredictable; writes
 * one number past the end, which the columns have room for. */
static void put_one_thread(struct event_columns *e, const struct event_batch *b)
{
	uint64_t last = b->first_sample - 1;
	size_t allocs = 0, frees = 0;
	const size_t all_frees = b->events - b->allocs;

	for (size_t i = 0; i < b->events && frees < all_frees; i++) {
		const bool is_free = b->is_free[i];
		bool is_last = allocs && b->freed[frees] == last;

		e->free_flags[frees] = b->free_flags[frees] ^
				       expected_free_flags(realloc_follows(b, i, allocs), is_last);
		frees += is_free;
		allocs += !is_free;
		last += !is_free;
	}
}

/* A thread's labels stay the same for many blocks. */
static void put_label_column(struct event_coder *c, struct event_columns *e,
			     const struct event_context *x, const struct event_batch *b)
{
	memset(c->thread_labels, 0, x->threads * sizeof(*c->thread_labels));
	for (size_t i = 0; i < b->allocs; i++) {
		uint32_t *last = &c->thread_labels[b->thread[i]];

		e->labels[i] = b->labels[i] == *last ? 0 : 1 + (uint64_t)b->labels[i];
		*last = b->labels[i];
	}
}

/* ---- the chunk ---- */

static void put_head(struct bytes *to, const struct event_head *h, const struct event_batch *b)
{
	to->used = 0;
	to->failed = false;
	bytes_put_u(to, b->events);
	bytes_put_u(to, b->allocs);
	bytes_put_u(to, b->first_sample);
	bytes_put_u(to, h->form);
	bytes_put_u(to, h->way);
	bytes_put_u(to, h->kinds);
	bytes_put_u(to, h->sites);
	bytes_put_u(to, h->nodes);
	bytes_put_u(to, h->pairs);
	bytes_put_u(to, h->new_sizes);
	bytes_put_u(to, h->runs);
	bytes_put_u(to, h->olds);
	bytes_put_u(to, h->segments);
	bytes_put_u(to, h->unit);
	bytes_put_u(to, h->error);
	bytes_put_s(to, h->base);
}

/* The chunk's columns, as they are read. */
struct chunk_columns {
	struct column column[ROOM_FOR_COLUMNS];
	size_t count;
	bool remember; /* it is a large chunk: what is best is kept for the next ones */
};

static void use_column(struct chunk_columns *to, unsigned id, const uint64_t *value, size_t count)
{
	to->column[to->count++] = (struct column){.id = id, .value = value, .count = count};
}

static void use_alternative(struct chunk_columns *to, const struct alternative *a)
{
	memcpy(to->column + to->count, a->column, a->columns * sizeof(*a->column));
	to->count += a->columns;
}

static void write_allocs(struct event_coder *c, struct event_columns *e,
			 const struct event_context *x, const struct event_batch *b,
			 struct event_head *h, struct chunk_columns *to)
{
	struct alternative form[FORMS] = {0};

	if (!x->exact) {
		h->form = FORM_DIRECT;
		put_direct(c, e, x, b);
		add_column(&form[FORM_DIRECT], COLUMN_ALLOC_SIZE, e->size, b->allocs);
		add_column(&form[FORM_DIRECT], COLUMN_ALLOC_NEW_SIZE, e->new_size, e->new_sizes);
	} else {
		put_sites(c, e, x, b);
		put_rare(c, e, b);
		if (wanted_columns(&c->past.decision[FORM], FORM_SITES)) {
			put_sizes(c, e, b);
			add_column(&form[FORM_SITES], COLUMN_ALLOC_ID, e->id, b->allocs);
			add_column(&form[FORM_SITES], COLUMN_ALLOC_SIZE, e->size, b->allocs);
			add_column(&form[FORM_SITES], COLUMN_ALLOC_NEW_SIZE, e->new_size,
				   e->new_sizes);
		}
		if (wanted_columns(&c->past.decision[FORM], FORM_PAIRS) &&
		    put_pairs(c, e, b, !c->past.decision[FORM].left)) {
			add_column(&form[FORM_PAIRS], COLUMN_ALLOC_PAIR, e->pair_id, b->allocs);
			add_column(&form[FORM_PAIRS], COLUMN_PAIR_SITE, e->pair_site, e->pairs);
			add_column(&form[FORM_PAIRS], COLUMN_PAIR_SIZE, e->pair_size, e->pairs);
		}
		h->form = decide(c, FORM, form, FORMS, to->remember);
	}
	h->sites = e->sites;
	h->nodes = e->nodes;
	h->pairs = h->form == FORM_PAIRS ? e->pairs : 0;
	h->new_sizes = h->form == FORM_PAIRS ? 0 : e->new_sizes;
	use_column(to, COLUMN_ALLOC_SITE, e->site, e->sites);
	use_column(to, COLUMN_ALLOC_NODE, e->node, e->nodes);
	use_alternative(to, &form[h->form]);
	if (h->form == FORM_DIRECT || !bytes_all_zero(b->hits, b->allocs * sizeof(*b->hits)))
		use_column(to, COLUMN_ALLOC_HITS, e->hits, b->allocs);
	if (h->form == FORM_DIRECT || !bytes_all_zero(b->interval_log2, b->allocs))
		use_column(to, COLUMN_ALLOC_INTERVAL, e->interval, b->allocs);
	if (h->form == FORM_DIRECT || !bytes_all_zero(b->alloc_flags, b->allocs))
		use_column(to, COLUMN_ALLOC_FLAGS, e->flags, b->allocs);
}

/* The kinds of all events, for the ways that do not predict frees. */
static void choose_kinds(struct event_coder *c, struct event_columns *e,
			 const struct event_batch *b, bool remember, struct event_head *h,
			 struct alternative *chosen)
{
	struct alternative kinds[KINDS] = {0};

	if (wanted_columns(&c->past.decision[KIND], KINDS_RUNS)) {
		put_runs(e, b);
		add_column(&kinds[KINDS_RUNS], COLUMN_EVENT_KIND, e->runs, e->run_count);
	}
	if (wanted_columns(&c->past.decision[KIND], KINDS_BITS)) {
		put_kind_bits(e, b);
		add_column(&kinds[KINDS_BITS], COLUMN_EVENT_BITS, e->bits, e->bit_bytes);
	}
	h->kinds = decide(c, KIND, kinds, KINDS, remember);
	h->runs = h->kinds == KINDS_RUNS ? e->run_count : 0;
	*chosen = kinds[h->kinds];
}

static void write_frees(struct event_coder *c, struct event_columns *e, const struct event_batch *b,
			struct event_head *h, struct chunk_columns *to)
{
	const size_t frees = b->events - b->allocs;
	struct alternative way[WAYS] = {0}, kinds = {0};

	/* With WAY_LIFE, lifetimes say the kinds. */
	if (!c->past.decision[WAY].left || c->past.decision[WAY].best != WAY_LIFE)
		choose_kinds(c, e, b, to->remember, h, &kinds);
	else
		c->past.decision[KIND].columns = 0;
	for (unsigned i = 0; i < WAY_LIFE; i++)
		way[i] = kinds;
	if (wanted_columns(&c->past.decision[WAY], WAY_BACK))
		put_back_distances(e, b);
	if (wanted_columns(&c->past.decision[WAY], WAY_STEP))
		put_steps(e, b);
	add_column(&way[WAY_BACK], COLUMN_FREE_BACK, e->back, frees);
	add_column(&way[WAY_STEP], COLUMN_FREE_STEP, e->step, frees);
	if (wanted_columns(&c->past.decision[WAY], WAY_RANK) ||
	    wanted_columns(&c->past.decision[WAY], WAY_RANK_BACK))
		put_ranks(c, e, b);
	add_column(&way[WAY_RANK], COLUMN_FREE_RANK, e->rank, frees);
	add_column(&way[WAY_RANK], COLUMN_FREE_STEP, e->escape_step, e->escapes);
	add_column(&way[WAY_RANK_BACK], COLUMN_FREE_RANK, e->rank, frees);
	add_column(&way[WAY_RANK_BACK], COLUMN_FREE_BACK, e->escape_back, e->escapes);
	if (wanted_columns(&c->past.decision[WAY], WAY_LIFE))
		put_lives(c, e, b);
	add_column(&way[WAY_LIFE], COLUMN_FREE_LIFE, e->life, b->allocs);
	add_column(&way[WAY_LIFE], COLUMN_EVENT_KIND, e->life_runs, e->life_run_count);
	add_column(&way[WAY_LIFE], COLUMN_FREE_STEP, e->old_step, e->olds);
	h->way = decide(c, WAY, way, WAYS, to->remember);
	if (h->way == WAY_LIFE) {
		h->kinds = KINDS_RUNS;
		h->runs = e->life_run_count;
	}
	h->olds = h->way == WAY_LIFE ? e->olds : h->way < WAY_RANK ? 0 : e->escapes;
	use_alternative(to, &way[h->way]);
	use_column(to, COLUMN_FREE_FLAGS, e->free_flags, frees);
}

/* Times may take an eighth of the chunk; the next chunk gets a coarser or finer error. */
static void adapt_error(struct event_coder *c, size_t chunk)
{
	size_t times = column_written(c->columns, COLUMN_TIME_STEP) +
		       column_written(c->columns, COLUMN_TIME_EVENTS);

	if (times > chunk / 8 && c->past.error < COARSEST_ERROR)
		c->past.error *= 2;
	else if (times < chunk / 40 && c->past.error > FINEST_ERROR)
		c->past.error /= 2;
}

/* Times must not go back, and the line of the chunk before may end above the truth. */
static void choose_unit(struct event_coder *c, const struct event_batch *b, struct event_head *h)
{
	const int64_t first = b->time_ns[0];
	int64_t unit, above;

	for (;; c->past.error *= 2) {
		unit = c->past.error / ERROR_UNITS;
		h->base = to_units(first, unit);
		/* Too far above: not rounding, but events of another trace. */
		above = c->past.chunks && c->past.last_ns > first ? c->past.last_ns - first : 0;
		if (c->past.chunks && c->past.last_ns > h->base * unit &&
		    above <= 2 * COARSEST_ERROR)
			h->base = -to_units(-c->past.last_ns, unit);
		if (c->past.error >= COARSEST_ERROR || h->base * unit - first <= c->past.error)
			break;
	}
	h->unit = (uint64_t)unit;
	h->error = (uint64_t)c->past.error;
}

void events_write(struct event_coder *c, struct event_past *past, const struct event_context *x,
		  const struct event_batch *b, struct bytes *out)
{
	struct chunk_columns to = {.remember = b->events >= MANY_EVENTS};
	struct event_head h = {0};
	struct event_columns e;
	size_t before = out->used;

	if (!b->events)
		return;
	if (!give_memory(c, &e, x, b)) {
		out->failed = true;
		return;
	}
	c->past = *past;
	if (!c->past.error)
		c->past.error = FINEST_ERROR;
	if (!c->past.chunks && to.remember) /* the trace before was perhaps of the same program */
		memcpy(c->past.decision, c->learned, sizeof(c->learned));
	write_allocs(c, &e, x, b, &h, &to);
	out->failed |= c->failed;
	h.unit = h.error = x->unit_ns;
	h.base = to_units(b->time_ns[0], x->unit_ns);
	if (x->exact)
		choose_unit(c, b, &h);
	if (x->exact) {
		c->past.first_ns = h.base * (int64_t)h.unit;
		c->past.last_ns = put_line(&e, b, (int64_t)h.unit, h.base);
		use_column(&to, COLUMN_TIME_STEP, e.time, e.segments);
		use_column(&to, COLUMN_TIME_EVENTS, e.time_events, e.segments);
		if (many_threads(b)) {
			put_thread_column(c, &e, x, b);
			use_column(&to, COLUMN_EVENT_THREAD, e.thread, b->events);
		} else {
			put_one_thread(&e, b);
		}
	} else {
		put_times(&e, b, x->unit_ns);
		put_direct_threads(&e, b);
		use_column(&to, COLUMN_EVENT_TIME, e.time, b->events);
		use_column(&to, COLUMN_ALLOC_THREAD, e.thread, b->allocs);
		use_column(&to, COLUMN_FREE_THREAD, e.free_thread, b->events - b->allocs);
	}
	if (b->labelled) {
		put_label_column(c, &e, x, b);
		use_column(&to, COLUMN_ALLOC_LABELS, e.labels, b->allocs);
	}
	h.segments = e.segments;
	write_frees(c, &e, b, &h, &to);
	put_head(&c->head, &h, b);
	chunk_write(c->columns, out, TRACE_EVENTS, &c->head, to.column, to.count);
	if (to.remember) {
		for (unsigned i = 0; i < QUESTIONS; i++)
			check_decision(c, &c->past.decision[i], b->events);
		adapt_error(c, out->used - before);
		memcpy(c->learned, c->past.decision, sizeof(c->learned));
	}
	c->past.chunks++;
	*past = c->past;
}
