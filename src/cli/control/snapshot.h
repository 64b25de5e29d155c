/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording that goes on holds now: opened, or written as a trace of its own. */
#ifndef MAYFLY_SNAPSHOT_H
#define MAYFLY_SNAPSHOT_H

#include "record/live_trace.h"

/* As live_trace_open(). What the recorder has in its file may be a second old, unless it was asked
 * before: so this takes about a second where the recorder has read a part of the spool. */
int snapshot_open(struct live_session *session, const char *spool, struct live_trace *live);

/* An exit status, other than 0 after a line on stderr. */
int snapshot_write(const char *spool, const char *output, bool force);

#endif
