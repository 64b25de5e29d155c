/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of Python in the stacks of an unmodified CPython.
 *
 * After each capture of the native stack, python_mix() reads the interpreter's own chain of frames and
 * has mixed.c make the stack that is written.
 *
 * One native call of the evaluator runs a group of Python frames. It has a variable on its C stack
 * that the chain leads to: the struct _PyCFrame in 3.11, the entry frame since 3.12. So its address
 * tells which native frame the group belongs to, and no native function needs to be known.
 *
 * Only the chain of the thread itself is read, which changes only in the thread's own code. The
 * thread's state is found by its own thread-specific key while it runs without the interpreter's
 * lock; not while the interpreter ends, as the main thread then frees the states of others.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "agent/bypass.h"
#include "agent/cpu/sys.h"
#include "agent/image.h"
#include "agent/life.h"
#include "agent/python/mixed.h"
#include "agent/python/pymalloc.h"
#include "agent/python/python.h"
#include "agent/python/python_code.h"
#include "agent/real.h"
#include "agent/slots.h"

#define CHAIN_MOST 1000000u
#define OF_C_STACK 3 /* owner of a frame: an entry frame */

static struct {
	uint32_t minor;
	const char *(*thread)(void); /* the one that holds the lock; before 3.12: of any thread */
	const char *(*own_thread)(void); /* of this thread, with or without the lock */
	int (*is_initialized)(void);
	int (*is_finalizing)(void);
	pymalloc_exchange *get_allocator, *set_allocator; /* or NULL */
	uint64_t current, previous, executable, instruction, owner;
} python;

/* ---- the chain of frames ---- */

/* Of a writer: too large for the stack of a thread. */
struct mixing {
	struct mixed mixed;
	struct python_code_latest codes;
};

/* What the frames are put into. */
struct taking {
	struct writer *w;
	struct python_code_latest *codes;
	struct mixed_chain *chain;
};

static inline uintptr_t word_at(const char *object, uint64_t offset)
{
	return *(const uintptr_t *)(object + offset);
}

static inline void take_frame(const struct taking *t, const char *frame)
{
	const char *code = (const char *)word_at(frame, python.executable);
	uint64_t address =
	    python_code_address(t->w, t->codes, code, word_at(frame, python.instruction));

	if (address)
		mixed_put(t->chain, address);
}

static inline bool may_read(const char *address)
{
	return address && !((uintptr_t)address & 7);
}

/* 3.11: struct _PyCFrame of each native call has {use_tracing, current_frame, previous}. */
static void take_chain_311(const struct taking *t, const char *thread)
{
	const char *native = (const char *)word_at(thread, python.current);
	uint32_t seen = 0;

	while (may_read(native) && seen < CHAIN_MOST) {
		const char *frame = (const char *)word_at(native, 8);
		bool entry = false;

		for (; may_read(frame) && !entry && seen < CHAIN_MOST; seen++) {
			take_frame(t, frame);
			entry = frame[python.owner - 1]; /* is_entry */
			frame = (const char *)word_at(frame, python.previous);
		}
		if (entry)
			mixed_end_group(t->chain, (uintptr_t)native);
		native = (const char *)word_at(native, 16);
	}
}

/* Since 3.12 the chain goes through the entry frames. */
static void take_chain(const struct taking *t, const char *thread)
{
	const char *frame = (const char *)word_at(thread, python.current);

	if (python.minor == 12 && frame) /* struct _PyCFrame {current_frame, previous} */
		frame = (const char *)word_at(frame, 0);
	for (uint32_t seen = 0; may_read(frame) && seen < CHAIN_MOST; seen++) {
		if (frame[python.owner] == OF_C_STACK)
			mixed_end_group(t->chain, (uintptr_t)frame);
		else
			take_frame(t, frame);
		frame = (const char *)word_at(frame, python.previous);
	}
}

/* This thread's state, or NULL. */
static const char *own_state(void)
{
	const char *holder = python.thread(), *own;

	if (python.minor >= 12 && holder)
		return holder;
	own = python.own_thread();
	if (own && own == holder)
		return own;
	return own && python.is_initialized() && !python.is_finalizing() ? own : NULL;
}

/* ---- the stack ---- */

static _Atomic bool is_up; /* and its allocators are wrapped */

/* When the interpreter is up, PYTHONMALLOC may have replaced its allocators. */
static void wrap_again(const char *thread)
{
	if (thread == python.thread() && !atomic_exchange(&is_up, true))
		pymalloc_wrap_again();
}

/* The program may start the interpreter anew, which then replaces them again. */
static COLD void is_down(void)
{
	atomic_store(&is_up, false);
	python_code_see_frees(0);
}

static _Atomic uint32_t known_to; /* the process whose spool has the places */

static void python_mix(struct writer *w)
{
	const char *thread = own_state();
	struct taking t;

	atomic_thread_fence(memory_order_acquire); /* of find(), in another thread */
	if (!w->mixing && !agent_sandboxed)
		w->mixing = sys_memory(sizeof(struct mixing));
	if (!w->mixing)
		return;
	if (UNLIKELY(known_to != spool_header->pid)) {
		if (known_to)
			python_code_forked();
		python_code_forget();
		known_to = spool_header->pid;
	}
	t = (struct taking){w, &w->mixing->codes, mixed_begin(&w->mixing->mixed)};
	python_code_begin(t.codes);
	if (thread && python.minor == 11)
		take_chain_311(&t, thread);
	else if (thread)
		take_chain(&t, thread);
	if (t.chain->frames)
		wrap_again(thread);
	else if (UNLIKELY(!thread) && !python.is_initialized())
		is_down();
	mixed_make(&w->mixing->mixed, w);
	if (!w->is_mixed) { /* the packet's stack is the native one */
		w->is_mixed = true;
		w->stack_known = false;
	}
}

/* ---- start ---- */

/* The executable or library that has the interpreter. */
struct interpreter {
	struct image image;
	char path[1024]; /* "": the executable */
	bool late;	 /* it may be a library that the program has opened */
};

static int look_for_interpreter(struct dl_phdr_info *info, size_t size, void *to)
{
	struct interpreter *found = to;

	(void)size;
	if (!slots_image(info, &found->image) || !image_find(&found->image, "Py_GetVersion"))
		return 0;
	strncat(found->path, info->dlpi_name, sizeof(found->path) - 1);
	return 1;
}

/* Finds it without dlsym: where that finds nothing, it leaves a message for the program's dlerror(), in a
 * block of the program's malloc. */
static bool find_interpreter(struct interpreter *found)
{
	int (*walk)(int (*)(struct dl_phdr_info *, size_t, void *), void *) = NULL;

	REAL_LOOK_UP(walk, dl_iterate_phdr);
	return walk && walk(look_for_interpreter, found);
}

/* Another thread may be just loading the library, and the program may close it. This waits for the
 * loader's lock, and the library stays for good. */
static bool keep(const struct interpreter *found)
{
	void *(*open)(const char *, int) = NULL;

	REAL_LOOK_UP(open, dlopen);
	return !*found->path ||
	       (open && open(found->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE));
}

/* One that was opened late may have been opened with RTLD_LOCAL, so that only it itself knows. */
static bool look_up(const struct interpreter *in, const char *name, void *function)
{
	void *p = in->late ? image_find(&in->image, name) : dlsym(RTLD_DEFAULT, name);

	memcpy(function, &p, sizeof(p));
	return p;
}

/* Counted in words after the cookie and the version of _Py_DebugOffsets of 3.13. */
enum {
	FREE_THREADED = 0,
	CURRENT_FRAME = 21,
	PREVIOUS = 27,
	EXECUTABLE = 28,
	INSTRUCTION = 29,
	OWNER = 31,
	FILENAME = 33,
	QUALNAME = 35,
	LINETABLE = 36,
	FIRSTLINENO = 37,
	BYTECODE = 41,
};

static const char *read_offsets(const struct interpreter *in)
{
	const char *runtime;
	const uint64_t *o;

	if (!look_up(in, "_PyRuntime", &runtime) || memcmp(runtime, "xdebugpy", 8) != 0)
		return "its layout is not known";
	o = (const uint64_t *)(runtime + 16);
	if (o[FREE_THREADED])
		return "it is a free-threaded build";
	python.current = o[CURRENT_FRAME];
	python.previous = o[PREVIOUS];
	python.executable = o[EXECUTABLE];
	python.instruction = o[INSTRUCTION];
	python.owner = o[OWNER];
	python_layout = (struct python_layout){
	    .code_filename = (uint32_t)o[FILENAME],
	    .code_qualname = (uint32_t)o[QUALNAME],
	    .code_linetable = (uint32_t)o[LINETABLE],
	    .code_firstlineno = (uint32_t)o[FIRSTLINENO],
	    .code_bytecode = (uint32_t)o[BYTECODE],
	    .text = 40,
	    .wide_text = 56,
	};
	return NULL;
}

#define UNKNOWN_VERSION "only those of CPython 3.11, 3.12 and 3.13 are known"

/* struct _ts, _PyInterpreterFrame and PyCodeObject of 64-bit systems, without Py_DEBUG. */
static const char *find_layout(const struct interpreter *in, uint32_t minor)
{
	python.current = 56;
	switch (minor) {
	case 11:
		python.previous = 48;
		python.executable = 32;
		python.instruction = 56;
		python.owner = 69;
		python_layout = (struct python_layout){112, 128, 136, 72, 184, 48, 72};
		return NULL;
	case 12:
		python.previous = 8;
		python.executable = 0;
		python.instruction = 56;
		python.owner = 70;
		python_layout = (struct python_layout){112, 128, 136, 68, 192, 40, 56};
		return NULL;
	case 13:
		return read_offsets(in);
	}
	return UNKNOWN_VERSION;
}

/* NULL: the frames can be read. */
static const char *find_python(const struct interpreter *in)
{
	const unsigned long *version;
	const char *why = UNKNOWN_VERSION;

	if (look_up(in, "Py_Version", &version) && *version >> 24 == 3) {
		python.minor = *version >> 16 & 0xff;
		why = find_layout(in, python.minor);
	}
	if (why)
		return why;
	if (image_find(&in->image, "_Py_NegativeRefcount"))
		return "it is a debug build";
	if (!look_up(in,
		     python.minor < 13 ? "_PyThreadState_UncheckedGet"
				       : "PyThreadState_GetUnchecked",
		     &python.thread) ||
	    !look_up(in, "PyGILState_GetThisThreadState", &python.own_thread) ||
	    !look_up(in, "Py_IsInitialized", &python.is_initialized) ||
	    !look_up(in, python.minor < 13 ? "_Py_IsFinalizing" : "Py_IsFinalizing",
		     &python.is_finalizing) ||
	    !look_up(in, "PyCode_Type", &python_code_type))
		return "its functions were not found";
	return NULL;
}

static void note_unknown(const char *why)
{
	char note[128] = "Python frames are unknown: ";

	strncat(note, why, sizeof(note) - strlen(note) - 1);
	spool_note(note);
}

static void find_late(void);

static void find(bool late)
{
	struct interpreter in = {.late = late};
	struct dl_find_object own;
	const char *why;

	if (agent_config.no_python || _dl_find_object((void *)find, &own))
		return;
	bypass_opened = find_late;
	if (!find_interpreter(&in) || (late && !keep(&in)))
		return;
	bypass_opened = NULL;
	mixed_own_start = (uintptr_t)own.dlfo_map_start;
	mixed_own_size = (uintptr_t)own.dlfo_map_end - mixed_own_start;
	why = find_python(&in);
	if (why) {
		note_unknown(why);
		return;
	}
	known_to = spool_header->attached ? 0 : spool_header->pid;
	atomic_thread_fence(memory_order_release);
	spool_mix = python_mix;
	if (look_up(&in, "PyMem_GetAllocator", &python.get_allocator) &&
	    look_up(&in, "PyMem_SetAllocator", &python.set_allocator))
		pymalloc_wrap(python.get_allocator, python.set_allocator);
}

/* A library was opened. */
static void find_late(void)
{
	static atomic_flag looking = ATOMIC_FLAG_INIT;
	int error = errno;

	if (self.busy || agent_sandboxed || atomic_flag_test_and_set(&looking))
		return;
	self.busy = BUSY_AGENT;
	if (bypass_opened)
		find(true);
	self.busy = BUSY_NOT;
	atomic_flag_clear(&looking);
	errno = error;
}

/* The second time, the interpreter is known, and other threads may be reading its stacks. */
void python_start(void)
{
	atomic_store(&is_up, false);
	if (!spool_mix)
		find(true);
	else if (python.set_allocator && !pymalloc_wrap(python.get_allocator, python.set_allocator))
		spool_note(
		    "Python's allocators were replaced since mayfly was attached to it before: "
		    "blocks that they do not take from malloc are not seen");
}

void python_forked(void)
{
	python_code_forked();
}

void python_stop(void)
{
	known_to = 0;
	if (spool_mix)
		pymalloc_unwrap();
}

/* The interpreter is in the executable, or in a library that it was linked with. */
__attribute__((constructor)) static void start(void)
{
	if (!life_start())
		return;
	self.busy = BUSY_AGENT;
	find(false);
	self.busy = BUSY_NOT;
}
