/* SPDX-License-Identifier: Apache-2.0 */
/* The rights of a spool's owner: see host_rights.h. */
#include "fleet/host/host_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_GROUP 65534 /* of users that this system does not know */

static _Thread_local bool taken;

/* The kernel has rights for each thread; libc's functions change those of all threads. */
static bool set_user(uid_t user)
{
	return !syscall(SYS_setresuid, (uid_t)-1, user, (uid_t)-1);
}

static bool set_group(gid_t group)
{
	return !syscall(SYS_setresgid, (gid_t)-1, group, (gid_t)-1);
}

void host_rights_begin(void)
{
	/* If it fails, so does set_group() in take_rights(): both need CAP_SETGID. */
	if (!getuid() && setgroups(0, NULL))
		return;
}

/* Takes the rights of this user. False: they cannot be taken, and nothing has changed. */
static bool take_rights(uid_t user)
{
	struct passwd *known = NULL, entry;
	char text[4096];

	if (user == getuid())
		return true;
	if (getuid())
		return false;
	if (getpwuid_r(user, &entry, text, sizeof(text), &known))
		known = NULL;
	if (!set_group(known ? known->pw_gid : NO_GROUP))
		return false;
	taken = set_user(user);
	if (!taken && !set_group(getgid()))
		abort();
	return taken;
}

void host_rights_end(void)
{
	/* Going on with another user's rights would be wrong in ways that nobody notices. */
	if (taken && (!set_user(getuid()) || !set_group(getgid())))
		abort();
	taken = false;
}

int host_rights_open(const char *path, uid_t *owner, ino_t *inode, int *error)
{
	struct stat seen, opened;
	int fd;

	*error = lstat(path, &seen) ? errno : S_ISREG(seen.st_mode) ? 0 : EINVAL;
	if (!*error && !take_rights(seen.st_uid))
		*error = EPERM;
	if (*error)
		return -1;
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	*error = fd < 0 ? errno : fstat(fd, &opened) ? errno : 0;
	if (!*error && (!S_ISREG(opened.st_mode) || opened.st_nlink != 1 ||
			opened.st_uid != seen.st_uid || opened.st_ino != seen.st_ino))
		*error = EINVAL;
	if (*error) {
		host_rights_close(fd);
		return -1;
	}
	*owner = opened.st_uid;
	*inode = opened.st_ino;
	return fd;
}

void host_rights_close(int fd)
{
	if (fd >= 0)
		close(fd);
	host_rights_end();
}
