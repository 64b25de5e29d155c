/* SPDX-License-Identifier: Apache-2.0 */
/* Spools as traces: see host_copy.h. */
#include "fleet/host/host_copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "record/spool_copy.h"

/* After so many traces, names of files that are gone have had their time. */
#define SESSION_TRACES 1000

/* ---- names ---- */

static struct live_session *session_of(struct host_copies *c, uid_t owner)
{
	struct host_session *s = c->session;

	for (size_t i = 0; i < HOST_SESSIONS; i++) {
		struct host_session *other = &c->session[i];

		if (other->session && other->owner == owner) {
			s = other;
			break;
		}
		if (other->used < s->used)
			s = other;
	}
	if (s->session && (s->owner != owner || s->traces >= SESSION_TRACES)) {
		live_session_free(s->session);
		s->session = NULL;
	}
	if (!s->session)
		*s = (struct host_session){.session = live_session_new(), .owner = owner};
	s->used = ++c->uses;
	s->traces++;
	return s->session;
}

void host_copies_end(struct host_copies *c)
{
	for (size_t i = 0; i < HOST_SESSIONS; i++)
		live_session_free(c->session[i].session);
	memset(c->session, 0, sizeof(c->session));
}

/* ---- copies ---- */

int host_copy_open(struct host_copies *c, uid_t owner, int fd, uint64_t most, bool names,
		   struct live_trace *trace)
{
	struct live_session *session = names ? session_of(c, owner) : NULL;
	int64_t copied_ns = now_ns();
	void *copy;
	size_t size;
	int error = spool_copy(fd, most, &copy, &size);

	if (error)
		return error;
	error = names && !session ? MAYFLY_E_MEMORY
				  : live_trace_open_copy(session, copy, size, copied_ns, trace);
	free(copy);
	return error;
}
