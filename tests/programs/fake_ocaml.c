/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks like the runtime of an OCaml program: exports its names and opens a channel. -DNAMES says of
 * which version: 50 (5.0 to 5.2), 53 (5.3), 59 (an unknown later one, whose profiles differ), 58 (one
 * that lacks a function), 99 (OxCaml). Prints what was called. It fails when the runtime is called
 * while its lock is held, or before it is up.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef intptr_t value;

#define EXPORTED __attribute__((visibility("default"), used))
#define NAME(name)                                                                                 \
	EXPORTED void name(void);                                                                  \
	void name(void)                                                                            \
	{                                                                                          \
		abort();                                                                           \
	}

NAME(caml_main)
NAME(caml_domain_spawn)
NAME(caml_debuginfo_extract)
NAME(caml_debuginfo_next)
NAME(caml_debuginfo_location)
#if NAMES != 50
NAME(caml_memprof_sample_block)
#endif
#if NAMES != 58
NAME(caml_c_call)
#endif
#if NAMES == 99
NAME(caml_local_realloc)
#endif

EXPORTED _Thread_local void *caml_state;
EXPORTED uintptr_t caml_num_domains_running = 1;

static int up;
static const char *sampling = "never";

EXPORTED void caml_leave_blocking_section(void);
EXPORTED void caml_enter_blocking_section_no_pending(void);
EXPORTED value caml_memprof_start(value rate, value frames, value tracker);
EXPORTED value caml_memprof_stop(value unit);
EXPORTED long caml_open_descriptor_in(int descriptor);

void caml_leave_blocking_section(void)
{
	if (caml_state || !up)
		abort();
	caml_state = &up;
}

void caml_enter_blocking_section_no_pending(void)
{
	if (!caml_state)
		abort();
	caml_state = NULL;
}

value caml_memprof_start(value rate, value frames, value tracker)
{
	static value profile[16];

	if (!caml_state)
		abort();
	sampling = "on";
	profile[0] = (NAMES == 59 ? 10 : 9) << 10;
	profile[1] = 1;
	profile[2] = rate;
	profile[4] = frames;
	for (int i = 0; i < 5; i++)
		profile[5 + i] = ((value *)tracker)[i];
	return (value)&profile[1];
}

value caml_memprof_stop(value unit)
{
	if (!caml_state)
		abort();
	sampling = "stopped";
	return unit;
}

__attribute__((noinline)) long caml_open_descriptor_in(int descriptor)
{
	long at;

	caml_enter_blocking_section_no_pending();
	at = lseek(descriptor, 0, SEEK_CUR);
	caml_leave_blocking_section();
	return at;
}

int main(void)
{
	/* Not the runtime's, and not from the function that opens channels. */
	lseek(0, 0, SEEK_CUR);
	up = 1;
	lseek(0, 0, SEEK_CUR);
	caml_state = &up;
	lseek(0, 0, SEEK_CUR);
	caml_open_descriptor_in(0);
	caml_open_descriptor_in(1);
	printf("sampling: %s\n", sampling);
	return !caml_state;
}
