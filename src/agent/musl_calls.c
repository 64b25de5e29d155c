/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks through musl's own functions, which have no unwind tables.
 *
 * Each hook here notes the state in its caller while the real function runs. Where a walk meets
 * code of musl's, it goes on there:
 *
 *	leaf  malloc <- musl (vasprintf) <- call_strdup's frame, {pc, sp, bp} <- the program's frames
 *	                    no rule for it ----------------------^
 *
 * Hooked are functions that allocate, or call the program back; all are in every musl. A longjmp may leave a note behind on
 * the stack: it counts only while the return address that it names is still in its place.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/musl_calls.h"
#include "agent/unwind/walk.h"

#define MAGIC	   0x6d61796632106d75ull
#define NOTE_REACH 1024u /* from a note up to the end of its function's frame */
#define NOTES_MOST 64u

struct note {
	uint64_t magic;
	struct walk_start caller;
	struct note *outer;
};

static __thread struct note *latest __attribute__((tls_model("initial-exec")));

/* ---- the hooks ---- */

typedef long call(long, long, long, long, long, long);

static call *look_up(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);
	call *function;

	memcpy(&function, &found, sizeof(function));
	return function;
}

#define BEGIN_CALL(name)                                                                           \
	static call *next;                                                                         \
	struct note note = {.magic = MAGIC, .outer = latest};                                      \
	cpu_caller(note.caller.pc, note.caller.sp, note.caller.bp);                                \
	if (UNLIKELY(!next))                                                                       \
		next = look_up(#name);                                                             \
	__atomic_store_n(&latest, &note, __ATOMIC_RELAXED);                                        \
	__atomic_signal_fence(__ATOMIC_SEQ_CST)
#define END_CALL()                                                                                 \
	__atomic_signal_fence(__ATOMIC_SEQ_CST);                                                   \
	__atomic_store_n(&latest, note.outer, __ATOMIC_RELAXED)

/* No function here has more arguments, or any that is no integer or pointer. */
#define CALL(name)                                                                                 \
	EXPORT long call_##name(long a, long b, long c, long d, long e, long f) __asm__(#name);    \
	EXPORT long call_##name(long a, long b, long c, long d, long e, long f)                    \
	{                                                                                          \
		BEGIN_CALL(name);                                                                  \
		long result = next(a, b, c, d, e, f);                                              \
		END_CALL();                                                                        \
		return result;                                                                     \
	}

CALL(strdup)
CALL(strndup)
CALL(wcsdup)
CALL(getdelim)
CALL(getline)
CALL(vasprintf)
CALL(fopen)
CALL(fdopen)
CALL(freopen)
CALL(fmemopen)
CALL(open_memstream)
CALL(tmpfile)
CALL(popen)
CALL(opendir)
CALL(fdopendir)
CALL(scandir)
CALL(ftw)
CALL(nftw)
CALL(glob)
CALL(realpath)
CALL(getcwd)
CALL(setenv)
CALL(putenv)
CALL(setlocale)
CALL(newlocale)
CALL(regcomp)
CALL(regexec)
CALL(getaddrinfo)
CALL(getpwnam)
CALL(getpwuid)
CALL(getgrnam)
CALL(getgrgid)
CALL(iconv_open)
CALL(qsort)
CALL(bsearch)
CALL(lfind)
CALL(lsearch)
CALL(tsearch)
CALL(twalk)
CALL(tdestroy)
CALL(hcreate)
CALL(pthread_once)
CALL(pthread_create)
CALL(atexit)
CALL(raise)
CALL(exit)

/* Its arguments are not all in registers. */
EXPORT int call_asprintf(char **out, const char *format, ...) __asm__("asprintf");
EXPORT int call_asprintf(char **out, const char *format, ...)
{
	va_list list;

	BEGIN_CALL(vasprintf);
	va_start(list, format);
	long result = next((long)out, (long)format, (long)list, 0, 0, 0);
	va_end(list);
	END_CALL();
	return (int)result;
}

/* The hook in process.c jumps here, so its caller is ours. */
void *musl_dlopen(const char *file, int mode)
{
	BEGIN_CALL(dlopen);
	long handle = next((long)file, mode, 0, 0, 0, 0);
	END_CALL();
	return (void *)handle;
}

/* ---- for walks ---- */

/* Is this the note of a call that is still under way? Its words are on the stack, but may be left
 * from one that is over. */
static bool is_alive(const struct note *note, uintptr_t high)
{
	const struct walk_start *at = &note->caller;

	return at->sp > (uintptr_t)note && at->sp <= high && at->sp % 8 == 0 &&
	       at->sp - (uintptr_t)note <= NOTE_REACH &&
	       *(const uintptr_t *)(at->sp - sizeof(at->pc)) == at->pc;
}

bool musl_find_caller(uintptr_t sp, uintptr_t high, struct walk_start *outside)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	const struct note *note = latest;

	for (unsigned i = 0; i < NOTES_MOST; i++, note = note->outer) {
		if ((uintptr_t)note % 8 || (uintptr_t)note < here ||
		    (uintptr_t)note > high - sizeof(*note) || note->magic != MAGIC)
			return false;
		if ((uintptr_t)note > sp && is_alive(note, high)) {
			*outside = note->caller;
			return true;
		}
	}
	return false;
}
