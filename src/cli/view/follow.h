/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording that goes on, shown while it does: about once a second as a trace of what there is so
 * far, and at its end as the trace that the recorder made of it.
 */
#ifndef MAYFLY_FOLLOW_H
#define MAYFLY_FOLLOW_H

#include "cli/view/viewing.h"

struct follow;

/* Begins to show it, in a thread of its own. ours: this process is the recorder, and will call
 * follow_last(). False after a line on stderr. */
bool follow_start(struct viewing *v, const char *spool, bool ours, struct follow **out);

/* The recorder is done: shows the last there is. False: there was never anything to show. */
bool follow_last(struct follow *f);

/* Ends it, or, when a trace is just being opened, the process, with `status`. */
void follow_stop(struct follow *f, int status);
/* After the server has stopped: what was shown needs it. */
void follow_free(struct follow *f);

#endif
