/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built twice, as two objects of the same size whose functions have different frames at the same
 * addresses: a rule kept from the one is wrong for the other.
 */
#include <string.h>

void plugin_run(void *(*allocate)(unsigned depth), unsigned depth);
unsigned plugin_number(void);

static volatile unsigned sink;

/* Two calls at the same place behind prologues of the same length. */
__attribute__((noinline)) void plugin_run(void *(*allocate)(unsigned depth), unsigned depth)
{
	volatile char room[PLUGIN == 1 ? 1024 : 2048];

	room[0] = (char)depth;
	if (depth > 0)
		plugin_run(allocate, depth - 1);
	else
		allocate(PLUGIN);
	sink += (unsigned)room[0];
}

unsigned plugin_number(void)
{
	return PLUGIN;
}
