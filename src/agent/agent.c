/* SPDX-License-Identifier: Apache-2.0 */
/* The state that the agent's files share: see agent.h. */
#include "agent/agent.h"

#include <errno.h>
#include <string.h>

#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/live_filter.h"

#define LOCK_SPINS	 200000
#define LOCK_SPINS_ALONE 20000000 /* in a sandbox, where it cannot sleep */
#define LOCK_NAP_NS	 200000
#define LOCK_NAPS	 10000 /* with the kernel's slack some 2.5 s */

AGENT_PER_THREAD struct thread self;
_Atomic uint32_t agent_threads;

_Atomic uint32_t agent_state;
struct spool_header *spool_header;
bool agent_exact;
bool agent_use_tsc;
static const uintptr_t not_ending;
const volatile uintptr_t *agent_ending_word = &not_ending;
_Atomic bool agent_ending_noted;
uint64_t agent_map_least = AGENT_MAP_EVENTS_OFF;
_Atomic uint32_t agent_sandboxed;
volatile uint32_t *agent_same_process;
struct agent_config agent_config = {
    .interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2,
    .map_events = 1 << 20,
    .ocaml_rate = AGENT_OCAML_RATE,
    .ocaml_frames = SPOOL_OCAML_ASKED,
};

uint64_t agent_ticks(void)
{
	return LIKELY(agent_use_tsc) ? cpu_ticks() : agent_clock_ns(CLOCK_MONOTONIC);
}

void agent_ends(void)
{
	if (!atomic_exchange(&agent_ending_noted, true))
		atomic_store(&spool_header->ending_ticks, agent_ticks());
}

static bool take_lock(struct agent_lock *lock)
{
	return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
	       !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire);
}

/* First it spins, as the sections are short. A holder that has lost its processor needs ours or some
 * time: on a busy machine, 100 ms and more pass before it runs again. */
bool agent_lock_beside_fork(struct agent_lock *lock, uint32_t naps)
{
	for (uint32_t i = 0; i < (agent_sandboxed ? LOCK_SPINS_ALONE : LOCK_SPINS); i++) {
		if (take_lock(lock))
			return true;
		if (!naps && atomic_load(&lock->forks))
			return false;
		cpu_relax();
		if (i % 256 == 255 && !agent_sandboxed)
			sys_sched_yield();
	}
	for (uint32_t i = 0; i < LOCK_NAPS && !agent_sandboxed; i++) {
		if (take_lock(lock))
			return true;
		if (i >= naps && atomic_load(&lock->forks))
			return false;
		sys_nap(LOCK_NAP_NS);
	}
	agent_off(SPOOL_OFF_NO_MEMORY, EDEADLK, "a lock of the agent was never given back");
	return false;
}

bool agent_lock(struct agent_lock *lock)
{
	return agent_lock_beside_fork(lock, LOCK_NAPS);
}

void agent_unlock(struct agent_lock *lock)
{
	atomic_store_explicit(&lock->held, 0, memory_order_release);
}

void agent_off(uint32_t reason, int error, const char *text)
{
	struct spool_header *h = spool_header;
	uint32_t on = AGENT_ON;

	if (!atomic_compare_exchange_strong(&agent_state, &on, AGENT_OFF))
		return;
	live_filter_clear();
	if (!h)
		return;
	h->off_reason = reason;
	h->off_errno = (uint32_t)error;
	h->off_ticks = agent_ticks();
	strncpy(h->off_text, text, sizeof(h->off_text) - 1);
	atomic_store(&h->state, SPOOL_OFF);
}

static size_t append(char *out, size_t used, size_t size, const char *text, size_t length)
{
	size_t n = length < size - 1 - used ? length : size - 1 - used;

	memcpy(out + used, text, n);
	out[used + n] = 0;
	return used + n;
}

void agent_add_note(const char *before, const char *text, size_t length)
{
	char *out = agent_config.note;
	size_t size = sizeof(agent_config.note), used = strlen(out);

	if (used)
		used = append(out, used, size, "; ", 2);
	used = append(out, used, size, before, strlen(before));
	append(out, used, size, text, length);
}
