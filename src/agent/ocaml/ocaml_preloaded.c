/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OCaml heap of a program that was started with the agent.
 *
 *	Stdlib opens stdin ──> lseek (here) ──> is this an OCaml runtime that we know?
 *	                                           ├─> ocaml_prepare(), ocaml_start()
 *	                                           └─> ocaml_gc_start()
 *
 * ocamlopt links programs with -E, so the runtime's functions can be looked up by name, in stripped
 * programs too. The lseek() for a new channel is the runtime's earliest call into libc from OCaml
 * code, with the runtime fully initialised and its lock held. OCaml 5 has released it for the call;
 * we take it back meanwhile. Domains that are made later inherit the sampling.
 */
#undef _FILE_OFFSET_BITS /* lseek and lseek64 are two names here */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/ocaml/memprof.h"
#include "agent/ocaml/ocaml.h"
#include "agent/ocaml/ocaml_gc.h"
#include "agent/ocaml/ocaml_look_up.h"
#include "agent/ocaml/ocaml_ring.h"
#include "agent/real.h"
#include "agent/spool.h"

static bool same_object(const void *a, const void *b)
{
	struct dl_find_object x, y;

	return !_dl_find_object((void *)(uintptr_t)a, &x) &&
	       !_dl_find_object((void *)(uintptr_t)b, &y) && x.dlfo_link_map == y.dlfo_link_map;
}

static _Atomic bool settled; /* lseek() need not look any more */

/* In OCaml 5: the caller is the function that opens a channel, which has released the domain's lock
 * just before. While other domains run, code must not be changed. */
static bool opens_channel(const void *caller)
{
	void *const *state = ocaml_look_up("caml_state", NULL);
	Dl_info found;

	return state && !*state &&
	       __atomic_load_n(ocaml_domain_lock.domains, __ATOMIC_RELAXED) == 1 &&
	       dladdr(caller, &found) && found.dli_sname &&
	       (strncmp(found.dli_sname, "caml_open_descriptor_", 21) == 0 ||
		strncmp(found.dli_sname, "caml_ml_open_descriptor_", 24) == 0);
}

/* False: the caller is not the runtime, or the runtime is not initialised yet. */
static bool runtime_is_up(enum ocaml_version version, const void *caller)
{
	void **state;

	if (!ocaml_look_up("caml_memprof_start", &memprof_runtime.start) ||
	    !same_object(caller, (void *)(uintptr_t)memprof_runtime.start))
		return false;
	if (version == OCAML_5_3)
		return opens_channel(caller);
	state = ocaml_look_up("Caml_state", NULL);
	return state && *state;
}

static const char *start_and_watch(enum ocaml_version version)
{
	const char *why;

	if (!ocaml_prepare(version))
		return "OCaml blocks are not recorded: no memory";
	why = ocaml_start(version);
	if (!why && !ocaml_watch_program()) {
		memprof_runtime.stop(MEMPROF_NONE);
		why = OCAML_UNWATCHED;
	}
	return why ? ocaml_give_up(why) : NULL;
}

static const char *take_lock_and_start(enum ocaml_version version)
{
	const char *why;

	if (version != OCAML_5_3)
		return start_and_watch(version);
	ocaml_domain_lock.leave_blocking_section();
	why = start_and_watch(version);
	ocaml_domain_lock.enter_blocking_section();
	return why;
}

/* Starts sampling if an OCaml runtime called lseek(). True: no further call needs to be looked at. */
static bool settle(const void *caller)
{
	enum ocaml_version version;
	const char *why;
	bool collector;

	if (!ocaml_look_up("caml_main", NULL))
		return true;
	version = ocaml_version_find();
	why = ocaml_objection(version);
	collector = ocaml_collector_is_known(version);
	if ((!why || collector) && !runtime_is_up(version, caller))
		return false;
	if (collector && !ocaml_ring_is_read())
		ocaml_gc_start(version != OCAML_5_3);
	if (!why)
		why = take_lock_and_start(version);
	if (why)
		spool_note(why);
	return true;
}

static COLD void look_for_runtime(const void *caller)
{
	static atomic_flag looking =
	    ATOMIC_FLAG_INIT; /* one thread at a time, so that nothing is begun twice */
	uint32_t state = atomic_load(&agent_state);
	int error = errno;

	if (state == AGENT_NEW || self.busy || atomic_flag_test_and_set(&looking))
		return;
	self.busy = BUSY_AGENT;
	if (state == AGENT_OFF || agent_config.ocaml_rate == 0 || !*agent_same_process ||
	    settle(caller)) {
		ocaml_ring_hide();
		atomic_store(&settled, true);
	} else {
		atomic_flag_clear(&looking);
	}
	self.busy = BUSY_NOT;
	errno = error;
}

EXPORT off_t lseek(int fd, off_t offset, int whence)
{
	if (UNLIKELY(!atomic_load_explicit(&settled, memory_order_relaxed)))
		look_for_runtime(__builtin_return_address(0));
	return real.lseek(fd, offset, whence);
}

EXPORT off64_t lseek64(int fd, off64_t offset, int whence)
{
	if (UNLIKELY(!atomic_load_explicit(&settled, memory_order_relaxed)))
		look_for_runtime(__builtin_return_address(0));
	return real.lseek(fd, offset, whence);
}
