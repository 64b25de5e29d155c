/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwind rules from an object's .eh_frame, read where the loader mapped it.
 *
 * Pure functions over the bytes of one object: no memory, locks, system calls or state. Every
 * read is checked against the object's mapped range.
 */
#ifndef MAYFLY_CFI_H
#define MAYFLY_CFI_H

#include <stdbool.h>
#include <stdint.h>

enum cfi_kind {
	CFI_UNKNOWN, /* no rule, or one that cannot be followed */
	CFI_ROOT,    /* the return address is undefined: outermost frame */
	CFI_SIGNAL,  /* the frame that the kernel made to call a signal handler */
	CFI_FRAME,
};

enum cfi_how {
	CFI_SAME,	   /* the register keeps its value */
	CFI_LOST,	   /* it has no known value */
	CFI_AT_OFFSET,	   /* saved at cfa + offset */
	CFI_IS_OFFSET,	   /* its value is cfa + offset */
	CFI_AT_EXPRESSION, /* saved at the address that the expression gives */
	CFI_IS_EXPRESSION, /* its value is what the expression gives */
};

/* A DWARF expression inside the object. */
struct cfi_expression {
	const uint8_t *code;
	uint32_t length;
};

struct cfi_place {
	enum cfi_how how;
	union {
		int64_t offset;
		struct cfi_expression expression;
	};
};

struct cfi_rule {
	enum cfi_kind kind;
	bool leads_elsewhere; /* CFI_SIGNAL: the rest is a rule, too, whose CFA is an expression */
	bool cfa_is_expression;
	bool cfa_from_bp; /* cfa = bp or sp, + cfa_offset */
	int64_t cfa_offset;
	struct cfi_expression cfa_expression;
	struct cfi_place ra, bp;
};

/* The mapped range that holds an object's .eh_frame and .eh_frame_hdr. */
struct cfi_object {
	const uint8_t *start, *end;
	const uint8_t *header; /* NULL: it has none */
};

/* The rule in force at pc. */
void cfi_find(const struct cfi_object *object, uintptr_t pc, struct cfi_rule *rule);

/* What an expression can use. read() fetches 8 bytes of memory; false: it cannot. */
struct cfi_registers {
	uintptr_t pc, sp, bp;
	bool (*read)(void *context, uintptr_t address, uintptr_t *value);
	void *context;
};

/* Evaluates, with *initial pushed first unless it is NULL. false: an unknown register or operation. */
bool cfi_evaluate(const struct cfi_expression *expression, const struct cfi_registers *registers,
		  const uintptr_t *initial, uintptr_t *result);

#endif
