/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading spools: times, threads, modules, frees, forks; while they grow, with packets used again;
 * cut off and damaged ones. The events go to the imitation of writer_double.h.
 */
#include <math.h>

#include "spool_reading.h"
#include "varied_spool.h"

#define VARIED 900

static void simple_spool(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_ending ending = {MAYFLY_END_EXITED, 3, 50 * MS, 0, 0};
	struct reading *r;

	spool_writer_module(w, 1, "/bin/prg", 0x400000, 0x500000, 0x1000);
	spool_writer_thread(w, 1, 100, "prg");
	spool_writer_sample(w, 10 * MS, 0, 100, 1, 0, deep, 4);
	spool_writer_sample(w, 20 * MS, 1, 1 << 20, 0, SPOOL_FLAG_REALLOC, deep, 3);
	spool_writer_free(w, 30 * MS, 0, SPOOL_FLAG_TEMPORARY);
	spool_writer_interval(w, 31 * MS, 10);
	spool_writer_sample(w, 40 * MS, 2, 7, 1, 0, deep, 0);
	spool_writer_lost(w, 41 * MS, 5, 7, 9);
	r = read_file(f, &ending);
	CHECK(r->w->samples == 3 && r->t->info.samples == 3 && r->t->info.frees == 1);
	CHECK(r->t->info.complete && r->t->info.ending == MAYFLY_END_EXITED &&
	      r->t->info.ending_code == 3);
	CHECK(r->t->info.duration_ns == 50 * MS && r->t->info.pid == 100 &&
	      r->t->info.parent_pid == 50);
	CHECK(r->t->info.interval_bytes == 1 << 19);
	CHECK(r->t->info.dropped_samples == 5 && r->t->info.dropped_frees == 7 &&
	      r->t->info.dropped_events == 9);
	CHECK(r->t->command_count == 2 && !strcmp(recording_text(r->t, r->t->command[0]), "prg") &&
	      !strcmp(recording_text(r->t, r->t->command[1]), "-x"));
	CHECK(!strcmp(recording_text(r->t, r->t->program), "/bin/prg"));
	CHECK(r->w->sample[0].time_ns == 10 * MS && r->w->sample[0].free_ns == 30 * MS);
	CHECK(r->w->sample[0].free_flags == MAYFLY_FLAG_TEMPORARY &&
	      r->w->sample[0].block.size == 100);
	CHECK(r->w->sample[1].block.flags == MAYFLY_FLAG_REALLOC &&
	      r->w->sample[1].block.hits == 0);
	CHECK(r->w->sample[1].free_ns == INT64_MAX && r->w->sample[1].block.interval_log2 == 19);
	CHECK(r->w->sample[2].block.interval_log2 == 10 && r->w->sample[2].block.node == 0);
	CHECK(depth_of(r->t, r->w->sample[0].block.node) == 4 &&
	      depth_of(r->t, r->w->sample[1].block.node) == 3);
	CHECK(r->t->node[r->w->sample[0].block.node].parent == r->w->sample[1].block.node);
	CHECK(leaf(r, 1)->module == 0 && leaf(r, 1)->address == 0x401200 - 1 - 0x1000);
	CHECK(leaf(r, 0)->module == RECORDING_NONE && leaf(r, 0)->address == 0x7f0000001233);
	CHECK(r->t->threads == 1 && r->t->thread[0].tid == 100 &&
	      !strcmp(recording_text(r->t, r->t->thread[0].name), "prg"));
	CHECK(r->t->module[0].build_id_length == 4 && r->t->module[0].to_ns == INT64_MAX);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* Blocks of all heaps, places that the program tells, an end before the program's. */
static void ocaml_heaps(void)
{
	static const struct spool_writer_place place[] = {
	    {"Stdlib__List.map", "list.ml", 92, 20, 31}, {"Main.go__On", "main.ml", 7, 0, 0}};
	static const uint64_t stack[] = {0x401000, 0x401200};
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	const struct recording_location *l;
	struct reading *r;

	atomic_store(&spool_file_header(f)->ocaml_interval_log2, 12);
	spool_writer_module(w, 1, "/bin/prg", 0x400000, 0x500000, 0x1000);
	spool_writer_place(w, 2 * MS, 0x401200, place, 2);
	for (unsigned i = 0; i < 4; i++)
		spool_writer_sample(w, (10 + i) * MS, i, 24, 1,
				    (uint8_t)(i << SPOOL_FLAG_HEAP_SHIFT), stack, 2);
	spool_writer_promote(w, 20 * MS, 1);
	spool_writer_promote(w, 21 * MS, 77); /* no such block */
	spool_writer_free(w, 22 * MS, 2, 0);
	spool_writer_heap_end(w, 23 * MS);
	r = read_file(f, NULL);
	CHECK(r->t->info.complete && r->t->info.ocaml_interval_bytes == 4096);
	for (unsigned i = 0; i < 4; i++) {
		CHECK(MAYFLY_FLAG_HEAP(r->w->sample[i].block.flags) == i);
		CHECK(r->w->sample[i].block.interval_log2 == (i ? 12 : 19));
	}
	CHECK(r->w->sample[1].promoted_ns == 20 * MS && !r->w->sample[3].promoted_ns);
	CHECK(r->w->sample[0].free_ns == INT64_MAX && r->w->sample[2].free_ns == 22 * MS);
	CHECK(r->w->sample[1].free_ns == 23 * MS && r->w->sample[3].free_ns == 23 * MS);
	CHECK(leaf(r, 1) == leaf(r, 0) && leaf(r, 1)->locations == 2 && leaf(r, 1)->module == 0);
	l = &r->t->location[leaf(r, 1)->first_location];
	CHECK(!strcmp(recording_text(r->t, l->function), "Stdlib.List.map") && l->inlined);
	CHECK(l->line == 92 && l->first_char == 20 && l->last_char == 31);
	CHECK(!strcmp(recording_text(r->t, l[1].function), "Main.go__On") && !l[1].inlined);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* The rate counts when it goes with the intervals of the samples, whatever else the header holds.
 */
static void ocaml_rates(void)
{
	static const struct {
		uint32_t log2;
		double rate, expected;
	} cases[] = {
	    {19, 1e-5, 1e-5},
	    {3, 1, 1},
	    {4, 0.3, 0.3},
	    {12, 0, 8 / 4096.0},
	    {12, 1e-5, 8 / 4096.0},
	    {12, NAN, 8 / 4096.0},
	    {12, -1e-3, 8 / 4096.0},
	    {12, 1e-320, 8 / 4096.0},
	    {12, INFINITY, 8 / 4096.0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w = spool_writer_new(f, 100);
		struct reading *r;
		uint64_t bits;

		memcpy(&bits, &cases[i].rate, sizeof(bits));
		atomic_store(&spool_file_header(f)->ocaml_interval_log2, cases[i].log2);
		atomic_store(&spool_file_header(f)->ocaml_rate, bits);
		spool_writer_sample(w, MS, 1, 24, 1, SPOOL_HEAP_MINOR << SPOOL_FLAG_HEAP_SHIFT,
				    deep, 1);
		r = read_file(f, NULL);
		CHECK(r->t->info.ocaml_rate == cases[i].expected, "%zu: %g", i,
		      r->t->info.ocaml_rate);
		CHECK(r->t->info.ocaml_interval_bytes == (uint64_t)(8 / cases[i].expected + 0.5));
		reading_free(r);
		free(w);
		spool_file_free(f);
	}
}

/* Two threads, whose packets are in the file one after the other, free each other's blocks. */
static void threads_are_merged(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w[2] = {spool_writer_new(f, 100), spool_writer_new(f, 101)};
	enum { EACH = 3000 };
	struct reading *r;
	size_t crossed = 0;

	for (uint64_t i = 0; i < EACH; i++)
		for (unsigned k = 0; k < 2; k++) {
			int64_t now = (int64_t)(i * 1000 + k * 500);

			if (i == 0)
				spool_writer_thread(w[k], now, 100 + k, k ? "second" : "first");
			spool_writer_sample(w[k], now, 2 * i + k, 16 + i, 1, 0, deep,
					    (uint32_t)(i % 5 ? i % 4 : 4));
			if (i >= 10) /* the other one's */
				spool_writer_free(w[k], now + 100, 2 * (i - 10) + !k, 0);
		}
	r = read_file(f, NULL);
	CHECK(r->w->samples == 2 * EACH && r->t->info.frees == 2 * (EACH - 10));
	CHECK(unknown(r) == 0 && r->t->threads == 2);
	for (size_t i = 0; i < r->w->samples; i++) {
		const struct sample *s = &r->w->sample[i];

		CHECK(s->block.size == 16 + i / 2);
		CHECK(r->t->thread[s->block.thread].tid == 100 + i % 2);
		CHECK(depth_of(r->t, s->block.node) == (i / 2 % 5 ? i / 2 % 4 : 4));
		if (s->free_ns == INT64_MAX)
			continue;
		CHECK(r->t->thread[s->free_thread].tid == 100 + (i + 1) % 2);
		CHECK(s->free_ns == s->time_ns + 10100 + (i % 2 ? -500 : 500));
		crossed++;
	}
	CHECK(crossed == 2 * (EACH - 10));
	CHECK(r->t->info.duration_ns == (EACH - 1) * 1000 + 600);
	reading_free(r);
	free(w[0]);
	free(w[1]);
	spool_file_free(f);
}

/* Clocks of two CPUs may disagree, damaged spools tell nonsense. */
static void odd_frees(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r;

	spool_writer_sample(w, 1000, 0, 8, 1, 0, deep, 2);
	spool_writer_free(w, 900, 0, 0);
	spool_writer_free(w, 2000, 77, 0);
	spool_writer_free(w, 2100, 0, 0);
	r = read_file(f, NULL);
	CHECK(r->w->samples == 1 && r->w->sample[0].free_ns == 1000);
	CHECK(unknown(r) == 2 && r->t->info.frees == 1);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* The last name counts; a thread that has no events is not listed. */
static void thread_names(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 200), *v = spool_writer_new(f, 300);
	struct reading *r;

	spool_writer_thread(w, 10, 200, "early");
	spool_writer_sample(w, 20, 0, 8, 1, 0, deep, 1);
	spool_writer_thread(w, 30, 201, "other"); /* the writer outlived its thread */
	spool_writer_sample(w, 40, 1, 8, 1, 0, deep, 1);
	spool_writer_thread(v, 50, 300, "idle");
	spool_writer_begin(w, 60);
	spool_writer_thread(w, 60, 200, "late");
	r = read_file(f, NULL);
	CHECK(r->t->threads == 2);
	CHECK(r->t->thread[r->w->sample[0].block.thread].tid == 200);
	CHECK(
	    !strcmp(recording_text(r->t, r->t->thread[r->w->sample[0].block.thread].name), "late"));
	CHECK(r->t->thread[r->w->sample[1].block.thread].tid == 201);
	CHECK(!strcmp(recording_text(r->t, r->t->thread[r->w->sample[1].block.thread].name),
		      "other"));
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

/* A library goes, another one comes to the same addresses. */
static void addresses_are_used_again(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	const uint64_t stack[] = {0x400500, 0x10000200};
	const char *want[] = {"/a.so", "/a.so", "", "/b.so", "/b.so", "/a.so"};
	struct reading *r;

	spool_writer_module(w, 0, "/bin/prg", 0x400000, 0x500000, 0x400000);
	/* Seen by a sample just before the agent noticed it. */
	spool_writer_sample(w, 90, 0, 8, 1, 0, stack, 2);
	spool_writer_module(w, 100, "/a.so", 0x10000000, 0x10001000, 0x10000000);
	/* Another writer reports the same. */
	spool_writer_module(v, 120, "/a.so", 0x10000000, 0x10001000, 0x10000000);
	spool_writer_sample(w, 150, 1, 8, 1, 0, stack, 2);
	spool_writer_gone(w, 200, 0x10000000);
	/* Half of the range goes to b, later; nothing is mapped at 250 nor will be. */
	spool_writer_sample(w, 250, 2, 8, 1, 0, (uint64_t[]){0x400500, 0x10000f00}, 2);
	spool_writer_module(w, 300, "/b.so", 0x0ffff000, 0x10000800, 0x0ffff000);
	spool_writer_sample(w, 350, 3, 8, 1, 0, stack, 2);
	spool_writer_sample(w, 360, 4, 8, 1, 0, stack, 2);
	spool_writer_gone(v, 400, 0x0ffff000);
	spool_writer_module(v, 500, "/a.so", 0x10000000, 0x10001000, 0x10000000);
	spool_writer_sample(w, 550, 5, 8, 1, 0, stack, 2);
	r = read_file(f, NULL);
	CHECK(r->w->samples == 6 && r->t->modules == 4, "%zu %zu", r->w->samples, r->t->modules);
	for (size_t i = 0; i < r->w->samples && i < 6; i++) {
		const struct recording_frame *frame = leaf(r, i);
		const char *path = frame->module == RECORDING_NONE
				       ? ""
				       : recording_text(r->t, r->t->module[frame->module].path);

		if (i == 2) /* a.so comes back at 500: the first that is mapped there later */
			CHECK(frame->module != RECORDING_NONE &&
			      r->t->module[frame->module].from_ns == 500);
		else
			CHECK(!strcmp(path, want[i]), "%zu is in %s", i, path);
		CHECK(depth_of(r->t, r->w->sample[i].block.node) == 2);
	}
	CHECK(leaf(r, 1)->address == 0x1ff && leaf(r, 3)->address == 0x11ff);
	CHECK(leaf(r, 1)->module != leaf(r, 5)->module);
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

static void marks(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	const uint64_t cut[] = {SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0), 0x401000};
	const uint64_t elided[] = {0x401000, SPOOL_MARK(SPOOL_MARK_ELIDED, 5000), 0x402000};
	const uint64_t deeper[] = {0x401000, SPOOL_MARK(SPOOL_MARK_ELIDED, 5001), 0x402000};
	struct reading *r;
	uint32_t node;

	spool_writer_sample(w, 10, 0, 8, 1, 0, cut, 2);
	spool_writer_sample(w, 20, 1, 8, 1, 0, elided, 3);
	spool_writer_sample(w, 30, 2, 8, 1, 0, deeper, 3);
	r = read_file(f, NULL);
	CHECK(r->t->info.truncated_stacks == 1);
	node = r->t->node[r->w->sample[0].block.node].parent;
	CHECK(r->t->frame[r->t->node[node].frame].kind == MAYFLY_FRAME_TRUNCATED);
	node = r->t->node[r->w->sample[1].block.node].parent;
	CHECK(r->t->frame[r->t->node[node].frame].kind == MAYFLY_FRAME_ELIDED);
	CHECK(r->t->frame[r->t->node[node].frame].address == 4608); /* 1001 and zeros */
	/* One stack for all depths of a recursion that are about the same. */
	CHECK(r->w->sample[2].block.node == r->w->sample[1].block.node);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* ---- clocks ---- */

static void close_to(int64_t got, int64_t want, int64_t most)
{
	int64_t off = got > want ? got - want : want - got;

	CHECK(off <= most, "%lld instead of %lld", (long long)got, (long long)want);
}

/* A TSC of 2.7 GHz over a minute. The pair of one packet in ten was read 3 ms apart. */
static void tsc_is_calibrated(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 2.7123456789);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r;

	for (uint64_t i = 0; i < 600; i++) {
		spool_writer_begin(w, (int64_t)i * 100 * MS + 33);
		if (i % 10 == 5)
			spool_writer_packet(w)->mono_ns += 3 * MS;
		spool_writer_sample(w, (int64_t)i * 100 * MS + 12345678, i, 8, 1, 0, deep, 1);
	}
	r = read_file(f, NULL);
	CHECK(r->w->samples == 600);
	for (size_t i = 0; i < r->w->samples; i++)
		close_to(r->w->sample[i].time_ns, (int64_t)i * 100 * MS + 12345678, 10);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* The machine slept for an hour: its TSC went on, CLOCK_MONOTONIC did not. */
static void tsc_after_sleep(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 2);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r;

	for (uint64_t i = 0; i < 200; i++) {
		/* From packet 100 on, ticks are an hour further than ns. */
		int64_t slept = i >= 100 ? (int64_t)3600000 * MS : 0;
		int64_t now = (int64_t)i * 100 * MS;

		spool_writer_begin(w, now + slept);
		spool_writer_packet(w)->mono_ns -= (uint64_t)slept;
		spool_writer_sample(w, now + slept + 5 * MS, i, 8, 1, 0, deep, 1);
	}
	r = read_file(f, NULL);
	for (size_t i = 0; i < r->w->samples; i++)
		if (i != 99) /* nobody knows where between two packets it slept */
			close_to(r->w->sample[i].time_ns, (int64_t)i * 100 * MS + 5 * MS, 100);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

static void short_tsc_runs(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 3);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_ending ending = {.ending = MAYFLY_END_EXITED};
	struct reading *r;

	/* One packet 100 us after the start, then a second of samples. */
	spool_writer_begin(w, 100000);
	for (uint64_t i = 0; i < 10; i++)
		spool_writer_sample(w, (int64_t)i * 100 * MS + 200000, i, 8, 1, 0, deep, 1);
	r = read_file(f, &ending);
	for (size_t i = 0; i < r->w->samples; i++)
		close_to(r->w->sample[i].time_ns, (int64_t)i * 100 * MS + 200000, 1000);
	reading_free(r);
	/* The packet's pair is off by 50 us: only the recorder's pair saves the day. */
	spool_writer_packet(w)->mono_ns += 50000;
	ending.end_ticks = spool_ticks(f, 2000 * MS);
	ending.end_mono_ns = spool_file_header(f)->start_mono_ns + 2000 * (uint64_t)MS;
	r = read_file(f, &ending);
	for (size_t i = 0; i < r->w->samples; i++)
		close_to(r->w->sample[i].time_ns, (int64_t)i * 100 * MS + 200000, 1000);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* ---- states ---- */

/* What the kernel said counts more than what the agent had heard before. */
static void exit_status_of_the_agent(void)
{
	static const struct {
		uint32_t exited;
		struct spool_ending known;
		uint32_t ending;
		int32_t code;
	} cases[] = {
	    {0, {MAYFLY_END_UNKNOWN, 0, 0, 0, 0}, MAYFLY_END_UNKNOWN, 0},
	    {0, {MAYFLY_END_ENDED, 0, 0, 0, 0}, MAYFLY_END_ENDED, 0},
	    {SPOOL_EXITED | 3, {MAYFLY_END_UNKNOWN, 0, 0, 0, 0}, MAYFLY_END_EXITED, 3},
	    {SPOOL_EXITED, {MAYFLY_END_ENDED, 0, 0, 0, 0}, MAYFLY_END_EXITED, 0},
	    {SPOOL_EXITED, {MAYFLY_END_KILLED, 13, 0, 0, 0}, MAYFLY_END_KILLED, 13},
	    {SPOOL_EXITED | 5, {MAYFLY_END_EXEC, 0, 0, 0, 0}, MAYFLY_END_EXEC, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w = spool_writer_new(f, 100);
		struct reading *r;

		spool_writer_sample(w, 10 * MS, 0, 8, 1, 0, deep, 1);
		atomic_store(&spool_file_header(f)->exited, cases[i].exited);
		r = read_file(f, &cases[i].known);
		CHECK(r->t->info.ending == cases[i].ending);
		CHECK(r->t->info.ending_code == cases[i].code);
		reading_free(r);
		free(w);
		spool_file_free(f);
	}
}

/* It is said only where it is not argv, as far as both are known. */
static void title_of_the_process(void)
{
	static const struct {
		const char *argv, *seen, *title;
		uint32_t argv_bytes, seen_bytes, truncated;
	} cases[] = {
	    {"a\0b", "a\0b", "", 4, 4, 0},
	    {"a\0b", "a\0b\0c", "a b c", 4, 6, 0},
	    {"a\0b", "a\0b\0c", "", 4, 6, 1},
	    {"a\0b", "a", "a", 4, 2, 0},
	    {"a\0b", "w: x\0\0  ", "w: x", 4, 8, 0},
	    {"a\0b", "\0\0\0", "", 4, 4, 0},
	    {"", "a", "a", 0, 2, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w = spool_writer_new(f, 100);
		struct spool_ending ending = {.title = cases[i].seen,
					      .title_bytes = cases[i].seen_bytes};
		struct spool_header *h = spool_file_header(f);
		struct reading *r;

		spool_writer_sample(w, 10 * MS, 0, 8, 1, 0, deep, 1);
		h->command_offset = spool_file_text(f, cases[i].argv, cases[i].argv_bytes);
		h->command_length = cases[i].argv_bytes;
		h->command_truncated = cases[i].truncated;
		r = read_file(f, &ending);
		CHECK(!strcmp(recording_text(r->t, r->t->title), cases[i].title));
		reading_free(r);
		free(w);
		spool_file_free(f);
	}
}

static void off_ends_the_recording(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_ending ending = {MAYFLY_END_EXITED, 0, 900 * MS, 0, 0};
	struct spool_header *h;
	struct reading *r;

	spool_writer_sample(w, 10 * MS, 0, 8, 1, 0, deep, 1);
	h = spool_file_header(f);
	atomic_store(&h->state, SPOOL_OFF);
	atomic_store(&h->off_ticks, spool_ticks(f, 70 * MS));
	atomic_store(&h->off_reason, SPOOL_OFF_NO_SPACE);
	strcpy(h->off_text, "disk full");
	r = read_file(f, &ending);
	CHECK(r->t->info.ending == MAYFLY_END_OFF && r->t->info.duration_ns == 70 * MS);
	CHECK(!strcmp(recording_text(r->t, r->t->off_text), "disk full"));
	reading_free(r);
	h->off_text[0] = 0;
	r = read_file(f, &ending);
	CHECK(*recording_text(r->t, r->t->off_text));
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* Opens and closes. */
static int open_error(struct spool_file *f)
{
	struct spool_stream_options options = {0};
	int error;
	struct reading *r = open_file(f, &options, 0, &error);

	if (r)
		reading_free(r);
	return error;
}

static void headers_are_checked(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_header *h = spool_file_header(f);
	struct reading *r;

	atomic_store(&h->state, SPOOL_WAITING);
	CHECK(open_error(f) == MAYFLY_E_EMPTY);
	atomic_store(&h->state, SPOOL_RUNNING);
	h->version = 1;
	CHECK(open_error(f) == MAYFLY_E_VERSION);
	h->version = SPOOL_VERSION;
	h->features = 4;
	CHECK(open_error(f) == MAYFLY_E_VERSION);
	h->features = 0;
	h->packet_bytes = 1024;
	CHECK(open_error(f) == MAYFLY_E_DAMAGED);
	h->packet_bytes = WRITER_PACKET_BYTES + 8;
	CHECK(open_error(f) == MAYFLY_E_DAMAGED);
	h->packet_bytes = WRITER_PACKET_BYTES;
	h->mode = 2;
	CHECK(open_error(f) == MAYFLY_E_DAMAGED);
	h->mode = SPOOL_SAMPLED;
	h->magic[0] = 'X';
	CHECK(open_error(f) == MAYFLY_E_NOT_A_TRACE);
	h->magic[0] = 'M';
	r = read_file(f, NULL);
	CHECK(r->w->samples == 0 && r->t->info.complete && !*recording_text(r->t, r->t->note));
	reading_free(r);
	/* What the recorder has taken out is told of. */
	atomic_store(&h->consumed_packets, 3);
	r = read_file(f, NULL);
	CHECK(strstr(recording_text(r->t, r->t->note), "beside it"));
	reading_free(r);
	spool_file_free(f);
}

/* The sink is full: the error comes back from every call. */
static void errors_stick(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r = open_online(f);

	spool_writer_sample(w, 1000, 0, 8, 1, 0, deep, 2);
	round_at(r, 2000);
	CHECK(r->w->samples == 1);
	r->w->error = 28;
	spool_writer_sample(w, 3000, 1, 8, 1, 0, deep, 2);
	CHECK(spool_stream_advance(r->s, spool_ticks(f, 4000), 0, NULL) == 28);
	r->w->error = 0;
	CHECK(spool_stream_advance(r->s, spool_ticks(f, 5000), 0, NULL) == 28);
	CHECK(spool_stream_finish(r->s, NULL) == 28);
	CHECK(r->w->samples == 1);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* ---- forks ---- */

static void children_inherit(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 2.5);
	struct spool_file *g = spool_file_new(SPOOL_CLOCK_TSC, 2.5);
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(g, 200);
	struct spool_header *h;
	struct reading *parent, *child;
	const uint64_t fork_ns = 500 * MS;
	size_t inherited = 0;

	spool_writer_thread(w, 0, 100, "parent");
	spool_writer_module(w, 0, "/old.so", 0x300000, 0x400000, 0x300000);
	spool_writer_module(w, 1, "/bin/prg", 0x400000, 0x500000, 0x400000);
	/* 0, 1, 2: live at the fork; 3: freed before; 4: after the fork; 2 is freed after it. */
	spool_writer_sample(w, 10 * MS, 0, 1000, 1, SPOOL_FLAG_REALLOC, deep, 3);
	spool_writer_sample(w, 20 * MS, 1, 1001, 1, 0, (uint64_t[]){0x300100}, 1);
	spool_writer_gone(w, 21 * MS, 0x300000);
	spool_writer_sample(w, 30 * MS, 2, 1002, 1, 0, deep, 2);
	spool_writer_sample(w, 40 * MS, 3, 1003, 1, 0, deep, 2);
	spool_writer_free(w, 50 * MS, 3, 0);
	for (int i = 2; i < 100; i++) { /* for the clock */
		spool_writer_begin(w, i * 100 * MS);
		if (i == 5)
			spool_writer_fork(w, (int64_t)fork_ns);
		else
			spool_writer_thread(w, i * 100 * MS, 100, "parent");
	}
	spool_writer_sample(w, 9990 * MS, 4, 1004, 1, 0, deep, 3);
	spool_writer_free(w, 9991 * MS, 2, 0);
	parent = read_file(f, NULL);
	CHECK(parent->w->samples == 5 && parent->w->sample[2].free_ns != INT64_MAX);

	h = spool_file_header(g);
	h->fork_ticks = spool_ticks(f, (int64_t)fork_ns);
	h->start_ticks = h->fork_ticks + 1000;
	h->start_mono_ns += fork_ns + 400;
	h->first_sample_id = 4;
	h->fork_parent_pid = 100;
	spool_writer_thread(v, 10, 200, "child");
	spool_writer_module(v, 10, "/bin/prg", 0x400000, 0x500000, 0x400000);
	spool_writer_sample(v, 1 * MS, 4, 77, 1, 0, deep, 3);
	spool_writer_free(v, 2 * MS, 0, 0);
	spool_writer_free(v, 3 * MS, 4, 0);
	spool_writer_free(v, 4 * MS, 3, 0);
	child = read_child(g, NULL, parent);
	CHECK(child->w->samples == 4 && child->t->info.inherited == 3, "%zu", child->w->samples);
	CHECK(unknown(child) == 1 && child->t->info.frees == 2);
	for (size_t i = 0; i < child->w->samples; i++) {
		const struct sample *s = &child->w->sample[i];

		if (!(s->block.flags & MAYFLY_FLAG_INHERITED))
			continue;
		inherited++;
		CHECK(s->time_ns == 0 && s->block.size == 1000 + i);
		CHECK(child->t->thread[s->block.thread].tid == 100);
		CHECK(!strcmp(recording_text(child->t, child->t->thread[s->block.thread].name),
			      "parent"));
	}
	CHECK(inherited == 3);
	CHECK(child->w->sample[0].free_ns != INT64_MAX && child->w->sample[2].free_ns == INT64_MAX);
	CHECK(child->w->sample[0].block.flags == (MAYFLY_FLAG_INHERITED | MAYFLY_FLAG_REALLOC));
	/* The same stack from both processes is one node; the old library came along. */
	CHECK(child->w->sample[0].block.node == child->w->sample[3].block.node);
	CHECK(leaf(child, 1)->module != RECORDING_NONE &&
	      !strcmp(recording_text(child->t, child->t->module[leaf(child, 1)->module].path),
		      "/old.so"));
	CHECK(child->t->modules == 2);
	reading_free(child);

	/* The fork has been taken; without it the frees of what was inherited mean nothing. */
	child = read_child(g, NULL, parent);
	CHECK(child->w->samples == 1 && unknown(child) == 2);
	reading_free(child);
	reading_free(parent);
	free(w);
	free(v);
	spool_file_free(f);
	spool_file_free(g);
}

/* Exact: blocks of the parent by their addresses; many forks, of which the latest are kept. */
static void exact_children_inherit(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	const uint64_t cut[] = {SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0), 0x401000};
	struct reading *parent;

	spool_file_header(f)->mode = SPOOL_EXACT;
	for (uint64_t i = 0; i < 100; i++) {
		spool_writer_alloc(w, (int64_t)i * 100, 0x10000 + 16 * i, i, 0, i ? deep : cut,
				   i ? 3 : 2);
		spool_writer_fork(w, (int64_t)i * 100 + 50);
	}
	spool_writer_release(w, 20000, 0x10000, 0);
	parent = open_online(f);
	round_at(parent, 30000);
	for (uint64_t i = 0; i < 100; i += 33) {
		struct spool_file *g = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *v = spool_writer_new(g, 200);
		struct spool_header *h = spool_file_header(g);
		struct reading *child;

		h->mode = SPOOL_EXACT;
		h->fork_ticks = spool_ticks(f, (int64_t)i * 100 + 50);
		h->start_ticks = h->start_mono_ns = h->fork_ticks + 10;
		h->fork_parent_pid = 100;
		spool_writer_alloc(v, 10, 0x900000, 5, 0, deep, 3);
		spool_writer_release(v, 20, 0x10000, 0);
		spool_writer_release(v, 30, 0x900000, 0);
		child = read_child(g, NULL, parent);
		if (i == 0 || i == 33) { /* forgotten */
			CHECK(child->w->samples == 1 && unknown(child) == 1);
		} else {
			CHECK(child->w->samples == i + 2 && unknown(child) == 0);
			CHECK(child->t->info.inherited == i + 1 && child->w->frees == 2);
			CHECK(child->t->info.truncated_stacks == 1);
			CHECK(child->w->sample[0].free_ns == 20);
			/* It was the parent's thread that had allocated it. */
			CHECK(child->w->sample[0].free_flags == 0);
			CHECK(child->w->sample[i].block.size == i);
			CHECK(child->w->sample[i].block.node == child->w->sample[i + 1].block.node);
			CHECK(child->w->sample[i + 1].free_flags == MAYFLY_FLAG_TEMPORARY);
		}
		reading_free(child);
		free(v);
		spool_file_free(g);
	}
	reading_free(parent);
	free(w);
	spool_file_free(f);
}

/* ---- exact ---- */

/* Blocks of OCaml's have ids there, which are no addresses; one of malloc's with an id is damage. */
static void ocaml_among_exact(void)
{
	for (int damaged = 0; damaged < 2; damaged++) {
		struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
		struct spool_writer *w = spool_writer_new(f, 100);
		uint8_t minor = SPOOL_HEAP_MINOR << SPOOL_FLAG_HEAP_SHIFT;
		struct reading *r;

		spool_file_header(f)->mode = SPOOL_EXACT;
		atomic_store(&spool_file_header(f)->ocaml_interval_log2, 3);
		/* The address is that of the id among keys. */
		spool_writer_alloc(w, 10, 0x60, 100, 0, deep, 3);
		spool_writer_sample(w, 20, 5, 24, 3, minor, deep, 2);
		spool_writer_release(w, 30, 0x60, 0);
		spool_writer_free(w, 40, 5, 0);
		spool_writer_free(w, 50, 6, 0);
		if (damaged)
			spool_writer_sample(w, 60, 7, 24, 3, 0, deep, 2);
		r = read_file(f, NULL);
		CHECK(r->w->samples == 2 && r->w->frees == 2 && unknown(r) == 1);
		CHECK(r->w->sample[0].block.size == 100 && r->w->sample[0].free_ns == 30);
		CHECK(r->w->sample[0].free_flags == MAYFLY_FLAG_TEMPORARY);
		CHECK(r->w->sample[1].block.size == 24 && r->w->sample[1].free_ns == 40);
		CHECK(r->w->sample[1].block.hits == 0 && r->w->sample[1].free_flags == 0);
		CHECK(MAYFLY_FLAG_HEAP(r->w->sample[1].block.flags) == MAYFLY_HEAP_OCAML_MINOR);
		CHECK(r->t->info.complete == !damaged);
		reading_free(r);
		free(w);
		spool_file_free(f);
	}
}

/* Blocks of heap 6, by their ids in both modes. Each part that is left is a block of its own; who tells of a
 * part first does not matter. */
static void mappings(bool exact)
{
	const uint8_t heap = SPOOL_HEAP_MAPPING << SPOOL_FLAG_HEAP_SHIFT;
	const uint32_t flags = MAYFLY_HEAP_MAPPING << MAYFLY_FLAG_HEAP_SHIFT;
	struct spool_file *f = exact ? exact_file() : spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	struct reading *r;
	const struct sample *s;

	if (exact) { /* where the key of block 1 would be, if it were an address */
		spool_writer_alloc(w, 10, 2 << 4, 7, 0, deep, 1);
		spool_writer_release(w, 20, 2 << 4, 0);
	} else {
		spool_writer_sample(w, 10, 9, 7, 1, 0, deep, 1);
		spool_writer_free(w, 20, 9, SPOOL_FLAG_TEMPORARY);
	}
	spool_writer_sample(w, 100, 1, 1000, 0, heap, deep, 3);
	spool_writer_sample(w, 200, 2, 500, 0, heap | SPOOL_FLAG_REALLOC, deep, 2);
	spool_writer_shrink(v, 300, 1, 100, 0);
	spool_writer_shrink(w, 250, 1, 300, 0); /* of another writer, and later in the file */
	spool_writer_shrink(w, 400, 2, 500, SPOOL_FLAG_REALLOC);
	spool_writer_shrink(w, 500, 3, 1, 0); /* an unknown one */
	spool_writer_shrink(v, 600, 1, 600, 0);
	spool_writer_sample(w, 700, 4, 64, 0, heap, deep, 1);
	r = read_file(f, NULL);
	s = r->w->sample;
	CHECK(r->w->samples == 6 && r->w->frees == 5 && unknown(r) == 1);
	CHECK(s[0].free_ns == 20 && s[0].free_flags == MAYFLY_FLAG_TEMPORARY);
	CHECK(s[1].block.size == 1000 && s[1].free_ns == 250 && s[1].block.flags == flags);
	CHECK(s[1].free_flags == MAYFLY_FLAG_REALLOC);
	CHECK(s[2].block.size == 500 && s[2].free_ns == 400);
	CHECK(s[2].block.flags == (flags | MAYFLY_FLAG_REALLOC));
	CHECK(s[2].free_flags == MAYFLY_FLAG_REALLOC);
	CHECK(s[3].block.size == 700 && s[3].time_ns == 250 && s[3].free_ns == 300);
	CHECK(s[3].block.node == s[1].block.node && s[3].block.thread == s[1].block.thread);
	CHECK(s[3].block.flags == (flags | MAYFLY_FLAG_REALLOC));
	CHECK(s[4].block.size == 600 && s[4].free_ns == 600 && s[4].free_flags == 0);
	CHECK(s[5].block.size == 64 && s[5].free_ns == INT64_MAX);
	CHECK(r->t->info.mapped_bytes == 64 && r->t->info.mapped_blocks == 1);
	CHECK(r->t->info.mapped_peak_bytes == 1500);
	CHECK(r->t->info.missed_frees == 0);
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

static void mappings_sampled(void)
{
	mappings(false);
}

static void mappings_exact(void)
{
	mappings(true);
}

static void exact_spool(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	struct reading *r;
	const struct sample *s;

	spool_writer_module(w, 1, "/bin/prg", 0x400000, 0x500000, 0x1000);
	spool_writer_alloc(w, 10, 0x7000, 24, 0, deep, 4);
	spool_writer_alloc(w, 20, 0x8000, 5000000000u, 0, deep, 2);
	spool_writer_release(w, 30, 0x8000, 0);		  /* 1: temporary */
	spool_writer_release(w, 40, 0x7000, 0);		  /* 0: not, 1 came between */
	spool_writer_alloc(w, 50, 0x7000, 1, 0, deep, 0); /* 2 */
	spool_writer_release(v, 60, 0x7000, 0);		  /* another thread */
	spool_writer_release(v, 70, 0x7000, 0);		  /* unknown */
	spool_writer_alloc(v, 80, 0x9000, 7, 0, deep, 3); /* 3 */
	spool_writer_release(v, 90, 0x9000, SPOOL_FLAG_REALLOC);
	spool_writer_alloc(v, 100, 0xa000, 8, SPOOL_FLAG_REALLOC, deep, 3); /* 4 */
	spool_writer_release(v, 110, 0xa000, SPOOL_FLAG_REALLOC);
	spool_writer_undo(v, 120);				  /* stays */
	spool_writer_alloc(w, 125, 0xb000, 9, 0, deep, 3);	  /* 5 */
	spool_writer_release(v, 130, 0xa000, SPOOL_FLAG_REALLOC); /* realloc to nothing */
	spool_writer_release(v, 140, 0xb000, SPOOL_FLAG_REALLOC); /* nothing follows */
	r = read_file(f, NULL);
	s = r->w->sample;
	CHECK(r->w->samples == 6 && r->w->frees == 6 && unknown(r) == 1);
	CHECK(r->t->info.mode == MAYFLY_EXACT && r->t->info.complete);
	CHECK(s[0].time_ns == 10 && s[0].free_ns == 40 && !s[0].free_flags &&
	      s[0].block.size == 24);
	CHECK(s[1].free_ns == 30 && s[1].free_flags == MAYFLY_FLAG_TEMPORARY);
	CHECK(s[1].block.size == 5000000000u);
	CHECK(s[2].free_ns == 60 && !s[2].free_flags && s[2].block.node == 0);
	CHECK(r->t->thread[s[2].free_thread].tid == 101);
	CHECK(s[3].free_ns == 90);
	CHECK(s[3].free_flags == (MAYFLY_FLAG_REALLOC | MAYFLY_FLAG_TEMPORARY));
	CHECK(s[4].time_ns == 100 && s[4].block.flags == MAYFLY_FLAG_REALLOC);
	CHECK(s[4].free_ns == 130 && s[4].block.node == s[3].block.node);
	CHECK(s[5].free_ns == 140 && s[5].free_flags == MAYFLY_FLAG_REALLOC);
	CHECK(depth_of(r->t, s[0].block.node) == 4 && depth_of(r->t, s[3].block.node) == 3);
	CHECK(leaf(r, 1)->module == 0 && leaf(r, 1)->address == 0x401100 - 1 - 0x1000);
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

/* Stacks that need more than the 6 bits of pop and push. */
static void exact_deep_stacks(void)
{
	struct spool_file *f = spool_file_sized(SPOOL_CLOCK_MONOTONIC, 1, 65536, 1 << 20);
	struct spool_writer *w = spool_writer_new(f, 100);
	const uint32_t depths[] = {62, 0, 63, 64, 1, 2048, 2000, 5, 130};
	uint64_t stack[SPOOL_MAX_FRAMES];
	struct reading *r;

	spool_file_header(f)->mode = SPOOL_EXACT;
	for (uint32_t i = 0; i < SPOOL_MAX_FRAMES; i++)
		stack[i] = 0x400000 + i % 97 * 16;
	for (uint32_t i = 0; i < 9; i++)
		spool_writer_alloc(w, i, 0x1000 + i, 1, 0, stack, depths[i]);
	r = read_file(f, NULL);
	CHECK(r->w->samples == 9 && r->t->info.complete);
	for (uint32_t i = 0; i < 9 && i < r->w->samples; i++) {
		uint32_t node = r->w->sample[i].block.node;

		CHECK(depth_of(r->t, node) == depths[i]);
		for (uint32_t k = depths[i]; node && k--; node = r->t->node[node].parent)
			CHECK(r->t->frame[r->t->node[node].frame].address == stack[k] - 1);
	}
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* An address that is live is allocated again; a RELEASE that belongs to an older block. */
static void missed_and_late_frees(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	struct reading *r;
	const struct sample *s;

	/* The free went past the hooks; the new block is freed in its time. */
	spool_writer_alloc(w, 10000, 0x1000, 1, 0, deep, 1);
	spool_writer_alloc(w, 20000, 0x1000, 2, 0, deep, 1);
	spool_writer_release(w, 30000, 0x1000, 0);
	/* The clocks of two CPUs are at odds: v's free of block 2 comes 300 ns late. */
	spool_writer_alloc(w, 40000, 0x2000, 3, 0, deep, 1);
	spool_writer_alloc(w, 50000, 0x2000, 4, 0, deep, 1);
	spool_writer_release(v, 50300, 0x2000, 0);
	spool_writer_release(v, 50900, 0x2000, 0); /* of block 3, that soon */
	/* A microsecond is the most. */
	spool_writer_alloc(w, 60000, 0x3000, 5, 0, deep, 1);
	spool_writer_alloc(w, 70000, 0x3000, 6, 0, deep, 1);
	spool_writer_release(v, 71500, 0x3000, 0);
	/* A signal handler's free, which was written late. */
	spool_writer_alloc(w, 80000, 0x4000, 7, 0, deep, 1);
	spool_writer_release(w, 79000, 0x4000, 0);
	/* The same, of a block whose address has been allocated again meanwhile: it is not missed. */
	spool_writer_alloc(w, 90000, 0x5000, 8, 0, deep, 1);
	spool_writer_alloc(w, 91000, 0x5000, 9, 0, deep, 1);
	spool_writer_release(w, 90500, 0x5000, 0);
	r = read_file(f, NULL);
	s = r->w->sample;
	CHECK(r->w->samples == 9 && r->w->frees == 7 && unknown(r) == 2);
	CHECK(r->t->info.missed_frees == 2);
	CHECK(s[0].free_ns == 20000 && s[0].free_flags == 0);
	CHECK(s[1].free_ns == 30000 && s[1].free_flags == MAYFLY_FLAG_TEMPORARY);
	CHECK(s[2].free_ns == 50000 && s[3].free_ns == 50900);
	CHECK(s[4].free_ns == 70000 && s[5].free_ns == 71500);
	CHECK(s[6].time_ns == 80000 && s[6].free_ns == INT64_MAX);
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

/* A realloc has moved its block, and another thread has the address before the outcome is there: often,
 * where a thread has to wait for a CPU. Then the block has gone, whatever became of the other one. */
static void reallocs_are_overtaken(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	struct reading *r = open_online(f);
	const struct sample *s;

	spool_writer_alloc(w, 10, 0x1000, 1, 0, deep, 1);
	spool_writer_alloc(w, 11, 0x2000, 2, 0, deep, 1);
	spool_writer_release(w, 20, 0x1000, SPOOL_FLAG_REALLOC);
	spool_writer_alloc(v, 130, 0x1000, 3, 0, deep, 1);
	spool_writer_alloc(v, 131, 0x3000, 4, 0, deep, 1);
	spool_writer_release(v, 140, 0x1000, 0);
	spool_writer_alloc(v, 150, 0x1000, 5, 0, deep, 1);
	round_at(r, 200);
	s = r->w->sample;
	CHECK(r->w->samples == 5 && r->w->frees == 2);
	CHECK(s[0].free_ns == 130 && s[0].free_flags == MAYFLY_FLAG_REALLOC);
	CHECK(s[0].free_thread == s[0].block.thread);
	CHECK(s[2].free_ns == 140);
	spool_writer_alloc(w, 210, 0x4000, 6, SPOOL_FLAG_REALLOC, deep, 1);
	spool_writer_release(w, 220, 0x2000, SPOOL_FLAG_REALLOC);
	round_at(r, 300);
	CHECK(r->w->samples == 6 && r->w->frees == 2);
	spool_writer_undo(w, 310);
	/* Nobody has told of this one's end. */
	spool_writer_alloc(v, 320, 0x3000, 7, 0, deep, 1);
	finish(r, NULL);
	CHECK(r->w->frees == 3 && r->t->info.missed_frees == 1);
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

/* A realloc whose outcome is not there yet holds its writer, and nobody else. */
static void reallocs_wait(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	struct reading *r = open_online(f);

	spool_writer_alloc(w, 10, 0x1000, 1, 0, deep, 1);
	spool_writer_alloc(w, 11, 0x2000, 2, 0, deep, 1);
	spool_writer_release(w, 20, 0x1000, SPOOL_FLAG_REALLOC);
	spool_writer_alloc(v, 30, 0x3000, 3, 0, deep, 1);
	round_at(r, 100);
	CHECK(r->w->samples == 3 && r->w->frees == 0);
	spool_writer_undo(w, 120);
	round_at(r, 200);
	CHECK(r->w->frees == 0);
	spool_writer_release(w, 220, 0x2000, SPOOL_FLAG_REALLOC);
	round_at(r, 300);
	CHECK(r->w->frees == 0);
	/* The outcome is in the writer's next packet, which begins with its thread's name. */
	spool_writer_begin(w, 320);
	round_at(r, 400);
	spool_writer_thread(w, 330, 100, "w");
	round_at(r, 500);
	CHECK(r->w->frees == 0);
	spool_writer_alloc(w, 510, 0x2000, 4, SPOOL_FLAG_REALLOC, deep, 1);
	round_at(r, 600);
	CHECK(r->w->frees == 1 && r->w->samples == 4);
	CHECK(r->w->sample[1].free_ns == 500 &&
	      r->w->sample[1].free_flags == (MAYFLY_FLAG_REALLOC | MAYFLY_FLAG_TEMPORARY));
	spool_writer_release(w, 610, 0x1000, SPOOL_FLAG_REALLOC);
	spool_writer_begin(w, 620);
	spool_writer_thread(w, 620, 100, "w");
	spool_writer_undo(w, 630);
	spool_writer_release(w, 640, 0x2000, SPOOL_FLAG_REALLOC);
	round_at(r, 700);
	CHECK(r->w->frees == 1);
	finish(r, NULL);
	CHECK(r->w->frees == 2 && r->w->sample[0].free_ns == INT64_MAX);
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

/* What was committed only after the round that it belonged to comes at the time then reached. */
static void late_commits(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(f, 101);
	struct reading *r = open_online(f);

	spool_writer_alloc(w, 10, 0x1000, 1, 0, deep, 1);
	spool_writer_alloc(v, 15, 0x1100, 1, 0, deep, 1);
	w->hold = true;
	spool_writer_alloc(w, 20, 0x2000, 2, 0, deep, 1);
	spool_writer_alloc(v, 150, 0x3000, 3, 0, deep, 1);
	round_at(r, 100);
	CHECK(r->w->samples == 2, "%zu", r->w->samples);
	spool_writer_commit(w);
	spool_writer_release(v, 160, 0x2000, 0);
	round_at(r, 155);
	CHECK(r->w->samples == 4 && r->w->frees == 0);
	CHECK(r->w->sample[2].time_ns == 100 && r->w->sample[2].block.size == 2);
	CHECK(r->w->sample[3].time_ns == 150);
	finish(r, NULL);
	CHECK(r->w->frees == 1 && r->w->sample[2].free_ns == 160);
	reading_free(r);
	free(w);
	free(v);
	spool_file_free(f);
}

/* A packet that was begun after the search for packets began waits with all that come after it. */
static void packets_keep_their_order(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r = open_online(f);
	struct spool_packet *second;

	spool_writer_alloc(w, 10, 0x1000, 1, 0, deep, 1);
	spool_writer_begin(w, 20);
	second = spool_writer_packet(w);
	spool_writer_alloc(w, 20, 0x2000, 2, 0, deep, 1);
	spool_writer_begin(w, 30);
	spool_writer_alloc(w, 30, 0x3000, 3, 0, deep, 1);
	/* The search sees the third packet, but not yet the second, nor its claim. */
	second->magic = 0;
	atomic_fetch_sub(&spool_file_header(f)->claims, 2);
	round_at(r, 100);
	CHECK(r->w->samples == 1);
	second->magic = SPOOL_PACKET_MAGIC;
	atomic_fetch_add(&spool_file_header(f)->claims, 2);
	round_at(r, 200);
	CHECK(r->w->samples == 3);
	for (uint64_t i = 0; i < 3; i++)
		CHECK(r->w->sample[i].block.size == i + 1);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* A packet is given back when its writer has a later one and its events are written; and only
 * then. */
static void packets_are_given_back(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_stream_status status;
	struct reading *r = open_online(f);

	r->wipe = true;
	r->w->chunk_events = 4;
	spool_writer_alloc(w, 10, 0x1000, 1, 0, deep, 1);
	spool_writer_alloc(w, 11, 0x2000, 1, 0, deep, 1);
	round_at(r, 100);
	spool_writer_begin(w, 110);
	round_at(r, 200);
	CHECK(r->done == 0); /* two events of four */
	spool_writer_alloc(w, 210, 0x3000, 1, 0, deep, 1);
	round_at(r, 300);
	CHECK(r->done == 0);
	spool_writer_alloc(w, 310, 0x4000, 1, 0, deep, 1);
	spool_stream_status(r->s, &status);
	CHECK(status.held_packets == 2);
	round_at(r, 400);
	CHECK(r->done == 1 && f->recycled_count == 1 && f->recycled[0] == 0);
	/* The second one is in use although its events are written. */
	round_at(r, 500);
	CHECK(r->done == 1);
	/* The first place is taken again. */
	spool_writer_begin(w, 510);
	CHECK(f->recycled_count == 0 && w->packet == WRITER_HEADER_BYTES);
	for (uint64_t i = 0; i < 8; i++)
		spool_writer_release(w, 520 + (int64_t)i, 0x1000 * (i + 1), 0);
	round_at(r, 600);
	CHECK(r->w->frees == 4 && r->done == 2, "%zu", r->done);
	finish(r, NULL);
	CHECK(r->t->info.complete);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* ---- histories ---- */

static uint64_t chance_state;

static uint32_t chance(uint32_t limit)
{
	chance_state = chance_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(chance_state >> 33) % limit;
}

#define PLACES	600u
#define THREADS 5u

/* What should come of a history: kept beside it as it is made. */
struct model {
	struct event *event; /* in order */
	size_t events;
	struct sample *sample; /* block.thread: the tid; block.node: of which stack */
	size_t samples;
	uint32_t live[PLACES];	/* sample + 1 */
	uint32_t last[THREADS]; /* sample + 1, of the thread's latest allocation */
	uint64_t unknown;
};

/* Stacks are many, share their beginnings, and can be made again from their number. */
static uint32_t model_stack(uint32_t number, uint64_t *stack)
{
	uint32_t depth = number % 41;

	for (uint32_t k = 0; k < depth; k++)
		stack[k] = 0x400000 + k * 256 + (k < 5 ? 0 : number >> k % 8 & 15);
	return depth;
}

static void model_alloc(struct model *m, int64_t ns, uint32_t place, uint64_t size, uint32_t thread,
			uint32_t stack, uint32_t flags)
{
	m->sample[m->samples] = (struct sample){
	    .block = {.size = size, .node = stack, .thread = thread, .flags = (uint8_t)flags},
	    .time_ns = ns,
	    .free_ns = INT64_MAX,
	};
	m->event[m->events++] = (struct event){ns, m->samples++, false};
	m->live[place] = m->last[thread] = (uint32_t)m->samples;
}

static void model_free(struct model *m, int64_t ns, uint32_t place, uint32_t thread, uint32_t flags)
{
	struct sample *s;

	if (!m->live[place]) {
		m->unknown++;
		return;
	}
	s = &m->sample[m->live[place] - 1];
	s->free_ns = ns;
	s->free_thread = thread;
	s->free_flags = flags;
	if (s->block.thread == thread && m->last[thread] == m->live[place])
		s->free_flags |= MAYFLY_FLAG_TEMPORARY;
	m->event[m->events++] = (struct event){ns, m->live[place] - 1, true};
	m->live[place] = 0;
}

static uint64_t place_address(uint32_t place)
{
	return 0x555500000000u + place * 0x30u;
}

/* One thing that happens: an allocation, a free, a realloc that succeeds or fails. */
static int64_t model_step(struct model *m, struct spool_writer **w, int64_t now)
{
	uint32_t t = chance(THREADS), place = chance(PLACES), other = chance(PLACES);
	uint32_t number = chance(3000), kind = chance(100);
	uint64_t stack[64], size = chance(1000000) >> chance(20);
	uint32_t depth = model_stack(number, stack);

	if (kind < 5) { /* fails, if there is a block */
		spool_writer_release(w[t], now, place_address(place), SPOOL_FLAG_REALLOC);
		spool_writer_undo(w[t], now + 1);
	} else if (kind < 25) {
		spool_writer_release(w[t], now, place_address(place), SPOOL_FLAG_REALLOC);
		model_free(m, now, place, t, MAYFLY_FLAG_REALLOC);
		if (m->live[other])
			other = place;
		spool_writer_alloc(w[t], now + 3, place_address(other), size, SPOOL_FLAG_REALLOC,
				   stack, depth);
		model_alloc(m, now + 3, other, size, t, number, MAYFLY_FLAG_REALLOC);
	} else if (m->live[place] || kind < 30) {
		spool_writer_release(w[t], now, place_address(place), 0);
		model_free(m, now, place, t, 0);
	} else {
		spool_writer_alloc(w[t], now, place_address(place), size, 0, stack, depth);
		model_alloc(m, now, place, size, t, number, 0);
		if (chance(3) == 0) { /* at once */
			spool_writer_release(w[t], now + 2, place_address(place), 0);
			model_free(m, now + 2, place, t, 0);
		}
	}
	return now + 5 + chance(chance(50) ? 30 : 3000);
}

static bool same_stack(const struct reading *r, uint32_t node, uint32_t number)
{
	uint64_t stack[64];
	uint32_t depth = model_stack(number, stack);

	for (; depth && node; node = r->t->node[node].parent)
		if (r->t->frame[r->t->node[node].frame].address != stack[--depth] - 1)
			return false;
	return !depth && !node;
}

static void compare_model(const struct reading *r, const struct model *m)
{
	CHECK(r->w->events == m->events && r->w->samples == m->samples, "%zu %zu, not %zu %zu",
	      r->w->events, r->w->samples, m->events, m->samples);
	for (size_t i = 0; i < r->w->events && i < m->events; i++)
		CHECK(r->w->event[i].time_ns == m->event[i].time_ns &&
		      r->w->event[i].serial == m->event[i].serial &&
		      r->w->event[i].is_free == m->event[i].is_free);
	for (size_t i = 0; i < r->w->samples && i < m->samples; i++) {
		const struct sample *got = &r->w->sample[i], *want = &m->sample[i];

		CHECK(got->time_ns == want->time_ns && got->free_ns == want->free_ns);
		CHECK(got->block.size == want->block.size && got->block.flags == want->block.flags);
		CHECK(got->free_flags == want->free_flags);
		CHECK(r->t->thread[got->block.thread].tid == 100 + want->block.thread);
		if (want->free_ns != INT64_MAX)
			CHECK(r->t->thread[got->free_thread].tid == 100 + want->free_thread);
		CHECK(same_stack(r, got->block.node, want->block.node));
	}
	CHECK(unknown(r) == m->unknown);
}

/* Random histories, read while they are made and afterwards: the same comes of both. */
static void history(uint32_t steps, bool recycle)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w[THREADS];
	struct model m = {0};
	struct reading *online = open_online(f), *whole;
	int64_t now = 100;

	online->w->chunk_events = 100 + chance(1000);
	online->wipe = recycle;
	m.event = calloc(3 * steps + 1, sizeof(*m.event));
	m.sample = calloc(3 * steps + 1, sizeof(*m.sample));
	for (uint32_t t = 0; t < THREADS; t++)
		w[t] = spool_writer_new(f, 100 + t);
	for (uint32_t i = 0; i < steps; i++) {
		now = model_step(&m, w, now);
		if (chance(20) == 0) /* all that is there, or not quite */
			round_at(online, now - (int64_t)chance(400));
	}
	finish(online, NULL);
	compare_model(online, &m);
	CHECK(online->t->info.complete);
	if (recycle) { /* the file is far smaller than what went through it */
		CHECK(online->done > 2 * (f->size - WRITER_HEADER_BYTES) / WRITER_PACKET_BYTES,
		      "%zu of %zu", online->done, f->size / WRITER_PACKET_BYTES);
	} else {
		whole = read_file(f, NULL);
		compare_model(whole, &m);
		reading_free(whole);
	}
	reading_free(online);
	for (uint32_t t = 0; t < THREADS; t++)
		free(w[t]);
	free(m.event);
	free(m.sample);
	spool_file_free(f);
}

static void histories(void)
{
	chance_state = 1;
	for (uint32_t i = 0; i < 12; i++)
		history(i == 0 ? 40000 : 3000, false);
}

static void histories_in_used_packets(void)
{
	chance_state = 2;
	for (uint32_t i = 0; i < 12; i++)
		history(i == 0 ? 60000 : 20000, true);
}

/* Anything at all: late commits, frees of anything by anybody, addresses allocated twice. No order
 * is promised between these, but that each call makes sense, which the imitation checks. */
static void wild_histories(void)
{
	chance_state = 3;
	for (uint32_t i = 0; i < 25; i++) {
		struct spool_file *f = exact_file();
		struct spool_writer *w[THREADS];
		struct reading *r = open_online(f);
		uint64_t allocated = 0;
		int64_t now = 1000;

		r->w->chunk_events = 1 + chance(2000);
		r->wipe = i % 2;
		for (uint32_t t = 0; t < THREADS; t++)
			w[t] = spool_writer_new(f, 100 + t);
		for (uint32_t k = 0; k < 5000; k++) {
			struct spool_writer *v = w[chance(THREADS)];
			uint64_t address = place_address(chance(50));
			int64_t then = now - (int64_t)(chance(10) ? 0 : chance(1000));
			uint32_t kind = chance(20);

			/* A packet must not end with records held back. */
			if (chance(10) == 0 && v->packet &&
			    v->used + 700 < WRITER_PACKET_BYTES - sizeof(struct spool_packet))
				v->hold = true;
			else
				spool_writer_commit(v);
			if (v->used + 600 > WRITER_PACKET_BYTES - sizeof(struct spool_packet))
				spool_writer_commit(v);
			if (kind < 10) {
				spool_writer_alloc(v, then, address, k, kind & 1, deep, kind % 5);
				allocated++;
			} else if (kind < 19) {
				spool_writer_release(v, then, address, kind & 1);
			} else {
				spool_writer_lost(v, then, 1, 1, 0);
			}
			now += chance(200);
			if (chance(30) == 0)
				round_at(r, now);
		}
		for (uint32_t t = 0; t < THREADS; t++)
			spool_writer_commit(w[t]);
		finish(r, NULL);
		CHECK(r->w->samples == allocated && r->t->info.complete);
		CHECK(r->t->info.dropped_samples > 0);
		reading_free(r);
		for (uint32_t t = 0; t < THREADS; t++)
			free(w[t]);
		spool_file_free(f);
	}
}

/* Dropped records: nobody knows what the thread did in between. */
static void lost_records(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r;

	spool_writer_alloc(w, 10, 0x1000, 1, 0, deep, 1);
	spool_writer_lost(w, 20, 3, 4, 0);
	spool_writer_release(w, 30, 0x1000, 0);
	atomic_store(&spool_file_header(f)->dropped_frees, 9);
	r = read_file(f, NULL);
	CHECK(r->w->frees == 1 && r->w->sample[0].free_flags == 0);
	CHECK(r->t->info.dropped_samples == 3 && r->t->info.dropped_frees == 9);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* ---- thinned traces ---- */

static uint64_t keep_even(void *context, uint64_t serial)
{
	(void)context;
	return serial % 2 ? TRACE_THINNED : serial / 2;
}

static void blocks_are_renumbered(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r = open_online(f);
	struct trace_writer *old, *fresh;
	uint64_t serial;

	for (uint64_t i = 0; i < 10; i++)
		spool_writer_sample(w, 10 + (int64_t)i, i, 100 + i, 1, 0, deep, 1);
	round_at(r, 100);
	old = r->w;
	fresh = trace_writer_new(&old->options, r->t, NULL, NULL);
	for (size_t i = 0; i < 10; i += 2)
		trace_writer_alloc(fresh, old->sample[i].time_ns, &old->sample[i].block, &serial);
	spool_stream_renumber(r->s, fresh, keep_even, NULL);
	for (uint64_t i = 0; i < 10; i += 3)
		spool_writer_free(w, 200 + (int64_t)i, i, 0);
	spool_writer_sample(w, 300, 10, 110, 1, 0, deep, 1);
	spool_writer_free(w, 310, 10, 0);
	CHECK(spool_stream_finish(r->s, NULL) == 0);
	CHECK(old->frees == 0 && fresh->samples == 6 && fresh->frees == 3);
	CHECK(fresh->sample[0].free_ns == 200 && fresh->sample[3].free_ns == 206);
	CHECK(fresh->sample[5].free_ns == 310);
	r->w = fresh;
	trace_writer_free_all(old);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* ---- damage ---- */

/* Reads a copy that ends with the allocation; returns how many samples there are, or -1. */
static long read_copy(const uint8_t *bytes, size_t size, bool *complete)
{
	struct spool_stream_options options = {.keep_forks = true};
	struct spool_file f = {.packet_bytes = WRITER_PACKET_BYTES};
	uint8_t *data;
	struct reading *r, *child;
	long samples = -1;
	int error;

	/* The very size, for an address sanitizer to see what lies behind. */
	if (posix_memalign((void **)&data, 64, size + 1))
		abort();
	f.data = data;
	f.size = size;
	if (size)
		memcpy(f.data, bytes, size);
	*complete = false;
	r = open_file(&f, &options, size + 1, &error);
	if (r) {
		finish(r, NULL);
		samples = (long)r->w->samples;
		*complete = r->t->info.complete;
		/* Also as a child of itself. */
		options.parent = r->s;
		child = open_file(&f, &options, size + 1, &error);
		CHECK(child);
		finish(child, NULL);
		reading_free(child);
		reading_free(r);
	}
	free(data);
	return samples;
}

static void truncated_spools(void)
{
	for (int exact = 0; exact < 2; exact++) {
		struct spool_file *f = varied_spool(exact, VARIED);
		long last = -1, samples;
		bool complete;

		for (size_t cut = 0; cut <= f->size; cut += cut < 600 ? 1 : 331) {
			samples = read_copy(f->data, cut, &complete);
			CHECK(samples >= last, "cut at %zu: %ld after %ld", cut, samples, last);
			last = samples;
			/* What is cut off of a packet's unused end is no loss. */
			CHECK(!complete || samples == VARIED);
		}
		samples = read_copy(f->data, f->size, &complete);
		CHECK(samples == VARIED && complete);
		spool_file_free(f);
	}
}

/* One packet is wrong: what is behind the damage is left out, other packets are read. */
static void damaged_packets_end_there(void)
{
	for (int exact = 0; exact < 2; exact++) {
		struct spool_file *f = varied_spool(exact, VARIED);
		uint8_t *fourth = f->data + WRITER_HEADER_BYTES + 3 * WRITER_PACKET_BYTES;
		long samples, more;
		bool complete;

		/* An unknown tag at the beginning of the fourth packet. */
		fourth[64] = 0x2e;
		samples = read_copy(f->data, f->size, &complete);
		CHECK(samples > 700 && samples < VARIED && !complete, "%ld", samples);
		/* More used than a packet has. */
		memset(f->data + WRITER_HEADER_BYTES + 5 * WRITER_PACKET_BYTES + 8, 0xff, 4);
		more = read_copy(f->data, f->size, &complete);
		CHECK(more < samples && more > 600, "%ld", more);
		spool_file_free(f);
	}
}

static void corrupted_spools(void)
{
	uint64_t state = 99;

	for (int exact = 0; exact < 2; exact++) {
		struct spool_file *f = varied_spool(exact, VARIED);
		uint8_t *copy = malloc(f->size);
		unsigned read = 0;
		bool complete;

		for (unsigned round = 0; round < 800; round++) {
			memcpy(copy, f->data, f->size);
			for (unsigned flips = 0; flips <= round % 9; flips++) {
				size_t at;

				state = state * 6364136223846793005u + 1442695040888963407u;
				at = (size_t)(state >> 20) % f->size;
				/* Every second time in the header or the first packet's. */
				if (round % 2)
					at = at % 600 + (at % 2 ? WRITER_HEADER_BYTES : 0);
				copy[at] = (uint8_t)(state >> 13);
			}
			read += read_copy(copy, f->size, &complete) >= 0;
		}
		CHECK(read > 300 && read < 800, "%u", read);
		free(copy);
		spool_file_free(f);
	}
}

/* The program, which can write everywhere, spoils packets while they are read. */
static void spoiled_while_read(void)
{
	chance_state = 5;
	for (uint32_t i = 0; i < 40; i++) {
		struct spool_file *f = varied_spool(i % 2, VARIED);
		struct reading *r = open_online(f);

		for (int64_t k = 1; k < 30; k++) {
			bool more;

			CHECK(spool_stream_advance(r->s, spool_ticks(f, k * 3 * MS),
						   5000000000u + (uint64_t)(k * 3 * MS),
						   &more) == 0);
			for (unsigned flips = 0; flips < i % 7; flips++) {
				size_t at = chance((uint32_t)(f->size - WRITER_HEADER_BYTES));

				f->data[WRITER_HEADER_BYTES + at] = (uint8_t)chance(256);
			}
		}
		finish(r, NULL);
		reading_free(r);
		spool_file_free(f);
	}
}

/* What the allocator says becomes counters, whatever comes between. */
static void allocators_figures(void)
{
	static const uint64_t values[] = {7, 1ull << 45, 9, 10, 11, 12, 13, 14, 15, 16};
	static const char *const names[] = {"glibc.arenas", "glibc.mmapped",  "glibc.in_use",
					    "glibc.free",   "glibc.fastbins", "glibc.top"};
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r;

	spool_writer_alloc(w, 10, 0x7000, 24, 0, deep, 4);
	spool_writer_allocator(w, 50, SPOOL_OF_GLIBC, 6, values);
	spool_writer_release(w, 60, 0x7000, 0);
	spool_writer_allocator(w, 70, SPOOL_OF_GLIBC, 8, values); /* two have no name here */
	spool_writer_allocator(w, 80, SPOOL_OF_MIMALLOC, 0, values);
	spool_writer_alloc(w, 90, 0x7000, 24, 0, deep, 4);
	spool_writer_allocator(w, 95, SPOOL_OF_TCMALLOC + 1, 1, values); /* nobody's */
	spool_writer_alloc(w, 99, 0x8000, 24, 0, deep, 4);
	r = read_file(f, NULL);
	CHECK(r->w->samples == 2 && r->w->frees == 1 && !r->t->info.complete);
	CHECK(r->w->counters == 12);
	for (size_t i = 0; i < 12; i++) {
		CHECK(r->w->counter[i].time_ns == (i < 6 ? 50 : 70));
		CHECK(r->w->counter[i].value == (double)values[i % 6]);
		CHECK(!strcmp(recording_text(r->t, r->w->counter[i].name), names[i % 6]));
		CHECK(!strcmp(recording_text(r->t, r->w->counter[i].unit), "bytes"));
	}
	/* One block of 24 bytes was live at the end. */
	CHECK(r->w->measured[FRAGMENTS_END] == 1 && r->w->pages == 1);
	CHECK(!r->w->measured[FRAGMENTS_PEAK]);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* Pages are looked at when a peak is over, not at each step on the way up. */
static void pages_at_the_peak(void)
{
	struct spool_file *f = exact_file();
	struct spool_writer *w = spool_writer_new(f, 100);
	struct reading *r;
	int64_t ns = 0;

	for (uint64_t i = 0; i < 1000; i++)
		spool_writer_alloc(w, ++ns, 0x10000 + i * 8192, 4096, 0, deep, 1);
	for (uint64_t i = 0; i < 500; i++)
		spool_writer_release(w, ++ns, 0x10000 + i * 8192, 0);
	r = read_file(f, NULL);
	CHECK(r->w->measured[FRAGMENTS_PEAK] == 1 && r->w->measured[FRAGMENTS_END] == 1);
	CHECK(r->w->pages == 500);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

/* A round that is left early goes on later, with a later clock: times are what they were. */
static void long_rounds_keep_their_times(void)
{
	const int64_t step = 1000, events = 300000;
	struct spool_file *f =
	    spool_file_sized(SPOOL_CLOCK_TSC, 2.5, WRITER_PACKET_BYTES, (size_t)64 << 20);
	struct spool_writer *w;
	struct reading *r;
	int64_t at = events * step;
	bool more = true;
	size_t rounds = 0, wrong = 0;

	spool_file_header(f)->mode = SPOOL_EXACT;
	spool_file_header(f)->interval_log2 = 0;
	w = spool_writer_new(f, 100);
	for (int64_t i = 0; i < events; i++)
		spool_writer_alloc(w, i * step, 0x10000 + (uint64_t)i * 16, 16, 0, deep, 1);
	r = open_online(f);
	for (; more; at += 100 * MS, rounds++)
		CHECK(spool_stream_advance(r->s, spool_ticks(f, at),
					   spool_file_header(f)->start_mono_ns + (uint64_t)at,
					   &more) == 0);
	CHECK(rounds > 2);
	finish(r, NULL);
	CHECK(r->w->samples == (size_t)events);
	for (size_t i = 0; i < r->w->samples; i++)
		wrong += llabs(r->w->sample[i].time_ns - (int64_t)i * step) > 10;
	CHECK(!wrong, "%zu", wrong);
	reading_free(r);
	free(w);
	spool_file_free(f);
}

int main(void)
{
	RUN(allocators_figures);
	RUN(pages_at_the_peak);
	RUN(long_rounds_keep_their_times);
	RUN(simple_spool);
	RUN(ocaml_heaps);
	RUN(ocaml_rates);
	RUN(threads_are_merged);
	RUN(odd_frees);
	RUN(thread_names);
	RUN(addresses_are_used_again);
	RUN(marks);
	RUN(tsc_is_calibrated);
	RUN(tsc_after_sleep);
	RUN(short_tsc_runs);
	RUN(exit_status_of_the_agent);
	RUN(title_of_the_process);
	RUN(off_ends_the_recording);
	RUN(headers_are_checked);
	RUN(errors_stick);
	RUN(children_inherit);
	RUN(exact_children_inherit);
	RUN(ocaml_among_exact);
	RUN(mappings_sampled);
	RUN(mappings_exact);
	RUN(exact_spool);
	RUN(exact_deep_stacks);
	RUN(missed_and_late_frees);
	RUN(reallocs_wait);
	RUN(reallocs_are_overtaken);
	RUN(late_commits);
	RUN(packets_keep_their_order);
	RUN(packets_are_given_back);
	RUN(histories);
	RUN(histories_in_used_packets);
	RUN(wild_histories);
	RUN(lost_records);
	RUN(blocks_are_renumbered);
	RUN(truncated_spools);
	RUN(damaged_packets_end_there);
	RUN(corrupted_spools);
	RUN(spoiled_while_read);
	DONE();
}
