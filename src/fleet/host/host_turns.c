/* SPDX-License-Identifier: Apache-2.0 */
/* The order of pushes: see host_turns.h. */
#include "fleet/host/host_turns.h"

#include <stdlib.h>

struct turn {
	struct host_process *process;
	size_t number; /* among its user's */
};

static int compare_owners(const void *a, const void *b)
{
	const struct host_process *x = ((const struct turn *)a)->process;
	const struct host_process *y = ((const struct turn *)b)->process;

	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return (x->pushed_ns > y->pushed_ns) - (x->pushed_ns < y->pushed_ns);
}

static int compare_turns(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->process->pushed_ns > y->process->pushed_ns) -
	       (x->process->pushed_ns < y->process->pushed_ns);
}

struct host_process **host_turns(struct host_process *const *process, size_t count)
{
	struct host_process **order = calloc(count + 1, sizeof(*order));
	struct turn *turn = calloc(count + 1, sizeof(*turn));

	if (!order || !turn) {
		free(order);
		free(turn);
		return NULL;
	}
	for (size_t i = 0; i < count; i++)
		turn[i].process = process[i];
	qsort(turn, count, sizeof(*turn), compare_owners);
	for (size_t i = 1; i < count; i++)
		if (turn[i].process->owner == turn[i - 1].process->owner)
			turn[i].number = turn[i - 1].number + 1;
	qsort(turn, count, sizeof(*turn), compare_turns);
	for (size_t i = 0; i < count; i++)
		order[i] = turn[i].process;
	free(turn);
	return order;
}
