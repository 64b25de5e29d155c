/* SPDX-License-Identifier: Apache-2.0 */
/* The logarithm for samplers, which run in programs that may be without libm. */
#ifndef MAYFLY_NATURAL_LOG_H
#define MAYFLY_NATURAL_LOG_H

#include <stdint.h>

/*
 * The natural logarithm of a normal x > 0: x = m 2^e with m in [sqrt(1/2), sqrt(2)), and
 * ln m = 2 artanh(t) with t = (m - 1) / (m + 1), |t| < 0.172. Ten terms leave less than 1e-16.
 */
static inline double natural_log(double x)
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

#endif
