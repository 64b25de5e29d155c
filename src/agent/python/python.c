/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of Python in the stacks of an unmodified CPython.
 *
 * One native call of the evaluator runs a group of Python frames. It has a variable on its C stack
 * that the chain leads to: the struct _PyCFrame in 3.11, the entry frame since 3.12. So its address
 * tells which native frame the group belongs to, and no native function needs to be known.
 *
 * Before 3.11, each native call of the evaluator runs one frame. In 3.10 it has a variable of its own that
 * the thread's state leads to, struct CFrame. 3.8 and 3.9 have none: there the native frames in the
 * evaluator's code are counted. A compiler may have put a part of that code elsewhere; then a frame of C
 * may stand on the wrong side of one of Python.
 *
 * Only the chain of the thread itself is read, which changes only in the thread's own code. The
 * thread's state is found by its own thread-specific key while it runs without the interpreter's
 * lock; not while the interpreter ends, as the main thread then frees the states of others.
 */
#include <string.h>

#include "agent/interpreter/interpreter.h"
#include "agent/python/pymalloc.h"
#include "agent/python/python_code.h"
#include "agent/ranges.h"

#define CHAIN_MOST 1000000u
#define OF_C_STACK 3 /* owner of a frame: an entry frame; 4 is none of Python either */

/* PyObjectArenaAllocator: where pymalloc has its memory from. */
struct arena_allocator {
	void *context;
	void *(*alloc)(void *context, size_t size);
	void (*free)(void *context, void *arena, size_t size);
};

static struct {
	uint32_t minor;
	const char *(*thread)(void); /* the one that holds the lock; before 3.12: of any thread */
	const char *(*own_thread)(void); /* of this thread, with or without the lock */
	int (*is_initialized)(void);
	int (*is_finalizing)(void);
	pymalloc_exchange *get_allocator, *set_allocator; /* or NULL */
	void (*get_arenas)(struct arena_allocator *);	  /* or NULL */
	uint64_t current, previous, executable, instruction, owner;
	uint64_t native;		    /* 3.10: the thread's CFrame; 0: there is none */
	uintptr_t evaluator, evaluator_end; /* before 3.10: its code */
	const void *frame_type;		    /* before 3.11: PyFrame_Type */
	int (*line_of)(const char *frame);  /* ... PyFrame_GetLineNumber() */
	uint64_t finalizing; /* in _PyRuntime: set by Py_FinalizeEx(), behind functions of atexit */
} python;

/* ---- the chain of frames ---- */

static inline uintptr_t word_at(const char *object, uint64_t offset)
{
	return *(const uintptr_t *)(object + offset);
}

static inline void take_frame(const struct interpreter_stack *s, const char *frame)
{
	/* 3.14 marks references in the lowest bits. */
	const char *code = (const char *)(word_at(frame, python.executable) & ~(uintptr_t)3);
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
		if (frame[python.owner] < OF_C_STACK)
			take_frame(s, frame);
		else if (frame[python.owner] == OF_C_STACK)
			mixed_end_group(s->chain, (uintptr_t)frame);
		frame = (const char *)word_at(frame, python.previous);
	}
}

/* ---- before 3.11 ---- */

/* The byte in the code; negative before the first instruction. */
static inline int64_t instruction_38(const char *frame)
{
	int32_t last = *(const int32_t *)(frame + python.instruction);

	return python.minor == 10 ? 2 * (int64_t)last : last;
}

static inline bool is_frame_38(const char *frame)
{
	return may_read(frame) && word_at(frame, 8) == (uintptr_t)python.frame_type;
}

static void take_frame_38(const struct interpreter_stack *s, const char *frame)
{
	const char *code = (const char *)word_at(frame, python.executable);
	int64_t byte = instruction_38(frame);
	uint64_t address = python_code_address(s->w, s->codes, code,
					       (uintptr_t)code + (uintptr_t)(byte < 0 ? 0 : byte));

	if (address)
		mixed_put(s->chain, address);
}

enum checked { UNCHECKED, RIGHT, WRONG };

/* Is what is known of the layouts what the interpreter says itself? Before the first instruction of a
 * frame that cannot be told. */
static COLD enum checked check_frame(const char *frame)
{
	const char *code;
	int64_t byte;
	int line;

	if (!is_frame_38(frame))
		return WRONG;
	code = (const char *)word_at(frame, python.executable);
	byte = instruction_38(frame);
	if (!may_read(code) || word_at(code, 8) != (uintptr_t)python_code_type)
		return WRONG;
	if (byte < 0)
		return UNCHECKED;
	line = python.line_of(frame);
	return python_code_line(code, (uint64_t)byte / 2) == (uint32_t)(line < 0 ? 0 : line)
		   ? RIGHT
		   : WRONG;
}

/* By the first frame that is met. */
static bool is_checked(const char *frame)
{
	static _Atomic enum checked found;

	if (UNLIKELY(atomic_load(&found) == UNCHECKED)) {
		atomic_store(&found, check_frame(frame));
		if (atomic_load(&found) == WRONG)
			spool_note("Python frames are unknown: they are not as CPython of this "
				   "version has them");
	}
	return atomic_load(&found) == RIGHT;
}

/* 3.10: struct CFrame {use_tracing, previous}; the last one is the thread state's own. */
static void take_chain_310(const struct interpreter_stack *s, const char *thread, const char *frame)
{
	const char *native = (const char *)word_at(thread, python.native);

	for (uint32_t seen = 0; is_frame_38(frame) && seen < CHAIN_MOST; seen++) {
		const char *outer = may_read(native) ? (const char *)word_at(native, 8) : NULL;

		take_frame_38(s, frame);
		if (outer) {
			mixed_end_group(s->chain, (uintptr_t)native);
			native = outer;
		}
		frame = (const char *)word_at(frame, python.previous);
	}
}

static inline bool is_evaluator(const struct walk_frame *f)
{
	return f->address - python.evaluator < python.evaluator_end - python.evaluator && f->cfa;
}

/* The next native frame of the evaluator, from `at` towards the root; 0: there is none, or something was
 * left out before it. */
static uint32_t next_evaluator(const struct walk *w, uint32_t at)
{
	while (at > 0 && !is_evaluator(&w->frames[at - 1])) {
		if (!w->frames[at - 1].cfa)
			return 0;
		at--;
	}
	return at;
}

/* How many more native calls of the evaluator there are than frames: of one that has not begun yet. */
static uint32_t too_many(const struct walk *w, const char *frame)
{
	uint32_t natives = 0, frames = 0;

	for (uint32_t at = w->depth; (at = next_evaluator(w, at)); at--)
		natives++;
	for (; frames < natives && is_frame_38(frame); frames++)
		frame = (const char *)word_at(frame, python.previous);
	return natives - frames;
}

static void take_chain_38(const struct interpreter_stack *s, const char *frame)
{
	const struct walk *w = &s->w->walk;
	uint32_t at = next_evaluator(w, w->depth);

	for (uint32_t skip = too_many(w, frame); skip > 0; skip--)
		at = next_evaluator(w, at - 1);
	for (uint32_t seen = 0; is_frame_38(frame) && seen < CHAIN_MOST; seen++) {
		take_frame_38(s, frame);
		if (at) {
			mixed_end_group(s->chain, w->frames[at - 1].cfa);
			at = next_evaluator(w, at - 1);
		}
		frame = (const char *)word_at(frame, python.previous);
	}
}

static void take_old(const struct interpreter_stack *s, const char *thread)
{
	const char *frame = (const char *)word_at(thread, python.current);

	if (!frame || !is_checked(frame))
		return;
	if (python.native)
		take_chain_310(s, thread, frame);
	else
		take_chain_38(s, frame);
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
	if (thread && python.minor < 11)
		take_old(&s, thread);
	else if (thread && python.minor == 11)
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
	struct arena_allocator arenas;

	atomic_store(&is_up, false);
	if (!python.set_allocator)
		return true;
	if (!pymalloc_wrap(python.get_allocator, python.set_allocator))
		return false;
	/* The blocks in its arenas are recorded. */
	if (python.get_arenas) {
		python.get_arenas(&arenas);
		ranges_exempt((const void *)(uintptr_t)arenas.alloc);
	}
	return true;
}

/* ---- versions ---- */

/* Counted in words after the cookie and the version of _Py_DebugOffsets. */
enum {
	FREE_THREADED = 0,
	FINALIZING = 2, /* from the beginning of _PyRuntime */
	CURRENT_FRAME_313 = 21,
	FRAME_313 = 26, /* the first word of struct _interpreter_frame */
	CODE_313 = 32,	/* ... _code_object */
	CURRENT_FRAME_314 = 24,
	FRAME_314 = 29,
	CODE_314 = 37,
};

/* In words of their struct. */
enum {
	PREVIOUS = 1,
	EXECUTABLE = 2,
	INSTRUCTION = 3,
	OWNER = 5,
	FILENAME = 1,
	QUALNAME = 3,
	LINETABLE = 4,
	FIRSTLINENO = 5,
	BYTECODE = 9,
};

/* Since 3.13 the interpreter says it itself. */
static const char *read_offsets(const struct interpreter_library *in)
{
	bool is_313 = python.minor == 13;
	const uint64_t *frame, *code;
	const char *runtime;
	const uint64_t *o;

	if (!library_look_up(in, "_PyRuntime", &runtime) || memcmp(runtime, "xdebugpy", 8) != 0)
		return "its layout is not known";
	o = (const uint64_t *)(runtime + 16);
	if (o[FREE_THREADED])
		return "it is a free-threaded build";
	python.finalizing = o[FINALIZING];
	frame = o + (is_313 ? FRAME_313 : FRAME_314);
	code = o + (is_313 ? CODE_313 : CODE_314);
	python.current = o[is_313 ? CURRENT_FRAME_313 : CURRENT_FRAME_314];
	python.previous = frame[PREVIOUS];
	python.executable = frame[EXECUTABLE];
	python.instruction = frame[INSTRUCTION];
	python.owner = frame[OWNER];
	python_layout = (struct python_layout){
	    .code_filename = (uint32_t)code[FILENAME],
	    .code_qualname = (uint32_t)code[QUALNAME],
	    .code_linetable = (uint32_t)code[LINETABLE],
	    .code_firstlineno = (uint32_t)code[FIRSTLINENO],
	    .code_bytecode = (uint32_t)code[BYTECODE],
	    .text = 40,
	    .wide_text = 56,
	};
	return NULL;
}

#define UNKNOWN_VERSION "only those of CPython 3.8 to 3.14 are known"

/* Before 3.11. */
static const char *find_evaluator(const struct interpreter_library *in)
{
	const Elf64_Sym *evaluator = image_symbol(&in->image, "_PyEval_EvalFrameDefault");

	if (!evaluator || !library_look_up(in, "PyFrame_Type", &python.frame_type) ||
	    !library_look_up(in, "PyFrame_GetLineNumber", &python.line_of))
		return "its functions were not found";
	python.evaluator = in->image.bias + evaluator->st_value;
	python.evaluator_end = python.evaluator + evaluator->st_size;
	return NULL;
}

/* 3.8.18 is 0x308..., as Py_Version is, which came with 3.11. */
static unsigned long version_of(const struct interpreter_library *in)
{
	const unsigned long *version;
	const char *(*text)(void);
	const char *at;
	unsigned long minor = 0;

	if (library_look_up(in, "Py_Version", &version))
		return *version;
	if (!library_look_up(in, "Py_GetVersion", &text))
		return 0;
	at = text();
	if (at[0] != '3' || at[1] != '.')
		return 0;
	for (at += 2; *at >= '0' && *at <= '9' && minor < 100; at++)
		minor = 10 * minor + (unsigned long)(*at - '0');
	return 3ul << 24 | minor << 16;
}

/* struct _ts, _PyInterpreterFrame, _frame and PyCodeObject of 64-bit systems, without Py_DEBUG. */
static const char *find_layout(const struct interpreter_library *in, uint32_t minor)
{
	python.current = 56;
	python.finalizing = 24;
	switch (minor) {
	case 8:
	case 9:
	case 10:
		python.current = 24;
		python.finalizing = 16;
		python.previous = 24;
		python.executable = 32;
		python.instruction = minor == 10 ? 96 : 104;
		python.native = minor == 10 ? 48 : 0;
		python_layout =
		    (struct python_layout){104, 112, 120, 40, 0, 48, 72, .code_code = 48};
		python_layout.lines = minor == 10 ? PYTHON_LINES_310 : PYTHON_LINES_38;
		return find_evaluator(in);
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
	case 14:
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
	unsigned long version = version_of(in);
	const char *why = UNKNOWN_VERSION;

	if (version >> 24 == 3) {
		python.minor = version >> 16 & 0xff;
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
	if (!library_look_up(in, "PyObject_GetArenaAllocator", &python.get_arenas))
		python.get_arenas = NULL;
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
