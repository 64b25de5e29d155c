/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to load and unload. Built twice, with PLUGIN 1 and 2: both are mapped to the same place
 * in turn, with different functions at the same addresses.
 */
#include <stdlib.h>
#include <string.h>

char *plugin_make(size_t size);

#if PLUGIN == 1
__attribute__((noinline)) static char *plugin_first(size_t size)
{
	volatile char space[200];

	space[0] = 1;
	char *block = malloc(size);
	memset(block, 'A' + space[0], size);
	return block;
}
#else
__attribute__((noinline)) static char *plugin_second(size_t size, int depth)
{
	char *block;

	if (depth > 0) {
		block = plugin_second(size, depth - 1);
		__asm__ volatile("" : "+r"(block));
		return block;
	}
	block = calloc(1, size + 1000);
	memset(block, 'Q', size);
	return block;
}
#endif

__attribute__((visibility("default"))) char *plugin_make(size_t size)
{
	char *block;
#if PLUGIN == 1
	block = plugin_first(size);
#else
	block = plugin_second(size, 5);
#endif
	__asm__ volatile("" : "+r"(block));
	return block;
}

static char *at_load;

__attribute__((constructor)) static void load(void)
{
	at_load = malloc(77);
}

__attribute__((destructor)) static void unload(void)
{
	free(at_load);
}
