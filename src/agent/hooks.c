/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that take the place of the program's.
 *
 * Each allocation function: when the size fits into the thread's countdown, count and forward by a
 * tail call: one load, one compare, one store on top of forwarding. Else slow_NAME, also by a tail
 * call, so that its caller's frame is the program's. free(): one look into the bit filter.
 *
 * Every block handed out comes from the real function unchanged, so blocks may pass freely between
 * code that sees the hooks and code that does not.
 */
#include "agent/agent.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/allocator.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/exact.h"
#include "agent/events/labels.h"
#include "agent/live.h"
#include "agent/unwind/modules.h"
#include "agent/path.h"
#include "agent/events/process.h"
#include "agent/spool.h"
#include "agent/unwind/walk.h"

/* ---- the real functions ---- */

/* glibc's own names, for a call that comes while the real ones are being looked up. */
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void __libc_free(void *) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));
extern void *__libc_memalign(size_t, size_t) __attribute__((weak));

static void resolve(void);

static void *first_malloc(size_t size)
{
	resolve();
	return real.malloc(size);
}

static void first_free(void *block)
{
	resolve();
	real.free(block);
}

static void *first_calloc(size_t count, size_t size)
{
	resolve();
	return real.calloc(count, size);
}

static void *first_realloc(void *block, size_t size)
{
	resolve();
	return real.realloc(block, size);
}

static void *first_memalign(size_t alignment, size_t size)
{
	resolve();
	return real.memalign(alignment, size);
}

static void *first_aligned_alloc(size_t alignment, size_t size)
{
	resolve();
	return real.aligned_alloc(alignment, size);
}

static int first_posix_memalign(void **out, size_t alignment, size_t size)
{
	resolve();
	return real.posix_memalign(out, alignment, size);
}

static void *first_valloc(size_t size)
{
	resolve();
	return real.valloc(size);
}

static void *first_pvalloc(size_t size)
{
	resolve();
	return real.pvalloc(size);
}

static size_t first_malloc_usable_size(void *block)
{
	resolve();
	return real.malloc_usable_size(block);
}

static int first_dlclose(void *handle)
{
	resolve();
	return real.dlclose(handle);
}

static int first_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
		       unsigned long d)
{
	resolve();
	return real.prctl(option, a, b, c, d);
}

static off_t first_lseek(int fd, off_t offset, int whence)
{
	resolve();
	return real.lseek(fd, offset, whence);
}

struct real real = {
    .malloc = first_malloc,
    .free = first_free,
    .calloc = first_calloc,
    .realloc = first_realloc,
    .memalign = first_memalign,
    .aligned_alloc = first_aligned_alloc,
    .posix_memalign = first_posix_memalign,
    .valloc = first_valloc,
    .pvalloc = first_pvalloc,
    .malloc_usable_size = first_malloc_usable_size,
    .dlclose = first_dlclose,
    .prctl = first_prctl,
    .lseek = first_lseek,
};

/* What an allocator lacks. Such a call fails as for a size that cannot be had. */
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

static size_t none_usable(void *block)
{
	(void)block;
	return 0;
}

static int none_dlclose(void *handle)
{
	(void)handle;
	return -1;
}

static int none_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
		      unsigned long d)
{
	long result = sys_call6(SYS_prctl, option, (long)a, (long)b, (long)c, (long)d, 0);

	if (sys_failed(result)) {
		errno = (int)-result;
		return -1;
	}
	return (int)result;
}

static off_t none_lseek(int fd, off_t offset, int whence)
{
	long result = sys_lseek(fd, offset, whence);

	if (sys_failed(result)) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

/* The C library's, not one of the program's: that would look behind the program, and find us. */
void *agent_dlsym(void *handle, const char *name)
{
	static void *(*_Atomic found)(void *, const char *);
	void *(*function)(void *, const char *) = atomic_load(&found);

	if (!function) {
		void *p = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");

		function = dlsym;
		if (p)
			memcpy(&function, &p, sizeof(p));
		atomic_store(&found, function);
	}
	return function(handle, name);
}

static void *next(const char *name, void *otherwise)
{
	void *found = agent_dlsym(RTLD_NEXT, name);

	return found ? found : otherwise;
}

/* The compiler knows no conversion between object and function pointers; POSIX does. */
#define RESOLVE(field, otherwise)                                                                  \
	do {                                                                                       \
		void *p = next(#field, (void *)(otherwise));                                       \
		memcpy(&found.field, &p, sizeof(p));                                               \
	} while (0)

static void resolve(void)
{
	static _Atomic uint32_t resolving;
	struct real found = real;

	if (atomic_exchange(&resolving, 1))
		return; /* dlsym allocates: the fallbacks below are in place meanwhile */
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
	RESOLVE(malloc_usable_size, none_usable);
	RESOLVE(dlclose, none_dlclose);
	RESOLVE(prctl, none_prctl);
	RESOLVE(lseek, none_lseek);
	real = found;
	errno = error;
}

/* ---- the sample path ---- */

/* A signal handler allocates while this thread is on the sample path. */
void path_count_nested(size_t size)
{
	if (self.busy != BUSY_SAMPLING || atomic_load(&agent_state) != AGENT_ON)
		return;
	atomic_fetch_add_explicit(&spool_header->nested_blocks, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&spool_header->nested_bytes, size, memory_order_relaxed);
}

bool path_defer_free(void *block)
{
	uint32_t n = self.deferred_count;

	if (n >= DEFERRED_FREES) {
		atomic_fetch_add_explicit(&spool_header->dropped_frees, 1, memory_order_relaxed);
		return false;
	}
	self.deferred[n].block = (uintptr_t)block;
	self.deferred[n].ticks = agent_ticks();
	self.deferred[n].before_id = atomic_load(&spool_header->next_sample_id);
	self.deferred_count = n + 1;
	return true;
}

/* A thread past its destructor cannot keep a writer: nobody would take it back. */
void path_give_back_writer(void)
{
	if (UNLIKELY(self.state == THREAD_EXITING) && self.writer) {
		spool_release(self.writer);
		self.writer = NULL;
	}
}

static void write_free(const struct live_block *b, uint64_t ticks, uint32_t flags)
{
	struct writer *w = path_writer();

	atomic_fetch_sub_explicit(&spool_header->live_bytes, (int64_t)b->weight,
				  memory_order_relaxed);
	atomic_fetch_sub_explicit(&spool_header->live_samples, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&spool_header->frees, 1, memory_order_relaxed);
	allocator_blocks(-(int64_t)b->blocks);
	if (!w) {
		atomic_fetch_add_explicit(&spool_header->dropped_frees, 1, memory_order_relaxed);
		return;
	}
	if (b->thread == self.number && b->position == sampler_position(&self.sampler))
		flags |= SPOOL_FLAG_TEMPORARY;
	spool_free(w, ticks, b->id, flags);
}

static void write_sample(void *block, size_t size, uint32_t hits, const struct walk_start *at,
			 uint32_t flags)
{
	struct writer *w = path_writer();
	struct live_block stale;

	if (!w) {
		atomic_fetch_add_explicit(&spool_header->dropped_samples, 1, memory_order_relaxed);
		return;
	}
	/* Without a packet no walk: it would be in vain. */
	if (UNLIKELY(!w->packet) && !spool_room(w, 1)) {
		spool_drop_sample(w);
		return;
	}
	walk_capture(&w->walk, at);
	uint64_t ticks = agent_ticks();
	uint64_t id =
	    atomic_fetch_add_explicit(&spool_header->next_sample_id, 1, memory_order_relaxed);
	uint64_t interval = 1ull << self.sampler.interval_log2;
	uint64_t weight = hits && size < interval ? hits * interval : size;
	bool pool = path_is_pool((uintptr_t)block);
	struct live_block live = {
	    .block = (uintptr_t)block,
	    .id = id,
	    .position = sampler_position(&self.sampler),
	    .thread = self.number,
	    /* What lies in blocks of malloc counts there. The allocator knows of no pool's. */
	    .weight = (uintptr_t)block & SPOOL_ADDRESS_POOL ? 0 : (float)weight,
	    .blocks = pool ? 0 : (float)(size && weight > size ? weight / size : 1),
	};

	if (!spool_sample(w, ticks, id, size, hits, flags))
		return;
	atomic_fetch_add_explicit(&spool_header->live_bytes, (int64_t)live.weight,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&spool_header->live_samples, 1, memory_order_relaxed);
	allocator_blocks((int64_t)live.blocks);
	if (live_add(&live, &stale))
		write_free(&stale, ticks, 0);
	if (allocator_due(ticks) && !pool)
		allocator_look(w, ticks);
}

COLD void path_finish(void)
{
	while (self.deferred_count) {
		struct deferred_free d = self.deferred[--self.deferred_count];
		struct live_block b;
		if (agent_exact)
			exact_deferred(&d);
		else if (live_remove(d.block, d.before_id, &b))
			write_free(&b, d.ticks, 0);
	}
	path_give_back_writer();
}

/* The share of this thread's time that samples may cost; 0: no limit. */
static uint32_t budget_share(void)
{
	return atomic_load_explicit(&spool_header->control_overhead, memory_order_relaxed);
}

/* What was begun at `began` is over. A thread that was taken off the CPU meanwhile has not worked
 * all that time. */
static uint64_t charge(uint64_t began, uint64_t since)
{
	uint64_t now = agent_ticks(), cost = now - began;
	uint64_t most = 50000 * (agent_use_tsc ? CPU_TICKS_PER_NS : 1); /* 50 us */

	sampler_charge(&self.sampler, &self.budget, cost < most ? cost : most, since);
	return now;
}

static COLD void look_at_budget(uint64_t began, size_t size, int32_t hits)
{
	uint64_t window = agent_use_tsc ? 1ull << 26 : 20000000; /* some 20 ms */
	uint32_t least = atomic_load(&spool_header->control_interval_log2);
	uint64_t now = charge(began, hits ? sampler_position(&self.sampler) : 0);

	sampler_look(&self.sampler, &self.budget, now, window, budget_share(),
		     least <= SPOOL_INTERVAL_MAX_LOG2 ? least : agent_config.interval_log2, size,
		     hits);
}

void path_sample(void *block, size_t size, const struct walk_start *at, uint32_t flags,
		 uint32_t label)
{
	int error = errno;

	if (!path_enter()) {
		path_count_nested(size);
		return;
	}
	labels_set_pool(label);
	if (!agent_thread_ready()) {
		/* Too early, or off. */
	} else if (UNLIKELY(agent_exact)) {
		exact_allocated(block, size, at, flags);
	} else if (!agent_dormant()) {
		struct sampler *s = &self.sampler;
		bool budget = UNLIKELY(s->limited) && budget_share();
		uint64_t began = budget ? agent_ticks() : 0;
		int32_t hits = SAMPLER_SKIP;

		if (UNLIKELY(self.dormant)) {
			self.dormant = 0; /* awake again: a countdown to a real point */
			sampler_set_interval(s, s->interval_log2);
		}
		if (size < s->left) { /* the thread's first allocation, or just awake */
			s->left -= size;
		} else {
			hits = sampler_take(s, size, at->pc);
			if (hits != SAMPLER_SKIP)
				write_sample(block, size, (uint32_t)hits, at, flags);
		}
		if (budget)
			look_at_budget(began, size, hits);
	}
	labels_set_pool(0);
	path_leave();
	errno = error;
}

/* Takes a block that may be sampled out of the live table, before it is really freed: afterwards
 * its address may be another thread's. True when it was; then *taken is it. */
static bool take_live(void *block, struct live_block *taken)
{
	bool found = false;
	int error = errno;

	if (!path_enter()) {
		path_defer_free(block);
		return false;
	}
	if (agent_thread_ready())
		found = live_remove((uintptr_t)block, UINT64_MAX, taken);
	path_leave();
	errno = error;
	return found;
}

static void report_free(const struct live_block *b, uint32_t flags)
{
	int error = errno;

	if (path_enter()) {
		if (atomic_load(&agent_state) == AGENT_ON) {
			uint64_t ticks = agent_ticks();

			write_free(b, ticks, flags);
			if (allocator_due(ticks) && self.writer && !path_is_pool(b->block))
				allocator_look(self.writer, ticks);
			if (UNLIKELY(budget_share()) && self.budget.start)
				charge(ticks, b->thread == self.number ? b->position : 0);
		}
		path_leave();
	}
	errno = error;
}

static void put_back(const struct live_block *b)
{
	struct live_block stale;

	if (path_enter()) {
		live_add(b, &stale);
		path_leave();
	}
}

/* ---- slow paths: the caller's frame is the program's ---- */

static COLD void *slow_malloc(size_t size)
{
	WALK_CALLER(at);
	void *block = real.malloc(size);

	if (block)
		path_sample(block, size, &at, 0, 0);
	return block;
}

static COLD void *slow_calloc(size_t count, size_t size)
{
	WALK_CALLER(at);
	void *block = real.calloc(count, size);

	if (block)
		path_sample(block, count * size, &at, 0, 0);
	return block;
}

static COLD void *slow_memalign(size_t alignment, size_t size)
{
	WALK_CALLER(at);
	void *block = real.memalign(alignment, size);

	if (block)
		path_sample(block, size, &at, 0, 0);
	return block;
}

static COLD void *slow_aligned_alloc(size_t alignment, size_t size)
{
	WALK_CALLER(at);
	void *block = real.aligned_alloc(alignment, size);

	if (block)
		path_sample(block, size, &at, 0, 0);
	return block;
}

static COLD int slow_posix_memalign(void **out, size_t alignment, size_t size)
{
	WALK_CALLER(at);
	int result = real.posix_memalign(out, alignment, size);

	if (!result && *out)
		path_sample(*out, size, &at, 0, 0);
	return result;
}

static COLD void *slow_valloc(size_t size)
{
	WALK_CALLER(at);
	void *block = real.valloc(size);

	if (block)
		path_sample(block, size, &at, 0, 0);
	return block;
}

static COLD void *slow_pvalloc(size_t size)
{
	WALK_CALLER(at);
	void *block = real.pvalloc(size);

	if (block)
		path_sample(block, size, &at, 0, 0);
	return block;
}

void path_free(void *block)
{
	struct live_block b;

	if (take_live(block, &b))
		report_free(&b, 0);
}

static COLD void slow_free(void *block)
{
	if (block)
		path_free(block);
	real.free(block);
}

/* One sample ends where the block was, another may begin where it is. A realloc that fails leaves
 * both the block and its sample as they were. */
static COLD void *slow_realloc(void *block, size_t size)
{
	WALK_CALLER(at);
	struct live_block old;
	bool was_live = block && live_maybe(block) && take_live(block, &old);
	void *result = real.realloc(block, size);

	if (!result && size) {
		if (was_live)
			put_back(&old);
		return NULL;
	}
	if (was_live)
		report_free(&old, SPOOL_FLAG_REALLOC);
	if (!result)
		return NULL;
	if (size < self.sampler.left)
		self.sampler.left -= size;
	else
		path_sample(result, size, &at, block ? SPOOL_FLAG_REALLOC : 0, 0);
	return result;
}

/* ---- the hooks ---- */

EXPORT void *malloc(size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.malloc(size);
	return agent_exact ? exact_malloc(size) : slow_malloc(size);
}

EXPORT void free(void *block)
{
	if (LIKELY(!live_maybe(block)))
		real.free(block);
	else if (agent_exact)
		exact_free(block);
	else
		slow_free(block);
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;

	/* An overflow fails in the real function; it must not count. */
	if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes)) || LIKELY(path_covered(bytes)))
		return real.calloc(count, size);
	return agent_exact ? exact_calloc(count, size) : slow_calloc(count, size);
}

EXPORT void *realloc(void *block, size_t size)
{
	if (LIKELY(!live_maybe(block) && path_covered(size)))
		return real.realloc(block, size);
	return agent_exact ? exact_realloc(block, size) : slow_realloc(block, size);
}

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes;

	if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) {
		errno = ENOMEM;
		return NULL;
	}
	if (LIKELY(!live_maybe(block) && path_covered(bytes)))
		return real.realloc(block, bytes);
	return agent_exact ? exact_realloc(block, bytes) : slow_realloc(block, bytes);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.memalign(alignment, size);
	return agent_exact ? exact_memalign(alignment, size) : slow_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.aligned_alloc(alignment, size);
	return agent_exact ? exact_aligned_alloc(alignment, size)
			   : slow_aligned_alloc(alignment, size);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.posix_memalign(out, alignment, size);
	return agent_exact ? exact_posix_memalign(out, alignment, size)
			   : slow_posix_memalign(out, alignment, size);
}

EXPORT void *valloc(size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.valloc(size);
	return agent_exact ? exact_valloc(size) : slow_valloc(size);
}

EXPORT void *pvalloc(size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.pvalloc(size);
	return agent_exact ? exact_pvalloc(size) : slow_pvalloc(size);
}

EXPORT size_t malloc_usable_size(void *block)
{
	return real.malloc_usable_size(block);
}

void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

/* C23. glibc 2.36 has neither; allocators that have them accept free() as well. */
EXPORT void free_sized(void *block, size_t size)
{
	(void)size;
	if (LIKELY(!live_maybe(block)))
		real.free(block);
	else if (agent_exact)
		exact_free(block);
	else
		slow_free(block);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
	(void)alignment, (void)size;
	if (LIKELY(!live_maybe(block)))
		real.free(block);
	else if (agent_exact)
		exact_free(block);
	else
		slow_free(block);
}

/* ---- hooks that are not about memory ---- */

/* Code that goes away takes its frame rules with it. New code is found when it is first met. */
EXPORT int dlclose(void *handle)
{
	WALK_CALLER(at);
	bool on = atomic_load(&agent_state) == AGENT_ON;

	if (on) {
		process_dlclose(handle, &at);
		walk_code_changed();
	}
	int result = real.dlclose(handle);
	if (on) {
		int error = errno;
		walk_code_changed();
		if (path_enter()) {
			if (agent_thread_ready() && path_writer())
				modules_check();
			path_leave();
		}
		errno = error;
	}
	return result;
}

/* A filter may kill on any call that the program itself does not make: be quiet from here on. */
void agent_enter_sandbox(void)
{
	atomic_store(&agent_sandboxed, 1);
	walk_enter_sandbox();
}

/* From here on, reading the time stamp counter would be the end of the thread: also in
 * clock_gettime, and for strict mode, too. */
static void lose_clock(void)
{
	agent_off(SPOOL_OFF_SANDBOX, 0, "the program has given up its right to read the clock");
}

EXPORT int prctl(int option, ...)
{
	unsigned long a[4];
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_SECCOMP && atomic_load(&agent_state) == AGENT_ON)
		agent_enter_sandbox();
	if ((option == PR_SET_SECCOMP && a[0] == SECCOMP_MODE_STRICT) ||
	    (option == PR_SET_TSC && a[0] == PR_TSC_SIGSEGV))
		lose_clock();
	return real.prctl(option, a[0], a[1], a[2], a[3]);
}

/* hidden: named by the assembly of CPU_SYSCALL_HOOK only */
__attribute__((visibility("hidden"))) void *cpu_real_syscall;
__attribute__((visibility("hidden"))) void hook_syscall_first(long number, long operation);

void hook_syscall_first(long number, long operation)
{
	if (!cpu_real_syscall)
		cpu_real_syscall = agent_dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_seccomp && atomic_load(&agent_state) == AGENT_ON)
		agent_enter_sandbox();
	if (number == SYS_seccomp && operation == SECCOMP_SET_MODE_STRICT)
		lose_clock();
}

CPU_SYSCALL_HOOK;
