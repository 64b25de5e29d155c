/* SPDX-License-Identifier: Apache-2.0 */
/* A Python interpreter in a process, as whoever has the image describes it. */
#ifndef MAYFLY_PYTHON_INTERPRETER_H
#define MAYFLY_PYTHON_INTERPRETER_H

#include <stdint.h>

#define PYTHON_OLDEST 311u
#define PYTHON_NEWEST 313u

struct python_interpreter {
	unsigned int version; /* 311 for 3.11; between PYTHON_OLDEST and PYTHON_NEWEST */
};

#endif
