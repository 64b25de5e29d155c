/* SPDX-License-Identifier: Apache-2.0 */
/* Local variables of Python's functions that run: see python_frames.h. */
#include "heap/python_frames.h"

#include <string.h>

#include "heap/python_holders.h"

/* PyCodeObject (Include/cpython/code.h), PyThreadState (Include/cpython/pystate.h) and
 * _PyInterpreterFrame (Include/internal/pycore_frame.h). */
#define CODE_COUNT     76u /* of local variables, in 3.11 */
#define CODE_COUNT_312 72u
#define CODE_NAMES     96u /* a tuple of texts */
#define CODE_FULL_NAME 128u
#define FRAME_LOCALS   72u
#define THREAD_NEXT    8u
#define TUPLE_ITEMS    24u
#define LOCALS_MOST    65536u
#define LOOKS_MOST     (1u << 23)

/* _Py_DebugOffsets, with which _PyRuntime begins in 3.13 (Include/internal/pycore_runtime.h). */
#define OFFSET_INTERPRETERS 40u
#define OFFSET_NEXT	    64u
#define OFFSET_THREADS	    72u
#define OFFSET_FRAME	    184u
#define OFFSET_MOST	    (1u << 20)

struct offsets {
	uint64_t interpreters, next, threads;
	uint64_t frame;			  /* in a thread; before 3.13: of what points to it */
	uint64_t pointed;		  /* before 3.13: in that */
	uint64_t code, previous, globals; /* in a frame */
	uint64_t count;			  /* in code */
	unsigned int looks;		  /* at variables, frames and threads */
};

static bool find_offsets(struct python_objects *o, struct offsets *at)
{
	const struct python_interpreter *p = o->reader.python;
	struct python_reader *r = &o->reader;

	*at = (struct offsets){.interpreters = 40,
			       .frame = 56,
			       .code = 0,
			       .previous = 8,
			       .globals = 24,
			       .count = CODE_COUNT_312};
	if (!p->runtime)
		return false;
	switch (p->version) {
	case 311:
		at->threads = 16;
		at->pointed = 8;
		at->code = 32;
		at->previous = 48;
		at->globals = 8;
		at->count = CODE_COUNT;
		return true;
	case 312:
		at->threads = 72;
		return true;
	}
	return python_read_word(r, p->runtime + OFFSET_INTERPRETERS, &at->interpreters) &&
	       python_read_word(r, p->runtime + OFFSET_NEXT, &at->next) &&
	       python_read_word(r, p->runtime + OFFSET_THREADS, &at->threads) &&
	       python_read_word(r, p->runtime + OFFSET_FRAME, &at->frame) &&
	       at->interpreters < OFFSET_MOST && at->next < OFFSET_MOST &&
	       at->threads < OFFSET_MOST && at->frame < OFFSET_MOST;
}

static bool is_code(struct python_objects *o, uint64_t code)
{
	uint64_t type;
	uint32_t number;

	if (!code || code % 8 || !python_read_word(&o->reader, code + 8, &type))
		return false;
	number = python_types_find(&o->types, type);
	return number != HEAP_NONE && o->types.type[number].what == PYTHON_CODE;
}

static void name_function(struct python_objects *o, uint64_t code, uint64_t globals, char *to,
			  size_t size)
{
	char function[PYTHON_NAME], module[PYTHON_NAME];
	uint64_t name;

	if (!python_read_word(&o->reader, code + CODE_FULL_NAME, &name) ||
	    !python_read_text(&o->reader, name, function, sizeof(function)))
		python_read_join(function, sizeof(function), "?", "", "");
	name = python_look_up(&o->reader, globals, "__name__");
	if (!name || !python_read_text(&o->reader, name, module, sizeof(module) - 1))
		*module = 0;
	else
		strcat(module, ".");
	python_read_join(to, size, module, function, "()");
}

/* The code of a module has its variables in the module's dictionary. */
static bool take_frame(struct python_objects *o, struct offsets *at, uint64_t frame, uint64_t code)
{
	struct python_reader *r = &o->reader;
	char function[2 * PYTHON_NAME + 4], name[PYTHON_NAME], text[3 * PYTHON_NAME + 8];
	uint64_t count, names, globals, value, variable;

	if (!python_read_word(r, code + at->count, &count) ||
	    !python_read_word(r, code + CODE_NAMES, &names) ||
	    !python_read_word(r, frame + at->globals, &globals))
		return true;
	count &= 0xffffffff;
	if (!count || count > LOCALS_MOST)
		return true;
	/* Frames that lead to each other in a circle have the same variables again and again. */
	at->looks += (unsigned int)count;
	name_function(o, code, globals, function, sizeof(function));
	for (uint64_t i = 0; i < count; i++) {
		if (!python_read_word(r, frame + FRAME_LOCALS + 8 * i, &value) || !value)
			continue;
		if (!python_read_word(r, names + TUPLE_ITEMS + 8 * i, &variable) ||
		    !python_read_text(r, variable, name, sizeof(name)))
			python_read_join(name, sizeof(name), "a variable", "", "");
		python_read_join(text, sizeof(text), name, " in ", function);
		if (!python_holders_hold(o, text, value, PYTHON_RANK_LOCAL))
			return false;
	}
	return true;
}

static bool take_thread(struct python_objects *o, struct offsets *at, uint64_t thread)
{
	struct python_reader *r = &o->reader;
	uint64_t frame, code;

	if (!python_read_word(r, thread + at->frame, &frame))
		return true;
	if (r->python->version < 313 && !python_read_word(r, frame + at->pointed, &frame))
		return true;
	for (; frame && at->looks < LOOKS_MOST; at->looks++) {
		if (!python_read_word(r, frame + at->code, &code))
			return true;
		if (is_code(o, code) && !take_frame(o, at, frame, code))
			return false;
		if (!python_read_word(r, frame + at->previous, &frame))
			return true;
	}
	return true;
}

bool python_frames_find(struct python_objects *o)
{
	struct python_reader *r = &o->reader;
	struct offsets at;
	uint64_t interpreter, thread;

	if (!find_offsets(o, &at) ||
	    !python_read_word(r, r->python->runtime + at.interpreters, &interpreter))
		return true;
	for (; interpreter && at.looks < LOOKS_MOST; at.looks++) {
		if (!python_read_word(r, interpreter + at.threads, &thread))
			return true;
		for (; thread && at.looks < LOOKS_MOST; at.looks++) {
			if (!take_thread(o, &at, thread))
				return false;
			if (!python_read_word(r, thread + THREAD_NEXT, &thread))
				break;
		}
		if (!python_read_word(r, interpreter + at.next, &interpreter))
			return true;
	}
	return true;
}
