/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of loading code, and of other processes. What fork needs of the agent is in life.c.
 *
 *	dlmopen			remarked, then a jump as for dlopen
 *	dlopen, vfork		event, then a jump to the real one (CPU_JUMP_HOOK): no frame of ours
 *	fork, posix_spawn	the real one, then the event with the child's number
 *	_Fork, clone		the same; libc calls no handlers of forks there, so we do
 *	dlclose			event, the real one, then a check of what is still mapped
 *	malloc_trim		the real one, then the event
 *
 * The child of a vfork writes nothing: it runs on its parent's memory, but is another process.
 */
#include "agent/events/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/bypass.h"
#include "agent/environment.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/fields.h"
#include "agent/life.h"
#include "agent/path.h"
#include "agent/real.h"
#include "agent/spool.h"
#include "agent/unwind/modules.h"
#include "agent/events/tracks.h"

/* ---- the real functions ---- */

typedef int spawn(pid_t *, const char *, const posix_spawn_file_actions_t *,
		  const posix_spawnattr_t *, char *const[], char *const[]);

typedef int clone_call(int (*)(void *), void *, int, void *, pid_t *, void *, pid_t *);

static struct {
	pid_t (*fork)(void);
	pid_t (*_Fork)(void);
	clone_call *clone;
	spawn *posix_spawn, *posix_spawnp;
	int (*malloc_trim)(size_t);
} next;

/* Named by the assembly of CPU_JUMP_HOOK only. */
HIDDEN void *process_real_dlopen;
HIDDEN void *process_real_dlmopen;
HIDDEN void *process_real_vfork;
HIDDEN void process_dlopen_first(const char *file, int mode, const void *return_address);
HIDDEN void process_dlmopen_first(Lmid_t namespace, const char *file);
HIDDEN void process_vfork_first(uint64_t a, uint64_t b, const void *return_address);

/* Before anybody may fork: dlsym has no place in the child of a vfork. */
__attribute__((constructor)) static void look_up(void)
{
	int error = errno;

	if (next.malloc_trim)
		return;
	REAL_LOOK_UP(next.fork, fork);
	REAL_LOOK_UP(next._Fork, _Fork);
	REAL_LOOK_UP(next.clone, clone);
	REAL_LOOK_UP(next.posix_spawn, posix_spawn);
	REAL_LOOK_UP(next.posix_spawnp, posix_spawnp);
	process_real_dlopen = real_dlsym(RTLD_NEXT, "dlopen");
	process_real_dlmopen = real_dlsym(RTLD_NEXT, "dlmopen");
	process_real_vfork = real_dlsym(RTLD_NEXT, "vfork");
	REAL_LOOK_UP(next.malloc_trim, malloc_trim);
	errno = error;
}

/* ---- events ---- */

TRACK_INSTANT(opened, "process", "dlopen", 1, {SPOOL_TEXT, "file"});
TRACK_INSTANT(closed, "process", "dlclose", 1, {SPOOL_TEXT, "file"});
TRACK_INSTANT(forked, "process", "fork", 1, {SPOOL_INT, "child"});
TRACK_INSTANT(vforked, "process", "vfork", 0, {0});
TRACK_INSTANT(spawned, "process", "spawn", 2, {SPOOL_INT, "child"}, {SPOOL_TEXT, "path"});
TRACK_INSTANT(trimmed, "memory", "malloc_trim", 2, {SPOOL_UINT, "pad"}, {SPOOL_INT, "result"});

size_t process_file(char *text, int fd)
{
	char link[32] = "/proc/self/fd/";
	size_t n = strlen(link);
	long got = 0;

	if (!agent_sandboxed && fd >= 0) {
		link[n + put_decimal(link + n, (uint64_t)fd)] = 0;
		got = sys_readlinkat(AT_FDCWD, link, text, SPOOL_TEXT_BYTES);
	}
	got = sys_failed(got) ? 0 : got;
	text[got] = 0;
	return (size_t)got;
}

const char *process_text(char *text, const char *from)
{
	size_t n = 0;

	if (!from || agent_sandboxed)
		return "";
	while (n < SPOOL_TEXT_BYTES) {
		uintptr_t at = (uintptr_t)from + n;

		if ((n == 0 || at % CPU_PAGE_LEAST == 0) && !sys_readable(at & ~(uintptr_t)7))
			break;
		if (!(text[n] = from[n]))
			return text;
		n++;
	}
	text[n] = 0;
	return text;
}

bool process_is_this(void)
{
	return !agent_sandboxed && spool_header->pid == (uint32_t)sys_getpid();
}

/* ---- code ---- */

void process_dlopen_first(const char *file, int mode, const void *return_address)
{
	struct walk_start at;
	char text[SPOOL_TEXT_BYTES + 1];

	bypass_dlopen(mode);
	cpu_jump_caller(return_address, at.pc, at.sp, at.bp);
	if (!process_real_dlopen)
		look_up();
	if (tracks_wanted()) {
		uint64_t values[] = {(uintptr_t)process_text(text, file)};

		tracks_add(SPOOL_INSTANT, &opened, values, &at);
	}
}

CPU_JUMP_HOOK("dlopen", "process_real_dlopen", "process_dlopen_first");

void process_dlmopen_first(Lmid_t namespace, const char *file)
{
	if (!process_real_dlmopen)
		look_up();
	if (namespace != LM_ID_BASE && file)
		bypass_dlmopen();
}

CPU_JUMP_HOOK("dlmopen", "process_real_dlmopen", "process_dlmopen_first");

/* A handle is the address of the loader's record of the library. */
static void note_dlclose(void *handle, const struct walk_start *at)
{
	const struct link_map *map = handle;
	char text[SPOOL_TEXT_BYTES + 1] = "";

	if (!tracks_wanted())
		return;
	if (!agent_sandboxed && (uintptr_t)handle % 8 == 0 && sys_readable((uintptr_t)&map->l_name))
		process_text(text, map->l_name);
	uint64_t values[] = {(uintptr_t)text};

	tracks_add(SPOOL_INSTANT, &closed, values, at);
}

/* Frame rules of unmapped code must be forgotten. New code is found when it is first on a stack. */
EXPORT int dlclose(void *handle)
{
	WALK_CALLER(at);
	bool on = atomic_load(&agent_state) == AGENT_ON;

	if (on) {
		note_dlclose(handle, &at);
		walk_code_changed();
	}
	int result = real.dlclose(handle);
	if (on) {
		int error = errno;
		walk_code_changed();
		if (path_enter()) {
			if (life_thread_ready() && path_writer())
				modules_check();
			path_leave();
		}
		errno = error;
	}
	return result;
}

/* ---- processes ---- */

static void note_fork(pid_t child, const struct walk_start *at)
{
	uint64_t values[] = {(uint64_t)child};

	if (child > 0 && tracks_wanted())
		tracks_add(SPOOL_INSTANT, &forked, values, at);
}

EXPORT pid_t fork(void)
{
	WALK_CALLER(at);

	if (!next.fork)
		look_up();
	pid_t child = next.fork();

	note_fork(child, &at);
	return child;
}

/* In the parent. If self.busy, it may be libc's fork() that calls. */
static pid_t forked_quietly(pid_t child, bool busy, const struct walk_start *at)
{
	int error = errno;

	if (!busy) {
		life_after_fork_parent();
		note_fork(child, at);
	}
	errno = error;
	return child;
}

EXPORT pid_t _Fork(void)
{
	WALK_CALLER(at);
	bool busy = self.busy;

	if (!next._Fork)
		look_up();
	if (!busy)
		life_before_fork();
	pid_t child = next._Fork();

	if (child)
		return forked_quietly(child, busy, &at);
	if (!busy)
		life_after_fork_child();
	return 0;
}

struct copy {
	int (*function)(void *);
	void *argument;
};

/* Ends with a jump, so that the child's stack has no frame of ours. */
static int begin_copy(void *made)
{
	struct copy copy = *(struct copy *)made;

	life_after_fork_child();
	return copy.function(copy.argument);
}

/* A child that shares our memory is a thread, or like vfork's child, and is left alone. So is one with
 * thread-local memory of its own, which has none of our data about the thread. */
EXPORT int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
	WALK_CALLER(at);
	struct copy copy = {function, argument};
	bool busy = self.busy || flags & (CLONE_VM | CLONE_SETTLS) || !function || !stack ||
		    atomic_load(&agent_state) != AGENT_ON;
	pid_t *parent_tid, *child_tid;
	va_list list;
	void *tls;

	va_start(list, argument);
	parent_tid = va_arg(list, pid_t *);
	tls = va_arg(list, void *);
	child_tid = va_arg(list, pid_t *);
	va_end(list);
	if (!next.clone)
		look_up();
	if (busy)
		return next.clone(function, stack, flags, argument, parent_tid, tls, child_tid);
	life_before_fork();
	return forked_quietly(
	    next.clone(begin_copy, stack, flags, &copy, parent_tid, tls, child_tid), false, &at);
}

void process_vfork_first(uint64_t a, uint64_t b, const void *return_address)
{
	struct walk_start at;

	(void)a, (void)b;
	cpu_jump_caller(return_address, at.pc, at.sp, at.bp);
	if (!process_real_vfork)
		look_up();
	if (tracks_wanted() && process_is_this())
		tracks_add(SPOOL_INSTANT, &vforked, NULL, &at);
}

CPU_JUMP_HOOK("vfork", "process_real_vfork", "process_vfork_first");

/* The call has succeeded, so the path can be read. */
static void note_spawn(pid_t child, const char *path, const struct walk_start *at)
{
	if (!tracks_wanted() || !process_is_this())
		return;
	uint64_t values[] = {(uint64_t)child, (uintptr_t)path};

	tracks_add(SPOOL_INSTANT, &spawned, values, at);
}

/* Inlined, so that the stack begins at the hook's caller. */
static INLINE int spawn_noted(spawn *const *entry, pid_t *child, const char *path,
			      const posix_spawn_file_actions_t *actions,
			      const posix_spawnattr_t *attributes, char *const argv[],
			      char *const envp[])
{
	WALK_CALLER(at);
	pid_t own = 0;
	pid_t *number = child ? child : &own;

	if (!*entry)
		look_up();
	ENVIRONMENT_OF_NEXT(envp, path, entry == &next.posix_spawnp, environment_follows());
	int result = (*entry)(number, path, actions, attributes, argv, envp);

	if (!result)
		note_spawn(*number, path, &at);
	return result;
}

EXPORT int posix_spawn(pid_t *restrict child, const char *restrict path,
		       const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *restrict attributes, char *const argv[restrict],
		       char *const envp[restrict])
{
	return spawn_noted(&next.posix_spawn, child, path, actions, attributes, argv, envp);
}

EXPORT int posix_spawnp(pid_t *child, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	return spawn_noted(&next.posix_spawnp, child, file, actions, attributes, argv, envp);
}

/* ---- the allocator ---- */

EXPORT int malloc_trim(size_t pad)
{
	WALK_CALLER(at);

	if (!next.malloc_trim)
		look_up();
	int result = next.malloc_trim ? next.malloc_trim(pad) : 0;

	if (tracks_wanted()) {
		uint64_t values[] = {pad, (uint64_t)result};

		tracks_add(SPOOL_INSTANT, &trimmed, values, &at);
	}
	return result;
}
