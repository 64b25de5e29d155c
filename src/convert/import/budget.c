/* SPDX-License-Identifier: Apache-2.0 */
/* A limit for the memory that reading a file takes: see budget.h. */
#include "convert/import/budget.h"

#include <mayfly/trace.h>

#include <stdlib.h>
#include <string.h>

int budget_spend(struct budget *b, uint64_t bytes)
{
	if (bytes > b->left)
		return MAYFLY_E_TOO_LARGE;
	b->left -= bytes;
	return 0;
}

int budget_grow(struct budget *b, void *array, size_t used, size_t *room, size_t item)
{
	size_t want = *room ? *room + *room / 2 : 64;
	void *old, *bigger;
	int error;

	if (used < *room)
		return 0;
	error = budget_spend(b, (want - *room) * item);
	if (error)
		return error;
	memcpy(&old, array, sizeof(old));
	bigger = reallocarray(old, want, item);
	if (!bigger)
		return MAYFLY_E_MEMORY;
	memset((char *)bigger + *room * item, 0, (want - *room) * item);
	memcpy(array, &bigger, sizeof(bigger));
	*room = want;
	return 0;
}
