/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's life: start, threads, control words, fork, off.
 *
 *   NEW ── first allocation after libc is up ──> ON ── any failure, or a child not followed ──> OFF
 *
 * It starts with the first allocation, not in a constructor, so that the blocks which other
 * libraries allocate in theirs are seen. What needs more of libc (thread keys, fork handlers) waits
 * for our constructor.
 */
#include "agent/agent.h"

#include <dlfcn.h>
#include <link.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "agent/allocator.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/live.h"
#include "agent/events/mappings.h"
#include "agent/unwind/modules.h"
#include "agent/ocaml/ocaml.h"
#include "agent/path.h"
#include "agent/events/process.h"
#include "agent/spool.h"
#include "agent/unwind/walk.h"

AGENT_PER_THREAD struct thread self;

_Atomic uint32_t agent_state;
_Atomic uint32_t agent_sandboxed;
struct agent_config agent_config = {.interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2,
				    .map_events = 1 << 20};

bool agent_exact;
bool agent_use_tsc;
volatile uint32_t *agent_same_process;
static _Atomic uint32_t starting;
_Atomic uint32_t agent_threads;
static uint64_t seed;
static pthread_key_t exit_key;
static bool exit_key_made;

/* Far enough that an allocation never gets here again, near enough not to overflow. */
#define LEFT_FOREVER (1ull << 62)
/* While dormant the control words are looked at each so many bytes. */
#define LEFT_DORMANT (1ull << 19)

uint64_t agent_ticks(void)
{
	struct timespec t;

	if (LIKELY(agent_use_tsc))
		return cpu_ticks();
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool agent_lock(struct agent_lock *lock)
{
	for (uint32_t i = 0; i < 2000000; i++) {
		if (!atomic_load_explicit(&lock->held, memory_order_relaxed) &&
		    !atomic_exchange_explicit(&lock->held, 1, memory_order_acquire))
			return true;
		cpu_relax();
		if (i % 256 == 255 && !agent_sandboxed)
			sys_sched_yield();
	}
	agent_off(SPOOL_OFF_NO_MEMORY, EDEADLK, "a lock of the agent was never given back");
	return false;
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
	live_clear();
	if (!h)
		return;
	h->off_reason = reason;
	h->off_errno = (uint32_t)error;
	h->off_ticks = agent_ticks();
	strncpy(h->off_text, text, sizeof(h->off_text) - 1);
	atomic_store(&h->state, SPOOL_OFF);
}

/* ---- configuration ---- */

/*
 * The variable MAYFLY holds settings, KEY=VALUE, with commas between:
 *
 *	output=PATH	   the spool; %p in it is the pid, %2c and the like a character
 *	interval=BYTES	   a sample in so many bytes on average; 1: exact
 *	exact=1		   every allocation and free
 *	sampler=NAME	   stratified or poisson
 *	overhead=PERCENT   the share of a thread's time that samples may cost; the interval grows to
 *			   keep to it. 1, 0.5, ...; not in exact mode
 *	max_spool=BYTES	   the most that the spool's packets may take; what does not fit is dropped
 *	start=dormant	   records nothing until it is told to
 *	follow=1	   children, too
 *	pid=N		   only this process, unless children are followed
 *	seed=N		   of the sampler, for tests
 *	ocaml=RATE	   samples for each word that an OCaml program allocates (1e-5), or off
 *	map_events=BYTES   mmap, munmap and the like of so many bytes or more are recorded (1M), or
 *			   off
 *	ocaml_frames=N	   the most frames of an OCaml stack (128), leaf-most ones first
 *
 * overhead and max_spool are for a spool that the agent makes itself; a recorder puts its own into
 * the one that it makes. BYTES may end with K, M or G.
 */

/* "512K" -> 524288, between 1 and `most`. */
static bool parse_bytes(const char *text, size_t length, uint64_t most, uint64_t *bytes)
{
	uint64_t value = 0;
	unsigned shift = 0;
	size_t i = 0;

	for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
		if (value > 1ull << 60)
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	if (i == 0 || value == 0)
		return false;
	if (i < length) {
		static const char units[] = "kmg";
		const char *unit = strchr(units, text[i] | 0x20);
		if (!unit || !*unit)
			return false;
		shift = 10 * (unsigned)(unit - units + 1);
		i++;
	}
	if (i != length || value > most >> shift)
		return false;
	*bytes = value << shift;
	return true;
}

/* "0.5" -> 50, in 1/10000; more than 0, at most 100 %. */
static bool parse_percent(const char *text, size_t length, uint32_t *share)
{
	uint32_t value = 0, digits = 0, decimals = 0;
	bool point = false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '.' && !point) {
			point = true;
			continue;
		}
		if (text[i] < '0' || text[i] > '9' || value > SAMPLER_SHARE_ONE || decimals == 2)
			return false;
		value = value * 10 + (uint32_t)(text[i] - '0');
		digits++;
		decimals += point;
	}
	for (; decimals < 2; decimals++)
		value *= 10;
	if (digits == 0 || value == 0 || value > SAMPLER_SHARE_ONE)
		return false;
	*share = value;
	return true;
}

/* The log2 of the nearest power of two. */
static bool parse_interval(const char *text, size_t length, uint32_t *log2)
{
	uint64_t value;

	if (!parse_bytes(text, length, 1ull << SPOOL_INTERVAL_MAX_LOG2, &value))
		return false;
	uint32_t below = 63 - (uint32_t)__builtin_clzll(value);
	/* Nearest on the scale of the numbers themselves: 3 -> 4, 5 -> 4, 6 -> 8. */
	*log2 = below < SPOOL_INTERVAL_MAX_LOG2 && 2 * (value - (1ull << below)) >= 1ull << below
		    ? below + 1
		    : below;
	return true;
}

static bool parse_number(const char *text, size_t length, uint64_t *out)
{
	uint64_t value = 0;

	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	*out = value;
	return length > 0;
}

static int hex(char c)
{
	return c >= '0' && c <= '9'			? c - '0'
	       : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
							: -1;
}

/* "%2c" and the like are that character; "%p" is the pid, put in by make_path. */
static void take_path(const char *text, size_t length)
{
	char *out = agent_config.output;
	size_t n = 0, size = sizeof(agent_config.output) - 1;

	if (text[0] != '/') {
		long got = sys_getcwd(out, size - 1);
		if (got > 0)
			n = strlen(out);
		if (n == 0 || out[n - 1] != '/')
			out[n++] = '/';
	}
	for (size_t i = 0; i < length && n < size; i++) {
		if (text[i] == '%' && i + 2 < length && hex(text[i + 1]) >= 0 &&
		    hex(text[i + 2]) >= 0) {
			out[n++] = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
			i += 2;
		} else if (text[i] == '%' && i + 1 < length && text[i + 1] == 'p') {
			out[n++] = AGENT_PID_MARK;
			i++;
		} else {
			out[n++] = text[i];
		}
	}
	out[n] = 0;
}

void agent_add_note(const char *before, const char *text, size_t length)
{
	char *out = agent_config.note;
	size_t n = strlen(out), room = sizeof(agent_config.note) - 1 - n;
	size_t start = strlen(before);

	if (start + length + 2 > room)
		return;
	if (n)
		out[n++] = ';', out[n++] = ' ';
	memcpy(out + n, before, start);
	memcpy(out + n + start, text, length);
}

static bool word(const char *text, size_t length, const char *expected)
{
	return strlen(expected) == length && !memcmp(text, expected, length);
}

static void take_setting(const char *key, size_t key_length, const char *value, size_t length)
{
	uint64_t number = 0;
	bool good = true;

	if (word(key, key_length, "output")) {
		take_path(value, length);
	} else if (word(key, key_length, "interval")) {
		good = parse_interval(value, length, &agent_config.interval_log2);
	} else if (word(key, key_length, "exact")) {
		if (word(value, length, "1") || word(value, length, "yes"))
			agent_config.interval_log2 = 0;
	} else if (word(key, key_length, "overhead")) {
		good = parse_percent(value, length, &agent_config.overhead);
	} else if (word(key, key_length, "max_spool")) {
		good = parse_bytes(value, length, UINT64_MAX >> 1, &agent_config.max_spool);
	} else if (word(key, key_length, "map_events")) {
		if (word(value, length, "off"))
			agent_config.map_events = MAPPINGS_OFF;
		else
			good =
			    parse_bytes(value, length, UINT64_MAX >> 1, &agent_config.map_events);
	} else if (word(key, key_length, "ocaml")) {
		good = ocaml_take_rate(value, length);
	} else if (word(key, key_length, "ocaml_frames")) {
		good = parse_number(value, length, &number) && ocaml_take_frames(number);
	} else if (word(key, key_length, "sampler")) {
		agent_config.sampler =
		    word(value, length, "poisson") ? SPOOL_POISSON : SPOOL_STRATIFIED;
		good = agent_config.sampler || word(value, length, "stratified");
	} else if (word(key, key_length, "pid")) {
		good = parse_number(value, length, &number);
		agent_config.target_pid = (uint32_t)number;
	} else if (word(key, key_length, "seed")) {
		good = parse_number(value, length, &agent_config.seed);
	} else if (word(key, key_length, "follow")) {
		agent_config.follow = word(value, length, "1") || word(value, length, "yes");
	} else if (word(key, key_length, "start")) {
		agent_config.dormant = word(value, length, "dormant");
		good = agent_config.dormant || word(value, length, "on");
	} else {
		agent_add_note("unknown key in MAYFLY: ", key, key_length);
	}
	if (!good)
		agent_add_note("bad value in MAYFLY: ", key, (size_t)(value + length - key));
}

static void configure(void)
{
	const char *text = NULL;

	for (char **e = environ; *e; e++) {
		if (!strncmp(*e, "MAYFLY=", 7))
			text = *e + 7;
	}
	if (!text)
		text = "";
	take_path("mayfly.%p.spool", 15);
	while (*text) {
		size_t length = strcspn(text, ",");
		const char *equals = memchr(text, '=', length);
		if (equals)
			take_setting(text, (size_t)(equals - text), equals + 1,
				     (size_t)(text + length - equals - 1));
		else if (length)
			agent_add_note("unknown key in MAYFLY: ", text, length);
		text += length + (text[length] == ',');
	}
}

/* ---- start ---- */

/* The kernel keeps another clock when it has found the TSCs of the cores to disagree. */
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
	long p = sys_mmap(NULL, CPU_PAGE_LEAST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (sys_failed(p))
		return false;
	agent_same_process = (uint32_t *)p;
	*agent_same_process = 1;
	sys_madvise((void *)p, CPU_PAGE_LEAST, MADV_WIPEONFORK);
	return true;
}

static void finish_start(uint32_t state)
{
	atomic_store(&agent_state, state);
}

static void start(void)
{
	uint32_t reason = SPOOL_OFF_NONE;
	int error = 0;

	configure();
	if (agent_config.target_pid && !agent_config.follow)
		environment_hide();
	if (agent_config.target_pid && agent_config.target_pid != (uint32_t)sys_getpid() &&
	    !agent_config.follow) {
		finish_start(AGENT_OFF);
		return;
	}
	agent_use_tsc = choose_tsc();
	seed = agent_config.seed;
	if (!seed && sys_getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = cpu_ticks();
	if (!make_same_process() || !spool_open(&reason, &error)) {
		finish_start(AGENT_OFF);
		return;
	}
	bool walking = walk_init();
	bool tables = walking && (agent_config.interval_log2 ? live_init() : true);
	if (agent_config.interval_log2 == 0) {
		live_every();
		agent_exact = true;
	}
	finish_start(AGENT_ON);
	mappings_start(agent_config.map_events);
	if (!walking)
		agent_off(SPOOL_OFF_LIBC, 0, "this C library has no _dl_find_object (glibc 2.35)");
	else if (!tables)
		agent_off(SPOOL_OFF_NO_MEMORY, ENOMEM, "no memory for the agent's tables");
}

bool agent_start(void)
{
	uint32_t state = atomic_load_explicit(&agent_state, memory_order_acquire);

	if (LIKELY(state != AGENT_NEW))
		return state == AGENT_ON;
	/* ld.so allocates before libc knows the environment: too early. */
	if (!environ || atomic_exchange(&starting, 1))
		return false;
	start();
	return atomic_load(&agent_state) == AGENT_ON;
}

/* ---- threads ---- */

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void apply_control(void)
{
	uint32_t generation = atomic_load(&spool_header->control_generation);
	uint32_t interval = atomic_load(&spool_header->control_interval_log2);
	bool limited = atomic_load(&spool_header->control_overhead) != 0;

	self.control_generation = generation;
	if (limited && !self.sampler.limited)
		sampler_begin_budget(&self.sampler);
	else if (!limited && self.sampler.limited)
		sampler_end_budget(&self.sampler, &self.budget);
	if (!agent_exact && interval <= SPOOL_INTERVAL_MAX_LOG2 &&
	    interval != self.sampler.interval_log2)
		sampler_set_interval(&self.sampler, interval);
}

static void thread_begin(void)
{
	uint32_t interval = atomic_load(&spool_header->control_interval_log2);

	self.number = atomic_fetch_add(&agent_threads, 1) + 1;
	self.tid = agent_sandboxed ? 0 : (uint32_t)sys_gettid();
	self.control_generation = atomic_load(&spool_header->control_generation);
	self.state = THREAD_ACTIVE;
	sampler_init(&self.sampler, agent_config.sampler,
		     interval <= SPOOL_INTERVAL_MAX_LOG2 && !agent_exact
			 ? interval
			 : agent_config.interval_log2,
		     mix(seed + 0x9e3779b97f4a7c15u * self.number));
	if (atomic_load(&spool_header->control_overhead))
		sampler_begin_budget(&self.sampler);
	if (exit_key_made)
		pthread_setspecific(exit_key, &self);
}

bool agent_thread_ready(void)
{
	if (UNLIKELY(!agent_start())) {
		/* Before the start everything passes; the first allocation after it comes here. */
		self.sampler.left = atomic_load(&agent_state) == AGENT_OFF ? LEFT_FOREVER : 0;
		return false;
	}
	if (UNLIKELY(!*agent_same_process))
		agent_forked();
	if (UNLIKELY(atomic_load_explicit(&agent_state, memory_order_relaxed) != AGENT_ON)) {
		self.sampler.left = LEFT_FOREVER;
		return false;
	}
	if (UNLIKELY(self.state == THREAD_NEW))
		thread_begin();
	if (UNLIKELY(self.control_generation !=
		     atomic_load_explicit(&spool_header->control_generation, memory_order_relaxed)))
		apply_control();
	return true;
}

bool agent_dormant(void)
{
	if (LIKELY(atomic_load_explicit(&spool_header->control_enabled, memory_order_relaxed)))
		return false;
	self.dormant = 1;
	self.sampler.left = LEFT_DORMANT;
	return true;
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

/* What the forking thread was doing. When it forks from a signal handler on the sample path it may
 * hold the locks itself; the child gives them back by force. */
static __thread uint8_t busy_before_fork __attribute__((tls_model("initial-exec")));
static __thread bool locked_for_fork __attribute__((tls_model("initial-exec")));
static uint64_t fork_ticks; /* of the FORK record; 0: there is none. Written under the locks. */

/* The FORK record stands where the locks are held, as near to the fork as can be. */
static void before_fork(void)
{
	bool announce = false;

	busy_before_fork = self.busy;
	locked_for_fork = !self.busy && atomic_load(&agent_state) == AGENT_ON;
	self.busy = BUSY_AGENT;
	if (locked_for_fork && agent_config.follow && agent_thread_ready()) {
		if (!self.writer)
			self.writer = spool_acquire();
		announce = self.writer && spool_fork_room(self.writer);
	}
	if (locked_for_fork) {
		live_lock();
		fork_ticks = announce ? spool_fork(self.writer) : 0;
	}
}

static void after_fork_parent(void)
{
	if (locked_for_fork) {
		live_unlock();
	}
	path_give_back_writer();
	self.busy = busy_before_fork;
}

bool agent_forked(void)
{
	uint32_t reason;
	int error;
	uint32_t wiped = 0;
	uint64_t ticks = locked_for_fork ? fork_ticks : 0;

	if (!__atomic_compare_exchange_n((uint32_t *)agent_same_process, &wiped, 1, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return false;
	live_reset_lock();
	modules_forked();
	allocator_forked();
	if (!agent_config.follow || atomic_load(&agent_state) != AGENT_ON) {
		/* Off without a word in the header: it is the parent's. */
		spool_forget();
		live_clear();
		atomic_store(&agent_state, AGENT_OFF);
		return true;
	}
	self.tid = (uint32_t)sys_gettid();
	if (!spool_open_child(ticks, &reason, &error)) {
		spool_forget();
		live_clear();
		atomic_store(&agent_state, AGENT_OFF);
		return true;
	}
	if (self.writer) {
		self.writer->tid = self.tid;
		walk_forget(&self.writer->walk);
	} else {
		self.writer = spool_acquire();
	}
	modules_each(agent_module_seen);
	ocaml_forked();
	return true;
}

static void after_fork_child(void)
{
	if (agent_same_process && atomic_load(&agent_state) != AGENT_NEW) {
		*agent_same_process = 0; /* on a kernel that does not wipe */
		agent_forked();
	}
	path_give_back_writer();
	self.busy = busy_before_fork;
}

/* ---- load and exit ---- */

/* Its tools that do so preload a library, beside one that all have. A dlsym that fails would leave
 * its message to the program's dlerror. */
static bool valgrind_replaces_malloc(void)
{
	for (char **e = environ; e && *e; e++) {
		const char *at = strncmp(*e, "LD_PRELOAD=", 11) ? NULL : *e;

		while (at && (at = strstr(at, "/vgpreload_")))
			if (strncmp(at += 11, "core", 4))
				return true;
	}
	return false;
}

/* A program with a malloc of its own never calls ours. What dlsym finds first may also be the
 * program's table of jumps to ours: then its symbol there is undefined. */
static bool hooks_are_called(void)
{
	if (valgrind_replaces_malloc())
		return false;

	void *first = agent_dlsym(RTLD_DEFAULT, "malloc");
	Dl_info here, there;
	ElfW(Sym) *symbol = NULL;

	if (!first || !dladdr((void *)start, &here) ||
	    !dladdr1(first, &there, (void **)&symbol, RTLD_DL_SYMENT))
		return true;
	return there.dli_fbase == here.dli_fbase || !symbol || symbol->st_shndx == SHN_UNDEF;
}

/* Nothing stays mapped: valgrind reads all that is, also where the spool has not grown yet, which
 * takes it minutes. A thread that was faster may have a packet. */
static void leave(void)
{
	agent_off(SPOOL_OFF_OWN_MALLOC, 0,
		  "the program brings its own malloc, which cannot be seen from here");
	if (atomic_load(&agent_threads) <= 1)
		spool_forget();
}

__attribute__((constructor)) static void loaded(void)
{
	int error = errno;

	mappings_look_up();
	process_look_up();
	if (agent_start()) {
		self.busy = BUSY_AGENT;
		exit_key_made = !pthread_key_create(&exit_key, thread_exit);
		environment_start();
		pthread_atfork(before_fork, after_fork_parent, after_fork_child);
		if (!hooks_are_called())
			leave();
		self.busy = BUSY_NOT;
	}
	errno = error;
}

__attribute__((destructor)) static void unloaded(void)
{
	int error = errno;

	if (atomic_load(&agent_state) != AGENT_ON || !*agent_same_process)
		return;
	if (path_enter()) {
		if (agent_thread_ready() && path_writer())
			allocator_end(self.writer);
		path_leave();
	}
	spool_end();
	errno = error;
}
