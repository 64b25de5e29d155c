/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a recording to a trace file.
 *
 *	1. number anew: strings as columns use them, frames by address, nodes as samples need them
 *	2. make columns of numbers from each table, then from each run of events
 *	3. code each column in every way there is, keep the shortest
 *
 * Numbering nodes in the order in which samples first need them makes the tree a list of chains:
 * each sample with a new stack adds one chain of new nodes below a node that exists. The sample's
 * place is then the end of the next chain, which costs nothing to say.
 *
 *	sample 0: main > parse > read           chain 0: parent 0, nodes 1 2 3
 *	sample 1: main > parse > copy           chain 1: parent 2, node  4
 *	sample 2: main > parse > read           (old: the end of chain 0)
 *	sample 3: main > parse                  (old, and no chain's end: node 2)
 */
#include "trace/recording.h"

#include <stdlib.h>
#include <string.h>

#include "trace/compress.h"
#include "trace/format.h"
#include "trace/varint.h"

#define PACK_LIMIT 8192 /* values in a chunk that is worth trying to compress as a whole */
/* Values in a column that are worth trying everything at full level. */
#define PRECISE_LIMIT 2048
#define QUICK_LEVEL   3

/*
 * Times are the largest part of a sampled trace's events, and their low bits do not compress: each
 * bit less is 0.25 bytes less per sampled block. 2 us is about what taking a sample costs.
 */
#define UNIT_NS 2000

/* A growing block. When it cannot grow it says so and ignores what follows. */
struct bytes {
	uint8_t *at;
	size_t used, size;
	bool failed;
};

struct column {
	unsigned id;
	const uint64_t *value; /* `count` numbers, or: */
	size_t count;
	const void *bytes; /* `size` bytes */
	size_t size;
};

struct event {
	int64_t time;
	uint32_t sample;
	bool is_free;
};

struct encoder {
	const struct recording *r;
	struct compress *compress, *quick;
	struct bytes out;
	bool plain;   /* streams stay as they are, as the chunk will be compressed as a whole */
	bool quickly; /* only to find out which coding is best */
	bool failed;
	uint64_t unit; /* ns */

	uint32_t *string_number; /* of the recording's strings; 0: not used so far */
	uint32_t next_string;
	struct bytes text; /* strings in the order of their new numbers */
	uint64_t *module_path, *module_problem, *thread_name, *function, *file;

	uint32_t *frame_order, *frame_number; /* new -> old, old -> new */
	uint32_t *node_number;		      /* old -> new; RECORDING_NONE: not yet */
	struct mayfly_node *node;	      /* in new order, frames renumbered */
	uint32_t *node_chain;  /* new node -> the chain that it ends, or RECORDING_NONE */
	uint32_t *chain_start; /* first node of each, and the end of the last */
	size_t nodes, chains, sample_chains; /* the latter: those that samples made */

	struct event *event;
	size_t events;
	struct index_entry *index;
	size_t chunks;
	uint64_t seen_allocs, seen_chains;
	uint32_t *sample_number; /* in order of allocation events */
};

struct index_entry {
	uint64_t offset, events, allocs;
	int64_t time;
};

/* ---- bytes ---- */

uint32_t trace_checksum(uint32_t crc, const void *data, size_t size)
{
	/* The polynomial 0xedb88320, four bits at a time. */
	static const uint32_t step[16] = {
	    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
	    0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
	    0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	const uint8_t *at = data;

	crc = ~crc;
	while (size--) {
		crc ^= *at++;
		crc = crc >> 4 ^ step[crc & 15];
		crc = crc >> 4 ^ step[crc & 15];
	}
	return ~crc;
}

/* Room for `count` more bytes, or NULL. */
static uint8_t *extend(struct bytes *b, size_t count)
{
	size_t size = b->size ? b->size : 256;
	uint8_t *bigger;

	if (b->failed || count > SIZE_MAX / 4 - b->used) {
		b->failed = true;
		return NULL;
	}
	while (size - b->used < count)
		size *= 2;
	if (size != b->size) {
		bigger = realloc(b->at, size);
		if (!bigger) {
			b->failed = true;
			return NULL;
		}
		b->at = bigger;
		b->size = size;
	}
	return b->at + b->used;
}

static void put_bytes(struct bytes *b, const void *data, size_t size)
{
	uint8_t *to = extend(b, size);

	if (!to || !size)
		return;
	memcpy(to, data, size);
	b->used += size;
}

static void put_u(struct bytes *b, uint64_t value)
{
	uint8_t *to = extend(b, 10);

	if (to)
		b->used += varint_store(to, value);
}

static void put_s(struct bytes *b, int64_t value)
{
	put_u(b, varint_zigzag(value));
}

static void put_fixed(struct bytes *b, uint64_t value, unsigned count)
{
	uint8_t *to = extend(b, count);

	if (!to)
		return;
	for (unsigned i = 0; i < count; i++)
		to[i] = (uint8_t)(value >> (8 * i));
	b->used += count;
}

/* ---- columns ---- */

/* varint 2 x size + compressed, the bytes; when compressed, their number stands before them. */
static void put_stream(struct encoder *e, struct bytes *b, const void *data, size_t size)
{
	struct compress *compress = e->quickly ? e->quick : e->compress;
	size_t room = compress_bound(size);
	struct bytes packed = {0};
	size_t length = 0;

	if (!e->plain && size > 8 && extend(&packed, room))
		length = compress_block(compress, packed.at, room, data, size);
	if (length && length + 2 < size) {
		put_u(b, (uint64_t)size << 1 | 1);
		put_u(b, length);
		put_bytes(b, packed.at, length);
	} else {
		put_u(b, (uint64_t)size << 1);
		put_bytes(b, data, size);
	}
	free(packed.at);
}

static void code_varints(struct encoder *e, struct bytes *b, const uint64_t *value, size_t count)
{
	struct bytes stream = {0};

	for (size_t i = 0; i < count; i++)
		put_u(&stream, value[i]);
	put_stream(e, b, stream.at, stream.used);
	b->failed |= stream.failed;
	free(stream.at);
}

static void code_planes(struct encoder *e, struct bytes *b, const uint64_t *value, size_t count)
{
	uint8_t *plane = malloc(count);
	uint64_t all = 0;
	unsigned width = 1;

	for (size_t i = 0; i < count; i++)
		all |= value[i];
	while (width < 8 && all >> (8 * width))
		width++;
	put_fixed(b, width, 1);
	for (unsigned p = 0; plane && p < width; p++) {
		for (size_t i = 0; i < count; i++)
			plane[i] = (uint8_t)(value[i] >> (8 * p));
		put_stream(e, b, plane, count);
	}
	b->failed |= !plane;
	free(plane);
}

/* Low bits of many values one after the other, low bit first. */
struct bit_writer {
	struct bytes bytes;
	uint64_t pending;
	unsigned count;
};

static void put_bits(struct bit_writer *w, uint64_t value, unsigned count)
{
	while (count) {
		unsigned now = count < 8 - w->count ? count : 8 - w->count;

		w->pending |= (value & ((1u << now) - 1)) << w->count;
		w->count += now;
		value >>= now;
		count -= now;
		if (w->count == 8) {
			put_fixed(&w->bytes, w->pending, 1);
			w->pending = w->count = 0;
		}
	}
}

static void code_buckets(struct encoder *e, struct bytes *b, const uint64_t *value, size_t count,
			 unsigned mantissa)
{
	uint8_t *class = malloc(count);
	struct bit_writer rest = {0};

	for (size_t i = 0; class && i < count; i++) {
		unsigned low = bucket_rest(value[i], mantissa);

		class[i] = (uint8_t)((low << mantissa) + (value[i] >> low));
		put_bits(&rest, value[i], low);
	}
	if (rest.count)
		put_fixed(&rest.bytes, rest.pending, 1);
	put_fixed(b, mantissa, 1);
	if (class) {
		put_stream(e, b, class, count);
		put_stream(e, b, rest.bytes.at, rest.bytes.used);
	}
	b->failed |= !class || rest.bytes.failed;
	free(class);
	free(rest.bytes.at);
}

static size_t count_runs(const uint64_t *value, size_t count)
{
	size_t runs = 1;

	for (size_t i = 1; i < count; i++)
		runs += value[i] != value[i - 1];
	return runs;
}

static void put_numbers(struct encoder *e, struct bytes *b, const uint64_t *value, size_t count,
			bool nested);

static void code_runs(struct encoder *e, struct bytes *b, const uint64_t *value, size_t count,
		      size_t runs)
{
	uint64_t *list = malloc(2 * runs * sizeof(*list));
	size_t run = 0;

	if (!list) {
		b->failed = true;
		return;
	}
	list[0] = value[0];
	list[runs] = 0;
	for (size_t i = 1; i < count; i++) {
		if (value[i] == value[i - 1]) {
			list[runs + run]++;
			continue;
		}
		run++;
		list[run] = value[i];
		list[runs + run] = 0;
	}
	put_u(b, runs);
	put_numbers(e, b, list, runs, true);
	put_numbers(e, b, list + runs, runs, true);
	free(list);
}

/* What a candidate costs: in a chunk that is compressed as a whole, about what it does alone. */
static size_t cost(struct encoder *e, const struct bytes *b)
{
	struct bytes packed = {0};
	size_t room = compress_bound(b->used), length = 0;

	if (!e->plain)
		return b->used;
	if (extend(&packed, room))
		length = compress_block(e->quick, packed.at, room, b->at, b->used);
	free(packed.at);
	return length && length < b->used ? length : b->used;
}

struct choice {
	struct bytes best;
	unsigned coding, mantissa;
	size_t cost;
};

static void offer(struct encoder *e, struct choice *c, unsigned coding, unsigned mantissa,
		  struct bytes *candidate)
{
	size_t price = candidate->failed ? SIZE_MAX : cost(e, candidate);

	if (price < c->cost) {
		struct bytes old = c->best;

		c->best = *candidate;
		c->coding = coding;
		c->mantissa = mantissa;
		c->cost = price;
		*candidate = old;
	}
	candidate->used = 0;
	candidate->failed = false;
}

static void code_as(struct encoder *e, struct bytes *b, unsigned coding, unsigned mantissa,
		    const uint64_t *value, size_t count)
{
	switch (coding) {
	case CODING_CONSTANT:
		put_u(b, value[0]);
		break;
	case CODING_VARINT:
		code_varints(e, b, value, count);
		break;
	case CODING_PLANES:
		code_planes(e, b, value, count);
		break;
	case CODING_BUCKETS:
		code_buckets(e, b, value, count, mantissa);
		break;
	default:
		code_runs(e, b, value, count, count_runs(value, count));
	}
}

static void choose_coding(struct encoder *e, struct choice *c, const uint64_t *value, size_t count,
			  bool nested)
{
	static const struct {
		unsigned coding, mantissa;
	} way[] = {
	    {CODING_VARINT, 0},	 {CODING_PLANES, 0},  {CODING_BUCKETS, 0},
	    {CODING_BUCKETS, 1}, {CODING_BUCKETS, 2}, {CODING_RUNS, 0},
	};
	struct bytes candidate = {0};
	size_t runs = count_runs(value, count);

	for (size_t i = 0; runs > 1 && i < sizeof(way) / sizeof(*way); i++) {
		if (way[i].coding == CODING_RUNS && (nested || runs >= count / 2))
			continue;
		code_as(e, &candidate, way[i].coding, way[i].mantissa, value, count);
		offer(e, c, way[i].coding, way[i].mantissa, &candidate);
	}
	if (runs == 1) {
		code_as(e, &candidate, CODING_CONSTANT, 0, value, count);
		offer(e, c, CODING_CONSTANT, 0, &candidate);
	}
	free(candidate.at);
}

/* varint coding, varint length, that many bytes */
static void put_numbers(struct encoder *e, struct bytes *b, const uint64_t *value, size_t count,
			bool nested)
{
	struct choice c = {.cost = SIZE_MAX};

	if (count > PRECISE_LIMIT && !e->quickly) {
		/* A long column: the choice is made at a low level. */
		e->quickly = true;
		choose_coding(e, &c, value, count, nested);
		e->quickly = false;
		c.best.used = 0;
		code_as(e, &c.best, c.coding, c.mantissa, value, count);
	} else {
		choose_coding(e, &c, value, count, nested);
	}
	put_u(b, c.coding);
	put_u(b, c.best.used);
	put_bytes(b, c.best.at, c.best.used);
	b->failed |= c.cost == SIZE_MAX || c.best.failed;
	free(c.best.at);
}

static bool all_zero(const uint64_t *value, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (value[i])
			return false;
	return true;
}

static void put_column(struct encoder *e, struct bytes *b, const struct column *c)
{
	struct bytes coded = {0};

	if (c->bytes || c->size) {
		put_stream(e, &coded, c->bytes, c->size);
		put_u(b, c->id);
		put_u(b, CODING_BYTES);
		put_u(b, coded.used);
		put_bytes(b, coded.at, coded.used);
		b->failed |= coded.failed;
		free(coded.at);
	} else if (!all_zero(c->value, c->count)) {
		put_u(b, c->id);
		put_numbers(e, b, c->value, c->count, false);
	}
}

/* ---- chunks ---- */

static void put_chunk(struct encoder *e, uint32_t type, const struct bytes *stored, size_t plain)
{
	struct bytes *out = &e->out;
	size_t start = out->used;
	uint32_t crc;

	if (stored->failed || stored->used > UINT32_MAX || plain > UINT32_MAX) {
		e->failed = true;
		return;
	}
	put_fixed(out, type, 4);
	put_fixed(out, stored->used, 4);
	put_fixed(out, plain, 4);
	if (out->failed)
		return;
	crc = trace_checksum(0, out->at + start, 12);
	crc = trace_checksum(crc, stored->at, stored->used);
	put_fixed(out, crc, 4);
	put_bytes(out, stored->at, stored->used);
}

/* Compresses a chunk that holds plain streams. False when that does not make it smaller. */
static bool pack(struct encoder *e, const struct bytes *plain, struct bytes *packed)
{
	size_t room = compress_bound(plain->used);

	if (plain->failed || !extend(packed, room))
		return false;
	packed->used = compress_block(e->compress, packed->at, room, plain->at, plain->used);
	return packed->used && packed->used < plain->used;
}

static void build_chunk(struct encoder *e, struct bytes *b, const struct bytes *head,
			const struct column *column, size_t columns)
{
	put_bytes(b, head->at, head->used);
	b->failed |= head->failed;
	for (size_t i = 0; i < columns; i++)
		put_column(e, b, &column[i]);
}

/* Streams compressed one by one, or the chunk as a whole: whichever is smaller. Frees head. */
static void write_chunk(struct encoder *e, uint32_t type, struct bytes *head,
			const struct column *column, size_t columns)
{
	struct bytes by_stream = {0}, plain = {0}, packed = {0};
	size_t values = 0;

	for (size_t i = 0; i < columns; i++)
		values += column[i].count + column[i].size / 8;
	build_chunk(e, &by_stream, head, column, columns);
	if (values <= PACK_LIMIT) {
		e->plain = true;
		build_chunk(e, &plain, head, column, columns);
		e->plain = false;
		pack(e, &plain, &packed);
	}
	if (packed.used && packed.used < plain.used && packed.used < by_stream.used)
		put_chunk(e, type, &packed, plain.used);
	else if (plain.used && plain.used < by_stream.used)
		put_chunk(e, type, &plain, 0);
	else
		put_chunk(e, type, &by_stream, 0);
	free(by_stream.at);
	free(plain.at);
	free(packed.at);
	free(head->at);
}

/* ---- INFO ---- */

static void field_u(struct bytes *b, unsigned id, uint64_t value)
{
	uint8_t coded[10];
	size_t length = varint_store(coded, value);

	if (!value)
		return;
	put_u(b, id);
	put_u(b, length);
	put_bytes(b, coded, length);
}

static void field_s(struct bytes *b, unsigned id, int64_t value)
{
	field_u(b, id, varint_zigzag(value));
}

static void field_text(struct bytes *b, unsigned id, const char *text)
{
	put_u(b, id);
	put_u(b, strlen(text));
	put_bytes(b, text, strlen(text));
}

static void field_string(const struct encoder *e, struct bytes *b, unsigned id, uint32_t string)
{
	const char *text = recording_text(e->r, string);

	if (*text)
		field_text(b, id, text);
}

static void write_info(struct encoder *e)
{
	const struct mayfly_info *info = &e->r->info;
	struct bytes b = {0};

	field_u(&b, FIELD_MODE, info->mode);
	field_u(&b, FIELD_SAMPLER, info->sampler);
	field_u(&b, FIELD_PID, info->pid);
	field_u(&b, FIELD_PARENT_PID, info->parent_pid);
	field_u(&b, FIELD_INTERVAL, info->interval_bytes);
	field_s(&b, FIELD_START_REAL, info->start_real_ns);
	field_s(&b, FIELD_DURATION, info->duration_ns);
	field_u(&b, FIELD_ENDING, info->ending);
	field_s(&b, FIELD_ENDING_CODE, info->ending_code);
	field_u(&b, FIELD_SEED, info->seed);
	field_u(&b, FIELD_TRUNCATED, info->truncated_stacks);
	field_u(&b, FIELD_LOST_SAMPLES, info->dropped_samples);
	field_u(&b, FIELD_LOST_FREES, info->dropped_frees);
	field_u(&b, FIELD_NESTED_BLOCKS, info->nested_blocks);
	field_u(&b, FIELD_NESTED_BYTES, info->nested_bytes);
	for (size_t i = 0; i < e->r->command_count; i++)
		field_text(&b, FIELD_ARGUMENT, recording_text(e->r, e->r->command[i]));
	field_string(e, &b, FIELD_PROGRAM, e->r->program);
	field_text(&b, FIELD_WRITER, MAYFLY_VERSION);
	field_string(e, &b, FIELD_OFF_TEXT, e->r->off_text);
	field_string(e, &b, FIELD_NOTE, e->r->note);
	field_u(&b, FIELD_COMPLETE, info->complete);
	field_u(&b, FIELD_SPOOL, info->spool);
	write_chunk(e, TRACE_INFO, &b, NULL, 0);
}

/* ---- strings ---- */

/*
 * Codes references of one column: 0 the empty string, 1 the next string that was not used so far,
 * 2 the same as the column's last one, else 3 + its number.
 */
struct string_column {
	uint64_t *value;
	size_t count;
	uint32_t last;
};

static void refer(struct encoder *e, struct string_column *c, uint32_t string)
{
	const char *text = recording_text(e->r, string);
	uint64_t code;

	if (!*text) {
		c->value[c->count++] = 0;
		return;
	}
	if (!e->string_number[string]) {
		e->string_number[string] = e->next_string++;
		put_bytes(&e->text, text, strlen(text) + 1);
		code = 1;
	} else if (e->string_number[string] == c->last) {
		code = 2;
	} else {
		code = 3 + (uint64_t)e->string_number[string];
	}
	c->last = e->string_number[string];
	c->value[c->count++] = code;
}

static uint64_t *new_column(struct encoder *e, size_t count)
{
	uint64_t *value = calloc(count + 1, sizeof(*value));

	if (!value)
		e->failed = true;
	return value;
}

/* The locations of frame `i` in new order. */
static const struct recording_location *locations_of(const struct encoder *e, size_t i,
						     uint32_t *count)
{
	const struct recording_frame *f = &e->r->frame[e->frame_order[i]];

	*count = f->locations;
	return f->locations ? &e->r->location[f->first_location] : NULL;
}

static size_t count_locations(const struct encoder *e)
{
	size_t count = 0;

	for (size_t i = 0; i < e->r->frames; i++)
		count += e->r->frame[i].locations;
	return count;
}

static void number_strings(struct encoder *e)
{
	const struct recording *r = e->r;
	size_t locations = count_locations(e);
	struct string_column path = {.value = e->module_path = new_column(e, r->modules)};
	struct string_column problem = {.value = e->module_problem = new_column(e, r->modules)};
	struct string_column name = {.value = e->thread_name = new_column(e, r->threads)};
	struct string_column function = {.value = e->function = new_column(e, locations)};
	struct string_column file = {.value = e->file = new_column(e, locations)};
	uint32_t count;

	e->next_string = 1;
	e->string_number = calloc(r->strings + 1, sizeof(*e->string_number));
	if (!e->string_number)
		e->failed = true;
	if (e->failed)
		return;
	/* Column by column, as the reader meets them. */
	for (size_t i = 0; i < r->modules; i++)
		refer(e, &path, r->module[i].path);
	for (size_t i = 0; i < r->modules; i++)
		refer(e, &problem, r->module[i].problem);
	for (size_t i = 0; i < r->threads; i++)
		refer(e, &name, r->thread[i].name);
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_location *l = locations_of(e, i, &count);

		for (uint32_t k = 0; k < count; k++)
			refer(e, &function, l[k].function);
	}
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_location *l = locations_of(e, i, &count);

		for (uint32_t k = 0; k < count; k++)
			refer(e, &file, l[k].file);
	}
}

static void write_strings(struct encoder *e)
{
	struct column column = {
	    .id = COLUMN_STRING_BYTES, .bytes = e->text.at, .size = e->text.used};
	struct bytes head = {0};

	e->failed |= e->text.failed;
	put_u(&head, e->next_string - 1);
	write_chunk(e, TRACE_STRINGS, &head, &column, e->text.used ? 1 : 0);
}

/* ---- times ---- */

static int64_t units(const struct encoder *e, int64_t ns)
{
	int64_t unit = (int64_t)e->unit, down = ns / unit;

	return ns % unit < 0 ? down - 1 : down;
}

/* ---- modules and threads ---- */

static void write_modules(struct encoder *e)
{
	enum { START, SIZE, BIAS, FROM, TO, ID_LENGTH, KINDS };
	size_t count = e->r->modules;
	uint64_t *value = new_column(e, KINDS * count);
	struct bytes head = {0}, ids = {0};
	uint64_t start = 0;

	if (!value)
		return;
	for (size_t i = 0; i < count; i++) {
		const struct recording_module *m = &e->r->module[i];
		uint64_t *v = value + i;
		int64_t from = units(e, m->from_ns);

		v[START * count] = varint_zigzag((int64_t)(m->start - start));
		v[SIZE * count] = m->end - m->start;
		v[BIAS * count] = varint_zigzag((int64_t)(m->bias - m->start));
		v[FROM * count] = varint_zigzag(from);
		v[TO * count] =
		    m->to_ns == INT64_MAX ? 0 : varint_zigzag(units(e, m->to_ns) - from) + 1;
		v[ID_LENGTH * count] = m->build_id_length;
		put_bytes(&ids, m->build_id, m->build_id_length);
		start = m->start;
	}
	{
		const struct column column[] = {
		    {COLUMN_MODULE_PATH, e->module_path, count},
		    {COLUMN_MODULE_PROBLEM, e->module_problem, count},
		    {COLUMN_MODULE_START, value + START * count, count},
		    {COLUMN_MODULE_SIZE, value + SIZE * count, count},
		    {COLUMN_MODULE_BIAS, value + BIAS * count, count},
		    {COLUMN_MODULE_FROM, value + FROM * count, count},
		    {COLUMN_MODULE_TO, value + TO * count, count},
		    {COLUMN_MODULE_BUILD_ID_LENGTH, value + ID_LENGTH * count, count},
		    {COLUMN_MODULE_BUILD_ID, NULL, 0, ids.at, ids.used},
		};

		put_u(&head, count);
		put_u(&head, e->unit);
		write_chunk(e, TRACE_MODULES, &head, column, ids.used ? 9 : 8);
	}
	e->failed |= ids.failed;
	free(ids.at);
	free(value);
}

static void write_threads(struct encoder *e)
{
	size_t count = e->r->threads;
	uint64_t *tid = new_column(e, count);
	struct bytes head = {0};
	uint32_t last = 0;

	if (!tid)
		return;
	for (size_t i = 0; i < count; i++) {
		tid[i] = varint_zigzag((int64_t)e->r->thread[i].tid - last);
		last = e->r->thread[i].tid;
	}
	{
		const struct column column[] = {
		    {COLUMN_THREAD_TID, tid, count},
		    {COLUMN_THREAD_NAME, e->thread_name, count},
		};

		put_u(&head, count);
		write_chunk(e, TRACE_THREADS, &head, column, 2);
	}
	free(tid);
}

/* ---- frames ---- */

struct frame_key {
	struct recording_frame frame;
	uint32_t index;
};

static int compare_frame(const void *a, const void *b)
{
	const struct frame_key *x = a, *y = b;

	if (x->frame.kind != y->frame.kind)
		return x->frame.kind < y->frame.kind ? -1 : 1;
	if (x->frame.module != y->frame.module)
		return x->frame.module < y->frame.module ? -1 : 1;
	if (x->frame.address != y->frame.address)
		return x->frame.address < y->frame.address ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void number_frames(struct encoder *e)
{
	size_t count = e->r->frames;
	struct frame_key *key = malloc((count + 1) * sizeof(*key));

	e->frame_order = malloc((count + 1) * sizeof(*e->frame_order));
	e->frame_number = malloc((count + 1) * sizeof(*e->frame_number));
	if (!key || !e->frame_order || !e->frame_number) {
		e->failed = true;
		free(key);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		key[i].frame = e->r->frame[i];
		key[i].index = (uint32_t)i;
	}
	qsort(key, count, sizeof(*key), compare_frame);
	for (size_t i = 0; i < count; i++) {
		e->frame_order[i] = key[i].index;
		e->frame_number[key[i].index] = (uint32_t)i;
	}
	free(key);
}

struct location_columns {
	uint64_t *line, *inlined;
	uint32_t *last_line; /* of each string as a file */
	size_t count;
};

static void add_locations(const struct encoder *e, struct location_columns *c, size_t frame)
{
	uint32_t count;
	const struct recording_location *l = locations_of(e, frame, &count);

	for (uint32_t k = 0; k < count; k++, c->count++) {
		c->line[c->count] = varint_zigzag((int64_t)l[k].line - c->last_line[l[k].file]);
		c->last_line[l[k].file] = l[k].line;
		/* What is expected: all but the outermost one. */
		c->inlined[c->count] = l[k].inlined != (k + 1 < count);
	}
}

static void write_frames(struct encoder *e)
{
	size_t count = e->r->frames, locations = count_locations(e);
	uint64_t *kind = new_column(e, count), *module = new_column(e, count);
	uint64_t *address = new_column(e, count), *listed = new_column(e, count);
	struct location_columns c = {.line = new_column(e, locations),
				     .inlined = new_column(e, locations)};
	struct bytes head = {0};
	uint64_t last = 0;

	c.last_line = calloc(e->r->strings + 1, sizeof(*c.last_line));
	e->failed |= !c.last_line;
	for (size_t i = 0; !e->failed && i < count; i++) {
		const struct recording_frame *f = &e->r->frame[e->frame_order[i]];

		kind[i] = f->kind;
		module[i] = (uint64_t)(uint32_t)(f->module + 1);
		if (i && (kind[i] != kind[i - 1] || module[i] != module[i - 1]))
			last = 0;
		address[i] = f->address - last;
		last = f->address;
		listed[i] = f->locations;
		add_locations(e, &c, i);
	}
	if (!e->failed) {
		const struct column column[] = {
		    {COLUMN_FRAME_KIND, kind, count},
		    {COLUMN_FRAME_MODULE, module, count},
		    {COLUMN_FRAME_ADDRESS, address, count},
		    {COLUMN_FRAME_LOCATIONS, listed, count},
		    {COLUMN_LOCATION_FUNCTION, e->function, locations},
		    {COLUMN_LOCATION_FILE, e->file, locations},
		    {COLUMN_LOCATION_LINE, c.line, locations},
		    {COLUMN_LOCATION_INLINED, c.inlined, locations},
		};

		put_u(&head, count);
		put_u(&head, locations);
		write_chunk(e, TRACE_FRAMES, &head, column, 8);
	}
	free(kind);
	free(module);
	free(address);
	free(listed);
	free(c.line);
	free(c.inlined);
	free(c.last_line);
}

/* ---- the tree ---- */

/* Gives numbers to a node and its ancestors that have none: one chain. Returns false when the node
 * had a number already. */
static bool number_chain(struct encoder *e, uint32_t node)
{
	uint32_t path[TRACE_MAX_DEPTH];
	size_t length = 0;
	uint32_t parent;

	for (; e->node_number[node] == RECORDING_NONE; node = e->r->node[node].parent)
		path[length++] = node;
	if (!length)
		return false;
	parent = e->node_number[node];
	e->chain_start[e->chains] = (uint32_t)e->nodes;
	while (length) {
		node = path[--length];
		e->node[e->nodes].parent = parent;
		e->node[e->nodes].frame = e->frame_number[e->r->node[node].frame];
		parent = (uint32_t)e->nodes;
		e->node_number[node] = (uint32_t)e->nodes++;
	}
	e->node_chain[parent] = (uint32_t)e->chains++;
	return true;
}

static void number_nodes(struct encoder *e)
{
	size_t count = e->r->nodes;

	e->node_number = malloc(count * sizeof(*e->node_number));
	e->node = malloc(count * sizeof(*e->node));
	e->node_chain = malloc(count * sizeof(*e->node_chain));
	e->chain_start = malloc((count + 1) * sizeof(*e->chain_start));
	if (!e->node_number || !e->node || !e->node_chain || !e->chain_start) {
		e->failed = true;
		return;
	}
	memset(e->node_number, 0xff, count * sizeof(*e->node_number));
	memset(e->node_chain, 0xff, count * sizeof(*e->node_chain));
	e->node_number[0] = 0;
	e->node[0] = e->r->node[0];
	e->nodes = 1;
	for (size_t i = 0; i < e->r->samples; i++)
		number_chain(e, e->r->sample[i].node);
	e->sample_chains = e->chains;
	/* Nodes that no sample needs come last. */
	for (size_t i = 1; i < count; i++)
		number_chain(e, (uint32_t)i);
	e->chain_start[e->chains] = (uint32_t)e->nodes;
}

/*
 * Which frames followed a frame, most recent first. The list of the root is that of number
 * `frames`. Both sides look at the first TRACE_MAX_RANK entries only.
 */
struct successor {
	uint32_t frame, next; /* next: entry + 1 */
};

struct successors {
	uint32_t *first; /* of each frame: entry + 1, 0 none */
	struct successor *entry;
	size_t entries;
};

/* The place of `frame` in the list of `before` counted from 1, 0 when it was not there; moves it
 * to the front. */
static uint64_t find_successor(struct successors *s, uint32_t before, uint32_t frame)
{
	uint32_t *link = &s->first[before], found;

	for (uint64_t rank = 1; *link && rank <= TRACE_MAX_RANK; rank++) {
		found = *link;
		if (s->entry[found - 1].frame == frame) {
			*link = s->entry[found - 1].next;
			s->entry[found - 1].next = s->first[before];
			s->first[before] = found;
			return rank;
		}
		link = &s->entry[found - 1].next;
	}
	s->entry[s->entries].frame = frame;
	s->entry[s->entries].next = s->first[before];
	s->first[before] = (uint32_t)++s->entries;
	return 0;
}

static void write_tree(struct encoder *e)
{
	size_t count = e->nodes - 1;
	uint64_t *parent = new_column(e, e->chains), *length = new_column(e, e->chains);
	uint64_t *rank = new_column(e, count), *missed = new_column(e, count);
	uint64_t *beside = new_column(e, count);
	struct successors s = {0};
	struct bytes head = {0};
	size_t misses = 0, besides = 0;

	s.first = calloc(e->r->frames + 1, sizeof(*s.first));
	s.entry = malloc((count + 1) * sizeof(*s.entry));
	e->failed |= !s.first || !s.entry;
	for (size_t i = 0; !e->failed && i < e->chains; i++) {
		uint32_t start = e->chain_start[i];

		parent[i] = start - 1 - e->node[start].parent;
		length[i] = e->chain_start[i + 1] - start - 1;
	}
	for (size_t i = 0; !e->failed && i < count; i++) {
		const struct mayfly_node *n = &e->node[i + 1];
		uint32_t before = n->parent ? e->node[n->parent].frame : (uint32_t)e->r->frames;

		uint32_t front = s.first[before];

		if (front)
			front = s.entry[front - 1].frame + 1;
		rank[i] = find_successor(&s, before, n->frame);
		if (rank[i])
			continue;
		/* What follows one call is mostly in one function, so close to what followed. */
		if (front)
			beside[besides++] = varint_zigzag((int64_t)n->frame - (front - 1));
		else
			missed[misses++] = n->frame;
	}
	if (!e->failed) {
		const struct column column[] = {
		    {COLUMN_CHAIN_PARENT, parent, e->chains},
		    {COLUMN_CHAIN_LENGTH, length, e->chains},
		    {COLUMN_NODE_RANK, rank, count},
		    {COLUMN_NODE_FRAME, missed, misses},
		    {COLUMN_NODE_BESIDE, beside, besides},
		};

		put_u(&head, count);
		put_u(&head, e->chains);
		put_u(&head, misses);
		put_u(&head, besides);
		write_chunk(e, TRACE_TREE, &head, column, 5);
	}
	free(parent);
	free(length);
	free(rank);
	free(missed);
	free(beside);
	free(s.first);
	free(s.entry);
}

/* ---- events ---- */

static int compare_event(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	/* At the same time all allocations come first, so that no free precedes its own. */
	if (x->is_free != y->is_free)
		return x->is_free ? 1 : -1;
	return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static void list_events(struct encoder *e)
{
	const struct recording *r = e->r;

	e->event = malloc((2 * r->samples + 1) * sizeof(*e->event));
	if (!e->event) {
		e->failed = true;
		return;
	}
	for (size_t i = 0; i < r->samples; i++) {
		const struct recording_sample *s = &r->sample[i];

		e->event[e->events++] = (struct event){s->time_ns, (uint32_t)i, false};
		if (s->free_ns == INT64_MAX)
			continue;
		e->event[e->events++] = (struct event){
		    s->free_ns > s->time_ns ? s->free_ns : s->time_ns, (uint32_t)i, true};
	}
	qsort(e->event, e->events, sizeof(*e->event), compare_event);
}

/* The columns of one EVNT chunk. */
struct event_columns {
	struct encoder *e;
	uint64_t *kind, *time, *site, *node, *size, *new_size, *thread, *hits, *interval, *flags;
	uint64_t *rank, *back, *step, *old, *free_thread, *free_flags;
	size_t runs, events, allocs, nodes, new_sizes, frees, olds;
	uint64_t first_sample, last_freed, last_old;
	int64_t base, now;
	uint64_t (*recent)[2]; /* the last two sizes at each frame */
	uint32_t *live;	       /* Fenwick tree of this chunk's live samples, from 1 to room */
	size_t room;
};

static void live_add(struct event_columns *c, size_t index, uint32_t change)
{
	for (size_t i = index + 1; i <= c->room; i += i & -i)
		c->live[i] += change;
}

/* How many of the chunk's samples 0..index are live. */
static uint32_t live_up_to(const struct event_columns *c, size_t index)
{
	uint32_t sum = 0;

	for (size_t i = index + 1 < c->room ? index + 1 : c->room; i; i -= i & -i)
		sum += c->live[i];
	return sum;
}

static void add_site(struct event_columns *c, uint32_t node)
{
	struct encoder *e = c->e;
	uint32_t number = e->node_number[node];
	uint32_t chain = number ? e->node_chain[number] : RECORDING_NONE;

	if (chain == RECORDING_NONE || chain > e->seen_chains) {
		c->site[c->allocs] = 1;
		c->node[c->nodes++] = number;
	} else if (chain == e->seen_chains) {
		c->site[c->allocs] = 0;
		e->seen_chains++;
	} else {
		c->site[c->allocs] = 2 + (e->seen_chains - 1 - chain);
	}
}

static void add_size(struct event_columns *c, uint32_t node, uint64_t size)
{
	uint32_t number = c->e->node_number[node];
	uint64_t *recent = c->recent[number ? c->e->node[number].frame : c->e->r->frames];
	uint64_t last = recent[0];

	if (size == last) {
		c->size[c->allocs] = 0;
		return;
	}
	c->size[c->allocs] = size == recent[1] ? 1 : 2;
	if (size != recent[1])
		c->new_size[c->new_sizes++] = size;
	recent[0] = size;
	recent[1] = last;
}

static void add_alloc(struct event_columns *c, uint32_t sample)
{
	struct encoder *e = c->e;
	const struct recording_sample *s = &e->r->sample[sample];
	int64_t expected = s->size >= (uint64_t)1 << s->interval_log2 ? 0 : 1;

	add_site(c, s->node);
	add_size(c, s->node, s->size);
	c->thread[c->allocs] = s->thread;
	c->hits[c->allocs] = varint_zigzag((int64_t)s->hits - expected);
	c->interval[c->allocs] = s->interval_log2;
	c->flags[c->allocs] = s->flags;
	e->sample_number[sample] = (uint32_t)e->seen_allocs++;
	live_add(c, c->allocs, 1);
	c->allocs++;
}

static void add_free(struct event_columns *c, uint32_t sample)
{
	struct encoder *e = c->e;
	const struct recording_sample *s = &e->r->sample[sample];
	uint64_t number = e->sample_number[sample];

	if (number >= c->first_sample) {
		size_t local = (size_t)(number - c->first_sample);

		c->rank[c->frees] = 1 + (uint64_t)(live_up_to(c, c->allocs) - live_up_to(c, local));
		live_add(c, local, (uint32_t)-1);
	} else {
		c->rank[c->frees] = 0;
		c->old[c->olds++] = varint_zigzag((int64_t)(number - c->last_old));
		c->last_old = number;
	}
	c->back[c->frees] = e->seen_allocs - 1 - number;
	c->step[c->frees] = varint_zigzag((int64_t)(number - c->last_freed));
	c->last_freed = number;
	c->free_thread[c->frees] = s->free_thread == s->thread ? 0 : 1 + (uint64_t)s->free_thread;
	c->free_flags[c->frees] = s->free_flags;
	c->frees++;
}

static void add_event(struct event_columns *c, const struct event *event)
{
	int64_t time = units(c->e, event->time);
	bool is_free = event->is_free;

	if (!c->events)
		c->now = c->base = time;
	c->time[c->events++] = (uint64_t)time - (uint64_t)c->now;
	c->now = time;
	/* Runs of allocations and of frees take turns; the first, of allocations, may be empty. */
	if ((c->runs - 1) % 2 != is_free)
		c->kind[c->runs++] = 0;
	c->kind[c->runs - 1]++;
	if (is_free)
		add_free(c, event->sample);
	else
		add_alloc(c, event->sample);
}

static size_t coded_size(struct encoder *e, const struct column *c, size_t columns)
{
	struct bytes b = {0};

	for (size_t i = 0; i < columns; i++)
		put_column(e, &b, &c[i]);
	free(b.at);
	return b.used;
}

/* Of the ways to say which block is freed, the one that this chunk needs the least bytes for. */
static size_t choose_free_columns(struct event_columns *c, struct column *to)
{
	const struct column rank[2] = {
	    {COLUMN_FREE_RANK, c->rank, c->frees},
	    {COLUMN_FREE_OLD, c->old, c->olds},
	};
	const struct column back = {COLUMN_FREE_BACK, c->back, c->frees};
	const struct column step = {COLUMN_FREE_STEP, c->step, c->frees};
	size_t rank_size = coded_size(c->e, rank, 2);
	size_t back_size = coded_size(c->e, &back, 1);
	size_t step_size = coded_size(c->e, &step, 1);

	if (back_size < rank_size && back_size <= step_size) {
		to[0] = back;
		return 1;
	}
	if (step_size < rank_size) {
		to[0] = step;
		return 1;
	}
	to[0] = rank[0];
	to[1] = rank[1];
	return 2;
}

static void write_event_chunk(struct event_columns *c, uint64_t first_chain)
{
	enum { FREE_BACK, FREE_STEP, FREE_RANK };
	struct column column[17] = {
	    {COLUMN_EVENT_KIND, c->kind, c->runs},
	    {COLUMN_EVENT_TIME, c->time, c->events},
	    {COLUMN_ALLOC_SITE, c->site, c->allocs},
	    {COLUMN_ALLOC_NODE, c->node, c->nodes},
	    {COLUMN_ALLOC_SIZE, c->size, c->allocs},
	    {COLUMN_ALLOC_NEW_SIZE, c->new_size, c->new_sizes},
	    {COLUMN_ALLOC_THREAD, c->thread, c->allocs},
	    {COLUMN_ALLOC_HITS, c->hits, c->allocs},
	    {COLUMN_ALLOC_INTERVAL, c->interval, c->allocs},
	    {COLUMN_ALLOC_FLAGS, c->flags, c->allocs},
	    {COLUMN_FREE_THREAD, c->free_thread, c->frees},
	    {COLUMN_FREE_FLAGS, c->free_flags, c->frees},
	};
	size_t columns = 12 + choose_free_columns(c, column + 12);
	uint64_t way = column[12].id == COLUMN_FREE_BACK   ? FREE_BACK
		       : column[12].id == COLUMN_FREE_STEP ? FREE_STEP
							   : FREE_RANK;
	struct bytes head = {0};

	put_u(&head, c->events);
	put_u(&head, c->allocs);
	put_u(&head, c->runs);
	put_u(&head, c->nodes);
	put_u(&head, c->new_sizes);
	put_u(&head, c->olds);
	put_u(&head, way);
	put_u(&head, c->first_sample);
	put_u(&head, first_chain);
	put_u(&head, c->e->unit);
	put_s(&head, c->base);
	write_chunk(c->e, TRACE_EVENTS, &head, column, columns);
}

static bool new_event_columns(struct event_columns *c, struct encoder *e)
{
	uint64_t **column[] = {
	    &c->kind,	&c->time, &c->site,	   &c->node,	   &c->size, &c->new_size,
	    &c->thread, &c->hits, &c->interval,	   &c->flags,	   &c->rank, &c->back,
	    &c->step,	&c->old,  &c->free_thread, &c->free_flags,
	};

	c->e = e;
	c->room = e->events < TRACE_CHUNK_EVENTS ? e->events : TRACE_CHUNK_EVENTS;
	for (size_t i = 0; i < sizeof(column) / sizeof(*column); i++)
		*column[i] = new_column(e, c->room + 1);
	c->recent = malloc((e->r->frames + 1) * sizeof(*c->recent));
	c->live = malloc((c->room + 1) * sizeof(*c->live));
	e->failed |= !c->recent || !c->live;
	return !e->failed;
}

static void free_event_columns(struct event_columns *c)
{
	free(c->kind);
	free(c->time);
	free(c->site);
	free(c->node);
	free(c->size);
	free(c->new_size);
	free(c->thread);
	free(c->hits);
	free(c->interval);
	free(c->flags);
	free(c->rank);
	free(c->back);
	free(c->step);
	free(c->old);
	free(c->free_thread);
	free(c->free_flags);
	free(c->recent);
	free(c->live);
}

static void begin_event_chunk(struct event_columns *c)
{
	struct encoder *e = c->e;

	c->events = c->allocs = c->nodes = c->new_sizes = c->frees = c->olds = 0;
	c->runs = 1;
	c->kind[0] = 0;
	c->first_sample = c->last_freed = c->last_old = e->seen_allocs;
	memset(c->recent, 0, (e->r->frames + 1) * sizeof(*c->recent));
	memset(c->live, 0, (c->room + 1) * sizeof(*c->live));
}

static void write_events(struct encoder *e)
{
	struct event_columns c = {0};
	size_t chunks = (e->events + TRACE_CHUNK_EVENTS - 1) / TRACE_CHUNK_EVENTS;

	e->index = calloc(chunks + 1, sizeof(*e->index));
	e->sample_number = calloc(e->r->samples + 1, sizeof(*e->sample_number));
	e->failed |= !e->index || !e->sample_number;
	if (new_event_columns(&c, e))
		for (size_t i = 0; i < e->events;) {
			uint64_t first_chain = e->seen_chains;
			struct index_entry *entry = &e->index[e->chunks++];

			begin_event_chunk(&c);
			entry->offset = e->out.used;
			entry->time = units(e, e->event[i].time);
			while (i < e->events && c.events < TRACE_CHUNK_EVENTS)
				add_event(&c, &e->event[i++]);
			entry->events = c.events;
			entry->allocs = c.allocs;
			write_event_chunk(&c, first_chain);
		}
	free_event_columns(&c);
}

/* ---- the file ---- */

static void write_header(struct encoder *e)
{
	struct bytes *b = &e->out;

	put_bytes(b, TRACE_MAGIC, 8);
	put_fixed(b, TRACE_VERSION, 4);
	put_fixed(b, TRACE_HEADER_BYTES, 4);
	put_fixed(b, 0, 4);
	if (!b->failed)
		put_fixed(b, trace_checksum(0, b->at, b->used), 4);
}

static void write_index(struct encoder *e)
{
	uint64_t offset = e->out.used, last = 0;
	struct bytes head = {0}, trailer = {0};
	int64_t time = 0;

	put_u(&head, e->chunks);
	put_u(&head, e->unit);
	for (size_t i = 0; i < e->chunks; i++) {
		put_u(&head, e->index[i].offset - last);
		put_u(&head, e->index[i].events);
		put_u(&head, e->index[i].allocs);
		put_s(&head, e->index[i].time - time);
		last = e->index[i].offset;
		time = e->index[i].time;
	}
	write_chunk(e, TRACE_INDEX, &head, NULL, 0);
	put_fixed(&trailer, offset, 8);
	if (!trailer.failed)
		put_fixed(&trailer, trace_checksum(0, trailer.at, 8), 4);
	put_fixed(&trailer, 0, 4);
	put_bytes(&trailer, TRACE_END_MAGIC, 8);
	e->failed |= trailer.failed;
	put_bytes(&e->out, trailer.at, trailer.used);
	free(trailer.at);
}

/* ---- what may be encoded ---- */

static bool sound_tables(const struct recording *r)
{
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_frame *f = &r->frame[i];

		if (f->kind > MAYFLY_FRAME_ELIDED || f->first_location > r->locations ||
		    f->locations > r->locations - f->first_location ||
		    (f->module != RECORDING_NONE && f->module >= r->modules))
			return false;
	}
	for (size_t i = 0; i < r->locations; i++)
		if (r->location[i].function >= r->strings || r->location[i].file >= r->strings)
			return false;
	for (size_t i = 0; i < r->modules; i++)
		if (r->module[i].build_id_length > sizeof(r->module[i].build_id) ||
		    r->module[i].path >= r->strings || r->module[i].problem >= r->strings)
			return false;
	for (size_t i = 0; i < r->threads; i++)
		if (r->thread[i].name >= r->strings)
			return false;
	return true;
}

static bool sound_samples(const struct recording *r)
{
	for (size_t i = 0; i < r->samples; i++) {
		const struct recording_sample *s = &r->sample[i];

		if (s->node >= r->nodes || s->thread >= r->threads ||
		    s->interval_log2 > TRACE_MAX_INTERVAL ||
		    (s->free_ns != INT64_MAX && s->free_thread >= r->threads) ||
		    (i && s->time_ns < r->sample[i - 1].time_ns))
			return false;
	}
	return true;
}

static int check_tree(const struct recording *r)
{
	uint16_t *depth = malloc(r->nodes * sizeof(*depth));
	int error = 0;

	if (!depth)
		return MAYFLY_E_MEMORY;
	depth[0] = 0;
	for (size_t i = 1; i < r->nodes && !error; i++) {
		const struct mayfly_node *n = &r->node[i];

		if (n->parent >= i || n->frame >= r->frames || depth[n->parent] >= TRACE_MAX_DEPTH)
			error = MAYFLY_E_RANGE;
		else
			depth[i] = (uint16_t)(depth[n->parent] + 1);
	}
	free(depth);
	return error;
}

static void encode(struct encoder *e)
{
	number_frames(e);
	if (!e->failed)
		number_strings(e);
	if (!e->failed)
		number_nodes(e);
	if (!e->failed)
		list_events(e);
	if (e->failed)
		return;
	write_header(e);
	write_info(e);
	write_strings(e);
	write_modules(e);
	write_threads(e);
	write_frames(e);
	write_tree(e);
	write_events(e);
	write_index(e);
	e->failed |= e->out.failed;
}

static void free_encoder(struct encoder *e)
{
	compress_free(e->compress);
	compress_free(e->quick);
	free(e->string_number);
	free(e->text.at);
	free(e->module_path);
	free(e->module_problem);
	free(e->thread_name);
	free(e->function);
	free(e->file);
	free(e->frame_order);
	free(e->frame_number);
	free(e->node_number);
	free(e->node);
	free(e->node_chain);
	free(e->chain_start);
	free(e->event);
	free(e->index);
	free(e->sample_number);
}

int trace_encode(const struct recording *r, int level, uint8_t **bytes, size_t *size)
{
	struct encoder e = {.r = r, .unit = UNIT_NS};
	int error;

	*bytes = NULL;
	*size = 0;
	if (!sound_tables(r) || !sound_samples(r) || r->samples >= UINT32_MAX)
		return MAYFLY_E_RANGE;
	error = check_tree(r);
	if (error)
		return error;
	if (!level)
		level = r->samples <= 50000 ? 19 : r->samples <= 300000 ? 9 : 3;
	e.compress = compress_new(level);
	e.quick = compress_new(level < QUICK_LEVEL ? level : QUICK_LEVEL);
	e.failed = !e.compress || !e.quick;
	if (!e.failed)
		encode(&e);
	free_encoder(&e);
	if (e.failed) {
		free(e.out.at);
		return MAYFLY_E_MEMORY;
	}
	*bytes = e.out.at;
	*size = e.out.used;
	return 0;
}
