/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the program's interpreter, and its frames in each stack: see interpreter.h.
 *
 * After each capture of the native stack, mix() has the language read its own chain of frames and mixed.c
 * make the stack that is written.
 */
#include "agent/interpreter/interpreter.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "agent/bypass.h"
#include "agent/cpu/sys.h"
#include "agent/life.h"

static const struct interpreter *const languages[] = {&interpreter_python, &interpreter_ruby};
#define LANGUAGES (sizeof(languages) / sizeof(*languages))

static const struct interpreter *found; /* the one whose frames are shown */
static _Atomic uint32_t known_to;	/* the process whose spool has the places */

/* ---- the stack ---- */

/* A writer's, as it is too large for the stack of a thread. */
struct mixing {
	struct mixed mixed;
	struct codes_latest codes;
	uintptr_t own[4];
};

static void mix(struct writer *w)
{
	struct interpreter_stack s;

	atomic_thread_fence(memory_order_acquire); /* of find(), in another thread */
	if (!w->mixing && !agent_sandboxed)
		w->mixing = sys_memory(sizeof(struct mixing));
	if (!w->mixing)
		return;
	if (UNLIKELY(known_to != spool_header->pid)) {
		if (known_to)
			codes_forked();
		codes_forget();
		known_to = spool_header->pid;
	}
	s = (struct interpreter_stack){w, &w->mixing->codes, mixed_begin(&w->mixing->mixed),
				       w->mixing->own};
	found->take(&s);
	mixed_make(&w->mixing->mixed, w);
	if (!w->is_mixed) { /* the packet's stack is the native one */
		w->is_mixed = true;
		w->stack_known = false;
	}
}

/* ---- start ---- */

static const struct interpreter *language_in(const struct image *image)
{
	for (size_t i = 0; i < LANGUAGES; i++)
		if (!*languages[i]->unwanted && image_find(image, languages[i]->symbol))
			return languages[i];
	return NULL;
}

static bool has_language(const struct image *image)
{
	return language_in(image) != NULL;
}

static void note_unknown(const char *language, const char *why)
{
	char note[160] = "";

	strncat(note, language, 32);
	strcat(note, " frames are unknown: ");
	strncat(note, why, sizeof(note) - strlen(note) - 1);
	spool_note(note);
}

static void find_late(void);

static void find(bool late)
{
	struct interpreter_library in = {.late = late};
	const struct interpreter *language;
	struct dl_find_object own;
	const char *why;

	if (_dl_find_object((void *)find, &own))
		return;
	bypass_opened = find_late;
	if (!library_find(&in, has_language) || (late && !library_keep(&in)))
		return;
	language = language_in(&in.image);
	bypass_opened = NULL;
	mixed_own_start = (uintptr_t)own.dlfo_map_start;
	mixed_own_size = (uintptr_t)own.dlfo_map_end - mixed_own_start;
	why = language->find(&in);
	if (why) {
		note_unknown(language->language, why);
		return;
	}
	known_to = spool_header->attached ? 0 : spool_header->pid;
	found = language;
	atomic_thread_fence(memory_order_release);
	spool_mix = mix;
	if (found->wrap)
		found->wrap();
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
void interpreter_start(void)
{
	char note[160] = "";

	if (!spool_mix) {
		find(true);
	} else if (found->wrap && !found->wrap()) {
		strncat(note, found->language, 32);
		strcat(note, "'s allocators were replaced since mayfly was attached to it before: "
			     "blocks that they do not take from malloc are not seen");
		spool_note(note);
	}
}

void interpreter_forked(void)
{
	codes_forked();
}

void interpreter_stop(void)
{
	known_to = 0;
	if (spool_mix && found->unwrap)
		found->unwrap();
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
