/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first instructions of functions on x86-64: moving them elsewhere, so that a jump can take their
 * place.
 *
 *	entry:  cmp $0x1000, %rdi		moved:  cmp $0x1000, %rdi
 *	        ja  far			      		ja  far		(another distance)
 *	        ...				       	jmp entry + 13
 *
 * Only instructions of compilers' common code are known. Whatever is not known is refused.
 */
#ifndef MAYFLY_ENTRY_X86_64_H
#define MAYFLY_ENTRY_X86_64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/cpu/cpu_x86_64.h"

#define CPU_NEAR_JUMP_BYTES 5u
#define CPU_MOVED_BYTES	    64u
/* How far from a function its moved instructions may lie. */
#define CPU_NEAR_MOST ((uint64_t)0x70000000)

enum cpu_instruction_kind {
	CPU_PLAIN,    /* the same at any place */
	CPU_RELATIVE, /* the 32 bits at `field` are the distance from its end to data or code */
	CPU_BRANCH,   /* the same, and it goes there: jmp, jcc */
	CPU_SHORT,    /* a branch with a distance of 8 bits */
	CPU_CALL,
	CPU_INDIRECT, /* a call through a register or memory */
	CPU_END,      /* nothing comes after it: ret, an indirect jump */
};

struct cpu_instruction {
	enum cpu_instruction_kind kind;
	uint32_t length, field;
};

/* What follows an opcode. */
struct cpu_operands {
	bool known, modrm;
	uint32_t immediate;
};

static inline bool cpu_one_of(const char *set, uint8_t op)
{
	return memchr(set, op, strlen(set)) != NULL;
}

/* Opcodes of one byte. wide: with an immediate of 8 bytes where there is one. */
static inline struct cpu_operands cpu_operands_of(uint8_t op, bool half, bool wide, uint8_t reg)
{
	uint32_t word = half ? 2 : 4;

	if (op < 0x40)
		return (struct cpu_operands){(op & 7) < 6, (op & 7) < 4,
					     (op & 7) == 4   ? 1
					     : (op & 7) == 5 ? word
							     : 0};
	if ((op >= 0x50 && op < 0x60) || cpu_one_of("\x90\x98\x99\xc3\xc9\xcc", op))
		return (struct cpu_operands){true, false, 0};
	if ((op >= 0x70 && op < 0x80) || (op >= 0xb0 && op < 0xb8) ||
	    cpu_one_of("\x6a\xa8\xeb", op))
		return (struct cpu_operands){true, false, 1};
	if (op >= 0xb8 && op < 0xc0)
		return (struct cpu_operands){true, false, wide ? 8 : word};
	if (cpu_one_of("\x68\xa9", op))
		return (struct cpu_operands){true, false, word};
	if (cpu_one_of("\xe8\xe9", op))
		return (struct cpu_operands){!half, false, 4};
	if ((op >= 0x84 && op < 0x8c) || (op >= 0xd0 && op < 0xd4) ||
	    cpu_one_of("\x63\x8d\xfe\xff", op))
		return (struct cpu_operands){true, true, 0};
	if (cpu_one_of("\x6b\x80\x83\xc0\xc1\xc6", op))
		return (struct cpu_operands){true, true, 1};
	if (cpu_one_of("\x69\x81\xc7", op))
		return (struct cpu_operands){true, true, word};
	if (op == 0xf6 || op == 0xf7)
		return (struct cpu_operands){true, true, reg > 1 ? 0 : op == 0xf6 ? 1 : word};
	return (struct cpu_operands){false, false, 0};
}

/* Opcodes after 0f. */
static inline struct cpu_operands cpu_operands_of_0f(uint8_t op, bool half)
{
	if (op >= 0x80 && op < 0x90)
		return (struct cpu_operands){!half, false, 4};
	if (op == 0x0b || (op >= 0xc8 && op < 0xd0))
		return (struct cpu_operands){true, false, 0};
	if (cpu_one_of("\x70\xa4\xac\xba\xc2\xc4\xc5\xc6", op))
		return (struct cpu_operands){true, true, 1};
	return (struct cpu_operands){
	    (op >= 0x10 && op < 0x20) || (op >= 0x28 && op < 0x30) || (op >= 0x40 && op < 0x70) ||
		(op >= 0x90 && op < 0xa0) || (op >= 0xd0 && op < 0xff) ||
		cpu_one_of("\x74\x75\x76\x7e\x7f\xa3\xa5\xab\xad\xaf\xb0\xb1"
			   "\xb3\xb6\xb7\xbb\xbc\xbd\xbe\xbf\xc0\xc1",
			   op),
	    true, 0};
}

static inline enum cpu_instruction_kind cpu_kind_of(uint8_t op, bool after_0f, uint8_t reg)
{
	if (after_0f)
		return op == 0x0b ? CPU_END : op >= 0x80 && op < 0x90 ? CPU_BRANCH : CPU_PLAIN;
	if ((op >= 0x70 && op < 0x80) || op == 0xeb)
		return CPU_SHORT;
	if (op == 0xe9)
		return CPU_BRANCH;
	if (op == 0xe8)
		return CPU_CALL;
	if (op == 0xc3 || op == 0xcc)
		return CPU_END;
	if (op == 0xff && reg > 1 && reg < 6)
		return reg < 4 ? CPU_INDIRECT : CPU_END;
	return CPU_PLAIN;
}

/* False: it is not known, or would be longer than 15 bytes. At least 32 bytes can be read. */
static inline bool cpu_read_instruction(const uint8_t *code, struct cpu_instruction *i)
{
	const uint8_t *at = code;
	bool half = false, wide = false, after_0f, relative = false;
	struct cpu_operands operands;
	uint8_t op, reg;

	for (; cpu_one_of("\x26\x2e\x36\x3e\x64\x65\x66\xf0\xf2\xf3", *at); at++) {
		half |= *at == 0x66;
		if (at - code == 4)
			return false;
	}
	if ((*at & 0xf0) == 0x40)
		wide = *at++ & 8;
	after_0f = *at == 0x0f;
	at += after_0f;
	op = *at++;
	reg = *at >> 3 & 7;
	operands =
	    after_0f ? cpu_operands_of_0f(op, half) : cpu_operands_of(op, half && !wide, wide, reg);
	*i = (struct cpu_instruction){.kind = cpu_kind_of(op, after_0f, reg)};
	if (!operands.known)
		return false;
	if (operands.modrm) {
		relative = (*at & 0xc7) == 5;
		at += cpu_modrm_bytes(at);
		i->field = (uint32_t)(at - code) - 4;
	} else {
		i->field = (uint32_t)(at - code);
	}
	if (relative && i->kind == CPU_PLAIN)
		i->kind = CPU_RELATIVE;
	at += operands.immediate;
	i->length = (uint32_t)(at - code);
	return i->length <= 15;
}

static inline int32_t cpu_distance(const uint8_t *at)
{
	int32_t distance;

	memcpy(&distance, at, sizeof(distance));
	return distance;
}

/* The address that it goes to or names. */
static inline const uint8_t *cpu_target_of(const uint8_t *code, const struct cpu_instruction *i)
{
	int32_t distance =
	    i->kind == CPU_SHORT ? (int8_t)code[i->field] : cpu_distance(code + i->field);

	return code + i->length + distance;
}

/* May the function jump to its first bytes? Where its instructions are not known, every byte that may
 * be a branch counts. */
static inline bool cpu_returns_to_entry(const uint8_t *entry, size_t size)
{
	struct cpu_instruction i;
	size_t at = 0;

#define CPU_AT_ENTRY(target) ((uintptr_t)(target) - (uintptr_t)entry < CPU_NEAR_JUMP_BYTES)
	for (; at < size && cpu_read_instruction(entry + at, &i); at += i.length)
		if ((i.kind == CPU_SHORT || i.kind == CPU_BRANCH) &&
		    CPU_AT_ENTRY(cpu_target_of(entry + at, &i)))
			return true;
	for (; at < size; at++) {
		const uint8_t *code = entry + at;

		if (((code[0] & 0xf0) == 0x70 || code[0] == 0xeb) &&
		    CPU_AT_ENTRY(code + 2 + (int8_t)code[1]))
			return true;
		if (code[0] == 0xe9 && CPU_AT_ENTRY(code + 5 + cpu_distance(code + 1)))
			return true;
		if (code[0] == 0x0f && (code[1] & 0xf0) == 0x80 &&
		    CPU_AT_ENTRY(code + 6 + cpu_distance(code + 2)))
			return true;
	}
	return false;
#undef CPU_AT_ENTRY
}

static inline uint8_t *cpu_put_distance(uint8_t *at, const uint8_t *target)
{
	int32_t distance = (int32_t)(target - (at + 4));

	memcpy(at, &distance, sizeof(distance));
	return at + 4;
}

static inline uint8_t *cpu_put_near_jump(uint8_t *at, const uint8_t *target)
{
	*at++ = 0xe9;
	return cpu_put_distance(at, target);
}

/* A call that returns to where it stood: the walk of a stack knows that place. */
static inline uint8_t *cpu_put_call(uint8_t *to, const uint8_t *target, const uint8_t *back)
{
	uint64_t address = (uintptr_t)back;
	uint32_t low = (uint32_t)address, high = (uint32_t)(address >> 32);

	*to++ = 0x68; /* push $low */
	memcpy(to, &low, 4);
	memcpy(to + 4, "\xc7\x44\x24\x04", 4); /* movl $high, 4(%rsp) */
	memcpy(to + 8, &high, 4);
	return cpu_put_near_jump(to + 12, target);
}

static inline uint8_t *cpu_move_instruction(uint8_t *to, const uint8_t *code,
					    const struct cpu_instruction *i)
{
	const uint8_t *target = i->kind == CPU_PLAIN ? NULL : cpu_target_of(code, i);

	if (i->kind == CPU_CALL)
		return cpu_put_call(to, target, code + i->length);
	if (i->kind == CPU_SHORT && *code == 0xeb)
		return cpu_put_near_jump(to, target);
	if (i->kind == CPU_SHORT) {
		*to++ = 0x0f;
		*to++ = (uint8_t)(0x80 | (*code & 0xf));
		return cpu_put_distance(to, target);
	}
	memcpy(to, code, i->length);
	if (i->kind == CPU_RELATIVE || i->kind == CPU_BRANCH) {
		/* From the end of the instruction, which an immediate may follow. */
		int32_t distance = (int32_t)(target - (to + i->length));

		memcpy(to + i->field, &distance, sizeof(distance));
	}
	return to + i->length;
}

/* Writes at most CPU_MOVED_BYTES to `to`, which do what the function of `size` bytes does from its entry on,
 * when a near jump has taken the place of its first bytes. False: its code is not understood. */
static inline bool cpu_move_entry(uint8_t *to, const uint8_t *entry, size_t size)
{
	const uint8_t *code = entry;

	if (size < CPU_NEAR_JUMP_BYTES || cpu_returns_to_entry(entry, size))
		return false;
	while (code < entry + CPU_NEAR_JUMP_BYTES) {
		struct cpu_instruction i;

		if (!cpu_read_instruction(code, &i) || i.kind == CPU_END || i.kind == CPU_INDIRECT)
			return false;
		if (i.kind == CPU_CALL && code + i.length < entry + CPU_NEAR_JUMP_BYTES)
			return false;
		to = cpu_move_instruction(to, code, &i);
		code += i.length;
	}
	cpu_put_near_jump(to, code);
	return true;
}

#endif
