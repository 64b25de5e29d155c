/* SPDX-License-Identifier: Apache-2.0 */
/* A Python interpreter in a process, as whoever has the image describes it. */
#ifndef MAYFLY_PYTHON_INTERPRETER_H
#define MAYFLY_PYTHON_INTERPRETER_H

#include <stdint.h>

#define PYTHON_OLDEST 311u
#define PYTHON_NEWEST 313u

/* Addresses are 0 where no symbol names them. */
struct python_interpreter {
	unsigned int version; /* 311 for 3.11; between PYTHON_OLDEST and PYTHON_NEWEST */
	uint64_t type_type;   /* PyType_Type */
	uint64_t module_type, weakref_type, set_type, frozenset_type, code_type;
	uint64_t runtime; /* _PyRuntime */
};

#endif
