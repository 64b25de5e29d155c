/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memtrace's coding of a sequence of events and mayfly's, side by side.
 *
 *	bench_codec FILE ROUNDS		(a Memtrace file or a trace; prints JSON)
 *
 * The events of FILE are kept in memory, without promotions. Each round codes them both ways and
 * reads back both. What the bytes are for is found by walking through what was written.
 *
 * Then, for the two places where mayfly predicts (which frame follows a frame in a new stack, which
 * known stack comes next), how many bits several rules would need: see "models" below.
 */
#include "convert/export/memtrace_write.h"
#include "convert/import/memtrace_read.h"
#include "convert/memtrace_format.h"
#include "format/columns.h"
#include "format/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STACKS, TIMES, IDS, LOCATIONS, SIZES, REST, PARTS };
static const char *const part_names[] = {"stacks", "times", "ids", "locations", "sizes", "rest"};

struct event {
	bool free;
	int64_t time_us;
	size_t block; /* number */
	int64_t length, samples;
	enum memtrace_source source;
	size_t stack, depth; /* in codes */
};

static struct {
	struct memtrace_reader *reader; /* knows what codes mean */
	struct memtrace_info info;
	struct event *event;
	size_t events, blocks, events_size;
	int64_t *code;
	size_t codes, codes_size;
	unsigned interval_log2;
} input;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_codec: %s\n", what);
	exit(1);
}

static void *more(void *array, size_t used, size_t add, size_t *size, size_t item)
{
	if (used + add <= *size)
		return array;
	*size = (used + add) * 2;
	array = reallocarray(array, *size, item);
	if (!array)
		die("out of memory");
	return array;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the events ---- */

static struct trace_buffer read_file(const char *path)
{
	struct trace_buffer b = {0};
	FILE *f = fopen(path, "rb");
	char piece[65536];
	size_t got;

	if (!f)
		die("cannot open the file");
	while ((got = fread(piece, 1, sizeof(piece), f)) > 0)
		if (trace_buffer_sink(&b, piece, got))
			die("out of memory");
	fclose(f);
	return b;
}

static struct trace_buffer to_memtrace(struct trace_buffer from)
{
	struct trace_buffer to = {0};
	struct mayfly_trace *trace;

	if (memtrace_recognise(from.bytes, from.used))
		return from;
	if (mayfly_trace_open(from.bytes, from.used, &trace))
		die("neither a trace nor a Memtrace file");
	if (memtrace_from_trace(trace, "", 0, trace_buffer_sink, &to))
		die("cannot be converted");
	mayfly_trace_close(trace);
	free(from.bytes);
	return to;
}

/* Which block of the input an id is, + 1. */
static size_t *by_id;
static size_t ids;

static void keep(const struct memtrace_event *e)
{
	struct event *to;
	size_t size = ids;

	if (e->kind == MEMTRACE_PROMOTE || e->id < 0 || (size_t)e->id > 1u << 28)
		return;
	if (e->kind == MEMTRACE_COLLECT && ((size_t)e->id >= ids || !by_id[e->id]))
		return;
	input.event = more(input.event, input.events, 1, &input.events_size, sizeof(*to));
	to = &input.event[input.events++];
	*to = (struct event){.free = e->kind == MEMTRACE_COLLECT, .time_us = e->time_us};
	if (to->free) {
		to->block = by_id[e->id] - 1;
		by_id[e->id] = 0; /* a second free of it is none */
		return;
	}
	by_id = more(by_id, (size_t)e->id, 1, &ids, sizeof(*by_id));
	if (ids > size)
		memset(by_id + size, 0, (ids - size) * sizeof(*by_id));
	to->block = input.blocks++;
	by_id[e->id] = input.blocks;
	to->length = e->length;
	to->samples = e->samples;
	to->source = e->source;
	to->stack = input.codes;
	to->depth = e->depth;
	input.code = more(input.code, input.codes, e->depth, &input.codes_size, sizeof(int64_t));
	memcpy(input.code + input.codes, e->stack, e->depth * sizeof(int64_t));
	input.codes += e->depth;
}

static void load(struct trace_buffer b)
{
	struct memtrace_event e;

	if (memtrace_open(b.bytes, b.used, &input.reader))
		die("not a Memtrace file that can be read");
	input.info = *memtrace_info(input.reader);
	while (memtrace_next(input.reader, &e) == 1)
		keep(&e);
	if (!input.blocks)
		die("no blocks");
	input.interval_log2 =
	    input.info.sample_rate >= 1 ? 0 : (unsigned)lrint(log2(8 / input.info.sample_rate));
}

/* ---- Memtrace's way ---- */

static const struct memtrace_location *locate(void *reader, int64_t code, size_t *count)
{
	return memtrace_locate(reader, code, count);
}

static int write_memtrace(struct trace_buffer *to)
{
	struct memtrace_writer *w;
	int64_t id;
	int error =
	    memtrace_writer_new(&input.info, locate, input.reader, trace_buffer_sink, to, &w);

	for (size_t i = 0; i < input.events && !error; i++) {
		const struct event *e = &input.event[i];

		if (e->free)
			error = memtrace_writer_collect(w, e->time_us, (int64_t)e->block);
		else
			error =
			    memtrace_writer_alloc(w, e->time_us, e->length, e->samples, e->source,
						  input.code + e->stack, e->depth, &id);
	}
	if (!error)
		error = memtrace_writer_finish(w);
	memtrace_writer_free(w);
	return error;
}

static int read_memtrace(const struct trace_buffer *b)
{
	struct memtrace_reader *r;
	struct memtrace_event e;
	int error = memtrace_open(b->bytes, b->used, &r);

	while (!error && (error = memtrace_next(r, &e)) == 1)
		error = 0;
	memtrace_close(r);
	return error;
}

static uint64_t number(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return value;
}

static size_t vint_bytes(const uint8_t *at)
{
	return *at < VINT_16 ? 1 : *at == VINT_16 ? 3 : *at == VINT_32 ? 5 : 9;
}

/* The bytes of the codewords at `at`. */
static size_t codeword_bytes(const uint8_t *at, uint64_t count)
{
	static const uint8_t sizes[] = {2, 2, 3, 10};
	size_t bytes = 0;

	while (count--)
		bytes += sizes[at[bytes] & 3];
	return bytes;
}

/* Adds up one event of an event packet; returns its size. */
static size_t add_memtrace_event(const uint8_t *at, double *part)
{
	unsigned code = (unsigned)(number(at, 4) >> TIME_BITS);
	const uint8_t *p = at + 4;
	size_t bytes;

	part[TIMES] += 4;
	if (code == EVENT_COLLECT || code == EVENT_PROMOTE) {
		part[IDS] += (double)vint_bytes(p);
		return 4 + vint_bytes(p);
	}
	if (code == EVENT_ALLOC) {
		p += vint_bytes(p); /* length */
		p += vint_bytes(p); /* samples */
		p++;		    /* source */
		part[SIZES] += (double)(p - at - 4);
	}
	bytes = vint_bytes(p);
	if (code == EVENT_ALLOC)
		bytes += 2 + codeword_bytes(p + bytes + 2, number(p + bytes, 2));
	else
		bytes += 1 + codeword_bytes(p + bytes + 1, p[bytes]);
	part[STACKS] += (double)bytes;
	return (size_t)(p - at) + bytes;
}

static void split_memtrace(const struct trace_buffer *b, double *part)
{
	for (size_t at = 0; at < b->used;) {
		size_t size = number(b->bytes + at + 4, 4) / 8, in = at + HEADER_BYTES;
		unsigned first =
		    size > HEADER_BYTES ? (unsigned)(number(b->bytes + in, 4) >> TIME_BITS) : 0;

		if (first == EVENT_LOCATION) {
			part[LOCATIONS] += (double)size;
		} else if (!at) {
			part[REST] += (double)size;
		} else {
			part[REST] += HEADER_BYTES;
			while (in < at + size)
				in += add_memtrace_event(b->bytes + in, part);
		}
		at += size;
	}
}

/* ---- mayfly's way ---- */

struct coder {
	struct recording *tables;
	struct trace_writer *writer;
	struct trace_block *block;
	uint64_t *serial;
	uint32_t *path; /* nodes of the last stack */
	size_t path_size;
	const struct event *last;
};

static uint32_t find_node(struct coder *c, const struct event *e)
{
	const int64_t *code = input.code + e->stack;
	const int64_t *before = c->last ? input.code + c->last->stack : NULL;
	size_t at = 0;

	while (c->last && at < e->depth && at < c->last->depth && code[at] == before[at])
		at++;
	c->path = more(c->path, e->depth, 1, &c->path_size, sizeof(*c->path));
	for (; at < e->depth; at++) {
		uint32_t frame = recording_frame(c->tables, MAYFLY_FRAME_CODE, RECORDING_NONE,
						 (uint64_t)code[at] << 1);

		c->path[at] = recording_node(c->tables, at ? c->path[at - 1] : 0, frame);
	}
	c->last = e;
	return e->depth ? c->path[e->depth - 1] : 0;
}

static int code_event(struct coder *c, const struct event *e)
{
	struct trace_block *b = &c->block[e->block];

	if (e->free)
		return trace_writer_free(c->writer, e->time_us * 1000, c->serial[e->block], b, 0,
					 0);
	b->size = (uint64_t)e->length * 8;
	b->node = find_node(c, e);
	b->hits = input.interval_log2 ? (uint32_t)e->samples : 0;
	b->interval_log2 = (uint8_t)input.interval_log2;
	return trace_writer_alloc(c->writer, e->time_us * 1000, b, &c->serial[e->block]);
}

static void add_names(struct recording *t)
{
	for (size_t i = 0; i < t->frames; i++) {
		struct recording_frame *f = &t->frame[i];
		const struct memtrace_location *l;
		size_t count;

		l = memtrace_locate(input.reader, (int64_t)f->address >> 1, &count);
		for (size_t k = count; k-- > 0;) {
			struct recording_location place = {
			    .function = recording_string(t, l[k].function, strlen(l[k].function)),
			    .file = recording_string(t, l[k].file, strlen(l[k].file)),
			    .line = l[k].line,
			    .inlined = k > 0};

			f->first_location =
			    recording_location(t, &place) - (uint32_t)(count - 1 - k);
		}
		f->locations = (uint32_t)count;
	}
}

static int write_mayfly(struct trace_buffer *to)
{
	struct trace_writer_options options = {
	    .mode = input.interval_log2 ? MAYFLY_SAMPLED : MAYFLY_EXACT,
	    .sampler = MAYFLY_POISSON,
	    .interval_log2 = input.interval_log2,
	};
	struct coder c = {.tables = recording_new()};
	int error = 0;

	c.writer = trace_writer_new(&options, c.tables, trace_buffer_sink, to);
	c.block = calloc(input.blocks, sizeof(*c.block));
	c.serial = calloc(input.blocks, sizeof(*c.serial));
	if (!c.tables || !c.writer || !c.block || !c.serial)
		die("out of memory");
	recording_thread(c.tables, 1, 0);
	for (size_t i = 0; i < input.events && !error; i++)
		error = code_event(&c, &input.event[i]);
	if (!error) {
		add_names(c.tables);
		error = trace_writer_finish(c.writer);
	}
	trace_writer_free_all(c.writer);
	recording_free(c.tables);
	free(c.block);
	free(c.serial);
	free(c.path);
	return error;
}

static int read_mayfly(const struct trace_buffer *b)
{
	struct mayfly_cursor *cursor;
	struct mayfly_trace *trace;
	struct mayfly_event e;
	int error = mayfly_trace_open(b->bytes, b->used, &trace);

	if (error)
		return error;
	error = mayfly_cursor_open(trace, &cursor);
	while (!error && (error = mayfly_cursor_next(cursor, &e)) == 1)
		error = 0;
	mayfly_cursor_close(cursor);
	mayfly_trace_close(trace);
	return error;
}

static unsigned part_of_column(unsigned id)
{
	switch (id) {
	case COLUMN_ALLOC_SITE:
	case COLUMN_ALLOC_NODE:
	case COLUMN_PAIR_SITE:
	case COLUMN_ALLOC_ID:
	case COLUMN_ALLOC_PAIR:
		return STACKS;
	case COLUMN_EVENT_TIME:
	case COLUMN_TIME_EVENTS:
	case COLUMN_TIME_STEP:
		return TIMES;
	case COLUMN_ALLOC_SIZE:
	case COLUMN_ALLOC_NEW_SIZE:
	case COLUMN_PAIR_SIZE:
	case COLUMN_ALLOC_HITS:
	case COLUMN_ALLOC_INTERVAL:
		return SIZES;
	default:
		return IDS; /* which event is a free, of which block */
	}
}

#define EVENT_HEAD 16 /* numbers before the columns of EVNT */

/* Columns of a chunk, scaled to what is left of them when the chunk is compressed as a whole. */
static void split_events(struct chunk_reader *r, const struct chunk_header *h, double *part,
			 double *sites)
{
	double scale, columns = 0;

	for (unsigned i = 0; i < EVENT_HEAD; i++)
		varint_u(&r->head);
	if (!chunk_columns(r, ~UINT64_C(0)))
		die("columns of EVNT");
	scale = h->plain ? (double)h->stored / h->plain : 1;
	for (unsigned id = 0; id < COLUMNS_MOST; id++)
		if (r->column[id].present) {
			double bytes = (double)varint_left(&r->column[id].in) * scale;

			part[part_of_column(id)] += bytes;
			*sites += part_of_column(id) == STACKS ? bytes : 0;
			columns += bytes;
		}
	part[REST] += h->stored - columns;
}

static void split_mayfly(const struct trace_buffer *b, double *part, double *tree, double *sites)
{
	struct compress *compress = compress_new(1);
	uint64_t budget = UINT64_C(1) << 32;
	size_t at = TRACE_HEADER_BYTES, end = b->used - TRACE_TRAILER_BYTES;
	struct chunk_header h;

	part[REST] += TRACE_HEADER_BYTES + TRACE_TRAILER_BYTES;
	for (; at < end; at += TRACE_CHUNK_BYTES + h.stored) {
		struct chunk_reader r = {.compress = compress, .budget = &budget};

		if (chunk_find(b->bytes + at, end - at, true, &h) || !chunk_begin(&r, &h))
			die("the trace");
		part[REST] += TRACE_CHUNK_BYTES;
		if (h.type == TRACE_EVENTS)
			split_events(&r, &h, part, sites);
		else if (h.type == TRACE_TREE || h.type == TRACE_FRAMES)
			part[STACKS] += h.stored;
		else if (h.type == TRACE_STRINGS || h.type == TRACE_NAMES)
			part[LOCATIONS] += h.stored;
		else
			part[REST] += h.stored;
		*tree += h.type == TRACE_TREE ? h.stored : 0;
		chunk_end(&r);
	}
	compress_free(compress);
}

/* ---- models ----
 *
 * A model looks up its context (what came before) and has a list of symbols for it; the place of
 * the symbol that comes is what would be coded. The bits are the entropy of the places, as an
 * adaptive arithmetic coder comes close to it, and for a symbol that is in no list, the logarithm
 * of how many there are. A symbol that never came before costs only the bits that say so.
 */

#define PLACES	64
#define ABSENT	PLACES /* in no list */
#define NEW	(PLACES + 1)
#define CLASSES (PLACES + 2)

struct context {
	uint64_t key;
	uint32_t symbol[PLACES]; /* + 1 */
	bool strong;		 /* the first one was right last time, or before one error */
};

enum { LAST, SEVERAL, STRONG, LONGER, MODELS };
static const char *const model_names[] = {"last", "several", "strong", "longer"};

struct model {
	unsigned kind;
	struct context *context; /* hash table */
	size_t size, used;
	double count[2][CLASSES]; /* how often each place came; [1]: in the longer context */
	double escapes;		  /* bits */
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (x ^ x >> 31) | 1; /* 0: a free place */
}

static struct context *find_context(struct model *m, uint64_t key);

static void enlarge(struct model *m)
{
	struct model bigger = {.size = m->size ? m->size * 2 : 1024};

	bigger.context = calloc(bigger.size, sizeof(*bigger.context));
	if (!bigger.context)
		die("out of memory");
	for (size_t i = 0; i < m->size; i++)
		if (m->context[i].key)
			*find_context(&bigger, m->context[i].key) = m->context[i];
	free(m->context);
	m->context = bigger.context;
	m->size = bigger.size;
	m->used = bigger.used;
}

static struct context *find_context(struct model *m, uint64_t key)
{
	size_t at;

	if (m->used * 2 >= m->size)
		enlarge(m);
	at = key & (m->size - 1);
	while (m->context[at].key && m->context[at].key != key)
		at = (at + 1) & (m->size - 1);
	m->used += !m->context[at].key;
	m->context[at].key = key;
	return &m->context[at];
}

/* The place of a symbol, ABSENT when it has none; brings the list up to date. */
static unsigned look_up(struct context *c, uint32_t symbol, unsigned kind)
{
	unsigned most = kind == LAST ? 1 : PLACES, place = 0, to = 0;

	while (place < most && c->symbol[place] != symbol + 1)
		place++;
	if (kind == STRONG && place && c->strong && c->symbol[0]) {
		c->strong = false; /* the first one stays for now */
		to = 1;
	} else {
		c->strong = !place;
	}
	if (place || !c->symbol[0]) {
		unsigned from = place < most ? place : most - 1;

		if (from > to)
			memmove(c->symbol + to + 1, c->symbol + to, (from - to) * sizeof(uint32_t));
		c->symbol[to] = symbol + 1;
	}
	return place < most ? place : ABSENT;
}

static void add_symbol(struct model *m, uint64_t near, uint64_t far, uint32_t symbol,
		       size_t symbols, bool known)
{
	unsigned place, longer;

	if (m->kind == LONGER) {
		longer = look_up(find_context(m, mix(near * 0x9e3779b97f4a7c15u + far + 2)), symbol,
				 SEVERAL);
		m->count[1][longer]++;
		place = look_up(find_context(m, mix(near * 2 + 1)), symbol, SEVERAL);
		if (longer != ABSENT)
			return;
	} else {
		place = look_up(find_context(m, mix(near * 2 + 1)), symbol, m->kind);
	}
	m->count[0][known ? place : NEW]++;
	if (place == ABSENT && known)
		m->escapes += log2((double)symbols);
}

static double entropy(const double *count)
{
	double all = 0, bits = 0;

	for (unsigned i = 0; i < CLASSES; i++)
		all += count[i];
	for (unsigned i = 0; i < CLASSES; i++)
		if (count[i] > 0)
			bits -= count[i] * log2(count[i] / all);
	return bits;
}

static double model_bytes(const struct model *m)
{
	return (entropy(m->count[0]) + entropy(m->count[1]) + m->escapes) / 8;
}

/* Which frame follows a frame, in each new node. */
static void model_frames(const struct mayfly_trace *trace, struct model *m)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	bool *known = calloc(info->frames + 1, sizeof(*known));
	size_t symbols = 0;

	if (!known)
		die("out of memory");
	for (size_t i = 1; i < info->nodes; i++) {
		struct mayfly_node n = mayfly_trace_node(trace, i);
		struct mayfly_node up = mayfly_trace_node(trace, n.parent);
		struct mayfly_node upper = mayfly_trace_node(trace, up.parent);

		add_symbol(m, n.parent ? up.frame + UINT64_C(1) : 0,
			   n.parent && up.parent ? upper.frame + UINT64_C(1) : 0, n.frame,
			   symbols + 1, known[n.frame]);
		symbols += !known[n.frame];
		known[n.frame] = true;
	}
	free(known);
}

/* Which stack comes after a stack, of those that came before. */
static void model_stacks(const struct mayfly_trace *trace, struct model *m)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	bool *known = calloc(info->nodes + 1, sizeof(*known));
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	uint32_t near = 0, far = 0;
	size_t symbols = 0;

	if (!known || mayfly_cursor_open(trace, &cursor))
		die("out of memory");
	while (mayfly_cursor_next(cursor, &e) == 1) {
		if (e.kind != MAYFLY_ALLOC)
			continue;
		add_symbol(m, near, far, e.node, symbols + 1, known[e.node]);
		symbols += !known[e.node];
		known[e.node] = true;
		far = near;
		near = e.node;
	}
	mayfly_cursor_close(cursor);
	free(known);
}

static void print_models(const struct mayfly_trace *trace, const char *name,
			 void (*run)(const struct mayfly_trace *, struct model *))
{
	printf(", \"%s\": {", name);
	for (unsigned kind = 0; kind < MODELS; kind++) {
		struct model m = {.kind = kind};

		run(trace, &m);
		printf("%s\"%s\": %.0f", kind ? ", " : "", model_names[kind], model_bytes(&m));
		free(m.context);
	}
	printf("}");
}

/* ---- results ---- */

struct coding {
	const char *name;
	int (*write)(struct trace_buffer *to);
	int (*read)(const struct trace_buffer *from);
	struct trace_buffer bytes;
	double write_s, read_s; /* the shortest */
};

static void measure(struct coding *c)
{
	double begin = seconds(), middle;

	c->bytes.used = 0;
	if (c->write(&c->bytes))
		die("writing failed");
	middle = seconds();
	if (c->read(&c->bytes))
		die("reading failed");
	c->read_s = fmin(c->read_s, seconds() - middle);
	c->write_s = fmin(c->write_s, middle - begin);
}

static void print_coding(const struct coding *c, const double *part)
{
	printf(", \"%s\": {\"bytes\": %zu, \"write_ns\": %.1f, \"read_ns\": %.1f, \"parts\": {",
	       c->name, c->bytes.used, c->write_s * 1e9 / (double)input.events,
	       c->read_s * 1e9 / (double)input.events);
	for (unsigned i = 0; i < PARTS; i++)
		printf("%s\"%s\": %.0f", i ? ", " : "", part_names[i], part[i]);
	printf("}}");
}

int main(int argc, char **argv)
{
	struct coding memtrace = {"memtrace", write_memtrace, read_memtrace, {0}, 1e9, 1e9};
	struct coding mayfly = {"mayfly", write_mayfly, read_mayfly, {0}, 1e9, 1e9};
	double memtrace_part[PARTS] = {0}, mayfly_part[PARTS] = {0};
	double tree = 0, sites = 0;
	struct trace_buffer file;
	struct mayfly_trace *trace;
	int rounds = argc > 2 ? atoi(argv[2]) : 1;

	if (argc < 2)
		die("which file?");
	file = to_memtrace(read_file(argv[1]));
	load(file);
	for (int i = 0; i < rounds; i++) {
		measure(&memtrace);
		measure(&mayfly);
	}
	split_memtrace(&memtrace.bytes, memtrace_part);
	split_mayfly(&mayfly.bytes, mayfly_part, &tree, &sites);
	if (mayfly_trace_open(mayfly.bytes.bytes, mayfly.bytes.used, &trace))
		die("reading failed");
	printf("{\"blocks\": %zu, \"events\": %zu, \"frames\": %zu, \"nodes\": %zu, "
	       "\"tree_bytes\": %.0f, \"site_bytes\": %.0f",
	       input.blocks, input.events, input.codes, mayfly_trace_info(trace)->nodes, tree,
	       sites);
	print_coding(&memtrace, memtrace_part);
	print_coding(&mayfly, mayfly_part);
	print_models(trace, "frame_models", model_frames);
	print_models(trace, "stack_models", model_stacks);
	printf("}\n");
	mayfly_trace_close(trace);
	memtrace_close(input.reader);
	free(by_id);
	free(input.event);
	free(input.code);
	free(memtrace.bytes.bytes);
	free(mayfly.bytes.bytes);
	free(file.bytes);
	return 0;
}
