/* SPDX-License-Identifier: Apache-2.0 */
/* A limit for the memory that reading a file takes, so that a small file cannot claim a lot. */
#ifndef MAYFLY_BUDGET_H
#define MAYFLY_BUDGET_H

#include <stddef.h>
#include <stdint.h>

struct budget {
	uint64_t left; /* bytes */
};

/* Both return 0, MAYFLY_E_TOO_LARGE or MAYFLY_E_MEMORY. */

int budget_spend(struct budget *b, uint64_t bytes);
/* Makes room for one more item; array: the address of the array's pointer. New memory is zero. */
int budget_grow(struct budget *b, void *array, size_t used, size_t *room, size_t item);

#endif
