/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With whose rights files are opened. Spools belong to the users of their processes, who may put any file or
 * link in their place, and name any file in them; so they are read, steered and removed with their
 * owner's rights, and nothing is reached that the owner could not reach.
 */
#ifndef MAYFLY_HOST_RIGHTS_H
#define MAYFLY_HOST_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

/* For root, once: without the rights of root's groups. */
void host_rights_begin(void);

/* From now on with the rights of this user, until host_rights_end(). False, and nothing has changed:
 * this process is another user's, and not root's. */
bool host_rights_of(uid_t user);
void host_rights_end(void);

/*
 * The spool at path, opened for reading and writing, with its owner's rights taken: *owner. -1, and
 * nothing is taken: an errno in *error, EPERM when it is another user's, EINVAL when it is no regular file
 * with one name.
 */
int host_rights_open(const char *path, uid_t *owner, ino_t *inode, int *error);
/* After a host_rights_open(). */
void host_rights_close(int fd);

#endif
