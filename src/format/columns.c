/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks and columns, both ways. Writing tries every coding and keeps the shortest. The choice is
 * made at a low level of compression, and of a long column by a part of it. Chunks of one type are
 * much alike, so the choice is kept for the next chunks of that type, until it is old or the column
 * costs more than it did. Reading stores numbers as narrow as the caller wants them (1, 4 or 8
 * bytes); the loops are compiled once for each width.
 */
#include "format/columns.h"

#include <mayfly/trace.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "base/array.h"
#include "base/hash.h"

#define PACK_LIMIT	  8192 /* values in a chunk that is worth trying to compress as a whole */
#define LONG_COLUMN	  2048 /* values; shorter ones choose at the level itself if that is low */
#define SHORT_COLUMN	  64   /* values; columns of so many or more keep their choice, if any do */
#define SHORT_LEAN_COLUMN 8    /* the same of a lean writer, whose traces are mostly short */
#define QUICK_LEVEL	  3
#define SAMPLE		  4096 /* values in the sample of a column of more than twice as many */
#define FIRST_LOOK	  1024 /* values of a sample that rule out most codings */
#define MEMORIES	  1024 /* choices kept: a table by hash, the last one wins */
#define MEMORY_AGE	  32   /* chunks after which a choice is made anew */
#define ALWAYS_INLINE	  inline __attribute__((always_inline))
#define CODING_UNKNOWN	  256u
#define PLANES_MOST	  8
#define MANTISSA_MOST	  2
#define STREAM_PLAIN	  8 /* bytes of a stream that is never worth compressing */

/* ---- writing ---- */

/* What stands inside a column: the values and lengths of runs, or the large numbers. */
enum place { WHOLE, RUN_VALUES, RUN_LENGTHS, LARGE, PLACES };

struct memory {
	uint32_t type;
	unsigned id, place, age;
	bool is_long;
	unsigned coding, parameter;
	double cost; /* bytes per value, when it was chosen */
};

struct column_writer {
	struct compress *compress, *quick;
	bool plain;   /* streams stay as they are, as the chunk will be compressed as a whole */
	bool quickly; /* only to find out which coding is best */
	bool remember, choosing;
	bool lean; /* small chunks are compressed once, as a whole, by the shortest plain codings */
	uint32_t type; /* of the chunk at hand, or a way of columns_size() */
	unsigned id;   /* of the column at hand */
	size_t written[COLUMNS_MOST];
	uint64_t *list; /* of runs, or of large numbers */
	size_t list_room;
	struct bytes packed, stream, stream_2, by_stream, whole, whole_packed;
	struct bytes best[2], candidate[2]; /* of a column, and of one nested in it */
	struct memory memory[MEMORIES];
};

struct column_writer *column_writer_new(int level)
{
	struct column_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->lean = level == COLUMNS_LEAN;
	if (w->lean)
		level = 1;
	w->compress = compress_new(level);
	w->quick = compress_new(level <= QUICK_LEVEL ? 1 : QUICK_LEVEL);
	w->remember = level <= QUICK_LEVEL;
	if (!w->compress || !w->quick) {
		column_writer_free(w);
		return NULL;
	}
	return w;
}

void column_writer_free(struct column_writer *w)
{
	if (!w)
		return;
	compress_free(w->compress);
	compress_free(w->quick);
	free(w->list);
	bytes_free(&w->packed);
	bytes_free(&w->stream);
	bytes_free(&w->stream_2);
	for (unsigned i = 0; i < 2; i++) {
		bytes_free(&w->best[i]);
		bytes_free(&w->candidate[i]);
	}
	bytes_free(&w->by_stream);
	bytes_free(&w->whole);
	bytes_free(&w->whole_packed);
	free(w);
}

/* varint 2 x size + compressed, the bytes; when compressed, their number stands before them. */
static void put_stream(struct column_writer *w, struct bytes *b, const void *data, size_t size)
{
	struct compress *compress = w->quickly ? w->quick : w->compress;
	size_t room = compress_bound(size);
	size_t length = 0;

	w->packed.used = 0;
	if (!w->plain && size > STREAM_PLAIN && bytes_extend(&w->packed, room))
		length = compress_block(compress, w->packed.at, room, data, size);
	if (length && length + 2 < size) {
		bytes_put_u(b, (uint64_t)size << 1 | 1);
		bytes_put_u(b, length);
		bytes_put(b, w->packed.at, length);
	} else {
		bytes_put_u(b, (uint64_t)size << 1);
		bytes_put(b, data, size);
	}
}

static void begin_stream(struct bytes *stream)
{
	stream->used = 0;
	stream->failed = false;
}

/* All bits that any of the numbers has. */
static uint64_t all_bits(const uint64_t *value, size_t count)
{
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++)
		all |= value[i];
	return all;
}

static void code_varints(struct column_writer *w, struct bytes *b, const uint64_t *value,
			 size_t count)
{
	uint8_t *to;

	begin_stream(&w->stream);
	to = bytes_extend(&w->stream, 10 * count);
	if (!to) {
		b->failed = true;
		return;
	}
	if (all_bits(value, count) < 0x80) {
		for (size_t i = 0; i < count; i++)
			to[i] = (uint8_t)value[i];
		to += count;
	} else {
		for (size_t i = 0; i < count; i++)
			to += varint_store(to, value[i]);
	}
	assert((size_t)(to - w->stream.at) <= 10 * count);
	put_stream(w, b, w->stream.at, (size_t)(to - w->stream.at));
}

static void code_planes(struct column_writer *w, struct bytes *b, const uint64_t *value,
			size_t count)
{
	uint64_t all = all_bits(value, count);
	unsigned width = 1;
	uint8_t *plane;

	while (width < PLANES_MOST && all >> (8 * width))
		width++;
	assert(width == PLANES_MOST || !(all >> (8 * width)));
	begin_stream(&w->stream);
	plane = bytes_extend(&w->stream, count);
	bytes_put_fixed(b, width, 1);
	for (unsigned p = 0; plane && p < width; p++) {
		for (size_t i = 0; i < count; i++)
			plane[i] = (uint8_t)(value[i] >> (8 * p));
		put_stream(w, b, plane, count);
	}
	b->failed |= !plane;
}

/* Low bits of many values one after the other, low bit first. Fewer than 8 are pending. */
struct bit_writer {
	uint8_t *at; /* room for 8 bytes more than are needed */
	uint64_t pending;
	unsigned count;
};

static inline void put_few_bits(struct bit_writer *w, uint64_t value, unsigned count)
{
	w->pending |= (value & (((uint64_t)1 << count) - 1)) << w->count;
	w->count += count;
	bytes_store(w->at, w->pending);
	w->at += w->count / 8;
	w->pending >>= w->count & ~7u;
	w->count %= 8;
}

static inline void put_bits(struct bit_writer *w, uint64_t value, unsigned count)
{
	if (count > 32) {
		put_few_bits(w, value, 32);
		value >>= 32;
		count -= 32;
	}
	put_few_bits(w, value, count);
}

static void code_buckets(struct column_writer *w, struct bytes *b, const uint64_t *value,
			 size_t count, unsigned mantissa)
{
	struct bit_writer rest = {0};
	uint8_t *class;

	begin_stream(&w->stream);
	begin_stream(&w->stream_2);
	class = bytes_extend(&w->stream, count);
	rest.at = bytes_extend(&w->stream_2, 8 * count + 16);
	if (!class || !rest.at) {
		b->failed = true;
		return;
	}
	for (size_t i = 0; i < count; i++) {
		unsigned low = bucket_rest(value[i], mantissa);

		class[i] = (uint8_t)((low << mantissa) + (value[i] >> low));
		put_bits(&rest, value[i], low);
	}
	if (rest.count)
		*rest.at++ = (uint8_t)rest.pending;
	assert((size_t)(rest.at - w->stream_2.at) <= 8 * count);
	bytes_put_fixed(b, mantissa, 1);
	put_stream(w, b, class, count);
	put_stream(w, b, w->stream_2.at, (size_t)(rest.at - w->stream_2.at));
}

static size_t count_runs(const uint64_t *value, size_t count)
{
	size_t runs = 1;

	for (size_t i = 1; i < count; i++)
		runs += value[i] != value[i - 1];
	return runs;
}

static void put_numbers(struct column_writer *w, struct bytes *b, const uint64_t *value,
			size_t count, enum place place);

/* Room for numbers that are to be nested in a column. One column at a time has such. */
static uint64_t *get_list(struct column_writer *w, size_t count)
{
	return array_reserve(&w->list, &w->list_room, count, sizeof(*w->list)) ? w->list : NULL;
}

static void code_runs(struct column_writer *w, struct bytes *b, const uint64_t *value, size_t count)
{
	uint64_t *of = get_list(w, 2 * count), *length;
	size_t run = 0, begin = 0;

	if (!of) {
		b->failed = true;
		return;
	}
	length = of + count;
	for (size_t i = 1; i <= count; i++) {
		if (i < count && value[i] == value[i - 1])
			continue;
		of[run] = value[begin];
		length[run++] = i - begin - 1;
		begin = i;
	}
	assert(begin == count && run <= count); /* each value is in a run */
	bytes_put_u(b, run);
	put_numbers(w, b, of, run, RUN_VALUES);
	put_numbers(w, b, length, run, RUN_LENGTHS);
}

/* What a candidate costs. In a chunk that is compressed as a whole: about what it would cost alone.
 * */
static size_t cost(struct column_writer *w, const struct bytes *b)
{
	size_t room = compress_bound(b->used), length = 0;

	if (!w->plain || w->lean)
		return b->used;
	w->packed.used = 0;
	if (bytes_extend(&w->packed, room))
		length = compress_block(w->quick, w->packed.at, room, b->at, b->used);
	return length && length < b->used ? length : b->used;
}

struct choice {
	struct bytes *best, *candidate;
	unsigned coding, parameter;
	size_t cost;
};

static void offer_coding(struct column_writer *w, struct choice *c, unsigned coding,
			 unsigned parameter)
{
	struct bytes *candidate = c->candidate;
	size_t price = candidate->failed ? SIZE_MAX : cost(w, candidate);

	if (price < c->cost) {
		c->candidate = c->best;
		c->best = candidate;
		c->coding = coding;
		c->parameter = parameter;
		c->cost = price;
	}
	begin_stream(c->candidate);
}

/* For columns of mostly small numbers: a large one then does not disturb the pattern of the others.
 * */
static void code_split(struct column_writer *w, struct bytes *b, const uint64_t *value,
		       size_t count, unsigned limit)
{
	uint64_t *large = get_list(w, count + 1);
	uint8_t *small;
	size_t larges = 0;

	assert(limit && limit <= UINT8_MAX);
	begin_stream(&w->stream);
	small = bytes_extend(&w->stream, count);
	if (!large || !small) {
		b->failed = true;
		return;
	}
	/* Branch-free: a value that does not count is overwritten by the next. */
	for (size_t i = 0; i < count; i++) {
		small[i] = (uint8_t)(value[i] < limit ? value[i] : limit);
		large[larges] = value[i] - limit;
		larges += value[i] >= limit;
	}
	bytes_put_fixed(b, limit, 1);
	put_stream(w, b, small, count);
	if (larges)
		put_numbers(w, b, large, larges, LARGE);
}

static void code_as(struct column_writer *w, struct bytes *b, unsigned coding, unsigned parameter,
		    const uint64_t *value, size_t count)
{
	switch ((enum trace_coding)coding) {
	case CODING_CONSTANT:
		bytes_put_u(b, value[0]);
		break;
	case CODING_VARINT:
		code_varints(w, b, value, count);
		break;
	case CODING_PLANES:
		code_planes(w, b, value, count);
		break;
	case CODING_BUCKETS:
		code_buckets(w, b, value, count, parameter);
		break;
	case CODING_SPLIT:
		code_split(w, b, value, count, parameter);
		break;
	case CODING_RUNS:
		code_runs(w, b, value, count);
		break;
	case CODING_BYTES: /* not of numbers */
		break;
	}
}

/* Codings that may be the shortest. */
struct way {
	unsigned coding, parameter;
};

static const struct way ways[] = {
    {CODING_VARINT, 0},	 {CODING_PLANES, 0},  {CODING_BUCKETS, 0},
    {CODING_BUCKETS, 1}, {CODING_BUCKETS, 2}, {CODING_RUNS, 0},
    {CODING_SPLIT, 8},	 {CODING_SPLIT, 32},  {CODING_SPLIT, 255},
};
#define WAYS (sizeof(ways) / sizeof(*ways))

static unsigned possible_ways(uint64_t all, size_t runs, size_t count, bool nested)
{
	unsigned possible = 0;

	for (size_t i = 0; i < WAYS; i++) {
		const struct way *way = &ways[i];

		if (nested && way->coding >= CODING_RUNS)
			continue;
		if (way->coding == CODING_RUNS && runs >= count / 2)
			continue;
		if (way->coding == CODING_SPLIT && all < way->parameter)
			continue;
		if (way->coding == CODING_PLANES && all < 0x80)
			continue; /* the same stream as that of varints */
		possible |= 1u << i;
	}
	return possible;
}

/* Keeps those of the ways that are not much longer than the best for a few of the values. */
static unsigned rule_out(struct column_writer *w, struct choice *c, unsigned possible,
			 const uint64_t *value, size_t count)
{
	size_t price[WAYS], least = SIZE_MAX;

	assert(count >= FIRST_LOOK);
	value += (count - FIRST_LOOK) / 2;
	for (size_t i = 0; i < WAYS; i++) {
		if (!(possible >> i & 1))
			continue;
		code_as(w, c->candidate, ways[i].coding, ways[i].parameter, value, FIRST_LOOK);
		price[i] = c->candidate->failed ? SIZE_MAX : cost(w, c->candidate);
		if (price[i] < least)
			least = price[i];
		begin_stream(c->candidate);
	}
	for (size_t i = 0; i < WAYS; i++)
		if (possible >> i & 1 && price[i] > least + least / 5)
			possible &= ~(1u << i);
	return possible;
}

static void choose_coding(struct column_writer *w, struct choice *c, const uint64_t *value,
			  size_t count, bool nested)
{
	const bool choosing = w->choosing;
	size_t runs = count_runs(value, count);
	unsigned possible;

	if (runs == 1) {
		code_as(w, c->best, CODING_CONSTANT, 0, value, count);
		c->coding = CODING_CONSTANT;
		c->cost = c->best->used;
		return;
	}
	w->choosing = true;
	possible = possible_ways(all_bits(value, count), runs, count, nested);
	if (w->remember && count >= 4 * FIRST_LOOK)
		possible = rule_out(w, c, possible, value, count);
	for (size_t i = 0; i < WAYS; i++) {
		if (!(possible >> i & 1))
			continue;
		code_as(w, c->candidate, ways[i].coding, ways[i].parameter, value, count);
		offer_coding(w, c, ways[i].coding, ways[i].parameter);
	}
	w->choosing = choosing;
}

/* The traces of short and of long processes take turns at a writer, so each has choices of its own. */
static struct memory *find_memory(struct column_writer *w, enum place place, size_t count)
{
	uint64_t key =
	    ((uint64_t)w->type << 32) + w->id * PLACES * 2 + place * 2 + (count > LONG_COLUMN);

	return &w->memory[hash_mix(key) % MEMORIES];
}

/* Codes a column in the way that was best before. False: choose anew. */
static bool code_as_before(struct column_writer *w, struct choice *c, const uint64_t *value,
			   size_t count, enum place place)
{
	struct memory *m = find_memory(w, place, count);

	if (m->type != w->type || m->id != w->id || m->place != place ||
	    m->is_long != (count > LONG_COLUMN) || m->age++ >= MEMORY_AGE ||
	    m->coding == CODING_CONSTANT)
		return false;
	if (m->coding == CODING_RUNS && count_runs(value, count) >= count / 2)
		return false;
	code_as(w, c->best, m->coding, m->parameter, value, count);
	c->coding = m->coding;
	c->cost = c->best->failed ? SIZE_MAX : c->best->used;
	/* If it costs much more or less than it did then, the next chunk chooses anew. */
	if ((double)c->best->used > 1.3 * m->cost * (double)count + 64 ||
	    (double)c->best->used < 0.6 * m->cost * (double)count - 64)
		m->age = MEMORY_AGE;
	return true;
}

/* Chooses at QUICK_LEVEL, and by a sample of a long column. */
static void choose_quickly(struct column_writer *w, struct choice *c, const uint64_t *value,
			   size_t count, bool nested)
{
	const bool quickly = w->quickly;

	if (count < 2 * SAMPLE && quickly) {
		choose_coding(w, c, value, count, nested);
		return;
	}
	w->quickly = true;
	if (count < 2 * SAMPLE)
		choose_coding(w, c, value, count, nested);
	else
		choose_coding(w, c, value + (count - SAMPLE) / 2, SAMPLE, nested);
	w->quickly = quickly;
	if (c->coding == CODING_CONSTANT && count_runs(value, count) > 1)
		c->coding = nested ? CODING_VARINT : CODING_RUNS;
	begin_stream(c->best);
	code_as(w, c->best, c->coding, c->parameter, value, count);
}

/* varint coding, varint length, that many bytes */
static void put_numbers(struct column_writer *w, struct bytes *b, const uint64_t *value,
			size_t count, enum place place)
{
	const bool nested = place != WHOLE;
	const bool keep = w->remember && (!w->plain || w->lean) && !w->choosing &&
			  count > (w->lean ? SHORT_LEAN_COLUMN : SHORT_COLUMN);
	struct choice c = {
	    .best = &w->best[nested],
	    .candidate = &w->candidate[nested],
	    .cost = SIZE_MAX,
	};

	begin_stream(c.best);
	begin_stream(c.candidate);
	if (!keep || !code_as_before(w, &c, value, count, place)) {
		if (count <= LONG_COLUMN && (w->plain || w->remember))
			choose_coding(w, &c, value, count, nested);
		else
			choose_quickly(w, &c, value, count, nested);
		if (keep)
			*find_memory(w, place, count) = (struct memory){
			    .type = w->type,
			    .id = w->id,
			    .place = place,
			    .is_long = count > LONG_COLUMN,
			    .coding = c.coding,
			    .parameter = c.parameter,
			    .cost = (double)c.best->used / (double)count,
			};
	}
	bytes_put_u(b, c.coding);
	bytes_put_u(b, c.best->used);
	bytes_put(b, c.best->at, c.best->used);
	b->failed |= c.cost == SIZE_MAX || c.best->failed;
}

static void put_column(struct column_writer *w, struct bytes *b, const struct column *c)
{
	struct bytes *coded = &w->best[0];
	const size_t before = b->used;

	if (c->bytes || c->size) {
		begin_stream(coded);
		put_stream(w, coded, c->bytes, c->size);
		bytes_put_u(b, c->id);
		bytes_put_u(b, CODING_BYTES);
		bytes_put_u(b, coded->used);
		bytes_put(b, coded->at, coded->used);
		b->failed |= coded->failed;
	} else if (!bytes_all_zero(c->value, c->count * sizeof(*c->value))) {
		bytes_put_u(b, c->id);
		w->id = c->id;
		put_numbers(w, b, c->value, c->count, WHOLE);
	}
	if (!w->quickly && !w->plain && c->id < COLUMNS_MOST)
		w->written[c->id] = b->used - before;
}

size_t column_written(const struct column_writer *w, unsigned id)
{
	return w->written[id];
}

static void put_chunk(struct bytes *out, uint32_t type, const struct bytes *stored, size_t plain)
{
	size_t start = out->used;
	uint32_t crc;

	if (stored->failed || stored->used > UINT32_MAX || plain > UINT32_MAX) {
		out->failed = true;
		return;
	}
	bytes_put_fixed(out, type, 4);
	bytes_put_fixed(out, stored->used, 4);
	bytes_put_fixed(out, plain, 4);
	if (out->failed)
		return;
	crc = trace_checksum(0, out->at + start, 12);
	crc = trace_checksum(crc, stored->at, stored->used);
	bytes_put_fixed(out, crc, 4);
	bytes_put(out, stored->at, stored->used);
}

static void build_chunk(struct column_writer *w, struct bytes *b, const struct bytes *head,
			const struct column *column, size_t columns)
{
	begin_stream(b);
	bytes_put(b, head->at, head->used);
	b->failed |= head->failed;
	for (size_t i = 0; i < columns; i++)
		put_column(w, b, &column[i]);
}

/* Compresses a chunk that holds plain streams; 0 when that does not make it smaller. */
static size_t pack_whole(struct column_writer *w)
{
	size_t room = compress_bound(w->whole.used);
	struct bytes *packed = &w->whole_packed;

	begin_stream(packed);
	if (w->whole.failed || !bytes_extend(packed, room))
		return 0;
	packed->used = compress_block(w->compress, packed->at, room, w->whole.at, w->whole.used);
	return packed->used < w->whole.used ? packed->used : 0;
}

void chunk_write(struct column_writer *w, struct bytes *out, uint32_t type,
		 const struct bytes *head, const struct column *column, size_t columns)
{
	size_t values = 0, packed;

	assert(!w->plain && !w->quickly && !w->choosing);
	w->type = type;
	memset(w->written, 0, sizeof(w->written));
	for (size_t i = 0; i < columns; i++)
		values += column[i].count + column[i].size / 8;
	if (!w->lean || values > PACK_LIMIT)
		build_chunk(w, &w->by_stream, head, column, columns);
	if (values > PACK_LIMIT) {
		put_chunk(out, type, &w->by_stream, 0);
		return;
	}
	/* A small chunk may be shorter when it is compressed as a whole. */
	w->plain = true;
	build_chunk(w, &w->whole, head, column, columns);
	w->plain = false;
	packed = pack_whole(w);
	if (packed && (w->lean || packed < w->by_stream.used))
		put_chunk(out, type, &w->whole_packed, w->whole.used);
	else if (w->lean || (w->whole.used && w->whole.used < w->by_stream.used))
		put_chunk(out, type, &w->whole, 0);
	else
		put_chunk(out, type, &w->by_stream, 0);
}

uint64_t *chunk_add(struct chunk_maker *c, unsigned id, size_t count)
{
	uint64_t *value = calloc(count + 1, sizeof(*value));

	assert(c->columns < sizeof(c->column) / sizeof(*c->column));
	c->failed |= !value;
	c->column[c->columns++] = (struct column){.id = id, .value = value, .count = count};
	return value;
}

void chunk_drop(struct chunk_maker *c)
{
	bytes_free(&c->head);
	while (c->columns)
		free((void *)(uintptr_t)c->column[--c->columns].value);
}

void chunk_finish(struct chunk_maker *c, struct column_writer *w, uint32_t type, struct bytes *out)
{
	out->failed |= c->failed || c->head.failed;
	if (!out->failed)
		chunk_write(w, out, type, &c->head, c->column, c->columns);
	chunk_drop(c);
}

size_t columns_size(struct column_writer *w, const struct column *column, size_t columns,
		    uint32_t way)
{
	struct bytes *b = &w->by_stream;

	assert(!w->plain && !w->quickly && !w->choosing);
	begin_stream(b);
	w->type = way;
	w->quickly = true;
	w->plain = w->lean;
	for (size_t i = 0; i < columns; i++)
		put_column(w, b, &column[i]);
	w->quickly = w->plain = false;
	return b->failed ? SIZE_MAX : b->used;
}

/* ---- reading: memory ---- */

void chunk_fail(struct chunk_reader *r, int error)
{
	if (!r->error)
		r->error = error;
}

/* Memory from the budget; one item more than asked for, so the size is never 0. */
static void *take_memory(struct chunk_reader *r, uint64_t count, size_t item, bool zeroed)
{
	uint64_t bytes;
	void *memory;

	if (r->error)
		return NULL;
	if (count == UINT64_MAX || __builtin_mul_overflow(count + 1, (uint64_t)item, &bytes) ||
	    bytes > *r->budget || bytes > SIZE_MAX) {
		chunk_fail(r, MAYFLY_E_TOO_LARGE);
		return NULL;
	}
	memory = array_reserve(&r->temp, &r->temps_size, r->temps, sizeof(*r->temp))
		     ? compress_take(r->compress, (size_t)bytes, zeroed)
		     : NULL;
	if (!memory) {
		chunk_fail(r, MAYFLY_E_MEMORY);
		return NULL;
	}
	r->temp[r->temps++] = memory;
	*r->budget -= bytes;
	r->temp_bytes += bytes;
	return memory;
}

void *chunk_memory(struct chunk_reader *r, uint64_t count, size_t item)
{
	return take_memory(r, count, item, true);
}

void *chunk_memory_dirty(struct chunk_reader *r, uint64_t count, size_t item)
{
	return take_memory(r, count, item, false);
}

void chunk_end(struct chunk_reader *r)
{
	while (r->temps)
		compress_give_back(r->compress, r->temp[--r->temps]);
	free(r->temp);
	r->temp = NULL;
	r->temps_size = 0;
	if (r->budget)
		*r->budget += r->temp_bytes;
	r->temp_bytes = 0;
}

static void column_damaged(struct chunk_reader *r)
{
	chunk_fail(r, MAYFLY_E_DAMAGED);
}

/* ---- reading: columns ---- */

/* The bytes of a stream of `least` to `most` bytes, NULL when it is not one. */
static const uint8_t *read_stream(struct chunk_reader *r, struct varint_in *in, uint64_t least,
				  uint64_t most, size_t *size)
{
	uint64_t head = varint_u(in), plain = head >> 1, stored;
	const uint8_t *bytes;
	uint8_t *expanded;

	*size = 0;
	if (in->bad || plain < least || plain > most) {
		column_damaged(r);
		return NULL;
	}
	stored = head & 1 ? varint_u(in) : plain;
	bytes = varint_bytes(in, stored);
	if (!bytes) {
		column_damaged(r);
		return NULL;
	}
	*size = (size_t)plain;
	if (!(head & 1))
		return bytes;
	expanded = take_memory(r, plain, 1, false);
	if (!expanded)
		return NULL;
	chunk_fail(r, compress_expand(r->compress, expanded, (size_t)plain, bytes, (size_t)stored));
	return r->error ? NULL : expanded;
}

/* Stores a number. `width` is a constant in every caller. */
static ALWAYS_INLINE void store(void *to, size_t i, uint64_t value, unsigned width)
{
	if (width == 1)
		((uint8_t *)to)[i] = (uint8_t)value;
	else if (width == 4)
		((uint32_t *)to)[i] = (uint32_t)value;
	else
		((uint64_t *)to)[i] = value;
}

static ALWAYS_INLINE bool too_wide(uint64_t all, unsigned width)
{
	return width < 8 && all >> (8 * width % 64);
}

static ALWAYS_INLINE void read_varints(struct chunk_reader *r, struct varint_in *in, void *to,
				       size_t count, unsigned width)
{
	size_t size;
	const uint8_t *stream = read_stream(r, in, count, 10 * (uint64_t)count, &size);
	struct varint_in numbers;
	uint64_t all = 0;

	if (!stream)
		return;
	numbers = varint_begin(stream, size);
	for (size_t i = 0; i < count; i++) {
		uint64_t value;

		if (numbers.at < numbers.end && *numbers.at < 0x80)
			value = *numbers.at++;
		else
			value = varint_u(&numbers);
		all |= value;
		store(to, i, value, width);
	}
	if (numbers.bad || varint_left(&numbers) || too_wide(all, width))
		column_damaged(r);
}

static ALWAYS_INLINE void read_planes(struct chunk_reader *r, struct varint_in *in, void *to,
				      size_t count, unsigned width)
{
	unsigned planes = varint_byte(in);
	const uint8_t *plane[PLANES_MOST];
	size_t size;

	if (!planes || planes > PLANES_MOST) {
		column_damaged(r);
		return;
	}
	for (unsigned p = 0; p < planes; p++) {
		plane[p] = read_stream(r, in, count, count, &size);
		if (!plane[p])
			return;
	}
	if (planes > width) {
		column_damaged(r);
	} else if (planes == 1) {
		for (size_t i = 0; i < count; i++)
			store(to, i, plane[0][i], width);
	} else if (planes == 2) {
		for (size_t i = 0; i < count; i++)
			store(to, i, plane[0][i] | (uint64_t)plane[1][i] << 8, width);
	} else {
		for (size_t i = 0; i < count; i++) {
			uint64_t value = 0;

			for (unsigned p = 0; p < planes; p++)
				value |= (uint64_t)plane[p][i] << (8 * p);
			store(to, i, value, width);
		}
	}
}

struct bit_reader {
	const uint8_t *bytes;
	size_t size, bit;
};

/* At most 64 bits; bits after the end are 0. */
static ALWAYS_INLINE uint64_t read_bits(struct bit_reader *r, unsigned count)
{
	size_t byte = r->bit >> 3;
	unsigned from = r->bit & 7;
	uint64_t value = 0;

	r->bit += count;
	if (byte < r->size && r->size - byte >= 9) {
		value = bytes_load(r->bytes + byte) >> from;
		if (from + count > 64)
			value |= (uint64_t)r->bytes[byte + 8] << (64 - from);
	} else {
		for (unsigned k = 0; k < 9 && byte + k < r->size; k++) {
			if (8 * k < from)
				value |= (uint64_t)r->bytes[byte] >> from;
			else if (8 * k - from < 64)
				value |= (uint64_t)r->bytes[byte + k] << (8 * k - from);
		}
	}
	return count < 64 ? value & (((uint64_t)1 << count) - 1) : value;
}

static ALWAYS_INLINE void read_buckets(struct chunk_reader *r, struct varint_in *in, void *to,
				       size_t count, unsigned width)
{
	unsigned mantissa = varint_byte(in);
	struct bit_reader rest = {0};
	const uint8_t *class;
	uint64_t all = 0;
	size_t size;

	if (mantissa > MANTISSA_MOST) {
		column_damaged(r);
		return;
	}
	class = read_stream(r, in, count, count, &size);
	rest.bytes = class ? read_stream(r, in, 0, 8 * (uint64_t)count, &rest.size) : NULL;
	if (!rest.bytes)
		return;
	for (size_t i = 0; i < count; i++) {
		/* The inverse of (low << mantissa) + (value >> low), where low > 0 means that
		 * value >> low has mantissa + 1 bits. */
		unsigned class_number = class[i];
		unsigned low = class_number >> mantissa;
		uint64_t value;

		low = low > 1 ? low - 1 : 0;
		if (low + mantissa + 1 > 64) {
			column_damaged(r);
			return;
		}
		value = (uint64_t)(class_number - (low << mantissa)) << low;
		if (low)
			value |= read_bits(&rest, low);
		all |= value;
		store(to, i, value, width);
	}
	if ((rest.bit + 7) / 8 != rest.size || too_wide(all, width))
		column_damaged(r);
}

static void read_wide(struct chunk_reader *r, unsigned coding, struct varint_in *in,
		      uint64_t *value, size_t count, bool nested);

/* The nested column of `count` numbers that stands at *in. */
static const uint64_t *read_nested(struct chunk_reader *r, struct varint_in *in, size_t count)
{
	uint64_t coding = varint_u(in), length = varint_u(in);
	const uint8_t *bytes = varint_bytes(in, length);
	uint64_t *value = bytes ? take_memory(r, count, sizeof(*value), false) : NULL;
	struct varint_in inside;

	if (!bytes || !value) {
		column_damaged(r);
		return NULL;
	}
	inside = varint_begin(bytes, (size_t)length);
	read_wide(r, coding < CODING_UNKNOWN ? (unsigned)coding : CODING_UNKNOWN, &inside, value,
		  count, true);
	return r->error ? NULL : value;
}

static ALWAYS_INLINE void read_runs(struct chunk_reader *r, struct varint_in *in, void *to,
				    size_t count, unsigned width)
{
	uint64_t runs = varint_u(in), all = 0;
	const uint64_t *of = NULL, *length = NULL;
	size_t at = 0;

	if (runs && runs <= count) {
		of = read_nested(r, in, (size_t)runs);
		length = of ? read_nested(r, in, (size_t)runs) : NULL;
	}
	if (!length) {
		column_damaged(r);
		return;
	}
	for (size_t run = 0; run < runs; run++) {
		if (length[run] >= count - at) {
			column_damaged(r);
			return;
		}
		all |= of[run];
		for (uint64_t k = 0; k <= length[run]; k++)
			store(to, at++, of[run], width);
	}
	if (at != count || too_wide(all, width))
		column_damaged(r);
}

static ALWAYS_INLINE void read_split(struct chunk_reader *r, struct varint_in *in, void *to,
				     size_t count, unsigned width)
{
	unsigned limit = varint_byte(in);
	const uint64_t *large = NULL;
	const uint8_t *small;
	size_t size, larges = 0, used = 0;
	uint64_t all = 0;
	bool bad = false;

	small = read_stream(r, in, count, count, &size);
	if (!small)
		return;
	for (size_t i = 0; i < count; i++)
		larges += small[i] >= limit;
	if (larges) {
		large = read_nested(r, in, larges);
		if (!large)
			return;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t value = small[i];

		if (value >= limit) {
			bad |= value > limit;
			bad |= __builtin_add_overflow(limit, large[used++], &value);
		}
		all |= value;
		store(to, i, value, width);
	}
	if (bad || too_wide(all, width))
		column_damaged(r);
}

static ALWAYS_INLINE void read_numbers(struct chunk_reader *r, unsigned coding,
				       struct varint_in *in, void *to, size_t count, bool nested,
				       unsigned width)
{
	uint64_t constant;

	if (coding > CODING_SPLIT)
		chunk_fail(r, MAYFLY_E_VERSION);
	switch ((enum trace_coding)coding) {
	case CODING_CONSTANT:
		constant = varint_u(in);
		for (size_t i = 0; i < count; i++)
			store(to, i, constant, width);
		if (too_wide(constant, width))
			column_damaged(r);
		break;
	case CODING_VARINT:
		read_varints(r, in, to, count, width);
		break;
	case CODING_PLANES:
		read_planes(r, in, to, count, width);
		break;
	case CODING_BUCKETS:
		read_buckets(r, in, to, count, width);
		break;
	case CODING_RUNS:
		if (nested)
			column_damaged(r);
		else
			read_runs(r, in, to, count, width);
		break;
	case CODING_SPLIT:
		if (nested)
			column_damaged(r);
		else
			read_split(r, in, to, count, width);
		break;
	case CODING_BYTES:
		column_damaged(r);
		break;
	}
	if (in->bad || varint_left(in))
		column_damaged(r);
}

static void read_wide(struct chunk_reader *r, unsigned coding, struct varint_in *in,
		      uint64_t *value, size_t count, bool nested)
{
	read_numbers(r, coding, in, value, count, nested, 8);
}

const uint64_t *chunk_numbers(struct chunk_reader *r, unsigned id, size_t count)
{
	bool present = r->column[id].present;
	uint64_t *value = take_memory(r, count, sizeof(*value), !present);

	assert(id < COLUMNS_MOST);
	if (value && present)
		read_wide(r, r->column[id].coding, &r->column[id].in, value, count, false);
	return r->error ? NULL : value;
}

const uint32_t *chunk_numbers32(struct chunk_reader *r, unsigned id, size_t count)
{
	bool present = r->column[id].present;
	uint32_t *value = take_memory(r, count, sizeof(*value), !present);

	if (value && present)
		read_numbers(r, r->column[id].coding, &r->column[id].in, value, count, false, 4);
	return r->error ? NULL : value;
}

const uint8_t *chunk_numbers8(struct chunk_reader *r, unsigned id, size_t count)
{
	bool present = r->column[id].present;
	uint8_t *value = take_memory(r, count, sizeof(*value), !present);

	if (value && present)
		read_numbers(r, r->column[id].coding, &r->column[id].in, value, count, false, 1);
	return r->error ? NULL : value;
}

const uint8_t *chunk_bytes(struct chunk_reader *r, unsigned id, size_t *size)
{
	assert(id < COLUMNS_MOST);
	*size = 0;
	if (r->error)
		return NULL;
	if (!r->column[id].present)
		return (const uint8_t *)"";
	if (r->column[id].coding != CODING_BYTES) {
		chunk_fail(r, MAYFLY_E_VERSION);
		return NULL;
	}
	return read_stream(r, &r->column[id].in, 0, UINT32_MAX, size);
}

/* ---- reading: chunks ---- */

int chunk_find(const uint8_t *data, size_t size, bool check, struct chunk_header *h)
{
	struct varint_in in = varint_begin(data, size);
	uint32_t crc;

	if (size < TRACE_CHUNK_BYTES)
		return MAYFLY_E_EMPTY;
	h->type = (uint32_t)varint_fixed(&in, 4);
	h->stored = (uint32_t)varint_fixed(&in, 4);
	h->plain = (uint32_t)varint_fixed(&in, 4);
	crc = (uint32_t)varint_fixed(&in, 4);
	h->bytes = varint_bytes(&in, h->stored);
	if (!h->bytes)
		return MAYFLY_E_EMPTY;
	if (check && trace_checksum(trace_checksum(0, data, 12), h->bytes, h->stored) != crc)
		return MAYFLY_E_DAMAGED;
	return 0;
}

bool chunk_begin(struct chunk_reader *r, const struct chunk_header *h)
{
	uint8_t *plain;

	memset(r->column, 0, sizeof(r->column));
	r->error = 0;
	r->head = varint_begin(h->bytes, h->stored);
	if (!h->plain)
		return true;
	plain = take_memory(r, h->plain, 1, false);
	if (!plain)
		return false;
	chunk_fail(r, compress_expand(r->compress, plain, h->plain, h->bytes, h->stored));
	r->head = varint_begin(plain, h->plain);
	return !r->error;
}

bool chunk_columns(struct chunk_reader *r, uint64_t known)
{
	while (varint_left(&r->head) && !r->error) {
		uint64_t id = varint_u(&r->head), coding = varint_u(&r->head);
		uint64_t length = varint_u(&r->head);
		const uint8_t *bytes = varint_bytes(&r->head, length);

		if (!bytes)
			break;
		if (id >= COLUMNS_MOST || !(known >> id & 1)) {
			if (id & 1)
				chunk_fail(r, MAYFLY_E_VERSION);
			continue;
		}
		if (r->column[id].present)
			column_damaged(r);
		r->column[id].present = true;
		r->column[id].coding = coding < CODING_UNKNOWN ? (unsigned)coding : CODING_UNKNOWN;
		r->column[id].in = varint_begin(bytes, (size_t)length);
	}
	if (r->head.bad)
		column_damaged(r);
	return !r->error;
}
