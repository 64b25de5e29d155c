/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of an OCaml program, through the runtime's own sampler (Gc.Memprof). See ocaml.c.
 */
#ifndef MAYFLY_OCAML_H
#define MAYFLY_OCAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What MAYFLY may say: "ocaml=RATE" (samples per word) or "ocaml=off"; "ocaml_frames=N". */
bool ocaml_take_rate(const char *text, size_t length);
bool ocaml_take_frames(uint64_t frames);

/* In the child of a fork that is followed: its spool has none of the places yet. */
void ocaml_forked(void);

#endif
