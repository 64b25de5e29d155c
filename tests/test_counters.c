/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace holds beside its events: counters, nearly empty pages, mappings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "format/spool_format.h"
#include "spool/fragments_measure.h"
#include "trace/rewrite/thin.h"
#include "trace/write/residency.h"
#include "trace/write/writer.h"

#include "test.h"

static uint64_t random_state;

static uint64_t random64(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return random_state >> 32 ^ random_state << 32;
}

static uint64_t below(uint64_t limit)
{
	return random64() % limit;
}

/* ---- counters ---- */

#define MOST_COUNTERS 12

struct expected {
	char name[16], unit[8];
	size_t points;
	int64_t *time_ns;
	double *value;
};

struct history {
	struct expected counter[MOST_COUNTERS];
	size_t counters;
	struct recording *tables;
	struct trace_writer *writer;
	struct trace_buffer buffer;
};

/* Counters whose values are integers, large ones, or anything. */
static double random_value(size_t kind, double last)
{
	uint64_t bits = random64();
	double value;

	switch (kind % 4) {
	case 0:
		return (double)(int64_t)(bits >> 50) - 8000;
	case 1:
		return last + (double)(bits % 1000000);
	case 2:
		return (double)(bits % 1000) / 7;
	}
	memcpy(&value, &bits, sizeof(value));
	return isfinite(value) ? value : -0.0;
}

static void begin(struct history *h, size_t counters)
{
	const struct trace_writer_options options = {.interval_log2 = 10, .level = 1};

	memset(h, 0, sizeof(*h));
	h->counters = counters;
	h->tables = recording_new();
	h->writer = trace_writer_new(&options, h->tables, trace_buffer_sink, &h->buffer);
	recording_thread(h->tables, 1, 0);
	for (size_t i = 0; i < counters; i++) {
		snprintf(h->counter[i].name, sizeof(h->counter[i].name), "counter.%zu", i % 9);
		snprintf(h->counter[i].unit, sizeof(h->counter[i].unit), "%s",
			 i > 8	 ? "x"
			 : i % 3 ? "bytes"
				 : "");
	}
}

static void end(struct history *h)
{
	for (size_t i = 0; i < h->counters; i++) {
		free(h->counter[i].time_ns);
		free(h->counter[i].value);
	}
	trace_writer_free_all(h->writer);
	recording_free(h->tables);
	free(h->buffer.bytes);
}

static void add_point(struct history *h, size_t i, int64_t ns, double value)
{
	struct expected *e = &h->counter[i];
	size_t n = e->points;

	CHECK(trace_writer_counter(
		  h->writer, ns, recording_string(h->tables, e->name, strlen(e->name)),
		  recording_string(h->tables, e->unit, strlen(e->unit)), value) == 0);
	if (!isfinite(value))
		return;
	e->time_ns = realloc(e->time_ns, (n + 1) * sizeof(*e->time_ns));
	e->value = realloc(e->value, (n + 1) * sizeof(*e->value));
	e->time_ns[n] = n && ns < e->time_ns[n - 1] ? e->time_ns[n - 1] : ns;
	e->value[n] = value;
	e->points++;
}

static void add_event(struct history *h, int64_t ns)
{
	const struct trace_block block = {.size = 100, .hits = 1, .interval_log2 = 10};
	uint64_t serial;

	CHECK(trace_writer_alloc(h->writer, ns, &block, &serial) == 0);
}

static bool same_number(double a, double b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

/* Times are rounded down to a microsecond. */
static void compare(const struct history *h, const struct mayfly_trace *t)
{
	size_t seen = 0;

	for (size_t i = 0; i < h->counters; i++)
		seen += h->counter[i].points != 0;
	CHECK(mayfly_trace_info(t)->counters == seen);
	CHECK(!mayfly_trace_counter(t, seen));
	for (size_t i = 0; i < seen && i < mayfly_trace_info(t)->counters; i++) {
		const struct mayfly_counter *got = mayfly_trace_counter(t, i);
		const struct expected *want = NULL;
		size_t wrong = 0;

		for (size_t k = 0; k < h->counters; k++)
			if (!strcmp(got->name, h->counter[k].name) &&
			    !strcmp(got->unit, h->counter[k].unit))
				want = &h->counter[k];
		CHECK(want && got->points == want->points);
		for (size_t k = 0; want && k < got->points && k < want->points; k++)
			wrong += !same_number(got->value[k], want->value[k]) ||
				 got->time_ns[k] > want->time_ns[k] ||
				 want->time_ns[k] - got->time_ns[k] > 999;
		CHECK(wrong == 0);
	}
}

static void finish_and_compare(struct history *h)
{
	struct mayfly_trace *t = NULL;

	CHECK(trace_writer_finish(h->writer) == 0);
	CHECK(mayfly_trace_open(h->buffer.bytes, h->buffer.used, &t) == 0);
	if (t)
		compare(h, t);
	mayfly_trace_close(t);
}

static void random_points(struct history *h, size_t points, bool in_turn)
{
	int64_t now = (int64_t)below(1000000) - 500000;
	double last[MOST_COUNTERS] = {0};

	for (size_t k = 0; k < points; k++) {
		size_t i = in_turn ? k % h->counters : below(h->counters);

		if (!in_turn || i == 0)
			now += (int64_t)below(2000000) - (in_turn ? 0 : 100000);
		last[i] = below(50) ? random_value(i, last[i]) : last[i];
		add_point(h, i, now, below(100) ? last[i] : (double)NAN);
		if (below(10) == 0)
			add_event(h, now);
	}
}

static void counters_survive(void)
{
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct history h;

		random_state = seed;
		begin(&h, 1 + below(MOST_COUNTERS));
		random_points(&h, below(3000), seed & 1);
		if (seed % 5 == 0)
			CHECK(trace_writer_flush(h.writer) == 0);
		random_points(&h, below(3000), seed & 2);
		finish_and_compare(&h);
		end(&h);
	}
}

static void many_points_take_several_chunks(void)
{
	struct history h;
	struct mayfly_trace *t = NULL;

	random_state = 1;
	begin(&h, 5);
	random_points(&h, 100000, true);
	CHECK(h.buffer.used > 0); /* not all of it is held in memory */
	finish_and_compare(&h);
	/* Steady values cost little. */
	end(&h);
	begin(&h, 5);
	for (size_t i = 0; i < 50000; i++)
		add_point(&h, i % 5, (int64_t)(i / 5) * 1000000000, (double)(i % 5));
	add_event(&h, 0);
	finish_and_compare(&h);
	CHECK(h.buffer.used < 10000);
	/* Cut off anywhere, what is left is sound. */
	for (size_t cut = 24; cut < h.buffer.used; cut += 7) {
		if (mayfly_trace_open(h.buffer.bytes, cut, &t) != 0)
			continue;
		for (size_t i = 0; i < mayfly_trace_info(t)->counters; i++)
			CHECK(mayfly_trace_counter(t, i)->points > 0);
		mayfly_trace_close(t);
	}
	end(&h);
}

static void thinning_keeps_counters(void)
{
	const struct trace_writer_options options = {.interval_log2 = 10, .level = 1};
	struct history h;
	struct mayfly_trace *t = NULL;
	struct trace_buffer thinned = {0};
	struct trace_writer *to;
	struct thin_map *map;

	random_state = 7;
	begin(&h, 6);
	random_points(&h, 5000, true);
	CHECK(trace_writer_finish(h.writer) == 0);
	CHECK(mayfly_trace_open(h.buffer.bytes, h.buffer.used, &t) == 0);
	to = trace_writer_new(&options, h.tables, trace_buffer_sink, &thinned);
	CHECK(trace_thin(t, 14, 1, to, &map) == 0);
	CHECK(trace_writer_finish(to) == 0);
	mayfly_trace_close(t);
	CHECK(mayfly_trace_open(thinned.bytes, thinned.used, &t) == 0);
	CHECK(mayfly_trace_info(t)->samples < 200);
	compare(&h, t);
	mayfly_trace_close(t);
	thin_map_free(map);
	trace_writer_free_all(to);
	free(thinned.bytes);
	end(&h);
}

/* ---- nearly empty pages ---- */

#define PAGES	 3000u
#define NODES	 20u
#define FIRST_AT (((uint64_t)1 << 40) - 65536u * 3)

/* Byte by byte; what lies in another block counts with that. Returns how many blocks count. */
static size_t measure_naively(const struct live_table *t, double *held, uint64_t *pages,
			      uint64_t *all_pages, uint64_t *runs)
{
	bool before = false;
	uint32_t *owner = calloc((size_t)PAGES * FRAGMENT_PAGE_BYTES, sizeof(*owner));
	size_t blocks = 0;

	for (size_t i = 0; i < t->high; i++) {
		const struct live_block *b = &t->block[i];
		uint64_t at = b->key & ~SPOOL_ADDRESS_POOL_MAPPED;

		if (!b->key || b->key & SPOOL_ADDRESS_POOL)
			continue;
		blocks++;
		for (uint64_t k = 0; k < (b->size ? b->size : 1); k++)
			owner[at - FIRST_AT + k] = b->node + 1;
	}
	*all_pages = *runs = 0;
	for (size_t p = 0; p < PAGES; p++) {
		uint32_t count[NODES] = {0}, sum = 0;

		for (size_t k = 0; k < FRAGMENT_PAGE_BYTES; k++) {
			uint32_t o = owner[p * FRAGMENT_PAGE_BYTES + k];

			if (o)
				count[o - 1]++;
			sum += o != 0;
		}
		*all_pages += sum != 0;
		*runs += sum && !before;
		before = sum != 0;
		for (size_t n = 0; sum && n < NODES; n++) {
			held[n] += (double)FRAGMENT_PAGE_BYTES * count[n] / sum;
			pages[n] += count[n] != 0;
		}
	}
	free(owner);
	return blocks;
}

static void put_block(struct live_table *t, uint64_t at, uint32_t heap, uint64_t size)
{
	uint64_t key = at | (heap == MAYFLY_HEAP_POOL	       ? SPOOL_ADDRESS_POOL
			     : heap == MAYFLY_HEAP_POOL_MAPPED ? SPOOL_ADDRESS_POOL_MAPPED
							       : 0);
	bool there;
	struct live_block *b = live_put(t, key, &there);

	CHECK(b && !there);
	b->size = size;
	b->node = (uint32_t)below(NODES);
	b->flags = (uint8_t)(heap << MAYFLY_FLAG_HEAP_SHIFT);
}

/* The last pages are mappings with pools. */
static void fill_table(struct live_table *t)
{
	const uint64_t mapped = FIRST_AT + (uint64_t)2000 * FRAGMENT_PAGE_BYTES;
	uint64_t at = FIRST_AT, limit = FIRST_AT + (uint64_t)(PAGES - 60) * FRAGMENT_PAGE_BYTES;

	while (at < limit) {
		uint32_t heap = at < mapped ? MAYFLY_HEAP_MALLOC : MAYFLY_HEAP_POOL_MAPPED;
		uint64_t size = below(20) ? below(300) : below(40) ? below(20000) : below(200000);
		bool is_last = at < mapped && mapped - at <= size;

		if (below(3) && !is_last)
			put_block(t, at, heap, size);
		if (below(10) == 0)
			put_block(t, at, MAYFLY_HEAP_POOL, size / 2);
		at += (size + 31) & ~15ull;
		if (below(10) == 0)
			at += below(30) * 1024 & ~15ull;
	}
}

static void pages_are_shared_out(void)
{
	for (uint64_t seed = 0; seed < 8; seed++) {
		double held[NODES] = {0}, sum = 0;
		uint64_t pages[NODES] = {0}, all_pages, runs;
		struct live_table t = {0};
		struct fragments f;
		size_t at = 0, blocks;

		random_state = seed;
		fill_table(&t);
		CHECK(fragments_measure(&f, &t, NODES, 5));
		blocks = measure_naively(&t, held, pages, &all_pages, &runs);
		CHECK(f.pages == all_pages && f.blocks == blocks && f.time_ns == 5);
		CHECK(f.runs >= runs && f.runs <= runs + 2);
		for (uint32_t n = 0; n < NODES; n++) {
			if (pages[n] == 0)
				continue;
			CHECK(at < f.entries && f.entry[at].node == n);
			CHECK(fabs((double)f.entry[at].held_bytes - held[n]) < 1);
			CHECK(f.entry[at].pages == pages[n]);
			sum += held[n];
			at++;
		}
		CHECK(at == f.entries);
		CHECK(fabs(sum - (double)all_pages * FRAGMENT_PAGE_BYTES) < 1);
		fragments_free(&f);
		live_free(&t);
	}
}

/* Blocks in many regions come and go. size: 1 + what it was, where a block is live. */
static void live_blocks_are_found(void)
{
	enum { PLACES = 1 << 16, ROUNDS = 8 };
	uint64_t *size = calloc(PLACES, sizeof(*size));
	struct live_table t = {0};
	size_t used = 0;

	for (uint64_t step = 0; step < ROUNDS * PLACES; step++) {
		uint64_t place = below(PLACES),
			 key = FIRST_AT + place / 16 * 0x10000 + place % 16 * 8;
		uint32_t *found = live_find(&t, key);
		bool there, fills = step / PLACES % 4 == 0;
		struct live_block *b;

		live_prefetch(&t, key);
		CHECK(!found == !size[place]);
		CHECK(!found || live_at(&t, found)->size == size[place]);
		if (!fills && found) {
			live_remove(&t, found);
			size[place] = 0;
			used--;
		} else if (fills || below(64) == 0) {
			b = live_put(&t, key, &there);
			CHECK(b && there == (size[place] != 0));
			used += !there;
			b->size = size[place] = 1 + step;
		}
		CHECK(t.used == used);
	}
	live_free(&t);
	free(size);
}

static void strange_blocks_do_no_harm(void)
{
	static const uint64_t sizes[] = {0, 1, UINT64_MAX, (uint64_t)1 << 50, (uint64_t)1 << 47};
	struct live_table t = {0};
	struct fragments f;
	bool there;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct live_block *b = live_put(&t, UINT64_MAX - i * 5000, &there);

		b->size = sizes[i];
		b->node = i == 1 ? 99 : 0;
		b->flags = i == 3 ? MAYFLY_HEAP_POOL_MAPPED << MAYFLY_FLAG_HEAP_SHIFT : 0;
		b = live_put(&t, 16 + i * 16, &there); /* they overlap */
		b->size = sizes[i];
		b->node = 1;
		b->flags = 0;
	}
	CHECK(fragments_measure(&f, &t, 2, 0));
	fragments_free(&f);
	live_free(&t);
}

static void fragments_survive(void)
{
	struct history h;
	struct mayfly_trace *t = NULL;
	const struct mayfly_fragmentation *got;
	struct fragments f = {.time_ns = 7000, .blocks = 9, .bytes = 900, .pages = 3, .runs = 2};
	uint32_t frame, nodes[5];

	begin(&h, 1);
	for (size_t i = 0; i < 5; i++) {
		frame = recording_frame(h.tables, MAYFLY_FRAME_CODE, RECORDING_NONE, 1000 + i);
		nodes[i] = recording_node(h.tables, 0, frame);
	}
	add_event(&h, 10);
	f.entries = 3;
	f.entry = calloc(3, sizeof(*f.entry));
	for (size_t i = 0; i < 3; i++)
		f.entry[i] = (struct mayfly_fragment){nodes[4 - 2 * i], i + 1, 100 * i, i, 4096};
	CHECK(trace_writer_fragments(h.writer, FRAGMENTS_PEAK, &f) == 0);
	CHECK(trace_writer_finish(h.writer) == 0);
	CHECK(mayfly_trace_open(h.buffer.bytes, h.buffer.used, &t) == 0);
	CHECK(!mayfly_trace_fragmentation(t, true));
	got = mayfly_trace_fragmentation(t, false);
	CHECK(got && got->count == 3 && got->bytes == 900 && got->pages == 3 && got->runs == 2 &&
	      got->time_ns == 7000 && got->page_bytes == 4096);
	for (size_t i = 0; got && i < got->count; i++) {
		const struct mayfly_fragment *e = &got->fragment[i];
		const struct mayfly_frame *at =
		    mayfly_trace_frame(t, mayfly_trace_node(t, e->node).frame);

		/* Which one it is, its frame tells. */
		CHECK(at->address == 1004 - 2 * (e->blocks - 1));
		CHECK(e->bytes == 100 * (e->blocks - 1) && e->pages == e->blocks - 1);
	}
	mayfly_trace_close(t);
	end(&h);
}

static void residency_survives(void)
{
	static const struct {
		struct residency_row row;
		const char *name;
	} rows[] = {{{0, 0, 12288, MAYFLY_MAPPING_OTHER, 0}, ""},
		    {{0x10000, 0, 4096, MAYFLY_MAPPING_DATA, 0}, "/bin/x"},
		    {{0x10000, 8192, 8192, MAYFLY_MAPPING_FILE, 0}, "/bin/x"},
		    {{0x20000, 4096, 4096, MAYFLY_MAPPING_ANONYMOUS, 0}, ""},
		    {{0xffffffffff600000, 4096, 4096, MAYFLY_MAPPING_FILE, 0}, "/bin/x"}};
	struct residency r = {.time_ns = 7000, .resident = 99};
	const struct mayfly_residency *got;
	struct mayfly_trace *t = NULL;
	struct history h;

	begin(&h, 1);
	add_event(&h, 10);
	for (size_t i = 0; i < 5; i++)
		CHECK(residency_add(&r, &rows[i].row, rows[i].name));
	trace_writer_residency(h.writer, RESIDENCY_PEAK, &r);
	CHECK(!r.rows && trace_writer_finish(h.writer) == 0);
	CHECK(mayfly_trace_open(h.buffer.bytes, h.buffer.used, &t) == 0);
	got = mayfly_trace_residency(t, false);
	CHECK(got && got == mayfly_trace_residency(t, true));
	CHECK(got && got->count == 5 && got->time_ns == 7000 && got->resident == 99);
	for (size_t i = 0; got && i < got->count; i++) {
		const struct mayfly_mapping *m = &got->mapping[i];

		CHECK(m->start == rows[i].row.start && m->size == rows[i].row.size &&
		      m->resident == rows[i].row.resident && m->kind == rows[i].row.kind &&
		      !strcmp(m->name, rows[i].name));
	}
	mayfly_trace_close(t);
	end(&h);
}

/* The largest ones stay, in order; nothing is lost. */
static void many_mappings_are_summed(void)
{
	struct residency r = {.time_ns = 3};
	uint64_t all = 0, sum = 0;
	size_t count = 3 * RESIDENCY_MOST, sums = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t bytes = 4096 * (1 + hash_mix(i) % 1000);

		CHECK(residency_add(
		    &r,
		    &(struct residency_row){
			.start = (i + 1) << 24, .size = bytes, .resident = bytes, .kind = i % 2},
		    i % 3 ? "/lib/x" : ""));
		all += bytes;
	}
	CHECK(residency_shrink(&r));
	CHECK(r.rows <= RESIDENCY_MOST + MAYFLY_MAPPING_KINDS && r.time_ns == 3);
	for (size_t i = 0; i < r.rows; i++) {
		sum += r.row[i].resident;
		sums += !r.row[i].start;
		CHECK(!i || r.row[i].start >= r.row[i - 1].start);
		CHECK(!r.row[i].start ||
		      strcmp(residency_name(&r, &r.row[i]),
			     (r.row[i].start / (1 << 24) - 1) % 3 ? "/lib/x" : "") == 0);
	}
	CHECK(sum == all && sums == 2 && r.rows > RESIDENCY_MOST / 2);
	residency_free(&r);
}

int main(void)
{
	RUN(counters_survive);
	RUN(many_points_take_several_chunks);
	RUN(thinning_keeps_counters);
	RUN(pages_are_shared_out);
	RUN(live_blocks_are_found);
	RUN(strange_blocks_do_no_harm);
	RUN(fragments_survive);
	RUN(residency_survives);
	RUN(many_mappings_are_summed);
	DONE();
}
