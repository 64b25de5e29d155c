/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program sees of us in its environment: nothing.
 *
 * `mayfly record` gets the agent into the program by LD_PRELOAD and MAYFLY. Unless children are
 * followed, both are taken out of the environment as soon as the agent has read them, so that the
 * program, and all that it starts, find what they would find without us. Only when the recorded
 * process itself goes on with another program (a wrapper script's exec, env, nice) are they put
 * back, for that one exec. In a vfork child the process id differs from ours, so its exec passes
 * untouched.
 */
#include "agent/agent.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "agent/cpu/sys.h"
#include "agent/events/process.h"

#define PRELOAD	     "LD_PRELOAD="
#define SETTINGS     "MAYFLY="
#define MOST_ENTRIES 20000u

static char our_preload[8192];	/* "LD_PRELOAD=" and our libraries */
static char our_settings[8192]; /* "MAYFLY=..." */

static struct {
	int (*execve)(const char *, char *const[], char *const[]);
	int (*execvpe)(const char *, char *const[], char *const[]);
	int (*fexecve)(int, char *const[], char *const[]);
	int (*execveat)(int, const char *, char *const[], char *const[], int);
} next;

static bool is_ours(const char *path, size_t length)
{
	const char *slash = memrchr(path, '/', length);
	size_t skip = slash ? (size_t)(slash + 1 - path) : 0;

	return length - skip > 9 && !memcmp(path + skip, "libmayfly", 9);
}

/* Splits "LD_PRELOAD=ours:theirs" in place into ours (copied) and theirs. True: nothing is left. */
static bool split_preload(char *entry)
{
	char *value = entry + sizeof(PRELOAD) - 1;
	char *rest = value;

	for (;;) {
		size_t length = strcspn(rest, ": ");
		if (length && !is_ours(rest, length))
			break;
		rest += length;
		if (!*rest)
			break;
		rest++;
	}
	size_t ours = (size_t)(rest - value);
	if (ours == 0 || ours >= sizeof(our_preload) - sizeof(PRELOAD))
		return false;
	memcpy(our_preload, entry, sizeof(PRELOAD) - 1 + ours);
	while (ours && (value[ours - 1] == ':' || value[ours - 1] == ' '))
		ours--;
	our_preload[sizeof(PRELOAD) - 1 + ours] = 0;
	memmove(value, rest, strlen(rest) + 1);
	return !*value;
}

/* Takes what is ours out of the environment, in place: nobody has looked at it yet. */
void environment_hide(void)
{
	char **out = environ;

	for (char **in = environ; *in; in++) {
		if (!strncmp(*in, SETTINGS, sizeof(SETTINGS) - 1) &&
		    strlen(*in) < sizeof(our_settings))
			memcpy(our_settings, *in, strlen(*in) + 1);
		else if (strncmp(*in, PRELOAD, sizeof(PRELOAD) - 1) || !split_preload(*in))
			*out++ = *in;
	}
	*out = NULL;
}

static void look_up(void)
{
	void *p;

#define LOOK_UP(name) (p = agent_dlsym(RTLD_NEXT, #name), memcpy(&next.name, &p, sizeof(p)))
	if (next.execve)
		return;
	LOOK_UP(execvpe);
	LOOK_UP(fexecve);
	LOOK_UP(execveat);
	LOOK_UP(execve);
}

/* Before anybody may fork: dlsym has no place in the child of a vfork. */
void environment_start(void)
{
	look_up();
}

/* In a sandbox nobody may be asked who this is. */
static bool goes_on(void)
{
	look_up();
	return !agent_sandboxed && our_settings[0] && our_preload[0] &&
	       (uint32_t)sys_getpid() == agent_config.target_pid;
}

/* env with what is ours put back, in the caller's frame: it may be about to run out of memory. */
#define WITH_OURS(env)                                                                             \
	do {                                                                                       \
		size_t entries_ = 0;                                                               \
		const char *theirs_ = NULL;                                                        \
		while ((env) && (env)[entries_] && entries_ < MOST_ENTRIES) {                      \
			if (!strncmp((env)[entries_], PRELOAD, sizeof(PRELOAD) - 1))               \
				theirs_ = (env)[entries_] + sizeof(PRELOAD) - 1;                   \
			entries_++;                                                                \
		}                                                                                  \
		if (goes_on() && entries_ < MOST_ENTRIES) {                                        \
			char **larger_ = alloca((entries_ + 3) * sizeof(*larger_));                \
			char *both_ =                                                              \
			    alloca(sizeof(our_preload) + 2 + (theirs_ ? strlen(theirs_) : 0));     \
			(env) = put_ours(larger_, both_, (env), theirs_);                          \
		}                                                                                  \
	} while (0)

static char *const *put_ours(char **larger, char *both, char *const *env, const char *theirs)
{
	size_t n = 0;

	strcpy(both, our_preload);
	if (theirs && *theirs) {
		strcat(both, ":");
		strcat(both, theirs);
	}
	larger[n++] = both;
	for (; env && *env; env++) {
		if (strncmp(*env, PRELOAD, sizeof(PRELOAD) - 1) &&
		    strncmp(*env, SETTINGS, sizeof(SETTINGS) - 1))
			larger[n++] = *env;
	}
	larger[n++] = our_settings;
	larger[n] = NULL;
	return larger;
}

static int fails(void)
{
	errno = ENOSYS;
	return -1;
}

/* An exec that succeeds does not come back. */
static int failed(int result, const struct walk_start *at)
{
	process_exec_failed(at);
	return result;
}

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	WALK_CALLER(at);
	char *const *env = envp;

	WITH_OURS(env);
	process_exec(path, &at);
	return failed(next.execve ? next.execve(path, argv, env) : fails(), &at);
}

EXPORT int execv(const char *path, char *const argv[])
{
	WALK_CALLER(at);
	char *const *env = environ;

	WITH_OURS(env);
	process_exec(path, &at);
	return failed(next.execve ? next.execve(path, argv, env) : fails(), &at);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	WALK_CALLER(at);
	char *const *env = envp;

	WITH_OURS(env);
	process_exec(file, &at);
	return failed(next.execvpe ? next.execvpe(file, argv, env) : fails(), &at);
}

EXPORT int execvp(const char *file, char *const argv[])
{
	WALK_CALLER(at);
	char *const *env = environ;

	WITH_OURS(env);
	process_exec(file, &at);
	return failed(next.execvpe ? next.execvpe(file, argv, env) : fails(), &at);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	WALK_CALLER(at);
	char *const *env = envp;

	WITH_OURS(env);
	process_exec_fd(fd, &at);
	return failed(next.fexecve ? next.fexecve(fd, argv, env) : fails(), &at);
}

EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
	WALK_CALLER(at);
	char *const *env = envp;

	WITH_OURS(env);
	process_exec(path, &at);
	return failed(next.execveat ? next.execveat(fd, path, argv, env, flags) : fails(), &at);
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
