/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions underneath the hooks: those that the program would have called without us. Each
 * starts as a resolver, so it can be called at any time.
 */
#ifndef MAYFLY_REAL_H
#define MAYFLY_REAL_H

#include <dlfcn.h>
#include <string.h>
#include <sys/types.h>

#include "agent/agent.h"

/* X(name, parameters, arguments, bytes): those that allocate a block and return it. */
#define REAL_ALLOCATIONS(X)                                                                        \
	X(malloc, (size_t size), (size), size)                                                     \
	X(calloc, (size_t count, size_t size), (count, size), (count) * (size))                    \
	X(memalign, (size_t alignment, size_t size), (alignment, size), size)                      \
	X(aligned_alloc, (size_t alignment, size_t size), (alignment, size), size)                 \
	X(valloc, (size_t size), (size), size)                                                     \
	X(pvalloc, (size_t size), (size), size)

/* X(type, name, parameters, arguments): all others. */
#define REAL_OTHERS(X)                                                                             \
	X(void, free, (void *block), (block))                                                      \
	X(void *, realloc, (void *block, size_t size), (block, size))                              \
	X(int, posix_memalign, (void **out, size_t alignment, size_t size),                        \
	  (out, alignment, size))                                                                  \
	X(size_t, malloc_usable_size, (void *block), (block))                                      \
	X(int, dlclose, (void *handle), (handle))                                                  \
	X(int, prctl,                                                                              \
	  (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d),        \
	  (option, a, b, c, d))                                                                    \
	X(off_t, lseek, (int fd, off_t offset, int whence), (fd, offset, whence))

#define REAL_ALLOCATION_FIELD(name, parameters, arguments, bytes) void *(*name)parameters;
#define REAL_OTHER_FIELD(type, name, parameters, arguments)	  type(*name) parameters;
struct real {
	REAL_ALLOCATIONS(REAL_ALLOCATION_FIELD)
	REAL_OTHERS(REAL_OTHER_FIELD)
};
#undef REAL_ALLOCATION_FIELD
#undef REAL_OTHER_FIELD
HIDDEN extern struct real real;

/* Looks all of them up, unless that has been done. */
void real_resolve(void);

/* The executable's functions have come to lead to the hooks (own_entries.c): others do what they did. */
void real_take_own(void);

/* False: too early to start, as libc does not know the program's code yet. Only in static programs,
 * which allocate that early. */
HIDDEN extern _Atomic bool real_ready;

/* The agent for musl's programs; glibc's loader would refuse it. */
HIDDEN extern const bool real_is_musl;

/* The C library's dlsym, not one of the program's: that would search after the program, and find
 * us. */
void *real_dlsym(void *handle, const char *name);

/* Puts the next function `name` after ours into `place`, or leaves it as it is. The compiler knows
 * no conversion between object and function pointers; POSIX does. */
#define REAL_LOOK_UP(place, name)                                                                  \
	do {                                                                                       \
		void *found_ = real_dlsym(RTLD_NEXT, #name);                                       \
		if (found_)                                                                        \
			memcpy(&(place), &found_, sizeof(found_));                                 \
	} while (0)

#endif
