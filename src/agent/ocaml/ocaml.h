/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OCaml heap of an unmodified native program: the part that does not depend on how the agent came into
 * the process. The runtime's sampler is started by ocaml_preloaded.c or ocaml_attached.c.
 */
#ifndef MAYFLY_OCAML_H
#define MAYFLY_OCAML_H

#include <stdbool.h>

#include "agent/ocaml/memprof.h"
#include "agent/ocaml/ocaml_version.h"

/* Before the sampler is started: the rate and the length of stacks, as the settings say. False: no memory. */
bool ocaml_prepare(enum ocaml_version version);

/* Starts it, with the lock of the thread's domain held, in this domain and those that it makes. NULL, or why
 * it has not started. As memprof_start(), it may raise. */
const char *ocaml_start(enum ocaml_version version);

/* Nothing is recorded, after all. Returns the reason. */
const char *ocaml_give_up(const char *why);

/*
 * The runtime has only one sampler. A program that starts it itself (Memtrace, Gc.Memprof) gets it: the first
 * bytes of caml_memprof_start and caml_memprof_stop are a jump to here, which puts the code back, stops our
 * sampling and calls the real function. There is no other way to see calls inside the executable.
 *
 * Only while no thread can be in these functions: in OCaml 4 with the lock held, in OCaml 5 also with no other
 * domain running. ocaml_start() needs the functions as they were.
 */
bool ocaml_watch_program(void); /* False: this system does not let code be changed */
void ocaml_unwatch_program(void);
bool ocaml_program_is_watched(void);

/* The program has used the sampler: it is left alone from then on. */
bool ocaml_has_yielded(void);

#define OCAML_UNWATCHED                                                                            \
	"OCaml blocks are not recorded: this system does not let code be changed, which the "      \
	"program's own use of Gc.Memprof would need"

/* Called from a callback for a block of a profile that is over; or NULL. */
extern void (*ocaml_on_stale)(void);
/* Called when the program takes the sampler, before the real function; NULL: it is stopped in this domain. */
extern void (*ocaml_on_yield)(void);

#endif
