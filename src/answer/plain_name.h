/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions, of C++ and Rust above all, without what makes them long. */
#ifndef MAYFLY_PLAIN_NAME_H
#define MAYFLY_PLAIN_NAME_H

#include <stddef.h>

#define NAME_NO_LEVEL 1000u

/*
 * Copies a name without what is inside parentheses, and with `inside` (less than 8 bytes) in place
 * of what is inside angle brackets that are nested at least `level` deep. Returns the deepest
 * nesting of angle brackets.
 *
 *	level:	    1       2                      NAME_NO_LEVEL
 *		a<...>::f() a<b<...>, d>::f()      a<b<c>, d>::f()
 *
 * Go's receivers, "(anonymous)" and Python's "<locals>" are parts of the name, and stay.
 */
unsigned name_collapse(char *buffer, size_t size, const char *name, unsigned level,
		       const char *inside);

/* The name without parameters and with all template arguments as "<>", to compare it. */
char *name_plain(char *buffer, size_t size, const char *name);

#endif
