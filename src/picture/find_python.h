/* SPDX-License-Identifier: Apache-2.0 */
/* Which Python interpreter is in a process, by the variables that each one exports. */
#ifndef MAYFLY_FIND_PYTHON_H
#define MAYFLY_FIND_PYTHON_H

#include "heap/python_interpreter.h"
#include "picture/loaded_modules.h"

enum python_state {
	PYTHON_NONE,
	PYTHON_KNOWN,
	PYTHON_UNKNOWN, /* a version whose memory is not known here */
};

/* The version is 0 where the interpreter does not say it: before 3.11. */
enum python_state find_python(struct python_interpreter *p, const struct loaded_modules *m,
			      struct memory_source *s);

#endif
