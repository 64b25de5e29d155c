/* SPDX-License-Identifier: Apache-2.0 */
/* Student's distribution: see student.h. Formulas: NIST Digital Library of Mathematical Functions, 8.17. */
#include "query/student.h"

#include <math.h>

#include "query/log_gamma.h"

#define TERMS_MOST 10000

/* The continued fraction 8.17.22 by Lentz's method, good for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
	double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), value = d;

	for (int m = 1; m < TERMS_MOST; m++) {
		double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		double change;

		d = 1 / (1 + even * d);
		c = 1 + even / c;
		value *= c * d;
		d = 1 / (1 + odd * d);
		c = 1 + odd / c;
		change = c * d;
		value *= change;
		if (fabs(change - 1) < 1e-15)
			break;
	}
	return value;
}

/* The regularised incomplete beta function I_x(a, b); y is 1 - x, which may be too small to be computed
 * from x. */
static double beta_share(double x, double y, double a, double b)
{
	double front;

	if (x <= 0 || y <= 0)
		return x <= 0 ? 0 : 1;
	front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log(y));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(x, a, b) / a;
	return 1 - front * beta_fraction(y, b, a) / b;
}

double student_tail(double t, double freedom)
{
	double square = t * t;

	if (isinf(square))
		return 0;
	return beta_share(freedom / (freedom + square), square / (freedom + square), freedom / 2,
			  0.5);
}

double student_quantile(double chance, double freedom)
{
	double low = 0, high = 1;

	while (student_tail(high, freedom) > chance && high < 1e300)
		high *= 2;
	for (int i = 0; i < 100; i++) {
		double middle = low + (high - low) / 2;

		if (student_tail(middle, freedom) > chance)
			low = middle;
		else
			high = middle;
	}
	return high;
}
