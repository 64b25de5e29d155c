/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are there whole or not at all: see target.h. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static bool failed(const struct target *t, int error)
{
	if (strcmp(t->path, "-") == 0)
		cli_error("standard output: %s", strerror(error));
	else
		cli_error("cannot write '%s': %s", t->path, strerror(error));
	return false;
}

static void forget(struct target *t)
{
	if (t->file && t->file != stdout)
		fclose(t->file);
	if (t->temporary)
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

static char *temporary_name(const struct target *t)
{
	char *name;

	return asprintf(&name, "%s.%ld.tmp", t->real, (long)getpid()) < 0 ? NULL : name;
}

/* Without a name, what is left of a killed mayfly goes by itself; not every file system can. */
static int open_new(struct target *t)
{
	int fd = open_unnamed(t);

	if (fd >= 0)
		return fd;
	t->temporary = temporary_name(t);
	if (!t->temporary)
		return -1;
	unlink(t->temporary); /* of a process that was killed */
	fd = open(t->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0) {
		free(t->temporary);
		t->temporary = NULL;
	}
	return fd;
}

bool target_open(struct target *t, const char *path, bool force)
{
	struct stat st;
	bool exists;
	int fd;

	*t = (struct target){.path = path, .replace = force};
	if (strcmp(path, "-") == 0) {
		t->file = stdout;
		return true;
	}
	exists = stat(path, &st) == 0;
	if (exists && S_ISDIR(st.st_mode)) {
		cli_error("'%s' is a folder; name a file with -o", path);
		return false;
	}
	if (exists && S_ISREG(st.st_mode) && st.st_size > 0 && !force) {
		cli_error("'%s' exists; use another name or --force", path);
		return false;
	}
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
		/* A file system that cannot promise not to replace: nothing was there before. */
		if (t->replace || errno != EINVAL || rename(t->temporary, t->real))
			return errno;
	}
	free(t->temporary);
	t->temporary = NULL;
	return 0;
}

bool target_finish(struct target *t)
{
	int error = 0;

	errno = 0;
	if (fflush(t->file) != 0 || ferror(t->file))
		error = errno ? errno : EIO;
	if (!error && t->real)
		error = take_name(t);
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
