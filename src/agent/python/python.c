/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of Python in the stacks of an unmodified CPython.
 *
 * One native call of the evaluator runs a group of Python frames. It has a variable on its C stack
 * that the chain leads to: the struct _PyCFrame in 3.11, the entry frame since 3.12. So its address
 * tells which native frame the group belongs to, and no native function needs to be known.
 *
 * Only the chain of the thread itself is read, which changes only in the thread's own code. The
 * thread's state is found by its own thread-specific key while it runs without the interpreter's
 * lock; not while the interpreter ends, as the main thread then frees the states of others.
 */
#include <string.h>

#include "agent/interpreter/interpreter.h"
#include "agent/python/pymalloc.h"
#include "agent/python/python_code.h"

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
	uint64_t finalizing; /* in _PyRuntime: set by Py_FinalizeEx(), behind functions of atexit */
} python;

/* ---- the chain of frames ---- */

static inline uintptr_t word_at(const char *object, uint64_t offset)
{
	return *(const uintptr_t *)(object + offset);
}

static inline void take_frame(const struct interpreter_stack *s, const char *frame)
{
	const char *code = (const char *)word_at(frame, python.executable);
	uint64_t address =
	    python_code_address(s->w, s->codes, code, word_at(frame, python.instruction));

	if (address)
		mixed_put(s->chain, address);
}

static inline bool may_read(const char *address)
{
	return address && !((uintptr_t)address & 7);
}

/* 3.11: struct _PyCFrame of each native call has {use_tracing, current_frame, previous}. */
static void take_chain_311(const struct interpreter_stack *s, const char *thread)
{
	const char *native = (const char *)word_at(thread, python.current);
	uint32_t seen = 0;

	while (may_read(native) && seen < CHAIN_MOST) {
		const char *frame = (const char *)word_at(native, 8);
		bool entry = false;

		for (; may_read(frame) && !entry && seen < CHAIN_MOST; seen++) {
			take_frame(s, frame);
			entry = frame[python.owner - 1]; /* is_entry */
			frame = (const char *)word_at(frame, python.previous);
		}
		if (entry)
			mixed_end_group(s->chain, (uintptr_t)native);
		native = (const char *)word_at(native, 16);
	}
}

/* Since 3.12 the chain goes through the entry frames. */
static void take_chain(const struct interpreter_stack *s, const char *thread)
{
	const char *frame = (const char *)word_at(thread, python.current);

	if (python.minor == 12 && frame) /* struct _PyCFrame {current_frame, previous} */
		frame = (const char *)word_at(frame, 0);
	for (uint32_t seen = 0; may_read(frame) && seen < CHAIN_MOST; seen++) {
		if (frame[python.owner] == OF_C_STACK)
			mixed_end_group(s->chain, (uintptr_t)frame);
		else
			take_frame(s, frame);
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

/* ---- the interpreter as a whole ---- */

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
	if (!*agent_ending_word)
		atomic_store(&agent_ending_noted, false);
	codes_see_frees(0);
}

static void take(const struct interpreter_stack *stack)
{
	const struct interpreter_stack s = *stack; /* in registers */
	const char *thread = own_state();

	codes_begin(s.codes, 0);
	if (thread && python.minor == 11)
		take_chain_311(&s, thread);
	else if (thread)
		take_chain(&s, thread);
	if (s.chain->frames)
		wrap_again(thread);
	else if (UNLIKELY(!thread) && !python.is_initialized())
		is_down();
}

static bool wrap(void)
{
	atomic_store(&is_up, false);
	return !python.set_allocator || pymalloc_wrap(python.get_allocator, python.set_allocator);
}

/* ---- versions ---- */

/* Counted in words after the cookie and the version of _Py_DebugOffsets of 3.13. */
enum {
	FREE_THREADED = 0,
	FINALIZING = 2, /* from the beginning of _PyRuntime */
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

static const char *read_offsets(const struct interpreter_library *in)
{
	const char *runtime;
	const uint64_t *o;

	if (!library_look_up(in, "_PyRuntime", &runtime) || memcmp(runtime, "xdebugpy", 8) != 0)
		return "its layout is not known";
	o = (const uint64_t *)(runtime + 16);
	if (o[FREE_THREADED])
		return "it is a free-threaded build";
	python.finalizing = o[FINALIZING];
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
static const char *find_layout(const struct interpreter_library *in, uint32_t minor)
{
	python.current = 56;
	python.finalizing = 24;
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

/* Exact mode asks at every free: a call of is_finalizing() was 4 % of its time. */
static void find_ending(const struct interpreter_library *in)
{
	const char *runtime;

	if (library_look_up(in, "_PyRuntime", &runtime))
		agent_ending_word =
		    (const volatile uintptr_t *)(const void *)(runtime + python.finalizing);
}

/* NULL: the frames can be read. */
static const char *find_python(const struct interpreter_library *in)
{
	const unsigned long *version;
	const char *why = UNKNOWN_VERSION;

	if (library_look_up(in, "Py_Version", &version) && *version >> 24 == 3) {
		python.minor = *version >> 16 & 0xff;
		why = find_layout(in, python.minor);
	}
	if (why)
		return why;
	if (image_find(&in->image, "_Py_NegativeRefcount"))
		return "it is a debug build";
	if (!library_look_up(in,
			     python.minor < 13 ? "_PyThreadState_UncheckedGet"
					       : "PyThreadState_GetUnchecked",
			     &python.thread) ||
	    !library_look_up(in, "PyGILState_GetThisThreadState", &python.own_thread) ||
	    !library_look_up(in, "Py_IsInitialized", &python.is_initialized) ||
	    !library_look_up(in, python.minor < 13 ? "_Py_IsFinalizing" : "Py_IsFinalizing",
			     &python.is_finalizing) ||
	    !library_look_up(in, "PyCode_Type", &python_code_type))
		return "its functions were not found";
	if (!library_look_up(in, "PyMem_GetAllocator", &python.get_allocator) ||
	    !library_look_up(in, "PyMem_SetAllocator", &python.set_allocator))
		python.set_allocator = NULL;
	find_ending(in);
	return NULL;
}

const struct interpreter interpreter_python = {
    .language = "Python",
    .symbol = "Py_GetVersion",
    .unwanted = &agent_config.no_python,
    .find = find_python,
    .take = take,
    .wrap = wrap,
    .unwrap = pymalloc_unwrap,
};
