/* SPDX-License-Identifier: Apache-2.0 */
/* The program's exit: see leave.c. */
#ifndef MAYFLY_LEAVE_H
#define MAYFLY_LEAVE_H

/* From now on the status of exit() is left in the spool. */
void leave_watch(void);

#endif
