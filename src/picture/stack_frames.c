/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of a stack: see stack_frames.h. */
#include "picture/stack_frames.h"

#include <elfutils/libdwfl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define STACK_POINTER 7 /* as DWARF numbers the registers */

struct stack_frames {
	struct memory_source *source;
	Dwfl *dwfl;
};

/* Unwind tables are in the files themselves. */
static int find_nothing(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
			const char *file, const char *link, GElf_Word crc, char **found)
{
	(void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc,
	    (void)found;
	return -1;
}

static const Dwfl_Callbacks dwfl_callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = find_nothing,
};

static pid_t next_thread(Dwfl *dwfl, void *context, void **thread)
{
	struct stack_frames *f = context;
	struct source_thread *at =
	    *thread ? (struct source_thread *)*thread + 1 : f->source->thread;

	(void)dwfl;
	if (at >= f->source->thread + f->source->threads)
		return 0;
	*thread = at;
	return at->frozen.tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *context, void **thread)
{
	struct stack_frames *f = context;

	(void)dwfl;
	for (size_t i = 0; i < f->source->threads; i++)
		if (f->source->thread[i].frozen.tid == tid) {
			*thread = &f->source->thread[i];
			return true;
		}
	return false;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word, void *context)
{
	struct stack_frames *f = context;

	(void)dwfl;
	return memory_source_read(f->source, address, word, sizeof(*word));
}

static bool set_registers(Dwfl_Thread *thread, void *at)
{
	struct source_thread *t = at;
	Dwarf_Word registers[FREEZE_REGISTERS];

	for (unsigned int i = 0; i < FREEZE_REGISTERS; i++)
		registers[i] = t->frozen.registers[i];
	return dwfl_thread_state_registers(thread, 0, FREEZE_REGISTERS, registers);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
    .next_thread = next_thread,
    .get_thread = get_thread,
    .memory_read = read_memory,
    .set_initial_registers = set_registers,
};

struct stack_frames *stack_frames_begin(struct memory_source *s, const struct loaded_modules *m)
{
	struct stack_frames *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->source = s;
	f->dwfl = dwfl_begin(&dwfl_callbacks);
	for (size_t i = 0; f->dwfl && i < m->count; i++) {
		char path[PATH_MAX + 64];

		snprintf(path, sizeof(path), "%s%s", s->root, m->module[i].path);
		dwfl_report_elf(f->dwfl, m->module[i].name, path, -1, m->module[i].bias, true);
	}
	if (f->dwfl && !dwfl_report_end(f->dwfl, NULL, NULL) && s->threads &&
	    dwfl_attach_state(f->dwfl, NULL, s->thread[0].frozen.tid, &thread_callbacks, f))
		return f;
	stack_frames_end(f);
	return NULL;
}

struct frame_walk {
	struct stack_frame *frame;
	size_t count;
};

static int take_frame(Dwfl_Frame *at, void *to)
{
	static const unsigned char kept[STACK_KEPT] = {3,  6,  12,
						       13, 14, 15}; /* rbx, rbp, r12 ... */
	struct frame_walk *w = to;
	struct stack_frame *frame = &w->frame[w->count];
	bool activation = false;
	Dwarf_Addr pc;
	Dwarf_Word sp;

	if (w->count == STACK_FRAMES_MOST || !dwfl_frame_pc(at, &pc, &activation) ||
	    dwfl_frame_reg(at, STACK_POINTER, &sp) || (w->count && sp <= w->frame[w->count - 1].sp))
		return DWARF_CB_ABORT;
	*frame = (struct stack_frame){.pc = pc - !activation, .sp = sp};
	for (unsigned int i = 0; i < STACK_KEPT; i++) {
		Dwarf_Word value;

		/* It is as the function that was called has left it, unless a table says more. */
		if (!dwfl_frame_reg(at, kept[i], &value))
			frame->kept[i] = value;
		else if (w->count)
			frame->kept[i] = frame[-1].kept[i];
	}
	w->count++;
	return DWARF_CB_OK;
}

size_t stack_frames_walk(struct stack_frames *f, size_t thread,
			 struct stack_frame frame[STACK_FRAMES_MOST])
{
	struct frame_walk w = {.frame = frame};

	dwfl_getthread_frames(f->dwfl, f->source->thread[thread].frozen.tid, take_frame, &w);
	return w.count;
}

void stack_frames_end(struct stack_frames *f)
{
	if (f && f->dwfl)
		dwfl_end(f->dwfl);
	free(f);
}
