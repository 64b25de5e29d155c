/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of chunks, columns and EVNT: there and back, and what damaged bytes do. */
#include <mayfly/trace.h>

#include <string.h>

#include "test.h"
#include "base/bytes.h"
#include "format/columns.h"
#include "format/events.h"
#include "format/format.h"

#define TYPE   TRACE_TYPE('T', 'E', 'S', 'T')
#define BUDGET ((uint64_t)256 << 20)

static uint64_t random_state = 1;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t below(uint64_t limit)
{
	return random_u64() % limit;
}

/* ---- checksum ---- */

static uint32_t slow_checksum(uint32_t crc, const uint8_t *data, size_t size)
{
	crc = ~crc;
	while (size--) {
		crc ^= *data++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

static void checksum(void)
{
	uint8_t data[300];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)random_u64();
	CHECK(trace_checksum(0, "123456789", 9) == 0xcbf43926);
	for (size_t from = 0; from < 9; from++)
		for (size_t size = 0; from + size <= sizeof(data); size++)
			CHECK(trace_checksum(7, data + from, size) ==
			      slow_checksum(7, data + from, size));
	CHECK(trace_checksum(trace_checksum(0, data, 101), data + 101, 199) ==
	      trace_checksum(0, data, 300));
}

/* ---- bytes ---- */

static void growing_bytes(void)
{
	struct bytes b = {0};
	struct varint_in in;
	uint8_t *end;

	for (uint64_t i = 0; i < 1000; i++) {
		bytes_put_u(&b, i * i * i);
		bytes_put_s(&b, (int64_t)(i * i) * (i % 2 ? 1 : -1));
		bytes_put_fixed(&b, i, 1 + i % 8);
		bytes_put(&b, "xyz", i % 4);
	}
	in = varint_begin(b.at, b.used);
	for (uint64_t i = 0; i < 1000; i++) {
		unsigned width = 1 + i % 8;

		CHECK(varint_u(&in) == i * i * i);
		CHECK(varint_s(&in) == (int64_t)(i * i) * (i % 2 ? 1 : -1));
		CHECK(varint_fixed(&in, width) == (width == 1 ? i & 0xff : i));
		CHECK(memcmp(varint_bytes(&in, i % 4), "xyz", i % 4) == 0);
	}
	CHECK(!in.bad && !varint_left(&in) && !b.failed);
	end = bytes_extend(&b, SIZE_MAX / 2);
	CHECK(!end && b.failed);
	bytes_put_u(&b, 1);
	CHECK(b.failed);
	bytes_free(&b);
	CHECK(!b.at && !b.failed);
}

/* ---- columns ---- */

struct reading {
	struct chunk_reader r;
	uint64_t budget;
};

static void begin_reading(struct reading *g)
{
	memset(g, 0, sizeof(*g));
	g->budget = BUDGET;
	g->r.budget = &g->budget;
	g->r.compress = compress_new(0);
}

static void end_reading(struct reading *g)
{
	chunk_end(&g->r);
	CHECK(g->budget == BUDGET);
	compress_free(g->r.compress);
}

enum {
	ZEROS,
	ONES,
	LARGEST,
	SMALL,
	BYTES,
	WORDS,
	WIDE,
	SKEWED,
	RUNS,
	LONG_RUNS,
	PATTERN,
	PATTERN_BROKEN,
	ASCENDING,
	MIDDLE_CONSTANT,
	PATTERNS
};

static uint64_t pattern_value(unsigned pattern, size_t i, size_t count)
{
	switch (pattern) {
	case ZEROS:
		return 0;
	case ONES:
		return 1;
	case LARGEST:
		return UINT64_MAX;
	case SMALL:
		return below(4);
	case BYTES:
		return below(256);
	case WORDS:
		return below(65536);
	case WIDE:
		return random_u64();
	case SKEWED:
		return random_u64() >> below(64);
	case RUNS:
		return i / 7 % 3;
	case LONG_RUNS:
		return (i / 5000) * UINT64_C(0x100000001);
	case PATTERN:
		return "\1\4\2\200\5\7\0\1\1"[i % 9] & 0xff;
	case PATTERN_BROKEN:
		return i % 10 ? (unsigned)"\1\1\2\1\4\2\1\5\1\1"[i % 10] : below(1 << 15);
	case ASCENDING:
		return i * 1000 + below(10);
	default:
		return i > count / 100 && i < count - count / 100 ? 5 : i;
	}
}

static uint64_t width_of(const uint64_t *value, size_t count)
{
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++)
		all |= value[i];
	return all;
}

static uint32_t codings_seen;

/* Reads the only column of a chunk in all widths. */
static void check_column(const struct bytes *out, const uint64_t *value, size_t count)
{
	static const unsigned width[] = {8, 4, 1};
	struct reading g;
	struct chunk_header h;

	begin_reading(&g);
	CHECK(chunk_find(out->at, out->used, true, &h) == 0);
	CHECK(h.type == TYPE && TRACE_CHUNK_BYTES + h.stored == out->used);
	for (int w = 0; w < 3; w++) {
		uint64_t all = width_of(value, count);
		bool fits = w == 0 || !(all >> (8 * width[w]));
		const void *got;
		bool same = true;

		CHECK(chunk_begin(&g.r, &h));
		CHECK(varint_u(&g.r.head) == count);
		CHECK(chunk_columns(&g.r, 1 << 5));
		CHECK(g.r.column[5].present == (all != 0));
		codings_seen |= all ? 1u << g.r.column[5].coding : 0;
		got = width[w] == 8   ? (const void *)chunk_numbers(&g.r, 5, count)
		      : width[w] == 4 ? (const void *)chunk_numbers32(&g.r, 5, count)
				      : (const void *)chunk_numbers8(&g.r, 5, count);
		CHECK((got != NULL) == fits, "width %u", width[w]);
		CHECK(fits ? !g.r.error : g.r.error == MAYFLY_E_DAMAGED);
		for (size_t i = 0; got && i < count && same; i++)
			same = (width[w] == 8	? ((const uint64_t *)got)[i]
				: width[w] == 4 ? ((const uint32_t *)got)[i]
						: ((const uint8_t *)got)[i]) == value[i];
		CHECK(same);
		chunk_end(&g.r);
	}
	end_reading(&g);
}

static void number_columns(void)
{
	static const size_t counts[] = {0, 1, 2, 3, 100, 3000, 20000, 130000};
	static const int levels[] = {1, 3, 12};
	uint64_t *value = malloc(130000 * sizeof(*value));

	for (size_t l = 0; l < 3; l++) {
		struct column_writer *w = column_writer_new(levels[l]);

		for (unsigned pattern = 0; pattern < PATTERNS; pattern++)
			for (size_t n = 0; n < sizeof(counts) / sizeof(*counts); n++) {
				struct column column = {5, value, counts[n], NULL, 0};
				struct bytes head = {0}, out = {0};

				if (levels[l] == 12 && counts[n] > 3000)
					continue;
				for (size_t i = 0; i < counts[n]; i++)
					value[i] = pattern_value(pattern, i, counts[n]);
				bytes_put_u(&head, counts[n]);
				/* The second time a writer remembers what was best. */
				for (int k = 0; k < 2; k++) {
					out.used = 0;
					chunk_write(w, &out, TYPE, &head, &column, 1);
					CHECK(!out.failed);
					check_column(&out, value, counts[n]);
				}
				bytes_free(&head);
				bytes_free(&out);
			}
		column_writer_free(w);
	}
	free(value);
	CHECK(codings_seen == (1 << CODING_CONSTANT | 1 << CODING_VARINT | 1 << CODING_PLANES |
			       1 << CODING_BUCKETS | 1 << CODING_RUNS | 1 << CODING_SPLIT),
	      "%x", codings_seen);
}

static void several_columns(void)
{
	static const uint64_t one[] = {1, 2, 3, 400}, two[] = {UINT64_MAX, 0};
	struct column_writer *w = column_writer_new(9);
	const struct column column[] = {
	    {1, one, 4, NULL, 0},
	    {3, two, 2, NULL, 0},
	    {7, NULL, 0, "some bytes", 11},
	    {8, one, 3, NULL, 0},
	};
	struct bytes head = {0}, out = {0};
	struct chunk_header h;
	struct reading g;
	const uint64_t *number;
	const uint8_t *bytes;
	size_t size;

	bytes_put_u(&head, 77);
	CHECK(columns_size(w, column, 4, 0) > 20);
	chunk_write(w, &out, TYPE, &head, column, 4);
	CHECK(column_written(w, 7) > 11 && column_written(w, 5) == 0);
	begin_reading(&g);
	CHECK(chunk_find(out.at, out.used, true, &h) == 0);
	CHECK(chunk_begin(&g.r, &h) && varint_u(&g.r.head) == 77);
	CHECK(chunk_columns(&g.r, 0xaa)); /* 8 is not known, and even */
	number = chunk_numbers(&g.r, 1, 4);
	CHECK(number && memcmp(number, one, sizeof(one)) == 0);
	number = chunk_numbers(&g.r, 3, 2);
	CHECK(number && memcmp(number, two, sizeof(two)) == 0);
	number = chunk_numbers(&g.r, 5, 3);
	CHECK(number && !number[0] && !number[1] && !number[2]);
	bytes = chunk_bytes(&g.r, 7, &size);
	CHECK(bytes && size == 11 && memcmp(bytes, "some bytes", 11) == 0);
	CHECK(!g.r.error);
	CHECK(!chunk_bytes(&g.r, 1, &size) && g.r.error == MAYFLY_E_VERSION);
	chunk_end(&g.r);
	CHECK(chunk_begin(&g.r, &h) && varint_u(&g.r.head) == 77);
	CHECK(!chunk_columns(&g.r, 0x2a) && g.r.error == MAYFLY_E_VERSION);
	end_reading(&g);
	bytes_free(&head);
	bytes_free(&out);
	column_writer_free(w);
}

static void chunk_headers(void)
{
	struct column_writer *w = column_writer_new(3);
	struct bytes head = {0}, out = {0};
	struct chunk_header h;

	bytes_put(&head, "head", 4);
	chunk_write(w, &out, TYPE, &head, NULL, 0);
	for (size_t size = 0; size < out.used; size++)
		CHECK(chunk_find(out.at, size, true, &h) == MAYFLY_E_EMPTY);
	for (size_t bit = 0; bit < 8 * out.used; bit++) {
		int error;

		out.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
		error = chunk_find(out.at, out.used, true, &h);
		CHECK(error == MAYFLY_E_DAMAGED || error == MAYFLY_E_EMPTY, "bit %zu", bit);
		out.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	out.at[12] ^= 1;
	CHECK(chunk_find(out.at, out.used, false, &h) == 0);
	bytes_free(&head);
	bytes_free(&out);
	column_writer_free(w);
}

/* A chunk whose contents are these bytes. */
static struct chunk_header header_of(const uint8_t *bytes, size_t size)
{
	return (struct chunk_header){.type = TYPE, .stored = (uint32_t)size, .bytes = bytes};
}

static int error_of_column(const uint8_t *bytes, size_t size, size_t count)
{
	struct chunk_header h = header_of(bytes, size);
	struct reading g;
	int error;

	begin_reading(&g);
	if (chunk_begin(&g.r, &h) && chunk_columns(&g.r, 2))
		chunk_numbers(&g.r, 1, count);
	error = g.r.error;
	end_reading(&g);
	return error;
}

static void bad_columns(void)
{
	/* id, coding, length, then as the coding has it. */
	static const uint8_t good[] = {1, 1, 4, 2 * 3, 1, 2, 3}, twice[] = {1, 0, 1, 5, 1, 0, 1, 5},
			     unknown[] = {1, 9, 1, 5}, bytes_coding[] = {1, 5, 2, 2, 7},
			     wide_class[] = {1, 3, 5, 0, 2, 200, 0, 0},
			     split_sum[] = {1,	  6,	17,   8,    2,	  8,	1,
					    11,	  22,	0xff, 0xff, 0xff, 0xff, 0xff,
					    0xff, 0xff, 0xff, 0xff, 0xff, 1},
			     split_over[] = {1, 6, 3, 8, 2, 9},
			     runs_short[] = {1, 4, 7, 1, 0, 1, 7, 0, 1, 1},
			     runs_nested[] = {1, 4, 9, 1, 4, 2, 1, 0, 0, 1, 2, 0},
			     no_planes[] = {1, 2, 1, 0};

	CHECK(error_of_column(good, sizeof(good), 3) == 0);
	CHECK(error_of_column(good, sizeof(good), 2) == MAYFLY_E_DAMAGED);
	CHECK(error_of_column(good, sizeof(good), 4) == MAYFLY_E_DAMAGED);
	for (size_t size = 1; size < sizeof(good); size++)
		CHECK(error_of_column(good, size, 3) == MAYFLY_E_DAMAGED);
	CHECK(error_of_column(twice, sizeof(twice), 1) == MAYFLY_E_DAMAGED);
	CHECK(error_of_column(unknown, sizeof(unknown), 1) == MAYFLY_E_VERSION);
	CHECK(error_of_column(bytes_coding, sizeof(bytes_coding), 1) == MAYFLY_E_DAMAGED);
	CHECK(error_of_column(wide_class, sizeof(wide_class), 1) == MAYFLY_E_DAMAGED);
	CHECK(error_of_column(split_sum, sizeof(split_sum), 1) == MAYFLY_E_DAMAGED);
	CHECK(error_of_column(split_over, sizeof(split_over), 1) == MAYFLY_E_DAMAGED);
	CHECK(error_of_column(runs_short, sizeof(runs_short), 2) == 0);
	CHECK(error_of_column(runs_short, sizeof(runs_short), 3) == MAYFLY_E_DAMAGED);
	CHECK(error_of_column(runs_nested, sizeof(runs_nested), 1) == MAYFLY_E_DAMAGED);
	CHECK(error_of_column(no_planes, sizeof(no_planes), 1) == MAYFLY_E_DAMAGED);
}

static void budget(void)
{
	struct chunk_header h = header_of((const uint8_t *)"", 0);
	struct reading g;
	void *memory;

	begin_reading(&g);
	g.budget = 1000;
	CHECK(chunk_begin(&g.r, &h));
	memory = chunk_memory(&g.r, 99, 8);
	CHECK(memory && g.budget == 200);
	CHECK(!chunk_memory(&g.r, 30, 8) && g.r.error == MAYFLY_E_TOO_LARGE);
	CHECK(!chunk_memory(&g.r, 1, 1)); /* the error stays */
	chunk_end(&g.r);
	CHECK(g.budget == 1000);
	CHECK(chunk_begin(&g.r, &h) && !chunk_memory(&g.r, UINT64_MAX, 1));
	chunk_end(&g.r);
	CHECK(chunk_begin(&g.r, &h) && !chunk_memory(&g.r, UINT64_MAX / 4, 16));
	chunk_end(&g.r);
	/* Memory that is used again is zero again. */
	CHECK(chunk_begin(&g.r, &h));
	memory = chunk_memory_dirty(&g.r, 499, 2);
	CHECK(memory != NULL);
	if (memory)
		memset(memory, 0xff, 998);
	chunk_end(&g.r);
	CHECK(chunk_begin(&g.r, &h));
	memory = chunk_memory(&g.r, 499, 2);
	CHECK(memory && !memchr(memory, 0xff, 998));
	chunk_end(&g.r);
	g.budget = BUDGET;
	end_reading(&g);
}

/* ---- events: a program that is made up ---- */

#define NODES	   1000
#define FRAMES	   50
#define CHAINS	   300
#define THREADS	   4
#define LABEL_SETS 1000
#define MOST_LIVE  3000

struct world {
	struct event_context x;
	struct event_past past;
	struct mayfly_node node[NODES + 1];
	uint32_t chain_end[CHAINS];
	struct event_batch b;
	size_t room;
	uint64_t *live; /* numbers of live blocks */
	size_t lives;
	uint64_t next;
	int64_t now;
	unsigned style;
	bool labelled;
	uint32_t labels[THREADS];
};

enum { LIFO, FIFO, ANY_ORDER, CONSTANT_LIFE, NEAR, STYLES };

static void new_world(struct world *w, size_t room, bool exact)
{
	struct event_batch *b = &w->b;

	memset(w, 0, sizeof(*w));
	for (uint32_t i = 1; i <= NODES; i++)
		w->node[i] = (struct mayfly_node){i - 1, (uint32_t)below(FRAMES)};
	for (uint32_t i = 0; i < CHAINS; i++)
		w->chain_end[i] = (i + 1) * 3;
	w->x = (struct event_context){
	    .unit_ns = 2000,
	    .chain_end = w->chain_end,
	    .chains = CHAINS,
	    .node = w->node,
	    .nodes = NODES,
	    .threads = THREADS,
	    .frames = FRAMES,
	    .label_sets = LABEL_SETS,
	    .exact = exact,
	};
	w->room = room;
	b->is_free = malloc(room);
	b->time_ns = malloc(room * sizeof(*b->time_ns));
	b->node = malloc(room * sizeof(*b->node));
	b->thread = malloc(room * sizeof(*b->thread));
	b->size = malloc(room * sizeof(*b->size));
	b->hits = malloc(room * sizeof(*b->hits));
	b->interval_log2 = malloc(room);
	b->alloc_flags = malloc(room);
	b->labels = malloc(room * sizeof(*b->labels));
	b->freed = malloc(room * sizeof(*b->freed));
	b->free_thread = malloc(room * sizeof(*b->free_thread));
	b->free_flags = malloc(room);
	w->live = malloc(MOST_LIVE * sizeof(*w->live));
	w->now = 5000;
}

static void end_world(struct world *w)
{
	struct event_batch *b = &w->b;

	free(b->is_free);
	free(b->time_ns);
	free(b->node);
	free(b->thread);
	free(b->size);
	free(b->hits);
	free(b->interval_log2);
	free(b->alloc_flags);
	free(b->labels);
	free(b->freed);
	free(b->free_thread);
	free(b->free_flags);
	free(w->live);
}

static void make_alloc(struct world *w, uint32_t thread, uint8_t flags)
{
	static const uint64_t odd[] = {0, 1, UINT64_MAX, (uint64_t)1 << 40, 4096};
	struct event_batch *b = &w->b;
	size_t a = b->allocs++;
	uint32_t site = (uint32_t)below(below(10) ? 8 : 300);

	b->node[a] = below(50) ? site * 3 : (uint32_t)below(NODES + 1);
	b->size[a] = below(20) ? (b->node[a] * 16 + below(4)) : odd[below(5)];
	b->thread[a] = thread;
	b->alloc_flags[a] = flags;
	/* Some chunks have none; else a thread keeps its set for a while. */
	if (!below(20))
		w->labels[thread] = (uint32_t)below(LABEL_SETS);
	b->labels[a] = w->labelled ? w->labels[thread] : 0;
	b->labelled |= b->labels[a] != 0;
	b->interval_log2[a] = w->x.exact ? 0 : 10 + (below(100) == 0);
	b->hits[a] = w->x.exact ? 0 : (uint32_t)(b->size[a] < 1024) + (below(30) == 0);
	w->live[w->lives++] = w->next++;
}

static void make_free(struct world *w, uint32_t thread, uint8_t flags)
{
	struct event_batch *b = &w->b;
	size_t f = b->events - 1 - b->allocs, at = 0;
	uint64_t number;

	switch (w->style) {
	case LIFO:
		at = w->lives - 1;
		break;
	case FIFO:
	case CONSTANT_LIFE:
		at = 0;
		break;
	case ANY_ORDER:
		at = below(w->lives);
		break;
	default:
		at = w->lives - 1 - below(w->lives < 90 ? w->lives : 90);
	}
	number = w->live[at];
	memmove(w->live + at, w->live + at + 1, (w->lives - at - 1) * sizeof(*w->live));
	w->lives--;
	b->freed[f] = number;
	b->free_thread[f] = thread;
	b->free_flags[f] = flags | (below(3) ? 0 : MAYFLY_FLAG_TEMPORARY);
}

/* Fills the batch with the next events of the program. */
static void make_events(struct world *w, size_t events, unsigned threads)
{
	struct event_batch *b = &w->b;
	bool realloc_due = false;
	uint32_t thread = 0;

	b->events = b->allocs = 0;
	b->labelled = false;
	b->first_sample = w->next;
	w->labelled = below(2);
	while (b->events < events) {
		bool full = w->lives > (w->style == CONSTANT_LIFE ? 20 : MOST_LIVE - 10);
		bool free_it =
		    w->lives && !realloc_due && (full || (w->style != CONSTANT_LIFE && below(2)));

		if (!below(7))
			thread = (uint32_t)below(threads);
		w->now += (int64_t)(below(1000) ? below(300) : below(1000000));
		b->time_ns[b->events] = w->now;
		b->is_free[b->events++] = free_it;
		if (free_it) {
			realloc_due = !below(9);
			make_free(w, thread, realloc_due ? MAYFLY_FLAG_REALLOC : 0);
		} else {
			make_alloc(w, thread, realloc_due ? MAYFLY_FLAG_REALLOC : 0);
			realloc_due = false;
		}
	}
}

#define SAME(field, count)                                                                         \
	CHECK(!(count) || memcmp(a->field, b->field, (count) * sizeof(*a->field)) == 0)

/* b is a, but times may be off by `error`; and are not before `from`. */
static void compare(const struct event_batch *a, const struct event_batch *b, int64_t error,
		    int64_t *from)
{
	size_t frees = a->events - a->allocs;
	bool near = true, ascending = true;

	CHECK(a->events == b->events && a->allocs == b->allocs);
	CHECK(a->first_sample == b->first_sample);
	if (a->events != b->events || a->allocs != b->allocs)
		return;
	SAME(is_free, a->events);
	SAME(node, a->allocs);
	SAME(thread, a->allocs);
	SAME(size, a->allocs);
	SAME(hits, a->allocs);
	SAME(interval_log2, a->allocs);
	SAME(alloc_flags, a->allocs);
	CHECK(a->labelled == (b->labels != NULL));
	if (a->labelled)
		SAME(labels, a->allocs);
	SAME(freed, frees);
	SAME(free_thread, frees);
	SAME(free_flags, frees);
	for (size_t i = 0; i < a->events; i++) {
		int64_t off = a->time_ns[i] - b->time_ns[i];

		near &= off <= error && off >= -error;
		ascending &= b->time_ns[i] >= *from;
		*from = b->time_ns[i];
	}
	CHECK(near);
	CHECK(ascending);
}

static unsigned forms_seen, ways_seen, kinds_seen;

/* Reads the head as doc/FORMAT.md has it. Returns the error of times. */
static int64_t read_choices(const struct chunk_header *h, struct reading *g)
{
	uint64_t number[15];

	CHECK(chunk_begin(&g->r, h));
	for (int i = 0; i < 15; i++)
		number[i] = varint_u(&g->r.head);
	forms_seen |= 1u << number[3];
	ways_seen |= 1u << number[4];
	kinds_seen |= 1u << number[5];
	chunk_end(&g->r);
	return (int64_t)number[14];
}

static void check_batch(struct world *w, struct event_coder *coder, int64_t *from)
{
	struct bytes out = {0};
	struct chunk_header h;
	struct event_batch got;
	struct reading g;
	int64_t error;

	events_write(coder, &w->past, &w->x, &w->b, &out);
	CHECK(!out.failed);
	CHECK(chunk_find(out.at, out.used, true, &h) == 0 && h.type == TRACE_EVENTS);
	begin_reading(&g);
	error = read_choices(&h, &g);
	CHECK(w->x.exact ? error >= 10000 && error <= 1000000 : error == 2000);
	CHECK(chunk_begin(&g.r, &h));
	CHECK(events_read(&g.r, &w->x, &got), "error %d", g.r.error);
	if (!g.r.error)
		compare(&w->b, &got, error, from);
	CHECK(got.time_error_ns == error);
	end_reading(&g);
	bytes_free(&out);
}

static void run_world(bool exact, int level, size_t events, unsigned threads, unsigned chunks)
{
	struct column_writer *columns = column_writer_new(level);
	struct event_coder *coder = event_coder_new(columns);
	struct world *w = malloc(sizeof(*w));
	int64_t from = INT64_MIN;

	new_world(w, events, exact);
	for (unsigned i = 0; i < chunks; i++) {
		w->style = (i * STYLES / chunks + (unsigned)below(2)) % STYLES;
		w->x.first_chain = below(CHAINS / 4);
		make_events(w, i % 5 == 4 ? 1 + below(events) : events, threads);
		check_batch(w, coder, &from);
	}
	end_world(w);
	free(w);
	event_coder_free(coder);
	column_writer_free(columns);
}

static void sampled_events(void)
{
	forms_seen = ways_seen = kinds_seen = 0;
	for (size_t events = 1; events < 20; events++)
		run_world(false, 19, events, 2, 10);
	run_world(false, 19, 3000, THREADS, 10);
	run_world(false, 3, 50000, 1, 10);
	CHECK(forms_seen == 1);
}

static void exact_events(void)
{
	forms_seen = ways_seen = kinds_seen = 0;
	for (size_t events = 1; events < 20; events++)
		run_world(true, 3, events, 1 + events % 2, 10);
	run_world(true, 3, 500, 1, 50);
	run_world(true, 3, 5000, THREADS, 30);
	run_world(true, 3, 60000, 1, 40);
	run_world(true, 3, 40000, THREADS, 20);
	run_world(true, 9, 20000, THREADS, 5);
	CHECK(forms_seen == 6, "%x", forms_seen);
	CHECK(ways_seen == 31, "%x", ways_seen);
	CHECK(kinds_seen == 3, "%x", kinds_seen);
}

/* Flags that have no meaning yet, all threads and the ends of all ranges. */
static void strange_events(void)
{
	static const int64_t times[] = {-TRACE_LATEST_NS + 1000000,
					-TRACE_LATEST_NS + 1000001,
					-1,
					0,
					1,
					TRACE_LATEST_NS - 1,
					TRACE_LATEST_NS};
	struct column_writer *columns = column_writer_new(3);
	struct event_coder *coder = event_coder_new(columns); /* shared, as by children's traces */

	for (int exact = 0; exact < 2; exact++)
		for (int round = 0; round < 200; round++) {
			struct world *w = malloc(sizeof(*w));
			int64_t from = INT64_MIN;
			size_t time = 0;

			new_world(w, 64, exact);
			w->next = below(2) ? 0 : INT64_MAX - 100;
			w->style = (unsigned)below(STYLES);
			for (int i = 0; i < 30; i++)
				w->live[w->lives++] = below(w->next ? w->next : 1);
			if (!w->next)
				w->lives = 0;
			make_events(w, 1 + below(64), THREADS);
			for (size_t i = 0; i < w->b.events; i++) {
				time += time < 6 && !below(4);
				w->b.time_ns[i] = times[time];
			}
			for (size_t i = 0; i < w->b.allocs; i++) {
				w->b.alloc_flags[i] = (uint8_t)random_u64();
				w->b.hits[i] =
				    below(2) ? 0 : (uint32_t)random_u64() & TRACE_MAX_HITS;
				w->b.interval_log2[i] = (uint8_t)below(TRACE_MAX_INTERVAL + 1);
			}
			for (size_t i = 0; i < w->b.events - w->b.allocs; i++)
				w->b.free_flags[i] = (uint8_t)random_u64();
			check_batch(w, coder, &from);
			end_world(w);
			free(w);
		}
	event_coder_free(coder);
	column_writer_free(columns);
}

/* ---- events: damage ---- */

/* Whatever was read: what events.h promises. */
static void check_sound(const struct event_context *x, const struct event_batch *b)
{
	size_t allocs = 0, frees = 0;
	bool good = b->events <= TRACE_CHUNK_EVENTS;

	for (size_t i = 0; i < b->events; i++) {
		good &= b->time_ns[i] <= TRACE_LATEST_NS && b->time_ns[i] >= -TRACE_LATEST_NS;
		good &= !i || b->time_ns[i] >= b->time_ns[i - 1];
		if (b->is_free[i]) {
			good &= b->freed[frees] < b->first_sample + allocs;
			good &= b->free_thread[frees] < x->threads;
			frees++;
		} else {
			good &= b->node[allocs] <= x->nodes && b->thread[allocs] < x->threads;
			good &= b->interval_log2[allocs] <= TRACE_MAX_INTERVAL;
			good &= b->hits[allocs] <= TRACE_MAX_HITS;
			good &= !b->labels || b->labels[allocs] < x->label_sets;
			allocs++;
		}
	}
	CHECK(good && allocs == b->allocs && allocs + frees == b->events);
}

static size_t sound_batches;

static void try_bytes(const struct event_context *x, const uint8_t *bytes, size_t size,
		      uint64_t budget_bytes)
{
	/* A copy of exactly that size, so that a sanitizer sees a read beyond it. */
	uint8_t *copy = malloc(size + !size);
	struct chunk_header h;
	struct event_batch b;
	struct reading g;

	memcpy(copy, bytes, size);
	h = header_of(copy, size);
	begin_reading(&g);
	g.budget = budget_bytes;
	if (chunk_begin(&g.r, &h) && events_read(&g.r, x, &b)) {
		check_sound(x, &b);
		sound_batches++;
	} else {
		CHECK(g.r.error < 0);
	}
	chunk_end(&g.r);
	CHECK(g.budget == budget_bytes);
	g.budget = BUDGET;
	end_reading(&g);
	free(copy);
}

static void damage_chunk(const struct event_context *x, const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size);
	size_t sound;

	memcpy(copy, bytes, size);
	sound = sound_batches;
	try_bytes(x, copy, size, BUDGET);
	CHECK(sound_batches == sound + 1);
	for (size_t cut = 0; cut<size; cut += size> 3000 ? 1 + below(40) : 1)
		try_bytes(x, copy, cut, BUDGET);
	for (int round = 0; round < 1500; round++) {
		unsigned changes = 1 + (unsigned)below(3);

		for (unsigned i = 0; i < changes; i++)
			copy[below(below(3)    ? size
				   : size < 40 ? size
					       : 40)] =
			    below(2) ? (uint8_t)random_u64() : (uint8_t)below(4);
		try_bytes(x, copy, size, round % 8 ? BUDGET : below(300000));
		if (round % 4 == 3)
			memcpy(copy, bytes, size);
	}
	free(copy);
}

/* Level 19 packs small chunks as a whole; what is inside is damaged here. */
static void damaged_events(void)
{
	for (int round = 0; round < 24; round++) {
		struct column_writer *columns = column_writer_new(round % 3 ? 1 : 19);
		struct event_coder *coder = event_coder_new(columns);
		struct world *w = malloc(sizeof(*w));
		struct compress *compress = compress_new(0);
		struct bytes out = {0};
		struct chunk_header h;
		uint8_t *plain;

		new_world(w, 8000, round % 4 != 0);
		w->style = (unsigned)round % STYLES;
		make_events(w, round < 12 ? 1 + below(60) : 300 + below(7000),
			    round % 2 ? 1 : THREADS);
		events_write(coder, &w->past, &w->x, &w->b, &out);
		CHECK(chunk_find(out.at, out.used, true, &h) == 0);
		plain = malloc(h.plain + 1);
		if (h.plain)
			CHECK(compress_expand(compress, plain, h.plain, h.bytes, h.stored) == 0);
		damage_chunk(&w->x, h.plain ? plain : h.bytes, h.plain ? h.plain : h.stored);
		free(plain);
		compress_free(compress);
		bytes_free(&out);
		end_world(w);
		free(w);
		event_coder_free(coder);
		column_writer_free(columns);
	}
	CHECK(sound_batches > 100, "%zu", sound_batches);
}

int main(void)
{
	RUN(checksum);
	RUN(growing_bytes);
	RUN(number_columns);
	RUN(several_columns);
	RUN(chunk_headers);
	RUN(bad_columns);
	RUN(budget);
	RUN(sampled_events);
	RUN(exact_events);
	RUN(strange_events);
	RUN(damaged_events);
	DONE();
}
