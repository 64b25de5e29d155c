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
#include <unistd.h>

#define NO_GROUP 65534 /* of users that this system does not know */

static bool taken;

void host_rights_begin(void)
{
	/* If it fails, so does setegid() in take_rights(): both need CAP_SETGID. */
	if (!getuid() && setgroups(0, NULL))
		return;
}

/* Takes the rights of this user. False: they cannot be taken, and nothing has changed. */
static bool take_rights(uid_t user)
{
	const struct passwd *known;

	if (user == getuid())
		return true;
	if (getuid())
		return false;
	known = getpwuid(user);
	if (setegid(known ? known->pw_gid : NO_GROUP))
		return false;
	taken = !seteuid(user);
	if (!taken && setegid(getgid()))
		abort();
	return taken;
}

void host_rights_end(void)
{
	/* Going on with another user's rights would be wrong in ways that nobody notices. */
	if (taken && (seteuid(getuid()) || setegid(getgid())))
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
