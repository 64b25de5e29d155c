/* SPDX-License-Identifier: Apache-2.0 */
/* Code objects of CPython: their numbers, names and lines. */
#ifndef MAYFLY_PYTHON_CODE_H
#define MAYFLY_PYTHON_CODE_H

#include "agent/interpreter/code_objects.h"

/* Offsets in the objects of a version of CPython. */
struct python_layout {
	uint32_t code_filename, code_qualname, code_linetable, code_firstlineno, code_bytecode;
	uint32_t text, wide_text; /* the characters of an ASCII string, of another one */
	/* Before 3.11: where the object has its instructions, another object, and how its lines are
	 * written. Names have no class or function in front, and `code_bytecode` is 0. */
	uint32_t code_code;
	enum python_lines { PYTHON_LINES, PYTHON_LINES_310, PYTHON_LINES_38 } lines;
};
extern struct python_layout python_layout;

extern const void *python_code_type; /* PyCode_Type */

/* The line of an instruction, counted in words of 2 bytes; 0: it has none. */
uint32_t python_code_line(const char *code, uint64_t unit);

uint64_t python_code_find(struct writer *w, struct codes_latest *latest, const char *code,
			  uintptr_t instruction);

/* The address that stands for an instruction of a code object; 0: this is no code object that can
 * be read. Writes its place to the spool when it is new there. The latest ones are only kept while each
 * free is seen. */
static inline uint64_t python_code_address(struct writer *w, struct codes_latest *latest,
					   const char *code, uintptr_t instruction)
{
	uint64_t address = codes_latest_address(latest, code, instruction);

	return LIKELY(address) ? address : python_code_find(w, latest, code, instruction);
}

#endif
