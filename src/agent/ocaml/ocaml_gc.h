/* SPDX-License-Identifier: Apache-2.0 */
/* Track events of OCaml's garbage collector. See ocaml_gc.c. */
#ifndef MAYFLY_OCAML_GC_H
#define MAYFLY_OCAML_GC_H

#include <stdbool.h>

/* With the runtime initialised and its lock held, or while it runs: what is in its hooks then is kept. Again: does
 * nothing. A runtime whose hooks cannot
 * be found is left alone. figures: the layout of its figures is known (OCaml 4.13, 4.14). */
void ocaml_gc_start(bool figures);

/* Called by each domain in its part of a minor collection, with its lock held; NULL: nobody. In OCaml 5 no
 * domain runs OCaml code when it begins; in OCaml 4 the minor heap is empty when it has ended. */
extern void (*ocaml_gc_minor_begun)(void);
extern void (*ocaml_gc_minor_ended)(void);

#endif
