/* SPDX-License-Identifier: Apache-2.0 */
/* The program's exit: see leave.c. */
#ifndef MAYFLY_LEAVE_H
#define MAYFLY_LEAVE_H

/* From now on the status of exit() is left in the spool. */
void leave_watch(void);

/* The program is about to exit, and nothing of it will run but what the caller calls. If a picture of its
 * heap is wanted, waits until the recorder has taken it: as long as that stops the program, which counts as
 * nothing, and else for some 10 s at most; not at all without a recorder. */
void leave_last_heap(void);

#endif
