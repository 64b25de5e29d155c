/* SPDX-License-Identifier: Apache-2.0 */
/* Track events of OCaml's garbage collector. See ocaml_gc.c. */
#ifndef MAYFLY_OCAML_GC_H
#define MAYFLY_OCAML_GC_H

#include <stdbool.h>

/* With the runtime up and its lock held; once. Where the runtime shows no hooks, nothing happens.
 * figures: the layout of its figures is known (OCaml 4.13). */
void ocaml_gc_start(bool figures);

#endif
