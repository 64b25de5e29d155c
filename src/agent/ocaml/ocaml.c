/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OCaml heap of an unmodified native program.
 *
 *	Stdlib opens stdin ──> lseek (here) ──> is this an OCaml runtime that we know?
 *	                                           ├─> memprof_start(rate, frames)
 *	                                           └─> ocaml_gc_start()
 *	runtime samples a block ──> memprof.c ──> allocated() ──> ocaml_blocks.c ──> SAMPLE
 *	                                          record_promoted()  ──────────────────> PROMOTE
 *	                                          record_collected() ──────────────────> FREE
 *
 * ocamlopt links programs with -E, so the runtime's functions can be looked up by name, in stripped
 * programs too. The lseek() for a new channel is the runtime's earliest call into libc from OCaml
 * code, with the runtime fully initialised and its lock held. OCaml 5 has released it for the call;
 * we take it back meanwhile. Domains that are made later inherit the sampling.
 *
 * The runtime has only one sampler. A program that starts it itself (Memtrace, Gc.Memprof) gets it:
 * the first bytes of caml_memprof_start and caml_memprof_stop are replaced by a jump to
 * yield_start() and yield_stop(), which restore them, stop our sampling and call the real function.
 * There is no other way to see calls inside the executable. The jumps are put there while there is
 * one domain only; when they are taken away, other domains may be running there.
 */
#undef _FILE_OFFSET_BITS /* lseek and lseek64 are two names here */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/ocaml/memprof.h"
#include "agent/ocaml/ocaml_blocks.h"
#include "agent/ocaml/ocaml_domain.h"
#include "agent/ocaml/ocaml_gc.h"
#include "agent/ocaml/ocaml_ring.h"
#include "agent/ocaml/ocaml_service.h"
#include "agent/life.h"
#include "agent/path.h"
#include "agent/real.h"
#include "agent/records.h"
#include "agent/spool.h"

/* ---- the callbacks ---- */

static bool started;
static _Atomic bool sampling = true; /* false: the program has Memprof for itself now */

static bool record_block(const struct memprof_block *block, uint32_t heap, intptr_t *kept)
{
	int error = errno;
	bool recorded = false;

	ocaml_domain_tell();
	if (!path_enter())
		return false;
	if (life_thread_ready() && sampling && spool_enabled()) {
		struct writer *w = path_writer();

		if (w)
			recorded = ocaml_blocks_allocated(w, block, heap, kept);
		else
			runtime_blocks_drop();
	}
	path_leave();
	errno = error;
	return recorded;
}

static bool record_allocated(const struct memprof_block *block, intptr_t *kept)
{
	return record_block(block, ocaml_blocks_heap(block), kept);
}

static void record_promoted(intptr_t kept)
{
	int error = errno;

	ocaml_domain_tell();
	if (path_enter()) {
		if (life_thread_ready() && sampling)
			runtime_blocks_promoted(path_writer(), kept);
		path_leave();
	}
	errno = error;
}

static void record_collected(intptr_t kept)
{
	int error = errno;

	ocaml_domain_tell();
	if (path_enter()) {
		if (life_thread_ready() && sampling)
			runtime_blocks_collected(path_writer(), kept);
		path_leave();
	}
	errno = error;
}

static const struct memprof_watcher watcher = {record_allocated, record_promoted, record_collected};

/* ---- the OCaml library's way to here ---- */

static double service_rate(void)
{
	return started && sampling ? runtime_blocks.rate : 0;
}

static bool service_allocated(const struct memprof_block *block, intptr_t *kept)
{
	return started && record_block(block, SPOOL_HEAP_EXTERNAL, kept);
}

EXPORT const struct ocaml_service *mayfly_agent_ocaml(uint32_t version)
{
	static const struct ocaml_service service = {
	    .rate = service_rate,
	    .frames = runtime_blocks_frames,
	    .allocated = service_allocated,
	    .freed = record_collected,
	};

	return version == OCAML_SERVICE_VERSION && atomic_load(&agent_state) == AGENT_ON ? &service
											 : NULL;
}

/* ---- the program's own use of Memprof ---- */

struct patch {
	uint8_t *at;
	uint8_t original[CPU_JUMP_BYTES];
};
static struct patch patch_start, patch_stop;

/* Changes code that other threads may be calling: until all bytes are there, they wait in a loop at
 * the first instruction. */
static bool write_code(uint8_t *at, const uint8_t *bytes)
{
	uintptr_t page = (uintptr_t)at & -getauxval(AT_PAGESZ);
	size_t length = (uintptr_t)at + CPU_JUMP_BYTES - page;
	_Atomic cpu_code_unit *first = (void *)at;
	cpu_code_unit unit;

	/* Executable meanwhile, as other threads may be running code in the page. */
	if (sys_failed(sys_mprotect((void *)page, length, PROT_READ | PROT_WRITE | PROT_EXEC)))
		return false;
	memcpy(&unit, bytes, sizeof(unit));
	atomic_store(first, CPU_CODE_LOOP);
	__builtin___clear_cache((char *)at, (char *)at + CPU_JUMP_BYTES);
	memcpy(at + sizeof(unit), bytes + sizeof(unit), CPU_JUMP_BYTES - sizeof(unit));
	__builtin___clear_cache((char *)at, (char *)at + CPU_JUMP_BYTES);
	atomic_store(first, unit);
	__builtin___clear_cache((char *)at, (char *)at + CPU_JUMP_BYTES);
	sys_mprotect((void *)page, length, PROT_READ | PROT_EXEC);
	return true;
}

static bool redirect(struct patch *p, void *function, void *to)
{
	uint8_t jump[CPU_JUMP_BYTES];

	if ((uintptr_t)function % sizeof(cpu_code_unit))
		return false;
	p->at = function;
	memcpy(p->original, function, CPU_JUMP_BYTES);
	cpu_put_jump(jump, to);
	return write_code(p->at, jump);
}

/* In OCaml 5 several domains may want this at once; all return when the code is as it was. */
static void restore_code(void)
{
	static _Atomic uint32_t state; /* 1: under way, 2: done */
	uint32_t before = 0;

	if (atomic_compare_exchange_strong(&state, &before, 1)) {
		write_code(patch_start.at, patch_start.original);
		write_code(patch_stop.at, patch_stop.original);
		atomic_store(&state, 2);
	}
	while (atomic_load(&state) != 2)
		cpu_relax();
}

/* Hands the sampler over: the runtime is then as it would be without us. */
static void yield(void)
{
	static const char text[] = "the program uses Gc.Memprof itself: its OCaml blocks are "
				   "recorded up to there only";
	int error = errno;

	restore_code();
	if (!atomic_exchange(&sampling, false))
		return;
	memprof_runtime.stop(MEMPROF_NONE);
	if (path_enter()) {
		struct writer *w = life_thread_ready() ? path_writer() : NULL;

		if (w) {
			records_heap_end(w, agent_ticks());
			spool_note(text);
		}
		path_leave();
	}
	errno = error;
}

static memprof_value yield_start(memprof_value sampling_rate, memprof_value frames,
				 memprof_value their_tracker)
{
	yield();
	return memprof_runtime.start(sampling_rate, frames, their_tracker);
}

static memprof_value yield_stop(memprof_value unit)
{
	yield();
	return memprof_runtime.stop(unit); /* raises, since it is not running */
}

/* ---- start ---- */

static void *look_up(const char *name, void *function)
{
	void *p = dlsym(RTLD_DEFAULT, name);

	if (function)
		memcpy(function, &p, sizeof(p));
	return p;
}

/*
 * A stripped program does not contain the runtime's version, but each version has new functions
 * that are always linked: caml_erfc came with 4.13, caml_ml_set_buffered with 4.14,
 * caml_domain_spawn with 5.0 (and the multicore branch of 4.12), caml_memprof_sample_block with
 * 5.3, where 5.0 to 5.2 had no sampler. OxCaml's runtime, which is like one of these, has other
 * headers of blocks, and functions for stack-allocated blocks.
 */
enum version {
	VERSION_OTHER,
	VERSION_4_13,
	VERSION_4_14,
	VERSION_5_0, /* to 5.2 */
	VERSION_5_3, /* and later */
	VERSION_OXCAML
};

static enum version version_by_names(void)
{
	if (look_up("caml_local_realloc", NULL) || look_up("caml_alloc_mixed_shr_check_gc", NULL) ||
	    look_up("caml_get_local_arenas", NULL))
		return VERSION_OXCAML;
	if (look_up("caml_memprof_sample_block", NULL))
		return VERSION_5_3;
	if (look_up("caml_domain_spawn", NULL))
		return VERSION_5_0;
	if (!look_up("caml_erfc", NULL))
		return VERSION_OTHER;
	return look_up("caml_ml_set_buffered", NULL) ? VERSION_4_14 : VERSION_4_13;
}

/* What else OCaml 5 needs. */
static struct {
	void (*leave_blocking_section)(void);
	void (*enter_blocking_section)(void);
	const uintptr_t *domains; /* caml_num_domains_running */
} domain_lock;

static bool find_functions(enum version version)
{
	if (!look_up("caml_memprof_start", &memprof_runtime.start) ||
	    !look_up("caml_memprof_stop", &memprof_runtime.stop) ||
	    !look_up("caml_debuginfo_extract", &memprof_runtime.debuginfo) ||
	    !look_up("caml_debuginfo_next", &memprof_runtime.debuginfo_next) ||
	    !look_up("caml_debuginfo_location", &memprof_runtime.debuginfo_location))
		return false;
	if (version != VERSION_5_3)
		return true;
	look_up("caml_ml_domain_id", &memprof_runtime.domain_id);
	return (
	    look_up("caml_c_call", &memprof_runtime.c_call) && look_up("caml_state", NULL) &&
	    look_up("caml_num_domains_running", &domain_lock.domains) &&
	    look_up("caml_leave_blocking_section", &domain_lock.leave_blocking_section) &&
	    look_up("caml_enter_blocking_section_no_pending", &domain_lock.enter_blocking_section));
}

static enum version find_version(void)
{
	enum version version = version_by_names();

	if (version == VERSION_OXCAML || version == VERSION_5_0 || find_functions(version))
		return version;
	return VERSION_OTHER;
}

/* In OCaml 4, and in OCaml 5. */
static bool is_bytecode(void)
{
	return look_up("caml_interprete", NULL) || look_up("caml_bytecode_interpreter", NULL);
}

/* Why this OCaml program's blocks are not recorded; NULL: they can be. */
static const char *objection(enum version version)
{
	if (is_bytecode())
		return "OCaml blocks are not recorded: the program is bytecode";
	if (version == VERSION_5_0)
		return "OCaml blocks are not recorded: the program's runtime is that of OCaml 5.0, "
		       "5.1 or 5.2, which cannot sample; 4.13, 4.14, and 5.3 and later can";
	if (version == VERSION_OXCAML)
		return "OCaml blocks are not recorded: the program's runtime is OxCaml's";
	if (version == VERSION_OTHER)
		return "OCaml blocks are not recorded: the program's runtime is not that of "
		       "OCaml 4.13, 4.14, or 5.3 and later";
	if (getenv("MEMTRACE") && *getenv("MEMTRACE"))
		return "OCaml blocks are not recorded: MEMTRACE is set, the program traces them "
		       "itself";
	if (agent_exact && agent_config.ocaml_rate < 1)
		return "OCaml blocks are not recorded: they would be sampled, and this is a "
		       "recording of every allocation; ocaml=1 records all of them";
	return NULL;
}

/* The child's spool has no PLACE records yet. */
static void tell_forked_child(void)
{
	ocaml_blocks_forget();
	ocaml_domain_forget();
	if (started && sampling)
		runtime_blocks_tell_rate();
}

/* Undoes it: `sampling` has begun, or not. Returns the reason. */
static const char *give_up(const char *why)
{
	memprof_runtime.stop(MEMPROF_NONE);
	atomic_store(&spool_header->ocaml_interval_log2, 0);
	return why;
}

/*
 * OCaml 5 puts a stack into a block of its heap, and collects for it: that walks the program's stack again,
 * and a sample that falls there is lost. With every block recorded, a deep recursion would take quadratic
 * time. So a stack's root counts less there than a program at its speed.
 */
static uint32_t most_frames(enum version version)
{
	bool whole = agent_config.ocaml_frames == SPOOL_OCAML_ASKED;

	return whole && (version == VERSION_5_3 || agent_exact) ? SPOOL_OCAML_FRAMES
								: agent_config.ocaml_frames;
}

static const char *start_sampling(enum version version)
{
	memprof_value profile;

	runtime_blocks_set_rate(agent_config.ocaml_rate);
	runtime_blocks.frames = most_frames(version);
	life_on_fork = tell_forked_child;
	runtime_blocks_tell_rate();
	profile = memprof_start(runtime_blocks.rate, runtime_blocks_frames(), &watcher);
	if (version == VERSION_5_3 && !memprof_is_profile(profile))
		return give_up("OCaml blocks are not recorded: this version of OCaml 5 is not "
			       "known, its profiles differ from those of 5.3");
	if (redirect(&patch_start, (void *)(uintptr_t)memprof_runtime.start,
		     (void *)(uintptr_t)yield_start) &&
	    redirect(&patch_stop, (void *)(uintptr_t)memprof_runtime.stop,
		     (void *)(uintptr_t)yield_stop)) {
		started = true;
		return NULL;
	}
	if (patch_stop.at) /* the second one failed */
		write_code(patch_start.at, patch_start.original);
	return give_up("OCaml blocks are not recorded: this system does not let code be changed, "
		       "which the program's own use of Gc.Memprof would need");
}

/* The hooks of the collector are the same in all these versions. */
static bool collector_is_known(enum version version)
{
	return !is_bytecode() &&
	       (version == VERSION_4_13 || version == VERSION_4_14 || version == VERSION_5_3);
}

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
	void *const *state = look_up("caml_state", NULL);
	Dl_info found;

	return state && !*state && __atomic_load_n(domain_lock.domains, __ATOMIC_RELAXED) == 1 &&
	       dladdr(caller, &found) && found.dli_sname &&
	       (strncmp(found.dli_sname, "caml_open_descriptor_", 21) == 0 ||
		strncmp(found.dli_sname, "caml_ml_open_descriptor_", 24) == 0);
}

/* False: the caller is not the runtime, or the runtime is not initialised yet. */
static bool runtime_is_up(enum version version, const void *caller)
{
	void **state;

	if (!look_up("caml_memprof_start", &memprof_runtime.start) ||
	    !same_object(caller, (void *)(uintptr_t)memprof_runtime.start))
		return false;
	if (version == VERSION_5_3)
		return opens_channel(caller);
	state = look_up("Caml_state", NULL);
	return state && *state;
}

static const char *take_lock_and_start(enum version version)
{
	const char *why;

	if (version != VERSION_5_3)
		return start_sampling(version);
	domain_lock.leave_blocking_section();
	why = start_sampling(version);
	domain_lock.enter_blocking_section();
	return why;
}

/* Starts sampling if an OCaml runtime called lseek(). True: no further call needs to be looked at. */
static bool settle(const void *caller)
{
	enum version version;
	const char *why;
	bool collector;

	if (!look_up("caml_main", NULL))
		return true;
	version = find_version();
	why = objection(version);
	collector = collector_is_known(version);
	if ((!why || collector) && !runtime_is_up(version, caller))
		return false;
	if (collector && !ocaml_ring_is_read())
		ocaml_gc_start(version != VERSION_5_3);
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
