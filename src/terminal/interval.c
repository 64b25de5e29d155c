/* SPDX-License-Identifier: Apache-2.0 */
/* Intervals of samples: see interval.h. */
#include "terminal/interval.h"

#include <unistd.h>

#include "answer/figures.h"
#include "terminal/message.h"
#include "format/spool_format.h"

uint32_t interval_log2_of(uint64_t bytes, bool quiet)
{
	char wanted[FIGURE_TEXT], taken[FIGURE_TEXT];
	uint64_t power = 1;
	uint32_t log2 = 0;

	while (power * 2 <= bytes) {
		power *= 2;
		log2++;
	}
	if (bytes - power >= 2 * power - bytes && log2 < SPOOL_INTERVAL_MAX_LOG2)
		log2++;
	if (bytes != 1ull << log2 && !quiet && isatty(STDERR_FILENO))
		cli_error("the interval of %s is rounded to %s, a power of two",
			  text_bytes(wanted, sizeof(wanted), (double)bytes),
			  text_bytes(taken, sizeof(taken), (double)(1ull << log2)));
	return log2;
}
