/* SPDX-License-Identifier: Apache-2.0 */
/* Opened by musl_program.c: allocates in its constructor and when it is called. */
#include <stdlib.h>

void *plugin_allocate(size_t bytes);

static void *volatile kept;

__attribute__((constructor)) void plugin_begin(void)
{
	kept = malloc(3001);
}

__attribute__((noinline)) void *plugin_allocate(size_t bytes)
{
	void *volatile block = malloc(bytes);

	return block;
}
