/* SPDX-License-Identifier: Apache-2.0 */
/* Domains of threads: see ocaml_domain.h. */
#include "agent/ocaml/ocaml_domain.h"

#include "agent/events/tracks.h"
#include "agent/ocaml/memprof.h"

static _Atomic uint32_t spool = 1;
static __thread uint32_t told; /* the `spool` that has this thread's domain */

TRACK_INSTANT(domain, "ocaml", "domain", 1, {SPOOL_UINT, "domain"});

static COLD void tell(uint32_t number)
{
	uint64_t id;

	if (!tracks_wanted())
		return;
	told = number;
	if (!memprof_runtime.domain_id)
		return;
	id = (uint64_t)MEMPROF_VALUE_INT(memprof_runtime.domain_id(MEMPROF_NONE));
	tracks_add(SPOOL_INSTANT, &domain, &id, NULL);
}

void ocaml_domain_tell(void)
{
	uint32_t number = atomic_load_explicit(&spool, memory_order_relaxed);

	if (UNLIKELY(told != number))
		tell(number);
}

void ocaml_domain_forget(void)
{
	atomic_fetch_add(&spool, 1);
}
