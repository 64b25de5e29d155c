/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the agent may be loaded into a process: see target_process.h. */
#include "attach/target_process.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *open_file(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fopen(path, "re");
}

/* ---- its status ---- */

struct status {
	char state;
	uid_t uid;
	long tracer, seccomp;
	bool shadow_stack;
};

static bool read_status(pid_t pid, struct status *s)
{
	FILE *file = open_file(pid, "status");
	char line[512];

	*s = (struct status){.state = '?'};
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		const char *value = strchr(line, ':');

		if (!value)
			continue;
		value += 1 + strspn(value + 1, "\t ");
		if (!strncmp(line, "State:", 6))
			s->state = *value;
		else if (!strncmp(line, "Uid:", 4))
			s->uid = (uid_t)strtoul(value, NULL, 10);
		else if (!strncmp(line, "TracerPid:", 10))
			s->tracer = strtol(value, NULL, 10);
		else if (!strncmp(line, "Seccomp:", 8))
			s->seccomp = strtol(value, NULL, 10);
		else if (!strncmp(line, "x86_Thread_features:", 20))
			s->shadow_stack = strstr(value, "shstk") != NULL;
	}
	fclose(file);
	return true;
}

bool target_process_ended(pid_t pid)
{
	struct status s;

	return !read_status(pid, &s) || s.state == 'Z' || s.state == 'X';
}

static bool refuse_owner(uid_t uid, char *why, size_t size)
{
	struct passwd *owner = getpwuid(uid);

	if (owner)
		snprintf(why, size, "it belongs to user %s; run mayfly as that user or as root",
			 owner->pw_name);
	else
		snprintf(why, size, "it belongs to user %u; run mayfly as that user or as root",
			 (unsigned int)uid);
	return false;
}

/* What forbids any trace of it. */
static bool check_traceable(const struct status *s, char *why, size_t size)
{
	if (geteuid() && s->uid != geteuid())
		return refuse_owner(s->uid, why, size);
	if (s->tracer)
		snprintf(why, size, "process %ld traces it already (a debugger?); only one can",
			 s->tracer);
	else if (s->state == 'Z' || s->state == 'X')
		snprintf(why, size, "it has ended");
	else if (s->state == 'T')
		snprintf(why, size, "it is stopped; continue it first (kill -CONT)");
	else
		return true;
	return false;
}

static bool check_status(const struct status *s, char *why, size_t size)
{
	if (!check_traceable(s, why, size))
		return false;
	if (s->seccomp)
		snprintf(why, size,
			 "it runs in a seccomp sandbox, which may kill it for what loading the "
			 "agent takes; start it under 'mayfly record'");
	else if (s->shadow_stack)
		snprintf(why, size,
			 "it uses a shadow stack, which does not allow calls from outside; start "
			 "it under 'mayfly record'");
	return !s->seccomp && !s->shadow_stack;
}

/* ---- its program ---- */

static bool check_class(pid_t pid, char *why, size_t size)
{
	FILE *file = open_file(pid, "exe");
	unsigned char ident[EI_NIDENT] = {0};
	bool read;

	if (!file && errno == EACCES) { /* as for whatever else it takes to trace it */
		target_process_explain(pid, EPERM, why, size);
		return false;
	}
	if (!file) {
		snprintf(why, size,
			 errno == ENOENT ? "it is a thread of the kernel, or has ended"
					 : "its program cannot be read: %s",
			 strerror(errno));
		return false;
	}
	read = fread(ident, sizeof(ident), 1, file) == 1;
	fclose(file);
	if (read && ident[EI_CLASS] == ELFCLASS64)
		return true;
	snprintf(why, size, "it is a 32-bit program");
	return false;
}

bool target_process_check_reading(pid_t pid, bool *may_call, char *why, size_t size)
{
	struct status s;

	if (!read_status(pid, &s)) {
		snprintf(why, size, "there is no such process");
		return false;
	}
	*may_call = !s.seccomp && !s.shadow_stack;
	return check_traceable(&s, why, size) && check_class(pid, why, size);
}

/* ---- its mappings ---- */

bool target_process_mapping(pid_t pid, uint64_t address, struct target_mapping *m)
{
	FILE *maps = open_file(pid, "maps");
	char line[PATH_MAX + 128], right[5];
	bool found = false;

	while (maps && !found && fgets(line, sizeof(line), maps)) {
		unsigned long long start, end;

		if (sscanf(line, "%llx-%llx %4s", &start, &end, right) != 3 || address < start ||
		    address >= end)
			continue;
		found = true;
		*m = (struct target_mapping){.start = start,
					     .writable = right[1] == 'w',
					     .shared = right[3] == 's',
					     .grows = strstr(line, "[stack]") != NULL};
	}
	if (maps)
		fclose(maps);
	return found;
}

bool target_process_has_room(pid_t pid, uint64_t sp, size_t bytes)
{
	struct target_mapping m;

	return target_process_mapping(pid, sp - 1, &m) && m.writable &&
	       (m.grows || sp - m.start >= bytes);
}

static bool same_file_there(pid_t pid, const char *path)
{
	struct stat here, there;
	char name[PATH_MAX + 64];

	snprintf(name, sizeof(name), "/proc/%d/root%s", (int)pid, path);
	return !stat(path, &here) && !stat(name, &there) && here.st_ino == there.st_ino &&
	       here.st_dev == there.st_dev;
}

/* The last part of the path in a line of maps; "" where there is none. */
static const char *mapped_name(char *line)
{
	char *slash = strrchr(line, '/');

	line[strcspn(line, "\n")] = 0;
	return slash ? slash + 1 : "";
}

static bool check_libraries(pid_t pid, char *why, size_t size)
{
	FILE *maps = open_file(pid, "maps");
	bool libc = false, musl = false, agent = false, replaced = false, other = false;
	char line[PATH_MAX + 128];

	while (maps && fgets(line, sizeof(line), maps)) {
		const char *name = mapped_name(line);

		/* Its functions are looked for in the file of that name here. */
		if (!libc && !strcmp(name, "libc.so.6")) {
			libc = true;
			other = !same_file_there(pid, strchr(line, '/'));
		}
		replaced |= !strcmp(name, "libc.so.6 (deleted)");
		musl |= !strncmp(name, "ld-musl-", 8);
		agent |= !strcmp(name, "libmayfly.so");
	}
	if (!maps) {
		snprintf(why, size, "its memory map cannot be read: %s", strerror(errno));
		return false;
	}
	fclose(maps);
	if (agent)
		snprintf(why, size, "it was started with mayfly's agent; 'mayfly ctl' steers that");
	else if (musl)
		snprintf(why, size,
			 "it uses musl, into which the agent can only be loaded at its "
			 "start; start it under 'mayfly record'");
	else if (replaced)
		snprintf(why, size,
			 "its C library has been replaced since it was started; start "
			 "the program again first");
	else if (!libc)
		snprintf(why, size,
			 "it is statically linked; link it with libmayfly.a (mayfly(1))");
	else if (other)
		snprintf(
		    why, size,
		    "its C library is another file than the one of that name here: it runs in a "
		    "container or another root; run mayfly in there (doc/CONTAINERS.md)");
	return !agent && !musl && !replaced && libc && !other;
}

bool target_process_check(pid_t pid, const char *library, char *why, size_t size)
{
	struct status s;

	if (!read_status(pid, &s)) {
		snprintf(why, size, "there is no such process");
		return false;
	}
	if (!check_status(&s, why, size) || !check_class(pid, why, size) ||
	    !check_libraries(pid, why, size))
		return false;
	if (same_file_there(pid, library))
		return true;
	snprintf(why, size,
		 "it does not see %s: it runs in a container or another root; run mayfly "
		 "in there (doc/CONTAINERS.md)",
		 library);
	return false;
}

void target_process_explain(pid_t pid, int error, char *why, size_t size)
{
	FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = file ? fgetc(file) - '0' : 0;

	(void)pid;
	if (file)
		fclose(file);
	if (error == ESRCH)
		snprintf(why, size, "it has ended");
	else if (error != EPERM)
		snprintf(why, size, "it cannot be traced: %s", strerror(error));
	else if (scope == 1 && geteuid())
		snprintf(why, size,
			 "the kernel lets only its parent trace it; run mayfly as root, or "
			 "set /proc/sys/kernel/yama/ptrace_scope to 0");
	else if (scope >= 3)
		snprintf(why, size,
			 "this system allows no tracing at all (kernel.yama.ptrace_scope "
			 "is 3 until the next boot)");
	else
		snprintf(why, size,
			 "the kernel does not allow to trace it: that takes the same user "
			 "and no set-user-ID program, or the capability CAP_SYS_PTRACE "
			 "(doc/CONTAINERS.md)");
}
