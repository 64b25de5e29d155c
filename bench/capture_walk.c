/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's stack capture as a library of its own, for bench_capture: frames inside the library
 * that holds it are left out, so it cannot be part of the program. Built with walk.c, cfi.c and
 * modules.c and the agent's options.
 */
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/unwind/modules.h"
#include "agent/unwind/walk.h"

#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

struct walk *capture_begin(void);
uint32_t capture_stack(struct walk *w);

/* NULL: it cannot work here. */
EXPORT struct walk *capture_begin(void)
{
	long p = sys_mmap(NULL, sizeof(struct walk), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sys_failed(p) || !walk_init() ? NULL : (struct walk *)p;
}

/* The caller's stack. Returns its depth. */
EXPORT uint32_t capture_stack(struct walk *w)
{
	struct walk_start start;

	cpu_caller(start.pc, start.sp, start.bp);
	walk_capture(w, &start);
	return w->depth;
}
