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

/* ---- the allocators' own functions; 0 where the allocator is not there ---- */

#define OWN __attribute__((weak))
OWN extern void *mallocx(size_t, int), *rallocx(void *, size_t, int);
OWN extern size_t xallocx(void *, size_t, size_t, int), sallocx(const void *, int);
OWN extern size_t nallocx(size_t, int);
OWN extern void dallocx(void *, int), sdallocx(void *, size_t, int);
OWN extern void *tc_malloc(size_t), *tc_calloc(size_t, size_t), *tc_realloc(void *, size_t);
OWN extern void *tc_new(size_t), *tc_newarray_nothrow(size_t, const void *);
OWN extern void *tc_memalign(size_t, size_t);
OWN extern int tc_posix_memalign(void **, size_t, size_t);
OWN extern void tc_free(void *), tc_delete(void *), tc_deletearray_nothrow(void *, const void *);
OWN extern size_t tc_malloc_size(void *);
OWN extern void *mi_malloc(size_t), *mi_calloc(size_t, size_t), *mi_realloc(void *, size_t);
OWN extern void *mi_zalloc(size_t), *mi_new(size_t), *mi_heap_new(void),
    *mi_heap_malloc(void *, size_t);
OWN extern void *mi_malloc_aligned(size_t, size_t), *mi_expand(void *, size_t);
OWN extern void *mi_recalloc(void *, size_t, size_t);
OWN extern int mi_posix_memalign(void **, size_t, size_t);
OWN extern char *mi_strdup(const char *);
OWN extern void mi_free(void *), mi_free_size(void *, size_t);
OWN extern size_t mi_usable_size(const void *);

/* SIZE / 2, then SIZE: two allocations. */
NOT_KNOWN static void kept_jemalloc(void)
{
	for (size_t i = 0; i < count; i++) {
		block[i] = mallocx(SIZE / 2, i % 3 == 0 ? 6 : i % 3 == 1 ? 0x40 : 0);
		if (i % 5 == 0 && xallocx(block[i], SIZE * 20, 0, 0) >= SIZE * 20)
			fail("xallocx");
		block[i] = rallocx(block[i], SIZE, 0);
		if (sallocx(block[i], 0) < SIZE || nallocx(SIZE, 0) < SIZE)
			fail("sallocx");
	}
	for (size_t i = 0; i < count; i++)
		if (i % 4 == 1)
			dallocx(block[i], 0);
		else if (i % 4 == 2)
			sdallocx(block[i], SIZE, 0);
		else if (i % 4 == 3)
			free(block[i]);
}

/* One size class holds both sizes, so the block grows where it is. */
NOT_KNOWN static void grown_jemalloc(void)
{
	for (size_t i = 0; i < count; i++) {
		block[i] = mallocx(SIZE - 8, 0);
		if (xallocx(block[i], SIZE, 0, 0) < SIZE)
			fail("xallocx");
	}
	for (size_t i = 0; i < count; i++)
		dallocx(block[i], 0);
}

NOT_KNOWN static void kept_tcmalloc(void)
{
	for (size_t i = 0; i < count; i++) {
		switch (i % 6) {
		case 0:
			block[i] = tc_malloc(SIZE);
			break;
		case 1:
			block[i] = tc_calloc(SIZE / 10, 10);
			break;
		case 2:
			block[i] = tc_new(SIZE);
			break;
		case 3:
			block[i] = tc_newarray_nothrow(SIZE, NULL);
			break;
		case 4:
			block[i] = tc_memalign(64, SIZE);
			break;
		case 5:
			if (tc_posix_memalign(&block[i], 64, SIZE))
				fail("tc_posix_memalign");
			break;
		}
		block[i] = tc_realloc(block[i], SIZE + tc_malloc_size(block[i]) * 0);
	}
	for (size_t i = 0; i < count; i++)
		if (i % 4 == 1)
			tc_free(block[i]);
		else if (i % 4 == 2)
			tc_delete(block[i]);
		else if (i % 4 == 3)
			tc_deletearray_nothrow(block[i], NULL);
}

NOT_KNOWN static void kept_mimalloc(void)
{
	static char text[SIZE];
	void *heap = mi_heap_new();

	memset(text, 'x', SIZE - 1);
	for (size_t i = 0; i < count; i++) {
		switch (i % 8) {
		case 0:
			block[i] = mi_malloc(SIZE);
			break;
		case 1:
			block[i] = mi_calloc(SIZE / 10, 10);
			break;
		case 2:
			block[i] = mi_new(SIZE);
			break;
		case 3:
			block[i] = mi_zalloc(SIZE);
			break;
		case 4:
			block[i] = mi_malloc_aligned(SIZE, 64);
			break;
		case 5:
			if (mi_posix_memalign(&block[i], 64, SIZE))
				fail("mi_posix_memalign");
			break;
		case 6:
			block[i] = mi_heap_malloc(heap, SIZE);
			break;
		case 7:
			block[i] = mi_strdup(text);
			break;
		}
		if (i % 3 == 0)
			block[i] = mi_realloc(block[i], SIZE);
		else if (i % 3 == 1)
			block[i] = mi_recalloc(block[i], SIZE / 10, 10);
		else if (mi_expand(block[i], SIZE) != block[i] || mi_usable_size(block[i]) < SIZE)
			fail("mi_expand");
	}
	for (size_t i = 0; i < count; i++)
		if (i % 4 == 1)
			mi_free(block[i]);
		else if (i % 4 == 2)
			mi_free_size(block[i], SIZE);
		else if (i % 4 == 3)
			free(block[i]);
}

/* Which of them the program finds must not depend on mayfly. */
static void allocators(void)
{
	printf("%d %d %d\n", mallocx || dallocx, tc_malloc || tc_free, mi_malloc || mi_free);
	printf("%d\n", dlsym(RTLD_DEFAULT, "mallocx") == (void *)mallocx &&
			   dlsym(RTLD_DEFAULT, "tc_new") == (void *)tc_new &&
			   dlsym(RTLD_DEFAULT, "mi_heap_malloc") == (void *)mi_heap_malloc);
	if (mallocx) {
		kept_jemalloc();
		grown_jemalloc();
	}
	if (tc_malloc)
		kept_tcmalloc();
	if (mi_malloc)
		kept_mimalloc();
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
	else if (!strcmp(argv[1], "allocators"))
		allocators();
	else if (!strcmp(argv[1], "hidden"))
		hidden_free();
	else
		fail(argv[1]);
	puts("done");
	return 0;
}
