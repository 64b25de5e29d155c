/* SPDX-License-Identifier: Apache-2.0 */
/* Files of heaptrack, jemalloc, gperftools, Go and pprof, made here: what the trace of each says,
 * what it says is absent, and what becomes of files that are damaged or made to use up all memory.
 */
#include <math.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "convert/import/importer.h"
#include "convert/import/imports.h"
#include "convert/import/packed.h"
#include "base/bytes.h"

#include "test.h"

/* ---- a file becomes a trace ---- */

struct made {
	struct trace_buffer bytes;
	struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct import_report report;
	int error;
};

static struct made import_with(const void *data, size_t size, const struct import_options *options)
{
	const struct import_format *format = import_recognise(data, size);
	struct made m = {.error = MAYFLY_E_NOT_A_TRACE};
	struct import in = {.data = data,
			    .size = size,
			    .options = *options,
			    .sink = trace_buffer_sink,
			    .context = &m.bytes};

	if (!format)
		return m;
	m.error = import_file(&in, format);
	m.report = in.report;
	if (!m.error) {
		CHECK(mayfly_trace_open(m.bytes.bytes, m.bytes.used, &m.trace) == 0);
		m.info = m.trace ? mayfly_trace_info(m.trace) : NULL;
	}
	return m;
}

static struct made import(const void *data, size_t size)
{
	static const struct import_options none;

	return import_with(data, size, &none);
}

static struct made import_text(const char *text)
{
	return import(text, strlen(text));
}

static void drop(struct made *m)
{
	mayfly_trace_close(m->trace);
	free(m->bytes.bytes);
}

static struct mayfly_result *ask(const struct made *m, enum mayfly_metric metric, enum mayfly_by by,
				 int *error)
{
	struct mayfly_result *result = NULL;
	struct mayfly_query q;

	mayfly_query_defaults(&q);
	q.metric = metric;
	q.by = by;
	*error = mayfly_query_run(m->trace, &q, &result);
	return result;
}

static double total(const struct made *m, enum mayfly_metric metric)
{
	int error;
	struct mayfly_result *r = ask(m, metric, MAYFLY_BY_FUNCTION, &error);
	double bytes = r ? r->total.bytes.estimate : -1;

	CHECK(!error, "(%d)", error);
	mayfly_result_free(r);
	return bytes;
}

static double blocks(const struct made *m, enum mayfly_metric metric)
{
	int error;
	struct mayfly_result *r = ask(m, metric, MAYFLY_BY_FUNCTION, &error);
	double count = r ? r->total.blocks.estimate : -1;

	CHECK(!error, "(%d)", error);
	mayfly_result_free(r);
	return count;
}

static void check_absent(const struct made *m, enum mayfly_metric metric, enum mayfly_by by)
{
	int error;
	struct mayfly_result *r = ask(m, metric, by, &error);

	CHECK(error == MAYFLY_E_ABSENT, "(%d, metric %d, by %d)", error, metric, by);
	mayfly_result_free(r);
}

/* What a function allocated itself, -1 when there is no such row. */
static double self_of(const struct made *m, enum mayfly_metric metric, const char *function)
{
	int error;
	struct mayfly_result *r = ask(m, metric, MAYFLY_BY_FUNCTION, &error);
	double bytes = -1;

	for (size_t i = 0; r && i < r->rows; i++)
		if (strcmp(r->row[i].function, function) == 0)
			bytes = r->row[i].self.bytes.estimate;
	mayfly_result_free(r);
	return bytes;
}

static bool near(double got, double wanted)
{
	return fabs(got - wanted) <= 1e-6 * fabs(wanted) + 1e-9;
}

/* ---- packed input ---- */

static struct bytes as_zstd(const void *data, size_t size)
{
	struct bytes b = {0};
	uint8_t *to = bytes_extend(&b, ZSTD_compressBound(size));

	b.used += ZSTD_compress(to, ZSTD_compressBound(size), data, size, 3);
	return b;
}

static struct bytes as_gzip(const void *data, size_t size)
{
	struct bytes b = {0};
	size_t room = size + size / 100 + 1000;
	z_stream z = {0};

	CHECK(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_in = (Bytef *)(uintptr_t)data;
	z.avail_in = (unsigned)size;
	z.next_out = bytes_extend(&b, room);
	z.avail_out = (unsigned)room;
	CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
	b.used += z.total_out;
	deflateEnd(&z);
	return b;
}

/* All lines of the input, counted and added up. */
static uint64_t read_lines(const void *data, size_t size, size_t *count, const char **problem)
{
	struct packed_lines l;
	uint64_t sum = 0;
	size_t length;
	char *line;

	CHECK(packed_lines_open(&l, data, size));
	for (*count = 0; (line = packed_lines_next(&l, &length)); ++*count) {
		CHECK(strlen(line) == length);
		for (size_t i = 0; i < length; i++)
			sum = sum * 31 + (uint8_t)line[i];
	}
	CHECK(!l.error);
	*problem = l.problem;
	packed_lines_close(&l);
	return sum;
}

static void twice(struct bytes *b)
{
	size_t size = b->used;
	uint8_t *to = bytes_extend(b, size);

	memcpy(to, b->at, size);
	b->used += size;
}

static void packed_lines_are_the_same(void)
{
	struct bytes plain = {0}, zstd, gzip;
	const char *problem;
	uint64_t sum;
	size_t count;
	char line[64];

	for (int i = 0; i < 300000; i++) {
		snprintf(line, sizeof(line), "line %d of %lld\n", i, i * 7919ll % 1000003);
		bytes_put(&plain, line, strlen(line));
	}
	zstd = as_zstd(plain.at, plain.used);
	gzip = as_gzip(plain.at, plain.used);
	sum = read_lines(plain.at, plain.used, &count, &problem);
	CHECK(count == 300000 && !*problem);
	CHECK(read_lines(zstd.at, zstd.used, &count, &problem) == sum && count == 300000 &&
	      !*problem);
	CHECK(read_lines(gzip.at, gzip.used, &count, &problem) == sum && count == 300000 &&
	      !*problem);
	/* Cut off: fewer lines, and it is said. */
	read_lines(zstd.at, zstd.used / 2, &count, &problem);
	CHECK(count < 300000 && strcmp(problem, "cut off") == 0, "(%zu, %s)", count, problem);
	read_lines(gzip.at, gzip.used / 2, &count, &problem);
	CHECK(count > 0 && count < 300000 && strcmp(problem, "cut off") == 0);
	/* One file behind the other. */
	twice(&gzip);
	twice(&zstd);
	read_lines(gzip.at, gzip.used, &count, &problem);
	CHECK(count == 600000 && !*problem);
	read_lines(zstd.at, zstd.used, &count, &problem);
	CHECK(count == 600000 && !*problem);
	/* Damage in the middle. */
	memset(zstd.at + zstd.used / 4, 0x55, 64);
	read_lines(zstd.at, zstd.used, &count, &problem);
	CHECK(*problem);
	bytes_free(&plain);
	bytes_free(&zstd);
	bytes_free(&gzip);
}

static void long_lines_end_the_input(void)
{
	size_t size = 3 * PACKED_LINE_MAX, count;
	char *text = malloc(size);
	const char *problem;

	memset(text, 'x', size);
	text[1000] = '\n';
	read_lines(text, size, &count, &problem);
	CHECK(count == 1 && *problem, "(%zu)", count);
	free(text);
}

static void too_much_to_unpack(void)
{
	size_t size = (size_t)80 << 20, used;
	uint8_t *zeros = calloc(1, size), *all;
	struct bytes small = as_gzip(zeros, size);
	const char *problem;

	CHECK(small.used < 100000);
	CHECK(packed_all(small.at, small.used, size, &all, &used, &problem) == 0 && used == size);
	free(all);
	CHECK(packed_all(small.at, small.used, size - 1, &all, &used, &problem) ==
	      MAYFLY_E_TOO_LARGE);
	CHECK(!all);
	free(zeros);
	bytes_free(&small);
}

/* ---- heaptrack ---- */

#define HEAPTRACK                                                                                  \
	"v 10400 3\nX prog a b\nI 1000 100\n"                                                      \
	"s 4 /x/a\ns 4 main\ns 3 f.c\ns 5 outer\ns 5 inner\n"                                      \
	"i 401001 1 2 3 a\ni 401101 1 5 3 14 4 3 15\n"                                             \
	"t 1 0\nt 2 1\n"                                                                           \
	"a 10 1\na 64 2\n"

static void heaptrack_events(void)
{
	/* 3 of 16 bytes, 2 of 100; one of each is left; the one of 100 that was freed at once, and
	 * one of 16, are temporary. */
	struct made m =
	    import_text(HEAPTRACK "c 5\n+ 0\n+ 0\n+ 0\n- 0\nc 14\nR 20\n+ 1\n+ 1\nc 1e\n"
				  "- 1\nR 10\n- 0\nc 28\n# strings: 5\n");
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	struct mayfly_summary s;
	struct mayfly_node n;
	const struct mayfly_frame *f;

	CHECK(!m.error && m.info);
	CHECK(m.info->samples == 5 && m.info->frees == 3 && m.info->mode == MAYFLY_EXACT);
	CHECK(m.info->duration_ns == 40000000 && m.info->complete && !*m.report.problem);
	CHECK(m.info->program_max_rss_bytes == 0x20 * 0x1000);
	CHECK(m.info->command_count == 3 && strcmp(m.info->command[2], "b") == 0);
	CHECK(mayfly_trace_summary(m.trace, &s) == 0);
	CHECK(near(s.allocated.bytes.estimate, 248) && near(s.live_at_end.bytes.estimate, 116));
	CHECK(near(s.peak.bytes.estimate, 232) && near(s.temporary.bytes.estimate, 116));
	CHECK(s.peak_time_ns / 1000000 == 20);
	CHECK(mayfly_cursor_open(m.trace, &cursor) == 0);
	while (mayfly_cursor_next(cursor, &e) == 1)
		if (e.kind == MAYFLY_ALLOC && e.size == 100)
			break;
	CHECK(e.size == 100);
	n = mayfly_trace_node(m.trace, e.node);
	f = mayfly_trace_frame(m.trace, n.frame);
	CHECK(f->locations == 2 && f->address == 0x401100);
	CHECK(strcmp(f->location[0].function, "inner") == 0 && f->location[0].line == 0x14);
	CHECK(f->location[0].inlined && !f->location[1].inlined);
	CHECK(strcmp(f->location[1].function, "outer") == 0 && f->location[1].line == 0x15);
	CHECK(strcmp(mayfly_trace_module(m.trace, f->module)->path, "/x/a") == 0);
	f = mayfly_trace_frame(m.trace, mayfly_trace_node(m.trace, n.parent).frame);
	CHECK(strcmp(f->location[0].function, "main") == 0 && f->location[0].line == 10);
	mayfly_cursor_close(cursor);
	check_absent(&m, MAYFLY_ALLOCATED, MAYFLY_BY_THREAD);
	drop(&m);
}

static void heaptrack_versions(void)
{
	static const char *const begin[] = {
	    /* 0: blocks have addresses; 1 did not say its number at first; 2: strings without
	       length */
	    "v 10000\ns /x/a\ns main\ni 401001 1 2\nt 1 0\nc 0\n+ 20 1 5000\n+ 30 1 6000\n- 5000\n"
	    "- 7000\n+ 40 1 5000\n- 6000\n",
	    "v 10200\ns /x/a\ns main\ni 401001 1 2\nt 1 0\na 20 1\na 30 1\na 40 1\n+ 0\n+ 1\n- "
	    "0\n+ 2\n"
	    "- 1\n",
	    "v 10300 2\ns /x/a\ns main\ni 401001 1 2\nt 1 0\na 20 1\na 30 1\na 40 1\n+ 0\n+ 1\n- "
	    "0\n"
	    "+ 2\n- 1\n",
	};

	for (size_t i = 0; i < 3; i++) {
		struct made m = import_text(begin[i]);

		CHECK(!m.error && m.info && !*m.report.problem, "(version %zu: %s)", i,
		      m.report.problem);
		CHECK(m.info->samples == 3 && m.info->frees == 2);
		CHECK(near(total(&m, MAYFLY_LIVE), 0x40) && near(total(&m, MAYFLY_PEAK), 0x70));
		CHECK(near(self_of(&m, MAYFLY_ALLOCATED, "main"), 0x90));
		CHECK(!!*m.report.left_out == (i == 0), "(%s)", m.report.left_out);
		drop(&m);
	}
}

static void heaptrack_packed(void)
{
	static const char text[] = HEAPTRACK "c 1\n+ 0\n+ 1\n";
	struct bytes zstd = as_zstd(text, strlen(text)), gzip = as_gzip(text, strlen(text));
	struct made m = import(zstd.at, zstd.used);

	CHECK(!m.error && m.info->samples == 2);
	drop(&m);
	m = import(gzip.at, gzip.used);
	CHECK(!m.error && m.info->samples == 2);
	drop(&m);
	bytes_free(&zstd);
	bytes_free(&gzip);
}

/* Whatever a line says, what comes before it is kept, and the line is named. */
static void heaptrack_damaged(void)
{
	static const char *const lines[] = {
	    "+ 2",
	    "- 2",
	    "+ x",
	    "t 3 0",
	    "t 1 3",
	    "a 10 9",
	    "a 10",
	    "i 5 6",
	    "i 5 1 6",
	    "i 5 1 2 6 1",
	    "i 5 1 2 3",
	    "i 5",
	    "s 5 four",
	    "s",
	    "Q 1",
	    "c",
	    "c zz",
	    "X again",
	    "+0",
	    "+ 00000000000000000",
	    "c 7fffffffffffffff",
	};
	char text[1024], wanted[64];

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct made m;

		snprintf(text, sizeof(text), HEAPTRACK "c 1\n+ 0\n%s\n+ 1\n", lines[i]);
		snprintf(wanted, sizeof(wanted), "line 17");
		m = import_text(text);
		CHECK(!m.error, "(%s: %d)", lines[i], m.error);
		CHECK(m.info && m.info->samples == 1 && !m.info->complete, "(%s)", lines[i]);
		CHECK(strcmp(m.report.problem, wanted) == 0, "(%s: %s)", lines[i],
		      m.report.problem);
		drop(&m);
	}
	struct made newer = import_text("v 20000 4\nX a\n");

	CHECK(newer.error == MAYFLY_E_VERSION && *newer.report.problem);
	drop(&newer);
}

/* "python3 -c ..." has lines of its own. */
static void heaptrack_command_of_many_lines(void)
{
	struct made m =
	    import_text("v 10400 3\nX py -c \nimport a\ns = 5\n\n# b\nprint(1)\nI 1000 100\n"
			"s 1 f\ni 5 0 1\nt 1 0\na 8 1\n+ 0\n");

	CHECK(!m.error && !*m.report.problem && m.info->samples == 1, "(%s)", m.report.problem);
	CHECK(m.info->command_count == 8 && strcmp(m.info->command[7], "print(1)") == 0, "(%zu)",
	      m.info->command_count);
	drop(&m);
}

/* A stack may be as deep as it likes; a trace's is not. */
static void heaptrack_deep(void)
{
	struct bytes b = {0};
	struct made m;
	char line[64];

	bytes_put(&b, HEAPTRACK, strlen(HEAPTRACK));
	for (unsigned i = 3; i < 10003; i++) {
		snprintf(line, sizeof(line), "t %u %x\n", 1 + i % 2, i - 1);
		bytes_put(&b, line, strlen(line));
	}
	snprintf(line, sizeof(line), "a 8 %x\n+ 2\n", 10002);
	bytes_put(&b, line, strlen(line));
	m = import(b.at, b.used);
	CHECK(!m.error && m.info && m.info->samples == 1, "(%d %s)", m.error, m.report.problem);
	drop(&m);
	bytes_free(&b);
}

/* Some hundred KB that become GB of tables or of live blocks: refused, with little memory. */
static void heaptrack_bombs(void)
{
	static const char *const repeated[] = {"t 1 0\n", "a 1 1\n", "+ 0\n", "i 5 1\n"};
	static const size_t size_of[] = {24u << 20, 90u << 20, 90u << 20, 24u << 20};

	for (size_t i = 0; i < 4; i++) {
		size_t length = strlen(repeated[i]), size = size_of[i];
		char *text = malloc(size + 1);
		struct bytes packed;
		struct made m;

		strcpy(text, HEAPTRACK "+ 0\n");
		for (size_t at = strlen(text); at + length < size; at += length)
			memcpy(text + at, repeated[i], length + 1);
		packed = as_zstd(text, strlen(text));
		m = import(packed.at, packed.used);
		CHECK(m.error == MAYFLY_E_TOO_LARGE, "(%s: %d %s)", repeated[i], m.error,
		      m.report.problem);
		drop(&m);
		free(text);
		bytes_free(&packed);
	}
}

/* ---- text ---- */

static double jeprof(double n, double bytes, double interval)
{
	return n ? bytes / (1 - exp(-(bytes / n) / interval)) : 0;
}

static void jemalloc_samples(void)
{
	struct made m =
	    import_text("heap_v2/524288\n  t*: 13: 40700 [0: 0]\n  t0: 13: 40700 [0: 0]\n"
			"@ 0x401001 0x402001\n  t*: 10: 700 [0: 0]\n  t0: 10: 700 [0: 0]\n"
			"@ 0x403001 0x402001\n  t*: 3: 40000 [0: 0]\n  t0: 3: 40000 [0: 0]\n"
			"\nMAPPED_LIBRARIES:\n"
			"00400000-00500000 r-xp 00000000 fe:00 1    /x/fixed\n"
			"7f0000000000-7f0000010000 r--p 00000000 fe:00 1    /x/lib.so\n");
	double wanted = jeprof(10, 700, 524288) + jeprof(3, 40000, 524288);
	struct mayfly_result *r;
	int error;

	CHECK(!m.error && m.info && !*m.report.problem, "(%s)", m.report.problem);
	CHECK(m.info->samples == 13 && m.info->mode == MAYFLY_SAMPLED &&
	      m.info->sampler == MAYFLY_POISSON && m.info->interval_bytes == 524288);
	/* 40000 is not divisible by 3: as close as whole bytes are. */
	CHECK(fabs(total(&m, MAYFLY_LIVE) / wanted - 1) < 1e-4);
	r = ask(&m, MAYFLY_LIVE, MAYFLY_BY_STACK, &error);
	CHECK(r && r->rows == 2 && r->total.bytes.stderror > 0 && r->total.samples == 13);
	CHECK(r->row[0].stack_length == 2 && r->row[0].stack[1].address == 0x402000);
	mayfly_result_free(r);
	CHECK(strcmp(mayfly_trace_module(m.trace, 0)->path, "/x/fixed") == 0);
	CHECK(mayfly_trace_module(m.trace, 0)->bias == 0);
	check_absent(&m, MAYFLY_ALLOCATED, MAYFLY_BY_FUNCTION);
	check_absent(&m, MAYFLY_PEAK, MAYFLY_BY_FUNCTION);
	check_absent(&m, MAYFLY_TEMPORARY, MAYFLY_BY_FUNCTION);
	check_absent(&m, MAYFLY_LIVE, MAYFLY_BY_THREAD);
	check_absent(&m, MAYFLY_LIVE, MAYFLY_BY_SIZE);
	check_absent(&m, MAYFLY_LIVE, MAYFLY_BY_LIFETIME);
	drop(&m);
}

/* Position-independent code: addresses are those of the file. */
static void jemalloc_modules(void)
{
	struct made m = import_text("heap_v2/1024\n  t*: 1: 8 [3: 24]\n"
				    "@ 0x7f0000001235 0x7f0000099999 0x12345 0x7f0000002001\n"
				    "  t*: 1: 8 [3: 24]\n"
				    "\nMAPPED_LIBRARIES:\n"
				    "7f0000000000-7f0000001000 r--p 00000000 fe:00 1    /x/lib.so\n"
				    "7f0000001000-7f0000002000 r-xp 00001000 fe:00 1    /x/lib.so\n"
				    "7f0000099000-7f000009a000 rw-p 00000000 00:00 0 \n");
	const struct mayfly_module *lib;
	const struct mayfly_frame *f = NULL;

	CHECK(!m.error && m.info && m.info->modules == 1);
	lib = mayfly_trace_module(m.trace, 0);
	CHECK(lib->start == 0x7f0000000000 && lib->end == 0x7f0000002000 &&
	      lib->bias == lib->start);
	for (size_t i = 0; i < m.info->frames; i++)
		if (mayfly_trace_frame(m.trace, i)->module == 0)
			f = mayfly_trace_frame(m.trace, i);
	/* The other three are in no library; the last one is the first address after it. */
	CHECK(f && f->address == 0x1234 && m.info->frames == 4);
	CHECK(m.info->samples == 3 && m.info->frees == 2);
	CHECK(near(total(&m, MAYFLY_ALLOCATED), jeprof(3, 24, 1024)));
	CHECK(near(total(&m, MAYFLY_LEAKED), jeprof(1, 8, 1024)));
	drop(&m);
}

static int name_all(void *context, struct recording *t)
{
	static const char *const names[] = {"prof_backtrace", "je_malloc", "caller"};
	struct recording_location place = {0};

	(void)context;
	for (size_t i = 0; i < t->frames && i < 3; i++) {
		place.function = recording_string(t, names[i], strlen(names[i]));
		t->frame[i].first_location = recording_location(t, &place);
		t->frame[i].locations = 1;
	}
	return 0;
}

/* Stacks do not begin inside the allocator. */
static void allocator_is_cut_off(void)
{
	static const char text[] = "heap_v2/1024\n  t*: 1: 8 [0: 0]\n@ 0x11 0x21 0x31\n"
				   "  t*: 1: 8 [0: 0]\nMAPPED_LIBRARIES:\n";
	const struct import_options options = {.symbolise = name_all};
	struct made m = import_with(text, strlen(text), &options);

	CHECK(!m.error);
	CHECK(near(self_of(&m, MAYFLY_LIVE, "caller"), jeprof(1, 8, 1024)));
	CHECK(m.info->frames_symbolized <= 3);
	drop(&m);
}

static void gperftools_counts(void)
{
	struct made m =
	    import_text("heap profile:      2:      300 [  7:     1000] @ heapprofile\n"
			"     1:      200 [     3:      600] @ 0x401001\n"
			"     1:      100 [     4:      400] @ 0x402001\n\n"
			"MAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 fe:00 1 /x/a\n");
	struct mayfly_result *r;
	int error;

	CHECK(!m.error && m.info && m.info->mode == MAYFLY_EXACT && m.info->snapshot_ns);
	CHECK(!*m.report.left_out && m.info->complete);
	CHECK(near(total(&m, MAYFLY_LIVE), 300) && near(total(&m, MAYFLY_ALLOCATED), 1000));
	CHECK(near(blocks(&m, MAYFLY_ALLOCATED), 7) && near(blocks(&m, MAYFLY_LEAKED), 2));
	CHECK(!(m.info->absent & (MAYFLY_ABSENT_ERRORS | MAYFLY_ABSENT_ALLOCATED)));
	r = ask(&m, MAYFLY_ALLOCATED, MAYFLY_BY_FUNCTION, &error);
	CHECK(r && r->total.bytes.stderror == 0 && r->rows == 2);
	mayfly_result_free(r);
	drop(&m);
	/* What did not fit into its buffer. */
	m = import_text("heap profile:      2:      300 [  7:     1000] @ heapprofile\n"
			"     1:      200 [     3:      600] @ 0x401001\n\nMAPPED_LIBRARIES:\n");
	CHECK(!m.error && strstr(m.report.left_out, "100 of the 300 live bytes"), "(%s)",
	      m.report.left_out);
	drop(&m);
}

static void gperftools_samples(void)
{
	static const struct {
		const char *kind;
		double interval;
		bool events;
	} kinds[] = {{"heap_v2/4096", 4096, true},
		     {"heap_v2/5000", 5000, false},
		     {"heapz_v2/4096", 4096, true},
		     {"heap/8192", 4096, true}};
	char text[256];

	for (size_t i = 0; i < 4; i++) {
		double live = jeprof(2, 200, kinds[i].interval);
		struct made m;

		snprintf(text, sizeof(text),
			 "heap profile: 2: 200 [ 5: 500] @ %s\n"
			 "2: 200 [ 5: 500] @ 0x401001\nMAPPED_LIBRARIES:\n",
			 kinds[i].kind);
		m = import_text(text);
		CHECK(!m.error && m.info && m.info->mode == MAYFLY_SAMPLED, "(%s)", kinds[i].kind);
		CHECK((m.info->snapshot_ns == 0) == kinds[i].events, "(%s)", kinds[i].kind);
		CHECK(!(m.info->absent & MAYFLY_ABSENT_ERRORS) == kinds[i].events);
		/* Counters are whole bytes. */
		CHECK(fabs(total(&m, MAYFLY_LIVE) - live) < (kinds[i].events ? 1e-6 : 1));
		CHECK(fabs(total(&m, MAYFLY_ALLOCATED) - 2.5 * live) <
		      (kinds[i].events ? 1e-6 : 1.5));
		drop(&m);
	}
}

static void growth_is_never_freed(void)
{
	struct made m = import_text("heap profile: 1: 1048576 [ 1: 1048576] @ growthz\n"
				    "1: 1048576 [ 1: 1048576] @ 0x401001\nMAPPED_LIBRARIES:\n");

	CHECK(!m.error && near(total(&m, MAYFLY_ALLOCATED), 1048576));
	check_absent(&m, MAYFLY_LIVE, MAYFLY_BY_FUNCTION);
	drop(&m);
}

static void names_of_go(void)
{
	struct made m = import_text(
	    "heap profile: 1: 8 [1: 8] @ heap/2048\n1: 8 [1: 8] @ 0x99 0x11 0x21 0x98\n"
	    "#\t0x10\tmain.(*T).inner+0x1\t\t/s/a.go:5\n#\t0x10\tmain.outer+0x1\t\t/s/a.go:6\n"
	    "#\t0x20\tmain.main+0x9\t\t/s/a.go:9\n\n# runtime.MemStats\n# Alloc = 5\n");
	struct mayfly_result *r;
	int error;

	CHECK(!m.error && !*m.report.problem, "(%s)", m.report.problem);
	r = ask(&m, MAYFLY_LIVE, MAYFLY_BY_STACK, &error);
	CHECK(r && r->rows == 1 && r->row[0].stack_length == 4);
	CHECK(strcmp(r->row[0].stack[0].function, "main.(*T).inner") == 0 &&
	      r->row[0].stack[0].inlined && r->row[0].stack[0].line == 5);
	CHECK(strcmp(r->row[0].stack[1].function, "main.outer") == 0 &&
	      !r->row[0].stack[1].inlined);
	CHECK(strcmp(r->row[0].stack[2].function, "main.main") == 0);
	mayfly_result_free(r);
	drop(&m);
}

static void text_damaged(void)
{
	static const char *const bad[] = {
	    "1: x [1: 8] @ 0x1",
	    "1: 8 1: 8 @ 0x1",
	    "1: 8 [1: 8] 0x1",
	    "1: 8 [1: 8] @ 0x1 zz",
	    "99999999999999999999: 8 [1: 8] @ 0x1",
	    "hello",
	};
	char text[512];

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct made m;

		snprintf(text, sizeof(text),
			 "heap profile: 3: 24 [3: 24] @ heapprofile\n"
			 "2: 16 [2: 16] @ 0x5\n%s\nMAPPED_LIBRARIES:\n",
			 bad[i]);
		m = import_text(text);
		CHECK(!m.error && strcmp(m.report.problem, "line 3") == 0, "(%s: %d, %s)", bad[i],
		      m.error, m.report.problem);
		CHECK(m.info && !m.info->complete && near(total(&m, MAYFLY_LIVE), 16), "(%s)",
		      bad[i]);
		drop(&m);
	}
	struct made cut =
	    import_text("heap profile: 3: 24 [3: 24] @ heapprofile\n2: 16 [2: 16] @ 0x5\n");

	CHECK(!cut.error && strcmp(cut.report.problem, "cut off") == 0);
	drop(&cut);
	/* More than there can be. */
	cut = import_text(
	    "heap profile: 1: 8 [1: 8] @ heapprofile\n"
	    "1: 8 [9000000000000000000: 9000000000000000000] @ 0x1\nMAPPED_LIBRARIES:\n");
	CHECK(cut.error == MAYFLY_E_RANGE, "(%d)", cut.error);
	drop(&cut);
}

/* As many samples as a file cares to state do not become as many events. */
static void many_samples(void)
{
	struct made m = import_text("heap_v2/1024\n  t*: 4000000000: 32000000000 [0: 0]\n@ 0x11\n"
				    "  t*: 4000000000: 32000000000 [0: 0]\nMAPPED_LIBRARIES:\n");

	CHECK(!m.error && m.info->snapshot_ns && m.info->absent & MAYFLY_ABSENT_ERRORS);
	CHECK(near(total(&m, MAYFLY_LIVE) / 1e6, jeprof(4e9, 32e9, 1024) / 1e6));
	drop(&m);
}

/* ---- pprof ---- */

static void put_number(struct bytes *b, unsigned field, uint64_t value)
{
	bytes_put_u(b, field << 3);
	bytes_put_u(b, value);
}

static void put_message(struct bytes *b, unsigned field, struct bytes *part)
{
	bytes_put_u(b, field << 3 | 2);
	bytes_put_u(b, part->used);
	bytes_put(b, part->at, part->used);
	bytes_free(part);
	*part = (struct bytes){0};
}

static void put_text(struct bytes *b, const char *text)
{
	struct bytes part = {0};

	bytes_put(&part, text, strlen(text));
	put_message(b, 6, &part);
}

/* main calls outer, into which inner is inlined, which allocates; main allocates, too. */
static struct bytes profile_of(const char *const types[4], unsigned count, bool packed)
{
	static const char *const texts[] = {
	    "",	     "bytes", "count", "space", "main",
	    "outer", "inner", "f.c",   "/x/a",	"00112233445566778899aabbccddeeff00112233"};
	static const uint64_t values[2][4] = {{10, 1000, 4, 400}, {5, 50, 0, 0}};
	struct bytes b = {0}, part = {0}, line = {0};

	for (unsigned i = 0; i < count; i++) {
		put_number(&part, 1, 10 + i);
		put_number(&part, 2, i % 2 ? 1 : 2);
		put_message(&b, 1, &part);
	}
	for (unsigned s = 0; s < 2; s++) {
		struct bytes ids = {0}, numbers = {0};

		if (!s)
			bytes_put_u(&ids, 77);
		bytes_put_u(&ids, 5);
		for (unsigned i = 0; i < count; i++)
			bytes_put_u(&numbers, values[s][i]);
		if (packed) {
			put_message(&part, 1, &ids);
			put_message(&part, 2, &numbers);
		} else {
			if (!s)
				put_number(&part, 1, 77);
			put_number(&part, 1, 5);
			for (unsigned i = 0; i < count; i++)
				put_number(&part, 2, values[s][i]);
			bytes_free(&ids);
			bytes_free(&numbers);
		}
		put_message(&b, 2, &part);
	}
	put_number(&part, 1, 3); /* mapping */
	put_number(&part, 2, 0x7f0000000000);
	put_number(&part, 3, 0x7f0000100000);
	put_number(&part, 5, 8);
	put_number(&part, 6, 9);
	put_message(&b, 3, &part);
	put_number(&part, 1, 77); /* places */
	put_number(&part, 2, 3);
	put_number(&part, 3, 0x7f0000001234);
	for (unsigned f = 0; f < 2; f++) {
		put_number(&line, 1, 31 - f);
		put_number(&line, 2, 100 + f);
		put_message(&part, 4, &line);
	}
	put_message(&b, 4, &part);
	put_number(&part, 1, 5);
	put_number(&line, 1, 29);
	put_number(&line, 2, 9);
	put_message(&part, 4, &line);
	put_message(&b, 4, &part);
	for (unsigned f = 0; f < 3; f++) { /* functions 31 inner, 30 outer, 29 main */
		put_number(&part, 1, 31 - f);
		put_number(&part, 2, 6 - f);
		put_number(&part, 4, 7);
		put_message(&b, 5, &part);
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		put_text(&b, texts[i]);
	for (unsigned i = 0; i < count; i++)
		put_text(&b, types[i]);
	put_number(&b, 9, 1700000000000000000);
	put_number(&part, 1, 3);
	put_number(&part, 2, 1);
	put_message(&b, 11, &part);
	put_number(&b, 12, 524288);
	return b;
}

static const char *const all_types[4] = {"alloc_objects", "alloc_space", "inuse_objects",
					 "inuse_space"};

static void check_profile(const struct made *m)
{
	struct mayfly_result *r;
	const struct mayfly_module *module;
	int error;

	CHECK(!m->error && m->info && !*m->report.problem, "(%d %s)", m->error, m->report.problem);
	CHECK(near(total(m, MAYFLY_ALLOCATED), 1050) && near(blocks(m, MAYFLY_ALLOCATED), 15));
	CHECK(near(total(m, MAYFLY_LIVE), 400) && near(blocks(m, MAYFLY_LIVE), 4));
	CHECK(near(self_of(m, MAYFLY_ALLOCATED, "main"), 50));
	CHECK(near(self_of(m, MAYFLY_ALLOCATED, "inner"), 1000));
	CHECK(m->info->start_real_ns == 1700000000000000000 && m->info->interval_bytes == 524288);
	CHECK(m->info->absent & MAYFLY_ABSENT_ERRORS && m->info->mode == MAYFLY_SAMPLED);
	r = ask(m, MAYFLY_LIVE, MAYFLY_BY_STACK, &error);
	CHECK(r && r->rows >= 1 && r->row[0].stack_length == 3);
	CHECK(strcmp(r->row[0].stack[0].function, "inner") == 0 && r->row[0].stack[0].inlined &&
	      r->row[0].stack[0].line == 100);
	CHECK(strcmp(r->row[0].stack[1].function, "outer") == 0 && r->row[0].stack[1].line == 101);
	CHECK(strcmp(r->row[0].stack[2].function, "main") == 0 &&
	      strcmp(r->row[0].stack[2].file, "f.c") == 0);
	mayfly_result_free(r);
	module = mayfly_trace_module(m->trace, 0);
	CHECK(module && strcmp(module->path, "/x/a") == 0 && module->build_id_length == 20 &&
	      module->build_id[1] == 0x11);
}

static void pprof_profiles(void)
{
	for (int packed = 0; packed < 2; packed++) {
		struct bytes b = profile_of(all_types, 4, packed), gzip = as_gzip(b.at, b.used);
		struct made m = import(b.at, b.used);

		check_profile(&m);
		drop(&m);
		m = import(gzip.at, gzip.used);
		check_profile(&m);
		drop(&m);
		bytes_free(&b);
		bytes_free(&gzip);
	}
}

static void pprof_parts(void)
{
	static const char *const other[4] = {"samples", "cpu", "x", "y"};
	static const char *const bytes_only[4] = {"inuse_space", "x", "y", "z"};
	static const char *const in_use[4] = {"objects", "space", "x", "y"};
	struct bytes b = profile_of(all_types, 2, true);
	struct made m = import(b.at, b.used);

	CHECK(!m.error && near(total(&m, MAYFLY_ALLOCATED), 1050));
	check_absent(&m, MAYFLY_LIVE, MAYFLY_BY_FUNCTION);
	drop(&m);
	bytes_free(&b);
	b = profile_of(bytes_only, 1, true);
	m = import(b.at, b.used);
	CHECK(!m.error && near(total(&m, MAYFLY_LIVE), 15));
	CHECK(m.info->absent & MAYFLY_ABSENT_BLOCKS);
	check_absent(&m, MAYFLY_ALLOCATED, MAYFLY_BY_FUNCTION);
	drop(&m);
	bytes_free(&b);
	b = profile_of(in_use, 2, true);
	m = import(b.at, b.used);
	CHECK(!m.error && near(total(&m, MAYFLY_LIVE), 1050) && near(blocks(&m, MAYFLY_LIVE), 15));
	drop(&m);
	bytes_free(&b);
	b = profile_of(other, 2, true);
	m = import(b.at, b.used);
	CHECK(m.error == MAYFLY_E_ABSENT && strstr(m.report.problem, "samples, cpu"), "(%d %s)",
	      m.error, m.report.problem);
	drop(&m);
	bytes_free(&b);
}

/* Cut off anywhere, it is refused or says so; nothing else happens. */
static void pprof_cut_off(void)
{
	struct bytes b = profile_of(all_types, 4, true), gzip = as_gzip(b.at, b.used);
	unsigned told = 0;

	for (size_t size = 0; size < b.used; size++) {
		struct made m = import(b.at, size);

		told += !m.error && *m.report.problem;
		drop(&m);
	}
	CHECK(told > 20, "(%u)", told);
	for (size_t size = 0; size < gzip.used; size++) {
		struct made m = import(gzip.at, size);

		CHECK(m.error || *m.report.problem, "(%zu)", size);
		drop(&m);
	}
	bytes_free(&b);
	bytes_free(&gzip);
}

/* ---- which is which ---- */

static void formats_are_told_apart(void)
{
	static const char *const not_ours[] = {"",	    "v",	 "hello", "heap_v2/",
					       "heap_v2/x", "v 1 2 3\n", "\n\n",  "\x0a\x05hello"};
	struct bytes b = profile_of(all_types, 4, true);

	CHECK(heaptrack_recognise(HEAPTRACK, strlen(HEAPTRACK)));
	CHECK(!pprof_recognise(HEAPTRACK, strlen(HEAPTRACK)));
	CHECK(pprof_recognise(b.at, b.used) && !heaptrack_recognise(b.at, b.used));
	CHECK(!heap_text_recognise(b.at, b.used));
	for (size_t i = 0; i < sizeof(not_ours) / sizeof(*not_ours); i++)
		CHECK(!import_recognise(not_ours[i], strlen(not_ours[i])), "(%s)", not_ours[i]);
	bytes_free(&b);
}

int main(void)
{
	RUN(packed_lines_are_the_same);
	RUN(long_lines_end_the_input);
	RUN(too_much_to_unpack);
	RUN(heaptrack_events);
	RUN(heaptrack_versions);
	RUN(heaptrack_packed);
	RUN(heaptrack_damaged);
	RUN(heaptrack_command_of_many_lines);
	RUN(heaptrack_deep);
	RUN(heaptrack_bombs);
	RUN(jemalloc_samples);
	RUN(jemalloc_modules);
	RUN(allocator_is_cut_off);
	RUN(gperftools_counts);
	RUN(gperftools_samples);
	RUN(growth_is_never_freed);
	RUN(names_of_go);
	RUN(text_damaged);
	RUN(many_samples);
	RUN(pprof_profiles);
	RUN(pprof_parts);
	RUN(pprof_cut_off);
	RUN(formats_are_told_apart);
	DONE();
}
