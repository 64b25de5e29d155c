/* SPDX-License-Identifier: Apache-2.0 */
/* A mark in a recording that goes on, from outside of the program: an instant with the mark's text as
 * its name, as mayfly_instant() makes it from inside. */
#ifndef MAYFLY_SPOOL_MARK_H
#define MAYFLY_SPOOL_MARK_H

/* Now. 0 or an errno; EINVAL: no spool of this version; ENAMETOOLONG: the text is longer than an event's
 * name may be; ESRCH: no agent writes to the spool; ENOSPC: it is full. */
int spool_mark(const char *spool, const char *text);

#endif
