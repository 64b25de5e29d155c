/* SPDX-License-Identifier: Apache-2.0 */
/* Which process writes a spool, and whether it still lives: see process_watch.h. */
#include "record/process_watch.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/system/process_file.h"

/* Whether a line of /proc/PID/maps is of this file. */
static bool maps_file(char *line, const struct stat *st, const char *path)
{
	unsigned int major_number, minor_number;
	unsigned long inode;
	int at = 0;

	if (sscanf(line, "%*x-%*x %*s %*x %x:%x %lu %n", &major_number, &minor_number, &inode,
		   &at) != 3 ||
	    !at)
		return false;
	line[strcspn(line, "\n")] = 0;
	/* Some file systems have other numbers here than in stat(), and some names are escaped. */
	return (inode == st->st_ino && makedev(major_number, minor_number) == st->st_dev) ||
	       (path && !strcmp(line + at, path));
}

/* 1: the process has the file mapped. 0: it has not, or there is no such process. -1: that cannot be
 * seen. */
static int process_has_mapped(pid_t pid, const struct stat *st, const char *path)
{
	char name[64], line[PATH_MAX + 128];
	int used = 0;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = fopen(name, "re");
	if (!maps)
		return errno == EACCES ? -1 : 0;
	while (!used && fgets(line, sizeof(line), maps))
		used = maps_file(line, st, path);
	fclose(maps);
	return used;
}

bool process_maps_file(pid_t pid, const struct stat *st)
{
	return process_has_mapped(pid, st, NULL) > 0;
}

/* In any of the namespaces below ours. */
static pid_t find_process(const struct stat *st, const char *path)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	pid_t found = 0;

	while (dir && !found && (d = readdir(dir))) {
		pid_t pid = d->d_name[0] >= '1' && d->d_name[0] <= '9' ? atoi(d->d_name) : 0;

		if (pid && pid != getpid() && process_has_mapped(pid, st, path) > 0)
			found = pid;
	}
	if (dir)
		closedir(dir);
	return found;
}

bool process_is_foreign(const struct spool_entry *e)
{
	uint32_t own = process_file_own_namespace();

	return e->glance.pid_namespace && own && e->glance.pid_namespace != own;
}

pid_t process_of_spool(const struct spool_entry *e)
{
	char *path = realpath(e->path, NULL);
	pid_t found = 0;
	struct stat st;
	int mapped;

	if (!path || stat(path, &st)) {
		free(path);
		return 0;
	}
	if (process_is_foreign(e)) {
		found = find_process(&st, path);
	} else {
		mapped = process_has_mapped(e->pid, &st, path);
		/* Not allowed to look: then whether the process is there has to do. */
		if (mapped > 0 || (mapped < 0 && (!kill(e->pid, 0) || errno == EPERM)))
			found = e->pid;
	}
	free(path);
	return found;
}

bool spool_in_use(const struct spool_entry *e)
{
	return process_of_spool(e) != 0;
}

/* ---- one that is watched ---- */

static int open_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
	return (int)syscall(SYS_pidfd_open, pid, 0);
#else
	errno = ENOSYS;
	return -1;
#endif
}

void process_watch_begin(struct process_watch *p, const struct spool_entry *e)
{
	*p = (struct process_watch){.fd = -1, .foreign = process_is_foreign(e)};
	p->pid = process_of_spool(e);
	if (!p->pid)
		return;
	p->fd = open_pidfd(p->pid);
	/* The number may have become another process's meanwhile. */
	if (p->fd >= 0 && process_of_spool(e) != p->pid) {
		close(p->fd);
		*p = (struct process_watch){.fd = -1, .foreign = p->foreign};
	}
}

bool process_watch_ended(const struct process_watch *p)
{
	struct pollfd poll_fd = {.fd = p->fd, .events = POLLIN};

	if (!p->pid)
		return true;
	if (p->fd < 0) /* an old kernel, or too many descriptors */
		return kill(p->pid, 0) && errno == ESRCH;
	return poll(&poll_fd, 1, 0) > 0;
}

bool process_watch_writes(const struct process_watch *p, const char *spool)
{
	char *path = process_watch_ended(p) ? NULL : realpath(spool, NULL);
	struct stat st;
	bool writes = path && !stat(path, &st) && process_has_mapped(p->pid, &st, path);

	free(path);
	return writes;
}

/* Linux 6.15 and later: of a process that its parent has waited for. */
static bool status_of_pidfd(int fd, int *status)
{
	struct {
		uint64_t mask, cgroup;
		uint32_t ids[11];
		int32_t status;
	} info = {.mask = 1u << 3}; /* PIDFD_INFO_EXIT */

	_Static_assert(sizeof(info) == 64, "struct pidfd_info, first version");
	/* PIDFD_GET_INFO */
	if (fd < 0 || ioctl(fd, _IOWR(0xff, 11, info), &info) || !(info.mask & 1u << 3))
		return false;
	*status = info.status;
	return true;
}

/* The status of a process that its parent has not waited for. */
static bool status_of_zombie(pid_t pid, int *status)
{
	const char *at, *last;
	char text[2048];

	if (!process_file_read(pid, "stat", text, sizeof(text)))
		return false;
	at = process_file_behind_name(text);
	last = strrchr(text, ' ');
	if (!at || strncmp(at, " Z", 2) != 0)
		return false;
	*status = atoi(last + 1);
	return true;
}

bool process_watch_status(const struct process_watch *p, int *status)
{
	return p->pid && p->fd >= 0 &&
	       (status_of_pidfd(p->fd, status) || status_of_zombie(p->pid, status) ||
		/* Its parent may have waited for it just now. */
		status_of_pidfd(p->fd, status));
}

void process_watch_close(struct process_watch *p)
{
	if (p->pid && p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* ---- anybody ---- */

char *spool_real_name(const char *file, const char *ending)
{
	const char *base = spool_base_name(file);
	char *folder = strndup(file, (size_t)(base - file));
	char *real = folder ? realpath(*folder ? folder : ".", NULL) : NULL;
	char *name = NULL;

	if (real && asprintf(&name, "%s/%s%s", real[1] ? real : "", base, ending) < 0)
		name = NULL;
	free(real);
	free(folder);
	return name;
}

static bool process_maps(const char *pid, const char *prefix)
{
	char name[sizeof("/proc//maps") + NAME_MAX], line[PATH_MAX + 128];
	bool found = false;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%s/maps", pid);
	maps = fopen(name, "re");
	if (!maps)
		return false;
	while (!found && fgets(line, sizeof(line), maps)) {
		const char *at = strstr(line, prefix);

		found = at && strstr(at + strlen(prefix) - 1, ".spool");
	}
	fclose(maps);
	return found;
}

bool spool_anybody(const char *file)
{
	char *prefix = spool_real_name(file, ".");
	DIR *dir = prefix ? opendir("/proc") : NULL;
	struct dirent *d;
	bool found = false;

	while (dir && !found && (d = readdir(dir)))
		found = d->d_name[0] >= '1' && d->d_name[0] <= '9' && atoi(d->d_name) != getpid() &&
			process_maps(d->d_name, prefix);
	if (dir)
		closedir(dir);
	free(prefix);
	return found;
}
