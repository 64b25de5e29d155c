/* SPDX-License-Identifier: Apache-2.0 */
/* The functions underneath the hooks: see real.h. */
#include "agent/real.h"

#include <errno.h>

#include "agent/cpu/sys.h"
#include "agent/nested.h"
#include "agent/own_malloc.h"

/* glibc's own names, for a call that comes while the real functions are being looked up. */
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void __libc_free(void *) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));
extern void *__libc_memalign(size_t, size_t) __attribute__((weak));

/* ---- before they are known ---- */

#define FIRST_OTHER(type, name, parameters, arguments)                                             \
	static type first_##name parameters                                                        \
	{                                                                                          \
		real_resolve();                                                                    \
		return real.name arguments;                                                        \
	}
#define FIRST_ALLOCATION(name, parameters, arguments, bytes)                                       \
	FIRST_OTHER(void *, name, parameters, arguments)
REAL_ALLOCATIONS(FIRST_ALLOCATION)
REAL_OTHERS(FIRST_OTHER)

#define START_OTHER(type, name, parameters, arguments)	     .name = first_##name,
#define START_ALLOCATION(name, parameters, arguments, bytes) .name = first_##name,
struct real real = {REAL_ALLOCATIONS(START_ALLOCATION) REAL_OTHERS(START_OTHER)};

/* ---- what an allocator lacks: such a call fails as for a size that cannot be had ---- */

static void *none_memalign(size_t alignment, size_t size)
{
	(void)alignment, (void)size;
	errno = ENOMEM;
	return NULL;
}

static void *none_valloc(size_t size)
{
	(void)size;
	errno = ENOMEM;
	return NULL;
}

static int none_posix_memalign(void **out, size_t alignment, size_t size)
{
	(void)out, (void)alignment, (void)size;
	return ENOMEM;
}

static size_t none_malloc_usable_size(void *block)
{
	(void)block;
	return 0;
}

/* ---- and what another library of the program's might lack ---- */

static int none_dlclose(void *handle)
{
	(void)handle;
	return -1;
}

static int none_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
		      unsigned long d)
{
	return (int)sys_as_libc(
	    sys_call6(SYS_prctl, option, (long)a, (long)b, (long)c, (long)d, 0));
}

static off_t none_lseek(int fd, off_t offset, int whence)
{
	return sys_as_libc(sys_lseek(fd, offset, whence));
}

/* ---- looking them up ---- */

#define RESOLVE(name, otherwise)                                                                   \
	found.name = otherwise;                                                                    \
	REAL_LOOK_UP(found.name, name)

/* The executable's, if it has a malloc. */
#define TAKE_OWN(name)                                                                             \
	if (own_malloc_function && (function = own_malloc_function(#name)))                        \
		memcpy(&found.name, &function, sizeof(function));
#define TAKE_ALL(X)                                                                                \
	X(malloc)                                                                                  \
	X(free)                                                                                    \
	X(calloc)                                                                                  \
	X(realloc)                                                                                 \
	X(memalign)                                                                                \
	X(aligned_alloc)                                                                           \
	X(posix_memalign)                                                                          \
	X(valloc)                                                                                  \
	X(pvalloc)                                                                                 \
	X(malloc_usable_size)

void real_resolve(void)
{
	static _Atomic uint32_t resolving;

	struct real found = real;
	void *function;

	if (atomic_exchange(&resolving, 1))
		return; /* dlsym allocates: glibc's functions are in place meanwhile */
	int error = errno;
	if (__libc_malloc && __libc_free && __libc_calloc && __libc_realloc && __libc_memalign) {
		real.malloc = __libc_malloc;
		real.free = __libc_free;
		real.calloc = __libc_calloc;
		real.realloc = __libc_realloc;
		real.memalign = __libc_memalign;
	}
	RESOLVE(malloc, real.malloc);
	RESOLVE(free, real.free);
	RESOLVE(calloc, real.calloc);
	RESOLVE(realloc, real.realloc);
	RESOLVE(memalign, none_memalign);
	RESOLVE(aligned_alloc, none_memalign);
	RESOLVE(posix_memalign, none_posix_memalign);
	RESOLVE(valloc, none_valloc);
	RESOLVE(pvalloc, none_valloc);
	RESOLVE(malloc_usable_size, none_malloc_usable_size);
	RESOLVE(dlclose, none_dlclose);
	RESOLVE(prctl, none_prctl);
	RESOLVE(lseek, none_lseek);
	TAKE_ALL(TAKE_OWN)
	nested_guard(&found);
	real = found;
	errno = error;
}

void real_take_own(void)
{
	struct real found = nested_own;
	void *function;

	TAKE_ALL(TAKE_OWN)
	nested_guard(&found);
	real = found;
}
