/* SPDX-License-Identifier: Apache-2.0 */
/* Memtrace's files to traces and back: what is kept, and that estimates stay right. */
#include "convert/export/memtrace_write.h"
#include "convert/import/import_tables.h"
#include "convert/import/memtrace_read.h"

#include <math.h>
#include <string.h>

#include "test.h"

#define US 1000ll

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % below;
}

static double draw_share(void)
{
	return ((double)draw(1u << 30) + 0.5) / (double)(1u << 30);
}

/* ---- making files and traces ---- */

static const struct memtrace_location *place_of(void *context, int64_t code, size_t *count)
{
	static struct memtrace_location places[2];
	static char names[2][32];

	(void)context;
	*count = (size_t)(code % 3);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(names[i], sizeof(names[i]), "F.f_%lld_%u", (long long)code, i);
		places[i] = (struct memtrace_location){
		    .function = names[i], .file = "f.ml", .line = (uint32_t)code + i};
	}
	return places;
}

static struct memtrace_writer *begin_file(struct trace_buffer *b, double rate)
{
	struct memtrace_info info = {.sample_rate = rate,
				     .word_size = 64,
				     .executable = "/bin/caml",
				     .host = "host",
				     .runtime_parameters = "",
				     .context = "",
				     .pid = 99,
				     .start_us = 1600000000000000};
	struct memtrace_writer *w = NULL;

	CHECK(memtrace_writer_new(&info, place_of, NULL, trace_buffer_sink, b, &w) == 0);
	return w;
}

static void end_file(struct memtrace_writer *w)
{
	CHECK(memtrace_writer_finish(w) == 0);
	memtrace_writer_free(w);
}

/* Makes a trace of what is left of a file. */
static int to_trace(struct memtrace_reader *r, struct trace_buffer *bytes,
		    struct memtrace_converted *counts)
{
	struct import in = {.sink = trace_buffer_sink, .context = bytes};

	import_begin(&in);
	if (!in.error)
		memtrace_convert(r, &in, counts);
	return import_end(&in);
}

/* The trace that a file becomes; *bytes must live as long. */
static struct mayfly_trace *import(const struct trace_buffer *file, struct trace_buffer *bytes,
				   struct memtrace_converted *counts)
{
	struct memtrace_reader *r = NULL;
	struct mayfly_trace *t = NULL;

	*bytes = (struct trace_buffer){0};
	CHECK(memtrace_open(file->bytes, file->used, &r) == 0);
	CHECK(r && to_trace(r, bytes, counts) == 0);
	memtrace_close(r);
	CHECK(mayfly_trace_open(bytes->bytes, bytes->used, &t) == 0);
	return t;
}

/* ---- what is kept ---- */

static void check_node(const struct mayfly_trace *t, uint32_t node, const int64_t *stack,
		       size_t depth)
{
	while (depth-- > 0 && node) {
		struct mayfly_node n = mayfly_trace_node(t, node);
		const struct mayfly_frame *f = mayfly_trace_frame(t, n.frame);
		const struct memtrace_location *l;
		size_t count;

		CHECK(f->address == (uint64_t)stack[depth] << 1 && f->module == UINT32_MAX);
		l = place_of(NULL, stack[depth], &count);
		CHECK(f->locations == (count ? count : 1));
		for (size_t i = 0; i < count && f->locations == count; i++) {
			const struct mayfly_location *got = &f->location[count - 1 - i];

			CHECK(!strcmp(got->function, l[i].function) && !strcmp(got->file, "f.ml") &&
			      got->line == l[i].line && got->inlined == (i > 0));
		}
		node = n.parent;
	}
	CHECK(!node && depth == SIZE_MAX);
}

static void files_become_traces(void)
{
	static const int64_t stack[] = {101, 202, 303};
	struct memtrace_converted counts;
	struct mayfly_cursor *cursor;
	struct trace_buffer file = {0}, bytes;
	struct memtrace_writer *w = begin_file(&file, 1e-3);
	const struct mayfly_info *info;
	struct mayfly_event e;
	struct mayfly_trace *t;
	int64_t id;

	memtrace_writer_alloc(w, 1000, 9, 1, MEMTRACE_MINOR, stack, 3, &id);
	memtrace_writer_alloc(w, 2000, 1000, 3, MEMTRACE_MAJOR, stack, 2, &id);
	memtrace_writer_alloc(w, 3000, 7, 1, MEMTRACE_EXTERNAL, stack, 3, &id);
	memtrace_writer_promote(w, 4000, 0);
	memtrace_writer_collect(w, 5000, 0);
	memtrace_writer_collect(w, 6000, 0); /* once more: of no block */
	memtrace_writer_collect(w, 7000, 2);
	end_file(w);
	t = import(&file, &bytes, &counts);
	CHECK(counts.blocks == 3 && counts.frees == 2 && counts.promotions == 1 &&
	      counts.unmatched == 1);
	info = mayfly_trace_info(t);
	CHECK(info->mode == MAYFLY_SAMPLED && info->sampler == MAYFLY_POISSON && info->pid == 99);
	CHECK(info->start_real_ns == 1600000000000000 * US && !strcmp(info->program, "/bin/caml"));
	CHECK(info->samples == 3 && info->frees == 2 && info->complete);
	CHECK(info->ocaml_rate == 1e-3 && info->ocaml_interval_bytes == 8000);
	CHECK(info->heaps == (1u << MAYFLY_HEAP_OCAML_MINOR | 1u << MAYFLY_HEAP_OCAML_MAJOR |
			      1u << MAYFLY_HEAP_EXTERNAL));
	CHECK(strstr(info->note, "Memtrace") && info->duration_ns == 7000 * US);
	CHECK(mayfly_cursor_open(t, &cursor) == 0);
	mayfly_cursor_promotions(cursor);
	CHECK(mayfly_cursor_next(cursor, &e) == 1 && e.size == 80 && e.hits == 1);
	CHECK(e.time_ns == 1000 * US && e.heap == MAYFLY_HEAP_OCAML_MINOR);
	CHECK(e.interval == 8000 && e.weight_bytes == 8000 && e.weight_blocks == 100);
	check_node(t, e.node, stack, 3);
	CHECK(mayfly_cursor_next(cursor, &e) == 1 && e.size == 8008 && e.hits == 3);
	CHECK(e.heap == MAYFLY_HEAP_OCAML_MAJOR && e.weight_bytes == 24000);
	check_node(t, e.node, stack, 2);
	CHECK(mayfly_cursor_next(cursor, &e) == 1 && e.size == 56 &&
	      e.heap == MAYFLY_HEAP_EXTERNAL);
	CHECK(mayfly_cursor_next(cursor, &e) == 1 && e.kind == MAYFLY_PROMOTE && e.sample == 0);
	CHECK(e.time_ns == 4000 * US);
	CHECK(mayfly_cursor_next(cursor, &e) == 1 && e.kind == MAYFLY_FREE && e.sample == 0);
	CHECK(e.time_ns == 5000 * US);
	CHECK(mayfly_cursor_next(cursor, &e) == 1 && e.kind == MAYFLY_FREE && e.sample == 2);
	CHECK(mayfly_cursor_next(cursor, &e) == 0);
	mayfly_cursor_close(cursor);
	mayfly_trace_close(t);
	free(bytes.bytes);
	free(file.bytes);
}

/* Deeper than a trace's tree: both ends are kept, what is between them is counted, and what comes
 * after is not disturbed. */
static void deep_stacks_are_shortened(void)
{
	enum { DEEP = 9000, MOST = 4096 };
	static int64_t stack[DEEP];
	struct memtrace_converted counts;
	struct trace_buffer file = {0}, bytes;
	struct memtrace_writer *w = begin_file(&file, 1e-3);
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	struct mayfly_trace *t;
	int64_t id;

	for (int i = 0; i < DEEP; i++)
		stack[i] = 1 + i % 3;
	for (size_t depth = MOST - 1; depth <= MOST + 2; depth++)
		memtrace_writer_alloc(w, 1, 9, 1, MEMTRACE_MINOR, stack, depth, &id);
	memtrace_writer_alloc(w, 2, 9, 1, MEMTRACE_MINOR, stack, DEEP, &id);
	memtrace_writer_alloc(w, 3, 9, 1, MEMTRACE_MINOR, stack, 3000, &id);
	end_file(w);
	t = import(&file, &bytes, &counts);
	CHECK(mayfly_cursor_open(t, &cursor) == 0);
	for (size_t depth = MOST - 1; depth <= MOST; depth++) {
		CHECK(mayfly_cursor_next(cursor, &e) == 1);
		check_node(t, e.node, stack, depth);
	}
	for (size_t i = 0; i < 3; i++) {
		size_t depth = i < 2 ? MOST + 1 + i : DEEP, found = 0, elided = 0;

		CHECK(mayfly_cursor_next(cursor, &e) == 1);
		for (uint32_t n = e.node; n; n = mayfly_trace_node(t, n).parent) {
			const struct mayfly_frame *f =
			    mayfly_trace_frame(t, mayfly_trace_node(t, n).frame);

			if (f->kind == MAYFLY_FRAME_ELIDED) {
				CHECK(found == MOST - MOST / 2 - 1);
				elided = f->address;
			} else {
				CHECK(f->address >> 1 ==
				      (uint64_t)stack[depth - 1 - elided - found++]);
			}
		}
		CHECK(found == MOST - 1 && elided == depth - found);
	}
	CHECK(mayfly_cursor_next(cursor, &e) == 1);
	check_node(t, e.node, stack, 3000);
	CHECK(mayfly_cursor_next(cursor, &e) == 0);
	mayfly_cursor_close(cursor);
	mayfly_trace_close(t);
	free(bytes.bytes);
	free(file.bytes);
}

static void rate_1_is_exact(void)
{
	static const int64_t stack[] = {3};
	struct memtrace_converted counts;
	struct trace_buffer file = {0}, bytes;
	struct memtrace_writer *w = begin_file(&file, 1);
	struct mayfly_summary summary;
	struct mayfly_trace *t;
	int64_t id;

	for (int i = 0; i < 100; i++)
		memtrace_writer_alloc(w, i, i, i + 1, MEMTRACE_MINOR, stack, 1, &id);
	end_file(w);
	t = import(&file, &bytes, &counts);
	CHECK(mayfly_trace_info(t)->mode == MAYFLY_EXACT);
	CHECK(mayfly_trace_summary(t, &summary) == 0);
	CHECK(summary.allocated.bytes.estimate == 5050 * 8 &&
	      summary.allocated.bytes.stderror == 0);
	CHECK(summary.allocated.blocks.estimate == 100);
	mayfly_trace_close(t);
	free(bytes.bytes);
	free(file.bytes);
}

/* At rate 1 each word is a sample; the memory of a Bigarray has no header, and comes as a block of the
 * minor heap. The figures are right, and the file comes back byte for byte. */
static void bigarrays_have_no_header(void)
{
	static const int64_t stack[] = {3, 4};
	struct memtrace_converted counts;
	struct trace_buffer file = {0}, bytes, again = {0};
	struct memtrace_writer *w = begin_file(&file, 1);
	struct mayfly_summary summary;
	struct mayfly_trace *t;
	int64_t id, words = 0;

	for (int i = 1; i <= 300; i++) {
		bool heap = i % 4 != 3, bare = i % 4 > 1;

		memtrace_writer_alloc(w, i, 10 * i, 10 * i + !bare,
				      heap ? i % 8 < 4 ? MEMTRACE_MINOR : MEMTRACE_MAJOR
					   : MEMTRACE_EXTERNAL,
				      stack, 1 + (size_t)(i % 2), &id);
		words += 10 * i + !bare;
		if (i % 3 == 0)
			memtrace_writer_collect(w, i, id / 2);
	}
	memtrace_writer_alloc(w, 400, 0, 1, MEMTRACE_MINOR, stack, 1, &id);
	memtrace_writer_alloc(w, 400, 0, 1, MEMTRACE_EXTERNAL, stack, 1, &id);
	words++;
	end_file(w);
	t = import(&file, &bytes, &counts);
	CHECK(mayfly_trace_info(t)->mode == MAYFLY_EXACT);
	CHECK(mayfly_trace_summary(t, &summary) == 0);
	CHECK(summary.allocated.bytes.estimate == (double)(8 * words), "%f, %lld words",
	      summary.allocated.bytes.estimate, (long long)words);
	CHECK(memtrace_from_trace(t, "", 0, trace_buffer_sink, &again) == 0);
	CHECK(again.used == file.used && memcmp(again.bytes, file.bytes, file.used) == 0,
	      "%zu of %zu bytes", again.used, file.used);
	mayfly_trace_close(t);
	free(again.bytes);
	free(bytes.bytes);
	free(file.bytes);
}

/* A block with other samples than its words: which ones the sums stand for is not known. */
static void rate_1_with_other_samples(void)
{
	static const int64_t stack[] = {3}, samples[] = {1, 9, 12, 100};

	for (unsigned i = 0; i < 4; i++) {
		struct memtrace_converted counts;
		struct trace_buffer file = {0}, bytes, again = {0};
		struct memtrace_writer *w = begin_file(&file, 1);
		struct mayfly_trace *t;
		int64_t id;

		memtrace_writer_alloc(w, 1, 7, 8, MEMTRACE_MINOR, stack, 1, &id);
		memtrace_writer_alloc(w, 2, 10, samples[i], MEMTRACE_MINOR, stack, 1, &id);
		end_file(w);
		t = import(&file, &bytes, &counts);
		CHECK(mayfly_trace_info(t)->mode == MAYFLY_SAMPLED &&
		      mayfly_trace_info(t)->absent & MAYFLY_ABSENT_ERRORS);
		CHECK(memtrace_from_trace(t, "", 0, trace_buffer_sink, &again) == 0);
		CHECK(again.used == file.used && memcmp(again.bytes, file.bytes, file.used) == 0,
		      "%lld samples", (long long)samples[i]);
		mayfly_trace_close(t);
		free(again.bytes);
		free(bytes.bytes);
		free(file.bytes);
	}
}

static void impossible_rates_are_refused(void)
{
	static const double rates[] = {0, -1, NAN, 1e-300};

	for (unsigned i = 0; i < 4; i++) {
		struct trace_buffer file = {0}, bytes = {0};
		struct memtrace_converted counts;
		struct memtrace_reader *r = NULL;

		end_file(begin_file(&file, rates[i]));
		CHECK(memtrace_open(file.bytes, file.used, &r) == 0);
		CHECK(to_trace(r, &bytes, &counts) < 0, "%g", rates[i]);
		memtrace_close(r);
		free(bytes.bytes);
		free(file.bytes);
	}
}

/* What comes before the damage is converted, and the note tells. */
static void damaged_files_are_converted(void)
{
	static const int64_t stack[] = {3};
	struct memtrace_converted counts;
	struct trace_buffer file = {0}, bytes;
	struct memtrace_writer *w = begin_file(&file, 0.5);
	struct mayfly_trace *t;
	size_t whole;
	int64_t id;

	memtrace_writer_alloc(w, 1, 9, 1, MEMTRACE_MINOR, stack, 1, &id);
	memtrace_writer_flush(w);
	whole = file.used;
	memtrace_writer_alloc(w, 2, 9, 1, MEMTRACE_MINOR, stack, 1, &id);
	end_file(w);
	file.bytes[whole] ^= 1;
	t = import(&file, &bytes, &counts);
	CHECK(counts.blocks == 1 && strstr(mayfly_trace_info(t)->note, "damaged") &&
	      !mayfly_trace_info(t)->complete);
	mayfly_trace_close(t);
	free(bytes.bytes);
	file.bytes[whole] ^= 1;
	file.used--;
	t = import(&file, &bytes, &counts);
	CHECK(counts.blocks == 1 && strstr(mayfly_trace_info(t)->note, "1 of its packets") &&
	      !mayfly_trace_info(t)->complete);
	mayfly_trace_close(t);
	free(bytes.bytes);
	free(file.bytes);
}

/* ---- estimates ---- */

/* How many of so many words are chosen: jumps from one to the next. */
static int64_t binomial(int64_t words, double rate)
{
	double step = -1 / log1p(-rate), at = 0;
	int64_t count = -1;

	do {
		at += floor(-log(draw_share()) * step) + 1;
		count++;
	} while (at <= (double)words);
	return count;
}

/* Files as OCaml's sampler makes them, of blocks that are known: means must be the true ones, and
 * as far off as the standard errors say. */
static void check_estimates(double rate, int64_t longest)
{
	static const int64_t stack[] = {3};
	double bytes_z = 0, bytes_zz = 0, blocks_z = 0, blocks_zz = 0;
	const int rounds = 20;

	for (int round = 0; round < rounds; round++) {
		double bytes = 0, blocks = 0, z;
		struct memtrace_converted counts;
		struct trace_buffer file = {0}, out;
		struct memtrace_writer *w = begin_file(&file, rate);
		struct mayfly_summary s;
		struct mayfly_trace *t;
		int64_t id;

		for (int i = 0; i < 4000; i++) {
			int64_t length = 1 + (int64_t)draw((uint64_t)(i & 1 ? longest : 8));
			int64_t samples = binomial(length + 1, rate);

			bytes += (double)(length + 1) * 8;
			blocks++;
			if (samples)
				memtrace_writer_alloc(w, i, length, samples, MEMTRACE_MINOR, stack,
						      1, &id);
		}
		end_file(w);
		t = import(&file, &out, &counts);
		CHECK(mayfly_trace_summary(t, &s) == 0);
		z = (s.allocated.bytes.estimate - bytes) / s.allocated.bytes.stderror;
		bytes_z += z;
		bytes_zz += z * z;
		z = (s.allocated.blocks.estimate - blocks) / s.allocated.blocks.stderror;
		blocks_z += z;
		blocks_zz += z * z;
		mayfly_trace_close(t);
		free(out.bytes);
		free(file.bytes);
	}
	printf("# rate %g: bytes off by %.2f +- %.2f standard errors, blocks %.2f +- %.2f\n", rate,
	       bytes_z / rounds, sqrt(bytes_zz / rounds), blocks_z / rounds,
	       sqrt(blocks_zz / rounds));
	/* The mean of 20 has a deviation of 0.22. */
	CHECK(fabs(bytes_z / rounds) < 0.8 && fabs(blocks_z / rounds) < 0.8);
	CHECK(bytes_zz / rounds > 0.3 && bytes_zz / rounds < 2.6);
	CHECK(blocks_zz / rounds > 0.3 && blocks_zz / rounds < 2.6);
}

static void estimates_are_right(void)
{
	random_state = 1;
	check_estimates(1e-2, 400);   /* interval 796: between 512 and 1024 */
	check_estimates(0.0117, 100); /* 680: where the coin adds most */
	check_estimates(1e-3, 5000);
	check_estimates(0.3, 20);
}

/* ---- traces to files ---- */

struct made {
	struct recording *tables;
	struct trace_writer *writer;
	struct trace_buffer bytes;
	uint32_t node[4];
};

static uint32_t text(struct recording *r, const char *string)
{
	return recording_string(r, string, strlen(string));
}

static uint32_t new_frame(struct recording *r, uint32_t module, uint64_t address,
			  const char *function, const char *file)
{
	struct recording_location l = {text(r, function), text(r, file), 12, false};
	uint32_t f = recording_frame(r, MAYFLY_FRAME_CODE, module, address);

	r->frame[f].first_location = recording_location(r, &l);
	r->frame[f].locations = 1;
	return f;
}

/* Stacks: main > inner inlined into outer; ... > no name; a gap > main; none. */
static void begin_trace(struct made *m, uint32_t mode, uint32_t interval_log2)
{
	struct trace_writer_options options = {
	    .mode = mode, .sampler = MAYFLY_STRATIFIED, .interval_log2 = interval_log2};
	struct recording_module module = {.start = 0x10000, .end = 0x20000, .bias = 0x10000};
	struct recording_location inner;
	struct recording *r = recording_new();
	uint32_t f;

	*m = (struct made){.tables = r};
	r->program = text(r, "/bin/native");
	r->info.pid = 7;
	r->info.complete = true;
	r->info.start_real_ns = 1650000000123456789;
	recording_thread(r, 7, 0);
	module.path = text(r, "/bin/native");
	recording_module(r, &module);
	m->node[0] = recording_node(r, 0, new_frame(r, 0, 0x100, "main", "m.c"));
	f = recording_frame(r, MAYFLY_FRAME_CODE, 0, 0x200);
	inner = (struct recording_location){text(r, "inner"), text(r, "i.h"), 3, true};
	r->frame[f].first_location = recording_location(r, &inner);
	inner = (struct recording_location){text(r, "outer"), 0, 0, false};
	recording_location(r, &inner);
	r->frame[f].locations = 2;
	m->node[0] = recording_node(r, m->node[0], f);
	/* Half of its address is that of main. */
	m->node[1] = recording_node(r, m->node[0], new_frame(r, 0, 0x101, "", ""));
	f = recording_frame(r, MAYFLY_FRAME_ELIDED, RECORDING_NONE, 12);
	m->node[2] = recording_node(r, recording_node(r, 0, f), new_frame(r, 0, 0x300, "", ""));
	m->writer = trace_writer_new(&options, r, trace_buffer_sink, &m->bytes);
}

static struct mayfly_trace *end_trace(struct made *m)
{
	struct mayfly_trace *t = NULL;

	CHECK(trace_writer_finish(m->writer) == 0);
	trace_writer_free_all(m->writer);
	recording_free(m->tables);
	CHECK(mayfly_trace_open(m->bytes.bytes, m->bytes.used, &t) == 0);
	return t;
}

static uint64_t add_block(struct made *m, int64_t time_us, struct trace_block b)
{
	uint64_t serial = UINT64_MAX;

	CHECK(trace_writer_alloc(m->writer, time_us * US, &b, &serial) == 0);
	return serial;
}

static struct memtrace_reader *export(const struct mayfly_trace *t, struct trace_buffer *file)
{
	struct memtrace_reader *r = NULL;

	*file = (struct trace_buffer){0};
	CHECK(memtrace_from_trace(t, "purpose", 0, trace_buffer_sink, file) == 0);
	CHECK(memtrace_open(file->bytes, file->used, &r) == 0);
	return r;
}

static void check_place(const struct memtrace_reader *r, const struct memtrace_event *e, size_t at,
			size_t which, const char *expected)
{
	size_t count;
	const struct memtrace_location *l = memtrace_locate(r, e->stack[at], &count);
	char got[200] = "";

	if (which < count)
		snprintf(got, sizeof(got), "%s@%s:%u", l[which].function, l[which].file,
			 l[which].line);
	CHECK(strcmp(got, expected) == 0, "%s, expected %s", got, expected);
}

static void traces_become_files(void)
{
	struct trace_block b = {.size = 1000, .hits = 1, .interval_log2 = 12};
	struct memtrace_event e = {0};
	const struct memtrace_info *info;
	struct memtrace_reader *r;
	struct trace_buffer file;
	struct mayfly_trace *t;
	struct made m;
	uint64_t first;

	begin_trace(&m, MAYFLY_SAMPLED, 12);
	b.node = m.node[0];
	first = add_block(&m, 1000, b);
	CHECK(trace_writer_free(m.writer, 2000 * US, first, &b, 0, 0) == 0);
	b = (struct trace_block){.size = 4097, .hits = 2, .interval_log2 = 12, .node = m.node[1]};
	add_block(&m, 3000, b);
	b = (struct trace_block){.size = 40960, .interval_log2 = 12, .node = m.node[2]};
	add_block(&m, 4000, b);
	add_block(&m, 5000, (struct trace_block){.size = 1, .hits = 1, .interval_log2 = 12});
	t = end_trace(&m);
	r = export(t, &file);
	info = memtrace_info(r);
	CHECK(info->version == 2 && info->sample_rate == 0x1p-9 && info->word_size == 64 &&
	      !strcmp(info->executable, "/bin/native") && !strcmp(info->context, "purpose") &&
	      info->pid == 7 && info->start_us == 1650000000123456);

	CHECK(memtrace_next(r, &e) == 1 && e.kind == MEMTRACE_ALLOC && e.length == 125 &&
	      e.samples == 1 && e.source == MEMTRACE_EXTERNAL && e.depth == 2 && e.id == 0);
	CHECK(llabs(e.time_us - 1000) < 2);
	CHECK(e.stack[0] == 0x10100 / 2);
	check_place(r, &e, 0, 0, "main@m.c:12");
	check_place(r, &e, 1, 0, "outer@/bin/native:0");
	check_place(r, &e, 1, 1, "inner@i.h:3");
	CHECK(memtrace_next(r, &e) == 1 && e.kind == MEMTRACE_COLLECT && e.id == 0);
	CHECK(memtrace_next(r, &e) == 1 && e.length == 513 && e.samples == 2 && e.depth == 3);
	CHECK(e.stack[2] != e.stack[0]);
	check_place(r, &e, 2, 0, "");
	CHECK(memtrace_next(r, &e) == 1 && e.length == 5120 && e.samples == 10 && e.depth == 2);
	check_place(r, &e, 0, 0, "[12-frames-left-out]@<unknown>:0");
	CHECK(memtrace_next(r, &e) == 1 && e.length == 1 && e.depth == 0 && e.id == 3);
	CHECK(memtrace_next(r, &e) == 0);
	memtrace_close(r);
	mayfly_trace_close(t);
	free(m.bytes.bytes);
	free(file.bytes);
}

static void exact_traces_have_rate_1(void)
{
	struct memtrace_event e = {0};
	struct memtrace_reader *r;
	struct trace_buffer file;
	struct mayfly_trace *t;
	struct made m;
	uint64_t serial;

	begin_trace(&m, MAYFLY_EXACT, 0);
	for (unsigned i = 0; i < 100; i++) {
		struct trace_block b = {.size = i, .node = m.node[i % 3]};

		serial = add_block(&m, i, b);
		CHECK(trace_writer_free(m.writer, i * US, serial, &b, 0, 0) == 0);
	}
	t = end_trace(&m);
	r = export(t, &file);
	CHECK(memtrace_info(r)->sample_rate == 1);
	for (unsigned i = 0; i < 100; i++) {
		CHECK(memtrace_next(r, &e) == 1 && e.kind == MEMTRACE_ALLOC && e.id == i);
		CHECK(e.length == (i + 7) / 8 && e.samples == (i ? (i + 7) / 8 : 1));
		CHECK(memtrace_next(r, &e) == 1 && e.kind == MEMTRACE_COLLECT && e.id == i);
	}
	CHECK(memtrace_next(r, &e) == 0);
	memtrace_close(r);
	mayfly_trace_close(t);
	free(m.bytes.bytes);
	free(file.bytes);
}

/* Samples of several intervals, and exact ones below them: the sums must agree, and frees must
 * find their blocks although some are left out. */
static void weights_survive(void)
{
	double expected = 0, got = 0, variance = 0;
	uint64_t allocs = 0, collects = 0;
	struct mayfly_cursor *cursor;
	struct memtrace_event e;
	struct mayfly_event from;
	struct memtrace_reader *r;
	struct trace_buffer file;
	struct mayfly_trace *t;
	struct made m;

	random_state = 3;
	begin_trace(&m, MAYFLY_SAMPLED, 10);
	for (int i = 0; i < 20000; i++) {
		struct trace_block b = {.size = 1 + draw(900), .hits = 1, .node = m.node[draw(3)]};
		uint64_t serial;

		b.interval_log2 = (uint8_t)(10 + draw(3));
		if (draw(4) == 0) {
			b.hits = 0;
			b.size += draw(2) ? 5000 : 0;
		}
		serial = add_block(&m, i, b);
		/* Freed when its length is odd, so that the file shows whether ids are right. */
		if ((b.size + 7) / 8 % 2)
			CHECK(trace_writer_free(m.writer, i * US, serial, &b, 0, 0) == 0);
	}
	t = end_trace(&m);
	CHECK(mayfly_cursor_open(t, &cursor) == 0);
	while (mayfly_cursor_next(cursor, &from) == 1)
		if (from.kind == MAYFLY_ALLOC)
			expected += from.weight_bytes;
	mayfly_cursor_close(cursor);
	r = export(t, &file);
	CHECK(memtrace_info(r)->sample_rate == 8.0 / 1024);
	while (memtrace_next(r, &e) == 1) {
		static int64_t last_odd = -1, last_id = -1;

		if (e.kind == MEMTRACE_ALLOC) {
			CHECK(last_odd == -1, "a block that is not freed");
			got += (double)e.samples * 1024;
			variance += 1024.0 * 1024 / 4;
			allocs++;
			last_id = e.id;
			last_odd = e.length % 2 ? e.id : -1;
		} else {
			CHECK(e.id == last_id && e.id == last_odd);
			last_odd = -1;
			collects++;
		}
	}
	CHECK(allocs < 20000 && allocs > 15000 && collects > 7000);
	CHECK(fabs(got - expected) < 4 * sqrt(variance), "%g, not %g", got, expected);
	memtrace_close(r);
	mayfly_trace_close(t);
	free(m.bytes.bytes);
	free(file.bytes);
}

/* ---- there and back ---- */

static struct memtrace_writer *write_some(struct trace_buffer *file, int events)
{
	struct memtrace_writer *w = begin_file(file, 1e-2);
	int64_t stack[60], id, ids = 0;
	size_t depth = 0;

	for (int i = 0; i < events; i++) {
		depth = depth / 2 + draw(30);
		for (size_t k = depth / 2; k < depth; k++)
			stack[k] = 1 + (int64_t)draw(500);
		if (ids && draw(3) == 0) {
			memtrace_writer_collect(w, i, (int64_t)draw((uint64_t)ids));
			continue;
		}
		for (size_t k = 0; k < depth / 2; k++)
			stack[k] = 1000 + (int64_t)k;
		memtrace_writer_alloc(w, i, 1 + (int64_t)draw(200), 1, MEMTRACE_EXTERNAL, stack,
				      depth, &id);
		ids++;
	}
	return w;
}

/* Everything but what traces do not have: the number of samples, promotions, sources, columns. */
static void there_and_back(void)
{
	struct trace_buffer file = {0}, again, bytes;
	struct memtrace_converted counts;
	struct memtrace_reader *a = NULL, *b;
	struct memtrace_event x = {0}, y = {0};
	struct mayfly_trace *t;
	uint64_t collects = 0;

	random_state = 4;
	end_file(write_some(&file, 5000));
	t = import(&file, &bytes, &counts);
	b = export(t, &again);
	CHECK(memtrace_open(file.bytes, file.used, &a) == 0);
	while (memtrace_next(a, &x) == 1 && !test_bad) {
		size_t count, other;

		if (x.kind != MEMTRACE_ALLOC)
			continue;
		do {
			CHECK(memtrace_next(b, &y) == 1);
			collects += y.kind == MEMTRACE_COLLECT;
		} while (y.kind == MEMTRACE_COLLECT && !test_bad);
		CHECK(x.id == y.id && x.length == y.length && x.depth == y.depth);
		CHECK(llabs(x.time_us - y.time_us) < 2);
		CHECK(memcmp(x.stack, y.stack, x.depth * sizeof(*x.stack)) == 0);
		for (size_t i = x.shared; i < x.depth; i++) {
			const struct memtrace_location *l = memtrace_locate(a, x.stack[i], &count);
			const struct memtrace_location *k = memtrace_locate(b, y.stack[i], &other);

			CHECK(count == other);
			for (size_t n = 0; n < count && count == other; n++)
				CHECK(!strcmp(l[n].function, k[n].function) &&
				      !strcmp(l[n].file, k[n].file) && l[n].line == k[n].line);
		}
	}
	while (memtrace_next(b, &y) == 1)
		collects += y.kind == MEMTRACE_COLLECT;
	CHECK(collects == counts.frees && counts.frees > 500);
	memtrace_close(a);
	memtrace_close(b);
	mayfly_trace_close(t);
	free(bytes.bytes);
	free(again.bytes);
	free(file.bytes);
}

/* ---- domains ---- */

/* A packet as version 3 has it. */
static void put_version_3(struct trace_buffer *out, const uint8_t *packet, unsigned domain,
			  uint64_t more_ids)
{
	uint32_t size;
	uint64_t id;
	size_t at = out->used;
	uint16_t number = (uint16_t)domain, version = 3;

	memcpy(&size, packet + 4, 4);
	size /= 8;
	trace_buffer_sink(out, packet, 38);
	trace_buffer_sink(out, &number, 2);
	trace_buffer_sink(out, packet + 38, size - 38);
	size = (size + 2) * 8;
	memcpy(out->bytes + at + 4, &size, 4);
	memcpy(out->bytes + at + 28, &version, 2);
	for (unsigned field = 52; field <= 60; field += 8) {
		memcpy(&id, out->bytes + at + field, 8);
		id += more_ids;
		memcpy(out->bytes + at + field, &id, 8);
	}
}

static void put_packets(struct trace_buffer *out, const struct trace_buffer *file, bool info,
			unsigned domain, uint64_t more_ids)
{
	uint32_t size;

	for (size_t at = 0; at < file->used; at += size / 8) {
		memcpy(&size, file->bytes + at + 4, 4);
		if (at || info)
			put_version_3(out, file->bytes + at, domain, more_ids);
	}
}

/* Two domains at the same times, one after the other in the file. */
static void domains_are_merged(void)
{
	struct trace_buffer file = {0}, both = {0}, bytes;
	struct memtrace_converted one, two;
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	struct mayfly_trace *t;
	uint64_t of_thread[2] = {0};
	int64_t last = 0;

	random_state = 5;
	end_file(write_some(&file, 4000));
	mayfly_trace_close(import(&file, &bytes, &one));
	free(bytes.bytes);
	put_packets(&both, &file, true, 0, 0);
	put_packets(&both, &file, false, 5, 20000);
	t = import(&both, &bytes, &two);
	CHECK(two.blocks == 2 * one.blocks && two.frees == 2 * one.frees && one.frees > 500);
	CHECK(mayfly_trace_info(t)->threads == 2 && mayfly_trace_thread(t, 1)->tid == 5 &&
	      !strcmp(mayfly_trace_thread(t, 1)->name, "domain 5"));
	CHECK(mayfly_cursor_open(t, &cursor) == 0);
	while (mayfly_cursor_next(cursor, &e) == 1) {
		CHECK(e.time_ns >= last && e.thread < 2);
		last = e.time_ns;
		of_thread[e.thread & 1]++;
	}
	CHECK(of_thread[0] == of_thread[1] && of_thread[0] == one.blocks + one.frees);
	mayfly_cursor_close(cursor);
	mayfly_trace_close(t);
	free(bytes.bytes);
	free(both.bytes);
	free(file.bytes);
}

/* ---- damage ---- */

static void damage_does_no_harm(void)
{
	struct trace_buffer file = {0};

	random_state = 6;
	end_file(write_some(&file, 400));
	for (int round = 0; round < 300; round++) {
		struct trace_buffer bytes = {0};
		struct memtrace_converted counts;
		struct memtrace_reader *r;
		uint8_t *copy = malloc(file.used);
		struct mayfly_trace *t;
		int error = MAYFLY_E_DAMAGED;

		memcpy(copy, file.bytes, file.used);
		for (uint64_t changes = 1 + draw(4); changes; changes--)
			copy[draw(file.used)] = (uint8_t)draw(256);
		if (memtrace_open(copy, file.used, &r) == 0) {
			error = to_trace(r, &bytes, &counts);
			memtrace_close(r);
		}
		CHECK(error <= 0);
		if (!error) {
			CHECK(mayfly_trace_open(bytes.bytes, bytes.used, &t) == 0);
			CHECK(mayfly_trace_info(t)->samples == counts.blocks);
			mayfly_trace_close(t);
		}
		free(bytes.bytes);
		free(copy);
	}
	free(file.bytes);
}

int main(void)
{
	RUN(files_become_traces);
	RUN(deep_stacks_are_shortened);
	RUN(rate_1_is_exact);
	RUN(bigarrays_have_no_header);
	RUN(rate_1_with_other_samples);
	RUN(impossible_rates_are_refused);
	RUN(damaged_files_are_converted);
	RUN(estimates_are_right);
	RUN(traces_become_files);
	RUN(exact_traces_have_rate_1);
	RUN(weights_survive);
	RUN(there_and_back);
	RUN(domains_are_merged);
	RUN(damage_does_no_harm);
	DONE();
}
