/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that would pass the hooks by: see bypass.c.
 */
#ifndef MAYFLY_BYPASS_H
#define MAYFLY_BYPASS_H

/* When the agent is loaded. */
void bypass_start(void);

/* The program calls this malloc, never ours. */
void bypass_own_malloc(const void *function);

/* This thread is about to open a library. */
void bypass_dlopen(int mode);

/* This thread is about to load a library into another namespace. */
void bypass_dlmopen(void);

#endif
