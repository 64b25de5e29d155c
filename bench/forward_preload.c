/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: a preloaded library that does nothing but forward malloc and free to the next
 * definition. What any interposer costs above this is its own doing; bench/run reports mayfly's
 * cost against it.
 *
 * The pointers begin at glibc's own entry points, so that calls made before the constructor has
 * run need no test on the fast path.
 */
#include <dlfcn.h>
#include <stddef.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);

void *malloc(size_t size);
void free(void *block);

static void *(*next_malloc)(size_t) = __libc_malloc;
static void (*next_free)(void *) = __libc_free;

void *malloc(size_t size)
{
	return next_malloc(size);
}

void free(void *block)
{
	next_free(block);
}

__attribute__((constructor)) static void resolve(void)
{
	void *(*found_malloc)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	void (*found_free)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "free");

	if (found_malloc && found_free) {
		next_malloc = found_malloc;
		next_free = found_free;
	}
}
