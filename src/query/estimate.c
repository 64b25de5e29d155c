/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estimate.c: sums of samples and their 95 % intervals. doc/INTERNALS.md, "Estimates" and
 * "Uncertainty", has the reasons and the results of simulations.
 */
#include "query/estimate.h"

#include <math.h>

#include "query/log_gamma.h"

/* ---- sums ---- */

void tally_add(struct tally *t, enum mayfly_sampler sampler, double interval, uint64_t size,
	       uint32_t hits)
{
	struct weight w = weigh_sample(sampler, interval, size, hits);
	double log_size;

	t->other_blocks += sampler != ESTIMATE_WORDS;
	if (w.variance_bytes <= 0 && w.variance_blocks <= 0) {
		t->exact_bytes += w.bytes;
		t->exact_blocks += w.blocks;
		t->exact_count++;
		return;
	}
	t->sampled_bytes += w.bytes;
	t->sampled_blocks += w.blocks;
	t->variance_bytes += w.variance_bytes;
	t->variance_blocks += w.variance_blocks;
	t->seen_bytes += (double)size;
	log_size = log(size > 1 ? (double)size : 1);
	t->log_size += log_size;
	t->log_size_squared += log_size * log_size;
	t->seen_blocks++;
	if (t->largest_interval < interval)
		t->largest_interval = interval;
	if (t->heaviest_block < w.variance_blocks / w.blocks)
		t->heaviest_block = w.variance_blocks / w.blocks;
}

/* The spread of the logarithms of sizes within a row that does not show them: a factor of about 2. */
#define UNKNOWN_SPREAD 0.5

void tally_add_sum(struct tally *t, double interval, const struct estimated_sum *sum)
{
	double mean = sum->blocks > 0 ? fmax(1, sum->bytes / sum->blocks) : 1;
	double n = sum->samples, heaviest;

	t->other_blocks++;
	t->choice_bytes += sum->choice_bytes;
	t->choice_blocks += sum->choice_blocks;
	if (sum->samples == 0 || (sum->bytes_stderror == 0 && sum->blocks_stderror == 0 &&
				  sum->choice_bytes == 0 && sum->choice_blocks == 0)) {
		t->exact_bytes += sum->bytes;
		t->exact_blocks += sum->blocks;
		t->exact_count += (uint64_t)sum->blocks;
		return;
	}
	t->sampled_bytes += sum->bytes;
	t->sampled_blocks += sum->blocks;
	t->variance_bytes += sum->bytes_stderror * sum->bytes_stderror;
	t->variance_blocks += sum->blocks_stderror * sum->blocks_stderror;
	t->seen_bytes += fmin(sum->bytes, n * mean);
	t->log_size += n * log(mean);
	t->log_size_squared += n * log(mean) * log(mean) + (n - 1) * UNKNOWN_SPREAD;
	t->seen_blocks += sum->samples;
	if (t->largest_interval < interval)
		t->largest_interval = interval;
	heaviest = sum->blocks_stderror * sum->blocks_stderror / fmax(1, sum->blocks);
	if (t->heaviest_block < heaviest)
		t->heaviest_block = heaviest;
}

void tally_merge(struct tally *into, const struct tally *from)
{
	into->exact_bytes += from->exact_bytes;
	into->exact_blocks += from->exact_blocks;
	into->sampled_bytes += from->sampled_bytes;
	into->sampled_blocks += from->sampled_blocks;
	into->variance_bytes += from->variance_bytes;
	into->variance_blocks += from->variance_blocks;
	into->shared_bytes += from->shared_bytes;
	into->shared_blocks += from->shared_blocks;
	into->choice_bytes += from->choice_bytes;
	into->choice_blocks += from->choice_blocks;
	into->seen_bytes += from->seen_bytes;
	into->log_size += from->log_size;
	into->log_size_squared += from->log_size_squared;
	into->seen_blocks += from->seen_blocks;
	into->other_blocks += from->other_blocks;
	into->exact_count += from->exact_count;
	for (int k = 0; k < PEAK_MOMENTS; k++)
		into->at[k] += from->at[k];
	if (into->largest_interval < from->largest_interval)
		into->largest_interval = from->largest_interval;
	if (into->heaviest_block < from->heaviest_block)
		into->heaviest_block = from->heaviest_block;
}

/* ---- the gamma distribution ---- */

/* The density times x: x^a e^-x / Gamma(a). */
static double gamma_front(double a, double x)
{
	return exp(a * log(x) - x - log_gamma(a));
}

/* P(a, x), the lower tail: its power series, good for x < a + 1. */
static double gamma_series(double a, double x, double front)
{
	double term = 1 / a, sum = term;

	for (double n = a + 1; term > sum * 1e-16; n++) {
		term *= x / n;
		sum += term;
	}
	return sum * front;
}

/* Q(a, x), the upper tail: its continued fraction by Lentz's method, good for x > a + 1. */
static double gamma_fraction(double a, double x, double front)
{
	double b = x + 1 - a, c = 1e300, d = 1 / b, value = d, change;

	for (int n = 1; n < 100000; n++) {
		double numerator = -n * (n - a);

		b += 2;
		d = 1 / (numerator * d + b);
		c = b + numerator / c;
		change = c * d;
		value *= change;
		if (fabs(change - 1) < 1e-15)
			break;
	}
	return value * front;
}

/* P(a, x) - q; for q near 1, 1 - Q would lose digits. */
static double gamma_excess(double a, double x, double q, double front)
{
	if (x < a + 1)
		return gamma_series(a, x, front) - q;
	return (1 - q) - gamma_fraction(a, x, front);
}

/* The quantile of the normal distribution, by Newton's method from a bound of the tail. */
static double normal_quantile(double q)
{
	double tail = q < 0.5 ? q : 1 - q, z;

	if (tail >= 0.5)
		return 0;
	z = sqrt(-2 * log(2 * tail)); /* not below the answer: Newton's steps all go down */
	for (int i = 0; i < 60; i++) {
		double error = 0.5 * erfc(z * M_SQRT1_2) - tail;
		double density = exp(-z * z / 2) * 0.39894228040143267794;
		double step = error / density;

		/* Halley's form: the second derivative of the tail is z times the density. */
		step /= 1 - step * z / 2;
		z += step;
		if (fabs(step) < 1e-9 * (1 + z))
			break;
	}
	return q < 0.5 ? -z : z;
}

/* Cornish and Fisher's expansion around the normal quantile z; its error shrinks as a^-2. */
static double gamma_expansion(double z, double a)
{
	double r = sqrt(a), z2 = z * z;

	return a + z * r + (z2 - 1) / 3 + z * (z2 - 7) / (36 * r) -
	       ((3 * z2 + 7) * z2 - 16) / (810 * a) +
	       z * ((9 * z2 + 256) * z2 - 433) / (38880 * a * r);
}

static double gamma_start(double q, double z, double a)
{
	double s = 1 / (9 * a), c = 1 - s + z * sqrt(s);

	/* Wilson and Hilferty: the cube root of a gamma variable is about normal. */
	if (c > 0.2)
		return a * c * c * c;
	return exp((log(q) + log_gamma(a + 1)) / a); /* P = x^a / Gamma(a + 1) near zero */
}

double gamma_quantile(double q, double a)
{
	double z, x, low = 0, high = INFINITY;

	if (!(q > 0) || !(a > 0))
		return 0;
	if (!(q < 1))
		return INFINITY;
	/* The two quantiles that intervals use, otherwise any. */
	z = q == 0.975 ? 1.9599639845400542 : q == 0.92 ? 1.4050715603096329 : normal_quantile(q);
	if (a > 5000)
		return gamma_expansion(z, a);
	x = gamma_start(q, z, a);
	for (int i = 0; i < 200 && x > 0; i++) {
		double front = gamma_front(a, x);
		double excess = gamma_excess(a, x, q, front);
		double step = excess / (front / x), next;

		if (excess > 0)
			high = x;
		else
			low = x;
		/* Halley's form of Newton's step, or a bisection if it leaves the bounds. */
		step /= fmax(0.5, 1 - step * ((a - 1) / x - 1) / 2);
		next = x - step;
		if (!(next > low && next < high))
			next = isinf(high) ? 2 * x : low + (high - low) / 2;
		if (fabs(next - x) <= 1e-12 * x)
			return next;
		if (fabs(next - x) <= 1e-5 * x && next == x - step)
			return next; /* the error is about the cube of that */
		x = next;
	}
	return x;
}

/* ---- how much sizes differ ---- */

/* The sum of the squared distances of the sizes' logarithms from their mean. */
static double log_squares(const struct tally *t)
{
	double n = t->seen_blocks;

	return n > 0 ? fmax(0, t->log_size_squared - t->log_size * t->log_size / n) : 0;
}

#define MOST_FREEDOM 10 /* so that rows with many samples do not speak for all */

void spread_add(struct spread *s, const struct tally *row)
{
	double freedom = row->seen_blocks > 1 ? row->seen_blocks - 1.0 : 0;
	double share = fmin(1, MOST_FREEDOM / fmax(1, freedom));

	s->squares += share * log_squares(row);
	s->freedom += share * freedom;
	tally_merge(&s->all, row);
}

/* When rows have few samples each, the sizes of all samples together have the say. */
#define PRIOR_FREEDOM 4

double spread_all(const struct spread *s)
{
	return s->all.seen_blocks > 1 ? log_squares(&s->all) / (s->all.seen_blocks - 1.0) : 1;
}

double spread_variance(const struct spread *s)
{
	return (s->squares + PRIOR_FREEDOM * spread_all(s)) / (s->freedom + PRIOR_FREEDOM);
}

/* ---- intervals ---- */

/* The v/y of blocks of R bytes: (1 - p) / p = .582 (Poisson); larger blocks have less. */
#define SAYS_NOTHING 0.582

/* Up to FEW samples the lower end is what was seen. Up to SEVERAL, a row's own samples do not show
 * well enough how its sizes differ, and many such rows are small sums that were lucky. */
#define FEW	3
#define SEVERAL 29

/* Quantiles of the ends, in the order of doc/INTERNALS.md, "Uncertainty". */
#define HIGH	    0.975
#define HIGH_FEW    0.92
#define LOW	    0.025
#define LOW_SEVERAL 0.01

#define SPREAD_WIDTH 2.2 /* standard deviations of what sizes may differ */

static struct mayfly_figure exact_figure(double value)
{
	return (struct mayfly_figure){
	    .estimate = value, .low = value, .high = value, .certain = value};
}

/* A sum y with variance v from n samples, whose own unweighted sum is `seen`. */
struct sampled {
	double exact, y, v, seen;
	uint32_t n;
};

/*
 * Lower end: as if y were a count of y^2/v equal samples; with few samples, `seen`. Upper end: the
 * same with one more sample of weight `unseen`, which might just as well have been drawn (Fay and
 * Feuer, Statistics in Medicine 16, 1997). If the lower end is certain, all 5 % are above the upper
 * end; a little more with a single sample, which is more often from a small sum than from a large
 * one.
 */
static struct mayfly_figure sampled_figure(const struct sampled *s, double unseen)
{
	bool few = s->n <= FEW;
	double y = s->y, v = s->v;
	struct mayfly_figure f = {s->exact + y, sqrt(v), s->exact + s->seen, s->exact + y,
				  s->exact};

	if (!few && v > 0)
		f.low =
		    fmax(f.low, s->exact + v / y *
					       gamma_quantile(s->n <= SEVERAL ? LOW_SEVERAL : LOW,
							      y * y / v));
	f.low = fmin(f.low, f.estimate);
	y += unseen;
	v += unseen * unseen;
	if (v > 0)
		f.high = s->exact + v / y * gamma_quantile(few ? HIGH_FEW : HIGH, y * y / v);
	f.high = fmax(f.high, f.estimate);
	return f;
}

/*
 * The possible weight, in blocks, of an unseen sample: small blocks are sampled rarely and stand
 * for many. It is the heaviest weight seen if all blocks seem to have one size, otherwise up to 3.5
 * times that. If a larger interval may have been in force, the weight grows with it.
 */
static double unseen_blocks(const struct tally *t, double interval)
{
	double unequal =
	    t->variance_blocks > 0 ? t->heaviest_block * t->sampled_blocks / t->variance_blocks : 1;
	double factor = fmin(3.5, pow(fmax(1, unequal), 16));

	return factor * fmax(1, t->heaviest_block) * (interval / t->largest_interval);
}

/*
 * The upper end of the blocks of a row with few samples. The blocks of a byte are 1/Z of a sample
 * on average. With sizes whose logarithms have the variance s^2, the mean of n samples has about
 * that of a log-normal variable with log(1 + (e^(s^2) - 1) / n), and is mostly below its
 * expectation. The bytes are uncertain, too, and independently of that.
 */
static double few_blocks_high(const struct tally *t, const struct mayfly_figure *bytes,
			      double spread)
{
	double own = t->seen_blocks - 1.0;
	double variance = (PRIOR_FREEDOM * spread + log_squares(t)) / (PRIOR_FREEDOM + own);
	double mean = log1p(expm1(fmin(variance, 30)) / t->seen_blocks);
	double more = log((bytes->high - t->exact_bytes) / t->sampled_bytes);

	return t->exact_blocks +
	       t->sampled_blocks *
		   exp(mean / 2 + sqrt(more * more + SPREAD_WIDTH * SPREAD_WIDTH * mean));
}

/* A block has at least a byte: the sampled blocks are not more than the most bytes that they may have. */
static double one_byte_blocks(const struct tally *t, const struct mayfly_estimate *e)
{
	return fmax(e->blocks.estimate, t->exact_blocks + e->bytes.high - t->exact_bytes);
}

/* Whether the few samples are all of blocks near R or above: they say nothing about small blocks,
 * and it is as if nothing had been seen. */
static bool says_nothing(const struct tally *t)
{
	return t->seen_blocks <= FEW && t->heaviest_block < SAYS_NOTHING;
}

/* The share of what strata take off the variance that n samples may count on. Few samples are next
 * to each other by chance, and do not show that a stratum is full. */
static double strata_say(uint32_t n)
{
	return n > FEW ? 1 - pow((double)FEW / n, 1.5) : 0;
}

/* The variances of the bytes and the blocks. */
static double bytes_variance(const struct tally *t, double shared)
{
	return fmax(0, t->variance_bytes - shared * t->shared_bytes) +
	       t->choice_bytes * t->choice_bytes;
}

static double blocks_variance(const struct tally *t, double shared)
{
	return fmax(0, t->variance_blocks - shared * t->shared_blocks) +
	       t->choice_blocks * t->choice_blocks;
}

static struct mayfly_estimate sampled_estimate(const struct tally *t, struct unseen unseen)
{
	uint32_t n = t->seen_blocks;
	double shared = strata_say(n);
	/* With a whole sample more the end is too high (97.5 % become 99.3): half a one is right,
	 * as where a count's own probability is halved. */
	double more = n > FEW ? 0.5 : 1;
	/* The row's own samples may come from a time with a smaller interval. */
	double interval = fmax(t->largest_interval, unseen.interval);
	const struct sampled bytes = {t->exact_bytes, t->sampled_bytes, bytes_variance(t, shared),
				      t->seen_bytes, n};
	const struct sampled blocks = {t->exact_blocks, t->sampled_blocks,
				       blocks_variance(t, shared), n, n};
	struct mayfly_estimate e = {.samples = n + t->exact_count};

	e.bytes = sampled_figure(&bytes, more * interval);
	e.blocks = sampled_figure(
	    &blocks, says_nothing(t) ? interval : (n > 9 ? 0.5 : 1) * unseen_blocks(t, interval));
	if (n <= SEVERAL && !says_nothing(t))
		e.blocks.high = fmax(n > FEW ? e.blocks.high : e.blocks.estimate,
				     few_blocks_high(t, &e.bytes, unseen.spread));
	e.blocks.high = fmin(e.blocks.high, one_byte_blocks(t, &e));
	return e;
}

/*
 * The peak may be at another moment. What a row has at those moments widens its interval: up to as
 * much more, or down to the same share less.
 */
static void widen(struct mayfly_figure *f, double least, double most)
{
	f->below = f->estimate * (1 - least);
	f->above = f->estimate * (most - 1);
	f->low *= least;
	f->high += f->above;
}

static void widen_peak(struct mayfly_estimate *e, const struct tally *t)
{
	double least = INFINITY, most = 0;

	if (!(e->bytes.estimate > 0))
		return;
	for (int k = 0; k < PEAK_MOMENTS; k++) {
		least = fmin(least, fmax(0, t->at[k]));
		most = fmax(most, t->at[k]);
	}
	least = fmin(1, least / e->bytes.estimate);
	most = fmax(1, most / e->bytes.estimate);
	widen(&e->bytes, least, most);
	widen(&e->blocks, least, most);
}

static struct mayfly_estimate plain_estimate(const struct tally *t, struct unseen unseen)
{
	struct mayfly_estimate e = {.samples = t->exact_count};

	if (t->seen_blocks > 0)
		return sampled_estimate(t, unseen);
	e.bytes = exact_figure(t->exact_bytes);
	e.blocks = exact_figure(t->exact_blocks);
	if (unseen.interval > 1) {
		/* A sum without a sample is below 3 R with 95 %: e^-3 = .05. A block has at least a
		 * byte. */
		e.bytes.high += 3 * unseen.interval;
		e.blocks.high += 3 * unseen.interval;
	}
	return e;
}

struct mayfly_estimate tally_estimate(const struct tally *t, struct unseen unseen)
{
	struct mayfly_estimate e = plain_estimate(t, unseen);

	if (unseen.peak)
		widen_peak(&e, t);
	return e;
}

struct tally_brief tally_brief(const struct tally *t)
{
	double shared = strata_say(t->seen_blocks);

	return (struct tally_brief){
	    .bytes = t->exact_bytes + t->sampled_bytes,
	    .blocks = t->exact_blocks + t->sampled_blocks,
	    .bytes_stderror = sqrt(bytes_variance(t, shared)),
	    .blocks_stderror = sqrt(blocks_variance(t, shared)),
	    .samples = t->seen_blocks + t->exact_count,
	};
}
