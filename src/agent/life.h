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

/* Prepares self for its first event, and notices a fork. False when nothing is to be recorded now. */
bool life_thread_ready(void);

/* After each sampler_take, when its block has been recorded: applies changed control words. */
void life_settle(void);

/* life_thread_ready() was false for an allocation that came to the slow path. */
void life_pass(size_t size, uintptr_t caller);

/* Around a fork, in its thread; in the child, before anything else. libc's fork() calls them. */
void life_before_fork(void);
void life_after_fork_parent(void);
void life_after_fork_child(void);
/* This may be the child of a fork that they were not called for. */
void life_find_fork(void);

/* Called in a forked child that is followed, when it has a spool of its own. Set by ocaml.c. */
extern void (*life_on_fork)(void);
/* Called in each forked child: the threads that may have had a lock are not there. Set by attached.c. */
extern void (*life_forget_locks)(void);

#endif
