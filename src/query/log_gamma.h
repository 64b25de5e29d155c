/* SPDX-License-Identifier: Apache-2.0 */
/* The logarithm of the gamma function, for any thread: lgamma() writes its sign to a global variable. */
#ifndef MAYFLY_LOG_GAMMA_H
#define MAYFLY_LOG_GAMMA_H

#include <math.h>

static inline double log_gamma(double x)
{
	int sign;

	return lgamma_r(x, &sign);
}

#endif
