/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local variables of Python's functions that run, in all threads of all interpreters:
 *
 *	_PyRuntime -> interpreter -> thread -> frame -> the one that called it
 *		frame	code, globals, local variables
 *		code	names of its local variables; its own name
 */
#ifndef MAYFLY_PYTHON_FRAMES_H
#define MAYFLY_PYTHON_FRAMES_H

#include "heap/python_objects.h"

/* Adds a holder for each. False: out of memory. */
bool python_frames_find(struct python_objects *o);

#endif
