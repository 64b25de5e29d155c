/* SPDX-License-Identifier: Apache-2.0 */
/* The files of JIT compilers: see jit_files.h. */
#include "record/jit_files.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system/process_file.h"
#include "base/system/clock.h"

#define LARGEST	    ((off_t)1 << 30)
#define FIRST_PAUSE 100000000u
#define LAST_PAUSE  1000000000u
#define FLAGS	    (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW)

void jit_files_start(struct jit_files *f)
{
	*f = (struct jit_files){.fd = {-1, -1}, .owner = geteuid(), .pause_ns = FIRST_PAUSE};
}

void jit_files_close(struct jit_files *f)
{
	for (int i = 0; i < JIT_FILES; i++) {
		if (f->fd[i] >= 0)
			close(f->fd[i]);
		f->fd[i] = -1;
	}
}

/* Anybody may write to /tmp, and guess a PID: root does not believe everybody either. */
static bool is_trusted(const struct jit_files *f, int fd, struct stat *st)
{
	return !fstat(fd, st) && S_ISREG(st->st_mode) && !(st->st_mode & S_IWOTH) &&
	       (st->st_uid == geteuid() || st->st_uid == f->owner || st->st_uid == 0);
}

static bool take(struct jit_files *f, enum jit_file which, int fd)
{
	struct stat st;

	if (fd < 0)
		return false;
	if (!is_trusted(f, fd, &st)) {
		close(fd);
		return false;
	}
	if (f->fd[which] >= 0)
		close(f->fd[which]);
	f->fd[which] = fd;
	return true;
}

/* Open, and not replaced by another file or removed. */
static bool has(const struct jit_files *f, enum jit_file which)
{
	struct stat st;

	return f->fd[which] >= 0 && !fstat(f->fd[which], &st) && st.st_nlink > 0;
}

/* Links in the process's root lead to places below that. */
static int open_below(int root, const char *path)
{
	struct open_how how = {.flags = FLAGS, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

	return root < 0 ? -1 : (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* ---- the mapped file ---- */

/* "7f..-7f.. r-xp 00000000 fe:01 4711   /folder/jit-12.dump": the path, or NULL. */
static char *mapped_dump(char *line, const char *name, unsigned long *inode)
{
	int at = 0;
	size_t length;

	line[strcspn(line, "\n")] = 0;
	length = strlen(line);
	if (length < strlen(name) || strcmp(line + length - strlen(name), name) != 0 ||
	    sscanf(line, "%*x-%*x %*s %*x %*x:%*x %lu %n", inode, &at) != 1 || line[at] != '/')
		return NULL;
	return line + at;
}

static void open_dump(struct jit_files *f, int root, const char *path, unsigned long inode)
{
	/* The path is ours, or the one in a mount namespace below. */
	for (int way = 0; way < 2; way++) {
		int fd = way ? open(path, FLAGS) : open_below(root, path);
		struct stat st;

		if (fd >= 0 && (fstat(fd, &st) || st.st_ino != inode)) {
			close(fd);
			continue;
		}
		if (take(f, JIT_DUMP, fd))
			return;
	}
}

static void find_dump(struct jit_files *f, pid_t pid, pid_t inner, int root)
{
	int fd = process_file_open(pid, "maps");
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
	char line[PATH_MAX + 128], name[32];
	unsigned long inode;

	if (!maps) {
		if (fd >= 0)
			close(fd);
		return;
	}
	snprintf(name, sizeof(name), "/jit-%d.dump", (int)inner);
	while (!has(f, JIT_DUMP) && fgets(line, sizeof(line), maps)) {
		const char *path = mapped_dump(line, name, &inode);

		if (path)
			open_dump(f, root, path, inode);
	}
	fclose(maps);
}

/* ---- when to look ---- */

void jit_files_look(struct jit_files *f, pid_t pid, pid_t inner)
{
	uint64_t now = now_ns();
	char path[64];
	struct stat st;
	int root;

	if (now < f->next_ns)
		return;
	f->next_ns = now + f->pause_ns;
	f->pause_ns = 2 * f->pause_ns < LAST_PAUSE ? 2 * f->pause_ns : LAST_PAUSE;
	root = process_file_open(pid, "root");
	if (root >= 0 && !fstat(root, &st)) {
		snprintf(path, sizeof(path), "/proc/%d", (int)pid);
		if (!stat(path, &st))
			f->owner = st.st_uid;
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)inner);
		if (!has(f, JIT_MAP))
			take(f, JIT_MAP, open_below(root, path));
	}
	if (!has(f, JIT_DUMP))
		find_dump(f, pid, inner, root);
	if (root >= 0)
		close(root);
}

void jit_files_last(struct jit_files *f, pid_t inner)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)inner);
	if (!has(f, JIT_MAP))
		take(f, JIT_MAP, open(path, FLAGS));
	/* Where node and python put it: the program was mostly started in our own folder. */
	snprintf(path, sizeof(path), "/tmp/jit-%d.dump", (int)inner);
	for (const char *at = strrchr(path, '/') + 1; !has(f, JIT_DUMP); at = path) {
		take(f, JIT_DUMP, open(at, FLAGS));
		if (at == path)
			break;
	}
}

/* ---- reading ---- */

/* Read, not mapped: its owner may cut it meanwhile. */
char *jit_files_read(const struct jit_files *f, enum jit_file which, int64_t start_real_ns,
		     size_t *size)
{
	int fd = f->fd[which];
	struct stat st;
	size_t used = 0;
	ssize_t n = 1;
	char *data;

	if (fd < 0 || !is_trusted(f, fd, &st) || st.st_size <= 0 || st.st_size > LARGEST ||
	    st.st_mtim.tv_sec < start_real_ns / 1000000000)
		return NULL;
	data = malloc((size_t)st.st_size);
	for (; data && used < (size_t)st.st_size && n > 0; used += n > 0 ? (size_t)n : 0)
		n = pread(fd, data + used, (size_t)st.st_size - used, (off_t)used);
	*size = used;
	return data;
}
