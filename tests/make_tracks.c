/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_tracks KIND FILE: writes a trace with track events, blocks and labels, and prints what is in
 * it, a JSON object for each event in the order in which they happened: the oracle for readers and
 * exports.
 *
 *	sampled	 requests on two threads, with all kinds of events; spans that overlap, that never
 *		 end, that never began; names that formats take for something else
 *	exact	 the same, with exact blocks
 *	snapshots the same, with counters instead of blocks
 *	lossy	 the same, with events said to be lost
 *	plain	 only the requests, without anything odd
 *	deep	 5000 spans, each inside the one before
 *	labels	 blocks with more keys and values of labels than formats show
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/write/writer.h"

#define MS	      1000000ll
#define INTERVAL_LOG2 16u
#define REQUESTS      60

static struct recording *r;
static struct trace_writer *writer;
static bool exact, odd;
static int64_t now;
static uint32_t stack, other_stack;

/* ---- names ---- */

static uint32_t string(const char *text)
{
	return recording_string(r, text, strlen(text));
}

static void print_text(const char *text)
{
	putchar('"');
	for (; *text; text++)
		if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
			printf("\\u%04x", (unsigned)*text);
		else
			putchar(*text);
	putchar('"');
}

struct field {
	const char *name;
	uint32_t type; /* enum mayfly_field_type */
};

struct type {
	const char *name, *category, *unit;
	uint32_t kind; /* enum mayfly_type_kind */
	struct field field[RECORDING_FIELDS];
	uint32_t index;
};

enum {
	REQUEST,
	PARSE,
	QUERY,
	HANDOVER,
	TICK,
	QUEUE,
	LOAD,
	ARENA,
	MINOR,
	MMAP,
	STRANGE,
	STRANGE_COUNTER,
	LARGE_COUNTER,
	SWITCHES,
	TYPES,
};

static struct type types[TYPES] = {
    [REQUEST] = {.name = "request",
		 .kind = MAYFLY_TYPE_SPAN,
		 .field = {{"id", MAYFLY_FIELD_UINT},
			   {"url", MAYFLY_FIELD_TEXT},
			   {"flow", MAYFLY_FIELD_FLOW},
			   {"cost", MAYFLY_FIELD_FLOAT}}},
    [PARSE] = {.name = "parse", .kind = MAYFLY_TYPE_SPAN},
    [QUERY] = {.name = "query", .kind = MAYFLY_TYPE_SPAN, .field = {{"rows", MAYFLY_FIELD_INT}}},
    [HANDOVER] = {.name = "handover",
		  .kind = MAYFLY_TYPE_INSTANT,
		  .field = {{"flow", MAYFLY_FIELD_FLOW}}},
    [TICK] = {.name = "tick", .kind = MAYFLY_TYPE_INSTANT},
    [QUEUE] = {.name = "queue",
	       .kind = MAYFLY_TYPE_COUNTER,
	       .field = {{"length", MAYFLY_FIELD_INT}, {"of", MAYFLY_FIELD_TEXT}}},
    [LOAD] = {.name = "load",
	      .unit = "%",
	      .kind = MAYFLY_TYPE_COUNTER,
	      .field = {{"value", MAYFLY_FIELD_FLOAT}}},
    [ARENA] = {.name = "arena",
	       .unit = "bytes",
	       .kind = MAYFLY_TYPE_COUNTER,
	       .field = {{"value", MAYFLY_FIELD_UINT}}},
    [MINOR] = {.name = "minor", .category = "ocaml", .kind = MAYFLY_TYPE_SPAN},
    [MMAP] = {.name = "mmap",
	      .category = "memory",
	      .kind = MAYFLY_TYPE_INSTANT,
	      .field = {{"address", MAYFLY_FIELD_UINT}, {"size", MAYFLY_FIELD_UINT}}},
    [STRANGE] = {.name = "we\"ird\n{name} \\ \xc3\xbc",
		 .category = "a \"b\"",
		 .kind = MAYFLY_TYPE_INSTANT,
		 .field = {{"int", MAYFLY_FIELD_TEXT},
			   {"a b", MAYFLY_FIELD_INT},
			   {"a_b", MAYFLY_FIELD_INT},
			   {"stack", MAYFLY_FIELD_FLOAT}}},
    [STRANGE_COUNTER] = {.name = "\"",
			 .unit = "<&>",
			 .kind = MAYFLY_TYPE_COUNTER,
			 .field = {{"", MAYFLY_FIELD_FLOAT}}},
    [LARGE_COUNTER] = {.name = "large",
		       .kind = MAYFLY_TYPE_COUNTER,
		       .field = {{"value", MAYFLY_FIELD_UINT}}},
    [SWITCHES] = {.name = "switches",
		  .category = "thread",
		  .kind = MAYFLY_TYPE_COUNTER,
		  .field = {{"value", MAYFLY_FIELD_UINT}}},
};

static uint32_t fields_of(const struct type *t)
{
	uint32_t fields = 0;

	while (fields < RECORDING_FIELDS && t->field[fields].name)
		fields++;
	return fields;
}

static void add_types(void)
{
	for (size_t i = 0; i < TYPES; i++) {
		struct type *t = &types[i];
		struct recording_track_type type = {.kind = t->kind,
						    .name = string(t->name),
						    .category =
							string(t->category ? t->category : ""),
						    .unit = string(t->unit ? t->unit : ""),
						    .fields = fields_of(t)};

		for (uint32_t k = 0; k < type.fields; k++) {
			type.field[k].type = t->field[k].type;
			type.field[k].name = string(t->field[k].name);
		}
		t->index = recording_track_type(r, &type);
	}
}

static uint32_t frame(uint64_t address, const char *function)
{
	struct recording_location l = {.function = string(function), .file = string("demo.c")};
	uint32_t f = recording_frame(r, MAYFLY_FRAME_CODE, 0, address);

	r->frame[f].first_location = recording_location(r, &l);
	r->frame[f].locations = 1;
	return f;
}

/* ---- events ---- */

static void must(int error)
{
	if (error) {
		fprintf(stderr, "make_tracks: %s\n", mayfly_error_text(error));
		exit(1);
	}
}

static void print_value(const struct field *f, union mayfly_value v)
{
	print_text(f->name);
	putchar(':');
	if (f->type == MAYFLY_FIELD_TEXT)
		print_text(v.text);
	else if (f->type == MAYFLY_FIELD_INT)
		printf("%lld", (long long)v.i);
	else if (f->type == MAYFLY_FIELD_FLOAT && v.f != v.f)
		printf("null");
	else if (f->type == MAYFLY_FIELD_FLOAT)
		printf("%.17g", v.f);
	else
		printf("%llu", (unsigned long long)v.u);
}

static void print_event(const struct type *t, const char *kind, uint32_t thread, uint32_t node,
			const union mayfly_value *value)
{
	printf("{\"event\":\"%s\",\"name\":", kind);
	print_text(t->name);
	printf(",\"category\":");
	print_text(t->category ? t->category : "");
	printf(",\"time_ns\":%lld,\"tid\":%u,\"stack\":%u,\"values\":{", (long long)now,
	       r->thread[thread].tid, node);
	for (uint32_t i = 0; value && i < fields_of(t); i++) {
		if (i)
			putchar(',');
		print_value(&t->field[i], value[i]);
	}
	printf("}}\n");
}

#define VALUES(...) ((const union mayfly_value[RECORDING_FIELDS]){__VA_ARGS__})
#define INT(v)                                                                                     \
	{                                                                                          \
		.i = (v)                                                                           \
	}
#define UINT(v)                                                                                    \
	{                                                                                          \
		.u = (v)                                                                           \
	}
#define REAL(v)                                                                                    \
	{                                                                                          \
		.f = (v)                                                                           \
	}
#define TEXT(v)                                                                                    \
	{                                                                                          \
		.text = (v)                                                                        \
	}
#define NONE VALUES({0})

static void track(uint32_t kind, int of, uint32_t thread, uint32_t node,
		  const union mayfly_value *value)
{
	static const char *const kinds[] = {"begin", "end", "instant", "count"};
	const struct type *t = &types[of];
	uint64_t bits[RECORDING_FIELDS] = {0};
	struct trace_track event = {.time_ns = now,
				    .kind = kind,
				    .type = t->index,
				    .thread = thread,
				    .node = node,
				    .value = bits};

	for (uint32_t i = 0; value && i < fields_of(t); i++)
		bits[i] = t->field[i].type == MAYFLY_FIELD_TEXT
			      ? recording_event_text(r, value[i].text, strlen(value[i].text))
			      : value[i].u;
	must(trace_writer_track(writer, &event));
	print_event(t, kinds[kind], thread, node, value);
	now += 1001;
}

static void begin(int of, uint32_t thread, const union mayfly_value *value)
{
	track(MAYFLY_TRACK_BEGIN, of, thread, 0, value);
}

static void end(int of, uint32_t thread)
{
	track(MAYFLY_TRACK_END, of, thread, 0, NULL);
}

struct kept {
	uint64_t serial;
	struct trace_block block;
};

static uint64_t allocs; /* with snapshots, blocks have no numbers of their own */

static struct kept allocate(uint32_t thread, uint64_t size, uint32_t labels)
{
	struct kept k = {.block = {.size = size,
				   .node = stack,
				   .thread = thread,
				   .hits = exact ? 0 : 1,
				   .interval_log2 = exact ? 0 : INTERVAL_LOG2,
				   .labels = labels}};

	must(trace_writer_alloc(writer, now, &k.block, &k.serial));
	printf("{\"event\":\"alloc\",\"time_ns\":%lld,\"tid\":%u,\"sample\":%llu,\"size\":%llu,"
	       "\"labels\":{",
	       (long long)now, r->thread[thread].tid, (unsigned long long)allocs++,
	       (unsigned long long)size);
	for (uint32_t i = 0; i < r->label_set[labels].count; i++) {
		const struct recording_label *l = &r->label[r->label_set[labels].first + i];

		printf("%s", i ? "," : "");
		print_text(recording_text(r, l->key));
		putchar(':');
		print_text(recording_text(r, l->value));
	}
	printf("}}\n");
	now += 2000;
	return k;
}

static void release(uint32_t thread, const struct kept *k)
{
	must(trace_writer_free(writer, now, k->serial, &k->block, thread, 0));
	printf("{\"event\":\"free\",\"time_ns\":%lld,\"tid\":%u,\"size\":%llu}\n", (long long)now,
	       r->thread[thread].tid, (unsigned long long)k->block.size);
	now += 2000;
}

static uint32_t labels(unsigned request)
{
	char text[32];
	struct recording_label l[3] = {{string("tenant"), string(request % 2 ? "a b" : "c")},
				       {string("request"), string("0")}};

	snprintf(text, sizeof(text), "%u", request % 5);
	l[2] = (struct recording_label){string("request"), string(text)};
	return recording_labels(r, l, 3);
}

/* One thread takes a request, the other finishes it. */
static void serve(unsigned i)
{
	char url[64];
	uint64_t flow = i % 3 ? UINT64_MAX - i : 0x1000 + i;
	uint32_t thread = i % 2;
	struct kept kept, left;

	snprintf(url, sizeof(url), "/page/%u?a=\"%u\"", i, i % 7);
	begin(REQUEST, thread, VALUES(UINT(i), TEXT(url), UINT(flow), REAL(i / 3.0)));
	kept = allocate(thread, 1000 + i, labels(i));
	begin(PARSE, thread, NULL);
	allocate(thread, 200, labels(i));
	track(MAYFLY_TRACK_INSTANT, TICK, thread, i % 4 ? 0 : other_stack, NULL);
	end(PARSE, thread);
	begin(QUERY, thread, VALUES(INT(-(int64_t)i)));
	begin(MINOR, thread, NULL);
	end(MINOR, thread);
	left = allocate(1 - thread, 50, 0);
	end(QUERY, thread);
	track(MAYFLY_TRACK_COUNT, QUEUE, thread, 0, VALUES(INT(i), TEXT("requests")));
	track(MAYFLY_TRACK_COUNT, LOAD, thread, 0, VALUES(REAL(i * 0.125)));
	track(MAYFLY_TRACK_COUNT, SWITCHES, thread, 0, VALUES(UINT(i / 2)));
	track(MAYFLY_TRACK_INSTANT, HANDOVER, 2, 0, VALUES(UINT(flow)));
	end(REQUEST, thread);
	release(1 - thread, &kept);
	if (i % 2)
		release(thread, &left);
	begin(REQUEST, 1 - thread, VALUES(UINT(i), TEXT(url), UINT(flow), REAL(0)));
	track(MAYFLY_TRACK_INSTANT, MMAP, 1 - thread, 0, VALUES(UINT(1ull << 47), UINT(4096)));
	end(REQUEST, 1 - thread);
	now += i == 30 ? 400 * MS : MS;
}

static void tell_odd(void)
{
	end(PARSE, 0); /* never began */
	begin(REQUEST, 0, VALUES(UINT(1000), TEXT(""), UINT(1), REAL(1e300)));
	begin(QUERY, 0, VALUES(INT(INT64_MIN)));
	allocate(0, 77, 0);
	end(REQUEST, 0); /* before what it has around */
	allocate(0, 78, 0);
	begin(PARSE, 0, NULL);
	end(QUERY, 0);
	end(PARSE, 0);
	begin(QUERY, 1, VALUES(INT(1)));
	for (int i = 0; i < 100; i++)
		begin(PARSE, 1, NULL);
	end(QUERY, 1); /* around more spans than are begun again */
	for (int i = 0; i < 100; i++)
		end(PARSE, 1);
	track(MAYFLY_TRACK_INSTANT, STRANGE, 0, stack,
	      VALUES(TEXT("a \"b\"\n\xc3\xa9\\"), INT(1), INT(2), REAL(-0.5)));
	track(MAYFLY_TRACK_COUNT, STRANGE_COUNTER, 0, 0, VALUES(REAL(1)));
	track(MAYFLY_TRACK_COUNT, STRANGE_COUNTER, 0, 0, VALUES(REAL(__builtin_nan(""))));
	track(MAYFLY_TRACK_COUNT, LARGE_COUNTER, 0, 0, VALUES(UINT(UINT64_MAX)));
	track(MAYFLY_TRACK_COUNT, ARENA, 1, 0, VALUES(UINT(1u << 20)));
	begin(REQUEST, 2, VALUES(UINT(7), TEXT("open"), UINT(9), REAL(0)));
	begin(PARSE, 2, NULL);
	allocate(2, 90, labels(1));
}

static void tell(void)
{
	for (unsigned i = 0; i < REQUESTS; i++) {
		serve(i);
		if (odd && i == 20)
			tell_odd();
	}
}

#define DEEP 5000

static void tell_deep(void)
{
	for (int i = 0; i < DEEP; i++)
		begin(PARSE, 0, NULL);
	for (int i = 0; i < DEEP; i++)
		end(PARSE, 0);
}

/* Keys "function" and "key1" to "key9"; the first has 30 values, and words that formats have. */
static void tell_labels(void)
{
	static const char *const words[] = {"", "(none)", "(others)", "we\"ird\n\xc3\xbc"};

	for (unsigned i = 0; i < 34 * 8; i++) {
		char value[16], key[16];
		struct recording_label l[2];
		struct kept k;

		snprintf(value, sizeof(value), "value %u", i % 34);
		snprintf(key, sizeof(key), "key%u", i % 9 + 1);
		l[0] = (struct recording_label){string("function"),
						string(i % 34 < 4 ? words[i % 34] : value)};
		l[1] = (struct recording_label){string(key), string("x")};
		k = allocate(0, 1000 + 37 * (i % 34), recording_labels(r, l, 2));
		if (i % 3)
			release(0, &k);
		now += MS;
	}
}

/* ---- the trace ---- */

static void make_tables(void)
{
	struct recording_module m = {.path = string("/opt/demo/bin/demo"),
				     .start = 0x400000,
				     .end = 0x500000,
				     .bias = 0x400000,
				     .to_ns = INT64_MAX};
	uint32_t node;

	r->info.pid = 4242;
	r->info.interval_bytes = exact ? 1 : 1u << INTERVAL_LOG2;
	r->info.start_real_ns = 1700000000123456789;
	r->info.ending = MAYFLY_END_EXITED;
	r->info.complete = true;
	r->info.heaps = 1u << MAYFLY_HEAP_MALLOC;
	r->program = string("/opt/demo/bin/demo");
	recording_module(r, &m);
	recording_thread(r, 4242, string("demo"));
	recording_thread(r, 4250, string("worker"));
	recording_thread(r, 4251, string(""));
	node = recording_node(r, 0, frame(0x1000, "main"));
	stack = recording_node(r, node, frame(0x1100, "serve"));
	other_stack = recording_node(r, node, frame(0x1200, "notify"));
	add_types();
}

static int sink(void *file, const void *bytes, size_t size)
{
	return fwrite(bytes, 1, size, file) == size ? 0 : 1;
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"sampled", "exact", "snapshots", "lossy",
					    "plain",   "deep",	"labels"};
	struct trace_writer_options options = {.mode = MAYFLY_SAMPLED,
					       .interval_log2 = INTERVAL_LOG2};
	size_t kind = 0;
	FILE *file;

	while (argc == 3 && kind < 7 && strcmp(argv[1], kinds[kind]) != 0)
		kind++;
	file = argc == 3 && kind < 7 ? fopen(argv[2], "wb") : NULL;
	r = recording_new();
	if (!file || !r) {
		fprintf(stderr,
			"usage: make_tracks sampled|exact|snapshots|lossy|plain|deep|labels "
			"FILE\n");
		return 2;
	}
	exact = kind == 1 || kind == 2;
	odd = kind < 4;
	if (exact)
		options = (struct trace_writer_options){.mode = MAYFLY_EXACT,
							.snapshot_ns = kind == 2 ? 100 * MS : 0};
	make_tables();
	if (kind == 3)
		r->info.dropped_events = 11;
	writer = trace_writer_new(&options, r, sink, file);
	if (!writer)
		return 1;
	if (kind == 5)
		tell_deep();
	else if (kind == 6)
		tell_labels();
	else
		tell();
	r->info.duration_ns = now;
	must(trace_writer_finish(writer));
	trace_writer_free_all(writer);
	recording_free(r);
	return fclose(file) != 0;
}
