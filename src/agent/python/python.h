/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of Python, in a program that the agent was attached to while it ran: see python.c. In others
 * this begins by itself, also when the program opens libpython later. */
#ifndef MAYFLY_PYTHON_H
#define MAYFLY_PYTHON_H

/* When the agent is on. Does nothing in programs without Python. */
void python_start(void);
/* Takes back what python_start() has done. */
void python_stop(void);
/* In a forked child. */
void python_forked(void);

#endif
