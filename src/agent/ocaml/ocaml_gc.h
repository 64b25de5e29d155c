/* SPDX-License-Identifier: Apache-2.0 */
/* Track events of OCaml's garbage collector. See ocaml_gc.c. */
#ifndef MAYFLY_OCAML_GC_H
#define MAYFLY_OCAML_GC_H

#include <stdbool.h>

/* To be called once, with the runtime initialised and its lock held. A runtime whose hooks cannot
 * be found is left alone. figures: the layout of its figures is known (OCaml 4.13, 4.14). */
void ocaml_gc_start(bool figures);

#endif
