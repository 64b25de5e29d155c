/* SPDX-License-Identifier: Apache-2.0 */
/* A library whose malloc and free, opened with RTLD_DEEPBIND, are libc's own: see bypass.c. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define SIZE  1000
#define SHOWN __attribute__((visibility("default"), noinline))

static char text[SIZE];

/* Looked up by the loader at once, and then read-only. */
static void (*const releases[])(void *) = {free};

/* A variable, which has another value by the time the library is used. */
static void release_counted(void *block);
static void (*volatile release)(void *) = free;
static size_t counted;

SHOWN void plugin_keeps(void **block, size_t count);
SHOWN void plugin_copies(void **block, size_t count);
SHOWN void plugin_takes(void **block, size_t count);
SHOWN void plugin_gives(void **block, size_t count);
SHOWN void plugin_constructs(void);

/* Keeps every fourth. */
void plugin_keeps(void **block, size_t count)
{
	for (size_t i = 0; i < count; i++)
		block[i] = realloc(i % 2 ? malloc(SIZE / 2) : calloc(1, SIZE / 2), SIZE);
	for (size_t i = 0; i < count; i++)
		if (i % 4)
			free(block[i]);
}

/* strdup, inside libc, calls the program's malloc. dlsym must see that the call is from here: the
 * name is in this library's scope only. */
void plugin_copies(void **block, size_t count)
{
	if (!dlsym(RTLD_DEFAULT, "plugin_copies"))
		abort();
	memset(text, 'x', SIZE - 1);
	for (size_t i = 0; i < count; i++)
		block[i] = strdup(text);
	for (size_t i = 0; i < count; i++)
		free(block[i]);
}

void plugin_takes(void **block, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (i % 3 == 0)
			releases[0](block[i]);
		else if (i % 3 == 1)
			release(block[i]);
		else
			free(block[i]);
	if (counted != (count + 1) / 3)
		abort();
}

static void release_counted(void *block)
{
	counted++;
	free(block);
}

__attribute__((constructor)) static void choose(void)
{
	release = release_counted;
}

void plugin_gives(void **block, size_t count)
{
	for (size_t i = 0; i < count; i++)
		block[i] = malloc(SIZE);
}

#ifdef CONSTRUCTS
__attribute__((constructor))
#endif
void plugin_constructs(void)
{
	void *block[100];

	plugin_copies(block, 100);
}
