/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OCaml heap of an unmodified native program: see ocaml.h.
 *
 *	runtime samples a block ──> memprof.c ──> allocated() ──> ocaml_blocks.c ──> SAMPLE
 *	                                          record_promoted()  ──────────────────> PROMOTE
 *	                                          record_collected() ──────────────────> FREE
 */
#include "agent/ocaml/ocaml.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/life.h"
#include "agent/ocaml/ocaml_blocks.h"
#include "agent/ocaml/ocaml_domain.h"
#include "agent/ocaml/ocaml_service.h"
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

void (*ocaml_on_stale)(void);

static void stale(void)
{
	int error = errno;

	if (ocaml_on_stale)
		ocaml_on_stale();
	errno = error;
}

static const struct memprof_watcher watcher = {record_allocated, record_promoted, record_collected,
					       stale};

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

/* What stands at the beginning of the two functions. */
static _Atomic enum { CODE_THEIRS, CODE_OURS, CODE_CHANGING } code;

static void restore_code(void)
{
	write_code(patch_start.at, patch_start.original);
	write_code(patch_stop.at, patch_stop.original);
	atomic_store(&code, CODE_THEIRS);
}

/* In OCaml 5 several domains may want this at once; all return when the code is as it was. */
static void give_code_back(void)
{
	__typeof__(atomic_load(&code)) before = CODE_OURS;

	if (atomic_compare_exchange_strong(&code, &before, CODE_CHANGING))
		restore_code();
	while (atomic_load(&code) == CODE_CHANGING)
		cpu_relax();
}

void (*ocaml_on_yield)(void);

bool ocaml_has_yielded(void)
{
	return !sampling;
}

/* Hands the sampler over: the runtime is then as it would be without us. */
static void yield(void)
{
	static const char text[] = "the program uses Gc.Memprof itself: its OCaml blocks are "
				   "recorded up to there only";
	int error = errno;

	give_code_back();
	if (!atomic_exchange(&sampling, false))
		return;
	if (ocaml_on_yield)
		ocaml_on_yield();
	else
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

bool ocaml_watch_program(void)
{
	if (atomic_load(&code) == CODE_OURS)
		return true;
	if (!redirect(&patch_start, (void *)(uintptr_t)memprof_runtime.start,
		      (void *)(uintptr_t)yield_start))
		return false;
	if (!redirect(&patch_stop, (void *)(uintptr_t)memprof_runtime.stop,
		      (void *)(uintptr_t)yield_stop)) {
		write_code(patch_start.at, patch_start.original);
		return false;
	}
	atomic_store(&code, CODE_OURS);
	return true;
}

void ocaml_unwatch_program(void)
{
	give_code_back();
}

bool ocaml_program_is_watched(void)
{
	return atomic_load(&code) == CODE_OURS;
}

/* ---- start ---- */

/* The child's spool has no PLACE records yet. */
static void tell_forked_child(void)
{
	ocaml_blocks_forget();
	ocaml_domain_forget();
	if (started && sampling)
		runtime_blocks_tell_rate();
}

const char *ocaml_give_up(const char *why)
{
	started = false;
	atomic_store(&spool_header->ocaml_interval_log2, 0);
	return why;
}

/*
 * OCaml 5 puts a stack into a block of its heap, and collects for it: that walks the program's stack again,
 * and a sample that falls there is lost. With every block recorded, a deep recursion would take quadratic
 * time. So a stack's root counts less there than a program at its speed.
 */
static uint32_t most_frames(enum ocaml_version version)
{
	bool whole = agent_config.ocaml_frames == SPOOL_OCAML_ASKED;

	return whole && (version == OCAML_5_3 || agent_exact) ? SPOOL_OCAML_FRAMES
							      : agent_config.ocaml_frames;
}

bool ocaml_prepare(enum ocaml_version version)
{
	runtime_blocks_set_rate(agent_config.ocaml_rate);
	runtime_blocks.frames = most_frames(version);
	ocaml_blocks_forget();
	ocaml_domain_forget();
	if (!memprof_prepare(runtime_blocks.rate, &watcher))
		return false;
	life_on_fork = tell_forked_child;
	runtime_blocks_tell_rate();
	started = true;
	return true;
}

const char *ocaml_start(enum ocaml_version version)
{
	memprof_value profile = memprof_start(runtime_blocks_frames());

	if (version != OCAML_5_3 || memprof_is_profile(profile))
		return NULL;
	memprof_runtime.stop(MEMPROF_NONE);
	return "OCaml blocks are not recorded: this version of OCaml 5 is not known, its profiles "
	       "differ "
	       "from those of 5.3";
}
