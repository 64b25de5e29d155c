/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library for LD_PRELOAD that allocates before anything is ready: from an ifunc resolver, which
 * the loader calls while it relocates, when it is told to (EARLY_IFUNC), and from a constructor of
 * the highest priority. It also replaces a libc function by one that allocates.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT 200
static char *kept[KEPT];
static char *from_resolver;

void *early_value(void);

static void *value(void)
{
	return from_resolver;
}

/* Nothing of ours is relocated yet: malloc is reached by way of the loader's search. */
__attribute__((used)) static void *(*resolve(void))(void)
{
#ifdef EARLY_IFUNC
	from_resolver = malloc(321);
#endif
	return value;
}

void *early_value(void) __attribute__((ifunc("resolve"), visibility("default")));

__attribute__((constructor(101))) static void begin(void)
{
	for (int i = 0; i < KEPT; i++) {
		kept[i] = malloc(10 + (size_t)i);
		memset(kept[i], i, 10 + (size_t)i);
	}
	for (int i = 0; i < KEPT; i += 2) {
		free(kept[i]);
		kept[i] = calloc(3, 50);
	}
	for (int i = 0; i < KEPT; i += 3)
		kept[i] = realloc(kept[i], 500);
	early_value();
}

__attribute__((destructor(101))) static void end(void)
{
	for (int i = 0; i < KEPT; i++)
		free(kept[i]);
	free(from_resolver);
	free(malloc(1000));
}
