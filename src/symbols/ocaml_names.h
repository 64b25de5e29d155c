/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml's symbols as the names in programs.
 *
 *	camlStdlib__list__map_455	Stdlib.List.map
 *	camlMain__$3e$7c_12		Main.(>|)
 *	camlMain__fun_300		Main.(fun)
 *	camlMain__entry			Main
 */
#ifndef MAYFLY_OCAML_NAMES_H
#define MAYFLY_OCAML_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the readable form of a symbol, zero-terminated, to out[0 .. size). False: it is not an
 * OCaml symbol, or too long. */
bool ocaml_demangle(const char *symbol, size_t length, char *out, size_t size);

#endif
