/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OCaml heap of a program that runs already. The thread that `mayfly attach` borrows may be anywhere, so
 * it only asks: each domain starts the sampler itself, at a point where the runtime would let another OCaml
 * thread run, with its lock held. What it asks by are variables of the runtime, which hold functions:
 *
 *	caml_leave_blocking_section_hook	after a system call that may wait: OCaml 4 and 5
 *	caml_minor_gc_end_hook			OCaml 4: the minor heap is empty
 *	caml_minor_gc_begin_hook		OCaml 5: all domains are here. Starting allocates, so the domain
 *						is only asked for its next hook, as by a tick of the clock
 *	caml_domain_external_interrupt_hook	OCaml 5: at the next allocation or loop of OCaml code
 *
 *	attach ──> wanted = N ──> each domain: running = N
 *	detach ──> wanted = 0 ──> each domain: running = 0, at such a point of OCaml 5, after a blocking call, or
 *	                          when the profile, which is then a stale one, has its next sample
 *
 * OCaml 5: a domain inherits the profile of the one that makes it, so all later ones are sampled, too. The
 * functions are put in the program's way (ocaml_watch_program()) while all domains are in a minor collection,
 * after each of those that run has started, or by the only one; a domain that has waited in a system call
 * meanwhile and must start has them taken away in the next collection.
 */
#include <errno.h>

#include "agent/agent.h"
#include "agent/attached.h"
#include "agent/cpu/cpu.h"
#include "agent/interpreter/library.h"
#include "agent/life.h"
#include "agent/ocaml/ocaml.h"
#include "agent/ocaml/ocaml_gc.h"
#include "agent/ocaml/ocaml_look_up.h"
#include "agent/path.h"
#include "agent/spool.h"

/* ---- the runtime ---- */

static struct interpreter_library runtime;
static enum ocaml_version version;
static const char *why_not; /* this program's blocks cannot be recorded; NULL: they can be */

static struct {
	uintptr_t *state;	     /* OCaml 4: Caml_state */
	uintptr_t state_from_thread; /* OCaml 5: from the thread's control block to caml_state */
	uint32_t
	    interrupt; /* the offset of requested_external_interrupt in what that points to; or 0 */
	const uintptr_t *collections; /* caml_minor_collections_count */
} at;

static bool has_runtime(const struct image *o)
{
	return image_symbol(o, "caml_main") && image_symbol(o, "caml_memprof_start");
}

/* The state of the domain whose lock the thread holds; 0: none. */
static uintptr_t this_state(void)
{
	if (version != OCAML_5_3)
		return *at.state;
	return *(const uintptr_t *)(cpu_thread_pointer() + at.state_from_thread);
}

static bool find_state(void)
{
	const Elf64_Sym *symbol = image_symbol(&runtime.image, "caml_state");

	if (version != OCAML_5_3)
		return ocaml_look_up("Caml_state", &at.state);
	if (!symbol || !runtime.thread_block || !memprof_runtime.domain_id)
		return false;
	at.state_from_thread =
	    (uintptr_t)runtime.thread_block + symbol->st_value - cpu_thread_pointer();
	return true;
}

static void find_interrupt(void)
{
	const uint8_t *reads_it = NULL;
	uint32_t offset = 0;

	if (ocaml_look_up("caml_process_external_interrupt", &reads_it))
		offset = cpu_offset_read(reads_it);
	at.interrupt = offset % sizeof(uintptr_t) || offset > 4096 ? 0 : offset;
	ocaml_look_up("caml_minor_collections_count", &at.collections);
}

static const char *look_at_runtime(void)
{
	const char *why;

	ocaml_look_in(&runtime.image);
	if (!library_keep(&runtime))
		return "OCaml blocks are not recorded: the program has closed its runtime";
	version = ocaml_version_find();
	why = ocaml_objection(version);
	if (why)
		return why;
	if (!find_state() || !ocaml_look_up("caml_callback_exn", &memprof_runtime.callback))
		return "OCaml blocks are not recorded: functions of the program's runtime are "
		       "missing";
	if (version == OCAML_5_3)
		find_interrupt();
	return NULL;
}

/* ---- domains ---- */

/* Of OCaml 5; OCaml 4 is one. Changed by the thread that holds the domain's lock. */
struct domain {
	_Atomic uintptr_t state; /* 0: nobody's */
	memprof_value number;	 /* a later domain may have the state of one that has ended */
	uint32_t running;	 /* the attachment whose profile it has; 0: none */
	uint32_t tried;		 /* the last attachment whose profile it has tried to start */
	bool present;	    /* it was there when those of this attachment were asked to start */
	_Atomic bool asked; /* the interrupt is ours */
};

#define DOMAINS 256u /* further ones are not sampled unless they inherit it */
static struct domain domains[DOMAINS];

static _Atomic uint32_t wanted;	 /* the attachment whose profile is to run; 0: none */
static uint32_t attachment;	 /* the last one */
static _Atomic bool open_wanted; /* the functions are to be as they were */

static struct domain *this_domain(void)
{
	uintptr_t state = this_state();
	uint64_t i = state * 0x9e3779b97f4a7c15u >> 32;
	struct domain *d = NULL;
	memprof_value number;

	for (uint32_t tries = 0; state && !d && tries < DOMAINS; tries++, i++) {
		struct domain *here = &domains[i % DOMAINS];
		uintptr_t there = atomic_load(&here->state);

		if (there == state ||
		    (!there && (atomic_compare_exchange_strong(&here->state, &there, state) ||
				there == state)))
			d = here;
	}
	if (!d)
		return NULL;
	number = version == OCAML_5_3 ? memprof_runtime.domain_id(MEMPROF_NONE) : MEMPROF_NONE;
	if (d->number != number) {
		d->number = number;
		d->running = d->tried = 0;
		d->present = false;
		atomic_store(&d->asked, false);
	}
	return d;
}

static uint32_t wanted_now(void)
{
	return ocaml_has_yielded() ? 0 : atomic_load_explicit(&wanted, memory_order_relaxed);
}

static bool is_settled(const struct domain *d)
{
	uint32_t now = wanted_now();

	return d->running == now || (!d->running && d->tried == now);
}

/* ---- starting and stopping; the domain's lock is held ---- */

#define PROGRAM_SAMPLES "OCaml blocks are not recorded: the program uses Gc.Memprof itself"

static __thread const char *why_not_here;

static memprof_value start_here(memprof_value unit)
{
	why_not_here = ocaml_start(version);
	return unit;
}

static memprof_value stop_here(memprof_value unit)
{
	return memprof_runtime.stop(unit);
}

static void give_up(uint32_t now, const char *why)
{
	if (life_thread_ready() && atomic_compare_exchange_strong(&wanted, &now, 0))
		spool_note(ocaml_give_up(why));
}

static bool is_alone(void)
{
	return version != OCAML_5_3 ||
	       __atomic_load_n(ocaml_domain_lock.domains, __ATOMIC_ACQUIRE) == 1;
}

/* The functions are as they were. False: they will be. */
static bool open_code(void)
{
	if (ocaml_program_is_watched() && !is_alone()) {
		atomic_store(&open_wanted, true);
		return false;
	}
	ocaml_unwatch_program();
	return true;
}

/* It was made since the others have started. */
static bool has_inherited(const struct domain *d)
{
	return !d->running && !d->present && ocaml_program_is_watched() && !is_alone() &&
	       !atomic_load(&open_wanted);
}

static bool stop(struct domain *d)
{
	if (!open_code())
		return false;
	memprof_attempt(stop_here);
	d->running = 0;
	return true;
}

static void start(struct domain *d, uint32_t now)
{
	static _Atomic uint32_t somewhere; /* the last one for which a domain has started */
	const char *why = NULL;

	d->tried = now;
	why_not_here = NULL;
	if (memprof_attempt(start_here) && !why_not_here) {
		d->running = now;
		atomic_store(&somewhere, now);
	} else if (why_not_here) {
		why = why_not_here;
	} else if (is_alone() && atomic_load(&somewhere) != now) {
		why = PROGRAM_SAMPLES;
	}
	if (d->running && is_alone() && !ocaml_watch_program()) {
		stop(d);
		why = OCAML_UNWATCHED;
	}
	if (why)
		give_up(now, why);
}

/* may_stop: the runtime is not in the middle of a sample. */
static void settle(struct domain *d, bool may_stop)
{
	uint32_t now = wanted_now();
	int error = errno;

	if (is_settled(d) || self.busy || !*agent_same_process)
		return;
	self.busy = BUSY_AGENT;
	if (has_inherited(d))
		d->running = now;
	if (d->running && d->running != now && may_stop)
		stop(d);
	if (now && !d->running && d->tried != now && open_code())
		start(d, now);
	self.busy = BUSY_NOT;
	errno = error;
}

/* ---- the runtime's hooks ---- */

static void (*leave_before)(void), (*interrupt_before)(void);

static void leave_blocking_section(void)
{
	struct domain *d;

	leave_before();
	d = this_domain();
	if (d && UNLIKELY(!is_settled(d)))
		settle(d, true);
}

/* In OCaml 4, after a minor collection. */
static void collected(void)
{
	struct domain *d = this_domain();

	if (d && UNLIKELY(!is_settled(d)))
		settle(d, false);
}

static uintptr_t *interrupt_of(const struct domain *d)
{
	return (uintptr_t *)(d->state + at.interrupt);
}

static void take_interrupt(void)
{
	struct domain *d = this_domain();

	if (!d || !atomic_exchange(&d->asked, false)) {
		interrupt_before();
		return;
	}
	__atomic_store_n(interrupt_of(d), 0, __ATOMIC_RELEASE);
	settle(d, true);
}

static void ask(struct domain *d)
{
	atomic_store(&d->asked, true);
	__atomic_store_n(interrupt_of(d), 1, __ATOMIC_RELEASE);
}

/* All domains are in a minor collection, of this number: the first one changes the code. */
static void change_code(uintptr_t collection)
{
	static uintptr_t last, open_since;
	uintptr_t before = __atomic_load_n(&last, __ATOMIC_ACQUIRE);
	uint8_t busy = self.busy;

	if (before == collection ||
	    !__atomic_compare_exchange_n(&last, &before, collection, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	self.busy = BUSY_AGENT;
	if (atomic_exchange(&open_wanted, false)) {
		ocaml_unwatch_program();
		open_since = collection;
	} else if (collection > open_since + 1 && wanted_now()) {
		ocaml_watch_program();
	}
	self.busy = busy;
}

static void collection_begins(void)
{
	struct domain *d = this_domain();

	if (!d)
		return;
	if (at.collections)
		change_code(__atomic_load_n(at.collections, __ATOMIC_RELAXED));
	if (LIKELY(is_settled(d)))
		return;
	d->present = d->present || !ocaml_program_is_watched();
	if (at.interrupt)
		ask(d);
}

/* A callback of a profile that is over: the runtime allows that it is stopped here. */
static void stop_stale(void)
{
	struct domain *d = this_domain();

	if (!d || self.busy)
		return;
	self.busy = BUSY_AGENT;
	if (stop(d))
		d->tried = 0;
	self.busy = BUSY_NOT;
}

/* The functions are the program's again. The other domains of OCaml 5 stop when they next allocate: the first
 * word of their state is the limit of that, and any thread may set it to its largest value. */
static void yield(void)
{
	struct domain *this = this_domain();

	memprof_attempt(stop_here);
	if (this)
		this->running = 0;
	for (struct domain *d = domains; at.interrupt && d < domains + DOMAINS; d++)
		if (d != this && d->state && d->running) {
			ask(d);
			__atomic_store_n((uintptr_t *)d->state, UINTPTR_MAX, __ATOMIC_RELEASE);
		}
}

/* A library of the program may have put its own there. */
static void take_hook(const char *name, void (*ours)(void), void (**before)(void))
{
	void (**hook)(void) = ocaml_look_up(name, NULL);

	if (!hook || *hook == ours)
		return;
	*before = *hook;
	__atomic_store_n(hook, ours, __ATOMIC_RELEASE);
}

static void take_hooks(void)
{
	ocaml_on_stale = stop_stale;
	ocaml_on_yield = yield;
	take_hook("caml_leave_blocking_section_hook", leave_blocking_section, &leave_before);
	if (version == OCAML_5_3) {
		take_hook("caml_domain_external_interrupt_hook", take_interrupt, &interrupt_before);
		ocaml_gc_minor_begun = collection_begins;
	} else {
		ocaml_gc_minor_ended = collected;
	}
	ocaml_gc_start(version != OCAML_5_3);
}

/* ---- the calls of `mayfly attach` ---- */

static void begin(void)
{
	static bool looked;

	if (agent_config.ocaml_rate == 0)
		return;
	if (!looked) {
		if (!library_find(&runtime, has_runtime))
			return;
		looked = true;
		why_not = look_at_runtime();
	}
	if (why_not || ocaml_has_yielded()) {
		spool_note(why_not ? why_not : PROGRAM_SAMPLES);
		return;
	}
	if (!ocaml_prepare(version)) {
		spool_note("OCaml blocks are not recorded: no memory");
		return;
	}
	atomic_store(&open_wanted, true);
	atomic_store(&wanted, ++attachment);
	take_hooks();
}

static void end(void)
{
	memprof_end();
	atomic_store(&open_wanted, true);
	atomic_store(&wanted, 0);
}

__attribute__((constructor)) static void loaded(void)
{
	attached_begun = begin;
	attached_ends = end;
}
