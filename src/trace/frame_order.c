/* SPDX-License-Identifier: Apache-2.0 */
/* The order of frames: see frame_order.h. */
#include "trace/frame_order.h"

#include <stdlib.h>

static int compare_frame(const void *a, const void *b)
{
	const struct frame_key *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

void frame_keys_sort(struct frame_key *key, size_t count)
{
	if (count)
		qsort(key, count, sizeof(*key), compare_frame);
}
