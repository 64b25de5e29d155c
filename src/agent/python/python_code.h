/* SPDX-License-Identifier: Apache-2.0 */
/* Code objects of CPython: their numbers, names and lines. */
#ifndef MAYFLY_PYTHON_CODE_H
#define MAYFLY_PYTHON_CODE_H

#include "agent/interpreter/code_objects.h"

/* Offsets in the objects of a version of CPython. */
struct python_layout {
	uint32_t code_filename, code_qualname, code_linetable, code_firstlineno, code_bytecode;
	uint32_t text, wide_text; /* the characters of an ASCII string, of another one */
};
extern struct python_layout python_layout;

extern const void *python_code_type; /* PyCode_Type */

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
