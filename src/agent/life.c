/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's life: start, threads, control words, fork. See life.h.
 *
 *   NEW ── first allocation after libc is up ──> ON ── any failure, a child not followed ──> OFF
 *
 * It starts with the first allocation, not in a constructor, so that the blocks which other
 * libraries allocate in theirs are seen. What needs more of libc (thread keys, fork handlers) waits
 * for our constructor, in load.c.
 */
#include "agent/life.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/allocator.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/environment.h"
#include "agent/fault.h"
#include "agent/live.h"
#include "agent/path.h"
#include "agent/ranges.h"
#include "agent/real.h"
#include "agent/settings.h"
#include "agent/spool.h"
#include "agent/spool_file.h"
#include "agent/unwind/modules.h"
#include "agent/unwind/walk.h"

void (*life_on_fork)(void);
void (*life_forget_locks)(void);

static _Atomic uint32_t starting;
static uint64_t seed;
static pthread_key_t exit_key;
static bool exit_key_made;

/* Far enough that an allocation never gets here again, near enough not to overflow. */
#define LEFT_FOREVER (1ull << 62)
/* While dormant, a thread looks at the control words at points that are so far apart at least (2^16
 * bytes: some 50 ns for each). */
#define DORMANT_LOG2 16u

static uint32_t
    attachments; /* of this process to a recorder while it ran; 0: started with the agent */

/* ---- start ---- */

/* The kernel uses another clock when it has found that the cores' counters disagree. */
static bool choose_tsc(void)
{
	char name[32] = "";

	if (!cpu_ticks_are_invariant())
		return false;
	long fd =
	    sys_openat(AT_FDCWD, "/sys/devices/system/clocksource/clocksource0/current_clocksource",
		       O_RDONLY | O_CLOEXEC, 0);
	if (sys_failed(fd))
		return true;
	long got = sys_read((int)fd, name, sizeof(name) - 1);
	sys_close((int)fd);
	return got < (long)sizeof(CPU_CLOCKSOURCE) - 1 ||
	       !memcmp(name, CPU_CLOCKSOURCE, sizeof(CPU_CLOCKSOURCE) - 1);
}

static bool make_same_process(void)
{
	uint32_t *page = sys_memory(CPU_PAGE_LEAST);

	if (!page)
		return false;
	agent_same_process = page;
	*agent_same_process = 1;
	sys_madvise(page, CPU_PAGE_LEAST, MADV_WIPEONFORK);
	return true;
}

/* agent_config is set. False: the agent cannot start; *reason and *error say why. */
static bool begin(uint32_t *reason, int *error, void (*before)(void))
{
	agent_use_tsc = choose_tsc();
	walk_trust_ticks(agent_use_tsc);
	seed = agent_config.seed;
	if (!seed && sys_getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = cpu_ticks();
	if (fault_guard)
		fault_guard();
	if (!(agent_same_process || make_same_process()) ||
	    !(attachments > 1 ? spool_open_again(reason, error) : spool_open(reason, error))) {
		if (fault_leave)
			fault_leave();
		return false;
	}
	agent_exact = spool_header->mode == SPOOL_EXACT;
	bool walking = walk_init();
	bool tables = walking && (agent_exact || live_init());
	ranges_forget(&ranges);
	if (agent_exact)
		live_filter_fill();
	spool_tell_live(live_where());
	atomic_store(&spool_header->attached, attachments ? 1 : agent_config.attached ? 2 : 0);
	if (before)
		before();
	atomic_store(&agent_state, AGENT_ON);
	agent_map_least = agent_config.map_events < AGENT_MAP_BLOCK_LEAST ? agent_config.map_events
									  : AGENT_MAP_BLOCK_LEAST;
	if (spool_file_is_lost())
		agent_off(SPOOL_OFF_LOST, 0, SPOOL_LOST_TEXT);
	else if (!walking)
		agent_off(SPOOL_OFF_LIBC, 0, "this C library has no _dl_find_object (glibc 2.35)");
	else if (!tables)
		agent_off(SPOOL_OFF_NO_MEMORY, ENOMEM, "no memory for the agent's tables");
	return true;
}

static void start_agent(void)
{
	uint32_t reason = SPOOL_OFF_NONE;
	int error = 0;

	settings_read();
	if (agent_config.target_pid && !agent_config.follow)
		environment_hide();
	else if (agent_config.follow)
		environment_keep();
	if (agent_config.target_pid && agent_config.target_pid != (uint32_t)sys_getpid() &&
	    !agent_config.follow) {
		atomic_store(&agent_state, AGENT_OFF);
		return;
	}
	if (!begin(&reason, &error, NULL))
		atomic_store(&agent_state, AGENT_OFF);
}

bool life_start(void)
{
	uint32_t state = atomic_load_explicit(&agent_state, memory_order_acquire);

	if (LIKELY(state != AGENT_NEW))
		return state == AGENT_ON;
	/* ld.so allocates before libc knows the environment: too early. */
	if (!environ || !atomic_load(&real_ready) || atomic_exchange(&starting, 1))
		return false;
	start_agent();
	return atomic_load(&agent_state) == AGENT_ON;
}

/* A spool that takes the place of an earlier one does not know what the stacks of others told. */
static void tell_modules(void)
{
	if (!life_thread_ready())
		return;
	if (!self.writer)
		self.writer = spool_acquire();
	spool_tell_modules();
	path_give_back_writer();
}

enum attachment life_attach(const char *settings, void (*before)(void), int *error)
{
	static struct agent_config defaults;
	uint32_t reason = SPOOL_OFF_NONE;

	if (!attachments)
		defaults = agent_config;
	agent_config = defaults;
	attachments++;
	*error = 0;
	atomic_store(&starting, 1); /* hooks are led here before all is ready */
	settings_take(settings);
	if (!begin(&reason, error, before)) {
		atomic_store(&agent_state, AGENT_OFF);
		return ATTACHMENT_NO_SPOOL;
	}
	/* For threads that were recorded before: they look at the control words again. */
	atomic_fetch_add(&spool_header->control_generation, attachments << 16);
	if (attachments > 1)
		tell_modules();
	return atomic_load(&agent_state) == AGENT_ON ? ATTACHMENT_DONE
	       : spool_file_is_lost()		     ? ATTACHMENT_LOST
						     : ATTACHMENT_OFF;
}

void life_detach(void)
{
	agent_off(SPOOL_OFF_DETACHED, 0, "mayfly was detached from the program");
}

/* ---- threads ---- */

static void adapt_to_fork(bool by_handler, bool interrupted);

/* The rule that the control words want. While dormant, points go on, and nothing is recorded at
 * them: so the first point after recording is enabled stands for what was allocated since then. */
static uint32_t wanted_interval(bool awake, bool *limited)
{
	uint32_t interval = agent_exact ? 0 : spool_interval_log2();

	*limited = !awake || atomic_load(&spool_header->control_overhead) != 0;
	return !awake && interval < DORMANT_LOG2 ? DORMANT_LOG2 : interval;
}

void life_settle(void)
{
	uint32_t generation = atomic_load(&spool_header->control_generation);
	bool awake = spool_enabled(), limited;

	if (self.control_generation != generation || self.dormant == awake) {
		uint32_t interval = wanted_interval(awake, &limited);

		self.control_generation = generation;
		self.dormant = !awake;
		if (!limited || !awake)
			self.budget.start = self.budget.large = 0;
		sampler_change(&self.sampler, interval, limited);
	}
	sampler_settle(&self.sampler);
}

/* on: there is a spool. */
static void thread_begin(bool on)
{
	bool limited = true, awake = on && spool_enabled();
	uint32_t interval = on ? wanted_interval(awake || agent_exact, &limited) : DORMANT_LOG2;

	self.number = atomic_fetch_add(&agent_threads, 1) + 1;
	self.tid = agent_sandboxed ? 0 : (uint32_t)sys_gettid();
	self.control_generation = on ? atomic_load(&spool_header->control_generation) : 0;
	self.dormant = !awake;
	self.state = THREAD_ACTIVE;
	sampler_init(&self.sampler, agent_config.sampler, interval,
		     sampler_splitmix(seed + SAMPLER_SPLITMIX_STEP * self.number));
	if (limited)
		sampler_set_limited(&self.sampler, true);
	if (exit_key_made)
		pthread_setspecific(exit_key, &self);
}

/* The agent is off. In a program that it was attached to, it may be switched on again, with threads
 * whose points have gone on. */
static void rest(void)
{
	if (!attachments)
		self.sampler.left = LEFT_FOREVER;
	else if (self.state == THREAD_NEW)
		thread_begin(false);
}

bool life_thread_ready(void)
{
	if (UNLIKELY(!life_start())) {
		/* Before the start nothing is counted; the first allocation after it comes here. */
		if (atomic_load(&agent_state) == AGENT_OFF)
			rest();
		else
			self.sampler.left = 0;
		return false;
	}
	if (UNLIKELY(!*agent_same_process))
		adapt_to_fork(false, false);
	if (UNLIKELY(atomic_load_explicit(&agent_state, memory_order_relaxed) != AGENT_ON)) {
		rest();
		return false;
	}
	if (UNLIKELY(self.state == THREAD_NEW))
		thread_begin(true);
	return true;
}

void life_pass(size_t size, uintptr_t caller)
{
	if (atomic_load(&agent_state) != AGENT_OFF || self.state == THREAD_NEW ||
	    size < self.sampler.left)
		return;
	sampler_take(&self.sampler, size, caller);
	sampler_settle(&self.sampler);
}

static void thread_exit(void *unused)
{
	(void)unused;
	if (self.busy)
		return;
	self.busy = BUSY_SAMPLING;
	if (self.writer && atomic_load(&agent_state) == AGENT_ON && *agent_same_process)
		spool_release(self.writer);
	self.writer = NULL;
	self.state = THREAD_EXITING;
	self.busy = BUSY_NOT;
}

/* ---- fork ---- */

/* What the forking thread was doing. If it forks from a signal handler on the sample path, it may
 * hold the locks itself; the child then resets them. */
static __thread uint8_t busy_before_fork __attribute__((tls_model("initial-exec")));
static __thread bool locked_for_fork __attribute__((tls_model("initial-exec")));
static __thread uint64_t fork_number __attribute__((tls_model("initial-exec")));
static _Atomic uint64_t forks; /* the last fork_number */
static uint64_t fork_ticks;    /* of the FORK record; 0: there is none. Written under the locks. */

/* The FORK record is written while the locks are held, as close to the fork as possible. */
void life_before_fork(void)
{
	bool announce = false;

	fork_number = atomic_fetch_add(&forks, 1) + 1;
	busy_before_fork = self.busy;
	locked_for_fork = !self.busy && atomic_load(&agent_state) == AGENT_ON;
	self.busy = BUSY_AGENT;
	if (locked_for_fork && agent_config.follow && life_thread_ready()) {
		if (!self.writer)
			self.writer = spool_acquire();
		announce = self.writer && spool_fork_room(self.writer);
	}
	if (locked_for_fork) {
		live_lock();
		ranges_lock_for_fork();
		fork_ticks = announce ? spool_fork(self.writer) : 0;
	}
}

void life_after_fork_parent(void)
{
	if (locked_for_fork) {
		ranges_unlock_after_fork();
		live_unlock();
	}
	path_give_back_writer();
	self.busy = busy_before_fork;
}

/* Off, without a reason in the header, which is the parent's. */
static void end_in_child(void)
{
	spool_forget();
	live_filter_clear();
	atomic_store(&agent_state, AGENT_OFF);
}

/* Otherwise the children of one process, and the process itself, would sample the same positions of
 * what they allocate: the errors of their sums would not be independent. Found late, they have one
 * point in common. */
static void reseed_in_child(bool by_handler, bool interrupted)
{
	seed = sampler_splitmix(seed + SAMPLER_SPLITMIX_STEP * fork_number);
	if (!agent_config.seed)
		seed ^= self.tid; /* forks that the handlers do not see have no number */
	if (self.state != THREAD_ACTIVE || agent_exact)
		return;
	if (by_handler && !interrupted)
		sampler_reseed(&self.sampler, sampler_splitmix(seed + self.number));
	else
		sampler_branch(&self.sampler, sampler_splitmix(seed + self.number));
}

/* The note is about this process alone: a child of its own that is noticed in time does not repeat it. */
static void note_late(bool late)
{
	static const char text[] = "made by a system call that mayfly does not see; until it was "
				   "noticed, it was sampled at the same points as its parent and "
				   "siblings, so sums over them are less certain than stated";
	static char *end; /* of the other notes */

	if (end)
		*end = 0;
	if (!late)
		return;
	end = agent_config.note + strlen(agent_config.note);
	agent_add_note("this process was ", text, sizeof(text) - 1);
}

/* Adapts the agent to this process if it is a fork()ed copy that has not done so yet. interrupted:
 * by the handler that forked, this thread is in the middle of a sample. */
static void adapt_to_fork(bool by_handler, bool interrupted)
{
	uint32_t reason;
	int error;
	uint32_t wiped = 0;
	uint64_t ticks = by_handler && locked_for_fork ? fork_ticks : 0;

	if (!__atomic_compare_exchange_n((uint32_t *)agent_same_process, &wiped, 1, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return;
	live_reset_lock();
	ranges_unlock_after_fork();
	modules_forked();
	allocator_forked();
	if (life_forget_locks)
		life_forget_locks();
	if (!agent_config.follow || atomic_load(&agent_state) != AGENT_ON) {
		end_in_child();
		return;
	}
	self.tid = (uint32_t)sys_gettid();
	note_late(!by_handler && !agent_exact);
	if (!spool_open_child(ticks, &reason, &error)) {
		end_in_child();
		return;
	}
	reseed_in_child(by_handler, interrupted);
	if (self.writer) {
		self.writer->tid = self.tid;
		walk_forget(&self.writer->walk);
	} else {
		self.writer = spool_acquire();
	}
	spool_tell_modules();
	if (life_on_fork)
		life_on_fork();
}

void life_after_fork_child(void)
{
	if (agent_same_process && atomic_load(&agent_state) != AGENT_NEW) {
		*agent_same_process = 0; /* on a kernel that does not wipe */
		adapt_to_fork(true, busy_before_fork != BUSY_NOT);
	}
	path_give_back_writer();
	self.busy = busy_before_fork;
}

void life_find_fork(void)
{
	if (LIKELY(!agent_same_process || *agent_same_process) || !path_enter())
		return;
	life_thread_ready();
	path_leave();
}

void life_watch(void)
{
	exit_key_made = !pthread_key_create(&exit_key, thread_exit);
	pthread_atfork(life_before_fork, life_after_fork_parent, life_after_fork_child);
}
