/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program does with code and with processes: see process.c. Events only; what fork and
 * exec need of the agent itself is in agent.c and environment.c.
 */
#ifndef MAYFLY_PROCESS_H
#define MAYFLY_PROCESS_H

#include "agent/unwind/walk.h"

/* Finds the functions underneath, before anybody may fork: dlsym has no place in the child of a
 * vfork. */
void process_look_up(void);

/* The process is about to become this program; it did not, and errno says why. */
void process_exec(const char *path, const struct walk_start *at);
void process_exec_fd(int fd, const struct walk_start *at);
void process_exec_failed(const struct walk_start *at);

/* Before the real dlclose. */
void process_dlclose(void *handle, const struct walk_start *at);

#endif
