/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large changes of the address space that the program makes itself.
 *
 *	mmap, munmap, mremap, madvise, brk, sbrk ── below agent_map_least ──> the real one
 *	                                             └─ else: it, and an event with the stack
 *	mmap, munmap, mremap, mprotect, shmat, shmdt ── of a block, or one from now on ──> map_blocks.c
 *
 * Calls inside the C library (malloc's, the loader's) do not come here. The event of a call that gives memory
 * back is recorded before it happens, as afterwards another mapping may have the address; that of a call
 * that takes memory, afterwards.
 */
#undef _FILE_OFFSET_BITS /* mmap and mmap64 are two names here */
#include <errno.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/events/map_blocks.h"
#include "agent/events/tracks.h"
#include "agent/ranges.h"
#include "agent/real.h"

/* ---- the real functions ---- */

/* For calls that come before the C library's own functions are known. */
static void *first_mmap(void *address, size_t length, int protection, int flags, int fd,
			off64_t offset)
{
	return (void *)sys_as_libc(sys_mmap(address, length, protection, flags, fd, offset));
}

static int first_munmap(void *address, size_t length)
{
	return (int)sys_as_libc(sys_munmap(address, length));
}

static void *first_mremap(void *address, size_t old_length, size_t length, int flags, void *to)
{
	return (void *)sys_as_libc(sys_call6(SYS_mremap, (long)address, (long)old_length,
					     (long)length, flags, (long)to, 0));
}

static int first_mprotect(void *address, size_t length, int protection)
{
	return (int)sys_as_libc(sys_mprotect(address, length, protection));
}

static void *first_shmat(int id, const void *address, int flags)
{
	return (void *)sys_as_libc(sys_call3(SYS_shmat, id, (long)address, flags));
}

static int first_shmdt(const void *address)
{
	return (int)sys_as_libc(sys_call3(SYS_shmdt, (long)address, 0, 0));
}

static int first_madvise(void *address, size_t length, int advice)
{
	return (int)sys_as_libc(sys_madvise(address, length, advice));
}

/* The C library keeps the break in a variable of its own, which malloc uses. */
extern void *__sbrk(intptr_t) __attribute__((weak));

static void *first_sbrk(intptr_t increment)
{
	if (__sbrk)
		return __sbrk(increment);
	errno = ENOMEM;
	return (void *)-1;
}

static void look_up(void);
static int first_brk(void *address);

typedef void *map(void *, size_t, int, int, int, off64_t);

static struct {
	map *mmap, *mmap64; /* one function, unless another library stands in for one of them */
	int (*munmap)(void *, size_t);
	void *(*mremap)(void *, size_t, size_t, int, void *);
	int (*mprotect)(void *, size_t, int);
	void *(*shmat)(int, const void *, int);
	int (*shmdt)(const void *);
	int (*madvise)(void *, size_t, int);
	void *(*sbrk)(intptr_t);
	int (*brk)(void *);
} next = {first_mmap,  first_mmap,  first_munmap,  first_mremap, first_mprotect,
	  first_shmat, first_shmdt, first_madvise, first_sbrk,	 first_brk};

static int first_brk(void *address)
{
	look_up();
	if (next.brk != first_brk)
		return next.brk(address);
	errno = ENOMEM;
	return -1;
}

__attribute__((constructor)) static void look_up(void)
{
	int error = errno;

	REAL_LOOK_UP(next.mmap, mmap);
	REAL_LOOK_UP(next.mmap64, mmap64);
	REAL_LOOK_UP(next.munmap, munmap);
	REAL_LOOK_UP(next.mremap, mremap);
	REAL_LOOK_UP(next.mprotect, mprotect);
	REAL_LOOK_UP(next.shmat, shmat);
	REAL_LOOK_UP(next.shmdt, shmdt);
	REAL_LOOK_UP(next.madvise, madvise);
	REAL_LOOK_UP(next.sbrk, sbrk);
	REAL_LOOK_UP(next.brk, brk);
	errno = error;
}

/* ---- events ---- */

static bool event_wanted(uint64_t bytes)
{
	return bytes >= agent_config.map_events && tracks_wanted();
}

TRACK_INSTANT(mapped, "memory", "mmap", 3, {SPOOL_UINT, "address"}, {SPOOL_UINT, "bytes"},
	      {SPOOL_TEXT, "access"});
TRACK_INSTANT(not_mapped, "memory", "mmap.failed", 3, {SPOOL_UINT, "bytes"}, {SPOOL_TEXT, "access"},
	      {SPOOL_INT, "error"});
TRACK_INSTANT(unmapped, "memory", "munmap", 2, {SPOOL_UINT, "address"}, {SPOOL_UINT, "bytes"});
TRACK_INSTANT(remapped, "memory", "mremap", 4, {SPOOL_UINT, "address"}, {SPOOL_UINT, "bytes"},
	      {SPOOL_UINT, "old_address"}, {SPOOL_UINT, "old_bytes"});
TRACK_INSTANT(not_remapped, "memory", "mremap.failed", 4, {SPOOL_UINT, "bytes"},
	      {SPOOL_UINT, "old_address"}, {SPOOL_UINT, "old_bytes"}, {SPOOL_INT, "error"});
TRACK_INSTANT(advised, "memory", "madvise", 4, {SPOOL_UINT, "address"}, {SPOOL_UINT, "bytes"},
	      {SPOOL_TEXT, "advice"}, {SPOOL_INT, "error"});
TRACK_INSTANT(moved_break, "memory", "brk", 3, {SPOOL_UINT, "address"}, {SPOOL_INT, "bytes"},
	      {SPOOL_INT, "error"});

/* As in /proc/PID/maps: "rw-p", "r--s file". text: 10 bytes. */
static uint64_t access_text(char *text, int protection, int flags)
{
	strcpy(text, "---p");
	if (protection & PROT_READ)
		text[0] = 'r';
	if (protection & PROT_WRITE)
		text[1] = 'w';
	if (protection & PROT_EXEC)
		text[2] = 'x';
	if (flags & MAP_SHARED) /* also of MAP_SHARED_VALIDATE */
		text[3] = 's';
	if (!(flags & MAP_ANONYMOUS))
		strcat(text, " file");
	return (uintptr_t)text;
}

static uint64_t advice_text(int advice)
{
	static const struct {
		int advice;
		const char *name;
	} names[] = {{MADV_NORMAL, "NORMAL"},
		     {MADV_RANDOM, "RANDOM"},
		     {MADV_SEQUENTIAL, "SEQUENTIAL"},
		     {MADV_WILLNEED, "WILLNEED"},
		     {MADV_DONTNEED, "DONTNEED"},
		     {MADV_FREE, "FREE"},
		     {MADV_REMOVE, "REMOVE"},
		     {MADV_DONTFORK, "DONTFORK"},
		     {MADV_DOFORK, "DOFORK"},
		     {MADV_MERGEABLE, "MERGEABLE"},
		     {MADV_UNMERGEABLE, "UNMERGEABLE"},
		     {MADV_HUGEPAGE, "HUGEPAGE"},
		     {MADV_NOHUGEPAGE, "NOHUGEPAGE"},
		     {MADV_DONTDUMP, "DONTDUMP"},
		     {MADV_DODUMP, "DODUMP"},
		     {MADV_WIPEONFORK, "WIPEONFORK"},
		     {MADV_KEEPONFORK, "KEEPONFORK"},
		     {20, "COLD"},
		     {21, "PAGEOUT"},
		     {22, "POPULATE_READ"},
		     {23, "POPULATE_WRITE"},
		     {24, "DONTNEED_LOCKED"},
		     {25, "COLLAPSE"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].advice == advice)
			return (uintptr_t)names[i].name;
	return (uintptr_t) "unknown";
}

static void note_map(void *got, size_t length, int protection, int flags,
		     const struct walk_start *at)
{
	char access[10];

	if (!event_wanted(length))
		return;
	uint64_t text = access_text(access, protection, flags);
	if (got == MAP_FAILED) {
		uint64_t failed[] = {length, text, (uint64_t)errno};

		tracks_add(SPOOL_INSTANT, &not_mapped, failed, at);
	} else {
		uint64_t done[] = {(uintptr_t)got, length, text};

		tracks_add(SPOOL_INSTANT, &mapped, done, at);
	}
}

static void mapped_there(void *got, size_t length, int protection, int flags, int fd,
			 const struct walk_start *at)
{
	note_map(got, length, protection, flags, at);
	if (got != MAP_FAILED)
		map_blocks_mapped(got, length, flags & MAP_ANONYMOUS ? -1 : fd,
				  protection != PROT_NONE, at);
}

static COLD void *slow_mmap(void *address, size_t length, int protection, int flags, int fd,
			    off64_t offset)
{
	WALK_CALLER(at);
	void *got = next.mmap(address, length, protection, flags, fd, offset);

	mapped_there(got, length, protection, flags, fd, &at);
	return got;
}

static COLD void *slow_mmap64(void *address, size_t length, int protection, int flags, int fd,
			      off64_t offset)
{
	WALK_CALLER(at);
	void *got = next.mmap64(address, length, protection, flags, fd, offset);

	mapped_there(got, length, protection, flags, fd, &at);
	return got;
}

static COLD int slow_munmap(void *address, size_t length)
{
	WALK_CALLER(at);
	struct map_before before = map_blocks_before(address, length, &at);
	int result;

	/* Not calls that are bound to fail. */
	if (event_wanted(length) && (uintptr_t)address % CPU_PAGE_LEAST == 0 &&
	    length <= 1ull << CPU_USER_BITS) {
		uint64_t values[] = {(uintptr_t)address, length};

		tracks_add(SPOOL_INSTANT, &unmapped, values, &at);
	}
	result = next.munmap(address, length);
	if (!result)
		map_blocks_unmapped(address, length, before);
	return result;
}

static COLD void *slow_mremap(void *address, size_t old_length, size_t length, int flags, void *to)
{
	WALK_CALLER(at);
	struct map_before before = map_blocks_before(address, old_length, &at);
	void *got = next.mremap(address, old_length, length, flags, to);

	if (got != MAP_FAILED)
		map_blocks_moved(got, length, address, old_length,
				 !old_length || flags & MREMAP_DONTUNMAP, before, &at);
	if (!event_wanted(old_length > length ? old_length : length))
		return got;
	if (got == MAP_FAILED) {
		uint64_t failed[] = {length, (uintptr_t)address, old_length, (uint64_t)errno};

		tracks_add(SPOOL_INSTANT, &not_remapped, failed, &at);
	} else {
		uint64_t done[] = {(uintptr_t)got, length, (uintptr_t)address, old_length};

		tracks_add(SPOOL_INSTANT, &remapped, done, &at);
	}
	return got;
}

static COLD int slow_mprotect(void *address, size_t length, int protection)
{
	WALK_CALLER(at);
	int result = next.mprotect(address, length, protection);

	if (!result)
		map_blocks_accessible(address, length, &at);
	return result;
}

/* 0: not known. */
static size_t segment_bytes(int id)
{
	struct shmid_ds segment;

	if (agent_sandboxed || sys_failed(sys_call3(SYS_shmctl, id, IPC_STAT, (long)&segment)))
		return 0;
	return segment.shm_segsz;
}

static COLD void *slow_shmat(int id, const void *address, int flags)
{
	WALK_CALLER(at);
	void *got = next.shmat(id, address, flags);
	size_t bytes = got == (void *)-1 ? 0 : segment_bytes(id);

	if (bytes >= AGENT_MAP_BLOCK_LEAST)
		map_blocks_mapped(got, bytes, -1, true, &at);
	return got;
}

static COLD int slow_shmdt(const void *address)
{
	WALK_CALLER(at);
	struct map_before before = map_blocks_before(address, 1, &at);
	size_t bytes = map_blocks_length(address);
	int result = next.shmdt(address);

	if (!result && bytes)
		map_blocks_unmapped(address, bytes, before);
	return result;
}

static COLD int slow_madvise(void *address, size_t length, int advice)
{
	WALK_CALLER(at);
	int result = next.madvise(address, length, advice);

	if (event_wanted(length)) {
		uint64_t values[] = {(uintptr_t)address, length, advice_text(advice),
				     result ? (uint64_t)errno : 0};

		tracks_add(SPOOL_INSTANT, &advised, values, &at);
	}
	return result;
}

/* bytes: by how much the break should have moved. */
static void note_break(int64_t bytes, bool failed, const struct walk_start *at)
{
	int error = failed ? errno : 0;

	if (!event_wanted(bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes))
		return;
	uint64_t values[] = {(uintptr_t)next.sbrk(0), (uint64_t)bytes, (uint64_t)error};

	tracks_add(SPOOL_INSTANT, &moved_break, values, at);
	if (failed)
		errno = error;
}

static COLD void *slow_sbrk(intptr_t increment)
{
	WALK_CALLER(at);
	void *before = next.sbrk(increment);

	note_break(increment, before == (void *)-1, &at);
	return before;
}

static COLD int slow_brk(void *address, int64_t bytes)
{
	WALK_CALLER(at);
	int result = next.brk(address);

	note_break(bytes, result != 0, &at);
	return result;
}

/* ---- the hooks ---- */

/* A small call may be about a part of a block. */
static INLINE bool passes(const void *address, size_t length)
{
	return LIKELY(length < agent_map_least && !ranges_maybe(&ranges, address, length));
}

/* After a small call: another thread may have just unmapped a block there, and not recorded that yet. */
static INLINE void *took(void *got, size_t length)
{
	if (UNLIKELY(ranges_maybe(&ranges, got, length)))
		map_blocks_taken(got, length);
	return got;
}

EXPORT void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (flags & MAP_FIXED ? passes(address, length) : LIKELY(length < agent_map_least))
		return took(next.mmap(address, length, protection, flags, fd, offset), length);
	return slow_mmap(address, length, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset)
{
	if (flags & MAP_FIXED ? passes(address, length) : LIKELY(length < agent_map_least))
		return took(next.mmap64(address, length, protection, flags, fd, offset), length);
	return slow_mmap64(address, length, protection, flags, fd, offset);
}

EXPORT int munmap(void *address, size_t length)
{
	if (passes(address, length))
		return next.munmap(address, length);
	return slow_munmap(address, length);
}

/* The last argument is optional: its register is passed on as it came. */
void *hook_mremap(void *address, size_t old_length, size_t length, int flags,
		  void *to) __asm__("mremap");

EXPORT void *hook_mremap(void *address, size_t old_length, size_t length, int flags, void *to)
{
	if (LIKELY(length < agent_map_least) && passes(address, old_length))
		return took(next.mremap(address, old_length, length, flags, to), length);
	return slow_mremap(address, old_length, length, flags, to);
}

EXPORT int mprotect(void *address, size_t length, int protection)
{
	if (LIKELY(!atomic_load_explicit(&ranges.reserved, memory_order_relaxed)) ||
	    protection == PROT_NONE || !ranges_maybe(&ranges, address, length))
		return next.mprotect(address, length, protection);
	return slow_mprotect(address, length, protection);
}

EXPORT void *shmat(int id, const void *address, int flags)
{
	if (UNLIKELY(agent_map_least == AGENT_MAP_EVENTS_OFF))
		return next.shmat(id, address, flags);
	return slow_shmat(id, address, flags);
}

EXPORT int shmdt(const void *address)
{
	if (LIKELY(!ranges_maybe(&ranges, address, 1)))
		return next.shmdt(address);
	return slow_shmdt(address);
}

EXPORT int madvise(void *address, size_t length, int advice)
{
	if (LIKELY(length < agent_map_least))
		return next.madvise(address, length, advice);
	return slow_madvise(address, length, advice);
}

EXPORT void *sbrk(intptr_t increment)
{
	if (LIKELY((increment < 0 ? -(uint64_t)increment : (uint64_t)increment) < agent_map_least))
		return next.sbrk(increment);
	return slow_sbrk(increment);
}

EXPORT int brk(void *address)
{
	int64_t bytes = (int64_t)((uintptr_t)address - (uintptr_t)next.sbrk(0));

	if (LIKELY((bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes) < agent_map_least))
		return next.brk(address);
	return slow_brk(address, bytes);
}
