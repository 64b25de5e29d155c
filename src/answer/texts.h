/* SPDX-License-Identifier: Apache-2.0 */
/* Distinct texts, numbered from 0 in order of first appearance. */
#ifndef MAYFLY_TEXTS_H
#define MAYFLY_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash_index.h"

struct texts {
	char **text; /* copies */
	size_t count, capacity;
	struct hash_index index;
};

#define TEXTS_FAILED UINT32_MAX /* out of memory */

uint32_t texts_number(struct texts *t, const char *text);
void texts_free(struct texts *t);

#endif
