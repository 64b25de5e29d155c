/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and variables of OCaml's runtime, by name: ocamlopt links programs with -E, so stripped ones have the
 * names, too. */
#ifndef MAYFLY_OCAML_LOOK_UP_H
#define MAYFLY_OCAML_LOOK_UP_H

#include "agent/image.h"

/* From now on only there, without dlsym: where that finds nothing, it leaves a message for the program's
 * dlerror(). */
void ocaml_look_in(const struct image *image);

/* Also put into *to, unless that is NULL. NULL: there is none of this name. */
void *ocaml_look_up(const char *name, void *to);

#endif
