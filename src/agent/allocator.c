/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator's own figures: see allocator.h. */
#include "agent/allocator.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/records.h"

#define LONGEST_WAIT_NS	 1000000000ull
#define SHORTEST_WAIT_NS 10000000ull /* at first, for the sake of short programs */
#define COST_SHARE	 1000	     /* it may cost a thousandth of the time */
/* The wait after one that took some milliseconds: the square of their number, times this. */
#define SLOW_WAIT_NS	  10000000000ull
#define MOST_MILLISECONDS 1000
#define SLOW_NS		  2000000

/* glibc's time for one free block: the first ones fit into a cache, the others do not. */
#define NEAR_BLOCKS   32768
#define NEAR_BLOCK_NS 10
#define FAR_BLOCK_NS  300
/* In each interval one block per 2^this bytes may be free without a sample that shows it. */
#define UNSEEN_LOG2 7

_Atomic uint64_t allocator_next;
static _Atomic uint64_t last_cost_ns, last_ticks;
static _Atomic int64_t live_blocks, most_blocks; /* most: since the last look */

/* Each allocator has its own function; the loader binds those that exist. A dlsym() that finds
 * nothing would leave an error for the program's dlerror(). */
extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
extern void mi_process_info(size_t *, size_t *, size_t *, size_t *, size_t *, size_t *, size_t *,
			    size_t *) __attribute__((weak));
extern int MallocExtension_GetNumericProperty(const char *, size_t *) __attribute__((weak));
extern struct mallinfo2 mallinfo2(void) __attribute__((weak));

/* ---- asking ---- */

static uint32_t ask_glibc(uint64_t *value)
{
	struct mallinfo2 m = mallinfo2();

	value[0] = m.arena;
	value[1] = m.hblkhd;
	value[2] = m.uordblks;
	value[3] = m.fordblks;
	value[4] = m.fsmblks;
	value[5] = m.keepcost;
	return 6;
}

static uint32_t ask_jemalloc(uint64_t *value)
{
	static const char *const names[] = {"stats.allocated", "stats.active", "stats.metadata",
					    "stats.resident",  "stats.mapped", "stats.retained"};
	uint64_t epoch = 1;
	size_t size = sizeof(epoch);
	uint32_t n = sizeof(names) / sizeof(*names);

	/* Its figures stay the same until a new epoch begins. */
	if (mallctl("epoch", &epoch, &size, &epoch, size))
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		size_t bytes = 0;

		size = sizeof(bytes);
		if (mallctl(names[i], &bytes, &size, NULL, 0))
			bytes = 0;
		value[i] = bytes;
	}
	return n;
}

static uint32_t ask_mimalloc(uint64_t *value)
{
	size_t elapsed, user, system, resident, most_resident, committed, most, faults;

	mi_process_info(&elapsed, &user, &system, &resident, &most_resident, &committed, &most,
			&faults);
	value[0] = committed;
	return 1;
}

static uint32_t ask_tcmalloc(uint64_t *value)
{
	static const char *const names[] = {
	    "generic.current_allocated_bytes",	 "generic.heap_size",
	    "tcmalloc.pageheap_free_bytes",	 "tcmalloc.pageheap_unmapped_bytes",
	    "tcmalloc.central_cache_free_bytes", "tcmalloc.transfer_cache_free_bytes",
	    "tcmalloc.thread_cache_free_bytes"};
	uint32_t n = sizeof(names) / sizeof(*names);

	for (uint32_t i = 0; i < n; i++) {
		size_t bytes = 0;

		if (!MallocExtension_GetNumericProperty(names[i], &bytes))
			bytes = 0;
		value[i] = bytes;
	}
	return n;
}

/* Signals are blocked: a handler might allocate, and wait for the lock that we hold. */
static uint32_t ask_allocator(uint64_t *value, uint32_t *count)
{
	uint64_t all = UINT64_MAX, before = 0;
	uint32_t whose = SPOOL_OF_PROCESS;

	*count = 0;
	if (sys_failed(sys_call4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, 8)))
		return whose;
	if (mallctl) {
		whose = SPOOL_OF_JEMALLOC;
		*count = ask_jemalloc(value);
	} else if (mi_process_info) {
		whose = SPOOL_OF_MIMALLOC;
		*count = ask_mimalloc(value);
	} else if (MallocExtension_GetNumericProperty) {
		whose = SPOOL_OF_TCMALLOC;
		*count = ask_tcmalloc(value);
	} else if (mallinfo2) {
		whose = SPOOL_OF_GLIBC;
		*count = ask_glibc(value);
	}
	sys_call4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
	return whose;
}

/* ---- when ---- */

static uint64_t elapsed_ns(void)
{
	uint64_t start = spool_header->start_mono_ns, now = agent_clock_ns(CLOCK_MONOTONIC);

	return now > start ? now - start : 0;
}

/* In ticks, at the rate measured so far. */
static uint64_t to_ticks(uint64_t ns, uint64_t now)
{
	uint64_t passed = elapsed_ns();

	if (!agent_use_tsc || !passed)
		return agent_use_tsc ? CPU_TICKS_PER_NS * ns : ns;
	return (uint64_t)((unsigned __int128)ns * (now - spool_header->start_ticks) / passed);
}

/* The wait between two looks that take cost_ns each. With very many free blocks all threads may
 * have to wait for a look, so looks become very rare. */
static uint64_t wait_of(uint64_t cost_ns)
{
	uint64_t wait = cost_ns * COST_SHARE, milliseconds = cost_ns / 1000000, slow;

	if (milliseconds > MOST_MILLISECONDS)
		milliseconds = MOST_MILLISECONDS;
	slow = milliseconds * milliseconds * SLOW_WAIT_NS;
	return wait > slow ? wait : slow;
}

/* When to look next, after a look that took cost_ns: soon at first, then every second or less
 * often. */
static uint64_t next_look(uint64_t ticks, uint64_t cost_ns)
{
	uint64_t wait = elapsed_ns() / 4, least = wait_of(cost_ns);

	if (wait < SHORTEST_WAIT_NS)
		wait = SHORTEST_WAIT_NS;
	if (wait > LONGEST_WAIT_NS)
		wait = LONGEST_WAIT_NS;
	return ticks + to_ticks(wait > least ? wait : least, ticks);
}

void allocator_blocks(int64_t change)
{
	int64_t live =
	    atomic_fetch_add_explicit(&live_blocks, change, memory_order_relaxed) + change;
	int64_t most = atomic_load_explicit(&most_blocks, memory_order_relaxed);

	while (live > most && !atomic_compare_exchange_weak(&most_blocks, &most, live))
		;
}

/*
 * The expected time of a look: that of the last one, and the time for each block by which the
 * number of live blocks has fallen from its maximum since then. No more blocks than that have
 * become free: earlier ones are in the last look's time, and free neighbours merge.
 */
static uint64_t expected_cost(void)
{
	uint64_t unseen = (1ull << self.sampler.interval_log2) >> UNSEEN_LOG2, ns;
	int64_t fewer = atomic_load(&most_blocks) - atomic_load(&live_blocks);
	uint64_t freed = unseen + (fewer > 0 ? (uint64_t)fewer : 0);

	/* The other allocators keep sums of their free memory. */
	if (mallctl || mi_process_info || MallocExtension_GetNumericProperty)
		return last_cost_ns;
	ns = (freed < NEAR_BLOCKS ? freed : NEAR_BLOCKS) * NEAR_BLOCK_NS;
	if (freed > NEAR_BLOCKS)
		ns += (freed - NEAR_BLOCKS) * FAR_BLOCK_NS;
	return last_cost_ns + ns;
}

/* The wait is computed as if the last look had taken as long as this one will. */
static bool too_early(uint64_t ticks)
{
	uint64_t since = last_ticks ? last_ticks : spool_header->start_ticks;

	return ticks < since + to_ticks(wait_of(expected_cost()), ticks);
}

static void look_at_allocator(struct writer *w, uint64_t ticks)
{
	/* CPU time, as other threads may have had the CPU meanwhile. */
	uint64_t value[SPOOL_ALLOCATOR_VALUES], began = agent_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint32_t count, whose;

	atomic_store(&most_blocks, atomic_load(&live_blocks));
	whose = ask_allocator(value, &count);
	last_ticks = ticks;
	last_cost_ns = agent_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
	atomic_store(&allocator_next, next_look(ticks, last_cost_ns));
	if (count)
		records_allocator(w, ticks, whose, value, count);
}

/* False: a signal handler has perhaps interrupted the allocator. This walk replaces the latest
 * capture, so the packet's stack is no longer known. */
static bool may_ask(struct writer *w)
{
	struct walk_start at;

	if (agent_sandboxed)
		return false;
	cpu_here(at.pc, at.sp, at.bp);
	walk_capture(&w->walk, &at);
	w->stack_known = false;
	return !w->walk.interrupted && !w->walk.truncated;
}

COLD void allocator_look(struct writer *w, uint64_t ticks)
{
	uint64_t due = atomic_load(&allocator_next);
	int error = errno;

	/* One thread looks. If it cannot be done now, it is tried again soon. */
	if (ticks < due || !atomic_compare_exchange_strong(&allocator_next, &due, UINT64_MAX))
		return;
	if (!too_early(ticks) && may_ask(w))
		look_at_allocator(w, ticks);
	else
		atomic_store(&allocator_next, next_look(ticks, 0));
	errno = error;
}

void allocator_forked(void)
{
	atomic_store(&allocator_next, 0);
}

/* ---- the end ---- */

static const char *read_number(const char *at, uint64_t *value)
{
	for (*value = 0; *at >= '0' && *at <= '9'; at++)
		*value = *value * 10 + (uint64_t)(*at - '0');
	return *at == ' ' ? at + 1 : at;
}

/* The kernel's figures, which are gone after the exit. Size, resident, shared, in pages. */
static bool read_resident(uint64_t *resident, uint64_t *of_files)
{
	char text[128] = "";
	const char *at = text;
	uint64_t size;
	long fd = sys_openat(AT_FDCWD, "/proc/self/statm", O_RDONLY | O_CLOEXEC, 0), got;

	if (sys_failed(fd))
		return false;
	got = sys_read((int)fd, text, sizeof(text) - 1);
	sys_close((int)fd);
	if (sys_failed(got))
		return false;
	at = read_number(at, &size);
	at = read_number(at, resident);
	read_number(at, of_files);
	*resident *= getauxval(AT_PAGESZ);
	*of_files *= getauxval(AT_PAGESZ);
	return *resident != 0;
}

void allocator_end(struct writer *w)
{
	uint64_t value[2], ticks;

	if (!may_ask(w))
		return;
	ticks = agent_ticks();
	/* In exact mode the time of expected free blocks does not matter: recording each of them
	 * took as long. */
	if ((agent_exact ? last_cost_ns : expected_cost()) < SLOW_NS)
		look_at_allocator(w, ticks);
	if (read_resident(&value[0], &value[1]))
		records_allocator(w, ticks, SPOOL_OF_PROCESS, value, 2);
}
