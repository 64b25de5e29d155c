/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With whose rights `mayfly agent` opens spools. A spool belongs to the user of its process, who may
 * put any file or link in its place and any file name into it. So spools are read, steered and
 * removed with the rights of their owner, and reach nothing that the owner could not reach. Only the thread that
 * takes the rights has them.
 */
#ifndef MAYFLY_HOST_RIGHTS_H
#define MAYFLY_HOST_RIGHTS_H

#include <sys/types.h>

/* Once, before all others and before there are threads: root gives up its supplementary groups. */
void host_rights_begin(void);

/*
 * Opens the spool at path for reading and writing, and takes the rights of its owner (*owner) until
 * host_rights_close() or host_rights_end(). -1: *error is an errno, and no rights are taken. EPERM:
 * the spool is another user's, and this process is not root's. EINVAL: it is no regular file with
 * exactly one name.
 */
int host_rights_open(const char *path, uid_t *owner, ino_t *inode, int *error);
/* Also after a host_rights_open() that failed. */
void host_rights_close(int fd);
/* Gives the owner's rights back; the spool stays open. */
void host_rights_end(void);

#endif
