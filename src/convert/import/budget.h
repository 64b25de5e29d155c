/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that reading a file may take, so that a small file cannot claim a lot of it. */
#ifndef MAYFLY_BUDGET_H
#define MAYFLY_BUDGET_H

#include <stddef.h>
#include <stdint.h>

struct budget {
	uint64_t left; /* bytes */
};

/* Both return 0, MAYFLY_E_TOO_LARGE or MAYFLY_E_MEMORY. */

int budget_spend(struct budget *b, uint64_t bytes);
/* Room for one more item of the array that the pointer at `array` points to; new memory is zero. */
int budget_grow(struct budget *b, void *array, size_t used, size_t *room, size_t item);

#endif
