/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler.c: which allocations to sample. doc/INTERNALS.md, "Estimates", says why these rules.
 *
 * The bytes that a thread allocates in blocks smaller than R = 2^interval_log2 form one long line.
 * Stratified: the line is cut into strata of R bytes, and each has one point, at a place u drawn
 * uniformly:
 *
 *	|........x..............|..x....................|..................x....|
 *	 <- u0 ->x<---- R - u0 ---->u1-> ...
 *
 * So the way from one point to the next is (R - u) + u'. Blocks of R bytes or more are not on the
 * line: they are all recorded. Poisson: every block is on the line, the ways are exponential.
 *
 * `left` counts down to the next point, that byte included. It is never more than R, so that each
 * block of R bytes or more comes here; what is beyond R of a long way waits in `carried`.
 */
#include "sampler.h"

/* xoshiro256** of Blackman and Vigna, seeded as they advise with splitmix64. */
static uint64_t rotate_left(uint64_t x, unsigned int bits)
{
	return x << bits | x >> (64 - bits);
}

static uint64_t draw(struct sampler *s)
{
	uint64_t *r = s->random;
	uint64_t result = rotate_left(r[1] * 5, 7) * 9;
	uint64_t t = r[1] << 17;

	r[2] ^= r[0];
	r[3] ^= r[1];
	r[1] ^= r[2];
	r[0] ^= r[3];
	r[2] ^= t;
	r[3] = rotate_left(r[3], 45);
	return result;
}

static void seed_random(struct sampler *s, uint64_t seed)
{
	/* The steps are a bijection, so the four words cannot all be zero. */
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += 0x9e3779b97f4a7c15u;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		s->random[i] = z ^ z >> 31;
	}
}

/* Uniform in [0, R): R is a power of two, so the top bits are free of bias. */
static uint64_t draw_point(struct sampler *s)
{
	return draw(s) >> (64 - s->interval_log2);
}

/*
 * The natural logarithm of a normal x > 0: x = m 2^e with m in [sqrt(1/2), sqrt(2)), and
 * ln m = 2 artanh(t) with t = (m - 1) / (m + 1), |t| < 0.172. Ten terms leave less than 1e-16.
 */
static double natural_log(double x)
{
	union {
		double value;
		uint64_t bits;
	} m = {.value = x};
	int e = (int)(m.bits >> 52) - 1023;
	double t, tt, sum = 0;

	m.bits = (m.bits & 0xfffffffffffffu) | 1023ull << 52;
	if (m.value > 1.4142135623730951) {
		m.value *= 0.5;
		e++;
	}
	t = (m.value - 1) / (m.value + 1);
	tt = t * t;
	for (int k = 21; k >= 1; k -= 2)
		sum = sum * tt + 1.0 / k;
	return e * 0.69314718055994530942 + 2 * t * sum;
}

/*
 * Bytes up to and including the next point. The exponential way rounded up, which makes the chance
 * that a block of Z bytes has no point exactly exp(-Z / R).
 */
static uint64_t draw_exponential(struct sampler *s)
{
	double u = ((double)(draw(s) >> 11) + 0.5) * 0x1p-53;
	double way = -natural_log(u) * (double)(1ull << s->interval_log2);

	return (uint64_t)way + 1;
}

/* Puts as much of a way into left as may be there. Returns how much. */
static uint64_t hand_out(struct sampler *s, uint64_t way)
{
	uint64_t interval = 1ull << s->interval_log2;

	s->left = way < interval ? way : interval;
	s->carried = way - s->left;
	return s->left;
}

void sampler_set_interval(struct sampler *s, uint32_t interval_log2)
{
	uint64_t position = sampler_position(s);

	s->interval_log2 = interval_log2;
	s->left = 0;
	s->carried = 0;
	s->point = 0;
	if (interval_log2 == 0) {
		/* Nothing to count down: every block is recorded. */
	} else if (s->kind == SAMPLER_POISSON) {
		hand_out(s, draw_exponential(s));
	} else {
		s->point = draw_point(s);
		hand_out(s, s->point + 1);
	}
	s->handed = position + s->left;
}

void sampler_init(struct sampler *s, uint32_t kind, uint32_t interval_log2, uint64_t seed)
{
	s->kind = kind;
	s->left = 0;
	s->handed = 0;
	seed_random(s, seed);
	sampler_set_interval(s, interval_log2);
}

/* The way has no memory: after a hit the next one may begin at the end of the block. */
static int32_t take_poisson(struct sampler *s, uint64_t size)
{
	uint64_t position = sampler_position(s) + size;
	uint64_t way = s->left + s->carried;
	int32_t hits = SAMPLER_SKIP;

	if (size >= way) {
		way = draw_exponential(s);
		hits = 1;
	} else {
		way -= size;
	}
	s->handed = position + hand_out(s, way);
	return hits;
}

static int32_t take_stratified(struct sampler *s, uint64_t size)
{
	uint64_t interval = 1ull << s->interval_log2;
	int32_t hits = 0;

	/* Now `size` is what remains of the block behind the end of left. */
	size -= s->left;
	for (;;) {
		if (s->carried == 0) {
			uint64_t point = draw_point(s);

			hits++;
			s->carried = interval - s->point + point;
			s->point = point;
		}
		s->handed += hand_out(s, s->carried);
		if (size < s->left)
			break;
		size -= s->left;
	}
	s->left -= size;
	return hits > 0 ? hits : SAMPLER_SKIP;
}

int32_t sampler_take(struct sampler *s, uint64_t size)
{
	if (s->interval_log2 == 0) {
		s->handed++;
		return 0;
	}
	if (s->kind == SAMPLER_POISSON)
		return take_poisson(s, size);
	if (size >= 1ull << s->interval_log2) {
		s->handed++;
		return 0;
	}
	return take_stratified(s, size);
}
