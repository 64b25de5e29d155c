/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of CPython's own allocator, pymalloc.
 *
 * Objects of up to 512 bytes lie in arenas that pymalloc maps itself, and larger ones come from
 * malloc. The interpreter lets its allocators be replaced (PyMem_SetAllocator): wrappers around
 * those of the domains MEM and OBJ count down as the hooks of malloc do, and record what is sampled
 * as blocks of a mapped pool (SPOOL_HEAP_POOL_MAPPED). A block that pymalloc has from malloc was
 * seen there: the hook has changed the countdown or, in exact mode, has recorded this address. So
 * each byte counts once, whichever allocators PYTHONMALLOC selects.
 *
 * A wrapper cannot know before the call which allocator will serve it, so it counts after it; until a
 * block has shown that the one underneath is pymalloc, which needs no second look (learn()).
 *
 * The wrappers get and pass on the context of the allocator underneath, so that a thread that reads
 * the table of functions while it changes calls a right pair.
 */
#include "agent/python/pymalloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "agent/cpu/cpu.h"
#include "agent/exact.h"
#include "agent/live_filter.h"
#include "agent/path.h"
#include "agent/sampled.h"

#define SMALL_MOST  512u
#define DEBUG_BYTES 16u /* that PYTHONMALLOC=debug puts before a block */
#define FLAGS	    (SPOOL_HEAP_POOL_MAPPED << SPOOL_FLAG_HEAP_SHIFT)

/* PyMemAllocatorEx */
struct allocator {
	void *context;
	void *(*malloc)(void *context, size_t size);
	void *(*calloc)(void *context, size_t count, size_t size);
	void *(*realloc)(void *context, void *block, size_t size);
	void (*free)(void *context, void *block);
};

enum domain { DOMAIN_RAW, DOMAIN_MEM, DOMAIN_OBJ, DOMAINS };

static struct allocator under[DOMAINS];

/* The allocator underneath takes no block of up to SMALL_MOST bytes from malloc, so that the countdown
 * can come first, and the call be the last thing that the wrapper does. */
static _Atomic bool never_asks_malloc[DOMAINS];

static inline void *key_of(const void *block)
{
	return (void *)((uintptr_t)block | SPOOL_ADDRESS_POOL_MAPPED);
}

/* Exact mode: the block that the hook of malloc has recorded last. */
static bool is_recorded(const void *block)
{
	const struct writer *w = self.writer;
	uint64_t address = (uintptr_t)block;

	return w && (w->last_address == SPOOL_TURN(address) ||
		     w->last_address == SPOOL_TURN(address - DEBUG_BYTES));
}

static COLD void *slow_alloc(void *block, size_t size)
{
	WALK_CALLER(at);
	int error = errno;

	if (!agent_exact)
		sampled_block(key_of(block), size, &at, FLAGS, 0);
	else if (!is_recorded(block))
		exact_pool_alloc(key_of(block), size, &at, 0);
	errno = error;
	return block;
}

/* pymalloc shows what it is by a block that it would have from malloc with any bytes of a debug
 * allocator around it. */
static INLINE void learn(enum domain which, size_t size, uint64_t before)
{
	if (size > SMALL_MOST - DEBUG_BYTES && before && !agent_exact)
		atomic_store_explicit(&never_asks_malloc[which], true, memory_order_relaxed);
}

/* `before`: the countdown before the allocator was called. A tail call, so that the caller's frame
 * is the interpreter's. */
static INLINE void *allocated(enum domain which, void *block, size_t size, uint64_t before)
{
	if (size > SMALL_MOST || self.sampler.left != before || !block)
		return block;
	learn(which, size, before);
	if (LIKELY(path_covered(size)))
		return block;
	return slow_alloc(block, size);
}

static COLD void slow_free(const struct allocator *a, void *context, void *block)
{
	void *key = key_of(block);
	int error = errno;

	if (agent_exact)
		exact_pool_free(key);
	else
		sampled_free_block(key);
	errno = error;
	a->free(context, block);
}

static COLD void *sampled_resize(const struct allocator *a, void *context, void *block, size_t size,
				 const struct walk_start *at)
{
	struct resize resize;
	uint64_t before;
	void *result;
	bool moved;

	sampled_resize_begin(&resize, key_of(block));
	before = self.sampler.left;
	result = a->realloc(context, block, size);
	moved = result || !size;
	sampled_resize_end(&resize, NULL, moved ? 0 : size, at);
	if (result && size <= SMALL_MOST && self.sampler.left == before && !path_covered(size))
		sampled_block(key_of(result), size, at, FLAGS | SPOOL_FLAG_REALLOC, 0);
	return result;
}

static COLD void *exact_resize(const struct allocator *a, void *context, void *block, size_t size,
			       const struct walk_start *at)
{
	struct resize resize;
	void *result;

	exact_resize_begin(&resize, key_of(block));
	result = a->realloc(context, block, size);
	if (!result)
		exact_resize_end(&resize, NULL, size, at);
	else if (size <= SMALL_MOST && !is_recorded(result))
		exact_resize_end(&resize, key_of(result), size, at);
	return result;
}

static INLINE void *resized(const struct allocator *a, void *context, void *block, size_t size,
			    const struct walk_start *at)
{
	uint64_t before = self.sampler.left;
	void *result;

	if (UNLIKELY(agent_exact) && block)
		return exact_resize(a, context, block, size, at);
	if (UNLIKELY(live_maybe(key_of(block))) && block)
		return sampled_resize(a, context, block, size, at);
	result = a->realloc(context, block, size);
	if (size > SMALL_MOST || self.sampler.left != before || !result || path_covered(size))
		return result;
	if (agent_exact && !is_recorded(result))
		exact_pool_alloc(key_of(result), size, at, 0);
	else if (!agent_exact)
		sampled_block(key_of(result), size, at, block ? FLAGS | SPOOL_FLAG_REALLOC : FLAGS,
			      0);
	return result;
}

#define WRAPPERS(domain, which)                                                                    \
	static COLD void *domain##_malloc_first(void *context, size_t size)                        \
	{                                                                                          \
		uint64_t before = self.sampler.left;                                               \
                                                                                                   \
		return allocated(which, under[which].malloc(context, size), size, before);         \
	}                                                                                          \
	static void *domain##_malloc(void *context, size_t size)                                   \
	{                                                                                          \
		if (size > SMALL_MOST ||                                                           \
		    UNLIKELY(                                                                      \
			!atomic_load_explicit(&never_asks_malloc[which], memory_order_relaxed)) || \
		    UNLIKELY(!path_covered(size)))                                                 \
			return domain##_malloc_first(context, size);                               \
		return under[which].malloc(context, size);                                         \
	}                                                                                          \
	static void *domain##_calloc(void *context, size_t count, size_t size)                     \
	{                                                                                          \
		uint64_t before = self.sampler.left;                                               \
                                                                                                   \
		return allocated(which, under[which].calloc(context, count, size), count * size,   \
				 before);                                                          \
	}                                                                                          \
	static void *domain##_realloc(void *context, void *block, size_t size)                     \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		return resized(&under[which], context, block, size, &at);                          \
	}                                                                                          \
	static void domain##_free(void *context, void *block)                                      \
	{                                                                                          \
		if (UNLIKELY(live_maybe(key_of(block))) && block)                                  \
			slow_free(&under[which], context, block);                                  \
		else                                                                               \
			under[which].free(context, block);                                         \
	}                                                                                          \
	static const struct allocator domain##_wrappers = {NULL, domain##_malloc, domain##_calloc, \
							   domain##_realloc, domain##_free};

WRAPPERS(mem, DOMAIN_MEM)
WRAPPERS(obj, DOMAIN_OBJ)

typedef void exchange(int domain, struct allocator *allocator);

/* An allocator around ours, as tracemalloc's, has a copy of our functions in its context. */
static bool is_around_ours(const struct allocator *a, const struct allocator *ours)
{
	uintptr_t words[sizeof(*a) / sizeof(uintptr_t)];

	if (a->malloc == ours->malloc)
		return true;
	if (!a->context || (uintptr_t)a->context % sizeof(void *))
		return false;
	memcpy(words, a->context, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (words[i] == (uintptr_t)ours->malloc)
			return true;
	return false;
}

static void wrap(enum domain domain, const struct allocator *ours, exchange *get, exchange *set,
		 bool again)
{
	struct allocator now, wrapped = *ours;

	get(domain, &now);
	if (!now.malloc || (again && is_around_ours(&now, ours)))
		return;
	atomic_store(&never_asks_malloc[domain], false);
	under[domain] = now;
	wrapped.context = now.context;
	set(domain, &wrapped);
}

static void unwrap(enum domain domain, const struct allocator *ours, exchange *get, exchange *set)
{
	struct allocator now;

	get(domain, &now);
	if (now.malloc == ours->malloc)
		set(domain, &under[domain]);
}

static bool find_exchanges(exchange **get, exchange **set)
{
	void *p = dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");

	memcpy(get, &p, sizeof(p));
	p = dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
	memcpy(set, &p, sizeof(p));
	return *get && *set;
}

void pymalloc_unwrap(void)
{
	exchange *get, *set;

	if (!find_exchanges(&get, &set))
		return;
	unwrap(DOMAIN_MEM, &mem_wrappers, get, set);
	unwrap(DOMAIN_OBJ, &obj_wrappers, get, set);
}

void pymalloc_wrap(bool again)
{
	exchange *get, *set;

	if (!find_exchanges(&get, &set))
		return;
	wrap(DOMAIN_MEM, &mem_wrappers, get, set, again);
	wrap(DOMAIN_OBJ, &obj_wrappers, get, set, again);
}
