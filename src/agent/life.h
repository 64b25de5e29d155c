/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's life in a process and its threads: see life.c. */
#ifndef MAYFLY_LIFE_H
#define MAYFLY_LIFE_H

#include "agent/agent.h"
#include "format/attachment.h"

/* Brings the agent up when the process is far enough for it. True when it is on. */
bool life_start(void);

/* The program was started without the agent, which now records, or records again, as `settings` say.
 * before() is called when all is ready and nothing is recorded yet. *error: an errno, or 0. */
enum attachment life_attach(const char *settings, void (*before)(void), int *error);
/* Ends that recording. Threads may be in hooks. The spool is still mapped: spool_leave(). */
void life_detach(void);

/* From now on ends of threads and forks are noticed at once. Called by our constructor. */
void life_watch(void);

/* Prepares self for its first event, applies changed control words, notices a fork. False when
 * nothing is to be recorded now; self.sampler.left has been set to a sensible countdown. */
bool life_thread_ready(void);

/* True while switched off by its control words: nothing is sampled, frees of samples still count.
 */
bool life_dormant(void);

/* Called in a forked child that is followed, when it has a spool of its own. Set by ocaml.c. */
extern void (*life_on_fork)(void);

#endif
