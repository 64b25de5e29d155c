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

/* Addresses that were found lately: of one writer, zero-initialised by its owner. Only filled while
 * each free is seen. */
#define PYTHON_CODE_LATEST 256u
struct python_code_latest {
	uint32_t frees; /* python_code_frees */
	struct {
		const char *code;
		uintptr_t instruction;
		uint64_t address;
	} of[PYTHON_CODE_LATEST];
};

/* Changes when a known code object is freed, and by python_code_see_frees(). */
HIDDEN extern _Atomic uint32_t python_code_frees;

uint64_t python_code_find(struct writer *w, struct python_code_latest *latest, const char *code,
			  uintptr_t instruction);
void python_code_forget_latest(struct python_code_latest *latest);

/* To be called before the addresses of each stack. */
static inline void python_code_begin(struct python_code_latest *latest)
{
	if (UNLIKELY(latest->frees !=
		     atomic_load_explicit(&python_code_frees, memory_order_acquire)))
		python_code_forget_latest(latest);
}

/* The address that stands for an instruction of a code object; 0: this is no code object that can
 * be read. Writes its place to the spool when it is new there. */
static inline uint64_t python_code_address(struct writer *w, struct python_code_latest *latest,
					   const char *code, uintptr_t instruction)
{
	size_t k = instruction / 2 % PYTHON_CODE_LATEST;

	if (LIKELY(latest->of[k].code == code && latest->of[k].instruction == instruction))
		return latest->of[k].address;
	return python_code_find(w, latest, code, instruction);
}

/* Tells that each free of an object goes through python_code_freed() from now on. number: another one
 * each time that this begins; 0: it ends. */
void python_code_see_frees(uint32_t number);

/* By bits of the address: there may be a known code object. */
#define PYTHON_CODE_FILTER 4096u
HIDDEN extern _Atomic uint8_t python_code_filter[PYTHON_CODE_FILTER];

static inline uint32_t python_code_filtered(const void *block)
{
	return (uint32_t)(uintptr_t)block >> 4 & (PYTHON_CODE_FILTER - 1);
}

void python_code_maybe_freed(const void *block);

/* An object is about to be freed. */
static inline void python_code_freed(const void *block)
{
	if (UNLIKELY(!cpu_is_zero(&python_code_filter[python_code_filtered(block)])))
		python_code_maybe_freed(block);
}

/* In a forked child: the thread that had the lock may not be there. */
void python_code_forked(void);
/* The spool is another one, which has no places yet. */
void python_code_forget(void);

#endif
