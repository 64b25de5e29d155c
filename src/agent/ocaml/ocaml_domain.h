/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which domain of OCaml 5 a thread belongs to: an instant "domain" with the number that Domain.self
 * has there, once in each thread with sampled blocks. A thread stays in its domain. Exports to
 * Memtrace's format need it (convert/export/thread_domains.h).
 */
#ifndef MAYFLY_OCAML_DOMAIN_H
#define MAYFLY_OCAML_DOMAIN_H

#include <stdint.h>

/* With the domain's lock held, outside of the path (path.h). Keeps errno. */
void ocaml_domain_tell(void);

/* The spool is a new one: all threads tell again. */
void ocaml_domain_forget(void);

#endif
