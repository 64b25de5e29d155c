/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that would pass the hooks by: see bypass.c.
 */
#ifndef MAYFLY_BYPASS_H
#define MAYFLY_BYPASS_H

#include <stdbool.h>

#include "agent/agent.h"

/* When the agent is loaded. False: the program never calls the hooks, but a malloc of its own, and
 * reports no blocks either. */
bool bypass_start(void);

/* This thread is about to open a library. */
void bypass_dlopen(int mode);

/* Called in dlsym, in a thread that has opened a library since: its constructors have run. NULL: nobody
 * waits for a library. Set by interpreter.c. */
HIDDEN extern void (*bypass_opened)(void);

/* This thread is about to load a library into another namespace. */
void bypass_dlmopen(void);

#endif
