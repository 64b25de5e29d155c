/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine for runtimes (mayfly/memprof.h): that each unit is sampled with the same chance
 * whichever way a block is allocated, and what becomes of callbacks.
 */
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include "mayfly/memprof.h"
#include "test.h"

enum { UNIT = 8, AREA = 1 << 16, SESSIONS = 20 };

/* ---- a client that counts ---- */

struct tally {
	uint64_t allocs, promotes, moves, resizes, deallocs, discards;
	uint64_t last_id, last_size, last_samples, most;
	uint64_t by_samples[64];	/* of blocks with so many samples, capped */
	uint64_t samples[8], blocks[8]; /* by kind */
	uintptr_t last_block;
	uint32_t last_depth, last_promoted;
	uint64_t frames[8];
	void *last_kept;
	struct mayfly_memprof *profile;
	struct mayfly_memprof_thread *thread;
	void (*act)(struct tally *tally, uint64_t id);
};

static void *on_alloc(void *client, const struct mayfly_memprof_block *block)
{
	struct tally *t = client;

	t->allocs++;
	t->last_id = block->id;
	t->last_block = block->block;
	t->last_size = block->size;
	t->last_samples = block->n_samples;
	t->last_depth = block->depth;
	if (block->depth)
		memcpy(t->frames, block->frames,
		       (block->depth < 8 ? block->depth : 8) * sizeof(uint64_t));
	t->samples[block->kind & 7] += block->n_samples;
	t->blocks[block->kind & 7]++;
	t->by_samples[block->n_samples < 63 ? block->n_samples : 63]++;
	if (t->act)
		t->act(t, block->id);
	return (void *)(uintptr_t)block->id;
}

static void note(struct tally *t, const struct mayfly_memprof_block *block, void *kept)
{
	t->last_id = block->id;
	t->last_block = block->block;
	t->last_size = block->size;
	t->last_promoted = block->promoted;
	t->last_kept = kept;
	CHECK(block->depth == 0 && !block->frames);
}

static void on_promote(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	((struct tally *)client)->promotes++;
	note(client, block, kept);
}

static void on_move(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	((struct tally *)client)->moves++;
	note(client, block, kept);
}

static void on_resize(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	((struct tally *)client)->resizes++;
	note(client, block, kept);
}

static void on_dealloc(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	struct tally *t = client;

	t->deallocs++;
	note(t, block, kept);
}

static void on_discard(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	((struct tally *)client)->discards++;
	note(client, block, kept);
}

static struct mayfly_memprof_tracker tracker_of(struct tally *tally)
{
	struct mayfly_memprof_tracker tracker = {tally,	    on_alloc,	on_promote, on_move,
						 on_resize, on_dealloc, on_discard};

	return tracker;
}

static uint32_t two_frames(void *host, uint32_t entry, uint64_t *frames, uint32_t most)
{
	(void)host;
	CHECK(most >= 2);
	frames[0] = 100 + entry;
	frames[1] = 7;
	return 2;
}

static uint32_t decode(void *host, uint64_t code, struct mayfly_memprof_place *places,
		       uint32_t most)
{
	static char text[32];

	(void)host;
	CHECK(most == MAYFLY_MEMPROF_PLACES);
	if (code == 1)
		return 0;
	snprintf(text, sizeof(text), "f%d", (int)code);
	places[0].function = text;
	places[0].file = "a.lang";
	places[0].line = (uint32_t)code;
	places[0].inlined = 1;
	places[1].function = "outer";
	return 2;
}

struct fixture {
	struct mayfly_memprof *profile;
	struct mayfly_memprof_thread *thread;
	struct tally tally;
};

static void begin(struct fixture *f, double rate, uint64_t seed, uint32_t downwards)
{
	struct mayfly_memprof_host host = {NULL, UNIT, downwards, two_frames, decode};
	struct mayfly_memprof_options options = {rate, 8, seed};
	struct mayfly_memprof_tracker tracker;

	memset(f, 0, sizeof(*f));
	f->profile = mayfly_memprof_create(&host);
	f->thread = mayfly_memprof_attach(f->profile);
	f->tally.profile = f->profile;
	f->tally.thread = f->thread;
	tracker = tracker_of(&f->tally);
	CHECK(mayfly_memprof_start(f->profile, &options, &tracker) == 0);
}

static void end(struct fixture *f)
{
	struct mayfly_memprof_counts counts;

	CHECK(mayfly_memprof_detach(f->thread, NULL) == 0);
	mayfly_memprof_discard(f->profile);
	mayfly_memprof_get_counts(f->profile, &counts);
	CHECK(counts.tracked == 0 && counts.dropped == 0);
	mayfly_memprof_destroy(f->profile);
}

/* ---- a heap that only has addresses ---- */

struct area {
	uintptr_t begin, at, end, limit;
	uint32_t downwards;
};

static enum mayfly_memprof_fate dies(void *context, uintptr_t *block)
{
	(void)context;
	(void)block;
	return MAYFLY_MEMPROF_DIED;
}

static void new_area(struct fixture *f, struct area *a)
{
	mayfly_memprof_moved(f->thread, dies, NULL);
	mayfly_memprof_run(f->thread);
	a->begin = 1 << 20;
	a->end = a->begin + AREA;
	a->at = a->downwards ? a->end : a->begin;
	a->limit = (uintptr_t)mayfly_memprof_limit(f->thread, (void *)a->at,
						   (void *)(a->downwards ? a->begin : a->end));
}

/* The allocation of `count` blocks by one check. */
static void bump(struct fixture *f, struct area *a, const uint64_t *sizes, uint32_t count)
{
	struct mayfly_memprof_part parts[8];
	uintptr_t bytes = 0, room, at;

	for (uint32_t i = 0; i < count; i++)
		bytes += sizes[i] * UNIT;
	room = a->downwards ? a->at - a->limit : a->limit - a->at;
	if (bytes > room) {
		room = a->downwards ? a->at - a->begin : a->end - a->at;
		if (bytes > room)
			new_area(f, a);
		room = a->downwards ? a->at - a->limit : a->limit - a->at;
		if (bytes > room) {
			at = a->at;
			for (uint32_t i = 0; i < count; i++) {
				if (a->downwards)
					at -= sizes[i] * UNIT;
				parts[i] = (struct mayfly_memprof_part){at, sizes[i], i, i};
				if (!a->downwards)
					at += sizes[i] * UNIT;
			}
			a->at = at;
			a->limit = (uintptr_t)mayfly_memprof_carved(
			    f->thread, parts, count, (void *)at,
			    (void *)(a->downwards ? a->begin : a->end));
			mayfly_memprof_run(f->thread);
			return;
		}
	}
	a->at += a->downwards ? -bytes : bytes;
}

/* ---- chance ---- */

/* Blocks of `size` units that got k samples, of `blocks`: is this the binomial distribution? Sums up
 * the classes with k = 0, 1, 2 and more; 3.29 standard deviations of chi-square with 3 degrees of
 * freedom (p = 0.001) is 16.3. */
static void check_binomial(const struct tally *t, uint32_t size, double rate, uint64_t blocks,
			   const char *what)
{
	double chi = 0, p = pow(1 - rate, size), rest = 1, seen_rest = (double)blocks;

	for (int k = 0; k < 3; k++) {
		double expected = p * (double)blocks;
		double seen = k ? (double)t->by_samples[k] : (double)(blocks - t->allocs);

		chi += (seen - expected) * (seen - expected) / expected;
		rest -= p;
		seen_rest -= seen;
		p *= (double)(size - (uint32_t)k) / (k + 1) * rate / (1 - rate);
	}
	rest *= (double)blocks;
	CHECK(rest > 5, "%s: too few", what);
	chi += (seen_rest - rest) * (seen_rest - rest) / rest;
	CHECK(chi < 16.3, "%s: chi-square %.2f", what, chi);
}

static void check_mean(uint64_t samples, double units, double rate, const char *what)
{
	double sigma = sqrt(units * rate * (1 - rate));

	CHECK(fabs((double)samples - units * rate) < 3.9 * sigma,
	      "%s: %.0f samples of %.1f, %.1f sigma", what, (double)samples, units * rate,
	      ((double)samples - units * rate) / sigma);
}

static void chance_of_single(uint32_t downwards)
{
	static const double rates[] = {0.3, 0.05, 0.02};

	for (int r = 0; r < 3; r++) {
		struct fixture f;
		struct area a = {.downwards = downwards};
		uint64_t size = 10, blocks = 300000;

		begin(&f, rates[r], 11 + (uint64_t)r, downwards);
		new_area(&f, &a);
		for (uint64_t i = 0; i < blocks; i++)
			bump(&f, &a, &size, 1);
		check_mean(f.tally.samples[0], 10.0 * (double)blocks, rates[r], "single");
		check_binomial(&f.tally, 10, rates[r], blocks, "single");
		end(&f);
	}
}

static void test_single(void)
{
	chance_of_single(0);
	chance_of_single(1);
}

/* Each block of a combined allocation has its own share: also the last one, and after a hit. */
static void test_combined(void)
{
	static const uint64_t sizes[3] = {2, 3, 7};

	for (uint32_t downwards = 0; downwards < 2; downwards++) {
		struct fixture f;
		struct area a = {.downwards = downwards};
		double n = 400000;

		begin(&f, 0.07, 5, downwards);
		new_area(&f, &a);
		for (int i = 0; i < (int)n; i++)
			bump(&f, &a, sizes, 3);
		check_mean(f.tally.samples[0], 2 * n, 0.07, "combined, first");
		check_mean(f.tally.samples[1], 3 * n, 0.07, "combined, second");
		check_mean(f.tally.samples[2], 7 * n, 0.07, "combined, third");
		for (int i = 0; i < 3; i++) {
			double p = 1 - pow(1 - 0.07, (double)sizes[i]);

			CHECK(fabs((double)f.tally.blocks[i] - n * p) < 3.9 * sqrt(n * p * (1 - p)),
			      "part %d: %d blocks of %.0f", i, (int)f.tally.blocks[i], n * p);
		}
		/* The stack was asked for the entry of the part. */
		CHECK(f.tally.last_depth == 2 && f.tally.frames[1] == 7);
		CHECK(f.tally.frames[0] >= 100 && f.tally.frames[0] <= 102);
		end(&f);
	}
}

/* Free-list and large blocks, and memory outside: small, and larger than the gaps. */
static void test_large_and_external(void)
{
	static const uint32_t sizes[] = {3, 100, 2000};
	static const double rates[] = {0.3, 0.01, 0.0008};

	for (int external = 0; external < 2; external++) {
		for (int k = 0; k < 3; k++) {
			struct fixture f;
			uint64_t blocks = 200000;

			begin(&f, rates[k], 40 + (uint64_t)k, 0);
			for (uint64_t i = 0; i < blocks; i++) {
				if (external)
					mayfly_memprof_external_freed(
					    f.thread, mayfly_memprof_external(
							  f.thread, sizes[k] * UNIT - i % UNIT, 0));
				else
					mayfly_memprof_alloc(f.thread, 4096, sizes[k], 0);
				mayfly_memprof_run(f.thread);
			}
			check_mean(f.tally.samples[0], sizes[k] * (double)blocks, rates[k],
				   external ? "external" : "large");
			check_binomial(&f.tally, sizes[k], rates[k], blocks,
				       external ? "external" : "large");
			CHECK(f.tally.deallocs + 1 >= f.tally.allocs);
			end(&f);
		}
	}
}

/* A host that asks first draws the same samples as one that does not. */
static void test_passes(void)
{
	uint64_t samples[2], sizes[] = {1, 40, 3, 900};

	for (int asks = 0; asks < 2; asks++) {
		struct fixture f;

		begin(&f, 0.01, 12, 0);
		for (uint64_t i = 0; i < 20000; i++)
			if (!asks || !mayfly_memprof_passes(f.thread, sizes[i % 4]))
				mayfly_memprof_alloc(f.thread, 4096, sizes[i % 4], 0);
		mayfly_memprof_run(f.thread);
		samples[asks] = f.tally.samples[0];
		end(&f);
	}
	CHECK(samples[0] && samples[0] == samples[1]);
}

/* Gaps much longer than an area, and than the distance of looks: nothing is lost at their ends. */
static void test_low_rate(void)
{
	const double rate = 1e-6;
	struct fixture f;
	struct area a = {0};
	uint64_t size = 4000, units = 0;
	uint64_t large = 3000000;

	begin(&f, rate, 77, 0);
	new_area(&f, &a);
	for (int i = 0; i < 300000; i++, units += size)
		bump(&f, &a, &size, 1);
	check_mean(f.tally.samples[0], (double)units, rate, "low rate, bump");
	for (int i = 0; i < 500; i++)
		mayfly_memprof_alloc(f.thread, 4096, large, 1);
	mayfly_memprof_run(f.thread);
	check_mean(f.tally.samples[1], 500.0 * (double)large, rate, "low rate, large");
	end(&f);
}

/* Rate 1: all is sampled, in full. Sizes of 0 never are. */
static void test_rate_one(void)
{
	struct fixture f;
	struct area a = {0};
	uint64_t sizes[] = {3, 5};

	begin(&f, 1, 1, 0);
	new_area(&f, &a);
	bump(&f, &a, sizes, 2);
	CHECK(f.tally.samples[0] == 3 && f.tally.samples[1] == 5 && f.tally.allocs == 2);
	mayfly_memprof_alloc(f.thread, 64, 1000000000000, 2);
	mayfly_memprof_alloc(f.thread, 128, 0, 2);
	CHECK(mayfly_memprof_external(f.thread, 0, 2) == 0);
	mayfly_memprof_run(f.thread);
	CHECK(f.tally.samples[2] == 1000000000000 && f.tally.allocs == 3);
	end(&f);
}

/* ---- the distances from sample to sample ---- */

enum { CLASSES = 51, COARSE = 8, UNITS = 10000000, RUNS = 8, DISTANCE_MOST = 4096 };

static struct {
	uint64_t unit, last,
	    count; /* the unit that is being allocated; the last one that was sampled */
	uint64_t by_class[CLASSES], by_pair[COARSE * COARSE];
	double sum;
	int coarse; /* class of the distance before, or -1 */
	uint8_t fine_of[DISTANCE_MOST], coarse_of[DISTANCE_MOST];
	double chance[CLASSES], chance_coarse[COARSE];
} distances;

/* Classes of about the same chance, and one for the longest 0.2 %. */
static void make_classes(double rate)
{
	double longer = 1; /* the chance of this distance and of all longer ones */

	memset(&distances, 0, sizeof(distances));
	for (int i = 1; i < DISTANCE_MOST; i++, longer *= 1 - rate) {
		double chance = i < DISTANCE_MOST - 1 ? longer * rate : longer;
		int fine = longer < 0.002 ? CLASSES - 1 : (int)((1 - longer) * (CLASSES - 1));
		int coarse = longer > 1.0 / COARSE ? (int)((1 - longer) * COARSE) : COARSE - 1;

		distances.fine_of[i] = (uint8_t)fine;
		distances.coarse_of[i] = (uint8_t)coarse;
		distances.chance[fine] += chance;
		distances.chance_coarse[coarse] += chance;
	}
}

static void note_distance(struct tally *t, uint64_t id)
{
	uint64_t distance = distances.unit - distances.last;
	uint64_t at = distance < DISTANCE_MOST ? distance : DISTANCE_MOST - 1;

	(void)id;
	CHECK(t->last_samples == 1 && distance > 0);
	distances.last = distances.unit;
	distances.count++;
	distances.sum += (double)distance;
	distances.by_class[distances.fine_of[at]]++;
	if (distances.coarse >= 0)
		distances.by_pair[distances.coarse * COARSE + distances.coarse_of[at]]++;
	distances.coarse = distances.coarse_of[at];
}

/* By Wilson and Hilferty: what one in 2,000 is above. */
static void check_chi_square(double chi, double freedom, const char *what)
{
	double root = 1 - 2 / (9 * freedom) + 3.29 * sqrt(2 / (9 * freedom));

	CHECK(chi < freedom * root * root * root, "%s: chi-square %.1f of %.0f", what, chi,
	      freedom);
}

static void allocate_units(struct fixture *f, int way)
{
	struct area a = {.downwards = way == 1};
	uint64_t size = 1;

	if (way < 2)
		new_area(f, &a);
	for (distances.unit = 1; distances.unit <= UNITS; distances.unit++) {
		if (way < 2) {
			bump(f, &a, &size, 1);
		} else if (way == 2) {
			mayfly_memprof_alloc(f->thread, 4096, 1, 0);
			mayfly_memprof_run(f->thread);
		} else {
			mayfly_memprof_external_freed(f->thread,
						      mayfly_memprof_external(f->thread, UNIT, 0));
			mayfly_memprof_run(f->thread);
		}
	}
}

/* They are geometric, and know nothing of the one before, whichever way units are allocated. With
 * these numbers a bias of half a percent is five standard deviations. */
static void test_distances(void)
{
	static const char *const ways[] = {"upwards", "downwards", "free list", "external"};
	const double rate = 0.0125;
	double sum = 0, count = 0;

	for (int run = 0; run < RUNS; run++) {
		const char *what = ways[run % 4];
		double chi = 0, pairs = 0;
		struct fixture f;

		make_classes(rate);
		begin(&f, rate, 500 + (uint64_t)run, run % 4 == 1);
		f.tally.act = note_distance;
		distances.coarse = -1;
		allocate_units(&f, run % 4);
		for (int i = 0; i < CLASSES; i++) {
			double expected = distances.chance[i] * (double)distances.count;
			double off = (double)distances.by_class[i] - expected;

			CHECK(expected > 50);
			chi += off * off / expected;
		}
		for (int i = 0; i < COARSE * COARSE; i++) {
			double expected = distances.chance_coarse[i / COARSE] *
					  distances.chance_coarse[i % COARSE] *
					  (double)(distances.count - 1);
			double off = (double)distances.by_pair[i] - expected;

			pairs += off * off / expected;
		}
		check_chi_square(chi, CLASSES - 1, what);
		check_chi_square(pairs, COARSE * COARSE - 1, what);
		sum += distances.sum;
		count += (double)distances.count;
		end(&f);
	}
	CHECK(fabs(sum / count * rate - 1) < 3.9 * sqrt((1 - rate) / count), "mean %.5f of %.5f",
	      sum / count, 1 / rate);
}

/* The numbers have the mean and the variance of the binomial for blocks with many samples, too. */
static void test_many_samples(void)
{
	const double rate = 0.01, size = 100000, blocks = 20000, mean = size * rate;
	const double variance = mean * (1 - rate);

	for (int external = 0; external < 2; external++) {
		double sum = 0, squares = 0;
		struct fixture f;

		begin(&f, rate, 90, 0);
		for (int i = 0; i < (int)blocks; i++) {
			double off;

			if (external)
				mayfly_memprof_external(f.thread, (size_t)size * UNIT, 0);
			else
				mayfly_memprof_alloc(f.thread, 4096, (uint64_t)size, 0);
			mayfly_memprof_run(f.thread);
			off = (double)f.tally.last_samples - mean;
			sum += off;
			squares += off * off;
		}
		CHECK(f.tally.allocs == (uint64_t)blocks);
		CHECK(fabs(sum / blocks) < 3.9 * sqrt(variance / blocks), "mean off by %g",
		      sum / blocks);
		CHECK(fabs(squares / blocks / variance - 1) < 3.9 * sqrt(2 / blocks),
		      "variance %g of %g", squares / blocks, variance);
		end(&f);
	}
}

/* Threads of a profile draw their own samples, the same ones in each run. */
static void test_threads_differ(void)
{
	static uint8_t sampled[2][2][100000];
	uint64_t both = 0, count = 0;

	for (int run = 0; run < 2; run++) {
		struct mayfly_memprof_thread *thread[2];
		struct fixture f;

		begin(&f, 0.01, 3, 0);
		thread[0] = f.thread;
		thread[1] = mayfly_memprof_attach(f.profile);
		for (int k = 0; k < 2; k++) {
			for (int i = 0; i < 100000; i++) {
				mayfly_memprof_alloc(thread[k], 4096, 1, 0);
				sampled[run][k][i] = mayfly_memprof_run(thread[k]) > 0;
			}
		}
		mayfly_memprof_detach(thread[1], NULL);
		end(&f);
	}
	CHECK(!memcmp(sampled[0], sampled[1], sizeof(sampled[0])));
	for (int i = 0; i < 100000; i++) {
		count += sampled[0][0][i];
		both += sampled[0][0][i] && sampled[0][1][i];
	}
	CHECK(count > 800 && both < 40, "%d of %d in both", (int)both, (int)count);
}

/* Short runs with seeds that are like addresses, as mayfly_memprof_trace() has them: the numbers of
 * samples have the mean and the variance of the binomial distribution, and no run is far off. */
static void test_short_runs(void)
{
	const double rate = 1e-3, units = 80000;
	double sum = 0, squares = 0, variance = units * rate * (1 - rate);
	const int runs = 2000;
	int far = 0;

	for (int run = 0; run < runs; run++) {
		struct fixture f;
		struct area a = {0};
		uint64_t size = 4;
		double off;

		begin(&f, rate, 0x55d0c0000000u + (uint64_t)run * 4096, 0);
		new_area(&f, &a);
		for (int i = 0; i < (int)units / 4; i++)
			bump(&f, &a, &size, 1);
		off = (double)f.tally.samples[0] - units * rate;
		sum += off;
		squares += off * off;
		far += fabs(off) > 4 * sqrt(variance);
		end(&f);
	}
	CHECK(fabs(sum / runs) < 3.9 * sqrt(variance / runs), "mean off by %g", sum / runs);
	CHECK(fabs(squares / runs / variance - 1) < 3.9 * sqrt(2.0 / runs), "variance %g of %g",
	      squares / runs, variance);
	CHECK(far <= 3, "%d of %d are more than 4 sigma off", far, runs);
}

/* The same seed is the same run, another seed another one. */
static void test_seed(void)
{
	uint64_t sum[3] = {0};

	for (int k = 0; k < 3; k++) {
		struct fixture f;

		begin(&f, 0.01, k == 2 ? 2 : 1, 0);
		for (uint64_t i = 0; i < 10000; i++) {
			mayfly_memprof_alloc(f.thread, 4096 + i * 64, 8, 0);
			if (mayfly_memprof_run(f.thread))
				sum[k] = sum[k] * 31 + i;
		}
		end(&f);
	}
	CHECK(sum[0] == sum[1] && sum[0] != sum[2]);
}

/* ---- what becomes of blocks ---- */

static enum mayfly_memprof_fate to_context(void *context, uintptr_t *block)
{
	const uintptr_t *to = context;

	*block = to[0];
	return (enum mayfly_memprof_fate)to[1];
}

static int survives(void *context, uintptr_t *block)
{
	uintptr_t to = *(const uintptr_t *)context;

	if (to)
		*block = to;
	return to != 0;
}

static void test_fates(void)
{
	struct fixture f;
	struct area a = {0};
	uint64_t size = 4;
	uintptr_t to[2] = {0x9000, MAYFLY_MEMPROF_STAYS_YOUNG};

	begin(&f, 1, 1, 0);
	new_area(&f, &a);
	bump(&f, &a, &size, 1);
	mayfly_memprof_moved(f.thread, to_context, to);
	CHECK(mayfly_memprof_run(f.thread) == 1 && f.tally.moves == 1);
	CHECK(f.tally.last_block == 0x9000 && !f.tally.last_promoted);
	CHECK(mayfly_memprof_resized(f.thread, 0x9000, 0x9000, 3) == 0);
	CHECK(mayfly_memprof_resized(f.thread, 0x9000, 0x9800, 2) == 0);
	CHECK(mayfly_memprof_resized(f.thread, 0x9000, 0x9800, 2) == MAYFLY_MEMPROF_ABSENT);
	CHECK(mayfly_memprof_run(f.thread) == 1 && f.tally.resizes == 1 && f.tally.last_size == 2);
	to[0] = 0xa000;
	to[1] = MAYFLY_MEMPROF_PROMOTED;
	mayfly_memprof_moved(f.thread, to_context, to);
	CHECK(mayfly_memprof_run(f.thread) == 1 && f.tally.promotes == 1);
	CHECK(f.tally.last_block == 0xa000 && f.tally.last_promoted);
	/* It is not young any more. */
	mayfly_memprof_moved(f.thread, dies, NULL);
	CHECK(!mayfly_memprof_pending(f.thread));
	to[0] = 0xb000;
	mayfly_memprof_sweep(f.thread, survives, to);
	CHECK(mayfly_memprof_run(f.thread) == 1 && f.tally.moves == 2);
	CHECK(mayfly_memprof_maybe(f.profile, 0xb000) && !mayfly_memprof_maybe(f.profile, 0xa000));
	to[0] = 0;
	mayfly_memprof_sweep(f.thread, survives, to);
	CHECK(mayfly_memprof_run(f.thread) == 1 && f.tally.deallocs == 1);
	CHECK(f.tally.last_kept == (void *)1 && !mayfly_memprof_maybe(f.profile, 0xb000));
	end(&f);
}

/* A block whose life is over before the host reaches a safe point: alloc, promote, dealloc come. */
static void test_all_at_once(void)
{
	struct fixture f;
	struct area a = {0};
	uintptr_t to[2] = {0x9000, MAYFLY_MEMPROF_PROMOTED};
	struct mayfly_memprof_part part = {1 << 20, 4, 0, 0};

	begin(&f, 1, 1, 0);
	new_area(&f, &a);
	mayfly_memprof_carved(f.thread, &part, 1, (char *)(uintptr_t)(1 << 20) + 32, (void *)a.end);
	mayfly_memprof_moved(f.thread, to_context, to);
	mayfly_memprof_freed(f.profile, f.thread, 0x9000);
	mayfly_memprof_freed(f.profile, f.thread, 0x9000);
	CHECK(f.tally.allocs == 0 && mayfly_memprof_pending(f.thread));
	CHECK(mayfly_memprof_run(f.thread) == 3);
	CHECK(f.tally.allocs == 1 && f.tally.promotes == 1 && f.tally.deallocs == 1);
	/* Blocks whose end the host forgot to report end when their address comes again. */
	mayfly_memprof_alloc(f.thread, 0x7000, 1, 0);
	mayfly_memprof_alloc(f.thread, 0x7000, 1, 0);
	CHECK(mayfly_memprof_run(f.thread) == 3 && f.tally.deallocs == 2);
	end(&f);
}

/* More blocks in one slot of the filter than it counts: none of their ends is missed. */
static void test_full_slot(void)
{
	uintptr_t block[600];
	uint32_t slot = mayfly_memprof_slot_(16), count = 0;
	struct fixture f;

	begin(&f, 1, 1, 0);
	for (uintptr_t at = 16; count < 600; at += 16)
		if (mayfly_memprof_slot_(at) == slot)
			block[count++] = at;
	for (uint32_t i = 0; i < count; i++)
		mayfly_memprof_alloc(f.thread, block[i], 1, 0);
	for (uint32_t i = 0; i < count; i++) {
		CHECK(mayfly_memprof_maybe(f.profile, block[i]));
		mayfly_memprof_freed(f.profile, f.thread, block[i]);
	}
	mayfly_memprof_run(f.thread);
	CHECK(f.tally.allocs == count && f.tally.deallocs == count);
	end(&f);
}

/* ---- callbacks that do things ---- */

static void allocate_more(struct tally *t, uint64_t id)
{
	(void)id;
	/* Not sampled, and no callback inside a callback. */
	mayfly_memprof_alloc(t->thread, 0x100000, 5, 0);
	CHECK(mayfly_memprof_run(t->thread) == 0);
	/* The block itself dies while its alloc runs. */
	mayfly_memprof_freed(t->profile, t->thread, t->last_block);
	CHECK(mayfly_memprof_detach(t->thread, NULL) == MAYFLY_MEMPROF_BUSY);
}

static void test_allocating_callback(void)
{
	struct fixture f;

	begin(&f, 1, 1, 0);
	f.tally.act = allocate_more;
	mayfly_memprof_alloc(f.thread, 0x5000, 5, 0);
	CHECK(mayfly_memprof_run(f.thread) == 2);
	CHECK(f.tally.allocs == 1 && f.tally.deallocs == 1 && f.tally.last_kept == (void *)1);
	f.tally.act = NULL;
	mayfly_memprof_alloc(f.thread, 0x100000, 5, 0);
	CHECK(mayfly_memprof_run(f.thread) == 1 && f.tally.allocs == 2);
	end(&f);
}

static void stop_now(struct tally *t, uint64_t id)
{
	(void)id;
	mayfly_memprof_stop(t->profile);
}

static void test_stop(void)
{
	struct mayfly_memprof_options options = {1, 8, 1};
	struct mayfly_memprof_tracker tracker;
	struct fixture f;
	struct tally second = {0};

	begin(&f, 1, 1, 0);
	tracker = tracker_of(&second);
	CHECK(mayfly_memprof_start(f.profile, &options, &tracker) == MAYFLY_MEMPROF_BUSY);
	options.rate = 0;
	CHECK(mayfly_memprof_start(f.profile, &options, &tracker) == MAYFLY_MEMPROF_INVALID);
	options.rate = NAN;
	CHECK(mayfly_memprof_start(f.profile, &options, &tracker) == MAYFLY_MEMPROF_INVALID);
	options.rate = 1;
	f.tally.act = stop_now;
	mayfly_memprof_alloc(f.thread, 0x5000, 5, 0);
	mayfly_memprof_alloc(f.thread, 0x6000, 5, 0);
	CHECK(mayfly_memprof_run(f.thread) == 2 && f.tally.allocs == 2);
	for (uintptr_t i = 0; i < 100000; i++)
		mayfly_memprof_alloc(f.thread, 0x100000 + i * 64, 5, 0);
	CHECK(!mayfly_memprof_pending(f.thread));
	/* Another client: each block goes on to tell its own. */
	CHECK(mayfly_memprof_start(f.profile, &options, &tracker) == 0);
	for (uintptr_t i = 0; i < 1 << 18; i++)
		mayfly_memprof_alloc(f.thread, 0x8000, 5, 0);
	mayfly_memprof_freed(f.profile, f.thread, 0x5000);
	mayfly_memprof_run(f.thread);
	CHECK(second.allocs > 10 && f.tally.allocs == 2 && f.tally.deallocs == 1);
	mayfly_memprof_discard(f.profile);
	CHECK(f.tally.discards == 1 && second.discards == 1);
	end(&f);
}

static void discard_now(struct tally *t, uint64_t id)
{
	(void)id;
	mayfly_memprof_discard(t->profile);
}

/* A start holds nothing any more when it has been stopped and its blocks have ended. */
static void test_start_again_and_again(void)
{
	struct mayfly_memprof_options options = {1, 8, 1};
	struct mayfly_memprof_tracker tracker;
	struct fixture f;
	size_t before = 0;

	begin(&f, 1, 1, 0);
	tracker = tracker_of(&f.tally);
	for (int i = 0; i < 20000; i++) {
		mayfly_memprof_stop(f.profile);
		CHECK(mayfly_memprof_start(f.profile, &options, &tracker) == 0);
		mayfly_memprof_limit(f.thread, (void *)0x10000, (void *)0x20000);
		mayfly_memprof_alloc(f.thread, 0x5000, 1, 0);
		mayfly_memprof_freed(f.profile, f.thread, 0x5000);
		CHECK(mayfly_memprof_run(f.thread) == 2);
		if (i == 10000)
			before = mallinfo2().uordblks;
	}
	CHECK(mallinfo2().uordblks <= before + 1000, "%d bytes more",
	      (int)(mallinfo2().uordblks - before));
	end(&f);
}

static uint32_t stop_in_stack(void *host, uint32_t entry, uint64_t *frames, uint32_t most)
{
	mayfly_memprof_stop(*(struct mayfly_memprof **)host);
	return two_frames(host, entry, frames, most);
}

/* Another thread stops while a sample is being taken: its block is not tracked, and not dropped. */
static void test_stop_inside_a_sample(void)
{
	struct mayfly_memprof *profile;
	struct mayfly_memprof_host host = {&profile, UNIT, 0, stop_in_stack, NULL};
	struct mayfly_memprof_options options = {1, 8, 1};
	struct tally tally = {0};
	struct mayfly_memprof_tracker tracker = tracker_of(&tally);
	struct mayfly_memprof_counts counts;
	struct mayfly_memprof_thread *thread;

	profile = mayfly_memprof_create(&host);
	thread = mayfly_memprof_attach(profile);
	CHECK(mayfly_memprof_start(profile, &options, &tracker) == 0);
	mayfly_memprof_alloc(thread, 0x1000, 1, 0);
	mayfly_memprof_get_counts(profile, &counts);
	CHECK(counts.tracked == 0 && counts.dropped == 0 && !mayfly_memprof_pending(thread));
	mayfly_memprof_detach(thread, NULL);
	mayfly_memprof_destroy(profile);
}

/* What a running alloc returns is given back, too. */
static void test_discard_inside(void)
{
	struct fixture f;

	begin(&f, 1, 1, 0);
	mayfly_memprof_alloc(f.thread, 0x5000, 5, 0);
	mayfly_memprof_run(f.thread);
	f.tally.act = discard_now;
	mayfly_memprof_alloc(f.thread, 0x6000, 5, 0);
	mayfly_memprof_alloc(f.thread, 0x7000, 5, 0);
	CHECK(mayfly_memprof_run(f.thread) == 2);
	CHECK(f.tally.discards == 2 && f.tally.last_kept == (void *)2);
	end(&f);
}

static int in_promote;

static void discard_in_promote(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	struct tally *t = client;

	(void)block;
	in_promote = 1;
	mayfly_memprof_discard(t->profile);
	CHECK(t->discards == 0 && kept == (void *)1);
	in_promote = 0;
}

static void discard_after_promote(void *client, const struct mayfly_memprof_block *block,
				  void *kept)
{
	CHECK(!in_promote && kept == (void *)1);
	on_discard(client, block, kept);
}

/* The calls for a block come one after the other: its discard waits for the promote that runs. */
static void test_discard_waits(void)
{
	struct mayfly_memprof_options options = {1, 8, 1};
	uintptr_t to[2] = {0x9000, MAYFLY_MEMPROF_PROMOTED};
	struct mayfly_memprof_tracker tracker;
	struct fixture f;
	struct area a = {0};
	uint64_t size = 4;

	begin(&f, 1, 1, 0);
	mayfly_memprof_stop(f.profile);
	tracker = tracker_of(&f.tally);
	tracker.promote = discard_in_promote;
	tracker.discard = discard_after_promote;
	CHECK(mayfly_memprof_start(f.profile, &options, &tracker) == 0);
	new_area(&f, &a);
	bump(&f, &a, &size, 1);
	mayfly_memprof_moved(f.thread, to_context, to);
	CHECK(mayfly_memprof_run(f.thread) == 2 && f.tally.discards == 1);
	end(&f);
	CHECK(f.tally.discards == 1 && f.tally.deallocs == 0);
}

static void *ignore(void *client, const struct mayfly_memprof_block *block)
{
	(void)client;
	return block->id & 1 ? MAYFLY_MEMPROF_IGNORE : NULL;
}

static void test_ignore(void)
{
	struct mayfly_memprof_host host = {NULL, 1, 0, NULL, NULL};
	struct mayfly_memprof_options options = {1, 8, 1};
	struct tally tally = {0};
	struct mayfly_memprof_tracker tracker = tracker_of(&tally);
	struct mayfly_memprof *p = mayfly_memprof_create(&host);
	struct mayfly_memprof_thread *t = mayfly_memprof_attach(p);
	struct mayfly_memprof_counts counts;

	tracker.alloc = ignore;
	CHECK(mayfly_memprof_start(p, &options, &tracker) == 0);
	for (uintptr_t i = 0; i < 1000; i++)
		mayfly_memprof_alloc(t, 0x1000 + i, 1, 0);
	mayfly_memprof_run(t);
	mayfly_memprof_get_counts(p, &counts);
	CHECK(counts.tracked == 500);
	for (uintptr_t i = 0; i < 1000; i++)
		mayfly_memprof_freed(p, t, 0x1000 + i);
	mayfly_memprof_run(t);
	CHECK(tally.deallocs == 500);
	CHECK(mayfly_memprof_set_name(p, "") == MAYFLY_MEMPROF_INVALID);
	CHECK(mayfly_memprof_set_name(
		  p, "a name of more bytes than the sixty-three that the library keeps") ==
	      MAYFLY_MEMPROF_INVALID);
	CHECK(mayfly_memprof_set_name(p, "tiny") == 0);
	mayfly_memprof_detach(t, NULL);
	mayfly_memprof_destroy(p);
	host.unit_bytes = 3;
	CHECK(!mayfly_memprof_create(&host));
}

static jmp_buf out;

static void jump(struct tally *t, uint64_t id)
{
	if (id % 3 == 1) {
		if (id % 2) /* dies while its alloc runs, which is left */
			mayfly_memprof_freed(t->profile, t->thread, t->last_block);
		longjmp(out, 1);
	}
}

/* No block is lost when callbacks are left: each has one alloc and one dealloc. */
static void test_longjmp(void)
{
	struct mayfly_memprof_counts counts;
	struct fixture f;
	volatile int left = 0;

	begin(&f, 1, 1, 0);
	f.tally.act = jump;
	for (uintptr_t i = 0; i < 300; i++)
		mayfly_memprof_alloc(f.thread, 0x1000 + 16 * i, 1, 0);
	if (setjmp(out)) {
		left++;
		mayfly_memprof_unwound(f.thread);
		mayfly_memprof_unwound(f.thread); /* once more is nothing */
	}
	mayfly_memprof_run(f.thread);
	CHECK(left == 100 && f.tally.allocs == 300 && f.tally.deallocs == 50, "%d %d", left,
	      (int)f.tally.allocs);
	for (uintptr_t i = 0; i < 300; i++)
		mayfly_memprof_freed(f.profile, f.thread, 0x1000 + 16 * i);
	mayfly_memprof_run(f.thread);
	mayfly_memprof_get_counts(f.profile, &counts);
	CHECK(f.tally.deallocs == 300 && counts.tracked == 0);
	end(&f);
}

static void leave_discard(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	struct tally *t = client;

	on_discard(client, block, kept);
	mayfly_memprof_alloc(t->thread, 0x9000, 1, 0);
	CHECK(mayfly_memprof_run(t->thread) == 0);
	longjmp(out, 1);
}

/* A discard that run() makes is a callback like the others: nothing in it, and it may be left. */
static void test_longjmp_out_of_discard(void)
{
	struct mayfly_memprof_options options = {1, 8, 1};
	struct mayfly_memprof_tracker tracker;
	struct fixture f;

	begin(&f, 1, 1, 0);
	mayfly_memprof_stop(f.profile);
	tracker = tracker_of(&f.tally);
	tracker.discard = leave_discard;
	CHECK(mayfly_memprof_start(f.profile, &options, &tracker) == 0);
	mayfly_memprof_limit(f.thread, (void *)0x10000, (void *)0x20000);
	mayfly_memprof_alloc(f.thread, 0x1000, 1, 0);
	f.tally.act = discard_now;
	if (setjmp(out))
		mayfly_memprof_unwound(f.thread);
	CHECK(mayfly_memprof_run(f.thread) == 0);
	CHECK(f.tally.discards == 1 && f.tally.allocs == 1);
	end(&f);
}

/* The host's other thread goes on while one is suspended in a callback. */
static void switch_away(struct tally *t, uint64_t id)
{
	void *callback;

	if (id != 1)
		return;
	callback = mayfly_memprof_switch(t->thread, NULL);
	CHECK(callback);
	CHECK(mayfly_memprof_detach(t->thread, NULL) == MAYFLY_MEMPROF_BUSY);
	mayfly_memprof_freed(t->profile, t->thread, 0x1000); /* the block of this callback */
	mayfly_memprof_alloc(t->thread, 0x2000, 1, 0);
	CHECK(mayfly_memprof_run(t->thread) == 1 && t->deallocs == 0 && t->last_id == 2);
	CHECK(!mayfly_memprof_switch(t->thread, callback));
}

static void test_switch(void)
{
	struct fixture f;

	begin(&f, 1, 1, 0);
	f.tally.act = switch_away;
	mayfly_memprof_alloc(f.thread, 0x1000, 1, 0);
	CHECK(mayfly_memprof_run(f.thread) == 2 && f.tally.deallocs == 1 && f.tally.last_id == 1);
	end(&f);
}

/* A thread that goes leaves its young blocks and its queue to another, or to all. */
static void test_detach(void)
{
	for (int with_heir = 0; with_heir < 2; with_heir++) {
		struct mayfly_memprof_thread *second;
		struct fixture f;
		struct area a = {0};
		uint64_t size = 4;

		begin(&f, 1, 1, 0);
		second = mayfly_memprof_attach(f.profile);
		new_area(&f, &a);
		bump(&f, &a, &size, 1);
		mayfly_memprof_alloc(f.thread, 0x2000, 1, 0);
		CHECK(mayfly_memprof_detach(f.thread, f.thread) == MAYFLY_MEMPROF_INVALID);
		CHECK(mayfly_memprof_detach(f.thread, with_heir ? second : NULL) == 0);
		f.thread = second;
		CHECK(mayfly_memprof_pending(second));
		CHECK(mayfly_memprof_run(second) == 1 && f.tally.allocs == 2);
		mayfly_memprof_moved(second, dies, NULL);
		mayfly_memprof_run(second);
		CHECK(f.tally.deallocs == (with_heir ? 1 : 0));
		mayfly_memprof_freed(f.profile, second, 1 << 20);
		mayfly_memprof_run(second);
		CHECK(f.tally.deallocs == 1);
		end(&f);
	}
}

/* ---- frames ---- */

static void test_codes(void)
{
	struct mayfly_memprof_counts counts;
	const struct mayfly_memprof_place *place;
	struct fixture f;
	uint32_t count;

	begin(&f, 1, 1, 0);
	for (int round = 0; round < 2; round++) {
		for (uint64_t code = 2; code < 2000; code++) {
			char text[32];

			place = mayfly_memprof_places(f.profile, code, &count);
			snprintf(text, sizeof(text), "f%d", (int)code);
			CHECK(count == 2 && !strcmp(place[0].function, text));
			CHECK(!strcmp(place[0].file, "a.lang") && place[0].line == code);
			CHECK(place[0].inlined && !strcmp(place[1].function, "outer"));
			CHECK(!place[1].file && !place[1].inlined);
		}
	}
	mayfly_memprof_places(f.profile, 1, &count);
	CHECK(count == 0);
	mayfly_memprof_get_counts(f.profile, &counts);
	CHECK(counts.decoded == 1999);
	mayfly_memprof_forget_code(f.profile, 5);
	mayfly_memprof_forget_code(f.profile, 5);
	mayfly_memprof_places(f.profile, 5, &count);
	mayfly_memprof_get_counts(f.profile, &counts);
	CHECK(counts.decoded == 2000);
	end(&f);
}

static struct mayfly_memprof *asked;

static uint32_t decode_by_another(void *host, uint64_t code, struct mayfly_memprof_place *places,
				  uint32_t most)
{
	uint32_t count;

	(void)host;
	(void)most;
	places[0].function = code == 1 ? mayfly_memprof_places(asked, 2, &count)->function : "two";
	return 1;
}

/* It is called without a lock: it may ask for the places of another code, or wait for one who does. */
static void test_decode_may_ask(void)
{
	struct mayfly_memprof_host host = {NULL, 1, 0, NULL, decode_by_another};
	struct mayfly_memprof_counts counts;
	uint32_t count;

	asked = mayfly_memprof_create(&host);
	CHECK(!strcmp(mayfly_memprof_places(asked, 1, &count)->function, "two") && count == 1);
	mayfly_memprof_get_counts(asked, &counts);
	CHECK(counts.decoded == 2);
	mayfly_memprof_destroy(asked);
}

/* ---- threads ---- */

enum { THREADS = 4, SLOTS = 512, SESSION_BLOCKS = 200 };

static _Atomic uint64_t allocs, ends, resizes;
static _Atomic int finished;

/* What the client keeps of a block: it is the client's until dealloc or discard, which free it. */
struct kept {
	uint64_t id;
	_Atomic int busy;
};

static void *count_alloc(void *client, const struct mayfly_memprof_block *block)
{
	struct kept *kept = malloc(sizeof(*kept));

	(void)client;
	CHECK(kept);
	*kept = (struct kept){.id = block->id};
	allocs++;
	return kept;
}

static void count_resize(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	struct kept *k = kept;

	(void)client;
	CHECK(k->id == block->id && k->busy++ == 0);
	sched_yield();
	CHECK(k->id == block->id && --k->busy == 0);
	resizes++;
}

static void count_end(void *client, const struct mayfly_memprof_block *block, void *kept)
{
	struct kept *k = kept;

	(void)client;
	CHECK(k->id == block->id && !k->busy);
	free(k);
	ends++;
}

struct shared {
	struct mayfly_memprof *profile;
	pthread_mutex_t lock;
	uintptr_t slot[SLOTS]; /* blocks that any thread may free */
	uintptr_t next;
};

static void *thread_main(void *argument)
{
	struct shared *s = argument;
	struct mayfly_memprof_thread *t = mayfly_memprof_attach(s->profile);
	uint64_t random = (uintptr_t)t;

	for (int i = 0; !finished; i++) {
		uintptr_t block, old;
		uint32_t at;

		random = random * 6364136223846793005u + 1442695040888963407u;
		at = (uint32_t)(random >> 33) % SLOTS;
		pthread_mutex_lock(&s->lock);
		block = s->next += 16;
		pthread_mutex_unlock(&s->lock);
		mayfly_memprof_alloc(t, block, 1 + (random >> 50), 0);
		mayfly_memprof_resized(t, block, block, 1);
		pthread_mutex_lock(&s->lock);
		old = s->slot[at];
		s->slot[at] = block;
		pthread_mutex_unlock(&s->lock);
		if (old)
			mayfly_memprof_freed(s->profile, t, old);
		if (i % 3 == 0)
			mayfly_memprof_run(t);
	}
	mayfly_memprof_detach(t, NULL);
	return NULL;
}

/* Threads free each other's blocks, while another one starts, stops and discards. Each session lasts
 * until there are samples of it, so that it lies in the threads' work however they are scheduled. */
static void test_threads(void)
{
	struct mayfly_memprof_host host = {NULL, 1, 0, NULL, NULL};
	struct mayfly_memprof_options options = {1e-3, 0, 1};
	struct mayfly_memprof_tracker tracker = {
	    .alloc = count_alloc,
	    .resize = count_resize,
	    .dealloc = count_end,
	    .discard = count_end,
	};
	static struct shared s = {.lock = PTHREAD_MUTEX_INITIALIZER, .next = 4096};
	struct mayfly_memprof_counts counts;
	struct mayfly_memprof_thread *t;
	pthread_t thread[THREADS];

	s.profile = mayfly_memprof_create(&host);
	t = mayfly_memprof_attach(s.profile);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, thread_main, &s) == 0);
	for (int i = 0; i < SESSIONS; i++) {
		CHECK(mayfly_memprof_start(s.profile, &options, &tracker) == 0);
		for (uint64_t before = allocs; allocs < before + SESSION_BLOCKS; sched_yield())
			mayfly_memprof_run(t);
		if (i % 2)
			mayfly_memprof_discard(s.profile);
		if (i < SESSIONS - 1)
			mayfly_memprof_stop(s.profile);
	}
	finished = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < SLOTS; i++)
		if (s.slot[i])
			mayfly_memprof_freed(s.profile, t, s.slot[i]);
	mayfly_memprof_run(t);
	mayfly_memprof_get_counts(s.profile, &counts);
	CHECK(allocs >= SESSIONS * SESSION_BLOCKS && allocs == ends && counts.tracked == 0,
	      "%d allocs, %d ends", (int)allocs, (int)ends);
	CHECK(resizes > SESSION_BLOCKS, "%d", (int)resizes);
	mayfly_memprof_detach(t, NULL);
	mayfly_memprof_destroy(s.profile);
}

int main(void)
{
	RUN(test_single);
	RUN(test_combined);
	RUN(test_large_and_external);
	RUN(test_passes);
	RUN(test_low_rate);
	RUN(test_rate_one);
	RUN(test_distances);
	RUN(test_many_samples);
	RUN(test_threads_differ);
	RUN(test_short_runs);
	RUN(test_seed);
	RUN(test_fates);
	RUN(test_all_at_once);
	RUN(test_full_slot);
	RUN(test_allocating_callback);
	RUN(test_stop);
	RUN(test_start_again_and_again);
	RUN(test_stop_inside_a_sample);
	RUN(test_discard_inside);
	RUN(test_discard_waits);
	RUN(test_ignore);
	RUN(test_longjmp);
	RUN(test_longjmp_out_of_discard);
	RUN(test_switch);
	RUN(test_detach);
	RUN(test_codes);
	RUN(test_decode_may_ask);
	RUN(test_threads);
	DONE();
}
