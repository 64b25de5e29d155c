/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which word a user may have meant:
 *
 *	struct nearest n = nearest_to("tpo");
 *	nearest_offer(&n, "top");
 *	...
 *	n.best is "top", or NULL when nothing is near enough to be a typing error.
 */
#ifndef MAYFLY_NEAREST_H
#define MAYFLY_NEAREST_H

#include <stddef.h>

struct nearest {
	const char *word, *best;
	size_t least; /* changes from word to best */
};

struct nearest nearest_to(const char *word);
void nearest_offer(struct nearest *n, const char *candidate);

#endif
