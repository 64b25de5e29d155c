/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler by itself: what doc/INTERNALS.md, "Estimates", promises of it. */
#include "agent/sampler.h"
#include "test.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* As the hook does it. SAMPLER_SKIP on the fast path too. */
static int32_t allocate_from(struct sampler *s, uint64_t size, uintptr_t caller)
{
	if (size < s->left) {
		s->left -= size;
		return SAMPLER_SKIP;
	}
	return sampler_take(s, size, caller);
}

static int32_t allocate(struct sampler *s, uint64_t size)
{
	return allocate_from(s, size, 0x401000);
}

static uint64_t test_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/*
 * Points per byte. Stratified: n strata have n points, give or take the one at each end; with
 * classes, each class has an open group, whose point was taken or not. Poisson: n +- sqrt(n); a
 * block counts once, so blocks must be small against the interval.
 */
static void test_mean(void)
{
	for (uint32_t log2 = 1; log2 <= 20; log2++) {
		for (uint64_t seed = 0; seed < 8; seed++) {
			uint64_t random = seed, bytes = 0, hits[2] = {0};
			uint64_t interval = 1ull << log2, limit = interval * 2000;
			/* Sizes up to 2099 are in at most 41 classes. */
			double slack = log2 <= STRATA_LEAST_STEP_LOG2 ? 1.01 : 42.01;
			struct sampler s[2];

			sampler_init(&s[0], SAMPLER_STRATIFIED, log2, seed);
			sampler_init(&s[1], SAMPLER_POISSON, log2, seed);
			while (bytes < limit) {
				/* Poisson: single bytes, or blocks of a thousandth of R. */
				uint64_t z = 1 + test_random(&random) % (1 + interval / 500);
				int32_t n;

				if (z >= interval)
					z = 1;
				bytes += z;
				n = allocate(&s[0], z);
				CHECK(n == SAMPLER_SKIP || n > 0);
				hits[0] += n > 0 ? (uint64_t)n : 0;
				n = allocate(&s[1], z);
				CHECK(n == SAMPLER_SKIP || n == 1);
				hits[1] += n == 1;
				CHECK(s[0].left <= interval && s[1].left <= interval);
				CHECK(s[0].left > 0 && s[1].left > 0);
			}
			CHECK(fabs((double)hits[0] - (double)bytes / (double)interval) <= slack,
			      "log2 %u: %g strata, %g points", log2,
			      (double)bytes / (double)interval, (double)hits[0]);
			if (log2 >= 9) /* below, a byte can have more than one point */
				CHECK(fabs((double)hits[1] - 2000) < 5 * sqrt(2000), "log2 %u: %g",
				      log2, (double)hits[1]);
		}
	}
}

/* Single bytes: each stratum has exactly one, anywhere in it with the same chance. */
static void test_strata(void)
{
	enum { BITS = 4, R = 1 << BITS, STRATA = 64000 };
	uint32_t count[R] = {0};
	struct sampler s;
	double chi_square = 0;

	sampler_init(&s, SAMPLER_STRATIFIED, BITS, 12345);
	for (int i = 0; i < STRATA; i++) {
		int hits = 0;

		for (int u = 0; u < R; u++) {
			if (allocate(&s, 1) == 1) {
				count[u]++;
				hits++;
			}
		}
		CHECK(hits == 1, "stratum %d has %d points", i, hits);
	}
	for (int u = 0; u < R; u++) {
		double excess = (double)count[u] - STRATA / R;

		chi_square += excess * excess / (STRATA / R);
	}
	CHECK(chi_square < 37.7, "chi-square %g", chi_square); /* 99.9 % of 15 degrees */
}

/* The places of the points do not depend on how the bytes are cut into blocks. */
static void test_cutting(void)
{
	uint64_t random = 7;
	struct sampler bytes, blocks;

	sampler_init(&bytes, SAMPLER_STRATIFIED, 10, 99);
	sampler_init(&blocks, SAMPLER_STRATIFIED, 10, 99);
	for (int i = 0; i < 20000; i++) {
		uint64_t size = test_random(&random) % 1024;
		int32_t expected = 0, hits;

		for (uint64_t b = 0; b < size; b++)
			expected += allocate(&bytes, 1) == 1;
		hits = allocate(&blocks, size);
		CHECK(hits == (expected > 0 ? expected : SAMPLER_SKIP), "%d points, not %d", hits,
		      expected);
		CHECK(bytes.left == blocks.left && bytes.carried == blocks.carried);
		CHECK(sampler_position(&bytes) == sampler_position(&blocks));
	}
}

/* Blocks of R or more are all recorded and are not on the line. */
static void test_giants(void)
{
	static const uint64_t giants[] = {4096, 4097, 1 << 20, 1ull << 40, 1ull << 62, 1ull << 63};
	struct sampler with, without;
	uint64_t random = 3;

	sampler_init(&with, SAMPLER_STRATIFIED, 12, 5);
	sampler_init(&without, SAMPLER_STRATIFIED, 12, 5);
	for (int i = 0; i < 20000; i++) {
		uint64_t size = test_random(&random) % 4096, left = with.left;
		uint64_t position = sampler_position(&with);

		CHECK(allocate(&with, giants[i % 6]) == 0);
		CHECK(with.left == left && sampler_position(&with) != position);
		CHECK(allocate(&with, size) == allocate(&without, size));
		CHECK(with.left == without.left);
	}
	/* Where points are R/16 apart, blocks from there to R may have many, and none is certain.
	 */
	sampler_init(&with, SAMPLER_STRATIFIED, 19, 5);
	for (int i = 0; i < 20000; i++) {
		int32_t hits = allocate(&with, 32768 + test_random(&random) % (524288 - 32768));

		CHECK(hits == SAMPLER_SKIP || (hits >= 1 && hits <= 2), "%d hits", hits);
		CHECK(with.left > 0 && with.left <= 65536 && with.carried == 0);
		CHECK(allocate(&with, 524288) == 0);
	}
}

/*
 * One class only: of each 16 strata of R/16 bytes exactly one has a point that is taken, and each
 * of the bytes with the same chance (in 16 bins here). R small: fewer and longer strata.
 */
static void test_groups(void)
{
	for (uint32_t log2 = 12; log2 <= 18; log2++) {
		enum { GROUPS = 8000 };
		uint64_t interval = 1ull << log2, block = interval / 64;
		uint32_t count[16] = {0};
		struct sampler s;
		double chi_square = 0;

		sampler_init(&s, SAMPLER_STRATIFIED, log2, log2);
		for (int i = 0; i < GROUPS; i++) {
			int hits = 0;

			for (int u = 0; u < 64; u++) {
				int32_t taken = allocate(&s, block);

				if (taken == SAMPLER_SKIP)
					continue;
				hits += taken;
				count[u / 4]++;
			}
			CHECK(hits == 1, "R 2^%u, group %d: %d are taken", log2, i, hits);
		}
		for (int u = 0; u < 16; u++) {
			double excess = (double)count[u] - GROUPS / 16;

			chi_square += excess * excess / (GROUPS / 16);
		}
		CHECK(chi_square < 37.7, "R 2^%u: chi-square %g", log2, chi_square);
	}
}

/*
 * Estimates of what different callers allocate, over many runs of the same program, in which
 * limits and intervals change at fixed places. The mean is the truth; with classes the spread is
 * smaller. What each step allocates:
 *
 *	PERIODIC    the callers in turn, with periods that divide R, R/16 and 4 KiB
 *	BURSTS      long runs of one caller after the other
 *	MIXED       a caller at random, sizes over a factor of 1,000
 */
enum pattern { PERIODIC, BURSTS, MIXED, PATTERNS };
enum { CALLERS = 8 };

struct step {
	uint32_t caller, size;
};

static struct step program_step(enum pattern pattern, int i, uint64_t *random)
{
	uint64_t r = test_random(random);
	uint32_t caller;

	switch (pattern) {
	case PERIODIC:
		/* 64 KiB in 64 blocks of 1 KiB, one of which in 16 is of caller 0 */
		caller = i % 16 == 0 ? 0 : 1 + (uint32_t)(i / 16) % (CALLERS - 1);
		return (struct step){caller, 1024};
	case BURSTS:
		caller = (uint32_t)(i / 900) % CALLERS;
		return (struct step){caller, 64u << caller};
	default:
		caller = (uint32_t)(r % CALLERS);
		return (struct step){caller, 64u << (r >> 8) % 10};
	}
}

enum change { NO_CHANGE, INTERVALS, BUDGETS, CHANGES };

static void change_rule(struct sampler *s, enum change change, int i)
{
	if (change == NO_CHANGE || i % 3001 != 3000)
		return;
	if (change == INTERVALS)
		sampler_set_interval(s, 13 + (uint32_t)(i / 3001) * 5 % 7);
	else if (s->limited)
		sampler_set_limited(s, false);
	else
		sampler_set_limited(s, true);
}

/* Fills squares[] with the mean squared errors of all callers. */
static void study_pattern(enum pattern pattern, enum change change, bool limited, double *squares)
{
	enum { STEPS = 20000, STUDY_RUNS = 1000 };
	double sum[CALLERS] = {0};

	memset(squares, 0, CALLERS * sizeof(*squares));
	for (uint64_t run = 0; run < STUDY_RUNS; run++) {
		double error[CALLERS] = {0};
		uint64_t random = 1; /* the program does the same each time */
		struct sampler s;

		sampler_init(&s, SAMPLER_STRATIFIED, 16, run * 2 + limited);
		if (limited)
			sampler_set_limited(&s, true);
		for (int i = 0; i < STEPS; i++) {
			struct step step = program_step(pattern, i, &random);
			int32_t hits = allocate_from(&s, step.size, 0x1000 + 16 * step.caller);

			error[step.caller] -= step.size;
			if (hits != SAMPLER_SKIP)
				error[step.caller] +=
				    hits ? hits * (double)(1ull << s.interval_log2) : step.size;
			change_rule(&s, change, i);
		}
		for (int c = 0; c < CALLERS; c++) {
			sum[c] += error[c] / STUDY_RUNS;
			squares[c] += error[c] * error[c] / STUDY_RUNS;
		}
	}
	for (int c = 0; c < CALLERS; c++)
		CHECK(fabs(sum[c]) <= 3.5 * sqrt(squares[c] / STUDY_RUNS) + 1,
		      "pattern %d change %d caller %d: off by %g, sigma %g", pattern, change, c,
		      sum[c], sqrt(squares[c] / STUDY_RUNS));
}

static void test_classes(void)
{
	for (int pattern = 0; pattern < PATTERNS; pattern++) {
		double squares[CALLERS], limited[CALLERS], ratio = 0;

		study_pattern((enum pattern)pattern, INTERVALS, false, squares);
		study_pattern((enum pattern)pattern, BUDGETS, false, squares);
		study_pattern((enum pattern)pattern, NO_CHANGE, true, limited);
		study_pattern((enum pattern)pattern, NO_CHANGE, false, squares);
		for (int c = 0; c < CALLERS; c++)
			ratio += sqrt(squares[c] / limited[c]) / CALLERS;
		printf("# pattern %d: standard error %.2f of that without classes\n", pattern,
		       ratio);
		/* In bursts strata have one class anyway. */
		CHECK(pattern == BURSTS ? ratio < 1.6 : ratio < 0.6, "pattern %d: %g", pattern,
		      ratio);
	}
}

static void test_interval_one(void)
{
	static const uint64_t sizes[] = {0, 1, 16, 1 << 20, 1ull << 63};

	for (uint32_t kind = 0; kind < 2; kind++) {
		struct sampler s;

		sampler_init(&s, kind, 0, 1);
		for (int i = 0; i < 1000; i++) {
			uint64_t position = sampler_position(&s);

			CHECK(allocate(&s, sizes[i % 5]) == 0);
			CHECK(s.left == 0 && sampler_position(&s) != position);
		}
	}
}

/* The chance of a block is 1 - exp(-Z/R), for sizes from far below R to far above. */
static void test_poisson(void)
{
	static const uint64_t sizes[] = {1, 100, 1024, 4096, 5000, 16384, 40960};
	struct sampler s;

	sampler_init(&s, SAMPLER_POISSON, 12, 77);
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		int n = 400000, hits = 0;
		double p = -expm1(-(double)sizes[k] / 4096), deviation;

		for (int i = 0; i < n; i++) {
			int32_t taken = allocate(&s, sizes[k]);

			CHECK(taken == 1 || taken == SAMPLER_SKIP);
			CHECK(s.left > 0 && s.left <= 4096);
			hits += taken == 1;
		}
		deviation = (hits - n * p) / sqrt(n * p * (1 - p));
		CHECK(fabs(deviation) < 4, "size %d: %.2f standard deviations", (int)sizes[k],
		      deviation);
	}
	CHECK(allocate(&s, 1ull << 63) == 1);
	CHECK(s.left > 0 && s.left <= 4096);
}

/*
 * Gaps of the Poisson sampler are exponential. R is so large that the whole numbers do not show:
 * moments of E = gap / R and of ln E, whose mean is -0.5772... and whose variance is pi^2 / 6,
 * which a wrong logarithm would shift.
 */
static void test_exponential(void)
{
	const int n = 400000;
	double sum = 0, squares = 0, logs = 0, log_squares = 0;
	struct sampler s;

	sampler_init(&s, SAMPLER_POISSON, 40, 4711);
	for (int i = 0; i < n; i++) {
		double gap = (double)(s.left + s.carried) * 0x1p-40;

		sum += gap;
		squares += gap * gap;
		logs += log(gap);
		log_squares += log(gap) * log(gap);
		CHECK(sampler_take(&s, s.left + s.carried, 0) == 1);
	}
	CHECK(fabs(sum / n - 1) < 4 / sqrt(n), "mean %g", sum / n);
	CHECK(fabs(squares / n - 2) < 4 * sqrt(20.0 / n), "second moment %g", squares / n);
	CHECK(fabs(logs / n + 0.5772156649) < 4 * 1.2825 / sqrt(n), "mean log %g", logs / n);
	CHECK(fabs(log_squares / n - 1.9781119906) < 4 * 5.2 / sqrt(n), "log^2 %g",
	      log_squares / n);
}

/* sampler_position changes with every allocation of a byte or more, with every one after a block that
 * was recorded, and with nothing else. */
static void test_position(void)
{
	for (uint32_t kind = 0; kind < 2; kind++) {
		struct sampler s;
		uint64_t random = 1;

		sampler_init(&s, kind, 8, 3);
		for (int i = 0; i < 200000; i++) {
			uint64_t before = sampler_position(&s);
			uint64_t size = test_random(&random) % 300;
			uint32_t log2 = (uint32_t)(test_random(&random) % 12);

			if (i % 1000 == 999)
				sampler_set_interval(&s, log2);
			if (i % 1000 == 499)
				sampler_change(&s, log2, i % 2000 == 499);
			sampler_settle(&s);
			CHECK(sampler_position(&s) == before);
			if (i % 7 == 0) {
				sampler_stop(&s);
				CHECK(sampler_position(&s) == before);
				size = i % 14 ? size : 0;
			}
			allocate(&s, size);
			CHECK((size == 0 && i % 7) || sampler_position(&s) != before);
		}
	}
}

/* Another seed is another run; the same seed is the same run. */
static void test_seed(void)
{
	struct sampler a, b, c;
	int differs = 0;

	for (uint32_t kind = 0; kind < 2; kind++) {
		sampler_init(&a, kind, 12, 0);
		sampler_init(&b, kind, 12, 0);
		sampler_init(&c, kind, 12, 1);
		for (int i = 0; i < 10000; i++) {
			int32_t taken = allocate(&a, 100);

			CHECK(taken == allocate(&b, 100));
			differs += taken != allocate(&c, 100);
		}
		CHECK(differs > 100);
	}
}

/* Changes of the interval in mid-stream leave no bias: hits x R of the moment adds up to bytes. */
static void test_changes(void)
{
	const int runs = 4000;
	double sum = 0, squares = 0, truth = 0;

	for (int run = 0; run < runs; run++) {
		struct sampler s;
		double estimate = 0;

		truth = 0;
		sampler_init(&s, SAMPLER_STRATIFIED, 10, (uint64_t)run);
		for (int i = 0; i < 300; i++) {
			int32_t hits = allocate(&s, 100);

			truth += 100;
			if (hits > 0)
				estimate += hits * (double)(1ull << s.interval_log2);
			if (i % 37 == 36)
				sampler_set_interval(&s, 9 + (uint32_t)(i / 37) % 4);
		}
		sum += estimate - truth;
		squares += (estimate - truth) * (estimate - truth);
	}
	CHECK(fabs(sum / runs) < 3 * sqrt(squares / runs / runs), "bias %g of %g", sum / runs,
	      truth);
}

/*
 * The control words change while a program runs, and each thread finds out where its sampler is
 * asked. Sums over many threads, so that what one thread loses or counts twice adds up: their mean
 * error over many runs is far below the spread, and two standard errors hold the truth.
 */
enum told { TOLD_INTERVALS, TOLD_BUDGETS, TOLD_OFF, TOLD_BRANCHES, TOLDS };
enum { TOLD_THREADS = 50, TOLD_PHASES = 8, TOLD_RUNS = 400, TOLD_SITES = 3 };

struct control {
	uint32_t interval_log2;
	bool limited, awake;
};

static struct control control_in(enum told told, int phase)
{
	struct control c = {phase % 2 ? 16 : 19, false, true};

	if (told == TOLD_BUDGETS)
		c = (struct control){16 + phase % 3, phase / 2 % 2, true};
	else if (told == TOLD_OFF && phase % 3 == 1)
		c = (struct control){17, true, false};
	else if (told == TOLD_BRANCHES)
		c.interval_log2 = 17;
	return c;
}

/* As the agent does it (sampled.c, life.c). Adds to the estimates and their variances. */
static void told_block(struct sampler *s, struct control *known, const struct control *c,
		       uint64_t size, uint32_t site, double *estimate, double *variance)
{
	int32_t hits;

	if (size < s->left) {
		s->left -= size;
		return;
	}
	hits = sampler_take(s, size, 0x1000 + 16 * site);
	if (c->awake && hits != SAMPLER_SKIP) {
		double r = (double)(1ull << s->interval_log2), q = (double)size / r;
		double p = -expm1(-q);

		if (s->kind == SAMPLER_POISSON) {
			estimate[site] += (double)size / p;
			variance[site] += (double)size / p * ((double)size / p) * (1 - p);
		} else {
			estimate[site] += hits ? hits * r : (double)size;
			variance[site] += hits ? hits * r * r * (1 - q + q * q / 3) : 0;
		}
	}
	if (memcmp(known, c, sizeof(*c))) {
		*known = *c;
		sampler_change(s, c->interval_log2, c->limited);
	}
	sampler_settle(s);
	if (hits != SAMPLER_SKIP)
		sampler_stop(s);
}

/* Sites: many small blocks; a few of 40 KB; of 100 KB, which one interval records for certain. */
static void told_thread(struct sampler *s, enum told told, int thread, double *truth,
			double *estimate, double *variance)
{
	uint64_t program = (uint64_t)thread; /* the program does the same each time */
	struct control known = control_in(told, 0);

	for (int phase = 0; phase < TOLD_PHASES; phase++) {
		struct control c = control_in(told, phase);
		int blocks = 100 + (int)(test_random(&program) % 400);

		if (told == TOLD_BRANCHES) /* a child that keeps its parent's countdown */
			sampler_branch(s, (uint64_t)phase ^ s->random[0]);
		for (int i = 0; i < blocks; i++) {
			uint64_t r = test_random(&program);
			uint32_t site = r % 100 == 0 ? 2 : r % 100 < 4 ? 1 : 0;
			uint64_t size = site == 2 ? 100000 : site == 1 ? 40000 : r >> 8 & 1023;

			truth[site] += c.awake ? (double)size : 0;
			told_block(s, &known, &c, size, site, estimate, variance);
		}
	}
}

static void study_told(uint32_t kind, enum told told)
{
	double sum[TOLD_SITES] = {0}, squares[TOLD_SITES] = {0}, scores[TOLD_SITES] = {0};
	int covered[TOLD_SITES] = {0};

	for (int run = 0; run < TOLD_RUNS; run++) {
		double truth[TOLD_SITES] = {0}, estimate[TOLD_SITES] = {0};
		double variance[TOLD_SITES] = {0};

		for (int t = 0; t < TOLD_THREADS; t++) {
			struct control first = control_in(told, 0);
			struct sampler s;

			sampler_init(&s, kind, first.interval_log2,
				     sampler_splitmix((uint64_t)run * TOLD_THREADS + t));
			if (first.limited)
				sampler_set_limited(&s, true);
			told_thread(&s, told, t, truth, estimate, variance);
		}
		for (int i = 0; i < TOLD_SITES; i++) {
			double error = estimate[i] - truth[i], z = error / sqrt(variance[i]);

			sum[i] += error;
			squares[i] += error * error;
			scores[i] += z / TOLD_RUNS;
			covered[i] += fabs(z) <= 2;
		}
	}
	for (int i = 0; i < TOLD_SITES; i++) {
		double sigma = sqrt(squares[i] / TOLD_RUNS / TOLD_RUNS);

		CHECK(fabs(sum[i] / TOLD_RUNS) <= 3.5 * sigma && fabs(scores[i]) <= 0.2,
		      "kind %u told %d site %d: off by %g, sigma %g, mean z %g", kind, told, i,
		      sum[i] / TOLD_RUNS, sigma, scores[i]);
		CHECK(covered[i] >= 0.93 * TOLD_RUNS, "kind %u told %d site %d: %d of %d covered",
		      kind, told, i, covered[i], TOLD_RUNS);
	}
}

static void test_told(void)
{
	for (uint32_t kind = 0; kind < 2; kind++)
		for (int told = 0; told < TOLDS; told++)
			study_told(kind, (enum told)told);
}

/*
 * The budget. A thread that allocates by bursts: 100 times as fast for a while, then slowly again.
 * Time is counted in ticks: each allocation takes some, each sample takes more.
 */
enum { SITES = 5, CYCLES = 3, SEEDS = 100 };

#define GAP_BURST   20u
#define GAP_CALM    (100 * GAP_BURST)
#define SAMPLE_COST 100u
#define WINDOW	    200000u
#define SHARE	    100u /* 1 % */
#define LEAST_LOG2  12u

struct simulation {
	struct sampler s;
	struct sampler_budget b;
	uint64_t now, cost;
	double truth[SITES], estimate[SITES];
	uint32_t longest_log2; /* of the intervals that were chosen */
};

static double weight(const struct sampler *s, uint64_t size, int32_t hits)
{
	double interval = (double)(1ull << s->interval_log2), z = (double)size;

	if (hits == 0)
		return z;
	return s->kind == SAMPLER_POISSON ? z / -expm1(-z / interval) : hits * interval;
}

/* 0: small blocks; 1: blocks of a page, whose weight is 1 or nearly; 2: both; 3: bursts; 4: calm. */
static void one_block(struct simulation *sim, bool burst, uint64_t random)
{
	uint32_t site = (uint32_t)(random % 4);
	uint64_t size = site == 0   ? 16 + (random >> 8) % 50
			: site == 1 ? 4000 + (random >> 8) % 200
			: site == 2 ? 1 + ((random >> 8) & 0xffff) * ((random >> 24) & 0xff) / 2048
				    : 100 + (random >> 8) % 1000;
	struct sampler *s = &sim->s;
	int32_t hits = SAMPLER_SKIP;

	site += site == 3 && !burst;
	sim->now += burst ? GAP_BURST : GAP_CALM;
	sim->truth[site] += (double)size;
	if (size < s->left) {
		s->left -= size;
		return;
	}
	hits = sampler_take(s, size, site);
	if (hits != SAMPLER_SKIP) {
		sim->estimate[site] += weight(s, size, hits);
		sim->now += SAMPLE_COST;
		sim->cost += SAMPLE_COST;
		sampler_charge(s, &sim->b, SAMPLE_COST, hits ? sampler_position(s) : 0);
	}
	sampler_look(s, &sim->b, sim->now, WINDOW, SHARE, LEAST_LOG2, size, hits);
	if (s->interval_log2 > sim->longest_log2)
		sim->longest_log2 = s->interval_log2;
}

static void phase(struct simulation *sim, bool burst, uint32_t blocks, uint64_t *random)
{
	for (uint32_t i = 0; i < blocks; i++)
		one_block(sim, burst, test_random(random));
}

static void simulate(struct simulation *sim, uint32_t kind, uint64_t seed)
{
	uint64_t random = 4711; /* the program does the same each time */

	*sim = (struct simulation){.now = 1};
	sampler_init(&sim->s, kind, LEAST_LOG2, seed);
	sampler_set_limited(&sim->s, true);
	for (int i = 0; i < CYCLES; i++) {
		phase(sim, true, 150000, &random);
		CHECK(sim->s.interval_log2 >= LEAST_LOG2 + 6, "burst: interval 2^%u",
		      sim->s.interval_log2);
		phase(sim, false, 15000, &random);
		CHECK(sim->s.interval_log2 <= LEAST_LOG2 + 3, "calm again: interval 2^%u",
		      sim->s.interval_log2);
	}
}

static void test_budget(void)
{
	static struct simulation sim;

	for (uint32_t kind = SAMPLER_STRATIFIED; kind <= SAMPLER_POISSON; kind++) {
		double sum[SITES] = {0}, square[SITES] = {0}, spent = 0;

		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			simulate(&sim, kind, seed);
			spent += (double)sim.cost / (double)sim.now;
			CHECK(sim.longest_log2 < 26, "interval 2^%u", sim.longest_log2);
			for (int i = 0; i < SITES; i++) {
				double error = sim.estimate[i] / sim.truth[i] - 1;

				sum[i] += error;
				square[i] += error * error;
			}
		}
		/* Without a limit it would be above one half. */
		CHECK(spent / SEEDS < 3.0 * SHARE / SAMPLER_SHARE_ONE, "share %g", spent / SEEDS);
		for (int i = 0; i < SITES; i++) {
			double mean = sum[i] / SEEDS;
			double sigma = sqrt((square[i] / SEEDS - mean * mean) / SEEDS);

			CHECK(fabs(mean) <= 3 * sigma, "kind %u site %d: off by %g, sigma %g", kind,
			      i, mean, sigma);
			CHECK(sigma < 0.06, "kind %u site %d: sigma %g", kind, i, sigma);
		}
	}
}

/* Windows so short that nearly every look changes the interval, now up, now down: changes that knew
 * of the point of the stratum that they cut off would show. */
static void test_budget_often(void)
{
	const int seeds = 3000, blocks = 20000;
	double sum = 0, square = 0;
	uint64_t changes = 0;

	for (int seed = 0; seed < seeds; seed++) {
		struct sampler_budget b = {0};
		struct sampler s;
		uint64_t now = 1;
		double estimate = 0, error;

		sampler_init(&s, SAMPLER_STRATIFIED, 19, (uint64_t)seed);
		sampler_set_limited(&s, true);
		for (int i = 0; i < blocks; i++) {
			uint32_t before = s.interval_log2;
			int32_t hits;

			now += GAP_BURST;
			if (1000 < s.left) {
				s.left -= 1000;
				continue;
			}
			hits = sampler_take(&s, 1000, 0x401000);
			if (hits != SAMPLER_SKIP) {
				estimate += weight(&s, 1000, hits);
				sampler_charge(&s, &b, 100, hits ? sampler_position(&s) : 0);
			}
			sampler_look(&s, &b, now, 2500, 100, 14, 1000, hits);
			changes += s.interval_log2 != before;
		}
		error = estimate / (1000.0 * blocks) - 1;
		sum += error;
		square += error * error;
	}
	CHECK(changes > 20u * (uint64_t)seeds, "%g changes", (double)changes / seeds);
	CHECK(fabs(sum / seeds) <= 3 * sqrt(square) / seeds, "off by %g, sigma %g", sum / seeds,
	      sqrt(square) / seeds);
	CHECK(sqrt(square) / seeds < 0.01);
}

/* A thread that hardly allocates any more still comes down, and no further than the least. */
static void test_budget_comes_down(void)
{
	struct sampler_budget b = {0};
	struct sampler s;
	uint64_t now = 1, bytes = 0;

	sampler_init(&s, SAMPLER_STRATIFIED, 28, 1);
	sampler_set_limited(&s, true);
	sampler_look(&s, &b, now, WINDOW, SHARE, LEAST_LOG2, 64, SAMPLER_SKIP);
	for (; s.interval_log2 > LEAST_LOG2; bytes += 64) {
		now += 1000;
		if (allocate(&s, 64) != SAMPLER_SKIP)
			sampler_charge(&s, &b, SAMPLE_COST, sampler_position(&s));
		sampler_look(&s, &b, now, WINDOW, SHARE, LEAST_LOG2, 64, SAMPLER_SKIP);
		CHECK(bytes < 1 << 20, "still at 2^%u", s.interval_log2);
		if (bytes >= 1 << 20)
			return;
	}
	for (int i = 0; i < 100000; i++) {
		now += WINDOW;
		allocate(&s, 64);
		sampler_look(&s, &b, now, WINDOW, SHARE, LEAST_LOG2, 64, SAMPLER_SKIP);
		CHECK(s.interval_log2 == LEAST_LOG2);
	}
	sampler_set_limited(&s, false);
	CHECK(s.check == UINT64_MAX && !s.limited);
}

/* Nothing but blocks of weight 1, and interval 1 to begin with: looks come all the same. */
static void test_budget_large(void)
{
	struct sampler_budget b = {0};
	struct sampler s;
	uint64_t now = 1;

	sampler_init(&s, SAMPLER_STRATIFIED, 0, 1);
	sampler_set_limited(&s, true);
	for (int i = 0; i < 1000000 && s.interval_log2 < SAMPLER_BUDGET_MOST; i++) {
		int32_t hits = allocate(&s, 1 << 20);

		now += 100;
		if (hits != SAMPLER_SKIP) {
			now += SAMPLE_COST;
			sampler_charge(&s, &b, SAMPLE_COST, hits ? sampler_position(&s) : 0);
		}
		sampler_look(&s, &b, now, WINDOW, SHARE, 0, 1 << 20, hits);
	}
	CHECK(s.interval_log2 > 20 && s.interval_log2 < SAMPLER_BUDGET_MOST, "interval 2^%u",
	      s.interval_log2);
}

int main(void)
{
	RUN(test_mean);
	RUN(test_strata);
	RUN(test_cutting);
	RUN(test_giants);
	RUN(test_groups);
	RUN(test_classes);
	RUN(test_interval_one);
	RUN(test_poisson);
	RUN(test_exponential);
	RUN(test_position);
	RUN(test_seed);
	RUN(test_changes);
	RUN(test_told);
	RUN(test_budget);
	RUN(test_budget_often);
	RUN(test_budget_comes_down);
	RUN(test_budget_large);
	DONE();
}
