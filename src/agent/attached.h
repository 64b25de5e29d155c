/* SPDX-License-Identifier: Apache-2.0 */
/* The agent in a program that ran already: see attached.c. */
#ifndef MAYFLY_ATTACHED_H
#define MAYFLY_ATTACHED_H

/* Called when a recording has begun, and before it ends, by any thread of the program, while the others run.
 * Set by ocaml_attached.c. */
extern void (*attached_begun)(void);
extern void (*attached_ends)(void);

#endif
