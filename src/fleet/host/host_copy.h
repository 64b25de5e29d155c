/* SPDX-License-Identifier: Apache-2.0 */
/* Spools of a host's users as traces, from copies that no one can change. For one thread at a time. */
#ifndef MAYFLY_HOST_COPY_H
#define MAYFLY_HOST_COPY_H

#include <stdint.h>
#include <sys/types.h>

#include "record/live_trace.h"

/* Names of functions, which are kept for some users each, as one may read what another may not. */
#define HOST_SESSIONS 4u

struct host_session {
	struct live_session *session; /* NULL: none */
	uid_t owner;
	uint64_t used;
	unsigned int traces; /* named with it */
};

/* All zero: no names are known. */
struct host_copies {
	struct host_session session[HOST_SESSIONS];
	uint64_t uses;
};

/* The spool that is open, of `most` bytes at most; the rights are the owner's. 0, an errno, or a negative enum
 * mayfly_error. */
int host_copy_open(struct host_copies *c, uid_t owner, int fd, uint64_t most, bool names,
		   struct live_trace *trace);
void host_copies_end(struct host_copies *c);

#endif
