/* SPDX-License-Identifier: Apache-2.0 */
/* Adds holders to Python's objects, and makes their names. */
#ifndef MAYFLY_PYTHON_HOLDERS_H
#define MAYFLY_PYTHON_HOLDERS_H

#include "heap/python_objects.h"

/* False: out of memory. */
bool python_holders_add(struct python_objects *o, const char *name, enum python_rank rank);
/* One more object of the latest holder. */
bool python_holders_add_value(struct python_objects *o, uint64_t value);
/* A holder of one object. When there are too many, it is left out. */
bool python_holders_hold(struct python_objects *o, const char *name, uint64_t value,
			 enum python_rank rank);

#endif
