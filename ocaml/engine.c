/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part between OCaml's sampler and the file: the session, forks, and memory outside the heaps.
 *
 *	no session ── engine_begin() ──> session ── engine_end() ──> no session
 *	                                    └── fork, in the child ──────^
 *
 * A fork is noticed at the next event, by a page that the kernel wipes in the child: libc's fork
 * handlers would miss children that are made without libc.
 */
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/ocaml/ocaml_service.h"
#include "agent/sampler.h"

static const struct library_sink *sink; /* NULL: no session */
static bool inherited;			/* the runtime still samples for the parent's session */

/* ---- domains ---- */

/* Domains of OCaml 5 run callbacks and primitives at the same time. The holder never waits for the
 * runtime and never lets it raise, so the collector cannot wait for the lock's holder. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void engine_lock(void)
{
	pthread_mutex_lock(&lock);
}

void engine_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* ---- forks ---- */

static volatile uint32_t *same_process; /* NULL until the first session */
static bool wiped;			/* the kernel wipes the page in children */
static pid_t session_pid;

static bool make_fork_page(void)
{
	if (!same_process) {
		void *p =
		    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return false;
		same_process = p;
		wiped = madvise(p, 4096, MADV_WIPEONFORK) == 0;
	}
	*same_process = 1;
	session_pid = getpid();
	return true;
}

static bool is_child(void)
{
	return wiped ? !*same_process : getpid() != session_pid;
}

bool engine_running(void)
{
	if (sink && __builtin_expect(is_child(), 0)) {
		sink->abandon();
		sink = NULL;
		inherited = true;
	}
	return sink != NULL;
}

void engine_stop_inherited(void)
{
	if (engine_running() || !inherited)
		return;
	inherited = false;
	memprof_runtime.stop(MEMPROF_NONE);
}

/* ---- sessions ---- */

bool engine_begin(const struct library_sink *to)
{
	if (!make_fork_page()) {
		to->close();
		return false;
	}
	sink = to;
	return true;
}

const char *engine_end(void)
{
	const struct library_sink *ended;
	const char *problem;

	engine_lock();
	ended = engine_running() ? sink : NULL;
	sink = NULL;
	problem = ended ? ended->close() : NULL;
	engine_unlock();
	return problem;
}

const struct mayfly_agent_calls *engine_calls(void)
{
	return engine_running() && !sink->failed() ? sink->calls : NULL;
}

/* ---- calls from the runtime ---- */

static bool pass_allocated(const struct memprof_block *block, intptr_t *kept)
{
	int error = errno;
	bool followed = false, failed = false;

	engine_lock();
	if (engine_running()) {
		failed = sink->failed();
		followed = !failed && sink->allocated(block, block->source == MEMPROF_CUSTOM, kept);
	}
	engine_unlock();
	engine_stop_inherited();
	/* Allowed in a callback; in OCaml 5 another domain may have stopped it, and it would raise. */
	if (failed && !memprof_runtime.c_call)
		memprof_runtime.stop(MEMPROF_NONE);
	errno = error;
	return followed;
}

static void pass_promoted(intptr_t kept)
{
	int error = errno;

	engine_lock();
	if (engine_running())
		sink->promoted(kept);
	engine_unlock();
	errno = error;
}

static void pass_collected(intptr_t kept)
{
	int error = errno;

	engine_lock();
	if (engine_running())
		sink->collected(kept);
	engine_unlock();
	errno = error;
}

const struct memprof_watcher engine_watcher = {pass_allocated, pass_promoted, pass_collected};

/* ---- the agent ---- */

static const struct ocaml_service *agent(void)
{
	static const struct ocaml_service *(*service)(uint32_t version);
	static bool looked;

	if (!looked) {
		void *p = dlsym(RTLD_DEFAULT, OCAML_SERVICE_NAME);

		memcpy(&service, &p, sizeof(service));
		looked = true;
	}
	return service ? service(OCAML_SERVICE_VERSION) : NULL;
}

double engine_agent_rate(void)
{
	const struct ocaml_service *a = agent();

	return a ? a->rate() : -1;
}

uint32_t engine_agent_frames(void)
{
	const struct ocaml_service *a = agent();

	return a ? a->frames() : 0;
}

/* ---- memory outside the heaps ---- */

bool engine_allocated_outside(const struct memprof_block *block, intptr_t *kept)
{
	const struct ocaml_service *a;
	bool running, followed = false;

	engine_lock();
	running = engine_running();
	if (running)
		followed = sink->allocated(block, true, kept);
	engine_unlock();
	if (running)
		return followed;
	a = agent();
	return a && a->allocated(block, kept);
}

void engine_freed_outside(intptr_t kept)
{
	const struct ocaml_service *a;
	bool running;

	engine_lock();
	running = engine_running();
	if (running)
		sink->collected(kept);
	engine_unlock();
	if (running)
		return;
	a = agent();
	if (a)
		a->freed(kept);
}

static uint64_t draw_word(void)
{
	static __thread uint64_t state;

	if (!state && getrandom(&state, sizeof(state), GRND_NONBLOCK) != sizeof(state))
		state = (uint64_t)(uintptr_t)__builtin_frame_address(0) ^ (uint64_t)getpid() << 40;
	state += SAMPLER_SPLITMIX_STEP;
	return sampler_splitmix(state);
}

int64_t engine_gap(double rate)
{
	double uniform = ((double)(draw_word() >> 11) + 0.5) * 0x1p-53, gap;

	if (rate >= 1)
		return 1;
	gap = 1 + floor(log(uniform) / log1p(-rate)); /* geometric */
	return gap < 0x1p52 ? (int64_t)gap : (int64_t)1 << 52;
}
