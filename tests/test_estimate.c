/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Are the figures right? Allocation streams with known truth go through the sampler thousands of
 * times; the estimates must have no bias and the 95 % intervals must hold the truth as often as
 * they say, whatever the number of samples that a row happened to get.
 */
#include "agent/sampler.h"
#include "test.h"
#include "query/estimate.h"
#include "trace/rewrite/thin.h"
#include "trace/write/thin_rule.h"

#include <math.h>
#include <string.h>

/* ---- the gamma distribution ---- */

static double relative(double a, double b)
{
	return fabs(a - b) / fabs(b);
}

/* Chi-square with k degrees of freedom is twice a gamma of shape k / 2. */
static void test_gamma_quantile(void)
{
	static const struct {
		double q, shape, value;
	} known[] = {
	    {0.025, 0.5, 0.00049103455858763}, {0.975, 0.5, 2.5119430936574},
	    {0.95, 1, 2.995732273554},	       {0.025, 2, 0.24220927854396},
	    {0.975, 2, 5.5716433909389},       {0.025, 4, 1.0898653736263},
	    {0.975, 5, 10.241588675404},       {0.93, 2, 4.3332141172365},
	    {0.5, 10, 9.6687146147141},	       {0.025, 10, 4.7953886961324},
	    {0.975, 11, 18.390356042018},      {0.025, 50, 37.110963737462},
	    {0.975, 51, 65.918766664337},      {0.025, 1.37, 0.080904603040219},
	    {0.975, 123.456, 146.1644562263},  {0.95, 3.3, 6.7408200952212},
	    {0.001, 7.5, 1.7413422329645},     {0.999, 7.5, 18.848649109177},
	    {0.025, 1000, 938.9730184077},     {0.975, 1001, 1063.9521360163},
	    {0.025, 4999, 4861.3730486666},    {0.975, 6000, 6152.7630790715},
	    {0.5, 0.1, 0.00059339110446023},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		double x = gamma_quantile(known[i].q, known[i].shape);

		CHECK(relative(x, known[i].value) < 1e-8, "q %g shape %g: %.12g, not %.12g",
		      known[i].q, known[i].shape, x, known[i].value);
	}
	/* An exponential, in closed form, and far into both tails. */
	for (double q = 1e-9; q < 1; q = q < 0.5 ? q * 3 : 1 - (1 - q) / 3) {
		CHECK(relative(gamma_quantile(q, 1), -log1p(-q)) < 1e-8, "q %g", q);
		if (1 - q < 1e-9)
			break;
	}
	CHECK(gamma_quantile(0, 2) == 0 && isinf(gamma_quantile(1, 2)));
	for (double shape = 0.01; shape < 1e9; shape *= 1.37) {
		double low = gamma_quantile(0.025, shape), high = gamma_quantile(0.975, shape);

		CHECK(low >= 0 && low < shape && high > 0 && high > low, "shape %g", shape);
	}
}

/* The same numbers as in printed chi-square tables: twice the gamma quantile of shape k / 2. */
static void test_chi_square(void)
{
	static const struct {
		double q;
		int freedom;
		double value; /* as printed, three decimals */
	} table[] = {
	    {0.95, 1, 3.841},	 {0.975, 1, 5.024},   {0.05, 2, 0.103},	     {0.95, 2, 5.991},
	    {0.025, 10, 3.247},	 {0.975, 10, 20.483}, {0.95, 10, 18.307},    {0.025, 30, 16.791},
	    {0.975, 30, 46.979}, {0.99, 20, 37.566},  {0.975, 100, 129.561}, {0.025, 100, 74.222},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		double x = 2 * gamma_quantile(table[i].q, table[i].freedom / 2.0);

		CHECK(fabs(x - table[i].value) < 6e-4, "%g, %d: %.6f", table[i].q, table[i].freedom,
		      x);
	}
}

/* ---- sums ---- */

static void test_weights(void)
{
	double bytes, blocks;

	sample_weight(MAYFLY_STRATIFIED, 4096, 100, 2, &bytes, &blocks);
	CHECK(bytes == 8192 && relative(blocks, 81.92) < 1e-14);
	sample_weight(MAYFLY_STRATIFIED, 4096, 10000, 0, &bytes, &blocks);
	CHECK(bytes == 10000 && blocks == 1);
	sample_weight(MAYFLY_POISSON, 4096, 4096, 1, &bytes, &blocks);
	CHECK(relative(blocks, 1 / (1 - exp(-1))) < 1e-14 &&
	      relative(bytes, 4096 * blocks) < 1e-14);
	sample_weight(MAYFLY_POISSON, 1, 77, 0, &bytes, &blocks);
	CHECK(bytes == 77 && blocks == 1);
	/* Nonsense from a damaged trace gives numbers all the same. */
	sample_weight(MAYFLY_POISSON, 0, 0, 1, &bytes, &blocks);
	CHECK(isfinite(bytes) && isfinite(blocks));
	sample_weight(MAYFLY_STRATIFIED, 1ull << 40, 0, UINT32_MAX, &bytes, &blocks);
	CHECK(isfinite(bytes) && isfinite(blocks));
}

static void test_sums(void)
{
	struct tally t = {0}, part = {0}, whole = {0};
	struct mayfly_estimate e;

	/* Only exact blocks, everything recorded: no doubt is left. */
	tally_add(&t, MAYFLY_STRATIFIED, 1, 100, 0);
	tally_add(&t, MAYFLY_STRATIFIED, 1, 0, 0);
	e = tally_estimate(&t, (struct unseen){1, 0.5});
	CHECK(e.bytes.estimate == 100 && e.bytes.low == 100 && e.bytes.high == 100);
	CHECK(e.blocks.estimate == 2 && e.blocks.stderror == 0 && e.samples == 2);
	/* The same in a sampled trace: small blocks may be unseen. */
	e = tally_estimate(&t, (struct unseen){4096, 0.5});
	CHECK(e.bytes.low == 100 && e.bytes.high == 100 + 3 * 4096);
	t = (struct tally){0};
	/* Sums of parts. */
	for (uint32_t i = 1; i < 50; i++) {
		tally_add(i % 3 ? &part : &t, MAYFLY_STRATIFIED, 4096, i * 64, 1 + i % 2);
		tally_add(&whole, MAYFLY_STRATIFIED, 4096, i * 64, 1 + i % 2);
	}
	tally_merge(&part, &t);
	CHECK(part.sampled_bytes == whole.sampled_bytes && part.exact_count == 0);
	CHECK(relative(part.variance_blocks, whole.variance_blocks) < 1e-12);
	CHECK(part.seen_bytes == whole.seen_bytes && part.seen_blocks == whole.seen_blocks);
}

/* low <= estimate <= high, whatever comes in, and no more blocks than bytes. */
static void test_order(void)
{
	uint64_t random = 1;

	for (int i = 0; i < 20000; i++) {
		struct tally t = {0};
		struct mayfly_estimate e;
		enum mayfly_sampler kind = i % 2 ? MAYFLY_POISSON : MAYFLY_STRATIFIED;
		int n = i % 17;

		for (int k = 0; k < n; k++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			tally_add(&t, kind, 1ull << (random >> 59), random >> 33 >> (random >> 60),
				  (uint32_t)(random >> 20) & 3);
		}
		e = tally_estimate(&t, (struct unseen){65536, i % 3 ? 0.5 : 20});
		CHECK(e.bytes.low <= e.bytes.estimate && e.bytes.estimate <= e.bytes.high);
		CHECK(e.blocks.low <= e.blocks.estimate && e.blocks.estimate <= e.blocks.high);
		CHECK(isfinite(e.bytes.high) && isfinite(e.blocks.high));
		CHECK(e.blocks.high - t.exact_blocks <= 1.000001 * (e.bytes.high - t.exact_bytes));
		CHECK(e.bytes.stderror >= 0 && e.blocks.stderror >= 0 && e.bytes.low >= 0);
	}
}

/* ---- streams with known truth ---- */

enum { SITES = 84, THREADS = 4, RUNS = 500, BATCHES = 2 };

enum law { FIXED, AROUND, SPREAD, PAGES, HUGE, LARGE, STRINGS, LAWS };

struct block {
	uint32_t size;
	uint16_t site;
	bool live; /* at the moment that "live" asks about */
};

struct truth {
	double bytes, blocks;
	double variance_bytes, variance_blocks; /* of the estimate, an upper bound */
};

struct stream {
	struct block *block[THREADS];
	size_t blocks[THREADS];
	struct truth truth[2][SITES]; /* allocated, live */
};

static uint64_t random_state;

static uint64_t random_bits(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static double random_unit(void)
{
	return (double)(random_bits() >> 11) * 0x1p-53;
}

/*
 * Sizes from 1 byte to 64 MB, as nodes, strings, buffers and mixtures have them. In the powers of
 * two that `site` chooses FIXED has one size, AROUND half of it to one and a half times it.
 */
/* OCaml's sampler: each word by itself, at rates whose intervals are no powers of two. The sum is
 * right on average, and so is the variance that it claims, up to every word, where none is left. */
static void test_words(void)
{
	static const double rates[] = {0.003, 0.1, 0.7, 1};
	enum { BLOCKS = 200, TIMES = 400 };

	for (unsigned r = 0; r < 4; r++) {
		double sum = 0, squares = 0, claimed = 0, true_bytes = 0, mean, variance;
		bool nothing_sampled = true;

		random_state = r + 1;
		for (int i = 0; i < BLOCKS; i++)
			true_bytes += 8.0 * (1 + i % 40);
		for (int run = 0; run < TIMES; run++) {
			struct tally t = {0};

			for (int i = 0; i < BLOCKS; i++) {
				uint32_t hits = 0, words = 1 + (uint32_t)i % 40;

				for (uint32_t k = 0; k < words; k++)
					hits += random_unit() < rates[r];
				if (hits)
					tally_add(&t, ESTIMATE_WORDS, 8 / rates[r], 8 * words,
						  hits);
			}
			sum += t.exact_bytes + t.sampled_bytes;
			squares += t.sampled_bytes * t.sampled_bytes;
			claimed += t.variance_bytes / TIMES;
			nothing_sampled &= t.seen_blocks == 0;
		}
		mean = sum / TIMES;
		variance = squares / TIMES - mean * mean;
		if (rates[r] == 1) {
			CHECK(mean == true_bytes && claimed == 0 && nothing_sampled);
			continue;
		}
		CHECK(fabs(mean - true_bytes) < 4 * sqrt(variance / TIMES), "rate %g: %g, not %g",
		      rates[r], mean, true_bytes);
		CHECK(fabs(claimed / variance - 1) < 5 * sqrt(2.0 / TIMES), "rate %g: %g, not %g",
		      rates[r], claimed, variance);
	}
}

static uint32_t random_size(int site, double interval)
{
	double u = random_unit(), middle = 16 << site / LAWS * 5 % 12;

	switch ((enum law)(site % LAWS)) {
	case FIXED:
		return (uint32_t)middle;
	case AROUND:
		return 1 + (uint32_t)(middle * (0.5 + u));
	case SPREAD:
		return (uint32_t)(16 * pow(256, u));
	case PAGES:
		return (uint32_t)(1024 * (1 + 3 * u));
	case HUGE:
		return (uint32_t)(interval / 8 * pow(67108864 / (interval / 8), u));
	case LARGE:
		return (uint32_t)(interval * (0.1 + 0.8 * u));
	default:
		return 1 + (uint32_t)(200 * u * u * u);
	}
}

/* How many samples each site may expect: 1 to 150, but no more blocks than there is time for. */
static double site_blocks(int site, double interval)
{
	double samples = pow(150, (site * 11 % SITES) / (SITES - 1.0)), mean = 0;

	for (int i = 0; i < 4000; i++)
		mean += fmin(random_size(site, interval), interval) / 4000.0;
	return fmin(samples * interval / mean, 60000);
}

static void add_truth(struct truth *t, int sampler, double r, double z)
{
	double p = sampler == SAMPLER_POISSON ? -expm1(-z / r) : fmin(z / r, 1);
	double v = sampler == SAMPLER_POISSON ? (1 - p) / p : (1 - p + p * p / 3) / p;

	t->bytes += z;
	t->blocks += 1;
	if (sampler == SAMPLER_POISSON || z < r) {
		t->variance_bytes += v * z * z;
		t->variance_blocks += v;
	}
}

/*
 * The threads allocate at the same time from a random mixture of the sites, some in bursts. Blocks
 * die after a random time, quickly at some sites and never at others; "live" is after two thirds.
 */
static void make_stream(struct stream *s, int sampler, double interval, uint64_t seed)
{
	double share[SITES], sum = 0;

	random_state = seed;
	memset(s, 0, sizeof(*s));
	for (int i = 0; i < SITES; i++)
		share[i] = sum += site_blocks(i, interval) / THREADS;
	for (int t = 0; t < THREADS; t++) {
		size_t count = (size_t)sum;
		int site = -1;

		s->block[t] = malloc(count * sizeof(struct block));
		s->blocks[t] = count;
		for (size_t k = 0; k < count; k++) {
			double u = random_unit() * sum, born = (double)k / (double)count, death;
			struct block *b = &s->block[t][k];

			if (site < 0 || random_unit() > (site % 2 ? 0.9 : 0.2))
				for (site = 0; site < SITES - 1 && share[site] < u; site++)
					;
			b->site = (uint16_t)site;
			b->size = random_size(site, interval);
			death = site % 3 == 0 ? 2 : born - log(random_unit()) / (site % 3 * 1.2);
			b->live = born < 2.0 / 3 && death >= 2.0 / 3;
			for (int live = 0; live <= b->live; live++)
				add_truth(&s->truth[live][site], sampler, interval, b->size);
		}
	}
}

static void free_stream(struct stream *s)
{
	for (int t = 0; t < THREADS; t++)
		free(s->block[t]);
}

/*
 * How the samples of a trace come about. THINNED: recorded at a quarter of the interval and thinned
 * in two steps. ADAPTIVE: the interval is the least, samples may cost a hundredth of the time; the
 * threads are slow and fast by turns, so that it goes up and comes down again.
 */
enum way { PLAIN, THINNED, ADAPTIVE, SUMMED };

struct study_plan {
	int sampler;
	uint32_t interval_log2;
	enum way way;
};

#define SAMPLE_TICKS 1000u
#define WINDOW_TICKS 100000u
#define BUDGET_SHARE 100u /* of 10,000: a sample each 100,000 ticks */

/* Ticks that pass before a block is allocated: one for each byte, or four. */
static uint64_t pace(const struct stream *s, int thread, size_t k)
{
	uint64_t size = s->block[thread][k].size;

	return k * 6 / s->blocks[thread] % 2 ? size : size / 4;
}

struct run {
	struct tally tally[2][SITES];
	double largest_interval; /* of its samples: what no row has seen may have had it */
};

static void add_sample(struct run *run, const struct study_plan *plan, const struct block *b,
		       uint32_t interval_log2, uint32_t hits)
{
	struct trace_block t = {
	    .size = b->size, .hits = hits, .interval_log2 = (uint8_t)interval_log2};
	bool kept = true;

	for (uint32_t log2 = plan->interval_log2 - 1;
	     plan->way == THINNED && kept && log2 <= plan->interval_log2; log2++)
		kept = thin_block((uint32_t)plan->sampler, log2, random_bits(), &t);
	if (!kept)
		return;
	run->largest_interval = fmax(run->largest_interval, exp2(t.interval_log2));
	for (int live = 0; live <= b->live; live++)
		tally_add(&run->tally[live][b->site], (enum mayfly_sampler)plan->sampler,
			  exp2(t.interval_log2), b->size, t.hits);
}

static void run_thread(struct run *run, const struct stream *s, int thread,
		       const struct study_plan *plan)
{
	uint32_t log2 = plan->interval_log2 - (plan->way == THINNED ? 2 : 0);
	struct sampler_budget budget = {0};
	struct sampler state;
	uint64_t now = 1;

	sampler_init(&state, (uint32_t)plan->sampler, log2, random_bits());
	if (plan->way == ADAPTIVE)
		sampler_set_limited(&state, true);
	for (size_t k = 0; k < s->blocks[thread]; k++) {
		const struct block *b = &s->block[thread][k];
		int32_t hits;

		now += plan->way == ADAPTIVE ? pace(s, thread, k) : 0;
		if (b->size < state.left) {
			state.left -= b->size;
			continue;
		}
		hits = sampler_take(&state, b->size, b->site * 64u);
		if (hits != SAMPLER_SKIP)
			add_sample(run, plan, b, state.interval_log2, (uint32_t)hits);
		if (plan->way != ADAPTIVE)
			continue;
		if (hits != SAMPLER_SKIP) {
			now += SAMPLE_TICKS;
			sampler_charge(&state, &budget, SAMPLE_TICKS,
				       hits ? sampler_position(&state) : 0);
		}
		sampler_look(&state, &budget, now, WINDOW_TICKS, BUDGET_SHARE, log2, b->size, hits);
	}
}

/* One run of the program: a sampler for each thread, sums for each site. */
static void run_stream(struct run *run, const struct stream *s, const struct study_plan *plan)
{
	memset(run, 0, sizeof(*run));
	run->largest_interval = exp2(plan->interval_log2);
	for (int t = 0; t < THREADS; t++)
		run_thread(run, s, t, plan);
}

/* Several processes in a fleet's database: it has each one's sums with their variances and numbers of
 * samples, and adds them up. */
#define PROCESSES 3

static void run_fleet(struct run *run, const struct stream *s, const struct study_plan *plan)
{
	static struct estimated_sum sum[2][SITES];

	memset(sum, 0, sizeof(sum));
	for (int process = 0; process < PROCESSES; process++) {
		run_stream(run, s, plan);
		for (int i = 0; i < 2 * SITES; i++) {
			struct mayfly_estimate e =
			    tally_estimate(&run->tally[i / SITES][i % SITES], (struct unseen){0});
			struct estimated_sum *to = &sum[i / SITES][i % SITES];

			to->bytes += e.bytes.estimate;
			to->blocks += e.blocks.estimate;
			to->bytes_stderror = hypot(to->bytes_stderror, e.bytes.stderror);
			to->blocks_stderror = hypot(to->blocks_stderror, e.blocks.stderror);
			to->samples += (uint32_t)e.samples;
		}
	}
	memset(run->tally, 0, sizeof(run->tally));
	for (int i = 0; i < 2 * SITES; i++)
		tally_add_sum(&run->tally[i / SITES][i % SITES], run->largest_interval,
			      &sum[i / SITES][i % SITES]);
}

enum { CLASSES = 6 };
static const char *const class_name[CLASSES] = {"0", "1", "2-3", "4-9", "10-29", "30+"};

static int class_of(uint64_t samples)
{
	return samples > 29  ? 5
	       : samples > 9 ? 4
	       : samples > 3 ? 3
	       : samples > 1 ? 2
			     : (int)samples;
}

struct coverage {
	double rows, inside[2]; /* bytes, blocks */
};

struct study {
	struct coverage coverage[2][CLASSES]; /* allocated, live */
	double error[BATCHES][2][SITES][2];   /* sum of estimate - truth */
	double claimed[2][SITES][2];	      /* sum of the estimates' own variances */
	double interval_log2;		      /* the mean of the runs' largest ones */
};

static void add_error(struct study *study, int batch, int live, int site,
		      const struct mayfly_estimate *e, const struct truth *truth)
{
	double error[2] = {e->bytes.estimate - truth->bytes, e->blocks.estimate - truth->blocks};
	double variance[2] = {e->bytes.stderror * e->bytes.stderror,
			      e->blocks.stderror * e->blocks.stderror};

	for (int figure = 0; figure < 2; figure++) {
		study->error[batch][live][site][figure] += error[figure];
		study->claimed[live][site][figure] += variance[figure];
	}
}

static void judge(struct study *study, int batch, const struct stream *s, const struct run *run,
		  int processes)
{
	study->interval_log2 += log2(run->largest_interval) / (BATCHES * RUNS);
	for (int live = 0; live < 2; live++) {
		for (int i = 0; i < SITES; i++) {
			struct truth truth = s->truth[live][i];
			const struct tally *t = &run->tally[live][i];
			struct mayfly_estimate e =
			    tally_estimate(t, (struct unseen){run->largest_interval, 0.5});
			struct coverage *c = &study->coverage[live][class_of(t->seen_blocks)];

			truth.bytes *= processes;
			truth.blocks *= processes;
			add_error(study, batch, live, i, &e, &truth);
			if (truth.blocks == 0)
				continue;
			c->rows++;
			c->inside[0] += e.bytes.low <= truth.bytes && truth.bytes <= e.bytes.high;
			c->inside[1] +=
			    e.blocks.low <= truth.blocks && truth.blocks <= e.blocks.high;
		}
	}
}

static double standard_errors(double sum, double variance, int runs)
{
	return variance > 0 ? sum / sqrt(variance * runs) : fabs(sum) > 0.5 ? INFINITY : 0;
}

/*
 * The mean error of each figure, in standard errors of the mean. Some of so many figures are beyond
 * 3 by chance (1 in 370): one counts as biased when it is beyond in both batches or in all runs
 * together beyond 4, and the whole as biased when more than 1 in 100 are beyond 3. The variance of
 * plain samples is known; that of others is what the estimates say themselves, on average, and at
 * least that of the stream's interval, as the rare samples that weigh most may all be missing.
 */
static void check_bias(const struct study *study, const struct stream *s, enum way way,
		       const char *name)
{
	int figures = 0, beyond = 0;
	double worst = 0;

	for (int i = 0; i < 2 * SITES * 2; i++) {
		int live = i / 2 / SITES, site = i / 2 % SITES, blocks = i % 2;
		const struct truth *t = &s->truth[live][site];
		double variance = blocks ? t->variance_blocks : t->variance_bytes;
		double truth = blocks ? t->blocks : t->bytes;
		double first = study->error[0][live][site][blocks];
		double second = study->error[1][live][site][blocks];
		double z;

		if (way != PLAIN)
			variance = fmax(variance + 1e-12 * truth * truth,
					study->claimed[live][site][blocks] / (BATCHES * RUNS));
		z = standard_errors(first + second, variance, BATCHES * RUNS);
		figures++;
		beyond += fabs(z) > 3;
		worst = fmax(worst, fabs(z));
		CHECK(fabs(z) < 4, "%s: site %d %s %s: %.2f standard errors", name, site,
		      live ? "live" : "allocated", blocks ? "blocks" : "bytes", z);
		CHECK(fabs(standard_errors(first, variance, RUNS)) < 3 ||
			  fabs(standard_errors(second, variance, RUNS)) < 3,
		      "%s: site %d", name, site);
	}
	CHECK(beyond * 100 <= figures, "%s: %d of %d beyond 3 standard errors", name, beyond,
	      figures);
	printf("# %s: mean error over %d runs: %d of %d figures beyond 3 standard errors, worst "
	       "%.2f\n",
	       name, BATCHES * RUNS, beyond, figures, worst);
}

/*
 * Too wide intervals are a fault, too, where the variance that they are made from is the true one.
 * That of the stratified sampler is an upper bound, since blocks of one class exclude each other.
 * Where the interval changed, rows are taken for ones of the largest.
 */
static void check_coverage(const struct study *study, int sampler, enum way way, const char *name)
{
	double most = sampler == SAMPLER_POISSON && way != ADAPTIVE ? 99 : 100;

	for (int live = 0; live < 2; live++) {
		for (int c = 0; c < CLASSES; c++) {
			const struct coverage *k = &study->coverage[live][c];
			double bytes = 100 * k->inside[0] / k->rows;
			double blocks = 100 * k->inside[1] / k->rows;

			printf(
			    "# %s %-9s samples %-5s rows %6.0f: bytes %5.1f %% blocks %5.1f %%\n",
			    name, live ? "live" : "allocated", class_name[c], k->rows, bytes,
			    blocks);
			CHECK(k->rows > 1000, "%s: too few rows with %s samples", name,
			      class_name[c]);
			CHECK(bytes >= 90 && (c == 0 || bytes <= most), "%s bytes", name);
			CHECK(blocks >= 90 && (c == 0 || blocks <= most + 0.5), "%s blocks", name);
		}
	}
}

static const char *const way_name[] = {"", "thinned ", "adaptive ", "summed "};

static void run_study(int sampler, uint32_t interval_log2, enum way way, uint64_t seed)
{
	const struct study_plan plan = {sampler, interval_log2, way};
	static struct study study;
	static struct stream stream;
	static struct run run;
	char name[64];

	snprintf(name, sizeof(name), "%s%s %d KiB", way_name[way],
		 sampler ? "poisson" : "stratified", 1 << interval_log2 >> 10);
	memset(&study, 0, sizeof(study));
	make_stream(&stream, sampler, exp2(interval_log2 + (way == ADAPTIVE ? 1 : 0)), seed);
	for (int i = 0; i < BATCHES * RUNS; i++) {
		if (way == SUMMED)
			run_fleet(&run, &stream, &plan);
		else
			run_stream(&run, &stream, &plan);
		judge(&study, i / RUNS, &stream, &run, way == SUMMED ? PROCESSES : 1);
	}
	if (way != SUMMED) /* what is summed has none */
		check_bias(&study, &stream, way, name);
	check_coverage(&study, sampler, way, name);
	printf("# %s: largest interval 2^%.1f on average\n", name, study.interval_log2);
	CHECK(way != ADAPTIVE || study.interval_log2 > interval_log2 + 1, "it hardly changed");
	free_stream(&stream);
}

static void test_stratified_64k(void)
{
	run_study(SAMPLER_STRATIFIED, 16, PLAIN, 1);
}

static void test_stratified_512k(void)
{
	run_study(SAMPLER_STRATIFIED, 19, PLAIN, 2);
}

static void test_poisson_64k(void)
{
	run_study(SAMPLER_POISSON, 16, PLAIN, 3);
}

static void test_poisson_512k(void)
{
	run_study(SAMPLER_POISSON, 19, PLAIN, 4);
}

static void test_stratified_thinned(void)
{
	run_study(SAMPLER_STRATIFIED, 16, THINNED, 5);
}

static void test_poisson_thinned(void)
{
	run_study(SAMPLER_POISSON, 16, THINNED, 6);
}

static void test_stratified_adaptive(void)
{
	run_study(SAMPLER_STRATIFIED, 16, ADAPTIVE, 7);
}

static void test_poisson_adaptive(void)
{
	run_study(SAMPLER_POISSON, 16, ADAPTIVE, 8);
}

static void test_stratified_summed(void)
{
	run_study(SAMPLER_STRATIFIED, 16, SUMMED, 9);
}

static void test_poisson_summed(void)
{
	run_study(SAMPLER_POISSON, 19, SUMMED, 10);
}

int main(void)
{
	RUN(test_gamma_quantile);
	RUN(test_chi_square);
	RUN(test_weights);
	RUN(test_sums);
	RUN(test_order);
	RUN(test_words);
	RUN(test_stratified_64k);
	RUN(test_stratified_512k);
	RUN(test_poisson_64k);
	RUN(test_poisson_512k);
	RUN(test_stratified_thinned);
	RUN(test_poisson_thinned);
	RUN(test_stratified_adaptive);
	RUN(test_poisson_adaptive);
	RUN(test_stratified_summed);
	RUN(test_poisson_summed);
	DONE();
}
