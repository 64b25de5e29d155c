/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations and frees that might pass the hooks by: bypass CASE COUNT [PLUGIN]. Each function
 * below allocates COUNT blocks of SIZE bytes; those whose name begins with "kept_" keep every
 * fourth, the others free all.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE	  1000
#define NOT_KNOWN __attribute__((noinline))

static size_t count;
static void **block;

static void fail(const char *what)
{
	printf("failed: %s\n", what);
	exit(2);
}

static void free_most(void)
{
	for (size_t i = 0; i < count; i++)
		if (i % 4)
			free(block[i]);
}

/* ---- an allocator whose functions call each other ---- */

NOT_KNOWN static void kept_calloc(void)
{
	for (size_t i = 0; i < count; i++)
		block[i] = calloc(1, SIZE);
	free_most();
}

/* Each block is made with a tenth of the size, then grows. */
NOT_KNOWN static void kept_realloc(void)
{
	for (size_t i = 0; i < count; i++)
		block[i] = malloc(SIZE / 10);
	for (size_t i = 0; i < count; i++)
		block[i] = realloc(block[i], SIZE);
	free_most();
}

NOT_KNOWN static void kept_aligned(void)
{
	for (size_t i = 0; i < count; i++) {
		if (i % 3 == 0)
			block[i] = memalign(64, SIZE);
		else if (i % 3 == 1)
			block[i] = aligned_alloc(64, SIZE);
		else if (posix_memalign(&block[i], 64, SIZE))
			fail("posix_memalign");
	}
	free_most();
}

static void nested(void)
{
	kept_calloc();
	kept_realloc();
	kept_aligned();
}

/* ---- a library that binds to libc ---- */

typedef void work(void **block, size_t count);

static work *found(void *library, const char *name)
{
	void *symbol = dlsym(library, name);
	work *function;

	if (!symbol)
		fail(name);
	memcpy(&function, &symbol, sizeof(function));
	return function;
}

NOT_KNOWN static void gives_plugin(work *takes)
{
	for (size_t i = 0; i < count; i++)
		block[i] = malloc(SIZE);
	takes(block, count);
}

static void *opened(const char *path, int mode)
{
	void *library = dlopen(path, mode | RTLD_LOCAL);

	if (!library)
		fail(dlerror());
	return library;
}

/* The library's blocks are its own, from first to last. */
static void apart(const char *path)
{
	found(opened(path, RTLD_NOW | RTLD_DEEPBIND), "plugin_keeps")(block, count);
}

static void other_namespace(const char *path)
{
	void *library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);

	if (!library)
		fail(dlerror());
	found(library, "plugin_keeps")(block, count);
}

static void deepbind(const char *path, int mode)
{
	void *library = opened(path, mode | RTLD_DEEPBIND);

	found(library, "plugin_copies")(block, count);
	found(library, "plugin_keeps")(block, count);
	gives_plugin(found(library, "plugin_takes"));
	found(library, "plugin_gives")(block, count);
	free_most();
}

/* ---- functions that dlsym finds ---- */

NOT_KNOWN static void kept_by_handle(void *(*allocate)(size_t), void (*release)(void *))
{
	for (size_t i = 0; i < count; i++)
		block[i] = i % 2 ? malloc(SIZE) : allocate(SIZE);
	for (size_t i = 0; i < count; i++)
		if (i % 4)
			release(block[i]);
}

static void handle(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY);
	void *symbols[] = {dlsym(libc, "malloc"), dlsym(libc, "free")};
	void *(*allocate)(size_t);
	void (*release)(void *);

	memcpy(&allocate, &symbols[0], sizeof(allocate));
	memcpy(&release, &symbols[1], sizeof(release));
	if (allocate != malloc || release != free || dlsym(libc, "no such name") || !dlerror())
		fail("dlsym");
	kept_by_handle(allocate, release);
}

/* ---- frees that nothing can see ---- */

extern void __libc_free(void *);

/* One address, again and again. */
NOT_KNOWN static void hidden_free(void)
{
	for (size_t i = 0; i < count; i++)
		__libc_free(malloc(SIZE));
}

/* ---- all ---- */

int main(int argc, char **argv)
{
	if (argc < 3)
		fail("arguments");
	count = strtoul(argv[2], NULL, 10);
	block = malloc(count * sizeof(*block));
	if (!strcmp(argv[1], "nested"))
		nested();
	else if (!strcmp(argv[1], "lazy") && argc == 4)
		deepbind(argv[3], RTLD_LAZY);
	else if (!strcmp(argv[1], "now") && argc == 4)
		deepbind(argv[3], RTLD_NOW);
	else if (!strcmp(argv[1], "apart") && argc == 4)
		apart(argv[3]);
	else if (!strcmp(argv[1], "namespace") && argc == 4)
		other_namespace(argv[3]);
	else if (!strcmp(argv[1], "handle"))
		handle();
	else if (!strcmp(argv[1], "hidden"))
		hidden_free();
	else
		fail(argv[1]);
	puts("done");
	return 0;
}
