/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One spelling of OCaml's functions, whichever way a name came in: the agent, the OCaml library, a
 * Memtrace file. Names in symbols are symbols/ocaml_names.h's.
 */
#ifndef MAYFLY_OCAML_SPELLING_H
#define MAYFLY_OCAML_SPELLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The runtime calls a function of a library's unit Stdlib__List.map or, in some versions of OCaml 4,
 * Stdlib__list.map; programmers call it Stdlib.List.map. Changes such a name in place and returns its
 * new length, which is not larger. What comes after the unit's '.' stays as it is. *change is what
 * ocaml_spelled_before() needs: 2 for each "__" that became a '.', and 1 for the capital letter.
 */
size_t ocaml_spelling(char *name, size_t length, uint16_t *change);

/* The name before the change, zero-terminated, in out[0 .. size). False: it is too long, or no name
 * can have been changed like this. */
bool ocaml_spelled_before(const char *name, uint16_t change, char *out, size_t size);

#endif
