/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OCaml heap of an unmodified native program.
 *
 *	Stdlib opens stdin ──> lseek (here) ──> is this an OCaml runtime that we know?
 *	                                           └─> caml_memprof_start(rate, frames, tracker)
 *	runtime samples a block ──> tracker's closure ──> thunk ──> allocated() ──> SAMPLE
 *	                            moved to the major heap  ───────> promoted()  ──> PROMOTE
 *	                            collected                ───────> collected() ──> FREE
 *
 * ocamlopt links programs with -E, so the runtime's functions can be looked up by name, in stripped
 * programs too. The lseek() of a new channel is the earliest call of the runtime's into libc that
 * comes from OCaml code, with the runtime fully up and its lock held.
 *
 * The callbacks run with the runtime lock held, one at a time, so what is static here needs no lock
 * of its own. They allocate nothing in the OCaml heap and raise nothing, so neither the collector
 * nor another OCaml thread runs while one does. What they return is a static block, that the
 * runtime reads before it calls the next one.
 *
 * The runtime has one sampler for all. A program that starts it itself (Memtrace, Gc.Memprof) gets
 * it: the first bytes of caml_memprof_start and caml_memprof_stop are replaced by a jump to
 * yield_start() and yield_stop(), which put them back, stop our sampling and go on with the real
 * function. Calls inside the executable cannot be seen otherwise.
 */
#undef _FILE_OFFSET_BITS /* lseek and lseek64 are two names here */
#include "ocaml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "agent.h"
#include "cpu.h"
#include "modules.h"
#include "path.h"
#include "spool.h"

/* ---- OCaml values, as OCaml 4 has them on 64-bit machines ---- */

typedef intptr_t value;

#define INT_VALUE(n)	   ((value)((uintptr_t)(n) << 1 | 1))
#define VALUE_INT(v)	   ((intptr_t)(v) >> 1)
#define IS_BLOCK(v)	   (!((v)&1))
#define FIELD(v, i)	   (((const value *)(v))[i])
#define WORDS(v)	   ((size_t)((const uintptr_t *)(v))[-1] >> 10)
#define HEADER(words, tag) ((uintptr_t)(words) << 10 | 3u << 8 | (tag)) /* black: not the GC's */
#define NONE		   INT_VALUE(0)
#define TAG_CLOSURE	   247u
#define TAG_DOUBLE	   253u
#define CLOSURE_INFO_1	   ((value)((uintptr_t)1 << 56 | 2u << 1 | 1)) /* arity 1 */

enum source { SOURCE_NORMAL = 0, SOURCE_MARSHAL = 1, SOURCE_CUSTOM = 2 };

/* Gc.Memprof.allocation */
enum { ALLOCATION_SAMPLES, ALLOCATION_SIZE, ALLOCATION_SOURCE, ALLOCATION_CALLSTACK };

/* struct caml_loc_info of caml/backtrace.h */
struct location {
	int valid, is_raise;
	const char *file, *function;
	int line, first, last;
	int inlined;
};

static struct {
	value (*start)(value rate, value frames, value tracker);
	value (*stop)(value unit);
	void *(*debuginfo)(uintptr_t slot);
	void *(*debuginfo_next)(void *debuginfo);
	void (*debuginfo_location)(void *debuginfo, struct location *location);
} runtime;

/* ---- settings ---- */

#define INTERVAL_MOST 40u /* log2 */

static bool wanted = true;
static double wanted_rate = 1e-5; /* samples for each word */
static uint32_t interval_log2;	  /* of the bytes for each sample, rounded down */
static uint64_t interval_bytes;
static uint32_t most_frames = 128;

static double power_of_ten(unsigned int n)
{
	double power = 1;

	for (; n; n--)
		power *= 10;
	return power;
}

/* "1e-5", "0.001", "1": with up to 15 digits, and as small as rates may be, to the last bit. */
static bool parse_rate(const char *text, size_t length, double *rate)
{
	int exponent = 0, decimals = 0;
	bool point = false;
	double number = 0;
	size_t i = 0, digits = 0;

	for (; i < length && ((text[i] >= '0' && text[i] <= '9') || (text[i] == '.' && !point));
	     i++) {
		if (text[i] == '.') {
			point = true;
			continue;
		}
		number = number * 10 + (text[i] - '0');
		decimals += point;
		if (++digits > 30)
			return false;
	}
	if (i < length && (text[i] | 0x20) == 'e') {
		bool negative = ++i < length && text[i] == '-';
		size_t first = i += negative || (i < length && text[i] == '+');

		for (; i < length && text[i] >= '0' && text[i] <= '9' && exponent < 100; i++)
			exponent = exponent * 10 + (text[i] - '0');
		if (i == first)
			return false;
		exponent = negative ? -exponent : exponent;
	}
	exponent -= decimals;
	*rate = exponent < 0 ? number / power_of_ten((unsigned int)-exponent)
			     : number * power_of_ten((unsigned int)exponent);
	return digits && i == length && *rate > 0 && *rate <= 1;
}

static void set_interval(void)
{
	double bytes = sizeof(value) / wanted_rate;

	interval_log2 = 0;
	while (interval_log2 < INTERVAL_MOST && bytes >= (double)(2ull << interval_log2))
		interval_log2++;
	interval_bytes = (uint64_t)bytes;
}

/* Rates so small that there would be no sample become the smallest. */
bool ocaml_take_rate(const char *text, size_t length)
{
	double least = sizeof(value) / (double)(1ull << INTERVAL_MOST);

	wanted = !(length == 3 && !memcmp(text, "off", 3));
	if (!wanted || (length == 2 && !memcmp(text, "on", 2)))
		return true;
	if (!parse_rate(text, length, &wanted_rate)) {
		wanted_rate = 1e-5;
		return false;
	}
	if (wanted_rate < least)
		wanted_rate = least;
	return true;
}

bool ocaml_take_frames(uint64_t frames)
{
	if (frames < 1 || frames > SPOOL_OCAML_FRAMES)
		return false;
	most_frames = (uint32_t)frames;
	return true;
}

/* ---- places ---- */

/*
 * Each frame of a stack comes as a slot: the frame's descriptor, whose first word is the return
 * address, or, of the allocating function itself, the place's debug information with bit 1 set.
 * Both become addresses like those of C stacks ("address - 1 is the place").
 */
static uint64_t slot_address(uintptr_t slot)
{
	if (!(slot & 2))
		return *(const uintptr_t *)slot;
	return slot - 2 ? slot - 2 + 1 : 0;
}

/* The addresses whose places are in the spool: open addressing, at most half full. */
static uint64_t *known;
static size_t known_size, known_used;

static size_t known_place(uint64_t address)
{
	size_t i = (size_t)(address * 0x9e3779b97f4a7c15u >> 32) & (known_size - 1);

	while (known[i] && known[i] != address)
		i = (i + 1) & (known_size - 1);
	return i;
}

static bool grow_known(void)
{
	uint64_t *old = known;
	size_t old_size = known_size, size = old_size ? 2 * old_size : 4096;
	long p;

	if (agent_sandboxed)
		return false;
	p = sys_mmap(NULL, size * sizeof(*known), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed(p))
		return false;
	known = (uint64_t *)p;
	known_size = size;
	for (size_t i = 0; i < old_size; i++)
		if (old[i])
			known[known_place(old[i])] = old[i];
	if (old)
		sys_munmap(old, old_size * sizeof(*old));
	return true;
}

/* The first time that an address is met: its module and its place go to the spool. Without memory
 * for the table they are left to whoever looks up symbols. */
static void know(struct writer *w, uint64_t address, uintptr_t slot)
{
	struct spool_place place[SPOOL_OCAML_PLACES];
	struct dl_find_object found;
	struct location l;
	uint32_t places = 0;
	size_t i;

	if (2 * (known_used + 1) > known_size && !grow_known())
		return;
	i = known_place(address);
	if (known[i])
		return;
	known[i] = address;
	known_used++;
	if (!_dl_find_object((void *)(address - 1), &found))
		modules_note(&found);
	for (void *d = runtime.debuginfo(slot); d && places < SPOOL_OCAML_PLACES;
	     d = runtime.debuginfo_next(d)) {
		runtime.debuginfo_location(d, &l);
		if (!l.valid)
			continue;
		place[places++] = (struct spool_place){
		    .function = l.function,
		    .file = l.file,
		    .line = l.line > 0 ? (uint32_t)l.line : 0,
		    .first = l.first > 0 ? (uint32_t)l.first : 0,
		    .last = l.last > 0 ? (uint32_t)l.last : 0,
		};
	}
	if (places)
		spool_place(w, agent_ticks(), address, place, places);
}

static uint64_t stack[SPOOL_OCAML_FRAMES + 1];

/* The stack from its root into stack[]; how many frames. */
static uint32_t take_stack(struct writer *w, value callstack)
{
	size_t given = WORDS(callstack), kept = given > most_frames ? most_frames : given;
	uint32_t n = 0, same = w->ocaml_depth;

	/* One more was asked for, to know when there are more. */
	if (kept < given)
		stack[n++] = SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0);
	for (size_t i = kept; i--;) {
		uintptr_t slot = (uintptr_t)VALUE_INT(FIELD(callstack, i)) << 1;
		uint64_t address = slot_address(slot);

		if (!address)
			continue;
		if (n >= same || w->ocaml_stack[n] != address) {
			same = 0;
			know(w, address, slot);
		}
		stack[n++] = address;
	}
	return n;
}

/* ---- the callbacks ---- */

/* What the runtime keeps of a block for us: its number and, for the sum of what is live, hits. */
#define ID_BITS	  44
#define HITS_MOST ((1u << (62 - ID_BITS)) - 1)

static struct {
	uintptr_t header;
	value kept;
} some = {HEADER(1, 0), NONE};

static value keep(value kept)
{
	some.kept = kept;
	return (value)&some.kept;
}

static int64_t weight(uint64_t hits)
{
	return (int64_t)((hits < HITS_MOST ? hits : HITS_MOST) * interval_bytes);
}

static bool started;
static bool sampling = true; /* false: the program has Memprof for itself now */

/* NONE: the block is not followed any further. */
static value record(value allocation, uint32_t heap)
{
	uint64_t hits = (uint64_t)VALUE_INT(FIELD(allocation, ALLOCATION_SAMPLES));
	uint64_t words = (uint64_t)VALUE_INT(FIELD(allocation, ALLOCATION_SIZE));
	struct spool_header *h = spool_header;
	struct writer *w = path_writer();
	uint64_t ticks, id;
	uint32_t depth;

	if (!w || (UNLIKELY(!w->packet) && !spool_room(w, 1))) {
		if (w)
			spool_drop_sample(w);
		else
			atomic_fetch_add_explicit(&h->dropped_samples, 1, memory_order_relaxed);
		return NONE;
	}
	if (VALUE_INT(FIELD(allocation, ALLOCATION_SOURCE)) == SOURCE_CUSTOM)
		heap = SPOOL_HEAP_EXTERNAL;
	else
		words++; /* the header, which is sampled like the rest */
	depth = take_stack(w, FIELD(allocation, ALLOCATION_CALLSTACK));
	ticks = agent_ticks();
	id = atomic_fetch_add_explicit(&h->next_sample_id, 1, memory_order_relaxed);
	if (!spool_ocaml_sample(w, ticks, id, words * sizeof(value), (uint32_t)hits, heap, stack,
				depth))
		return NONE;
	if (hits > HITS_MOST)
		hits = HITS_MOST;
	atomic_fetch_add_explicit(&h->live_bytes, weight(hits), memory_order_relaxed);
	atomic_fetch_add_explicit(&h->live_samples, 1, memory_order_relaxed);
	return keep(INT_VALUE(hits << ID_BITS | (id & ((1ull << ID_BITS) - 1))));
}

static value allocated(value allocation, uint32_t heap)
{
	int error = errno;
	value kept = NONE;

	if (!path_enter())
		return NONE;
	if (agent_thread_ready() && sampling && !agent_dormant())
		kept = record(allocation, heap);
	path_leave();
	errno = error;
	return kept;
}

static value promoted(value kept)
{
	uint64_t id = (uint64_t)VALUE_INT(kept) & ((1ull << ID_BITS) - 1);
	int error = errno;

	if (path_enter()) {
		struct writer *w = agent_thread_ready() && sampling ? path_writer() : NULL;

		if (w)
			spool_promote(w, agent_ticks(), id);
		path_leave();
	}
	errno = error;
	return keep(kept);
}

static value collected(value kept)
{
	uint64_t id = (uint64_t)VALUE_INT(kept) & ((1ull << ID_BITS) - 1);
	uint64_t hits = (uint64_t)VALUE_INT(kept) >> ID_BITS;
	int error = errno;

	if (path_enter()) {
		if (agent_thread_ready() && sampling) {
			struct spool_header *h = spool_header;
			struct writer *w = path_writer();

			atomic_fetch_sub_explicit(&h->live_bytes, weight(hits),
						  memory_order_relaxed);
			atomic_fetch_sub_explicit(&h->live_samples, 1, memory_order_relaxed);
			atomic_fetch_add_explicit(&h->frees, 1, memory_order_relaxed);
			if (w)
				spool_free(w, agent_ticks(), id, 0);
			else
				atomic_fetch_add_explicit(&h->dropped_frees, 1,
							  memory_order_relaxed);
		}
		path_leave();
	}
	errno = error;
	return NONE; /* unit */
}

/* OCaml passes the argument in rax. The stack is aligned as C wants it; what OCaml needs to find
 * again (r14, r15) C functions keep; the result is expected where C puts it. */
#define THUNK(name, function)                                                                      \
	void name(void);                                                                           \
	value function(value);                                                                     \
	__asm__(".pushsection .text\n\t.p2align 4\n\t.hidden " #name "\n\t.globl " #name           \
		"\n\t.type " #name ", @function\n" #name ":\n\tmov %rax, %rdi\n\tjmp " #function   \
		"\n\t.size " #name ", . - " #name "\n\t.popsection")
#define HIDDEN __attribute__((visibility("hidden"), used))

THUNK(ocaml_enter_minor, ocaml_allocated_minor);
THUNK(ocaml_enter_major, ocaml_allocated_major);
THUNK(ocaml_enter_promoted, ocaml_promoted);
THUNK(ocaml_enter_collected, ocaml_collected);

HIDDEN value ocaml_allocated_minor(value allocation)
{
	return allocated(allocation, SPOOL_HEAP_MINOR);
}

HIDDEN value ocaml_allocated_major(value allocation)
{
	return allocated(allocation, SPOOL_HEAP_MAJOR);
}

HIDDEN value ocaml_promoted(value kept)
{
	return promoted(kept);
}

HIDDEN value ocaml_collected(value kept)
{
	return collected(kept);
}

/* ---- blocks that the runtime is given ---- */

enum { MINOR, MAJOR, PROMOTED, COLLECTED, CLOSURES };

static struct {
	uintptr_t header;
	void (*code)(void);
	value info;
} closure[CLOSURES] = {
    [MINOR] = {HEADER(2, TAG_CLOSURE), ocaml_enter_minor, CLOSURE_INFO_1},
    [MAJOR] = {HEADER(2, TAG_CLOSURE), ocaml_enter_major, CLOSURE_INFO_1},
    [PROMOTED] = {HEADER(2, TAG_CLOSURE), ocaml_enter_promoted, CLOSURE_INFO_1},
    [COLLECTED] = {HEADER(2, TAG_CLOSURE), ocaml_enter_collected, CLOSURE_INFO_1},
};

/* Gc.Memprof.tracker: alloc_minor, alloc_major, promote, dealloc_minor, dealloc_major */
static struct {
	uintptr_t header;
	void *function[5];
} tracker = {HEADER(5, 0),
	     {&closure[MINOR].code, &closure[MAJOR].code, &closure[PROMOTED].code,
	      &closure[COLLECTED].code, &closure[COLLECTED].code}};

static struct {
	uintptr_t header;
	double number;
} rate = {HEADER(1, TAG_DOUBLE), 0};

/* ---- the program's own use of Memprof ---- */

#define JUMP_BYTES 14u /* jmp *0(%rip), and where to */

struct patch {
	uint8_t *at;
	uint8_t original[JUMP_BYTES];
};
static struct patch patch_start, patch_stop;

static bool write_code(uint8_t *at, const uint8_t *bytes)
{
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;
	size_t length = (uintptr_t)at + JUMP_BYTES - page;

	/* Other threads may be running what else is in the page. */
	if (sys_failed(sys_mprotect((void *)page, length, PROT_READ | PROT_WRITE | PROT_EXEC)))
		return false;
	memcpy(at, bytes, JUMP_BYTES);
	sys_mprotect((void *)page, length, PROT_READ | PROT_EXEC);
	return true;
}

static bool redirect(struct patch *p, void *function, void *to)
{
	uint8_t jump[JUMP_BYTES] = {0xff, 0x25, 0, 0, 0, 0};

	p->at = function;
	memcpy(p->original, function, JUMP_BYTES);
	memcpy(jump + 6, &to, sizeof(to));
	return write_code(p->at, jump);
}

/* The runtime is as it would be without us, but for what the program allocates meanwhile. */
static void yield(void)
{
	static const char text[] = "the program uses Gc.Memprof itself: its OCaml blocks are "
				   "recorded up to there only";
	int error = errno;

	write_code(patch_start.at, patch_start.original);
	write_code(patch_stop.at, patch_stop.original);
	if (!sampling)
		return;
	sampling = false;
	runtime.stop(NONE);
	if (path_enter()) {
		struct writer *w = agent_thread_ready() ? path_writer() : NULL;

		if (w) {
			spool_heap_end(w, agent_ticks());
			spool_note(text);
		}
		path_leave();
	}
	errno = error;
}

static value yield_start(value sampling_rate, value frames, value their_tracker)
{
	yield();
	return runtime.start(sampling_rate, frames, their_tracker);
}

static value yield_stop(value unit)
{
	yield();
	return runtime.stop(unit); /* raises, since nobody has started it */
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
 * The runtime tells its version nowhere that a stripped program keeps, but each version brings
 * functions that are always linked: caml_erfc came with 4.13, caml_ml_set_buffered with 4.14,
 * caml_domain_spawn with 5.0 (and the multicore branch of 4.12).
 */
static bool is_tested_version(void)
{
	return look_up("caml_erfc", NULL) && !look_up("caml_ml_set_buffered", NULL) &&
	       !look_up("caml_domain_spawn", NULL) && look_up("caml_memprof_stop", &runtime.stop) &&
	       look_up("caml_debuginfo_extract", &runtime.debuginfo) &&
	       look_up("caml_debuginfo_next", &runtime.debuginfo_next) &&
	       look_up("caml_debuginfo_location", &runtime.debuginfo_location);
}

/* Why this OCaml program's blocks are not recorded; NULL: nothing is in the way. */
static const char *objection(void)
{
	if (look_up("caml_interprete", NULL))
		return "OCaml blocks are not recorded: the program is bytecode";
	if (!is_tested_version())
		return "OCaml blocks are not recorded: the program's runtime is not that of "
		       "OCaml 4.13";
	if (getenv("MEMTRACE") && *getenv("MEMTRACE"))
		return "OCaml blocks are not recorded: MEMTRACE is set, the program traces them "
		       "itself";
	if (agent_exact)
		return "OCaml blocks are not recorded: they are sampled, and this is a recording "
		       "of every allocation; record without --exact for them";
	return NULL;
}

static void tell_rate(void)
{
	uint64_t bits;

	memcpy(&bits, &wanted_rate, sizeof(bits));
	atomic_store(&spool_header->ocaml_rate, bits);
	atomic_store(&spool_header->ocaml_interval_log2, interval_log2);
}

static const char *start_sampling(void)
{
	value frames = INT_VALUE(most_frames + 1);

	set_interval();
	rate.number = wanted_rate;
	tell_rate();
	runtime.start((value)&rate.number, frames, (value)&tracker.function);
	if (redirect(&patch_start, (void *)(uintptr_t)runtime.start,
		     (void *)(uintptr_t)yield_start) &&
	    redirect(&patch_stop, (void *)(uintptr_t)runtime.stop, (void *)(uintptr_t)yield_stop)) {
		started = true;
		return NULL;
	}
	if (patch_stop.at) /* the second one failed */
		write_code(patch_start.at, patch_start.original);
	runtime.stop(NONE);
	atomic_store(&spool_header->ocaml_interval_log2, 0);
	return "OCaml blocks are not recorded: this system does not let code be changed, which "
	       "the program's own use of Gc.Memprof would need";
}

static bool same_object(const void *a, const void *b)
{
	struct dl_find_object x, y;

	return !_dl_find_object((void *)(uintptr_t)a, &x) &&
	       !_dl_find_object((void *)(uintptr_t)b, &y) && x.dlfo_link_map == y.dlfo_link_map;
}

static _Atomic bool settled; /* nothing is left to be found out */

/* Looks whether lseek() was called by an OCaml runtime. True: it is settled for good. */
static bool settle(const void *caller)
{
	const char *why;
	void **state;

	if (!look_up("caml_main", NULL))
		return true;
	why = objection();
	if (!why) {
		/* Something of the program's, before the runtime is up? */
		state = look_up("Caml_state", NULL);
		if (!state || !*state || !look_up("caml_memprof_start", &runtime.start) ||
		    !same_object(caller, (void *)(uintptr_t)runtime.start))
			return false;
		why = start_sampling();
	}
	if (why)
		spool_note(why);
	return true;
}

static COLD void look(const void *caller)
{
	uint32_t state = atomic_load(&agent_state);
	int error = errno;

	if (state == AGENT_NEW || self.busy)
		return;
	self.busy = BUSY_AGENT;
	if (state == AGENT_OFF || !wanted || !*agent_same_process || settle(caller))
		atomic_store(&settled, true);
	self.busy = BUSY_NOT;
	errno = error;
}

void ocaml_forked(void)
{
	if (known)
		memset(known, 0, known_size * sizeof(*known));
	known_used = 0;
	if (started && sampling)
		tell_rate();
}

EXPORT off_t lseek(int fd, off_t offset, int whence)
{
	if (UNLIKELY(!atomic_load_explicit(&settled, memory_order_relaxed)))
		look(__builtin_return_address(0));
	return real.lseek(fd, offset, whence);
}

EXPORT off64_t lseek64(int fd, off64_t offset, int whence)
{
	if (UNLIKELY(!atomic_load_explicit(&settled, memory_order_relaxed)))
		look(__builtin_return_address(0));
	return real.lseek(fd, offset, whence);
}
