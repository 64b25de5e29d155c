/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of estimates: see estimate_add.h. */
#include "answer/estimate_add.h"

#include <math.h>

/* Variances add, and so do the squares of the distances between the estimates and the ends of their
 * intervals. */
static void add_figure(struct mayfly_figure *sum, const struct mayfly_figure *f)
{
	double below = hypot(sum->estimate - sum->low, f->estimate - f->low);
	double above = hypot(sum->high - sum->estimate, f->high - f->estimate);

	sum->estimate += f->estimate;
	sum->stderror = hypot(sum->stderror, f->stderror);
	sum->certain += f->certain;
	sum->low = fmax(sum->estimate - below, sum->certain);
	sum->high = sum->estimate + above;
}

void estimate_add(struct mayfly_estimate *sum, const struct mayfly_estimate *e)
{
	if (sum->samples == 0) {
		*sum = *e;
		return;
	}
	add_figure(&sum->bytes, &e->bytes);
	add_figure(&sum->blocks, &e->blocks);
	sum->samples += e->samples;
}
