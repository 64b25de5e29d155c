/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A jitdump file, as compilers write it for perf (node --perf-prof, LLVM, python -X perf_jit):
 *
 *	header | record | record | ...
 *
 * CODE_LOAD is a function with its name and place, CODE_MOVE gives it another place, and DEBUG_INFO,
 * before the CODE_LOAD of the same place, has its lines. The file is another program's: nothing in
 * it is trusted.
 */
#ifndef MAYFLY_JIT_DUMP_H
#define MAYFLY_JIT_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All pointers are into the file. */
struct jit_code {
	uint64_t start, size;
	const char *name; /* not terminated */
	size_t name_length;
	const uint8_t *lines; /* entries of DEBUG_INFO; NULL: none */
	size_t lines_size;
	uint64_t lines_count;
	uint64_t lines_start; /* where the code was when they were written */
};

struct jit_line {
	const char *file; /* not terminated */
	size_t file_length;
	uint32_t line;
};

/* Calls found() for each piece of code, in the order of the file: a later one replaces what was at
 * its place. False: no memory. A damaged file ends where the damage is. */
bool jit_dump_read(const uint8_t *data, size_t size,
		   void (*found)(void *context, const struct jit_code *code), void *context);

/* The line of an address in the code. False: not known. */
bool jit_code_line(const struct jit_code *code, uint64_t address, struct jit_line *line);

#endif
