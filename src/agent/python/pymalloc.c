/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of CPython's own allocator, pymalloc.
 *
 * Objects of up to 512 bytes lie in arenas that pymalloc maps itself, and larger ones come from
 * malloc. The interpreter lets its allocators be replaced (PyMem_SetAllocator): wrappers around
 * those of the domains MEM and OBJ record blocks as those of a mapped pool (SPOOL_HEAP_POOL_MAPPED).
 * The first call finds out what is underneath (settle()).
 *
 * pymalloc, and only samples are wanted: the wrappers count down as the hooks of malloc do. A block that
 * is sampled moves to malloc: pymalloc is asked for SMALL_MOST + 1 bytes in its place. It then frees and
 * resizes it by malloc's functions, where the hooks see it. So there is no wrapper of free, which CPython
 * has inlined everywhere if it is its own.
 *
 * Anything else: they count after the call, as any allocator may have asked malloc for the block. If so
 * it was seen there: the hook has moved the thread's position or, in exact mode, has recorded this
 * address. So each byte counts once, whichever allocators PYTHONMALLOC selects. (The countdown does not
 * tell: a block of the interval or more is recorded without it.)
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
#include "agent/interpreter/code_objects.h"
#include "agent/sampled.h"

#define SMALL_MOST  512u
#define DEBUG_BYTES 16u /* that PYTHONMALLOC=debug puts before a block */
#define DEBUG_MOST  2u	/* times: pymalloc's larger blocks come from a domain that does so, too */
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

static inline void *key_of(const void *block)
{
	return (void *)((uintptr_t)block | SPOOL_ADDRESS_POOL_MAPPED);
}

/*
 * Exact mode: the block that the hook of malloc has recorded last. Not the address of the writer's last
 * record: behind the ALLOC there may be that of a free which a signal handler made, or a look at the
 * allocator, with which another packet begins.
 */
static bool is_recorded(const void *block)
{
	const struct writer *w = self.writer;

	for (uint32_t k = 0; w && k <= DEBUG_MOST; k++)
		if (w->newest_block == (uintptr_t)block - k * DEBUG_BYTES)
			return true;
	return false;
}

/* Every allocation that malloc's hooks see changes it, unless it is recorded exactly. */
static inline uint64_t position(void)
{
	return sampler_position(&self.sampler);
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

/* `before`: the position before the allocator was called. A tail call, so that the caller's frame is the
 * interpreter's. */
static INLINE void *allocated(void *block, size_t size, uint64_t before)
{
	if (position() != before || !block || LIKELY(path_covered(size)))
		return block;
	return slow_alloc(block, size);
}

static COLD void slow_free(const struct allocator *a, void *context, void *block)
{
	void *key = key_of(block);
	int error = errno;

	if (agent_exact) {
		codes_freed(block);
		exact_pool_free(key);
	} else {
		sampled_free_block(key);
	}
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
	before = position();
	result = a->realloc(context, block, size);
	moved = result || !size;
	sampled_resize_end(&resize, NULL, moved ? 0 : size, at);
	if (result && position() == before && !path_covered(size))
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
	else if (!is_recorded(result))
		exact_resize_end(&resize, key_of(result), size, at);
	return result;
}

static INLINE void *resized(const struct allocator *a, void *context, void *block, size_t size,
			    const struct walk_start *at)
{
	uint64_t before = position();
	void *result;

	if (UNLIKELY(agent_exact) && block)
		return exact_resize(a, context, block, size, at);
	if (UNLIKELY(live_maybe(key_of(block))) && block)
		return sampled_resize(a, context, block, size, at);
	result = a->realloc(context, block, size);
	if (position() != before || !result || path_covered(size))
		return result;
	if (agent_exact && !is_recorded(result))
		exact_pool_alloc(key_of(result), size, at, 0);
	else if (!agent_exact)
		sampled_block(key_of(result), size, at, block ? FLAGS | SPOOL_FLAG_REALLOC : FLAGS,
			      0);
	return result;
}

static _Atomic bool settled[DOMAINS]; /* find_out() was called */
static void find_out(enum domain which);

static INLINE void settle(enum domain which)
{
	if (UNLIKELY(!atomic_load_explicit(&settled[which], memory_order_relaxed)))
		find_out(which);
}

#define WRAPPERS(domain, which)                                                                    \
	static void *domain##_malloc(void *context, size_t size)                                   \
	{                                                                                          \
		uint64_t before;                                                                   \
                                                                                                   \
		settle(which);                                                                     \
		before = position();                                                               \
		return allocated(under[which].malloc(context, size), size, before);                \
	}                                                                                          \
	static void *domain##_calloc(void *context, size_t count, size_t size)                     \
	{                                                                                          \
		uint64_t before;                                                                   \
                                                                                                   \
		settle(which);                                                                     \
		before = position();                                                               \
		return allocated(under[which].calloc(context, count, size), count * size, before); \
	}                                                                                          \
	static void *domain##_realloc(void *context, void *block, size_t size)                     \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		settle(which);                                                                     \
		return resized(&under[which], context, block, size, &at);                          \
	}                                                                                          \
	static void domain##_free(void *context, void *block)                                      \
	{                                                                                          \
		if (UNLIKELY(live_maybe(key_of(block))) && block)                                  \
			slow_free(&under[which], context, block);                                  \
		else                                                                               \
			under[which].free(context, block);                                         \
	}

WRAPPERS(mem, DOMAIN_MEM)
WRAPPERS(obj, DOMAIN_OBJ)

/* ---- around pymalloc ---- */

/* More than any countdown. */
#define LEFT_MOST (1ull << 62)

/* malloc's hooks do not count meanwhile. *asked: how much they would have. */
static void *allocate_uncounted(const struct allocator *a, size_t size, uint64_t *asked)
{
	uint64_t left = self.sampler.left;
	void *block;

	self.sampler.left = LEFT_MOST;
	block = a->malloc(a->context, size);
	*asked = LEFT_MOST - self.sampler.left;
	self.sampler.left = left;
	return block;
}

static void *move_to_malloc(const struct allocator *a, void *block, size_t size)
{
	uint64_t asked;
	void *moved = allocate_uncounted(a, SMALL_MOST + 1, &asked);

	if (moved) {
		memcpy(moved, block, size);
		a->free(a->context, block);
	}
	return moved;
}

#define PYMALLOC_WRAPPERS(domain, which)                                                           \
	static void *domain##_move(void *block, size_t size)                                       \
	{                                                                                          \
		return move_to_malloc(&under[which], block, size);                                 \
	}                                                                                          \
	static COLD void *domain##_slow_malloc(void *context, size_t size)                         \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		return sampled_moving(under[which].malloc(context, size), size, &at, FLAGS,        \
				      domain##_move);                                              \
	}                                                                                          \
	static COLD void *domain##_slow_calloc(void *context, size_t count, size_t size)           \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		return sampled_moving(under[which].calloc(context, count, size), count * size,     \
				      &at, FLAGS, domain##_move);                                  \
	}                                                                                          \
	static COLD void *domain##_slow_realloc(void *block, size_t size, void *result)            \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		return sampled_moving(result, size, &at,                                           \
				      block ? FLAGS | SPOOL_FLAG_REALLOC : FLAGS, domain##_move);  \
	}                                                                                          \
	static void *domain##_pymalloc(void *context, size_t size)                                 \
	{                                                                                          \
		if (UNLIKELY(size > SMALL_MOST))                                                   \
			return under[which].malloc(context, size);                                 \
		if (LIKELY(path_covered(size)))                                                    \
			return under[which].malloc(context, size);                                 \
		return domain##_slow_malloc(context, size);                                        \
	}                                                                                          \
	static void *domain##_pycalloc(void *context, size_t count, size_t size)                   \
	{                                                                                          \
		if (UNLIKELY(count * size > SMALL_MOST))                                           \
			return under[which].calloc(context, count, size);                          \
		if (LIKELY(path_covered(count * size)))                                            \
			return under[which].calloc(context, count, size);                          \
		return domain##_slow_calloc(context, count, size);                                 \
	}                                                                                          \
	/* A block that becomes small may be malloc's, whose hook has counted it then. */          \
	static __attribute__((noinline)) void *domain##_small_realloc(void *context, void *block,  \
								      size_t size)                 \
	{                                                                                          \
		uint64_t before = position();                                                      \
		void *result = under[which].realloc(context, block, size);                         \
                                                                                                   \
		if (UNLIKELY(position() != before) || LIKELY(path_covered(size)))                  \
			return result;                                                             \
		return domain##_slow_realloc(block, size, result);                                 \
	}                                                                                          \
	/* Apart, as it saves no registers. */                                                     \
	static void *domain##_pyrealloc(void *context, void *block, size_t size)                   \
	{                                                                                          \
		if (UNLIKELY(size > SMALL_MOST))                                                   \
			return under[which].realloc(context, block, size);                         \
		return domain##_small_realloc(context, block, size);                               \
	}

PYMALLOC_WRAPPERS(mem, DOMAIN_MEM)
PYMALLOC_WRAPPERS(obj, DOMAIN_OBJ)

/* ---- which of them ---- */

static const struct allocator any_wrappers[DOMAINS] = {
    [DOMAIN_MEM] = {NULL, mem_malloc, mem_calloc, mem_realloc, mem_free},
    [DOMAIN_OBJ] = {NULL, obj_malloc, obj_calloc, obj_realloc, obj_free},
};
static const struct allocator pymalloc_wrappers[DOMAINS] = {
    [DOMAIN_MEM] = {NULL, mem_pymalloc, mem_pycalloc, mem_pyrealloc, NULL},
    [DOMAIN_OBJ] = {NULL, obj_pymalloc, obj_pycalloc, obj_pyrealloc, NULL},
};

static pymalloc_exchange *get_allocator, *set_allocator;

static bool is_ours(const struct allocator *a, enum domain which)
{
	return a->malloc == any_wrappers[which].malloc ||
	       a->malloc == pymalloc_wrappers[which].malloc;
}

/* An allocator around ours, as tracemalloc's, has a copy of our functions in its context. */
static bool is_around(const struct allocator *a, const struct allocator *ours)
{
	const void *words[sizeof(*a) / sizeof(void *)];

	if (!a->context || (uintptr_t)a->context % sizeof(void *))
		return false;
	memcpy(words, a->context, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (words[i] == (void *)ours->malloc)
			return true;
	return false;
}

/* How many bytes malloc is asked for when `a` is asked for a block of `size` bytes, and that not for the
 * first time: pymalloc has its own tables from malloc. */
static uint64_t asks_malloc(const struct allocator *a, size_t size)
{
	uint64_t asked = 0;
	void *first = a->malloc(a->context, size), *block = allocate_uncounted(a, size, &asked);

	a->free(a->context, block);
	a->free(a->context, first);
	return asked;
}

/* The first call of a domain, which the interpreter makes with its lock. An allocator that was put
 * around ours meanwhile keeps calling the wrappers for any. */
static COLD void find_out(enum domain which)
{
	const struct allocator *a = &under[which];
	struct allocator now;

	if (atomic_exchange(&settled[which], true) || agent_exact || asks_malloc(a, SMALL_MOST) ||
	    asks_malloc(a, SMALL_MOST + 1) != SMALL_MOST + 1)
		return;
	get_allocator(which, &now);
	if (now.malloc != any_wrappers[which].malloc)
		return;
	now = pymalloc_wrappers[which];
	now.context = a->context;
	now.free = a->free;
	set_allocator(which, &now);
}

static uint32_t times_up; /* the interpreter was found to be up */

/* An interpreter that was started anew may have put back what was underneath. Anything else may be an
 * allocator around ours, from the program. */
static bool is_underneath(const struct allocator *a, enum domain which)
{
	return a->malloc == under[which].malloc && a->context == under[which].context;
}

/* Whether it is an allocator of the interpreter's that calls no other: pymalloc, or malloc. */
static bool is_basic(const struct allocator *a)
{
	struct dl_find_object allocator, interpreter;

	return !a->context && !_dl_find_object((void *)a->malloc, &allocator) &&
	       !_dl_find_object((void *)get_allocator, &interpreter) &&
	       allocator.dlfo_link_map == interpreter.dlfo_link_map;
}

static void put_wrappers(enum domain which)
{
	struct allocator wrapped = any_wrappers[which];

	atomic_store(&settled[which], false);
	wrapped.context = under[which].context;
	set_allocator(which, &wrapped);
}

enum wrapped {
	WRAPPED_NOT,
	WRAPPED_ALLOCATIONS, /* at least */
	WRAPPED_FREES,	     /* each free passes the wrappers, too */
};

/*
 * Wraps what is in place now.
 *
 * An allocator of the program's may have a copy of a wrapper, also after the wrappers were taken away, and
 * call it. If that allocator became the one underneath, each would call the other without end. So once the
 * interpreter is up, only one that calls no other may become the one underneath.
 */
static enum wrapped wrap(enum domain which)
{
	bool first = !under[which].malloc;
	struct allocator now;

	get_allocator(which, &now);
	if (!now.malloc)
		return WRAPPED_NOT;
	if (now.malloc == any_wrappers[which].malloc || is_around(&now, &any_wrappers[which]))
		return WRAPPED_FREES;
	if (is_around(&now, &pymalloc_wrappers[which]) || (is_ours(&now, which) && !agent_exact))
		return agent_exact ? WRAPPED_NOT : WRAPPED_ALLOCATIONS;
	if (!is_ours(&now, which) && !is_underneath(&now, which)) {
		if (!first && times_up && !is_basic(&now))
			return WRAPPED_NOT;
		under[which] = now;
	}
	put_wrappers(which);
	return WRAPPED_FREES;
}

static void unwrap(enum domain which)
{
	struct allocator now;

	get_allocator(which, &now);
	if (is_ours(&now, which))
		set_allocator(which, &under[which]);
}

void pymalloc_unwrap(void)
{
	codes_see_frees(0);
	if (!set_allocator)
		return;
	unwrap(DOMAIN_MEM);
	unwrap(DOMAIN_OBJ);
	times_up++; /* somebody may have a copy of what was taken away */
}

bool pymalloc_wrap(pymalloc_exchange *get, pymalloc_exchange *set)
{
	enum wrapped mem, obj;

	get_allocator = get;
	set_allocator = set;
	mem = wrap(DOMAIN_MEM);
	obj = wrap(DOMAIN_OBJ);
	return mem && obj;
}

void pymalloc_wrap_again(void)
{
	enum wrapped mem, obj;

	if (!set_allocator)
		return;
	mem = wrap(DOMAIN_MEM);
	obj = wrap(DOMAIN_OBJ);
	/* The interpreter is up: its allocators stay. */
	times_up++;
	if (agent_exact && mem == WRAPPED_FREES && obj == WRAPPED_FREES)
		codes_see_frees(times_up);
}
