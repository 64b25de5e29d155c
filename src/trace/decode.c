/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a trace and going through its events.
 *
 * The tables (strings, modules, threads, frames, tree) are decoded when the trace is opened. Events
 * are decoded chunk by chunk by a cursor, which keeps of earlier chunks only the table of blocks
 * that frees refer to:
 *
 *	EVNT chunk --columns--> step: one event at a time
 *	                         |  allocation: appends to the cursor's table of blocks
 *	                         +- free: names an entry of it
 *
 * Opening runs one cursor over all events, so that what it accepts is sound to the last event.
 *
 * Hostile input: all memory that depends on the file is taken from a budget of 64 MiB + 4096 times
 * the size of the file, one for opening and another for each cursor.
 */
#include <mayfly/trace.h>

#include <stdlib.h>
#include <string.h>

#include "trace/compress.h"
#include "trace/estimate.h"
#include "trace/format.h"
#include "trace/recording.h"
#include "trace/spool_format.h"
#include "trace/varint.h"

#define BUDGET_BASE  ((uint64_t)64 << 20)
#define BUDGET_TIMES 4096
#define LATEST_NS    ((int64_t)1 << 62)
#define MOST_COLUMNS 64
#define MOST_TEMPS   256

struct event_chunk {
	size_t offset; /* of the chunk's header in the file */
};

struct mayfly_trace {
	const uint8_t *data;
	size_t size;
	uint8_t *owned; /* the trace made of a spool */
	struct mayfly_info info;
	uint32_t string_count;

	char *text;
	const char **string; /* [string_count + 1]; string[0] is "" */
	char *info_text;     /* texts of INFO, each with its zero */
	const char **command;
	struct mayfly_module *module;
	uint8_t *build_ids;
	struct mayfly_thread *thread;
	struct mayfly_frame *frame;
	struct mayfly_location *location;
	struct mayfly_node *node;
	uint32_t *chain_end; /* the last node of each chain */
	size_t chains;

	struct event_chunk *chunk;
	size_t chunks, chunk_size;
};

/* What it takes to decode; belongs to an opening or to a cursor. */
struct decoder {
	struct compress *compress;
	uint64_t budget;
	int error; /* the first one */
};

struct column_in {
	bool present;
	unsigned coding;
	struct varint_in in;
};

/* One chunk while it is decoded. Its temporary memory goes back to the budget at the end. */
struct chunk_in {
	struct decoder *d;
	struct varint_in head;
	struct column_in column[MOST_COLUMNS];
	void *temp[MOST_TEMPS];
	size_t temps;
	uint64_t temp_bytes;
};

static const char *const error_text[] = {
#define MAYFLY_X(name, value, text) [-(value)] = text,
    MAYFLY_ERRORS(MAYFLY_X)
#undef MAYFLY_X
};

const char *mayfly_error_text(int error)
{
	const int known = (int)(sizeof(error_text) / sizeof(*error_text));

	return error <= 0 && error > -known ? error_text[-error] : "unknown error";
}

/* ---- memory ---- */

static void fail(struct decoder *d, int error)
{
	if (!d->error)
		d->error = error;
}

/* Zeroed memory from the budget; never NULL unless it failed. */
static void *take(struct decoder *d, uint64_t count, size_t item)
{
	uint64_t bytes;
	void *memory;

	if (d->error)
		return NULL;
	if (__builtin_mul_overflow(count + 1, (uint64_t)item, &bytes) || count == UINT64_MAX ||
	    bytes > d->budget || bytes > SIZE_MAX) {
		fail(d, MAYFLY_E_TOO_LARGE);
		return NULL;
	}
	memory = calloc((size_t)count + 1, item);
	if (!memory)
		fail(d, MAYFLY_E_MEMORY);
	else
		d->budget -= bytes;
	return memory;
}

static void *take_temp(struct chunk_in *c, uint64_t count, size_t item)
{
	uint64_t before = c->d->budget;
	void *memory;

	if (c->temps == MOST_TEMPS) {
		fail(c->d, MAYFLY_E_DAMAGED);
		return NULL;
	}
	memory = take(c->d, count, item);
	if (memory) {
		c->temp[c->temps++] = memory;
		c->temp_bytes += before - c->d->budget;
	}
	return memory;
}

static void end_chunk(struct chunk_in *c)
{
	while (c->temps)
		free(c->temp[--c->temps]);
	c->d->budget += c->temp_bytes;
	c->temp_bytes = 0;
}

/* ---- columns ---- */

/* The bytes of a stream of `least` to `most` bytes, NULL when it is not one. */
static const uint8_t *read_stream(struct chunk_in *c, struct varint_in *in, uint64_t least,
				  uint64_t most, size_t *size)
{
	uint64_t head = varint_u(in), plain = head >> 1, stored;
	const uint8_t *bytes;
	uint8_t *expanded;

	*size = 0;
	if (in->bad || plain < least || plain > most) {
		fail(c->d, MAYFLY_E_DAMAGED);
		return NULL;
	}
	stored = head & 1 ? varint_u(in) : plain;
	bytes = varint_bytes(in, stored);
	if (!bytes) {
		fail(c->d, MAYFLY_E_DAMAGED);
		return NULL;
	}
	*size = (size_t)plain;
	if (!(head & 1))
		return bytes;
	expanded = take_temp(c, plain, 1);
	if (!expanded)
		return NULL;
	if (!compress_expand(c->d->compress, expanded, (size_t)plain, bytes, (size_t)stored)) {
		fail(c->d, MAYFLY_E_DAMAGED);
		return NULL;
	}
	return expanded;
}

static void read_varints(struct chunk_in *c, struct varint_in *in, uint64_t *value, size_t count)
{
	size_t size;
	const uint8_t *stream = read_stream(c, in, count, 10 * (uint64_t)count, &size);
	struct varint_in numbers;

	if (!stream)
		return;
	numbers = varint_begin(stream, size);
	for (size_t i = 0; i < count; i++)
		value[i] = varint_u(&numbers);
	if (numbers.bad || varint_left(&numbers))
		fail(c->d, MAYFLY_E_DAMAGED);
}

static void read_planes(struct chunk_in *c, struct varint_in *in, uint64_t *value, size_t count)
{
	unsigned width = varint_byte(in);
	size_t size;

	if (!width || width > 8) {
		fail(c->d, MAYFLY_E_DAMAGED);
		return;
	}
	for (unsigned p = 0; p < width; p++) {
		const uint8_t *plane = read_stream(c, in, count, count, &size);

		if (!plane)
			return;
		for (size_t i = 0; i < count; i++)
			value[i] |= (uint64_t)plane[i] << (8 * p);
	}
}

struct bit_reader {
	const uint8_t *bytes;
	size_t size, bit;
};

static uint64_t read_bits(struct bit_reader *r, unsigned count)
{
	uint64_t value = 0;

	for (unsigned done = 0; done < count;) {
		size_t byte = r->bit >> 3;
		unsigned from = r->bit & 7, now = 8 - from;
		uint64_t part = byte < r->size ? r->bytes[byte] : 0;

		if (now > count - done)
			now = count - done;
		value |= (part >> from & ((1u << now) - 1)) << done;
		done += now;
		r->bit += now;
	}
	return value;
}

static void read_buckets(struct chunk_in *c, struct varint_in *in, uint64_t *value, size_t count)
{
	unsigned mantissa = varint_byte(in);
	struct bit_reader rest = {0};
	const uint8_t *class;
	size_t size;

	if (mantissa > 2) {
		fail(c->d, MAYFLY_E_DAMAGED);
		return;
	}
	class = read_stream(c, in, count, count, &size);
	rest.bytes = class ? read_stream(c, in, 0, 8 * (uint64_t)count, &rest.size) : NULL;
	if (!rest.bytes)
		return;
	for (size_t i = 0; i < count; i++) {
		/* The inverse of (low << mantissa) + (value >> low), where low > 0 means that
		 * value >> low has mantissa + 1 bits. */
		unsigned class_number = class[i];
		unsigned low = class_number >> mantissa;

		low = low > 1 ? low - 1 : 0;
		if (low + mantissa + 1 > 64) {
			fail(c->d, MAYFLY_E_DAMAGED);
			return;
		}
		value[i] = (uint64_t)(class_number - (low << mantissa)) << low;
		value[i] |= read_bits(&rest, low);
	}
	if ((rest.bit + 7) / 8 != rest.size)
		fail(c->d, MAYFLY_E_DAMAGED);
}

static void read_numbers(struct chunk_in *c, unsigned coding, struct varint_in *in, uint64_t *value,
			 size_t count, bool nested);

/* The nested column of `count` numbers that stands at *in. */
static const uint64_t *read_nested(struct chunk_in *c, struct varint_in *in, size_t count)
{
	uint64_t coding = varint_u(in), length = varint_u(in);
	const uint8_t *bytes = varint_bytes(in, length);
	uint64_t *value = take_temp(c, count, sizeof(*value));
	struct varint_in inside;

	if (!bytes || !value) {
		fail(c->d, MAYFLY_E_DAMAGED);
		return NULL;
	}
	inside = varint_begin(bytes, (size_t)length);
	read_numbers(c, coding < 256 ? (unsigned)coding : 256, &inside, value, count, true);
	return c->d->error ? NULL : value;
}

static void read_runs(struct chunk_in *c, struct varint_in *in, uint64_t *value, size_t count)
{
	uint64_t runs = varint_u(in);
	const uint64_t *of = NULL, *length = NULL;
	size_t at = 0;

	if (runs && runs <= count) {
		of = read_nested(c, in, (size_t)runs);
		length = of ? read_nested(c, in, (size_t)runs) : NULL;
	}
	if (!length) {
		fail(c->d, MAYFLY_E_DAMAGED);
		return;
	}
	for (size_t run = 0; run < runs; run++) {
		if (length[run] >= count - at) {
			fail(c->d, MAYFLY_E_DAMAGED);
			return;
		}
		for (uint64_t k = 0; k <= length[run]; k++)
			value[at++] = of[run];
	}
	if (at != count)
		fail(c->d, MAYFLY_E_DAMAGED);
}

/* `value` is zero before. */
static void read_numbers(struct chunk_in *c, unsigned coding, struct varint_in *in, uint64_t *value,
			 size_t count, bool nested)
{
	uint64_t constant;

	switch (coding) {
	case CODING_CONSTANT:
		constant = varint_u(in);
		for (size_t i = 0; i < count; i++)
			value[i] = constant;
		break;
	case CODING_VARINT:
		read_varints(c, in, value, count);
		break;
	case CODING_PLANES:
		read_planes(c, in, value, count);
		break;
	case CODING_BUCKETS:
		read_buckets(c, in, value, count);
		break;
	case CODING_RUNS:
		if (!nested) {
			read_runs(c, in, value, count);
			break;
		}
		/* fall through */
	case CODING_BYTES:
		fail(c->d, MAYFLY_E_DAMAGED);
		break;
	default:
		fail(c->d, MAYFLY_E_VERSION);
	}
	if (in->bad || varint_left(in))
		fail(c->d, MAYFLY_E_DAMAGED);
}

/* The numbers of a column, all zero when it is absent; NULL when it failed. */
static const uint64_t *numbers(struct chunk_in *c, unsigned id, size_t count)
{
	struct column_in *column = &c->column[id];
	uint64_t *value = take_temp(c, count, sizeof(*value));

	if (value && column->present)
		read_numbers(c, column->coding, &column->in, value, count, false);
	return c->d->error ? NULL : value;
}

static const uint8_t *byte_column(struct chunk_in *c, unsigned id, size_t *size)
{
	struct column_in *column = &c->column[id];

	*size = 0;
	if (!column->present)
		return (const uint8_t *)"";
	if (column->coding != CODING_BYTES) {
		fail(c->d, MAYFLY_E_VERSION);
		return NULL;
	}
	return read_stream(c, &column->in, 0, UINT32_MAX, size);
}

/* ---- chunks ---- */

struct chunk_header {
	uint32_t type, stored, plain;
	const uint8_t *bytes;
};

/* MAYFLY_E_EMPTY: the file ends before the chunk does. MAYFLY_E_DAMAGED: the chunk is wrong. */
static int read_chunk_header(const struct mayfly_trace *t, size_t offset, struct chunk_header *h)
{
	struct varint_in in;
	uint32_t crc;

	if (offset > t->size || t->size - offset < TRACE_CHUNK_BYTES)
		return MAYFLY_E_EMPTY;
	in = varint_begin(t->data + offset, t->size - offset);
	h->type = (uint32_t)varint_fixed(&in, 4);
	h->stored = (uint32_t)varint_fixed(&in, 4);
	h->plain = (uint32_t)varint_fixed(&in, 4);
	crc = (uint32_t)varint_fixed(&in, 4);
	h->bytes = varint_bytes(&in, h->stored);
	if (!h->bytes)
		return MAYFLY_E_EMPTY;
	if (trace_checksum(trace_checksum(0, t->data + offset, 12), h->bytes, h->stored) != crc)
		return MAYFLY_E_DAMAGED;
	return 0;
}

/* Begins to decode: c->head stands at the chunk's first byte. */
static bool begin_chunk(struct chunk_in *c, struct decoder *d, const struct chunk_header *h)
{
	uint8_t *plain;

	memset(c, 0, sizeof(*c));
	c->d = d;
	c->head = varint_begin(h->bytes, h->stored);
	if (!h->plain)
		return true;
	plain = take_temp(c, h->plain, 1);
	if (!plain)
		return false;
	if (!compress_expand(d->compress, plain, h->plain, h->bytes, h->stored)) {
		fail(d, MAYFLY_E_DAMAGED);
		return false;
	}
	c->head = varint_begin(plain, h->plain);
	return true;
}

/* Finds the columns behind the head. known: one bit for each id. */
static bool read_columns(struct chunk_in *c, uint64_t known)
{
	while (varint_left(&c->head)) {
		uint64_t id = varint_u(&c->head), coding = varint_u(&c->head);
		uint64_t length = varint_u(&c->head);
		const uint8_t *bytes = varint_bytes(&c->head, length);

		if (!bytes)
			break;
		if (id >= MOST_COLUMNS || !(known >> id & 1)) {
			if (id & 1)
				fail(c->d, MAYFLY_E_VERSION);
			continue;
		}
		if (c->column[id].present)
			fail(c->d, MAYFLY_E_DAMAGED);
		c->column[id].present = true;
		c->column[id].coding = coding < 256 ? (unsigned)coding : 256;
		c->column[id].in = varint_begin(bytes, (size_t)length);
	}
	if (c->head.bad)
		fail(c->d, MAYFLY_E_DAMAGED);
	return !c->d->error;
}

/* ---- opening: one function for each table ---- */

struct opening {
	struct mayfly_trace *t;
	struct decoder d;
	struct chunk_in chunk;
	uint32_t next_string;
	bool seen_info, seen_strings, seen_modules, seen_threads, seen_frames, seen_tree;
	bool damaged, finished, info_complete;
	int stopped; /* why no further chunk was read */
};

static void damaged(struct opening *o)
{
	fail(&o->d, MAYFLY_E_DAMAGED);
}

/* A count in a chunk's head: numbers of items must fit 32 bits. */
static size_t read_count(struct opening *o)
{
	uint64_t count = varint_u(&o->chunk.head);

	if (count >= UINT32_MAX) {
		damaged(o);
		return 0;
	}
	return (size_t)count;
}

/* Keeps a text of INFO. Room for all texts was made before. */
static const char *keep_text(char **at, const uint8_t *bytes, size_t length)
{
	const uint8_t *zero = memchr(bytes, 0, length);
	char *text = *at;

	if (zero)
		length = (size_t)(zero - bytes);
	memcpy(text, bytes, length);
	text[length] = 0;
	*at += length + 1;
	return text;
}

static void info_texts(struct mayfly_info *info, const char **command, char **at, uint64_t id,
		       const uint8_t *bytes, size_t length)
{
	switch (id) {
	case FIELD_ARGUMENT:
		command[info->command_count++] = keep_text(at, bytes, length);
		break;
	case FIELD_PROGRAM:
		info->program = keep_text(at, bytes, length);
		break;
	case FIELD_WRITER:
		info->version = keep_text(at, bytes, length);
		break;
	case FIELD_OFF_TEXT:
		info->off_text = keep_text(at, bytes, length);
		break;
	case FIELD_NOTE:
		info->note = keep_text(at, bytes, length);
		break;
	}
}

static bool known_field(uint64_t id)
{
	return id == FIELD_MODE || id == FIELD_SAMPLER || (id % 2 == 0 && id <= FIELD_SPOOL);
}

static void info_number(struct opening *o, uint64_t id, uint64_t u)
{
	struct mayfly_info *info = &o->t->info;
	int64_t s = (int64_t)(u >> 1 ^ -(u & 1));

	switch (id) {
	case FIELD_MODE:
		info->mode = (uint32_t)u;
		if (u > MAYFLY_EXACT)
			fail(&o->d, MAYFLY_E_VERSION);
		break;
	case FIELD_SAMPLER:
		info->sampler = (uint32_t)u;
		if (u > MAYFLY_POISSON)
			fail(&o->d, MAYFLY_E_VERSION);
		break;
	case FIELD_PID:
		info->pid = (uint32_t)u;
		break;
	case FIELD_PARENT_PID:
		info->parent_pid = (uint32_t)u;
		break;
	case FIELD_INTERVAL:
		info->interval_bytes = u;
		break;
	case FIELD_START_REAL:
		info->start_real_ns = s;
		break;
	case FIELD_DURATION:
		info->duration_ns = s;
		break;
	case FIELD_ENDING:
		info->ending = u <= MAYFLY_END_EXEC ? (uint32_t)u : MAYFLY_END_UNKNOWN;
		break;
	case FIELD_ENDING_CODE:
		info->ending_code = (int32_t)s;
		break;
	case FIELD_SEED:
		info->seed = u;
		break;
	case FIELD_TRUNCATED:
		info->truncated_stacks = u;
		break;
	case FIELD_LOST_SAMPLES:
		info->dropped_samples = u;
		break;
	case FIELD_LOST_FREES:
		info->dropped_frees = u;
		break;
	case FIELD_NESTED_BLOCKS:
		info->nested_blocks = u;
		break;
	case FIELD_NESTED_BYTES:
		info->nested_bytes = u;
		break;
	case FIELD_COMPLETE:
		o->info_complete = u != 0;
		break;
	case FIELD_SPOOL:
		info->spool = u != 0;
		break;
	}
}

static bool is_text(uint64_t id)
{
	return id == FIELD_ARGUMENT || id == FIELD_PROGRAM || id == FIELD_WRITER ||
	       id == FIELD_OFF_TEXT || id == FIELD_NOTE;
}

static void read_info(struct opening *o)
{
	struct varint_in *in = &o->chunk.head;
	struct mayfly_trace *t = o->t;
	size_t bytes = varint_left(in);
	char *at;

	/* Each text has at least two bytes before it, so its zero has room too. */
	t->info_text = take(&o->d, bytes, 1);
	t->command = take(&o->d, bytes / 2, sizeof(*t->command));
	at = t->info_text;
	while (!o->d.error && varint_left(in)) {
		uint64_t id = varint_u(in), length = varint_u(in);
		const uint8_t *field = varint_bytes(in, length);
		struct varint_in number;

		if (!field) {
			damaged(o);
		} else if (!known_field(id)) {
			if (id & 1)
				fail(&o->d, MAYFLY_E_VERSION);
		} else if (is_text(id)) {
			info_texts(&t->info, t->command, &at, id, field, (size_t)length);
		} else {
			number = varint_begin(field, (size_t)length);
			info_number(o, id, varint_u(&number));
			if (number.bad)
				damaged(o);
		}
	}
	t->info.command = t->command;
	if (t->info.interval_bytes == 0)
		t->info.interval_bytes = 1;
}

static void read_strings(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	size_t count = read_count(o), size, found = 0, start = 0;
	const uint8_t *bytes;

	if (!read_columns(&o->chunk, 1ull << COLUMN_STRING_BYTES))
		return;
	bytes = byte_column(&o->chunk, COLUMN_STRING_BYTES, &size);
	if (!bytes)
		return;
	if (size && bytes[size - 1]) {
		damaged(o);
		return;
	}
	t->text = take(&o->d, size, 1);
	t->string = take(&o->d, (uint64_t)count + 1, sizeof(*t->string));
	if (o->d.error)
		return;
	memcpy(t->text, bytes, size);
	t->string[0] = "";
	for (size_t i = 0; i < size; i++) {
		if (t->text[i])
			continue;
		if (found++ < count)
			t->string[found] = t->text + start;
		start = i + 1;
	}
	if (found != count)
		damaged(o);
	t->string_count = (uint32_t)count;
	t->info.strings = count + 1;
}

/* Turns the codes of one column of string references into texts, by way of set(). */
struct reference {
	struct opening *o;
	uint32_t last;
};

static uint32_t refer(struct reference *r, uint64_t code)
{
	struct opening *o = r->o;
	uint64_t number;

	if (code == 0)
		return 0;
	number = code == 1 ? o->next_string++ : code == 2 ? r->last : code - 3;
	if (number > o->t->string_count || number == 0) {
		damaged(o);
		return 0;
	}
	r->last = (uint32_t)number;
	return (uint32_t)number;
}

/* The string numbers of a column; the order of the calls is the order of numbering. */
static const uint32_t *string_column(struct opening *o, unsigned id, size_t count)
{
	const uint64_t *code = numbers(&o->chunk, id, count);
	uint32_t *number = take_temp(&o->chunk, count, sizeof(*number));
	struct reference r = {.o = o};

	if (!code || !number)
		return NULL;
	for (size_t i = 0; i < count && !o->d.error; i++)
		number[i] = refer(&r, code[i]);
	return o->d.error ? NULL : number;
}

static int64_t unzigzag(uint64_t u)
{
	return (int64_t)(u >> 1 ^ -(u & 1));
}

/* A time from its number of units. */
static int64_t to_ns(struct decoder *d, int64_t count, uint64_t unit)
{
	int64_t ns;

	if (__builtin_mul_overflow(count, (int64_t)unit, &ns) || ns > LATEST_NS ||
	    ns < -LATEST_NS) {
		fail(d, MAYFLY_E_DAMAGED);
		return 0;
	}
	return ns;
}

static bool sane_unit(uint64_t unit)
{
	return unit >= 1 && unit <= 1000000000;
}

static void read_modules(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct chunk_in *c = &o->chunk;
	size_t count = read_count(o), id_bytes, used = 0;
	uint64_t unit = varint_u(&c->head), last = 0;
	const uint32_t *path, *problem;
	const uint64_t *start, *size, *bias, *from, *to, *id_length;
	const uint8_t *ids;

	if (!sane_unit(unit))
		damaged(o);
	if (!read_columns(c, 0xaaae))
		return;
	path = string_column(o, COLUMN_MODULE_PATH, count);
	problem = string_column(o, COLUMN_MODULE_PROBLEM, count);
	start = numbers(c, COLUMN_MODULE_START, count);
	size = numbers(c, COLUMN_MODULE_SIZE, count);
	bias = numbers(c, COLUMN_MODULE_BIAS, count);
	from = numbers(c, COLUMN_MODULE_FROM, count);
	to = numbers(c, COLUMN_MODULE_TO, count);
	id_length = numbers(c, COLUMN_MODULE_BUILD_ID_LENGTH, count);
	ids = o->d.error ? NULL : byte_column(c, COLUMN_MODULE_BUILD_ID, &id_bytes);
	if (!ids)
		return;
	t->module = take(&o->d, count, sizeof(*t->module));
	t->build_ids = take(&o->d, id_bytes, 1);
	if (o->d.error)
		return;
	memcpy(t->build_ids, ids, id_bytes);
	for (size_t i = 0; i < count && !o->d.error; i++) {
		struct mayfly_module *m = &t->module[i];
		int64_t until;

		if (id_length[i] > id_bytes - used) {
			damaged(o);
			return;
		}
		m->path = t->string[path[i]];
		m->problem = t->string[problem[i]];
		m->build_id = t->build_ids + used;
		m->build_id_length = (size_t)id_length[i];
		used += m->build_id_length;
		m->start = last + (uint64_t)unzigzag(start[i]);
		last = m->start;
		m->end = m->start + size[i];
		m->bias = m->start + (uint64_t)unzigzag(bias[i]);
		m->from_ns = to_ns(&o->d, unzigzag(from[i]), unit);
		m->to_ns = INT64_MAX;
		if (!to[i])
			continue;
		if (__builtin_add_overflow(unzigzag(from[i]), unzigzag(to[i] - 1), &until))
			damaged(o);
		else
			m->to_ns = to_ns(&o->d, until, unit);
	}
	t->info.modules = count;
}

static void read_threads(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	size_t count = read_count(o);
	const uint64_t *tid;
	const uint32_t *name;
	uint32_t last = 0;

	if (!read_columns(&o->chunk, 1ull << COLUMN_THREAD_TID | 1ull << COLUMN_THREAD_NAME))
		return;
	tid = numbers(&o->chunk, COLUMN_THREAD_TID, count);
	name = string_column(o, COLUMN_THREAD_NAME, count);
	t->thread = take(&o->d, count, sizeof(*t->thread));
	if (o->d.error)
		return;
	for (size_t i = 0; i < count; i++) {
		last += (uint32_t)unzigzag(tid[i]);
		t->thread[i].tid = last;
		t->thread[i].name = t->string[name[i]];
	}
	t->info.threads = count;
}

static void read_locations(struct opening *o, size_t count)
{
	struct mayfly_trace *t = o->t;
	struct chunk_in *c = &o->chunk;
	const uint32_t *function = string_column(o, COLUMN_LOCATION_FUNCTION, count);
	const uint32_t *file = string_column(o, COLUMN_LOCATION_FILE, count);
	const uint64_t *line = numbers(c, COLUMN_LOCATION_LINE, count);
	const uint64_t *inlined = numbers(c, COLUMN_LOCATION_INLINED, count);
	uint32_t *last = take_temp(c, t->string_count, sizeof(*last));

	t->location = take(&o->d, count, sizeof(*t->location));
	if (o->d.error)
		return;
	for (size_t i = 0; i < count; i++) {
		struct mayfly_location *l = &t->location[i];

		l->function = t->string[function[i]];
		l->file = t->string[file[i]];
		last[file[i]] += (uint32_t)unzigzag(line[i]);
		l->line = last[file[i]];
		l->inlined = inlined[i] != 0; /* so far: differs from what is expected */
	}
}

static void read_frames(struct opening *o)
{
	static const struct mayfly_location nothing = {.function = "", .file = ""};
	struct mayfly_trace *t = o->t;
	struct chunk_in *c = &o->chunk;
	size_t count = read_count(o), locations = read_count(o), used = 0;
	const uint64_t *kind, *module, *address, *listed;
	uint64_t last = 0;

	if (!read_columns(c, 0xaaaa))
		return;
	kind = numbers(c, COLUMN_FRAME_KIND, count);
	module = numbers(c, COLUMN_FRAME_MODULE, count);
	address = numbers(c, COLUMN_FRAME_ADDRESS, count);
	listed = numbers(c, COLUMN_FRAME_LOCATIONS, count);
	read_locations(o, locations);
	t->frame = take(&o->d, count, sizeof(*t->frame));
	if (o->d.error)
		return;
	for (size_t i = 0; i < count; i++) {
		struct mayfly_frame *f = &t->frame[i];

		if (kind[i] > MAYFLY_FRAME_ELIDED || module[i] > t->info.modules ||
		    listed[i] > locations - used) {
			damaged(o);
			return;
		}
		if (i && (kind[i] != kind[i - 1] || module[i] != module[i - 1]))
			last = 0;
		last += address[i];
		f->kind = (uint32_t)kind[i];
		f->module = (uint32_t)module[i] - 1;
		f->address = last;
		f->locations = (size_t)listed[i];
		f->location = t->location + used;
		for (size_t k = 0; k < f->locations; k++)
			t->location[used + k].inlined ^= k + 1 < f->locations;
		used += f->locations;
		if (!f->locations && f->kind == MAYFLY_FRAME_CODE) {
			f->locations = 1;
			f->location = &nothing;
		}
		t->info.frames_symbolized += f->locations && *f->location->function;
	}
	if (used != locations)
		damaged(o);
	t->info.frames = count;
}

/* Which frames followed a frame, most recent first; see encode.c. */
struct successor {
	uint32_t frame, next;
};

static bool follow(uint32_t *first, struct successor *entry, uint64_t rank, uint32_t *frame)
{
	uint32_t *link = first, found;

	while (--rank && *link)
		link = &entry[*link - 1].next;
	found = *link;
	if (!found)
		return false;
	*frame = entry[found - 1].frame;
	*link = entry[found - 1].next;
	entry[found - 1].next = *first;
	*first = found;
	return true;
}

/* Parents of nodes 1 to `count`, from the chains. */
static bool read_chains(struct opening *o, size_t count)
{
	struct mayfly_trace *t = o->t;
	const uint64_t *parent = numbers(&o->chunk, COLUMN_CHAIN_PARENT, t->chains);
	const uint64_t *length = numbers(&o->chunk, COLUMN_CHAIN_LENGTH, t->chains);
	uint16_t *depth = take_temp(&o->chunk, (uint64_t)count + 1, sizeof(*depth));
	size_t next = 1;

	if (!parent || !length || !depth)
		return false;
	for (size_t i = 0; i < t->chains; i++) {
		if (length[i] >= count + 1 - next || parent[i] >= next) {
			damaged(o);
			return false;
		}
		t->node[next].parent = (uint32_t)(next - 1 - parent[i]);
		for (uint64_t k = 0; k <= length[i]; k++, next++) {
			if (k)
				t->node[next].parent = (uint32_t)(next - 1);
			depth[next] = (uint16_t)(depth[t->node[next].parent] + 1);
			if (depth[next] > TRACE_MAX_DEPTH) {
				damaged(o);
				return false;
			}
		}
		t->chain_end[i] = (uint32_t)(next - 1);
	}
	if (next != count + 1)
		damaged(o);
	return !o->d.error;
}

static void read_tree(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct chunk_in *c = &o->chunk;
	size_t count = read_count(o), chains = read_count(o), misses = read_count(o);
	size_t besides = read_count(o), frames = t->info.frames, used = 0, used_besides = 0;
	const uint64_t *rank, *missed, *beside;
	struct successor *entry;
	uint32_t *first;

	t->chains = chains;
	if (chains > count || misses > count || besides > count - misses)
		damaged(o);
	if (!read_columns(c, 0x2aa))
		return;
	t->node = take(&o->d, (uint64_t)count + 1, sizeof(*t->node));
	t->chain_end = take(&o->d, chains, sizeof(*t->chain_end));
	rank = numbers(c, COLUMN_NODE_RANK, count);
	missed = numbers(c, COLUMN_NODE_FRAME, misses);
	beside = numbers(c, COLUMN_NODE_BESIDE, besides);
	first = take_temp(c, frames, sizeof(*first));
	entry = take_temp(c, misses + besides, sizeof(*entry));
	if (o->d.error || !read_chains(o, count))
		return;
	t->node[0].parent = t->node[0].frame = UINT32_MAX;
	for (size_t i = 1; i <= count; i++) {
		struct mayfly_node *n = &t->node[i];
		uint64_t frame;
		uint32_t *list = &first[n->parent ? t->node[n->parent].frame : frames];

		if (rank[i - 1]) {
			if (rank[i - 1] > TRACE_MAX_RANK ||
			    !follow(list, entry, rank[i - 1], &n->frame)) {
				damaged(o);
				return;
			}
			continue;
		}
		if (*list && used_besides < besides)
			frame = entry[*list - 1].frame + (uint64_t)unzigzag(beside[used_besides++]);
		else if (!*list && used < misses)
			frame = missed[used++];
		else
			frame = UINT64_MAX;
		if (frame >= frames) {
			damaged(o);
			return;
		}
		n->frame = (uint32_t)frame;
		entry[used + used_besides - 1].frame = n->frame;
		entry[used + used_besides - 1].next = *list;
		*list = (uint32_t)(used + used_besides);
	}
	if (used != misses || used_besides != besides)
		damaged(o);
	t->info.nodes = count + 1;
}

/* ---- cursor ---- */

struct block {
	uint64_t size;
	int64_t time_ns;
	uint32_t node, thread, hits;
	uint8_t interval_log2, flags;
	bool freed;
};

struct recent_sizes {
	uint64_t last, before;
	uint32_t chunk; /* that they belong to, counted from 1 */
};

enum free_way { FREE_BACK, FREE_STEP, FREE_RANK };

struct mayfly_cursor {
	const struct mayfly_trace *t;
	struct decoder d;
	size_t next_chunk;
	struct block *block;
	size_t blocks, block_size;
	struct recent_sizes *recent;
	uint64_t next_chain;
	int64_t last_ns;

	/* The chunk at hand. */
	struct chunk_in chunk;
	size_t events, allocs, runs, nodes, new_sizes, olds;
	uint64_t way, unit;
	size_t event, alloc, run, node, new_size, freed, old;
	uint64_t run_left;
	size_t first_sample, last_freed, last_old;
	int64_t now; /* in units */
	const uint64_t *kind, *time, *site, *node_number, *size, *sizes, *thread, *hits;
	const uint64_t *interval, *flags, *free_place, *old_place, *free_thread, *free_flags;
	uint32_t *live; /* Fenwick tree over the chunk's blocks, when the way is FREE_RANK */
	uint32_t live_count;
};

static int wrong(struct mayfly_cursor *c)
{
	fail(&c->d, MAYFLY_E_DAMAGED);
	return c->d.error;
}

static void read_event_columns(struct mayfly_cursor *c)
{
	struct chunk_in *in = &c->chunk;
	size_t frees = c->events - c->allocs;
	const unsigned place[] = {
	    [FREE_BACK] = COLUMN_FREE_BACK,
	    [FREE_STEP] = COLUMN_FREE_STEP,
	    [FREE_RANK] = COLUMN_FREE_RANK,
	};

	c->kind = numbers(in, COLUMN_EVENT_KIND, c->runs);
	c->time = numbers(in, COLUMN_EVENT_TIME, c->events);
	c->site = numbers(in, COLUMN_ALLOC_SITE, c->allocs);
	c->node_number = numbers(in, COLUMN_ALLOC_NODE, c->nodes);
	c->size = numbers(in, COLUMN_ALLOC_SIZE, c->allocs);
	c->sizes = numbers(in, COLUMN_ALLOC_NEW_SIZE, c->new_sizes);
	c->thread = numbers(in, COLUMN_ALLOC_THREAD, c->allocs);
	c->hits = numbers(in, COLUMN_ALLOC_HITS, c->allocs);
	c->interval = numbers(in, COLUMN_ALLOC_INTERVAL, c->allocs);
	c->flags = numbers(in, COLUMN_ALLOC_FLAGS, c->allocs);
	c->free_place = numbers(in, place[c->way], frees);
	c->old_place = numbers(in, COLUMN_FREE_OLD, c->olds);
	c->free_thread = numbers(in, COLUMN_FREE_THREAD, frees);
	c->free_flags = numbers(in, COLUMN_FREE_FLAGS, frees);
	if (c->way == FREE_RANK)
		c->live = take_temp(in, c->allocs, sizeof(*c->live));
}

/* The head of an EVNT chunk. */
static void read_event_head(struct mayfly_cursor *c)
{
	struct varint_in *in = &c->chunk.head;
	uint64_t events = varint_u(in), allocs = varint_u(in), runs = varint_u(in);
	uint64_t nodes = varint_u(in), new_sizes = varint_u(in), olds = varint_u(in);
	uint64_t way = varint_u(in), first_sample = varint_u(in), first_chain = varint_u(in);
	uint64_t unit = varint_u(in);
	int64_t base = varint_s(in);

	if (in->bad || events > TRACE_CHUNK_EVENTS || allocs > events || runs > events + 1 ||
	    nodes > allocs || new_sizes > allocs || olds > events - allocs ||
	    first_sample != c->blocks || first_chain != c->next_chain || !sane_unit(unit)) {
		wrong(c);
		return;
	}
	if (way > FREE_RANK) {
		fail(&c->d, MAYFLY_E_VERSION);
		return;
	}
	c->events = (size_t)events;
	c->allocs = (size_t)allocs;
	c->runs = (size_t)runs;
	c->nodes = (size_t)nodes;
	c->new_sizes = (size_t)new_sizes;
	c->olds = (size_t)olds;
	c->way = way;
	c->unit = unit;
	c->now = base;
	c->first_sample = c->last_freed = c->last_old = c->blocks;
}

/* Makes room for the chunk's blocks. */
static void grow_blocks(struct mayfly_cursor *c)
{
	size_t want = c->blocks + c->allocs, size = c->block_size + c->block_size / 2;
	uint64_t bytes;
	struct block *bigger;

	if (c->d.error || want <= c->block_size)
		return;
	if (size < want)
		size = want;
	bytes = (uint64_t)(size - c->block_size) * sizeof(*bigger);
	if (bytes > c->d.budget) {
		fail(&c->d, MAYFLY_E_TOO_LARGE);
		return;
	}
	bigger = realloc(c->block, size * sizeof(*bigger));
	if (!bigger) {
		fail(&c->d, MAYFLY_E_MEMORY);
		return;
	}
	c->d.budget -= bytes;
	c->block = bigger;
	c->block_size = size;
}

/* Begins with the next chunk. */
static int load_chunk(struct mayfly_cursor *c)
{
	const struct mayfly_trace *t = c->t;
	struct chunk_header h;

	end_chunk(&c->chunk);
	c->event = c->alloc = c->run = c->node = c->new_size = c->freed = c->old = 0;
	c->events = c->allocs = 0;
	c->run_left = c->live_count = 0;
	if (read_chunk_header(t, t->chunk[c->next_chunk].offset, &h))
		return wrong(c);
	c->next_chunk++;
	if (!begin_chunk(&c->chunk, &c->d, &h))
		return c->d.error;
	read_event_head(c);
	if (!c->d.error && read_columns(&c->chunk, 0xaaaaaaaa)) {
		read_event_columns(c);
		grow_blocks(c);
	}
	if (!c->d.error && c->runs)
		c->run_left = c->kind[0];
	return c->d.error;
}

static void live_add(struct mayfly_cursor *c, size_t index, uint32_t change)
{
	for (size_t i = index + 1; i <= c->allocs; i += i & -i)
		c->live[i] += change;
	c->live_count += change;
}

/* The index of the live block of this number, counted from 1 at the oldest. */
static size_t live_find(const struct mayfly_cursor *c, uint32_t number)
{
	size_t at = 0, step = 1;

	while (step * 2 <= c->allocs)
		step *= 2;
	for (; step; step /= 2)
		if (at + step <= c->allocs && c->live[at + step] < number) {
			at += step;
			number -= c->live[at];
		}
	return at;
}

static int next_node(struct mayfly_cursor *c, uint64_t site, uint32_t *node)
{
	const struct mayfly_trace *t = c->t;
	uint64_t number;

	if (site == 1) {
		if (c->node == c->nodes)
			return wrong(c);
		number = c->node_number[c->node++];
		if (number >= t->info.nodes)
			return wrong(c);
		*node = (uint32_t)number;
		return 0;
	}
	if (site == 0 ? c->next_chain >= t->chains : site - 2 >= c->next_chain)
		return wrong(c);
	*node = t->chain_end[site ? c->next_chain - 1 - (site - 2) : c->next_chain];
	c->next_chain += site == 0;
	return 0;
}

static int next_size(struct mayfly_cursor *c, uint32_t node, uint64_t code, uint64_t *size)
{
	size_t frame = node ? c->t->node[node].frame : c->t->info.frames;
	struct recent_sizes *recent = &c->recent[frame];
	uint64_t last;

	if (recent->chunk != c->next_chunk) {
		recent->chunk = (uint32_t)c->next_chunk;
		recent->last = recent->before = 0;
	}
	if (code > 2 || (code == 2 && c->new_size == c->new_sizes))
		return wrong(c);
	last = recent->last;
	*size = code == 0 ? last : code == 1 ? recent->before : c->sizes[c->new_size++];
	if (code) {
		recent->before = last;
		recent->last = *size;
	}
	return 0;
}

static int step_alloc(struct mayfly_cursor *c, size_t *index)
{
	size_t i = c->alloc++;
	struct block *b;
	int64_t hits;

	if (i == c->allocs || c->thread[i] >= c->t->info.threads ||
	    c->interval[i] > TRACE_MAX_INTERVAL || c->flags[i] > UINT8_MAX)
		return wrong(c);
	b = &c->block[c->blocks];
	if (next_node(c, c->site[i], &b->node) || next_size(c, b->node, c->size[i], &b->size))
		return c->d.error;
	b->interval_log2 = (uint8_t)c->interval[i];
	hits = unzigzag(c->hits[i]);
	if (hits < -1 || hits > UINT32_MAX)
		return wrong(c);
	hits += b->size >= (uint64_t)1 << b->interval_log2 ? 0 : 1;
	if (hits < 0 || hits > UINT32_MAX)
		return wrong(c);
	b->hits = (uint32_t)hits;
	b->thread = (uint32_t)c->thread[i];
	b->flags = (uint8_t)c->flags[i];
	b->time_ns = c->last_ns;
	b->freed = false;
	if (c->way == FREE_RANK)
		live_add(c, i, 1);
	*index = c->blocks++;
	return 0;
}

/* Which block is freed, before it is checked whether that may be. */
static uint64_t freed_block(struct mayfly_cursor *c, uint64_t place)
{
	size_t local;

	switch (c->way) {
	case FREE_BACK:
		return c->blocks - 1 - place;
	case FREE_STEP:
		c->last_freed += (size_t)unzigzag(place);
		return c->last_freed;
	default:
		break;
	}
	if (place == 0) {
		if (c->old == c->olds)
			return UINT64_MAX;
		c->last_old += (size_t)unzigzag(c->old_place[c->old++]);
		/* Blocks of this chunk are named by rank, or the tree would be wrong. */
		return c->last_old < c->first_sample ? c->last_old : UINT64_MAX;
	}
	if (place > c->live_count)
		return UINT64_MAX;
	local = live_find(c, (uint32_t)(c->live_count - (place - 1)));
	live_add(c, local, (uint32_t)-1);
	return c->first_sample + local;
}

static int step_free(struct mayfly_cursor *c, size_t *index, uint32_t *thread, uint32_t *flags)
{
	size_t i = c->freed++;
	uint64_t number;
	struct block *b;

	if (i == c->events - c->allocs || c->free_flags[i] > UINT8_MAX)
		return wrong(c);
	number = freed_block(c, c->free_place[i]);
	if (number >= c->blocks || c->block[number].freed)
		return wrong(c);
	b = &c->block[number];
	b->freed = true;
	if (c->free_thread[i] > c->t->info.threads)
		return wrong(c);
	*thread = c->free_thread[i] ? (uint32_t)c->free_thread[i] - 1 : b->thread;
	*flags = (uint32_t)c->free_flags[i];
	*index = (size_t)number;
	return 0;
}

static int step_time(struct mayfly_cursor *c)
{
	int64_t ns;

	if (c->time[c->event] > INT64_MAX ||
	    __builtin_add_overflow(c->now, (int64_t)c->time[c->event], &c->now))
		return wrong(c);
	ns = to_ns(&c->d, c->now, c->unit);
	if (ns < c->last_ns)
		return wrong(c);
	c->last_ns = ns;
	c->event++;
	return c->d.error;
}

/* One event of the chunk at hand; the rest of *event is filled by fill(). */
static int step(struct mayfly_cursor *c, struct mayfly_event *event)
{
	size_t index = 0;
	int error = step_time(c);

	while (!error && !c->run_left) {
		if (c->run + 1 >= c->runs)
			return wrong(c);
		c->run_left = c->kind[++c->run];
	}
	if (error)
		return error;
	c->run_left--;
	event->kind = c->run % 2 ? MAYFLY_FREE : MAYFLY_ALLOC;
	if (event->kind == MAYFLY_ALLOC) {
		error = step_alloc(c, &index);
		if (error)
			return error;
		event->thread = c->block[index].thread;
		event->flags = c->block[index].flags;
	} else {
		error = step_free(c, &index, &event->thread, &event->flags);
	}
	event->sample = index;
	event->time_ns = c->last_ns;
	return error;
}

static void fill(const struct mayfly_cursor *c, struct mayfly_event *event)
{
	const struct block *b = &c->block[event->sample];

	event->node = b->node;
	event->alloc_thread = b->thread;
	event->size = b->size;
	event->hits = b->hits;
	event->interval = (uint64_t)1 << b->interval_log2;
	event->alloc_time_ns = b->time_ns;
	sample_weight((enum mayfly_sampler)c->t->info.sampler, event->interval, b->size, b->hits,
		      &event->weight_bytes, &event->weight_blocks);
}

/* The columns must have been used up. */
static int finish_chunk(struct mayfly_cursor *c)
{
	if (c->alloc != c->allocs || c->node != c->nodes || c->new_size != c->new_sizes ||
	    (c->way == FREE_RANK && c->old != c->olds) || c->run_left ||
	    (c->runs && c->run + 1 != c->runs))
		return wrong(c);
	return 0;
}

int mayfly_cursor_open(const struct mayfly_trace *trace, struct mayfly_cursor **cursor)
{
	struct mayfly_cursor *c = calloc(1, sizeof(*c));

	*cursor = NULL;
	if (!c)
		return MAYFLY_E_MEMORY;
	c->t = trace;
	c->chunk.d = &c->d;
	c->last_ns = INT64_MIN;
	c->d.budget = BUDGET_BASE + BUDGET_TIMES * (uint64_t)trace->size;
	c->d.compress = compress_new(0);
	c->recent = take(&c->d, trace->info.frames, sizeof(*c->recent));
	if (!c->d.compress || !c->recent) {
		mayfly_cursor_close(c);
		return MAYFLY_E_MEMORY;
	}
	*cursor = c;
	return 0;
}

int mayfly_cursor_next(struct mayfly_cursor *c, struct mayfly_event *event)
{
	if (c->d.error)
		return c->d.error;
	while (c->event == c->events) {
		if (c->next_chunk == c->t->chunks)
			return 0;
		if (load_chunk(c))
			return c->d.error;
	}
	if (step(c, event))
		return c->d.error;
	fill(c, event);
	return 1;
}

void mayfly_cursor_close(struct mayfly_cursor *c)
{
	if (!c)
		return;
	end_chunk(&c->chunk);
	compress_free(c->d.compress);
	free(c->block);
	free(c->recent);
	free(c);
}

/* ---- opening ---- */

/* Goes through all events, counts them, and cuts the trace off before the first unsound chunk. */
static void check_events(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct mayfly_cursor *c;
	int error = mayfly_cursor_open(t, &c);

	for (size_t i = 0; !error && i < t->chunks; i++) {
		uint64_t frees = 0, inherited = 0;
		struct mayfly_event event = {0};

		error = load_chunk(c);
		while (!error && c->event < c->events) {
			error = step(c, &event);
			frees += event.kind == MAYFLY_FREE;
			inherited +=
			    event.kind == MAYFLY_ALLOC && event.flags & MAYFLY_FLAG_INHERITED;
		}
		if (!error)
			error = finish_chunk(c);
		if (error) {
			if (error == MAYFLY_E_DAMAGED && i) {
				o->damaged = true;
				error = 0;
			}
			t->chunks = i;
			break;
		}
		t->info.samples = c->blocks;
		t->info.frees += frees;
		t->info.inherited += inherited;
		if (c->last_ns > t->info.duration_ns)
			t->info.duration_ns = c->last_ns;
	}
	if (error)
		fail(&o->d, error);
	mayfly_cursor_close(c);
}

/* Each table comes once and after those that it refers to. */
static bool expect(struct opening *o, bool *seen, bool needed)
{
	if (*seen || !needed)
		damaged(o);
	*seen = true;
	return !o->d.error;
}

static void note_events(struct opening *o, size_t offset)
{
	struct mayfly_trace *t = o->t;
	size_t want = t->chunk_size * 2 + 16;
	struct event_chunk *bigger;

	if (!o->seen_tree) {
		damaged(o);
		return;
	}
	if (t->chunks == t->chunk_size) {
		bigger = realloc(t->chunk, want * sizeof(*bigger));
		if (!bigger) {
			fail(&o->d, MAYFLY_E_MEMORY);
			return;
		}
		t->chunk = bigger;
		t->chunk_size = want;
	}
	t->chunk[t->chunks++].offset = offset;
}

/* The trailer after the index: offset of the index, its CRC-32, zero, magic. */
static bool check_trailer(const struct mayfly_trace *t, size_t index, size_t end)
{
	struct varint_in in = varint_begin(t->data + end, t->size - end);
	uint64_t offset = varint_fixed(&in, 8);
	uint32_t crc = (uint32_t)varint_fixed(&in, 4);

	varint_fixed(&in, 4);
	return t->size - end == TRACE_TRAILER_BYTES && offset == index &&
	       crc == trace_checksum(0, t->data + end, 8) && memcmp(in.at, TRACE_END_MAGIC, 8) == 0;
}

static void read_table(struct opening *o, const struct chunk_header *h)
{
	switch (h->type) {
	case TRACE_INFO:
		if (expect(o, &o->seen_info, true))
			read_info(o);
		break;
	case TRACE_STRINGS:
		if (expect(o, &o->seen_strings, o->seen_info))
			read_strings(o);
		break;
	case TRACE_MODULES:
		if (expect(o, &o->seen_modules, o->seen_strings))
			read_modules(o);
		break;
	case TRACE_THREADS:
		if (expect(o, &o->seen_threads, o->seen_modules))
			read_threads(o);
		break;
	case TRACE_FRAMES:
		if (expect(o, &o->seen_frames, o->seen_threads))
			read_frames(o);
		break;
	case TRACE_TREE:
		if (expect(o, &o->seen_tree, o->seen_frames))
			read_tree(o);
		break;
	default:
		if (TRACE_ESSENTIAL(h->type))
			fail(&o->d, MAYFLY_E_VERSION);
	}
}

static void read_chunks(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	size_t at = TRACE_HEADER_BYTES;
	struct chunk_header h;

	while (!o->d.error) {
		size_t next;

		o->stopped = read_chunk_header(t, at, &h);
		if (o->stopped)
			break;
		next = at + TRACE_CHUNK_BYTES + h.stored;

		if (h.type == TRACE_EVENTS) {
			note_events(o, at);
		} else if (h.type == TRACE_INDEX) {
			o->finished = check_trailer(t, at, next);
			break;
		} else {
			if (begin_chunk(&o->chunk, &o->d, &h))
				read_table(o, &h);
			end_chunk(&o->chunk);
		}
		at = next;
	}
}

static int check_header(const uint8_t *data, size_t size)
{
	struct varint_in in = varint_begin(data, size);
	uint32_t version, bytes, features;

	if (size < 8 || memcmp(data, TRACE_MAGIC, 8))
		return MAYFLY_E_NOT_A_TRACE;
	if (size < TRACE_HEADER_BYTES)
		return MAYFLY_E_EMPTY;
	varint_fixed(&in, 8);
	version = (uint32_t)varint_fixed(&in, 4);
	bytes = (uint32_t)varint_fixed(&in, 4);
	features = (uint32_t)varint_fixed(&in, 4);
	if ((uint32_t)varint_fixed(&in, 4) != trace_checksum(0, data, 20))
		return MAYFLY_E_DAMAGED;
	if (version != TRACE_VERSION || bytes != TRACE_HEADER_BYTES ||
	    features & ~TRACE_FEATURES_KNOWN)
		return MAYFLY_E_VERSION;
	return 0;
}

/* The whole file went, or the first part of it. */
static int open_trace(struct opening *o)
{
	struct mayfly_info *info = &o->t->info;
	int error = check_header(o->t->data, o->t->size);

	if (error)
		return error;
	info->format_version = TRACE_VERSION;
	info->file_bytes = o->t->size;
	info->program = info->version = info->off_text = info->note = "";
	o->next_string = 1;
	o->d.budget = BUDGET_BASE + BUDGET_TIMES * (uint64_t)o->t->size;
	o->d.compress = compress_new(0);
	if (!o->d.compress)
		return MAYFLY_E_MEMORY;
	read_chunks(o);
	if (o->d.error)
		return o->d.error;
	if (!o->seen_tree || (!o->t->chunks && !o->finished))
		return o->stopped ? o->stopped : MAYFLY_E_DAMAGED;
	if (info->duration_ns < 0 || info->duration_ns > LATEST_NS)
		return MAYFLY_E_DAMAGED;
	check_events(o);
	info->complete = o->finished && o->info_complete && !o->damaged;
	return o->d.error;
}

static int open_bytes(const void *data, size_t size, struct mayfly_trace **trace)
{
	struct opening *o = calloc(1, sizeof(*o));
	struct mayfly_trace *t = calloc(1, sizeof(*t));
	int error = MAYFLY_E_MEMORY;

	*trace = NULL;
	if (o && t) {
		t->data = data;
		t->size = size;
		o->t = t;
		error = open_trace(o);
		compress_free(o->d.compress);
	}
	free(o);
	if (error)
		mayfly_trace_close(t);
	else
		*trace = t;
	return error;
}

/* A spool becomes a trace in memory; without symbols, as this library reads no files. */
static int open_spool(const void *data, size_t size, struct mayfly_trace **trace)
{
	struct recording *r;
	uint8_t *bytes = NULL;
	size_t length = 0;
	int error = spool_read(data, size, NULL, NULL, &r);

	if (error)
		return error;
	r->info.spool = true;
	error = trace_encode(r, 1, &bytes, &length);
	recording_free(r);
	if (!error)
		error = open_bytes(bytes, length, trace);
	if (error) {
		free(bytes);
		return error;
	}
	(*trace)->owned = bytes;
	(*trace)->info.file_bytes = size;
	return 0;
}

int mayfly_trace_open(const void *data, size_t size, struct mayfly_trace **trace)
{
	*trace = NULL;
	if (spool_recognise(data, size))
		return open_spool(data, size, trace);
	return open_bytes(data, size, trace);
}

void mayfly_trace_close(struct mayfly_trace *t)
{
	if (!t)
		return;
	free(t->owned);
	free(t->text);
	free(t->string);
	free(t->info_text);
	free(t->command);
	free(t->module);
	free(t->build_ids);
	free(t->thread);
	free(t->frame);
	free(t->location);
	free(t->node);
	free(t->chain_end);
	free(t->chunk);
	free(t);
}

/* ---- tables ---- */

const struct mayfly_info *mayfly_trace_info(const struct mayfly_trace *trace)
{
	return &trace->info;
}

const struct mayfly_module *mayfly_trace_module(const struct mayfly_trace *trace, size_t index)
{
	return index < trace->info.modules ? &trace->module[index] : NULL;
}

const struct mayfly_thread *mayfly_trace_thread(const struct mayfly_trace *trace, size_t index)
{
	return index < trace->info.threads ? &trace->thread[index] : NULL;
}

const struct mayfly_frame *mayfly_trace_frame(const struct mayfly_trace *trace, size_t index)
{
	return index < trace->info.frames ? &trace->frame[index] : NULL;
}

struct mayfly_node mayfly_trace_node(const struct mayfly_trace *trace, size_t index)
{
	return index < trace->info.nodes ? trace->node[index] : (struct mayfly_node){0};
}
