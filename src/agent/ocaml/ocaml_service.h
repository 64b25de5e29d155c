/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent does for the OCaml library (ocaml/) when both are in one program: the agent
 * records OCaml's heaps; the library starts nothing, and passes on blocks outside the heaps.
 * The library finds OCAML_SERVICE by its name; it and the agent may come from different versions.
 */
#ifndef MAYFLY_OCAML_SERVICE_H
#define MAYFLY_OCAML_SERVICE_H

#include "agent/ocaml/memprof.h"

#define OCAML_SERVICE_VERSION 1u
#define OCAML_SERVICE_NAME    "mayfly_agent_ocaml"

/* All are called with OCaml's runtime lock held. */
struct ocaml_service {
	/* The rate at which OCaml's blocks are being recorded; 0: they are not. */
	double (*rate)(void);
	uint32_t (*frames)(void); /* the number to ask the runtime for */
	/* As of struct memprof_watcher, for a block outside OCaml's heaps. */
	bool (*allocated)(const struct memprof_block *block, intptr_t *kept);
	void (*freed)(intptr_t kept);
};

/* NULL: the agent is off, or knows no such version. */
const struct ocaml_service *mayfly_agent_ocaml(uint32_t version);

#endif
