/* SPDX-License-Identifier: Apache-2.0 */
/* Names that hold Python's objects: of modules, of classes, and local variables of functions that run. */
#ifndef MAYFLY_PYTHON_NAMES_H
#define MAYFLY_PYTHON_NAMES_H

#include "heap/python_objects.h"

/* Adds all of them. False: out of memory. */
bool python_names_find(struct python_objects *o);

#endif
