/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the EVNT chunk: see event_coding.h. */
#include "format/event_coding.h"

#include <string.h>

#include "base/varint.h"

#define UNIT_MOST 1000000000u
/* The numbers of this chunk's columns: odd ones below 48, and one more. */
#define ODD_BELOW_48  UINT64_C(0xaaaaaaaaaaaa)
#define COLUMNS_KNOWN (ODD_BELOW_48 | UINT64_C(1) << COLUMN_ALLOC_LABELS)

struct event_reader {
	struct chunk_reader *r;
	const struct event_context *x;
	struct event_batch *b;
	struct event_head h;
	size_t frees;
	uint32_t *site; /* of each allocation, with a dictionary */
};

static bool events_wrong(struct event_reader *e)
{
	chunk_fail(e->r, MAYFLY_E_DAMAGED);
	return false;
}

static bool read_head(struct event_reader *e)
{
	struct varint_in *in = &e->r->head;
	struct event_head *h = &e->h;
	uint64_t events = varint_u(in), allocs = varint_u(in);

	e->b->first_sample = varint_u(in);
	h->form = varint_u(in);
	h->way = varint_u(in);
	h->kinds = varint_u(in);
	h->sites = varint_u(in);
	h->nodes = varint_u(in);
	h->pairs = varint_u(in);
	h->new_sizes = varint_u(in);
	h->runs = varint_u(in);
	h->olds = varint_u(in);
	h->segments = varint_u(in);
	h->unit = varint_u(in);
	h->error = varint_u(in);
	h->base = varint_s(in);
	if (in->bad || events > TRACE_CHUNK_EVENTS || allocs > events || h->runs > events + 1 ||
	    h->sites > allocs || h->nodes > h->sites || h->pairs > allocs ||
	    h->new_sizes > allocs || h->olds > events - allocs || h->segments > events ||
	    h->unit < 1 || h->unit > UNIT_MOST || h->error > TRACE_LATEST_NS ||
	    e->b->first_sample > INT64_MAX)
		return events_wrong(e);
	if (h->form >= FORMS || h->way >= WAYS || h->kinds >= KINDS) {
		chunk_fail(e->r, MAYFLY_E_VERSION);
		return false;
	}
	if (h->form == FORM_DIRECT && h->sites != allocs)
		return events_wrong(e);
	e->b->events = (size_t)events;
	e->b->allocs = (size_t)allocs;
	e->b->time_error_ns = (int64_t)h->error;
	e->frees = (size_t)(events - allocs);
	return true;
}

static bool keep_time(struct event_reader *e, int64_t *now, uint64_t step, int64_t *to)
{
	int64_t ns;

	if (step > INT64_MAX || __builtin_add_overflow(*now, (int64_t)step, now) ||
	    __builtin_mul_overflow(*now, (int64_t)e->h.unit, &ns) || ns > TRACE_LATEST_NS ||
	    ns < -TRACE_LATEST_NS)
		return events_wrong(e);
	*to = ns;
	return true;
}

/* One part of the line: `events` times from `from` (which is not among them) to `to`. */
static void read_part(int64_t *time, uint64_t events, int64_t from, int64_t to)
{
	uint64_t all = (uint64_t)to - (uint64_t)from;
	uint64_t step = all / events, rest = all % events, more = 0;

	for (uint64_t i = 0; i < events; i++) {
		from += (int64_t)step;
		more += rest;
		from += more >= events;
		more -= more >= events ? events : 0;
		time[i] = from;
	}
}

static bool read_line(struct event_reader *e, int64_t *time)
{
	size_t parts = (size_t)e->h.segments, at = 1;
	const uint64_t *step = chunk_numbers(e->r, COLUMN_TIME_STEP, parts);
	const uint64_t *events = chunk_numbers(e->r, COLUMN_TIME_EVENTS, parts);
	int64_t now = e->h.base, corner, next;

	if (!step || !events || !keep_time(e, &now, 0, &corner))
		return false;
	time[0] = corner;
	for (size_t i = 0; i < parts; i++) {
		if (events[i] >= e->b->events - at)
			return events_wrong(e);
		if (!keep_time(e, &now, step[i], &next))
			return false;
		read_part(time + at, events[i] + 1, corner, next);
		at += (size_t)events[i] + 1;
		corner = next;
	}
	return at == e->b->events || events_wrong(e);
}

static bool read_times(struct event_reader *e)
{
	int64_t *time = chunk_memory_dirty(e->r, e->b->events, sizeof(*time));
	const uint64_t *step;
	int64_t now = e->h.base;

	if (!time)
		return false;
	e->b->time_ns = time;
	if (!e->b->events)
		return true;
	if (e->h.form != FORM_DIRECT)
		return read_line(e, time);
	step = chunk_numbers(e->r, COLUMN_EVENT_TIME, e->b->events);
	for (size_t i = 0; step && i < e->b->events; i++)
		if (!keep_time(e, &now, step[i], &time[i]))
			return false;
	return step != NULL;
}

/* The nodes of the dictionary, or of all allocations. */
static uint32_t *read_sites(struct event_reader *e)
{
	const struct event_context *x = e->x;
	const size_t sites = (size_t)e->h.sites, nodes = (size_t)e->h.nodes;
	const uint32_t *site = chunk_numbers32(e->r, COLUMN_ALLOC_SITE, sites);
	const uint32_t *said = chunk_numbers32(e->r, COLUMN_ALLOC_NODE, nodes);
	uint32_t *node = chunk_memory_dirty(e->r, sites, sizeof(*node));
	size_t next_chain = x->first_chain, used = 0;
	bool bad = false;

	if (!site || !said || !node)
		return NULL;
	for (size_t i = 0; i < sites && !bad; i++) {
		if (site[i] == 1) {
			bad = used == nodes || said[used] > x->nodes;
			node[i] = bad ? 0 : said[used++];
		} else if (site[i]) {
			bad = site[i] - 2 >= next_chain;
			node[i] = bad ? 0 : x->chain_end[next_chain - 1 - (site[i] - 2)];
		} else {
			bad = next_chain >= x->chains;
			node[i] = bad ? 0 : x->chain_end[next_chain++];
		}
	}
	if (bad || used != nodes)
		events_wrong(e);
	return e->r->error ? NULL : node;
}

/* Reads sizes that stand apart: place[i] says where the last two sizes of allocation i are kept. */
static bool read_sizes(struct event_reader *e, const uint32_t *place, size_t places)
{
	const size_t allocs = e->b->allocs, new_sizes = (size_t)e->h.new_sizes;
	const uint8_t *code = chunk_numbers8(e->r, COLUMN_ALLOC_SIZE, allocs);
	const uint64_t *said = chunk_numbers(e->r, COLUMN_ALLOC_NEW_SIZE, new_sizes);
	struct {
		uint64_t last, before;
	} *recent = chunk_memory(e->r, places, sizeof(*recent));
	uint64_t *size = chunk_memory_dirty(e->r, allocs, sizeof(*size));
	size_t used = 0;

	if (!code || !said || !recent || !size)
		return false;
	for (size_t i = 0; i < allocs; i++) {
		uint64_t last = recent[place[i]].last;

		if (code[i]) {
			if (code[i] > 2 || (code[i] == 2 && used == new_sizes))
				return events_wrong(e);
			recent[place[i]].last =
			    code[i] == 1 ? recent[place[i]].before : said[used++];
			recent[place[i]].before = last;
			last = recent[place[i]].last;
		}
		size[i] = last;
	}
	e->b->size = size;
	return used == new_sizes || events_wrong(e);
}

static bool read_direct(struct event_reader *e, uint32_t *node)
{
	uint32_t *place = chunk_memory_dirty(e->r, e->b->allocs, sizeof(*place));

	if (!place)
		return false;
	for (size_t i = 0; i < e->b->allocs; i++)
		place[i] = (uint32_t)size_place(e->x, node[i]);
	e->b->node = node;
	return read_sizes(e, place, (size_t)e->x->frames + 1);
}

static bool read_by_site(struct event_reader *e, const uint32_t *dictionary)
{
	const size_t allocs = e->b->allocs;
	const uint32_t *id = chunk_numbers32(e->r, COLUMN_ALLOC_ID, allocs);
	uint32_t *node = chunk_memory_dirty(e->r, allocs, sizeof(*node));

	if (!id || !node)
		return false;
	for (size_t i = 0; i < allocs; i++) {
		if (id[i] >= e->h.sites)
			return events_wrong(e);
		node[i] = dictionary[id[i]];
	}
	e->b->node = node;
	e->site = (uint32_t *)id;
	return read_sizes(e, id, (size_t)e->h.sites);
}

static bool read_by_pair(struct event_reader *e, const uint32_t *dictionary)
{
	const size_t allocs = e->b->allocs, pairs = (size_t)e->h.pairs;
	uint32_t *id = (uint32_t *)chunk_numbers32(e->r, COLUMN_ALLOC_PAIR, allocs);
	const uint32_t *pair_site = chunk_numbers32(e->r, COLUMN_PAIR_SITE, pairs);
	const uint64_t *pair_size = chunk_numbers(e->r, COLUMN_PAIR_SIZE, pairs);
	struct {
		uint64_t size;
		uint32_t node, site;
	} *pair = chunk_memory(e->r, pairs, sizeof(*pair));
	uint32_t *node = chunk_memory_dirty(e->r, allocs, sizeof(*node));
	uint64_t *size = chunk_memory_dirty(e->r, allocs, sizeof(*size));
	uint32_t next_site = 0;

	if (e->r->error)
		return false;
	for (size_t i = 0; i < pairs; i++) {
		uint32_t site = next_site - pair_site[i];

		if (pair_site[i] > next_site || site >= e->h.sites)
			return events_wrong(e);
		next_site += !pair_site[i];
		pair[i].node = dictionary[site];
		pair[i].site = site;
		pair[i].size = pair_size[i];
	}
	for (size_t i = 0; i < allocs; i++) {
		if (id[i] >= pairs)
			return events_wrong(e);
		node[i] = pair[id[i]].node;
		size[i] = pair[id[i]].size;
		id[i] = pair[id[i]].site;
	}
	e->b->node = node;
	e->b->size = size;
	e->site = id;
	return true;
}

/* With FORM_DIRECT, hits are coded as the difference from the expected number. */
static bool read_expected_hits(struct event_reader *e)
{
	struct event_batch *b = e->b;
	const uint64_t *change = chunk_numbers(e->r, COLUMN_ALLOC_HITS, b->allocs);
	uint32_t *hits = chunk_memory_dirty(e->r, b->allocs, sizeof(*hits));

	if (!change || !hits)
		return false;
	for (size_t i = 0; i < b->allocs; i++) {
		uint64_t expected = b->size[i] < (uint64_t)1 << b->interval_log2[i];
		uint64_t value = varint_unzigzag(change[i]) + expected;

		if (value > TRACE_MAX_HITS)
			return events_wrong(e);
		hits[i] = (uint32_t)value;
	}
	b->hits = hits;
	return true;
}

static bool read_hits(struct event_reader *e)
{
	struct event_batch *b = e->b;

	b->interval_log2 = (uint8_t *)chunk_numbers8(e->r, COLUMN_ALLOC_INTERVAL, b->allocs);
	if (!b->interval_log2)
		return false;
	if (e->r->column[COLUMN_ALLOC_INTERVAL].present)
		for (size_t i = 0; i < b->allocs; i++)
			if (b->interval_log2[i] > TRACE_MAX_INTERVAL)
				return events_wrong(e);
	if (e->h.form == FORM_DIRECT)
		return read_expected_hits(e);
	b->hits = (uint32_t *)chunk_numbers32(e->r, COLUMN_ALLOC_HITS, b->allocs);
	if (b->hits && e->r->column[COLUMN_ALLOC_HITS].present)
		for (size_t i = 0; i < b->allocs; i++)
			if (b->hits[i] > TRACE_MAX_HITS)
				return events_wrong(e);
	return b->hits != NULL;
}

static bool read_flags(struct event_reader *e)
{
	struct event_batch *b = e->b;
	uint8_t *flags = (uint8_t *)chunk_numbers8(e->r, COLUMN_ALLOC_FLAGS, b->allocs);
	uint8_t *last;

	b->alloc_flags = flags;
	if (!flags)
		return false;
	if (e->h.form == FORM_DIRECT || !e->r->column[COLUMN_ALLOC_FLAGS].present)
		return true;
	last = chunk_memory(e->r, e->h.sites, 1);
	if (!last)
		return false;
	for (size_t i = 0; i < b->allocs; i++) {
		flags[i] ^= last[e->site[i]];
		last[e->site[i]] = flags[i];
	}
	return true;
}

static bool read_allocs(struct event_reader *e)
{
	uint32_t *dictionary = read_sites(e);
	bool good;

	if (!dictionary)
		return false;
	good = e->h.form == FORM_DIRECT	 ? read_direct(e, dictionary)
	       : e->h.form == FORM_SITES ? read_by_site(e, dictionary)
					 : read_by_pair(e, dictionary);
	return good && read_hits(e) && read_flags(e);
}

/* Reads kinds that are written for all events. True: there are as many of each as the head says. */
static bool read_runs(struct event_reader *e, uint8_t *kind)
{
	const size_t runs = (size_t)e->h.runs;
	const uint32_t *run = chunk_numbers32(e->r, COLUMN_EVENT_KIND, runs);
	size_t at = 0, frees = 0;

	if (!run)
		return false;
	for (size_t i = 0; i < runs; i++) {
		if (run[i] > e->b->events - at)
			return events_wrong(e);
		/* Most runs are short: a store of 8 covers them and some of what follows. */
		if (run[i] <= 8 && e->b->events - at >= 8)
			memset(kind + at, i % 2, 8);
		else
			memset(kind + at, i % 2, run[i]);
		frees += i % 2 ? run[i] : 0;
		at += run[i];
	}
	return (at == e->b->events && frees == e->frees) || events_wrong(e);
}

static bool read_bits(struct event_reader *e, uint8_t *kind)
{
	const size_t events = e->b->events, bytes = (events + 7) / 8;
	const uint8_t *bit = chunk_numbers8(e->r, COLUMN_EVENT_BITS, bytes);
	size_t frees = 0;

	if (!bit)
		return false;
	for (size_t i = 0; i < events; i++) {
		kind[i] = bit[i / 8] >> (i % 8) & 1;
		frees += kind[i];
	}
	return frees == e->frees || events_wrong(e);
}

/* Reads frees that are each written as a distance: to the allocation, or from the block freed
 * before. */
static bool read_places(struct event_reader *e)
{
	const bool back = e->h.way == WAY_BACK;
	const uint64_t *place =
	    chunk_numbers(e->r, back ? COLUMN_FREE_BACK : COLUMN_FREE_STEP, e->frees);
	const uint8_t *is_free = e->b->is_free;
	uint64_t last = e->b->first_sample, next = last, *freed = e->b->freed;
	size_t frees = 0;
	bool bad = false;

	if (!place)
		return false;
	/* Branch-free, because event kinds are unpredictable; reads one item past the end, which
	 * the arrays have. */
	for (size_t i = 0; i < e->b->events; i++) {
		uint64_t number =
		    back ? next - 1 - place[frees] : last + varint_unzigzag(place[frees]);

		last = is_free[i] ? number : last;
		freed[frees] = last;
		bad |= is_free[i] & (last >= next);
		frees += is_free[i];
		next += !is_free[i];
	}
	return !bad || events_wrong(e);
}

static bool read_ranks(struct event_reader *e)
{
	const bool back = e->h.way == WAY_RANK_BACK;
	const size_t allocs = e->b->allocs, olds = (size_t)e->h.olds;
	const uint8_t *rank = chunk_numbers8(e->r, COLUMN_FREE_RANK, e->frees);
	const uint64_t *place =
	    chunk_numbers(e->r, back ? COLUMN_FREE_BACK : COLUMN_FREE_STEP, olds);
	struct live_stack live = {
	    .block = chunk_memory_dirty(e->r, allocs, sizeof(*live.block)),
	    .dead = chunk_memory(e->r, allocs / 64, sizeof(*live.dead)),
	};
	const uint64_t first = e->b->first_sample;
	uint64_t last = first, *freed = e->b->freed;
	uint32_t pushed = 0;
	size_t used = 0;

	if (e->r->error)
		return false;
	for (size_t i = 0; i < e->b->events; i++) {
		uint32_t index;

		if (!e->b->is_free[i]) {
			live_push(&live, pushed++);
			continue;
		}
		if (*rank < RANK_ESCAPE) {
			if (!live_take(&live, *rank++, &index))
				return events_wrong(e);
			*freed++ = first + index;
			continue;
		}
		if (*rank++ > RANK_ESCAPE || used == olds)
			return events_wrong(e);
		last =
		    back ? first + pushed - 1 - place[used] : last + varint_unzigzag(place[used]);
		used++;
		if (last >= first + pushed)
			return events_wrong(e);
		if (last >= first)
			live_mark(&live, (uint32_t)(last - first));
		*freed++ = last;
	}
	return used == olds || events_wrong(e);
}

/* Lifetimes: frees[i] is 1 + the allocation that event i frees, where a lifetime predicts that. */
static bool read_lives(struct event_reader *e, uint8_t *kind)
{
	const size_t events = e->b->events, runs = (size_t)e->h.runs, olds = (size_t)e->h.olds;
	const uint32_t *life = chunk_numbers32(e->r, COLUMN_FREE_LIFE, e->b->allocs);
	const uint32_t *run = chunk_numbers32(e->r, COLUMN_EVENT_KIND, runs);
	const uint64_t *step = chunk_numbers(e->r, COLUMN_FREE_STEP, olds);
	uint32_t *foretold = chunk_memory(e->r, events, sizeof(*foretold));
	const uint64_t first = e->b->first_sample;
	uint64_t last = first;
	size_t allocs = 0, frees = 0, old = 0, at = 0;
	uint32_t left = runs ? run ? run[0] : 0 : 0;

	if (e->r->error)
		return false;
	for (size_t i = 0; i < events; i++) {
		if (foretold[i]) {
			if (frees == e->frees)
				return events_wrong(e);
			kind[i] = 1;
			e->b->freed[frees++] = first + foretold[i] - 1;
			continue;
		}
		while (!left) {
			if (++at >= runs)
				return events_wrong(e);
			left = run[at];
		}
		left--;
		kind[i] = at % 2;
		if (kind[i]) {
			if (frees == e->frees || old == olds)
				return events_wrong(e);
			last += varint_unzigzag(step[old++]);
			if (last >= first)
				return events_wrong(e);
			e->b->freed[frees++] = last;
			continue;
		}
		if (allocs == e->b->allocs || life[allocs] >= events - i ||
		    (life[allocs] && foretold[i + life[allocs]]))
			return events_wrong(e);
		allocs++;
		if (life[allocs - 1])
			foretold[i + life[allocs - 1]] = (uint32_t)allocs;
	}
	return (frees == e->frees && old == olds && !left && at + 1 >= runs) || events_wrong(e);
}

static bool read_frees(struct event_reader *e)
{
	uint8_t *kind = chunk_memory_dirty(e->r, e->b->events, 1);

	e->b->freed = chunk_memory_dirty(e->r, e->frees, sizeof(*e->b->freed));
	if (!kind || !e->b->freed)
		return false;
	e->b->is_free = kind;
	if (e->h.way == WAY_LIFE)
		return read_lives(e, kind);
	if (!(e->h.kinds == KINDS_RUNS ? read_runs(e, kind) : read_bits(e, kind)))
		return false;
	return e->h.way < WAY_RANK ? read_places(e) : read_ranks(e);
}

static bool read_direct_threads(struct event_reader *e)
{
	struct event_batch *b = e->b;
	size_t allocs = 0, frees = 0;
	uint32_t thread = 0;

	b->thread = (uint32_t *)chunk_numbers32(e->r, COLUMN_ALLOC_THREAD, b->allocs);
	b->free_thread = (uint32_t *)chunk_numbers32(e->r, COLUMN_FREE_THREAD, e->frees);
	b->free_flags = (uint8_t *)chunk_numbers8(e->r, COLUMN_FREE_FLAGS, e->frees);
	if (e->r->error)
		return false;
	for (size_t i = 0; i < b->events; i++) {
		if (!b->is_free[i]) {
			thread = b->thread[allocs++];
		} else {
			if (b->free_thread[frees])
				thread = b->free_thread[frees] - 1;
			else
				thread = expected_thread(b, b->freed[frees], thread);
			b->free_thread[frees++] = thread;
		}
		if (thread >= e->x->threads)
			return events_wrong(e);
	}
	return true;
}

/* An absent column means that thread 0 is the only one in the chunk. */
static bool read_one_thread(struct event_reader *e)
{
	struct event_batch *b = e->b;
	const uint8_t *is_free = b->is_free;
	uint64_t last = b->first_sample - 1;
	size_t frees = 0, allocs = 0;

	b->thread = chunk_memory(e->r, b->allocs, sizeof(*b->thread));
	b->free_thread = chunk_memory(e->r, e->frees, sizeof(*b->free_thread));
	if (!b->thread || !b->free_thread)
		return false;
	/* Branch-free, as in read_places(). */
	for (size_t i = 0; i < b->events; i++) {
		uint8_t expected = expected_free_flags(realloc_follows(b, i, allocs),
						       allocs && b->freed[frees] == last);

		b->free_flags[frees] ^= is_free[i] ? expected : 0;
		frees += is_free[i];
		last += !is_free[i];
		allocs += !is_free[i];
	}
	return !b->events || e->x->threads || events_wrong(e);
}

static bool read_threads(struct event_reader *e)
{
	struct event_batch *b = e->b;
	const uint8_t *is_free = b->is_free;
	const uint32_t *thread;
	uint64_t *last;
	size_t allocs = 0, frees = 0;

	b->free_flags = (uint8_t *)chunk_numbers8(e->r, COLUMN_FREE_FLAGS, e->frees);
	if (!b->free_flags)
		return false;
	if (!e->r->column[COLUMN_EVENT_THREAD].present)
		return read_one_thread(e);
	thread = chunk_numbers32(e->r, COLUMN_EVENT_THREAD, b->events);
	last = chunk_memory(e->r, e->x->threads, sizeof(*last)); /* 1 + number */
	b->thread = chunk_memory_dirty(e->r, b->allocs, sizeof(*b->thread));
	b->free_thread = chunk_memory_dirty(e->r, e->frees, sizeof(*b->free_thread));
	if (e->r->error)
		return false;
	for (size_t i = 0; i < b->events; i++) {
		const uint32_t t = thread[i];
		uint8_t expected;

		if (t >= e->x->threads)
			return events_wrong(e);
		expected = expected_free_flags(realloc_follows(b, i, allocs),
					       last[t] == b->freed[frees] + 1);
		b->thread[allocs] = t;
		b->free_thread[frees] = t;
		b->free_flags[frees] ^= is_free[i] ? expected : 0;
		frees += is_free[i];
		allocs += !is_free[i];
		last[t] = is_free[i] ? last[t] : b->first_sample + allocs;
	}
	return true;
}

static bool read_label_column(struct event_reader *e)
{
	struct event_batch *b = e->b;
	uint32_t *last;

	if (!e->r->column[COLUMN_ALLOC_LABELS].present)
		return true;
	b->labels = (uint32_t *)chunk_numbers32(e->r, COLUMN_ALLOC_LABELS, b->allocs);
	last = chunk_memory(e->r, e->x->threads, sizeof(*last));
	if (!b->labels || !last)
		return false;
	for (size_t i = 0; i < b->allocs; i++) {
		if (b->labels[i] > e->x->label_sets && e->x->labels_lost)
			b->labels[i] = 1; /* of the empty set */
		if (b->labels[i] > e->x->label_sets)
			return events_wrong(e);
		if (b->labels[i])
			last[b->thread[i]] = b->labels[i] - 1;
		b->labels[i] = last[b->thread[i]];
	}
	return true;
}

bool events_read(struct chunk_reader *r, const struct event_context *x, struct event_batch *b)
{
	struct event_reader e = {.r = r, .x = x, .b = b};

	memset(b, 0, sizeof(*b));
	return read_head(&e) && chunk_columns(r, COLUMNS_KNOWN) && read_times(&e) &&
	       read_allocs(&e) && read_frees(&e) &&
	       (e.h.form == FORM_DIRECT ? read_direct_threads(&e) : read_threads(&e)) &&
	       read_label_column(&e);
}
