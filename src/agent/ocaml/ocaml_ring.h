/* SPDX-License-Identifier: Apache-2.0 */
/* The events that OCaml 5's runtime writes for the recorder: see ocaml_ring.c. */
#ifndef MAYFLY_OCAML_RING_H
#define MAYFLY_OCAML_RING_H

#include <stdbool.h>

/* The runtime writes events, and the recorder reads them: collections need no other spans. */
bool ocaml_ring_is_read(void);
/* To be called once the runtime has started. */
void ocaml_ring_hide(void);

#endif
