/* SPDX-License-Identifier: Apache-2.0 */
/* Which of OCaml's runtimes the program has, and where its functions are. */
#ifndef MAYFLY_OCAML_VERSION_H
#define MAYFLY_OCAML_VERSION_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A stripped program does not contain the runtime's version, but each version has new functions
 * that are always linked: caml_erfc came with 4.13, caml_ml_set_buffered with 4.14,
 * caml_domain_spawn with 5.0 (and the multicore branch of 4.12), caml_memprof_sample_block with
 * 5.3, where 5.0 to 5.2 had no sampler. OxCaml's runtime, which is like one of these, has other
 * headers of blocks, and functions for stack-allocated blocks.
 */
enum ocaml_version {
	OCAML_OTHER,
	OCAML_4_13,
	OCAML_4_14,
	OCAML_5_0, /* to 5.2 */
	OCAML_5_3, /* and later */
	OCAML_OXCAML
};

/* What else OCaml 5 needs. */
struct ocaml_domain_lock {
	void (*leave_blocking_section)(void);
	void (*enter_blocking_section)(void);
	const uintptr_t *domains; /* caml_num_domains_running */
};
extern struct ocaml_domain_lock ocaml_domain_lock;

/* Fills in memprof_runtime and ocaml_domain_lock, too. */
enum ocaml_version ocaml_version_find(void);
bool ocaml_is_bytecode(void);
/* Why this OCaml program's blocks are not recorded; NULL: they can be. */
const char *ocaml_objection(enum ocaml_version version);
/* The hooks of the collector are the same in all these versions. */
bool ocaml_collector_is_known(enum ocaml_version version);

#endif
