/* SPDX-License-Identifier: Apache-2.0 */
/* Reading spools: times, threads, modules, frees, forks; and cut off and damaged ones. */
#include <mayfly/trace.h>

#include <string.h>

#include "trace/recording.h"

#include "spool_writer.h"
#include "test.h"

#define MS ((int64_t)1000000)

static const uint64_t deep[] = {0x401000, 0x401100, 0x401200, 0x7f0000001234};

static struct recording *read_file(struct spool_file *f, const struct spool_ending *ending,
				   const struct recording *parent)
{
	struct recording *r = NULL;
	int error = spool_read(f->data, f->size, ending, parent, &r);

	CHECK(error == 0, "%s", mayfly_error_text(error));
	return r ? r : recording_new();
}

static const struct recording_frame *leaf(const struct recording *r, size_t sample)
{
	static const struct recording_frame none;
	uint32_t node = r->sample[sample].node;

	return node ? &r->frame[r->node[node].frame] : &none;
}

static size_t depth_of(const struct recording *r, uint32_t node)
{
	size_t depth = 0;

	for (; node; node = r->node[node].parent)
		depth++;
	return depth;
}

static void simple_spool(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_ending ending = {MAYFLY_END_EXITED, 3, 50 * MS};
	struct recording *r;

	spool_writer_module(w, 1, "/bin/prg", 0x400000, 0x500000, 0x1000);
	spool_writer_thread(w, 1, 100, "prg");
	spool_writer_sample(w, 10 * MS, 0, 100, 1, 0, deep, 4);
	spool_writer_sample(w, 20 * MS, 1, 1 << 20, 0, SPOOL_FLAG_REALLOC, deep, 3);
	spool_writer_free(w, 30 * MS, 0, SPOOL_FLAG_TEMPORARY);
	spool_writer_interval(w, 31 * MS, 10);
	spool_writer_sample(w, 40 * MS, 2, 7, 1, 0, deep, 0);
	spool_writer_lost(w, 41 * MS, 5);
	r = read_file(f, &ending, NULL);
	CHECK(r->samples == 3 && r->info.samples == 3 && r->info.frees == 1);
	CHECK(r->info.complete && r->info.ending == MAYFLY_END_EXITED && r->info.ending_code == 3);
	CHECK(r->info.duration_ns == 50 * MS && r->info.pid == 100 && r->info.parent_pid == 50);
	CHECK(r->info.interval_bytes == 1 << 19);
	CHECK(r->info.dropped_samples == 5);
	CHECK(r->command_count == 2 && !strcmp(recording_text(r, r->command[0]), "prg") &&
	      !strcmp(recording_text(r, r->command[1]), "-x"));
	CHECK(!strcmp(recording_text(r, r->program), "/bin/prg"));
	CHECK(r->sample[0].time_ns == 10 * MS && r->sample[0].free_ns == 30 * MS);
	CHECK(r->sample[0].free_flags == MAYFLY_FLAG_TEMPORARY && r->sample[0].size == 100);
	CHECK(r->sample[1].flags == MAYFLY_FLAG_REALLOC && r->sample[1].hits == 0);
	CHECK(r->sample[1].free_ns == INT64_MAX && r->sample[1].interval_log2 == 19);
	CHECK(r->sample[2].interval_log2 == 10 && r->sample[2].node == 0);
	CHECK(depth_of(r, r->sample[0].node) == 4 && depth_of(r, r->sample[1].node) == 3);
	CHECK(r->node[r->sample[0].node].parent == r->sample[1].node);
	CHECK(leaf(r, 1)->module == 0 && leaf(r, 1)->address == 0x401200 - 1 - 0x1000);
	CHECK(leaf(r, 0)->module == RECORDING_NONE && leaf(r, 0)->address == 0x7f0000001233);
	CHECK(r->threads == 1 && r->thread[0].tid == 100 &&
	      !strcmp(recording_text(r, r->thread[0].name), "prg"));
	CHECK(r->module[0].build_id_length == 4 && r->module[0].to_ns == INT64_MAX);
	recording_free(r);
	free(w);
	spool_file_free(f);
}

/* Two threads, whose packets are in the file one after the other, free each other's blocks. */
static void threads_are_merged(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w[2] = {spool_writer_new(f, 100), spool_writer_new(f, 101)};
	enum { EACH = 3000 };
	struct recording *r;
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
	r = read_file(f, NULL, NULL);
	CHECK(r->samples == 2 * EACH && r->info.frees == 2 * (EACH - 10));
	CHECK(r->unknown_frees == 0 && r->threads == 2);
	for (size_t i = 0; i < r->samples; i++) {
		const struct recording_sample *s = &r->sample[i];

		CHECK(s->id == i && s->size == 16 + i / 2);
		CHECK(r->thread[s->thread].tid == 100 + i % 2);
		CHECK(depth_of(r, s->node) == (i / 2 % 5 ? i / 2 % 4 : 4));
		if (s->free_ns == INT64_MAX)
			continue;
		CHECK(r->thread[s->free_thread].tid == 100 + (i + 1) % 2);
		CHECK(s->free_ns == s->time_ns + 10100 + (i % 2 ? -500 : 500));
		crossed++;
	}
	CHECK(crossed == 2 * (EACH - 10));
	CHECK(r->info.duration_ns == (EACH - 1) * 1000 + 600);
	recording_free(r);
	free(w[0]);
	free(w[1]);
	spool_file_free(f);
}

/* Clocks of two CPUs may disagree, damaged spools tell nonsense. */
static void odd_frees(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct recording *r;

	spool_writer_sample(w, 1000, 0, 8, 1, 0, deep, 2);
	spool_writer_free(w, 900, 0, 0);
	spool_writer_free(w, 2000, 77, 0);
	spool_writer_free(w, 2100, 0, 0);
	r = read_file(f, NULL, NULL);
	CHECK(r->samples == 1 && r->sample[0].free_ns == 1000);
	CHECK(r->unknown_frees == 2 && r->info.frees == 1);
	recording_free(r);
	free(w);
	spool_file_free(f);
}

/* The last name counts; a thread that has no events is not listed. */
static void thread_names(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 200), *v = spool_writer_new(f, 300);
	struct recording *r;

	spool_writer_thread(w, 10, 200, "early");
	spool_writer_sample(w, 20, 0, 8, 1, 0, deep, 1);
	spool_writer_thread(w, 30, 201, "other"); /* the writer outlived its thread */
	spool_writer_sample(w, 40, 1, 8, 1, 0, deep, 1);
	spool_writer_thread(v, 50, 300, "idle");
	spool_writer_begin(w, 60);
	spool_writer_thread(w, 60, 200, "late");
	r = read_file(f, NULL, NULL);
	CHECK(r->threads == 2);
	CHECK(r->thread[r->sample[0].thread].tid == 200);
	CHECK(!strcmp(recording_text(r, r->thread[r->sample[0].thread].name), "late"));
	CHECK(r->thread[r->sample[1].thread].tid == 201);
	CHECK(!strcmp(recording_text(r, r->thread[r->sample[1].thread].name), "other"));
	recording_free(r);
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
	struct recording *r;

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
	r = read_file(f, NULL, NULL);
	CHECK(r->samples == 6 && r->modules == 4, "%zu %zu", r->samples, r->modules);
	for (size_t i = 0; i < r->samples && i < 6; i++) {
		const struct recording_frame *frame = leaf(r, i);
		const char *path = frame->module == RECORDING_NONE
				       ? ""
				       : recording_text(r, r->module[frame->module].path);

		if (i == 2) /* a.so comes back at 500: the first that is mapped there later */
			CHECK(frame->module != RECORDING_NONE &&
			      r->module[frame->module].from_ns == 500);
		else
			CHECK(!strcmp(path, want[i]), "%zu is in %s", i, path);
		CHECK(depth_of(r, r->sample[i].node) == 2);
	}
	CHECK(leaf(r, 1)->address == 0x1ff && leaf(r, 3)->address == 0x11ff);
	CHECK(leaf(r, 1)->module != leaf(r, 5)->module);
	recording_free(r);
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
	struct recording *r;
	uint32_t node;

	spool_writer_sample(w, 10, 0, 8, 1, 0, cut, 2);
	spool_writer_sample(w, 20, 1, 8, 1, 0, elided, 3);
	r = read_file(f, NULL, NULL);
	CHECK(r->info.truncated_stacks == 1);
	node = r->node[r->sample[0].node].parent;
	CHECK(r->frame[r->node[node].frame].kind == MAYFLY_FRAME_TRUNCATED);
	node = r->node[r->sample[1].node].parent;
	CHECK(r->frame[r->node[node].frame].kind == MAYFLY_FRAME_ELIDED);
	CHECK(r->frame[r->node[node].frame].address == 5000);
	recording_free(r);
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
	struct recording *r;

	for (uint64_t i = 0; i < 600; i++) {
		spool_writer_begin(w, (int64_t)i * 100 * MS + 33);
		if (i % 10 == 5)
			spool_writer_packet(w)->mono_ns += 3 * MS;
		spool_writer_sample(w, (int64_t)i * 100 * MS + 12345678, i, 8, 1, 0, deep, 1);
	}
	r = read_file(f, NULL, NULL);
	CHECK(r->samples == 600);
	for (size_t i = 0; i < r->samples; i++)
		close_to(r->sample[i].time_ns, (int64_t)i * 100 * MS + 12345678, 10);
	recording_free(r);
	free(w);
	spool_file_free(f);
}

/* The machine slept for an hour: its TSC went on, CLOCK_MONOTONIC did not. */
static void tsc_after_sleep(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 2);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct recording *r;

	for (uint64_t i = 0; i < 200; i++) {
		/* From packet 100 on, ticks are an hour further than ns. */
		int64_t slept = i >= 100 ? (int64_t)3600000 * MS : 0;
		int64_t now = (int64_t)i * 100 * MS;

		spool_writer_begin(w, now + slept);
		spool_writer_packet(w)->mono_ns -= (uint64_t)slept;
		spool_writer_sample(w, now + slept + 5 * MS, i, 8, 1, 0, deep, 1);
	}
	r = read_file(f, NULL, NULL);
	for (size_t i = 0; i < r->samples; i++)
		if (i != 99) /* nobody knows where between two packets it slept */
			close_to(r->sample[i].time_ns, (int64_t)i * 100 * MS + 5 * MS, 100);
	recording_free(r);
	free(w);
	spool_file_free(f);
}

static void short_tsc_runs(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 3);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_ending ending = {.ending = MAYFLY_END_EXITED};
	struct recording *r;

	/* One packet 100 us after the start, then a second of samples. */
	spool_writer_begin(w, 100000);
	for (uint64_t i = 0; i < 10; i++)
		spool_writer_sample(w, (int64_t)i * 100 * MS + 200000, i, 8, 1, 0, deep, 1);
	r = read_file(f, &ending, NULL);
	for (size_t i = 0; i < r->samples; i++)
		close_to(r->sample[i].time_ns, (int64_t)i * 100 * MS + 200000, 1000);
	recording_free(r);
	/* The packet's pair is off by 50 us: only the recorder's pair saves the day. */
	spool_writer_packet(w)->mono_ns += 50000;
	ending.end_ticks = spool_ticks(f, 2000 * MS);
	ending.end_mono_ns = spool_file_header(f)->start_mono_ns + 2000 * (uint64_t)MS;
	r = read_file(f, &ending, NULL);
	for (size_t i = 0; i < r->samples; i++)
		close_to(r->sample[i].time_ns, (int64_t)i * 100 * MS + 200000, 1000);
	recording_free(r);
	free(w);
	spool_file_free(f);
}

/* ---- states ---- */

static void off_ends_the_recording(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_writer *w = spool_writer_new(f, 100);
	struct spool_ending ending = {MAYFLY_END_EXITED, 0, 900 * MS};
	struct spool_header *h;
	struct recording *r;

	spool_writer_sample(w, 10 * MS, 0, 8, 1, 0, deep, 1);
	h = spool_file_header(f);
	atomic_store(&h->state, SPOOL_OFF);
	atomic_store(&h->off_ticks, spool_ticks(f, 70 * MS));
	atomic_store(&h->off_reason, SPOOL_OFF_NO_SPACE);
	strcpy(h->off_text, "disk full");
	r = read_file(f, &ending, NULL);
	CHECK(r->info.ending == MAYFLY_END_OFF && r->info.duration_ns == 70 * MS);
	CHECK(!strcmp(recording_text(r, r->off_text), "disk full"));
	recording_free(r);
	h->off_text[0] = 0;
	r = read_file(f, &ending, NULL);
	CHECK(*recording_text(r, r->off_text));
	recording_free(r);
	free(w);
	spool_file_free(f);
}

static void headers_are_checked(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_MONOTONIC, 1);
	struct spool_header *h = spool_file_header(f);
	struct recording *r;

	atomic_store(&h->state, SPOOL_WAITING);
	CHECK(spool_read(f->data, f->size, NULL, NULL, &r) == MAYFLY_E_EMPTY && !r);
	atomic_store(&h->state, SPOOL_RUNNING);
	h->version = 2;
	CHECK(spool_read(f->data, f->size, NULL, NULL, &r) == MAYFLY_E_VERSION);
	h->version = 1;
	h->features = 4;
	CHECK(spool_read(f->data, f->size, NULL, NULL, &r) == MAYFLY_E_VERSION);
	h->features = 0;
	h->packet_bytes = 64;
	CHECK(spool_read(f->data, f->size, NULL, NULL, &r) == MAYFLY_E_DAMAGED);
	h->packet_bytes = WRITER_PACKET_BYTES;
	h->magic[0] = 'X';
	CHECK(spool_read(f->data, f->size, NULL, NULL, &r) == MAYFLY_E_NOT_A_TRACE);
	h->magic[0] = 'M';
	r = read_file(f, NULL, NULL);
	CHECK(r->samples == 0 && r->info.complete);
	recording_free(r);
	spool_file_free(f);
}

/* ---- forks ---- */

static void children_inherit(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 2.5);
	struct spool_file *g = spool_file_new(SPOOL_CLOCK_TSC, 2.5);
	struct spool_writer *w = spool_writer_new(f, 100), *v = spool_writer_new(g, 200);
	struct spool_header *h;
	struct recording *parent, *child;
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
	for (int i = 2; i < 100; i++) /* for the clock */
		spool_writer_begin(w, i * 100 * MS);
	spool_writer_sample(w, 9990 * MS, 4, 1004, 1, 0, deep, 3);
	spool_writer_free(w, 9991 * MS, 2, 0);
	parent = read_file(f, NULL, NULL);
	CHECK(parent->samples == 5 && parent->sample[2].free_ns != INT64_MAX);

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
	child = read_file(g, NULL, parent);
	CHECK(child->samples == 4 && child->info.inherited == 3, "%zu", child->samples);
	CHECK(child->unknown_frees == 1 && child->info.frees == 2);
	for (size_t i = 0; i < child->samples; i++) {
		const struct recording_sample *s = &child->sample[i];

		CHECK(s->id == (i < 3 ? i : 4));
		if (!(s->flags & MAYFLY_FLAG_INHERITED))
			continue;
		inherited++;
		CHECK(s->time_ns == 0 && s->size == 1000 + s->id);
		CHECK(child->thread[s->thread].tid == 100);
	}
	CHECK(inherited == 3);
	CHECK(child->sample[0].free_ns != INT64_MAX && child->sample[2].free_ns == INT64_MAX);
	CHECK(child->sample[0].flags == (MAYFLY_FLAG_INHERITED | MAYFLY_FLAG_REALLOC));
	/* The same stack from both processes is one node; the old library came along. */
	CHECK(child->sample[0].node == child->sample[3].node);
	CHECK(
	    leaf(child, 1)->module != RECORDING_NONE &&
	    !strcmp(recording_text(child, child->module[leaf(child, 1)->module].path), "/old.so"));
	recording_free(child);

	/* Without its parent the frees of what it inherited mean nothing. */
	child = read_file(g, NULL, NULL);
	CHECK(child->samples == 1 && child->unknown_frees == 2);
	recording_free(child);
	recording_free(parent);
	free(w);
	free(v);
	spool_file_free(f);
	spool_file_free(g);
}

/* ---- damage ---- */

static struct spool_file *varied_spool(void)
{
	struct spool_file *f = spool_file_new(SPOOL_CLOCK_TSC, 2.5);
	struct spool_writer *w[3];
	uint64_t id = 0, state = 1;

	for (uint32_t k = 0; k < 3; k++) {
		w[k] = spool_writer_new(f, 100 + k);
		spool_writer_thread(w[k], k, 100 + k, "worker");
		spool_writer_module(w[k], k, "/lib/x.so", 0x400000, 0x480000, 0x400000);
	}
	for (int64_t i = 0; i < 900; i++) {
		struct spool_writer *v = w[i % 3];
		uint64_t stack[40];
		uint32_t depth = 1 + (uint32_t)(i * 7 % 40);

		for (uint32_t k = 0; k < depth; k++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			stack[k] = 0x400000 + k * 4096 + (state >> 60);
		}
		spool_writer_sample(v, i * 100000, id++, (uint64_t)i * 3, 1, 0, stack, depth);
		if (i > 20 && i % 3)
			spool_writer_free(v, i * 100000 + 50, id - 15, 2);
		if (i % 100 == 50)
			spool_writer_interval(v, i * 100000 + 60, 12 + (uint32_t)(i / 100));
		if (i % 100 == 70)
			spool_writer_gone(v, i * 100000 + 70, 0x400000);
		if (i % 100 == 90)
			spool_writer_module(v, i * 100000 + 80, "/lib/y.so", 0x400000, 0x490000,
					    0x400000);
	}
	for (size_t k = 0; k < 3; k++)
		free(w[k]);
	return f;
}

/* Reads a copy without room to spare; returns how many samples there are, or -1. */
static long read_copy(const uint8_t *bytes, size_t size, bool encode, bool *complete)
{
	uint8_t *exact = calloc(size ? size : 1, 1);
	struct recording *r = NULL;
	long samples = -1;
	uint8_t *trace;
	size_t length;

	if (size)
		memcpy(exact, bytes, size);
	*complete = false;
	if (spool_read(exact, size, NULL, NULL, &r) == 0) {
		samples = (long)r->samples;
		*complete = r->info.complete;
		/* Whatever was read must be fit to be written. */
		if (encode) {
			CHECK(trace_encode(r, 1, &trace, &length) == 0);
			free(trace);
		}
	}
	recording_free(r);
	free(exact);
	return samples;
}

static void truncated_spools(void)
{
	struct spool_file *f = varied_spool();
	long last = -1, samples;
	bool complete;

	for (size_t cut = 0; cut <= f->size; cut += cut < 600 ? 1 : 331) {
		samples = read_copy(f->data, cut, cut % 8 == 0, &complete);
		CHECK(samples >= last, "cut at %zu: %ld after %ld", cut, samples, last);
		last = samples;
		/* What is cut off of a packet's unused end is no loss. */
		CHECK(!complete || samples == 900);
	}
	samples = read_copy(f->data, f->size, true, &complete);
	CHECK(samples == 900 && complete);
	spool_file_free(f);
}

/* One packet is wrong: it is left out, the others are read. */
static void damaged_packets_are_skipped(void)
{
	struct spool_file *f = varied_spool();
	bool complete;
	long samples;

	/* An unknown tag at the beginning of the fourth packet. */
	f->data[4096 + 3 * WRITER_PACKET_BYTES + 64] = 0xee;
	samples = read_copy(f->data, f->size, true, &complete);
	CHECK(samples > 700 && samples < 900 && !complete, "%ld", samples);
	/* More used than a packet has. */
	memset(f->data + 4096 + 5 * WRITER_PACKET_BYTES + 8, 0xff, 4);
	CHECK(read_copy(f->data, f->size, true, &complete) < samples);
	spool_file_free(f);
}

static void corrupted_spools(void)
{
	struct spool_file *f = varied_spool();
	uint8_t *copy = malloc(f->size);
	uint64_t state = 99;
	unsigned read = 0;
	bool complete;

	for (unsigned round = 0; round < 2000; round++) {
		memcpy(copy, f->data, f->size);
		for (unsigned flips = 0; flips <= round % 9; flips++) {
			size_t at;

			state = state * 6364136223846793005u + 1442695040888963407u;
			at = (size_t)(state >> 20) % f->size;
			/* Every second time in the header or the first packet's. */
			if (round % 2)
				at %= 600;
			copy[at] = (uint8_t)(state >> 13);
		}
		read += read_copy(copy, f->size, round % 16 < 2, &complete) >= 0;
	}
	CHECK(read > 600 && read < 2000, "%u", read);
	free(copy);
	spool_file_free(f);
}

/* The library opens a spool like a trace. */
static void spools_open_as_traces(void)
{
	struct spool_file *f = varied_spool();
	struct mayfly_trace *t = NULL;

	CHECK(mayfly_trace_open(f->data, f->size, &t) == 0);
	if (t) {
		CHECK(mayfly_trace_info(t)->spool && mayfly_trace_info(t)->samples == 900);
		CHECK(mayfly_trace_info(t)->file_bytes == f->size);
	}
	mayfly_trace_close(t);
	spool_file_free(f);
}

int main(void)
{
	RUN(simple_spool);
	RUN(threads_are_merged);
	RUN(odd_frees);
	RUN(thread_names);
	RUN(addresses_are_used_again);
	RUN(marks);
	RUN(tsc_is_calibrated);
	RUN(tsc_after_sleep);
	RUN(short_tsc_runs);
	RUN(off_ends_the_recording);
	RUN(headers_are_checked);
	RUN(children_inherit);
	RUN(truncated_spools);
	RUN(damaged_packets_are_skipped);
	RUN(corrupted_spools);
	RUN(spools_open_as_traces);
	DONE();
}
