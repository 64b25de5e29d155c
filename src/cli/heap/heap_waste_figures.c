/* SPDX-License-Identifier: Apache-2.0 */
/* Waste as figures: see heap_waste_figures.h. */
#include "cli/heap/heap_waste_figures.h"

#include <math.h>

#include "query/estimate.h"

/* Copies that stand for others are samples of one byte in so many. */
struct mayfly_estimate heap_waste_copies(const struct heap_waste *w,
					 const struct heap_waste_sum *sum)
{
	const struct estimated_sum sampled = {.bytes = sum->sampled_bytes,
					      .blocks = sum->sampled_blocks,
					      .bytes_stderror = sqrt(sum->variance_bytes),
					      .blocks_stderror = sqrt(sum->variance_blocks),
					      .samples = sum->samples};
	struct tally t = {.exact_bytes = (double)sum->copy_bytes,
			  .exact_blocks = (double)sum->copy_blocks,
			  .exact_count = sum->copy_blocks};

	if (sum->samples)
		tally_add_sum(&t, (double)w->interval, &sampled);
	return tally_estimate(&t, (struct unseen){.interval = (double)w->interval, .spread = 1});
}

double heap_waste_weight(const struct heap_waste_sum *sum)
{
	return (double)sum->zero_bytes + (double)sum->end_bytes + (double)sum->copy_bytes +
	       sum->sampled_bytes;
}
