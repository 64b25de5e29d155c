/* SPDX-License-Identifier: Apache-2.0 */
/* Code objects of CPython: their numbers, names and lines. */
#ifndef MAYFLY_PYTHON_CODE_H
#define MAYFLY_PYTHON_CODE_H

#include "agent/spool.h"

/* Offsets in the objects of a version of CPython. */
struct python_layout {
	uint32_t code_filename, code_qualname, code_linetable, code_firstlineno, code_bytecode;
	uint32_t text, wide_text; /* the characters of an ASCII string, of another one */
};
extern struct python_layout python_layout;

extern const void *python_code_type; /* PyCode_Type */

/* The address that stands for an instruction of a code object; 0: this is no code object that can
 * be read. Writes its place to the spool when it is new there. */
uint64_t python_code_address(struct writer *w, const char *code, uintptr_t instruction);

/* In a forked child: its spool has no places yet. */
void python_code_forget(void);

#endif
