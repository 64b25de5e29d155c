/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool's pages can go at any time: somebody empties the file, its file system is full or broken.
 * Then the next load or store in them is a SIGBUS, which ends programs. While recording goes on, that
 * signal is ours first:
 *
 *	SIGBUS ── of the spool ──> memory takes its place, the agent is off, the program goes on
 *	  └────── any other ─────> what the program wants to be done, as if we were not there
 *
 * The program's own calls about SIGBUS come here, and see and change only what it wants itself.
 */
#ifndef MAYFLY_FAULT_H
#define MAYFLY_FAULT_H

#include <stdbool.h>

/* Takes the signal, before the spool is opened; false: it does not, as the program ignores it. Weak: static
 * programs and those of musl go without. */
extern bool fault_guard(void) __attribute__((weak));
/* Gives it back. */
extern void fault_leave(void) __attribute__((weak));

#endif
