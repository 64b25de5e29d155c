/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An LD_PRELOAD library that compares walk_capture() with glibc's backtrace() at every N-th
 * allocation of a real program. Built together with walk.c, cfi.c and modules.c.
 *
 * ORACLE_EVERY=n	compare at every n-th allocation of each thread (default 1)
 * ORACLE_OUT=file	append one line of counts at exit
 * ORACLE_FRESH=1	compare with a walk that knows of no other one instead, which is faster and may be deeper,
 *			and let the walk trust the clock; what the comparison takes does not count as the program's time
 * ORACLE_FRESH_EVERY=n	then compare only every n-th stack
 * ORACLE_AT_ONCE=1	as if the program took no time between two captures: for programs that enter few
 *			frames meanwhile, so that what walks look at does not depend on how fast it runs
 *
 * All addresses from the caller of malloc to the root must be equal, except that a frame which a
 * signal interrupted is pc + 1 here and pc there. In elided stacks, the parts at the leaf and at the
 * root must be equal, and the number of frames left out; in truncated stacks, the part there is: they
 * count as `shorter` where backtrace() went on. The common prefix with the capture before must be
 * what the capture says, no less and no more.
 */
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/unwind/modules.h"
#include "agent/unwind/walk.h"
#include "format/spool_format.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define DEEP   4096
#define BINS   13
#ifdef __aarch64__
#define SIGNS_RETURNS true
#else
#define SIGNS_RETURNS false
#endif

void oracle_enter_sandbox(void);
void oracle_pause(bool pause);
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

/* The allocator underneath may be another one than glibc's. */
static void *(*next_malloc)(size_t) = __libc_malloc;
static void *(*next_calloc)(size_t, size_t) = __libc_calloc;
static void *(*next_realloc)(void *, size_t) = __libc_realloc;

/* The last capture, kept to check `common`. */
struct last {
	uint32_t depth;
	uint64_t addresses[WALK_KEEP + 1];
};

struct state {
	struct walk walk, fresh;
	struct last last;
	void *theirs[DEEP];
};

static _Thread_local struct state *state;
static _Thread_local bool busy;
static _Thread_local uint32_t countdown;
static bool ready;

/*
 * On arm64, libgcc looks at the instruction that a return address leads to. Where a signal has
 * interrupted the function that began the stack, that is a signed 0, and libgcc crashes (in one of some
 * ten runs of the signals on a busy machine). There is nothing to compare with then.
 */
static _Thread_local sigjmp_buf *asking;

static void on_fault(int number)
{
	if (asking)
		siglongjmp(*asking, 1);
	signal(number, SIG_DFL);
}

static int ask_backtrace(void **theirs)
{
	sigjmp_buf here;
	volatile int n = -1;

	if (!SIGNS_RETURNS)
		return backtrace(theirs, DEEP);
	if (sigsetjmp(here, 1) == 0) {
		asking = &here;
		n = backtrace(theirs, DEEP);
	}
	asking = NULL;
	return n;
}
static uint32_t every = 1;
static bool with_fresh, at_once;
static uint32_t fresh_every = 1;
static _Atomic uint64_t stacks, mismatches, truncated, elided, signals, shared, frames, gone, seen;
static _Atomic uint64_t turns, looked_at, shorter, wrong_common, errno_changed, bins[BINS];
static _Atomic uint32_t described;

static void module_seen(const struct module *m)
{
	(void)m;
	atomic_fetch_add(&seen, 1);
}

static void module_gone(uint64_t start)
{
	(void)start;
	atomic_fetch_add(&gone, 1);
}

static struct state *own_state(void)
{
	if (!state) {
		long p = sys_mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		state = sys_failed(p) ? NULL : (struct state *)p;
	}
	return state;
}

static bool is_sigreturn(void *address)
{
	return memcmp(address, CPU_SIGRETURN_CODE, CPU_CODE_BYTES) == 0;
}

static bool same_frame(void *const *theirs, int i, uint64_t ours)
{
	if (ours == (uintptr_t)theirs[i])
		return true;
	return i > 0 && ours == (uintptr_t)theirs[i] + 1 && is_sigreturn(theirs[i - 1]);
}

/* Both from the leaf on. Returns the number of the first differing frame, or -1. */
static int compare(const struct walk *w, void *const *theirs, int n)
{
	uint32_t at = w->depth;
	int i = 0;

	while (at-- > 0) {
		uint64_t ours = w->frames[at].address;

		if (ours == SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0)) {
			atomic_fetch_add(&shorter, i < n);
			return at == 0 && w->truncated ? -1 : i;
		}
		if (SPOOL_MARK_KIND(ours) == SPOOL_MARK_ELIDED && ours & SPOOL_MARK_BIT) {
			i += (int)SPOOL_MARK_COUNT(ours);
			continue;
		}
		if (i >= n || !same_frame(theirs, i, ours))
			return i;
		i++;
	}
	return i == n ? -1 : i;
}

static void check_common(struct state *s)
{
	const struct walk *w = &s->walk;
	uint32_t same = 0;

	while (same < w->depth && same < s->last.depth &&
	       w->frames[same].address == s->last.addresses[same])
		same++;
	/* Less is right only when what was known is void. */
	if (w->common > same || (w->common < same && w->common != 0))
		atomic_fetch_add(&wrong_common, 1);
	s->last.depth = w->depth;
	for (uint32_t i = 0; i < w->depth; i++)
		s->last.addresses[i] = w->frames[i].address;
}

static void count(const struct walk *w)
{
	uint32_t bin = 31 - (uint32_t)__builtin_clz(w->depth | 1);

	atomic_fetch_add(&bins[bin < BINS ? bin : BINS - 1], 1);
	atomic_fetch_add(&stacks, 1);
	atomic_fetch_add(&frames, w->depth);
	atomic_fetch_add(&shared, w->common);
	if (w->truncated)
		atomic_fetch_add(&truncated, 1);
	for (uint32_t i = 0; i < w->depth; i++) {
		uint64_t address = w->frames[i].address;

		if (address & SPOOL_MARK_BIT)
			atomic_fetch_add(&elided, SPOOL_MARK_KIND(address) == SPOOL_MARK_ELIDED);
		else if (is_sigreturn((void *)(uintptr_t)address))
			atomic_fetch_add(&signals, 1);
	}
}

static void describe(const struct walk *w, void *const *theirs, int n, int bad)
{
	char line[256];

	if (atomic_fetch_add(&described, 1) >= 4)
		return;
	for (int i = bad > 2 ? bad - 2 : 0; i < n && i < bad + 4; i++) {
		uint64_t ours = (uint32_t)i < w->depth ? w->frames[w->depth - 1 - i].address : 0;
		int length = snprintf(line, sizeof(line), "%s%d of %d/%u: %p, walk has %#lx\n",
				      i == bad ? "* " : "  ", i, n, w->depth, theirs[i],
				      (unsigned long)ours);

		(void)!write(2, line, (size_t)length);
	}
}

/* ---- against a walk that knows of no other one ---- */

static uint32_t leaf_frames(const struct walk *w)
{
	uint32_t n = 0;

	while (n < w->depth &&
	       SPOOL_MARK_KIND(w->frames[w->depth - 1 - n].address) != SPOOL_MARK_ELIDED)
		n++;
	return n;
}

static uint32_t total_frames(const struct walk *w, uint32_t leaf)
{
	return leaf < w->depth
		   ? w->depth - 1 + SPOOL_MARK_COUNT(w->frames[w->depth - 1 - leaf].address)
		   : w->depth;
}

static bool is_like_fresh(const struct walk *w, const struct walk *fresh)
{
	uint32_t leaf = leaf_frames(w), fresh_leaf = leaf_frames(fresh);
	uint32_t root = w->depth - leaf, common = leaf < fresh_leaf ? leaf : fresh_leaf;

	if (total_frames(w, leaf) != total_frames(fresh, fresh_leaf) ||
	    w->truncated != fresh->truncated || w->interrupted < fresh->interrupted)
		return false;
	if (leaf < w->depth &&
	    (root != WALK_ROOT + 1 || leaf < WALK_LEAF_LEAST || total_frames(w, leaf) <= WALK_KEEP))
		return false;
	for (uint32_t i = 1; i <= common; i++)
		if (w->frames[w->depth - i].address != fresh->frames[fresh->depth - i].address)
			return false;
	for (uint32_t i = 0; i + 1 < root; i++)
		if (w->frames[i].address != fresh->frames[i].address)
			return false;
	return true;
}

static void describe_fresh(const struct walk *w, const struct walk *fresh)
{
	char line[256];
	uint32_t same = 0;
	int length;

	if (atomic_fetch_add(&described, 1) >= 4)
		return;
	while (same < w->depth && same < fresh->depth &&
	       w->frames[w->depth - 1 - same].address ==
		   fresh->frames[fresh->depth - 1 - same].address)
		same++;
	length =
	    snprintf(line, sizeof(line),
		     "* %u of %u frames, a fresh walk has %u of %u; %u are equal from the leaf; "
		     "interrupted %u, %u; truncated %u, %u\n",
		     leaf_frames(w), total_frames(w, leaf_frames(w)), leaf_frames(fresh),
		     total_frames(fresh, leaf_frames(fresh)), same, w->interrupted,
		     fresh->interrupted, w->truncated, fresh->truncated);
	(void)!write(2, line, (size_t)length);
}

static void check_with_fresh(struct state *s, const struct walk_start *start)
{
	if (at_once)
		s->walk.deep.left = cpu_ticks_at(&s->walk.deep.processor);
	s->walk.looked_at = 0;
	walk_capture(&s->walk, start);
	atomic_fetch_add(&looked_at, s->walk.looked_at);
	count(&s->walk);
	if (atomic_fetch_add(&turns, 1) % fresh_every != 0)
		return;
	walk_forget(&s->fresh);
	walk_capture(&s->fresh, start);
	if (!is_like_fresh(&s->walk, &s->fresh)) {
		atomic_fetch_add(&mismatches, 1);
		describe_fresh(&s->walk, &s->fresh);
	}
	if (fresh_every == 1)
		check_common(s);
	s->walk.deep.left = cpu_ticks_at(&s->walk.deep.processor);
}

static void check(const struct walk_start *start)
{
	struct state *s = own_state();
	int n, first = 0, bad;

	if (!s)
		return;
	if (with_fresh) {
		check_with_fresh(s, start);
		return;
	}
	errno = 4711;
	walk_capture(&s->walk, start);
	if (errno != 4711)
		atomic_fetch_add(&errno_changed, 1);
	n = ask_backtrace(s->theirs);
	while (first < n && (uintptr_t)s->theirs[first] != start->pc)
		first++;
	bad = n < 0 ? -1 : first < n ? compare(&s->walk, s->theirs + first, n - first) : 0;
	if (bad >= 0) {
		atomic_fetch_add(&mismatches, 1);
		describe(&s->walk, s->theirs + first, n - first, bad);
	}
	check_common(s);
	count(&s->walk);
}

/* A walk that begins inside this library: its own frames must be left out. */
static __attribute__((noinline)) void check_from_here(const struct walk_start *caller)
{
	struct walk_start here;
	struct state *s = own_state();

	if (!s)
		return;
	cpu_here(here.pc, here.sp, here.bp);
	walk_capture(&s->walk, &here);
	/* In a sandbox the way out of this library may be unknown. */
	if (s->walk.depth == 0 || (!(s->walk.truncated && s->walk.depth == 2) &&
				   s->walk.frames[s->walk.depth - 1].address != caller->pc))
		atomic_fetch_add(&mismatches, 1);
	check_common(s);
}

static void find_allocator(void)
{
	static bool done;
	void *found;

	if (done)
		return;
	done = true;
	if ((found = dlsym(RTLD_NEXT, "malloc")))
		next_malloc = (void *(*)(size_t))(uintptr_t)found;
	if ((found = dlsym(RTLD_NEXT, "calloc")))
		next_calloc = (void *(*)(size_t, size_t))(uintptr_t)found;
	if ((found = dlsym(RTLD_NEXT, "realloc")))
		next_realloc = (void *(*)(void *, size_t))(uintptr_t)found;
}

static inline bool is_turn(void)
{
	if (!ready || busy || countdown-- > 1)
		return false;
	countdown = every;
	return true;
}

static void take_turn(const struct walk_start *start)
{
	int error = errno;

	busy = true;
	check(start);
	if (!with_fresh && atomic_load(&stacks) % 16 == 0)
		check_from_here(start);
	busy = false;
	errno = error;
}

EXPORT void *malloc(size_t size)
{
	struct walk_start start;

	cpu_caller(start.pc, start.sp, start.bp);
	if (is_turn())
		take_turn(&start);
	find_allocator();
	return next_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	struct walk_start start;

	cpu_caller(start.pc, start.sp, start.bp);
	if (is_turn())
		take_turn(&start);
	find_allocator();
	return next_calloc(n, size);
}

EXPORT void *realloc(void *block, size_t size)
{
	struct walk_start start;

	cpu_caller(start.pc, start.sp, start.bp);
	if (is_turn())
		take_turn(&start);
	find_allocator();
	return next_realloc(block, size);
}

EXPORT int dlclose(void *handle)
{
	static int (*real)(void *);
	int result;

	if (!real)
		real = (int (*)(void *))(uintptr_t)dlsym(RTLD_NEXT, "dlclose");
	walk_code_changed();
	result = real(handle);
	walk_code_changed();
	modules_check();
	return result;
}

/* While frames are registered: from version 13 on, libgcc allocates with the lock of its table held, for
 * which backtrace() would wait forever. */
EXPORT void oracle_pause(bool pause)
{
	busy = pause;
}

/* For the program of these tests: as if a seccomp filter had been installed. */
EXPORT void oracle_enter_sandbox(void)
{
	walk_enter_sandbox();
}

static __attribute__((constructor)) void begin(void)
{
	const char *value = getenv("ORACLE_EVERY");
	void *warm[4];

	if (value && atoi(value) > 0)
		every = (uint32_t)atoi(value);
	backtrace(warm, 4); /* loads libgcc_s, which allocates */
	if (SIGNS_RETURNS)
		sigaction(SIGSEGV, &(struct sigaction){.sa_handler = on_fault}, NULL);
	modules_watch(module_seen, module_gone);
	ready = walk_init();
	at_once = getenv("ORACLE_AT_ONCE") != NULL;
	if ((value = getenv("ORACLE_FRESH_EVERY")) && atoi(value) > 0)
		fresh_every = (uint32_t)atoi(value);
	with_fresh = getenv("ORACLE_FRESH") && cpu_ticks_are_invariant();
	walk_trust_ticks(with_fresh);
}

static __attribute__((destructor)) void end(void)
{
	const char *path = getenv("ORACLE_OUT");
	char line[1024];
	int fd, length;

	ready = false;
	if (!path)
		return;
	length =
	    snprintf(line, sizeof(line),
		     "stacks=%lu mismatches=%lu truncated=%lu elided=%lu signals=%lu "
		     "shorter=%lu wrong_common=%lu errno_changed=%lu seen=%lu gone=%lu frames=%lu "
		     "shared=%lu looked_at=%lu depths=",
		     stacks, mismatches, truncated, elided, signals, shorter, wrong_common,
		     errno_changed, seen, gone, frames, shared, looked_at);
	for (int i = 0; i < BINS; i++)
		length += snprintf(line + length, sizeof(line) - (size_t)length, "%s%lu",
				   i ? "," : "", bins[i]);
	line[length++] = '\n';
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	(void)!write(fd, line, (size_t)length);
	close(fd);
}
