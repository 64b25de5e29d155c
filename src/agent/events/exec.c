/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process becomes another program: hooks of the exec family. Each puts back what environment.c
 * has hidden, where that is wanted, and records an event before the real one.
 */
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"
#include "agent/environment.h"
#include "agent/exec_file.h"
#include "agent/events/process.h"
#include "agent/events/tracks.h"
#include "agent/real.h"
#include "agent/spool.h"

/* ---- the real functions ---- */

static struct {
	int (*execve)(const char *, char *const[], char *const[]);
	int (*execvpe)(const char *, char *const[], char *const[]);
	int (*fexecve)(int, char *const[], char *const[]);
	int (*execveat)(int, const char *, char *const[], char *const[], int);
} next;

/* Before anybody may fork: dlsym has no place in the child of a vfork. */
__attribute__((constructor)) static void look_up(void)
{
	int error = errno;

	if (next.execve)
		return;
	REAL_LOOK_UP(next.execvpe, execvpe);
	REAL_LOOK_UP(next.fexecve, fexecve);
	REAL_LOOK_UP(next.execveat, execveat);
	REAL_LOOK_UP(next.execve, execve);
	errno = error;
}

/* ---- events ---- */

TRACK_INSTANT(executed, "process", "exec", 1, {SPOOL_TEXT, "path"});
TRACK_INSTANT(not_executed, "process", "exec.failed", 1, {SPOOL_INT, "error"});

static void note_text(const char *text, const struct walk_start *at)
{
	uint64_t values[] = {(uintptr_t)text};

	if (tracks_wanted())
		tracks_add(SPOOL_INSTANT, &executed, values, at);
	spool_executed(text);
}

/* In a sandbox, neither the path can be checked nor whether this is the child of a vfork, whose parent
 * says at its exit that it was not. */
static bool is_noted(void)
{
	if (agent_sandboxed && atomic_load(&agent_state) == AGENT_ON)
		spool_executed("another program, behind a seccomp filter");
	return atomic_load(&agent_state) == AGENT_ON && process_is_this();
}

static void note_exec(const char *path, const struct walk_start *at)
{
	char text[SPOOL_TEXT_BYTES + 1];

	if (is_noted())
		note_text(process_text(text, path), at);
}

static void note_fd(int fd, const struct walk_start *at)
{
	char text[SPOOL_TEXT_BYTES + 1];

	if (!is_noted() || fd < 0)
		return;
	process_file(text, fd);
	note_text(text, at);
}

static void note_failed(const struct walk_start *at)
{
	uint64_t values[] = {(uint64_t)errno};

	bool noted = is_noted();

	if (noted && tracks_wanted())
		tracks_add(SPOOL_INSTANT, &not_executed, values, at);
	if (noted || agent_sandboxed)
		spool_executed(NULL);
}

/* ---- the hooks ---- */

static int fails(void)
{
	errno = ENOSYS;
	return -1;
}

/* Only an exec that has failed returns. */
static int came_back(int result, const struct walk_start *at)
{
	note_failed(at);
	return result;
}

/* The body of a hook: `call` is the real function, with env for the environment. */
#define EXEC(environment, note, name, search, call, ...)                                           \
	WALK_CALLER(at);                                                                           \
	char *const *env = (environment);                                                          \
	look_up();                                                                                 \
	ENVIRONMENT_OF_NEXT(env, name, search, environment_goes_on());                             \
	note;                                                                                      \
	return came_back(next.call ? next.call(__VA_ARGS__) : fails(), &at)

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	EXEC(envp, note_exec(path, &at), path, false, execve, path, argv, env);
}

EXPORT int execv(const char *path, char *const argv[])
{
	EXEC(environ, note_exec(path, &at), path, false, execve, path, argv, env);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	EXEC(envp, note_exec(file, &at), file, true, execvpe, file, argv, env);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	EXEC(environ, note_exec(file, &at), file, true, execvpe, file, argv, env);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	EXEC(envp, note_fd(fd, &at), NULL, false, fexecve, fd, argv, env);
}

EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
	EXEC(envp, note_exec(path, &at), NULL, false, execveat, fd, path, argv, env, flags);
}

/* The arguments of the execl family as an array in the caller's frame. */
#define GATHER(argv, first)                                                                        \
	va_list list_;                                                                             \
	size_t count_ = 1;                                                                         \
	va_start(list_, first);                                                                    \
	while (va_arg(list_, char *))                                                              \
		count_++;                                                                          \
	va_end(list_);                                                                             \
	char **argv = alloca((count_ + 1) * sizeof(*argv));                                        \
	va_start(list_, first);                                                                    \
	argv[0] = (char *)(uintptr_t)(first);                                                      \
	for (size_t i_ = 1; i_ <= count_; i_++)                                                    \
		argv[i_] = va_arg(list_, char *);

EXPORT int execl(const char *path, const char *first, ...)
{
	GATHER(argv, first)
	va_end(list_);
	return execv(path, argv);
}

EXPORT int execlp(const char *file, const char *first, ...)
{
	GATHER(argv, first)
	va_end(list_);
	return execvp(file, argv);
}

EXPORT int execle(const char *path, const char *first, ...)
{
	GATHER(argv, first)
	char *const *envp = va_arg(list_, char *const *);
	va_end(list_);
	return execve(path, argv, envp);
}
