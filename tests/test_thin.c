/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thinning: estimates stay unbiased and their intervals hold, for all samplers, thinned once and
 * several times; and the thinned trace is the old one without the dropped blocks.
 */
#include <mayfly/trace.h>

#include <math.h>
#include <string.h>

#include "trace/read/cursor.h"
#include "query/estimate.h"
#include "trace/rewrite/thin.h"
#include "trace/write/thin_rule.h"

#include "history.h"
#include "test.h"

static uint64_t random_state;

static uint64_t random64(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static double uniform(void)
{
	return ((double)(random64() >> 11) + 0.5) / 9007199254740992.0;
}

/* ---- estimates ---- */

#define BLOCKS 4000
#define TRIALS 1500

/* Sizes around all the intervals of the test, 2^8 to 2^13, and far below. */
static uint64_t population[BLOCKS];

static void make_population(void)
{
	random_state = 11;
	for (unsigned i = 0; i < BLOCKS; i++)
		population[i] = 1 + (uint64_t)exp2(4 + 10.5 * pow(uniform(), 1.5));
}

enum input { INPUT_STRATIFIED, INPUT_POISSON, INPUT_EXACT, INPUTS };

/* What the agent's sampler does, the slow way: one point in each stratum of the bytes of all
 * blocks below the interval. */
struct strata {
	double point; /* the next one, in bytes from here */
	double end;   /* of its stratum */
};

static uint32_t stratified_hits(struct strata *s, uint64_t size, double interval)
{
	double left = (double)size;
	uint32_t hits = 0;

	while (left > 0) {
		double step = fmin(left, s->end);

		hits += s->point >= 0 && s->point < step;
		s->point -= step;
		s->end -= step;
		left -= step;
		if (s->end <= 0) {
			s->end = interval;
			s->point = uniform() * interval;
		}
	}
	return hits;
}

/* False: the block was not sampled. */
static bool sample_block(enum input input, uint32_t log2, struct strata *s, struct trace_block *b)
{
	double interval = exp2(log2);

	b->hits = 0;
	b->interval_log2 = (uint8_t)(input == INPUT_EXACT ? 0 : log2);
	if (input == INPUT_EXACT || (input == INPUT_STRATIFIED && (double)b->size >= interval))
		return true;
	if (input == INPUT_POISSON)
		b->hits = uniform() < -expm1(-(double)b->size / interval);
	else
		b->hits = stratified_hits(s, b->size, interval);
	return b->hits > 0;
}

/* A set of blocks: all, or the small or large ones of which a third is live. */
enum part { PART_ALL, PART_LIVE, PART_SMALL, PARTS };

static bool in_part(unsigned part, unsigned i)
{
	return part == PART_ALL || (part == PART_LIVE && i % 3 == 0) ||
	       (part == PART_SMALL && population[i] < 200);
}

struct figure_test {
	double truth, sum, squares;
	unsigned covered;
};

static void add_figure(struct figure_test *f, const struct mayfly_figure *got)
{
	f->sum += got->estimate;
	f->squares += got->estimate * got->estimate;
	f->covered += got->low <= f->truth * (1 + 1e-9) && f->truth * (1 - 1e-9) <= got->high;
}

static void check_figure(const struct figure_test *f, const char *what)
{
	double mean = f->sum / TRIALS, variance = f->squares / TRIALS - mean * mean;
	double off = (mean - f->truth) / sqrt(fmax(variance, 1e-6 * f->truth) / TRIALS);

	CHECK(fabs(off) < 3.5, "%s: mean %g, truth %g, %.2f sigma", what, mean, f->truth, off);
	CHECK(f->covered >= TRIALS * 0.93, "%s: %u of %u intervals hold the truth", what,
	      f->covered, TRIALS);
}

/* Samples at 2^8 (or not at all), thins to each of the intervals in turn. */
static void one_trial(enum input input, const uint32_t *steps, struct tally *tally)
{
	enum mayfly_sampler sampler = input == INPUT_POISSON ? MAYFLY_POISSON : MAYFLY_STRATIFIED;
	struct strata s = {.end = 256};

	s.point = uniform() * 256;
	memset(tally, 0, PARTS * sizeof(*tally));
	for (unsigned i = 0; i < BLOCKS; i++) {
		struct trace_block b = {.size = population[i]};
		bool kept = sample_block(input, 8, &s, &b);

		for (const uint32_t *step = steps; kept && *step; step++)
			kept = thin_block(sampler, *step, random64(), &b);
		for (unsigned part = 0; kept && part < PARTS; part++)
			if (in_part(part, i))
				tally_add(&tally[part], sampler, 1ull << b.interval_log2, b.size,
					  b.hits);
	}
}

static void check_estimates(enum input input, const uint32_t *steps, const char *name)
{
	struct figure_test bytes[PARTS] = {{0}}, blocks[PARTS] = {{0}};
	struct tally tally[PARTS];

	for (unsigned i = 0; i < BLOCKS; i++)
		for (unsigned part = 0; part < PARTS; part++)
			if (in_part(part, i)) {
				bytes[part].truth += (double)population[i];
				blocks[part].truth++;
			}
	for (unsigned trial = 0; trial < TRIALS; trial++) {
		random_state = (trial + 1) * 0x123456789ull + input;
		one_trial(input, steps, tally);
		for (unsigned part = 0; part < PARTS; part++) {
			struct mayfly_estimate e =
			    tally_estimate(&tally[part], (struct unseen){256, 0.5});

			add_figure(&bytes[part], &e.bytes);
			add_figure(&blocks[part], &e.blocks);
		}
	}
	for (unsigned part = 0; part < PARTS; part++) {
		char what[80];

		snprintf(what, sizeof(what), "%s, input %d, part %u, bytes", name, (int)input,
			 part);
		check_figure(&bytes[part], what);
		snprintf(what, sizeof(what), "%s, input %d, part %u, blocks", name, (int)input,
			 part);
		check_figure(&blocks[part], what);
	}
}

static void thinned_once_is_unbiased(void)
{
	for (int input = 0; input < INPUTS; input++)
		check_estimates((enum input)input, (const uint32_t[]){11, 0}, "once");
}

static void thinned_often_is_unbiased(void)
{
	for (int input = 0; input < INPUTS; input++)
		check_estimates((enum input)input, (const uint32_t[]){9, 10, 12, 0}, "often");
}

/* ---- the rule ---- */

static void large_blocks_stay_exact(void)
{
	for (unsigned i = 0; i < 1000; i++) {
		struct trace_block b = {.size = 4096 + random64() % 100};

		CHECK(thin_block(MAYFLY_STRATIFIED, 12, random64(), &b));
		CHECK(b.hits == 0 && b.interval_log2 == 12 && !b.flags);
	}
}

static void coarse_blocks_stay_as_they_are(void)
{
	struct trace_block b = {.size = 100, .hits = 1, .interval_log2 = 12, .flags = 1};

	for (uint32_t log2 = 0; log2 <= 12; log2++)
		CHECK(thin_block(MAYFLY_STRATIFIED, log2, UINT64_MAX, &b));
	CHECK(b.hits == 1 && b.interval_log2 == 12 && b.flags == 1);
}

static void chances_are_right(void)
{
	struct {
		uint32_t sampler;
		struct trace_block block;
		double chance;
		uint32_t hits;
	} c[] = {
	    {MAYFLY_STRATIFIED, {.size = 1024}, 0.25, 1},
	    {MAYFLY_STRATIFIED, {.size = 0}, 1 / 4096., 1},
	    {MAYFLY_STRATIFIED, {.size = 3000, .interval_log2 = 11}, 3000 / 4096., 1},
	    {MAYFLY_STRATIFIED, {.size = 100, .hits = 2, .interval_log2 = 10}, 0.25, 2},
	    {MAYFLY_STRATIFIED, {.size = 1000, .hits = 1, .interval_log2 = 11}, 0.5, 1},
	    {MAYFLY_POISSON, {.size = 4096}, 1 - exp(-1), 1},
	    {MAYFLY_POISSON,
	     {.size = 4096, .hits = 1, .interval_log2 = 11},
	     (1 - exp(-1)) / (1 - exp(-2)),
	     1},
	};

	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++)
		for (int side = -1; side <= 1; side += 2) {
			struct trace_block b = c[i].block;
			double coin = c[i].chance + side * 1e-6;

			CHECK(thin_block(c[i].sampler, 12, (uint64_t)(coin * 0x1p64), &b) ==
				  (side < 0),
			      "case %zu", i);
			CHECK(side > 0 || (b.hits == c[i].hits && b.interval_log2 == 12 &&
					   b.flags == MAYFLY_FLAG_THINNED));
		}
}

static void coins_are_uniform(void)
{
	unsigned count[16] = {0};

	for (uint64_t seed = 0; seed < 4; seed++)
		for (uint64_t serial = 0; serial < 40000; serial++)
			count[thin_coin(seed, serial) >> 60]++;
	for (unsigned i = 0; i < 16; i++)
		CHECK(count[i] > 9700 && count[i] < 10300, "%u", count[i]);
}

/* ---- whole traces ---- */

/* Spans that say their number, with a text and with stacks. */
static void add_track(struct history *h, uint32_t type, uint64_t number, int64_t now)
{
	char text[32];
	struct history_track t = {.track = {now, number % 2, type, (uint32_t)(random64() % 3),
					    (uint32_t)(random64() % h->r->nodes), NULL}};

	snprintf(text, sizeof(text), "number %llu", (unsigned long long)number);
	t.value[0] = number;
	t.value[1] = recording_event_text(h->r, text, strlen(text));
	history_add_track(h, &t);
}

static struct history make_history(uint32_t mode)
{
	struct history h = {.r = recording_new()};
	struct recording *r = h.r;
	const struct recording_label label = {recording_string(r, "key", 3),
					      recording_string(r, "value", 5)};
	const struct recording_track_type span = {
	    .kind = MAYFLY_TYPE_SPAN,
	    .fields = 2,
	    .field = {{MAYFLY_FIELD_UINT, label.key}, {MAYFLY_FIELD_TEXT, label.value}}};
	uint32_t type = recording_track_type(r, &span);
	int64_t now = 0;

	random_state = 5;
	r->info.complete = true;
	for (uint32_t i = 0; i < 3; i++)
		recording_thread(r, 10 + i, 0);
	for (uint32_t i = 0; i < 50; i++)
		recording_frame(r, MAYFLY_FRAME_CODE, RECORDING_NONE, i * 16);
	for (uint32_t i = 0; i < 400; i++)
		recording_node(r, (uint32_t)(random64() % r->nodes), (uint32_t)(random64() % 50));
	for (uint32_t i = 0; i < 5000; i++) {
		struct history_block b = {.time_ns = now,
					  .free_ns = INT64_MAX,
					  .free_thread = (uint32_t)(random64() % 3),
					  .free_flags = (uint32_t)(random64() % 4)};

		b.block.node = (uint32_t)(random64() % r->nodes);
		b.block.thread = (uint32_t)(random64() % 3);
		b.block.size = 1 + (random64() & 0xffff) % (1u << (4 + random64() % 13));
		b.block.flags = random64() % 8 ? 0 : MAYFLY_FLAG_REALLOC;
		if (mode == MAYFLY_SAMPLED) {
			b.block.interval_log2 = 10;
			b.block.hits = b.block.size >= 1024 ? 0 : 1 + (random64() % 9 == 0);
		}
		if (random64() % 3)
			b.free_ns = now + (int64_t)(random64() % 100000000);
		b.block.labels = recording_labels(r, &label, i / 10 % 2);
		history_add(&h, &b);
		if (i % 3 == 0)
			add_track(&h, type, i, now);
		now += (int64_t)(random64() % 100) * 2000;
	}
	return h;
}

/* The stack of a node as frames' addresses, hashed. */
static uint64_t stack_of(const struct mayfly_trace *t, uint32_t node)
{
	uint64_t hash = 1;

	for (; node; node = mayfly_trace_node(t, node).parent)
		hash = hash * 31 + mayfly_trace_frame(t, mayfly_trace_node(t, node).frame)->address;
	return hash;
}

/* All track events stay, where they were among the blocks that are kept. */
static void compare_tracks(const struct mayfly_trace *old, const struct mayfly_trace *thin,
			   const struct thin_map *map)
{
	struct mayfly_track_cursor *a, *b;
	struct mayfly_track_event e, f;
	struct mayfly_cursor *blocks;
	struct mayfly_event block;
	uint64_t at = 0, kept = 0, tracks = 0;

	CHECK(mayfly_track_cursor_open(old, &a) == 0);
	CHECK(mayfly_track_cursor_open(thin, &b) == 0);
	CHECK(mayfly_cursor_open(old, &blocks) == 0);
	while (mayfly_track_cursor_next(a, &e) == 1) {
		for (; at < e.events_before; at++) {
			CHECK(mayfly_cursor_next(blocks, &block) == 1);
			kept += thin_map_serial(map, block.sample) != TRACE_THINNED;
		}
		tracks++;
		CHECK(mayfly_track_cursor_next(b, &f) == 1);
		CHECK(f.events_before == kept);
		CHECK(f.kind == e.kind && f.type == e.type && f.thread == e.thread);
		CHECK(f.time_ns == e.time_ns && f.values == e.values);
		CHECK(stack_of(thin, f.node) == stack_of(old, e.node));
		if (e.values) {
			CHECK(f.value[0].u == e.value[0].u);
			CHECK(strcmp(f.value[1].text, e.value[1].text) == 0);
		}
	}
	CHECK(tracks > 1000 && mayfly_track_cursor_next(b, &f) == 0);
	mayfly_track_cursor_close(a);
	mayfly_track_cursor_close(b);
	mayfly_cursor_close(blocks);
}

/* The events of `thin` are those of `old` whose blocks are kept. */
static void compare_thinned(const struct mayfly_trace *old, const struct mayfly_trace *thin,
			    const struct thin_map *map, uint32_t log2, uint64_t seed)
{
	struct mayfly_cursor *a, *b;
	struct mayfly_event e, f;
	size_t kept = 0, dropped = 0;

	CHECK(mayfly_cursor_open(old, &a) == 0);
	CHECK(mayfly_cursor_open(thin, &b) == 0);
	while (mayfly_cursor_next(a, &e) == 1) {
		uint64_t serial = thin_map_serial(map, e.sample);
		struct trace_block block = {.size = e.size,
					    .hits = e.hits,
					    .interval_log2 = (uint8_t)__builtin_ctzll(e.interval),
					    .flags = e.kind == MAYFLY_ALLOC ? e.flags : 0};
		bool keep = thin_block(0, log2, thin_coin(seed, e.sample), &block);

		CHECK(keep == (serial != TRACE_THINNED));
		if (!keep) {
			dropped++;
			continue;
		}
		kept++;
		CHECK(mayfly_cursor_next(b, &f) == 1);
		CHECK(f.kind == e.kind && f.sample == serial && f.thread == e.thread);
		CHECK(f.size == e.size && f.alloc_thread == e.alloc_thread);
		CHECK(f.labels == e.labels && f.labels < 2);
		CHECK(f.hits == block.hits && f.interval == 1ull << block.interval_log2);
		CHECK(f.flags == (e.kind == MAYFLY_ALLOC ? block.flags : e.flags));
		CHECK(stack_of(thin, f.node) == stack_of(old, e.node));
		/* Times of exact traces are rounded anew. */
		CHECK(llabs(f.time_ns - e.time_ns) <= 2000);
	}
	CHECK(mayfly_cursor_next(b, &f) == 0 && kept > 100 && dropped > 1000);
	CHECK(thin_map_serial(map, mayfly_trace_info(old)->samples) == TRACE_THINNED);
	mayfly_cursor_close(a);
	mayfly_cursor_close(b);
}

/* The blocks that stay have their holders, by their new numbers. */
static void compare_pictures(const struct mayfly_trace *old, const struct mayfly_trace *thin,
			     const struct thin_map *map)
{
	const struct mayfly_picture *a = mayfly_trace_picture(old), *b = mayfly_trace_picture(thin);
	size_t kept = 0;

	CHECK(a && b && b->holders == a->holders && b->types == a->types);
	CHECK(!strcmp(b->holder[1].name, "g_all") && b->holder[1].bytes == 4711);
	CHECK(b->time_ns == a->time_ns && b->blocks == a->blocks);
	for (size_t i = 0; i < a->count; i++) {
		uint64_t number = thin_map_serial(map, a->held[i].number);

		if (number == TRACE_THINNED)
			continue;
		CHECK(kept < b->count && b->held[kept].number == number);
		CHECK(b->held[kept].holder == a->held[i].holder &&
		      b->held[kept].steps == a->held[i].steps &&
		      b->held[kept].type == a->held[i].type);
		kept++;
	}
	CHECK(kept == b->count && kept && kept < a->count);
}

/* Each block of the history has a holder, or none. */
static void add_picture(struct history *h, struct mayfly_picture *p)
{
	static const struct mayfly_holder holder[] = {
	    {MAYFLY_HOLDER_LOST, "nothing: lost", "", 0, 1, 1},
	    {MAYFLY_HOLDER_VARIABLE, "g_all", "demo", 0, 4711, 3}};
	static const char *const type[] = {"Session"};
	struct mayfly_held *held = calloc(h->blocks + 1, sizeof(*held));

	CHECK(held);
	for (size_t i = 0; held && i < h->blocks; i++)
		held[i] = (struct mayfly_held){i, i % 3 < 2 ? (uint32_t)(i % 3) : UINT32_MAX,
					       i % 2 ? 0 : UINT32_MAX, (uint32_t)(i % 5)};
	*p = (struct mayfly_picture){.time_ns = 1000000,
				     .blocks = 5,
				     .holders = 2,
				     .holder = holder,
				     .types = 1,
				     .type = type,
				     .count = h->blocks,
				     .held = held};
	h->picture = p;
}

/* Thins the trace of `bytes`; *result is that with one more block and a free of an old one. */
static void thin_trace(const struct history *h, const uint8_t *bytes, size_t size, uint32_t log2,
		       uint64_t seed, struct trace_buffer *result)
{
	static const struct trace_block block = {.size = 77, .hits = 1, .interval_log2 = 30};
	const struct trace_writer_options options = {.interval_log2 = log2, .level = 1};
	struct trace_buffer copy = {0};
	struct mayfly_trace *old = NULL, *thin = NULL;
	struct trace_writer *w = trace_writer_new(&options, h->r, trace_buffer_sink, &copy);
	struct thin_map *map = NULL, *none;
	uint64_t serial;

	CHECK(mayfly_trace_open(bytes, size, &old) == 0);
	CHECK(trace_thin(old, log2, seed, w, &map) == 0);
	CHECK(trace_thin(old, log2, seed, w, &none) == MAYFLY_E_RANGE && !none);
	CHECK(trace_writer_finish(w) == 0);
	CHECK(mayfly_trace_open(copy.bytes, copy.used, &thin) == 0);
	CHECK(mayfly_trace_info(thin)->thinned &&
	      mayfly_trace_info(thin)->nodes < mayfly_trace_info(old)->nodes + 1);
	compare_thinned(old, thin, map, log2, seed);
	compare_tracks(old, thin, map);
	compare_pictures(old, thin, map);
	thin_map_free(map);
	trace_writer_free_all(w);
	/* Again, and the history goes on. */
	w = trace_writer_new(&options, h->r, trace_buffer_sink, result);
	CHECK(trace_thin(old, log2, seed, w, &map) == 0);
	CHECK(trace_writer_alloc(w, INT64_MAX, &block, &serial) == 0);
	CHECK(serial == mayfly_trace_info(thin)->samples);
	CHECK(trace_writer_free(w, INT64_MAX, serial, &block, 0, 0) == 0);
	CHECK(trace_writer_finish(w) == 0);
	thin_map_free(map);
	trace_writer_free_all(w);
	mayfly_trace_close(old);
	mayfly_trace_close(thin);
	free(copy.bytes);
}

static void traces_are_thinned(void)
{
	for (uint32_t mode = MAYFLY_SAMPLED; mode <= MAYFLY_EXACT; mode++) {
		struct history h = make_history(mode);
		const struct trace_writer_options options = {.mode = mode, .level = 1};
		struct trace_buffer once = {0}, twice = {0};
		struct mayfly_picture picture;
		uint8_t *bytes;
		size_t size;

		add_picture(&h, &picture);
		CHECK(history_write(&h, &options, 900, &bytes, &size) == 0);
		free((void *)(uintptr_t)picture.held);
		thin_trace(&h, bytes, size, 12, 1, &once);
		thin_trace(&h, once.bytes, once.used, 14, 2, &twice);
		CHECK(twice.used < once.used && once.used < size);
		free(bytes);
		free(once.bytes);
		free(twice.bytes);
		history_free(&h);
	}
}

int main(void)
{
	make_population();
	RUN(coarse_blocks_stay_as_they_are);
	RUN(large_blocks_stay_exact);
	RUN(chances_are_right);
	RUN(coins_are_uniform);
	RUN(thinned_once_is_unbiased);
	RUN(thinned_often_is_unbiased);
	RUN(traces_are_thinned);
	DONE();
}
