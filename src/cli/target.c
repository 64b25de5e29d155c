/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders that are there whole or not at all: see target.h. */
#include "cli/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "terminal/border.h"
#include "terminal/message.h"

static bool failed(const struct target *t, int error)
{
	if (strcmp(t->path, "-") == 0)
		cli_error("standard output: %s", strerror(error));
	else
		cli_error("cannot write '%s': %s", t->path, strerror(error));
	return false;
}

/* Removes a folder of regular files. If it holds anything else, that stays, and so does the folder.
 * 0 or an errno. */
static int remove_folder(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int error = 0;

	if (!folder)
		return errno;
	while ((entry = readdir(folder)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(folder), entry->d_name, 0) != 0)
			error = errno;
	}
	closedir(folder);
	return rmdir(path) != 0 && !error ? errno : error;
}

/* ---- what has a name goes when a signal ends mayfly ---- */

/* The one target that a library writes to by its name. */
static char *volatile unfinished;

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ, SIGXCPU};
#define ENDINGS (sizeof(ending) / sizeof(*ending))

/* readdir() may allocate memory, which signal handlers must not do. */
static void remove_entries(int folder)
{
	/* The layout of getdents64(2): inode, offset, length of the entry, type, name. */
	enum { LENGTH_AT = 16, NAME_AT = 19 };
	char buffer[4096];
	long got;

	while ((got = syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < got;) {
			unsigned short length;

			memcpy(&length, buffer + at + LENGTH_AT, sizeof(length));
			unlinkat(folder, buffer + at + NAME_AT, 0);
			at += length;
		}
	}
}

static void on_ending_signal(int signal_number)
{
	int folder = open(unfinished, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (folder >= 0) {
		remove_entries(folder);
		rmdir(unfinished);
	} else {
		unlink(unfinished);
	}
	/* SA_RESETHAND: now it ends mayfly, as soon as this returns. */
	raise(signal_number);
}

static void watch_signals(char *temporary)
{
	struct sigaction action = {.sa_handler = on_ending_signal, .sa_flags = (int)SA_RESETHAND};
	struct sigaction old;

	unfinished = temporary;
	for (size_t i = 0; i < ENDINGS; i++)
		if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(ending[i], &action, NULL);
}

static void let_signals_be(void)
{
	struct sigaction old;

	if (!unfinished)
		return;
	for (size_t i = 0; i < ENDINGS; i++)
		if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler == on_ending_signal)
			signal(ending[i], SIG_DFL);
	unfinished = NULL;
}

static void forget(struct target *t)
{
	let_signals_be();
	if (t->file && t->file != border_data())
		fclose(t->file);
	if (t->temporary && t->folder)
		remove_folder(t->temporary);
	else if (t->temporary)
		unlink(t->temporary);
	free(t->temporary);
	free(t->real);
	*t = (struct target){.path = t->path};
}

static int open_unnamed(const struct target *t)
{
	const char *slash = strrchr(t->real, '/');
	size_t length = slash ? (size_t)(slash - t->real) : 0;
	char *folder = slash ? strndup(t->real, length ? length : 1) : strdup(".");
	int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;

	free(folder);
	return fd;
}

/* Keeps errno. */
static void drop_temporary_name(struct target *t)
{
	int error = errno;

	free(t->temporary);
	t->temporary = NULL;
	errno = error;
}

static char *temporary_name(const struct target *t)
{
	char *name;

	return asprintf(&name, "%s.%ld.tmp", t->real, (long)getpid()) < 0 ? NULL : name;
}

/* -1 with errno: nothing was made. */
static int open_temporary(struct target *t)
{
	int fd;

	t->temporary = temporary_name(t);
	if (!t->temporary)
		return -1;
	unlink(t->temporary); /* of a process that was killed */
	fd = open(t->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		drop_temporary_name(t); /* not ours: forget() must not remove it */
	return fd;
}

/* Without a name, the file of a killed mayfly disappears by itself; not every file system supports
 * that. */
static int open_new(struct target *t)
{
	int fd = open_unnamed(t);

	if (fd >= 0)
		return fd;
	return open_temporary(t);
}

bool target_open(struct target *t, const char *path, bool force)
{
	struct stat st;
	bool exists;
	int fd;

	*t = (struct target){.path = path, .replace = force};
	if (strcmp(path, "-") == 0) {
		t->file = border_data();
		return true;
	}
	exists = stat(path, &st) == 0;
	if (exists && S_ISDIR(st.st_mode))
		return cli_fail("'%s' is a folder; use -o FILE", path);
	if (exists && S_ISREG(st.st_mode) && st.st_size > 0 && !force)
		return cli_fail("'%s' exists; use another name or --force", path);
	if (exists && !S_ISREG(st.st_mode)) {
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	} else {
		t->replace |= exists; /* empty, as from mktemp */
		t->real = exists ? realpath(path, NULL) : strdup(path);
		fd = t->real ? open_new(t) : -1;
	}
	if (fd >= 0)
		t->file = fdopen(fd, "wb");
	if (!t->file) {
		failed(t, errno);
		if (fd >= 0)
			close(fd);
		forget(t);
		return false;
	}
	return true;
}

/* ---- what is written by name ---- */

static bool open_failed(struct target *t, int error)
{
	failed(t, error);
	forget(t);
	return false;
}

bool target_open_named(struct target *t, const char *path, bool force)
{
	struct stat st;
	bool exists = stat(path, &st) == 0;
	int fd;

	*t = (struct target){.path = path, .replace = force || exists};
	if (strcmp(path, "-") == 0)
		return cli_fail("this format cannot go to standard output; use -o FILE");
	if (exists && S_ISDIR(st.st_mode))
		return cli_fail("'%s' is a folder; use -o FILE", path);
	if (exists && !S_ISREG(st.st_mode))
		return cli_fail("'%s' is not a regular file, which this format needs", path);
	if (exists && st.st_size > 0 && !force)
		return cli_fail("'%s' exists; use another name or --force", path);
	t->real = exists ? realpath(path, NULL) : strdup(path);
	fd = t->real ? open_temporary(t) : -1;
	if (fd < 0)
		return open_failed(t, errno);
	close(fd);
	watch_signals(t->temporary);
	return true;
}

/* Whether a folder is empty; whether an export made it: only regular files, one of them the
 * landmark. */
static bool look_into(const char *path, const char *landmark, bool *empty, bool *ours)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	struct stat st;

	*empty = true;
	*ours = false;
	if (!folder)
		return false;
	while ((entry = readdir(folder)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		*empty = false;
		if (fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(st.st_mode)) {
			*ours = false;
			break;
		}
		*ours |= strcmp(entry->d_name, landmark) == 0;
	}
	closedir(folder);
	return true;
}

static bool may_replace_folder(const char *path, const char *landmark, bool force)
{
	bool empty, ours;

	if (!look_into(path, landmark, &empty, &ours))
		return cli_fail("cannot read '%s': %s", path, strerror(errno));
	if (empty)
		return true;
	if (!force)
		return cli_fail("'%s' exists; use another name or --force", path);
	if (!ours)
		return cli_fail("'%s' holds other things than such a trace; use another name",
				path);
	return true;
}

bool target_open_folder(struct target *t, const char *path, const char *landmark, bool force)
{
	size_t length = strlen(path);
	struct stat st;
	bool exists = stat(path, &st) == 0;

	*t = (struct target){.path = path, .folder = true, .replace = force || exists};
	if (strcmp(path, "-") == 0)
		return cli_fail("this format is a folder; name it with -o");
	if (exists && !S_ISDIR(st.st_mode))
		return cli_fail("'%s' is no folder, which this format is; use another name", path);
	if (exists && !may_replace_folder(path, landmark, force))
		return false;
	while (length > 1 && path[length - 1] == '/')
		length--;
	t->real = exists ? realpath(path, NULL) : strndup(path, length);
	t->temporary = t->real ? temporary_name(t) : NULL;
	if (!t->temporary)
		return open_failed(t, errno);
	remove_folder(t->temporary); /* of a process that was killed */
	if (mkdir(t->temporary, 0777) != 0) {
		drop_temporary_name(t);
		return open_failed(t, errno);
	}
	watch_signals(t->temporary);
	return true;
}

/* rename() replaces an empty folder, and no other. */
static int take_folder_name(struct target *t)
{
	if (t->replace ? rename(t->temporary, t->real)
		       : renameat2(AT_FDCWD, t->temporary, AT_FDCWD, t->real, RENAME_NOREPLACE)) {
		if (!t->replace && errno == EINVAL) /* as in take_name() */
			return rename(t->temporary, t->real) ? errno : 0;
		if (!t->replace || (errno != ENOTEMPTY && errno != EEXIST))
			return errno;
		/* forget() then removes the old one, which has the temporary name. */
		return renameat2(AT_FDCWD, t->temporary, AT_FDCWD, t->real, RENAME_EXCHANGE) ? errno
											     : 0;
	}
	let_signals_be();
	drop_temporary_name(t);
	return 0;
}

/* ---- the end ---- */

int target_sink(void *target, const void *bytes, size_t size)
{
	struct target *t = target;

	errno = 0;
	if (fwrite(bytes, 1, size, t->file) == size)
		return 0;
	return errno ? errno : EIO;
}

/* A name for the file without one. 0 or an errno. */
static int give_name(struct target *t, const char *name)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fileno(t->file));
	return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) ? errno : 0;
}

static int take_name(struct target *t)
{
	int error;

	if (!t->temporary) {
		error = give_name(t, t->real);
		if (error != EEXIST || !t->replace)
			return error;
		t->temporary = temporary_name(t);
		if (!t->temporary)
			return ENOMEM;
		unlink(t->temporary);
		error = give_name(t, t->temporary);
		if (error)
			return error;
	}
	if (t->replace ? rename(t->temporary, t->real)
		       : renameat2(AT_FDCWD, t->temporary, AT_FDCWD, t->real, RENAME_NOREPLACE)) {
		/* The file system cannot promise not to replace a file; there was none before. */
		if (t->replace || errno != EINVAL || rename(t->temporary, t->real))
			return errno;
	}
	let_signals_be();
	drop_temporary_name(t);
	return 0;
}

bool target_finish(struct target *t)
{
	int error = 0;

	errno = 0;
	if (t->file && (fflush(t->file) != 0 || ferror(t->file)))
		error = errno ? errno : EIO;
	if (!error && t->real)
		error = t->folder ? take_folder_name(t) : take_name(t);
	if (error)
		failed(t, error);
	forget(t);
	return !error;
}

void target_drop(struct target *t, int error)
{
	if (error)
		failed(t, error);
	forget(t);
}
