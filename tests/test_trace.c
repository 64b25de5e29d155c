/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding and decoding: what goes in comes out, and what is cut off or damaged does no harm.
 * With --measure: sizes and times for a recording shaped like a compiler run.
 */
#include <mayfly/trace.h>

#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "trace/estimate.h"
#include "trace/format.h"
#include "trace/recording.h"

#include "test.h"

#define UNIT 2000 /* doc/FORMAT.md, "Units" */

/* ---- random recordings ---- */

static uint64_t random_state;

static uint64_t random64(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint64_t below(uint64_t limit)
{
	return random64() % limit;
}

static double uniform(void)
{
	return ((double)(random64() >> 11) + 0.5) / 9007199254740992.0;
}

/* Now and then the largest, often small, of any size. */
static uint64_t any64(void)
{
	switch (below(8)) {
	case 0:
		return UINT64_MAX;
	case 1:
		return 0;
	default:
		return random64() >> below(64);
	}
}

static uint32_t random_string(struct recording *r, const char *prefix)
{
	char text[80];
	int length =
	    snprintf(text, sizeof(text), "%s_%llu\xff::<>", prefix, (unsigned long long)below(30));

	return below(6) ? recording_string(r, text, (size_t)length) : 0;
}

static void add_modules(struct recording *r, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct recording_module m = {
		    .path = random_string(r, "/usr/lib/lib"),
		    .problem = below(5) ? 0 : random_string(r, "no symbols"),
		    .build_id_length = (uint32_t)below(33),
		    .start = any64(),
		    .end = any64(),
		    .bias = any64(),
		    .from_ns = (int64_t)below(1000000000),
		    .to_ns = below(2) ? INT64_MAX : (int64_t)below(4000000000),
		};

		for (uint32_t k = 0; k < m.build_id_length; k++)
			m.build_id[k] = (uint8_t)random64();
		recording_module(r, &m);
	}
}

static void add_frames(struct recording *r, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t module =
		    r->modules && below(9) ? (uint32_t)below(r->modules) : RECORDING_NONE;
		uint32_t kind = below(20) ? MAYFLY_FRAME_CODE : (uint32_t)below(3);
		uint32_t index = recording_frame(r, kind, module, any64());
		size_t locations = below(4);

		if (r->frame[index].locations)
			continue;
		r->frame[index].first_location = (uint32_t)r->locations;
		r->frame[index].locations = (uint32_t)locations;
		for (size_t k = 0; k < locations; k++) {
			struct recording_location l = {
			    .function = random_string(r, "function"),
			    .file = random_string(r, "file.c"),
			    .line = (uint32_t)any64(),
			    .inlined = below(2),
			};

			recording_location(r, &l);
		}
	}
}

static void add_nodes(struct recording *r, size_t count)
{
	/* Some are children of the one before, so that there are deep stacks. */
	uint32_t last = 0;

	for (size_t i = 0; r->frames && i < count; i++) {
		uint32_t parent = below(4) ? last : (uint32_t)below(r->nodes);

		if (below(100) == 0)
			parent = 0;
		last = recording_node(r, parent, (uint32_t)below(r->frames));
	}
}

static void add_samples(struct recording *r, size_t count)
{
	int64_t now = below(4) ? (int64_t)below(1000000) : -(int64_t)below(1000000000);

	for (size_t i = 0; i < count; i++) {
		struct recording_sample s = {
		    .time_ns = now,
		    .free_ns = INT64_MAX,
		    .size = any64(),
		    .node = (uint32_t)below(r->nodes),
		    .thread = (uint32_t)below(r->threads),
		    .hits = below(3) ? 1 : (uint32_t)any64(),
		    .interval_log2 = (uint8_t)(below(10) ? 19 : below(41)),
		    .flags = (uint8_t)(below(10) ? 0 : below(8)),
		};

		if (below(3)) {
			s.free_ns = now + (int64_t)(random64() >> (24 + below(40)));
			if (below(50) == 0)
				s.free_ns = now - (int64_t)below(1000);
			s.free_thread = below(3) ? s.thread : (uint32_t)below(r->threads);
			s.free_flags = (uint8_t)(below(5) ? 0 : below(4));
		}
		recording_sample(r, &s);
		now += below(8) ? (int64_t)(random64() >> (30 + below(34))) : 0;
	}
}

static struct recording *random_recording(uint64_t seed, size_t scale)
{
	struct recording *r = recording_new();
	struct mayfly_info *info = &r->info;

	random_state = seed;
	info->mode = (uint32_t)below(2);
	info->sampler = (uint32_t)below(2);
	info->pid = (uint32_t)random64();
	info->parent_pid = (uint32_t)any64();
	info->interval_bytes = (uint64_t)1 << below(41);
	info->start_real_ns = (int64_t)(random64() >> 1);
	info->duration_ns = (int64_t)(random64() >> below(30) >> 4);
	info->ending = (uint32_t)below(5);
	info->ending_code = (int32_t)any64();
	info->seed = any64();
	info->truncated_stacks = any64();
	info->dropped_samples = any64();
	info->dropped_frees = any64();
	info->nested_blocks = any64();
	info->nested_bytes = any64();
	info->complete = below(2);
	info->spool = below(2);
	r->command_count = below(4);
	r->command = calloc(r->command_count + 1, sizeof(*r->command));
	for (size_t i = 0; i < r->command_count; i++)
		r->command[i] = random_string(r, "argument");
	r->program = random_string(r, "/usr/bin/program");
	r->off_text = random_string(r, "off");
	r->note = random_string(r, "note");
	add_modules(r, below(scale / 4 + 2));
	for (size_t i = below(scale / 4 + 2) + 1; i; i--)
		recording_thread(r, (uint32_t)any64(), random_string(r, "thread"));
	add_frames(r, below(scale * 2 + 1));
	add_nodes(r, below(scale * 6 + 1));
	add_samples(r, below(scale * 4 + 1));
	return r;
}

/* ---- equality ---- */

static int64_t floored(int64_t ns)
{
	int64_t down = ns / UNIT;

	return (down - (ns % UNIT < 0)) * UNIT;
}

static bool same_text(const struct recording *r, uint32_t string, const char *text)
{
	return strcmp(recording_text(r, string), text) == 0;
}

static bool same_locations(const struct recording *r, const struct recording_frame *want,
			   const struct mayfly_frame *got)
{
	if (!want->locations && want->kind == MAYFLY_FRAME_CODE)
		return got->locations == 1 && !*got->location->function && !*got->location->file &&
		       !got->location->line && !got->location->inlined;
	if (got->locations != want->locations)
		return false;
	for (size_t i = 0; i < got->locations; i++) {
		const struct recording_location *l = &r->location[want->first_location + i];

		if (!same_text(r, l->function, got->location[i].function) ||
		    !same_text(r, l->file, got->location[i].file) ||
		    l->line != got->location[i].line || l->inlined != got->location[i].inlined)
			return false;
	}
	return true;
}

static bool same_frame(const struct recording *r, uint32_t frame, const struct mayfly_frame *got)
{
	const struct recording_frame *want = &r->frame[frame];

	return got && want->kind == got->kind && want->module == got->module &&
	       want->address == got->address && same_locations(r, want, got);
}

static bool same_stack(const struct recording *r, uint32_t node, const struct mayfly_trace *t,
		       uint32_t got)
{
	while (node && got) {
		struct mayfly_node here = mayfly_trace_node(t, got);

		if (!same_frame(r, r->node[node].frame, mayfly_trace_frame(t, here.frame)))
			return false;
		if (here.parent >= got)
			return false;
		node = r->node[node].parent;
		got = here.parent;
	}
	return !node && !got;
}

static void compare_info(const struct recording *r, const struct mayfly_info *got)
{
	const struct mayfly_info *want = &r->info;

	CHECK(got->mode == want->mode && got->sampler == want->sampler);
	CHECK(got->pid == want->pid && got->parent_pid == want->parent_pid);
	CHECK(got->interval_bytes == want->interval_bytes && got->seed == want->seed);
	CHECK(got->start_real_ns == want->start_real_ns);
	CHECK(got->duration_ns >= want->duration_ns);
	CHECK(got->ending == want->ending && got->ending_code == want->ending_code);
	CHECK(got->truncated_stacks == want->truncated_stacks);
	CHECK(got->dropped_samples == want->dropped_samples);
	CHECK(got->dropped_frees == want->dropped_frees);
	CHECK(got->nested_blocks == want->nested_blocks);
	CHECK(got->nested_bytes == want->nested_bytes);
	CHECK(got->complete == want->complete && got->spool == want->spool);
	CHECK(got->command_count == r->command_count);
	for (size_t i = 0; i < got->command_count; i++)
		CHECK(same_text(r, r->command[i], got->command[i]));
	CHECK(same_text(r, r->program, got->program));
	CHECK(same_text(r, r->off_text, got->off_text));
	CHECK(same_text(r, r->note, got->note));
	CHECK(strcmp(got->version, MAYFLY_VERSION) == 0);
	CHECK(got->samples == r->samples && got->modules == r->modules);
	CHECK(got->threads == r->threads && got->nodes == r->nodes && got->frames == r->frames);
}

static void compare_modules(const struct recording *r, const struct mayfly_trace *t)
{
	for (size_t i = 0; i < r->modules; i++) {
		const struct recording_module *want = &r->module[i];
		const struct mayfly_module *got = mayfly_trace_module(t, i);

		CHECK(same_text(r, want->path, got->path));
		CHECK(same_text(r, want->problem, got->problem));
		CHECK(want->start == got->start && want->end == got->end);
		CHECK(want->bias == got->bias);
		CHECK(want->build_id_length == got->build_id_length &&
		      !memcmp(want->build_id, got->build_id, got->build_id_length));
		CHECK(got->from_ns == floored(want->from_ns));
		CHECK(got->to_ns == (want->to_ns == INT64_MAX ? INT64_MAX : floored(want->to_ns)));
	}
	CHECK(!mayfly_trace_module(t, r->modules));
	for (size_t i = 0; i < r->threads; i++) {
		CHECK(mayfly_trace_thread(t, i)->tid == r->thread[i].tid);
		CHECK(same_text(r, r->thread[i].name, mayfly_trace_thread(t, i)->name));
	}
	CHECK(!mayfly_trace_thread(t, r->threads));
}

static void compare_block(const struct recording *r, const struct mayfly_trace *t,
			  const struct mayfly_event *e)
{
	const struct recording_sample *s = &r->sample[e->sample];
	double bytes, blocks;

	CHECK(e->size == s->size && e->hits == s->hits && e->alloc_thread == s->thread);
	CHECK(e->interval == (uint64_t)1 << s->interval_log2);
	CHECK(e->alloc_time_ns == floored(s->time_ns));
	CHECK(same_stack(r, s->node, t, e->node));
	sample_weight((enum mayfly_sampler)r->info.sampler, e->interval, e->size, e->hits, &bytes,
		      &blocks);
	CHECK(bytes == e->weight_bytes && blocks == e->weight_blocks);
}

static void compare_events(const struct recording *r, const struct mayfly_trace *t)
{
	struct mayfly_cursor *c;
	struct mayfly_event e;
	bool *freed = calloc(r->samples + 1, 1);
	uint64_t allocs = 0, frees = 0;
	int64_t last = INT64_MIN;
	int result;

	CHECK(mayfly_cursor_open(t, &c) == 0);
	while ((result = mayfly_cursor_next(c, &e)) == 1) {
		const struct recording_sample *s = &r->sample[e.sample];

		CHECK(e.time_ns >= last);
		last = e.time_ns;
		compare_block(r, t, &e);
		if (e.kind == MAYFLY_ALLOC) {
			CHECK(e.sample == allocs++ && e.thread == s->thread);
			CHECK(e.flags == s->flags && e.time_ns == e.alloc_time_ns);
			continue;
		}
		CHECK(e.sample < allocs && !freed[e.sample]);
		freed[e.sample] = true;
		frees++;
		CHECK(e.thread == s->free_thread && e.flags == s->free_flags);
		CHECK(e.time_ns == floored(s->free_ns > s->time_ns ? s->free_ns : s->time_ns));
	}
	CHECK(result == 0);
	CHECK(allocs == r->samples && frees == mayfly_trace_info(t)->frees);
	for (size_t i = 0; i < r->samples; i++)
		CHECK(freed[i] == (r->sample[i].free_ns != INT64_MAX));
	mayfly_cursor_close(c);
	free(freed);
}

static size_t compare(const struct recording *r, int level)
{
	struct mayfly_trace *t = NULL;
	uint8_t *bytes;
	size_t size;
	int error;

	error = trace_encode(r, level, &bytes, &size);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	error = mayfly_trace_open(bytes, size, &t);
	CHECK(error == 0, "%s", mayfly_error_text(error));
	if (t) {
		compare_info(r, mayfly_trace_info(t));
		compare_modules(r, t);
		compare_events(r, t);
	}
	mayfly_trace_close(t);
	free(bytes);
	return size;
}

/* ---- tests ---- */

static void random_recordings_survive(void)
{
	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct recording *r = random_recording(seed, seed % 5 * 10);

		compare(r, 1 + (int)(seed % 3));
		if (test_bad)
			printf("# seed %llu\n", (unsigned long long)seed);
		recording_free(r);
		if (test_bad)
			return;
	}
}

static void large_recordings_survive(void)
{
	struct recording *r = random_recording(1000, 2000);

	compare(r, 0);
	recording_free(r);
}

static void empty_recording_survives(void)
{
	struct recording *r = recording_new();

	r->info.interval_bytes = 1;
	r->info.complete = true;
	compare(r, 0);
	recording_free(r);
}

/* More than one chunk of events: blocks freed in later chunks than they were allocated in. */
static void several_chunks_survive(void)
{
	struct recording *r = random_recording(77, 40);

	r->samples = 0;
	add_samples(r, 400000);
	compare(r, 1);
	recording_free(r);
}

static void bad_recordings_are_refused(void)
{
	struct recording *r = random_recording(5, 40);
	uint8_t *bytes;
	size_t size;

	while (!r->samples)
		add_samples(r, 10);
	r->sample[0].node = (uint32_t)r->nodes;
	CHECK(trace_encode(r, 1, &bytes, &size) == MAYFLY_E_RANGE);
	CHECK(!bytes && !size);
	r->sample[0].node = 0;
	r->sample[0].interval_log2 = 41;
	CHECK(trace_encode(r, 1, &bytes, &size) == MAYFLY_E_RANGE);
	recording_free(r);
}

static void strings_and_nodes_are_distinct(void)
{
	struct recording *r = recording_new();

	CHECK(recording_string(r, "", 0) == 0);
	CHECK(recording_string(r, "ab", 2) == 1 && recording_string(r, "abc", 3) == 2);
	CHECK(recording_string(r, "abc", 2) == 1 && recording_string(r, "ab\0c", 4) == 1);
	CHECK(recording_string(r, "\0x", 2) == 0);
	for (unsigned i = 0; i < 1000; i++) {
		CHECK(recording_frame(r, 0, i % 7, i / 7) == i);
		CHECK(recording_node(r, i / 2, i) == i + 1);
	}
	for (unsigned i = 0; i < 1000; i++) {
		CHECK(recording_frame(r, 0, i % 7, i / 7) == i);
		CHECK(recording_node(r, i / 2, i) == i + 1);
	}
	recording_free(r);
}

/* Reads all there is; returns what opening said. */
static int exercise(const uint8_t *bytes, size_t size, uint64_t *events, bool *complete)
{
	struct mayfly_trace *t;
	struct mayfly_cursor *c;
	struct mayfly_event e;
	/* A copy, so that a read past the end is noticed by AddressSanitizer. */
	uint8_t *copy = malloc(size ? size : 1);
	int error, result;

	if (size)
		memcpy(copy, bytes, size);
	*events = 0;
	*complete = false;
	error = mayfly_trace_open(copy, size, &t);
	if (!error) {
		const struct mayfly_info *info = mayfly_trace_info(t);

		*complete = info->complete;
		for (size_t i = 0; i < info->frames; i++) {
			const struct mayfly_frame *f = mayfly_trace_frame(t, i);

			for (size_t k = 0; k < f->locations; k++)
				CHECK(strlen(f->location[k].function) < size * 4096);
			CHECK(f->module == UINT32_MAX || f->module < info->modules);
		}
		for (size_t i = 1; i < info->nodes; i++)
			CHECK(mayfly_trace_node(t, i).parent < i &&
			      mayfly_trace_node(t, i).frame < info->frames);
		CHECK(mayfly_cursor_open(t, &c) == 0);
		while ((result = mayfly_cursor_next(c, &e)) == 1) {
			CHECK(e.node < info->nodes && e.thread < info->threads);
			CHECK(e.time_ns <= info->duration_ns);
			++*events;
		}
		CHECK(result == 0, "%s", mayfly_error_text(result));
		CHECK(*events == info->samples + info->frees);
		mayfly_cursor_close(c);
		mayfly_trace_close(t);
	}
	free(copy);
	return error;
}

/* A trace of a few chunks. */
static uint8_t *golden(size_t *size)
{
	struct recording *r = random_recording(4242, 60);
	uint8_t *bytes = NULL;

	while (r->samples < 200)
		add_samples(r, 1), r->sample[r->samples - 1].time_ns = 1 << 30;
	for (size_t i = 1; i < r->samples; i++)
		if (r->sample[i].time_ns < r->sample[i - 1].time_ns)
			r->sample[i].time_ns = r->sample[i - 1].time_ns;
	r->info.complete = true;
	CHECK(trace_encode(r, 3, &bytes, size) == 0);
	recording_free(r);
	return bytes;
}

static void every_truncation_is_read(void)
{
	size_t size;
	uint8_t *bytes = golden(&size);
	uint64_t all, events, last = 0;
	bool complete;

	CHECK(exercise(bytes, size, &all, &complete) == 0 && complete && all > 200);
	for (size_t cut = 0; cut < size; cut++) {
		int error = exercise(bytes, cut, &events, &complete);

		CHECK(!complete, "cut at %zu", cut);
		CHECK(error == 0 || error == MAYFLY_E_EMPTY ||
			  (cut < 8 && error == MAYFLY_E_NOT_A_TRACE),
		      "cut at %zu: %s", cut, mayfly_error_text(error));
		CHECK(events >= last && events <= all);
		last = events;
	}
	CHECK(last == all);
	free(bytes);
}

/* Sets the checksums right again, so that damage reaches what is behind them. */
static void repair(uint8_t *bytes, size_t size)
{
	size_t at = TRACE_HEADER_BYTES;
	uint32_t crc;

	if (size < at)
		return;
	crc = trace_checksum(0, bytes, 20);
	memcpy(bytes + 20, &crc, 4);
	while (size - at > TRACE_TRAILER_BYTES) {
		uint32_t stored;

		memcpy(&stored, bytes + at + 4, 4);
		if (stored > size - at - TRACE_CHUNK_BYTES)
			return;
		crc = trace_checksum(0, bytes + at, 12);
		crc = trace_checksum(crc, bytes + at + TRACE_CHUNK_BYTES, stored);
		memcpy(bytes + at + 12, &crc, 4);
		at += TRACE_CHUNK_BYTES + stored;
	}
}

static void corruptions_are_read(void)
{
	size_t size;
	uint8_t *bytes = golden(&size), *copy = malloc(size);
	struct rlimit old, limit;
	uint64_t events, opened = 0, refused = 0;
	bool complete;

	/* The reader may use 64 MiB + 4096 times the size, twice. AddressSanitizer needs more. */
	getrlimit(RLIMIT_AS, &old);
	limit = old;
	limit.rlim_cur = ((rlim_t)300 << 20) + 2 * 4096 * size;
#if !defined(__SANITIZE_ADDRESS__)
#if defined(__has_feature)
#if !__has_feature(address_sanitizer)
	setrlimit(RLIMIT_AS, &limit);
#endif
#else
	setrlimit(RLIMIT_AS, &limit);
#endif
#endif
	for (unsigned round = 0; round < 10000; round++) {
		random_state = 31337 + round;
		memcpy(copy, bytes, size);
		for (uint64_t flips = 1 + below(8); flips; flips--) {
			size_t at = below(size);

			copy[at] =
			    below(2) ? (uint8_t)random64() : copy[at] ^ (uint8_t)(1u << below(8));
		}
		if (round % 4)
			repair(copy, size);
		if (exercise(copy, size, &events, &complete) == 0)
			opened++;
		else
			refused++;
	}
	setrlimit(RLIMIT_AS, &old);
	/* Neither may be all of them, or the test would test nothing. */
	CHECK(opened > 100 && refused > 100, "%llu opened, %llu refused",
	      (unsigned long long)opened, (unsigned long long)refused);
	free(copy);
	free(bytes);
}

static void other_files_are_refused(void)
{
	static const uint8_t nothing[64];
	uint64_t events;
	bool complete;

	CHECK(exercise(NULL, 0, &events, &complete) == MAYFLY_E_NOT_A_TRACE);
	CHECK(exercise(nothing, sizeof(nothing), &events, &complete) == MAYFLY_E_NOT_A_TRACE);
}

static void newer_traces_are_refused(void)
{
	size_t size;
	uint8_t *bytes = golden(&size);
	uint64_t events;
	bool complete;

	bytes[8] = 2;
	repair(bytes, size);
	CHECK(exercise(bytes, size, &events, &complete) == MAYFLY_E_VERSION);
	bytes[8] = 1;
	bytes[16] = 1; /* a feature */
	repair(bytes, size);
	CHECK(exercise(bytes, size, &events, &complete) == MAYFLY_E_VERSION);
	bytes[16] = 0;
	/* An unknown chunk in place of the index, which may be skipped, or not. */
	for (size_t at = TRACE_HEADER_BYTES; size - at > TRACE_TRAILER_BYTES;) {
		uint32_t stored;

		memcpy(&stored, bytes + at + 4, 4);
		if (memcmp(bytes + at, "indx", 4) == 0)
			memcpy(bytes + at, "zzzz", 4);
		at += TRACE_CHUNK_BYTES + stored;
	}
	repair(bytes, size);
	CHECK(exercise(bytes, size, &events, &complete) == 0 && events > 200 && !complete);
	for (size_t at = 0; at + 4 < size; at++)
		if (memcmp(bytes + at, "zzzz", 4) == 0)
			bytes[at] = 'Z';
	repair(bytes, size);
	CHECK(exercise(bytes, size, &events, &complete) == MAYFLY_E_VERSION);
	free(bytes);
}

static void errors_have_texts(void)
{
	CHECK(strcmp(mayfly_error_text(0), "no error") == 0);
	CHECK(strcmp(mayfly_error_text(MAYFLY_E_DAMAGED), "damaged") == 0);
	CHECK(strcmp(mayfly_error_text(-1000), "unknown error") == 0);
	CHECK(strcmp(mayfly_error_text(1), "unknown error") == 0);
}

/* ---- measuring ---- */

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A number below limit, small ones far more often. */
static uint64_t skewed(uint64_t limit)
{
	return (uint64_t)((double)limit * pow(uniform(), 2.5));
}

/*
 * What a compiler at 512 KiB gives: 6,057 samples, about 33,000 nodes over 4,068 call sites in
 * 1,373 functions. Stacks are walks through a random call graph, each going on from the one before.
 */
static struct recording *compiler_recording(bool named)
{
	enum { SITES = 4068, FUNCTIONS = 1373, SAMPLES = 6057, DEPTH = 62 };
	struct recording *r = recording_new();
	struct recording_module m = {.start = 0x7f1200000000,
				     .end = 0x7f1208000000,
				     .bias = 0x7f1200000000,
				     .to_ns = INT64_MAX,
				     .build_id_length = 20};
	uint32_t name[FUNCTIONS], size_of[SITES], stack[DEPTH + 1] = {0};
	uint64_t address = 0x600000;
	int64_t now = 0;
	int depth = 0;

	random_state = 7;
	m.path = recording_string(r, "/usr/lib/llvm-14/lib/libLLVM-14.so.1", 36);
	recording_module(r, &m);
	recording_thread(r, 4711, recording_string(r, "clang", 5));
	for (size_t i = 0; i < FUNCTIONS; i++) {
		static const char *const word[] = {"clang::",  "llvm::", "Parse",    "Sema",  "Act",
						   "Decl",     "Expr",	 "Type",     "Build", "On",
						   "(clang::", "const",	 "unsigned", "Visit"};
		char text[200] = "";

		for (size_t k = 4 + below(9); k; k--)
			strcat(text, word[below(14)]);
		snprintf(text + strlen(text), 20, "%llu)", (unsigned long long)below(500));
		name[i] = recording_string(r, text, strlen(text));
	}
	for (size_t i = 0; i < SITES; i++) {
		struct recording_location l = {.function = name[i * FUNCTIONS / SITES]};
		uint32_t frame = recording_frame(r, 0, 0, address += 1 + skewed(60000));

		size_of[i] = (uint32_t)(8 + 8 * skewed(600));
		if (!named)
			continue;
		r->frame[frame].first_location = recording_location(r, &l);
		r->frame[frame].locations = 1;
	}
	for (size_t i = 0; i < SAMPLES; i++) {
		struct recording_sample s = {.free_ns = INT64_MAX, .hits = 1, .interval_log2 = 19};
		int keep = depth - (int)skewed((uint64_t)(depth ? depth : 1));
		int grow = (int)(below(100) < 85 ? 1 + skewed(18) : 1);
		uint32_t site = r->node[stack[keep]].frame;

		depth = keep;
		while (grow-- && depth < DEPTH) {
			/* Each site leads to few others. */
			uint64_t before = site == RECORDING_NONE ? 1 : site * 31ull + 7;

			site = (uint32_t)((before * 2654435761u + skewed(12) * 40503) % SITES);
			stack[depth + 1] = recording_node(r, stack[depth], site);
			depth++;
		}
		now += (int64_t)(-log(uniform()) * 830e3 * 2);
		s.time_ns = now;
		s.node = stack[depth];
		s.size = below(3) ? size_of[site] : 8 + 8 * skewed(3000);
		if (below(100) < 70)
			s.free_ns = now + (int64_t)(-log(uniform()) * pow(10, 3 + 7 * uniform()));
		recording_sample(r, &s);
	}
	r->info.duration_ns = now;
	r->info.interval_bytes = 512 << 10;
	return r;
}

static void measure(const char *what, const struct recording *r)
{
	struct mayfly_trace *t;
	uint8_t *bytes;
	size_t size;
	double start = now_ms(), encoded, opened;
	double samples = (double)r->samples;

	if (trace_encode(r, 0, &bytes, &size))
		return;
	encoded = now_ms();
	if (mayfly_trace_open(bytes, size, &t))
		return;
	opened = now_ms();
	printf("# %s: %zu samples, %zu nodes, %zu frames, %zu strings: %zu bytes, "
	       "%.2f per sample\n",
	       what, r->samples, r->nodes, r->frames, r->strings, size, (double)size / samples);
	printf("#   encoded in %.1f ms, opened in %.2f ms\n", encoded - start, opened - encoded);
	for (size_t at = TRACE_HEADER_BYTES; size - at > TRACE_TRAILER_BYTES;) {
		uint32_t stored;

		memcpy(&stored, bytes + at + 4, 4);
		stored += TRACE_CHUNK_BYTES;
		printf("#   %.4s %7u bytes, %.2f per sample\n", bytes + at, stored,
		       stored / samples);
		at += stored;
	}
	mayfly_trace_close(t);
	free(bytes);
}

static void measure_all(void)
{
	for (int named = 0; named < 2; named++) {
		struct recording *r = compiler_recording(named);

		measure(named ? "with functions" : "without names", r);
		recording_free(r);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--measure") == 0) {
		measure_all();
		return 0;
	}
	RUN(strings_and_nodes_are_distinct);
	RUN(empty_recording_survives);
	RUN(random_recordings_survive);
	RUN(large_recordings_survive);
	RUN(several_chunks_survive);
	RUN(bad_recordings_are_refused);
	RUN(every_truncation_is_read);
	RUN(corruptions_are_read);
	RUN(other_files_are_refused);
	RUN(newer_traces_are_refused);
	RUN(errors_have_texts);
	DONE();
}
