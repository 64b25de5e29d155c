/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of OCaml's as programs write them.
 *
 *	as the runtime has it		Stdlib__List.map		Stdlib.List.map
 *	as the linker has it		camlStdlib__list__map_455	Stdlib.List.map
 *					camlMain__$3e$7c_12		Main.(>|)
 *					camlMain__fun_300		Main.(fun)
 *					camlMain__entry			Main
 */
#ifndef MAYFLY_OCAML_NAMES_H
#define MAYFLY_OCAML_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Changes the runtime's name in place; its new length. */
size_t ocaml_join_modules(char *name, size_t length);

/* The readable form of a symbol, zero-terminated, in out[0 .. size). False: it is none of OCaml's,
 * or too long. */
bool ocaml_demangle(const char *symbol, size_t length, char *out, size_t size);

#endif
