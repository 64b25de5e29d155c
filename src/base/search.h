/* SPDX-License-Identifier: Apache-2.0 */
/* Binary search. */
#ifndef MAYFLY_SEARCH_H
#define MAYFLY_SEARCH_H

#include <stddef.h>

/* The first of the numbers from `from` up to `to` for which `holds`, an expression of the number `i`,
 * is true; `to` if there is none. It must hold for all numbers after one for which it holds. */
#define FIRST_THAT(i, from, to, holds)                                                             \
	({                                                                                         \
		size_t low_ = (from), high_ = (to);                                                \
                                                                                                   \
		while (low_ < high_) {                                                             \
			size_t i = low_ + (high_ - low_) / 2;                                      \
                                                                                                   \
			if (holds)                                                                 \
				high_ = i;                                                         \
			else                                                                       \
				low_ = i + 1;                                                      \
		}                                                                                  \
		low_;                                                                              \
	})

#endif
