/* SPDX-License-Identifier: Apache-2.0 */
/* x86-64: what cpu.h lists. */
#ifndef MAYFLY_CPU_X86_64_H
#define MAYFLY_CPU_X86_64_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/platform/x86.h>

#include "agent/cpu/step.h"

/* ---- system calls ---- */

static inline long sys_call6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline long sys_call4(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

static inline long sys_call3(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

/* ---- registers ---- */

static inline uintptr_t cpu_thread_pointer(void)
{
	uintptr_t pointer;

	__asm__("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

/* __builtin_frame_address makes the compiler keep a frame pointer: saved rbp, return address. */
#define cpu_caller(pc_out, sp_out, bp_out)                                                         \
	do {                                                                                       \
		const uintptr_t *cpu_frame_ = __builtin_frame_address(0);                          \
		(bp_out) = cpu_frame_[0];                                                          \
		(pc_out) = cpu_frame_[1];                                                          \
		(sp_out) = (uintptr_t)(cpu_frame_ + 2);                                            \
	} while (0)

#define cpu_here(pc_out, sp_out, bp_out)                                                           \
	__asm__ volatile("lea 0f(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2\n0:"                 \
			 : "=&r"(pc_out), "=&r"(sp_out), "=r"(bp_out))

/* first(argument 1, argument 2, where the return address is), at the start of a function that then
 * continues with registers and stack as they came. */
#define CPU_CALL_FIRST(first)                                                                      \
	"	push %rdi\n"                                                                             \
	"	push %rsi\n"                                                                             \
	"	push %rdx\n"                                                                             \
	"	push %rcx\n"                                                                             \
	"	push %r8\n"                                                                              \
	"	push %r9\n"                                                                              \
	"	sub $8, %rsp\n"                                                                          \
	"	.cfi_adjust_cfa_offset 56\n"                                                             \
	"	lea 56(%rsp), %rdx\n"                                                                    \
	"	call " first "\n"                                                                  \
	"	add $8, %rsp\n"                                                                          \
	"	pop %r9\n"                                                                               \
	"	pop %r8\n"                                                                               \
	"	pop %rcx\n"                                                                              \
	"	pop %rdx\n"                                                                              \
	"	pop %rsi\n"                                                                              \
	"	pop %rdi\n"                                                                              \
	"	.cfi_adjust_cfa_offset -56\n"

/* 317 is SYS_seccomp, 56 SYS_clone, 57 SYS_fork, 435 SYS_clone3. */
#define CPU_SYSCALL_HOOK                                                                           \
	__asm__(".text\n"                                                                          \
		".globl syscall\n"                                                                 \
		".type syscall, @function\n"                                                       \
		"syscall:\n"                                                                       \
		"	.cfi_startproc\n"                                                                \
		"	endbr64\n"                                                                       \
		"	cmp $317, %rdi\n"                                                                \
		"	je 1f\n"                                                                         \
		"	cmp $56, %rdi\n"                                                                 \
		"	je 1f\n"                                                                         \
		"	cmp $57, %rdi\n"                                                                 \
		"	je 1f\n"                                                                         \
		"	cmp $435, %rdi\n"                                                                \
		"	je 1f\n"                                                                         \
		"	mov cpu_real_syscall(%rip), %rax\n"                                              \
		"	test %rax, %rax\n"                                                               \
		"	je 1f\n"                                                                         \
		"	jmp *%rax\n"                                                                     \
		"1:\n" CPU_CALL_FIRST("hook_syscall_first") "	test %rax, %rax\n"                   \
							    "	jne 2f\n"                            \
							    "	jmp *cpu_real_syscall(%rip)\n"       \
							    "2:	jmp *%rax\n"                       \
							    "	.cfi_endproc\n"                      \
							    ".size syscall, . - syscall\n")

#define CPU_JUMP_HOOK(name, real, first)                                                           \
	__asm__(".text\n"                                                                          \
		".globl " name "\n"                                                                \
		".type " name ", @function\n" name ":\n"                                           \
		"	.cfi_startproc\n"                                                                \
		"	endbr64\n" CPU_CALL_FIRST(first) "	jmp *" real "(%rip)\n"             \
							 "	.cfi_endproc\n"                         \
							 ".size " name ", . - " name "\n")

#define CPU_ANSWER_HOOK(name, real, first)                                                         \
	__asm__(".text\n"                                                                          \
		".globl " name "\n"                                                                \
		".type " name ", @function\n" name ":\n"                                           \
		"	.cfi_startproc\n"                                                                \
		"	endbr64\n" CPU_CALL_FIRST(first) "	test %rax, %rax\n"                      \
							 "	jne 1f\n"                               \
							 "	jmp *" real "(%rip)\n"             \
							 "1:	ret\n"                                \
							 "	.cfi_endproc\n"                         \
							 ".size " name ", . - " name "\n")

#define cpu_jump_caller(return_address, pc_out, sp_out, bp_out)                                    \
	do {                                                                                       \
		const uintptr_t *cpu_frame_ = __builtin_frame_address(0);                          \
		(bp_out) = cpu_frame_[0];                                                          \
		(pc_out) = *(const uintptr_t *)(return_address);                                   \
		(sp_out) = (uintptr_t)((const uintptr_t *)(return_address) + 1);                   \
	} while (0)

/* R_X86_64_64, _GLOB_DAT, _JUMP_SLOT */
#define CPU_SLOT_IS_DATA(relocation)  ((relocation) == 1)
#define CPU_SLOT_IS_CONST(relocation) ((relocation) == 6 || (relocation) == 7)
#define CPU_SLOT_IS_LAZY(relocation)  ((relocation) == 7)

#define CPU_KEEP(value) __asm__("" : "+r"(value))

/* The CPU loads, compares, subtracts and stores in one instruction, which gcc 12 does not find by
 * itself. */
static inline bool cpu_count_down(uint64_t *left, uint64_t size)
{
	bool more;

	__asm__("sub %2, %0" : "+m"(*left), "=@cca"(more) : "er"(size));
	return more;
}

/* gcc 12 takes two instructions for an atomic byte. */
static inline bool cpu_is_zero(const _Atomic uint8_t *byte)
{
	bool zero;

	__asm__ volatile("cmpb $0, %1" : "=@cce"(zero) : "m"(*byte));
	return zero;
}

/* ---- time ---- */

#define CPU_CLOCKSOURCE	 "tsc"
#define CPU_TICKS_PER_NS 3u

static inline uint64_t cpu_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

static inline uint64_t cpu_ticks_in_order(void)
{
	unsigned processor;

	return __builtin_ia32_rdtscp(&processor);
}

static inline uint64_t cpu_ticks_at(unsigned *processor)
{
	return __builtin_ia32_rdtscp(processor);
}

/* A call that goes on for long takes a cycle or more, mostly 2 with its return. The counter runs at a
 * CPU's nominal rate, which its highest one exceeds four-fold at most (0.8 and 3.4 GHz are known). 512:
 * instructions that the CPU has begun before it reads the counter, or after. */
static inline uint64_t cpu_calls_most(uint64_t ticks)
{
	return 4 * ticks + 512;
}

/* Not in musl. */
extern __typeof(__x86_get_cpuid_feature_leaf) __x86_get_cpuid_feature_leaf __attribute__((weak));

static inline bool cpu_ticks_are_invariant(void)
{
	unsigned a, b, c, d;

	/* What libc has read at its start: in a virtual machine, each cpuid is a call of its host. */
	if (__x86_get_cpuid_feature_leaf)
		return CPU_FEATURE_PRESENT(RDTSCP) && CPU_FEATURE_PRESENT(INVARIANT_TSC);
	if ((unsigned)__get_cpuid_max(0x80000000u, 0) < 0x80000007u)
		return false;
	__cpuid(0x80000001u, a, b, c, d);
	if (!(d & 1u << 27))
		return false; /* no rdtscp */
	__cpuid(0x80000007u, a, b, c, d);
	return d & 1u << 8;
}

static inline void cpu_relax(void)
{
	__builtin_ia32_pause();
}

/* ---- signal frames ---- */

/* The kernel's frame: when the handler has returned, sp points to the struct ucontext. */
#define CPU_UCONTEXT_BP	  120u /* 40 + 8 * REG_RBP */
#define CPU_UCONTEXT_SP	  160u /* 40 + 8 * REG_RSP */
#define CPU_UCONTEXT_PC	  168u /* 40 + 8 * REG_RIP */
#define CPU_UCONTEXT_LINK 0u

/* ---- code that is recognised by its bytes, and code that is written ---- */

#define CPU_CODE_BYTES 9u

/* mov $SYS_rt_sigreturn, %rax; syscall: where a handler returns to. */
#define CPU_SIGRETURN_CODE "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"

/* mov %rbx, %rsp; mov (%rsp), %rdi; test %rdi, ...: where a coroutine's function returns to. With
 * control-flow enforcement (Ubuntu's glibc) it begins with endbr64. */
static inline bool cpu_is_context_end(const uint8_t *code)
{
	static const uint8_t plain[CPU_CODE_BYTES] = "\x48\x89\xdc\x48\x8b\x3c\x24\x48\x85";
	static const uint8_t guarded[CPU_CODE_BYTES] = "\xf3\x0f\x1e\xfa\x48\x89\xdc\x48\x8b";

	return __builtin_memcmp(code, plain, CPU_CODE_BYTES) == 0 ||
	       __builtin_memcmp(code, guarded, CPU_CODE_BYTES) == 0;
}

/* push $words; call caml_call_realloc_stack; pop %r10; jmp to the function's start */
#define CPU_STACK_CHECK_CFA    16
#define CPU_STACK_CHECK_BEFORE 10u
#define CPU_STACK_CHECK_AFTER  3u

static inline bool cpu_is_stack_check(const uint8_t *pc)
{
	return pc[0] == 0x41 && pc[1] == 0x5a && (pc[2] == 0xe9 || pc[2] == 0xeb) &&
	       pc[-5] == 0xe8 && (pc[-7] == 0x6a || pc[-10] == 0x68);
}

/* What code says about the base pointer. 16: a frame record is made (push %rbp; mov %rsp, %rbp) or used
 * (mov of a local variable at -n(%rbp)); -1: the register is only saved (push %rbp; sub $n, %rsp); 0:
 * nothing. */
#define CPU_CODE_STEP  1u
#define CPU_CLUE_BYTES 4u

static inline int cpu_record_clue(const uint8_t *code)
{
	if ((code[0] == 0x48 || code[0] == 0x4c) && (code[1] == 0x8b || code[1] == 0x89))
		return (code[2] & 0xc7) == 0x45 && code[3] >= 0x80 && code[3] % 8 == 0 ? 16 : 0;
	if (code[0] != 0x55 || code[1] != 0x48)
		return 0;
	if ((code[2] == 0x89 && code[3] == 0xe5) || (code[2] == 0x8b && code[3] == 0xec))
		return 16;
	return (code[2] == 0x83 || code[2] == 0x81) && code[3] == 0xec ? -1 : 0;
}

/* The bytes before a return address. */
#define CPU_CALL_BYTES 7u

/* call *place, encoded in this number of bytes: 0xff, and then as the place needs. */
static inline bool cpu_is_indirect_call(const uint8_t *code, unsigned bytes)
{
	unsigned kind = code[1] >> 6, base = code[1] & 7, index = kind != 3 && base == 4, needs;

	if (code[0] != 0xff || (code[1] >> 3 & 7) != 2)
		return false;
	if (index)
		base = code[2] & 7;
	needs = 2 + index + (kind == 1) + (kind == 2 || (kind == 0 && base == 5) ? 4 : 0);
	return needs == bytes;
}

static inline bool cpu_is_call_before(const uint8_t *code)
{
	if (code[2] == 0xe8)
		return true;
	for (unsigned bytes = 2; bytes <= CPU_CALL_BYTES; bytes++) {
		if (cpu_is_indirect_call(code + CPU_CALL_BYTES - bytes, bytes))
			return true;
	}
	return false;
}

/* mov -16(%rbp), %rsp; movq $0, -16(%rbp): in Java's interpreter */
#define CPU_RETURN_ENTRY_BYTES 12u

static inline bool cpu_is_return_entry(const uint8_t *code)
{
	static const uint8_t entry[CPU_RETURN_ENTRY_BYTES] =
	    "\x48\x8b\x65\xf0\x48\xc7\x45\xf0\x00\x00\x00";

	return __builtin_memcmp(code, entry, sizeof(entry)) == 0;
}

#define CPU_STEP_BYTES 18u

/* The number of bytes from an opcode's ModRM byte on: that, SIB and displacement. */
static inline unsigned cpu_modrm_bytes(const uint8_t *code)
{
	unsigned mod = code[0] >> 6, base = code[0] & 7, sib = mod != 3 && base == 4;

	if (sib)
		base = code[1] & 7;
	return 1 + sib + (mod == 1) + (mod == 2 || (mod == 0 && base == 5) ? 4 : 0);
}

/* Opcodes with a ModRM byte, and the number of bytes that follow that. -1: others. */
static inline int cpu_immediate_bytes(unsigned opcode, const uint8_t *modrm)
{
	switch (opcode) {
	case 0x80:
	case 0x83:
	case 0x6b:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0x0fba:
		return 1;
	case 0x81:
	case 0x69:
	case 0xc7:
		return 4;
	case 0xf6:
	case 0xf7: /* test has a number */
		return *modrm >> 3 & 6 ? 0 : opcode == 0xf6 ? 1 : 4;
	case 0xff: /* inc, dec, push; calls and jumps are others */
		return (*modrm >> 3 & 7) < 2 || (*modrm >> 3 & 7) == 6 ? 0 : -1;
	case 0x63:
	case 0x84:
	case 0x85:
	case 0x88:
	case 0x89:
	case 0x8a:
	case 0x8b:
	case 0x8d:
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3:
	case 0xfe:
	case 0x0f0d:
	case 0x0f10:
	case 0x0f11:
	case 0x0f18:
	case 0x0f1f:
	case 0x0f28:
	case 0x0f29:
	case 0x0f2e:
	case 0x0f57:
	case 0x0fa3:
	case 0x0faf:
	case 0x0fb1:
	case 0x0fb6:
	case 0x0fb7:
	case 0x0fbe:
	case 0x0fbf:
		return 0;
	}
	if ((opcode < 0x40 && (opcode & 7) < 4) || (opcode & ~15u) == 0x0f40 ||
	    (opcode & ~15u) == 0x0f90)
		return 0;
	return -1;
}

/* Opcodes without a ModRM byte: the number of bytes that follow. -1: others. */
static inline int cpu_plain_bytes(unsigned opcode, unsigned rex)
{
	bool is_bp = (opcode & 7) == 5 && !(rex & 1);

	if (opcode >= 0x50 && opcode <= 0x5f) /* push %rbp: a function begins; pop: it has ended */
		return is_bp ? -1 : 0;
	if (opcode < 0x40 && (opcode & 6) == 4)
		return opcode & 1 ? 4 : 1;
	if (opcode == 0xa8 || opcode == 0x6a || opcode >> 4 == 7)
		return 1;
	if (opcode == 0xa9 || opcode == 0x68 || (opcode & ~15u) == 0x0f80)
		return 4;
	if (opcode >= 0xb8 && opcode <= 0xbf)
		return is_bp ? -1 : rex & 8 ? 8 : 4;
	return opcode == 0x90 || opcode == 0x98 || opcode == 0x99 ? 0 : -1;
}

/* Whether an instruction with a ModRM byte leaves rbp as it is. Stores, compares
 * and tests do, even if they name it. */
static inline bool cpu_keeps_bp(unsigned opcode, unsigned rex, const uint8_t *modrm)
{
	bool group = opcode == 0x80 || opcode == 0x81 || opcode == 0x83 || opcode == 0xc0 ||
		     opcode == 0xc1 || opcode == 0xc6 || opcode == 0xc7 || opcode >> 4 == 0xd ||
		     (opcode >= 0xf6 && opcode <= 0xff) || opcode == 0x0fba;
	bool compares = opcode == 0x39 || opcode == 0x3b || opcode == 0x85;

	if (*modrm >> 6 == 3 && (*modrm & 7) == 5 && !(rex & 1) && !compares)
		return false;
	return group || compares || opcode == 0x89 || (*modrm >> 3 & 7) != 5 || rex & 4;
}

/*
 * Where a function leaves its frame, or drops what lies below its locals: leave; or mov %rbp, %rsp;
 * pop %rbp; or lea -n(%rbp), %rsp; or mov -n(%rbp), %rsp, in Java's interpreter; or, in V8's,
 *
 *	mov (%rbp), %rbp; up to two mov of other registers; add $n, %rsp; jmp *register
 *
 * A function returns the base pointer as it came, so that was at (%rbp).
 */
static inline bool cpu_leaves_frame(const uint8_t *code)
{
	unsigned at = 4;

	if (code[0] == 0xc9)
		return true;
	if (code[0] != 0x48)
		return false;
	if ((code[1] == 0x8b || code[1] == 0x8d) && code[2] == 0x65)
		return code[3] >= 0x80 && code[3] % 8 == 0;
	if ((code[1] == 0x89 && code[2] == 0xec) || (code[1] == 0x8b && code[2] == 0xe5))
		return code[3] == 0x5d;
	if (code[1] != 0x8b || code[2] != 0x6d || code[3] != 0)
		return false;
	for (int i = 0; i < 2 && code[at] >> 4 == 4 && code[at + 1] == 0x8b &&
			code[at + 2] >> 6 == 3 && ((code[at + 2] >> 3 & 6) != 4 || code[at] & 4);
	     i++)
		at += 3;
	if (code[at] != 0x48 || code[at + 1] != 0x83 || code[at + 2] != 0xc4)
		return false;
	at += 4;
	at += code[at] == 0x41;
	return code[at] == 0xff && code[at + 1] >> 3 == 28;
}

/* add $n, %rsp; pop %rbp: where a function leaves its frame whose locals have n bytes. 0: not there. */
static inline uint32_t cpu_dropped_bytes(const uint8_t *code)
{
	uint32_t far;

	if (code[0] != 0x48 || code[2] != 0xc4)
		return 0;
	__builtin_memcpy(&far, code + 3, sizeof(far));
	if (code[1] == 0x81 && code[7] == 0x5d)
		return far;
	return code[1] == 0x83 && code[4] == 0x5d && code[3] < 0x80 ? code[3] : 0;
}

/* Whether an instruction with a ModRM byte may change rsp. */
static inline bool cpu_may_move_sp(unsigned opcode, unsigned rex, const uint8_t *modrm)
{
	bool compares = (opcode >= 0x38 && opcode <= 0x3b) || opcode == 0x84 || opcode == 0x85;
	bool loads = opcode < 0x40 ? (opcode & 2) != 0
				   : opcode == 0x63 || opcode == 0x69 || opcode == 0x6b ||
					 opcode == 0x8a || opcode == 0x8b || opcode == 0x8d ||
					 (opcode >= 0x0f40 && opcode != 0x0fba && opcode != 0x0f57);

	if (compares)
		return false;
	if (opcode == 0xff && (*modrm >> 3 & 7) == 6) /* push */
		return true;
	return (*modrm >> 6 == 3 && (*modrm & 7) == 4 && !(rex & 1)) ||
	       (loads && (*modrm >> 3 & 7) == 4 && !(rex & 4));
}

/* One instruction. Many are not known here: CPU_STEP_STOP. */
static inline enum cpu_step cpu_step_code(const uint8_t *code, struct cpu_next *next)
{
	unsigned at = 0, rex = 0, opcode;
	bool short_number = false;
	int32_t far;
	int after;

	if (cpu_leaves_frame(code))
		return CPU_STEP_LEAVES;
	next->locals = cpu_dropped_bytes(code);
	if (next->locals)
		return CPU_STEP_DROPS;
	next->on = code[0] == 0xe8 ? 5 : 0; /* call */
	next->calls = next->on != 0;
	if (next->calls)
		return CPU_STEP_ON;
	if (code[0] == 0xc5 && code[1] == 0xf8 && code[2] == 0x77) { /* vzeroupper */
		next->on = 3;
		return CPU_STEP_ON;
	}
	for (; code[at] == 0x66 || code[at] == 0xf0 || code[at] == 0xf2 || code[at] == 0xf3; at++)
		short_number |= code[at] == 0x66;
	if (at > 2)
		return CPU_STEP_STOP;
	if (code[at] >> 4 == 4)
		rex = code[at++];
	opcode = code[at++];
	if (opcode == 0x0f)
		opcode = 0x0f00 | code[at++];
	__builtin_memcpy(&far, code + at, sizeof(far));
	if (opcode == 0xeb || opcode >> 4 == 7)
		next->branch = (int64_t)at + 1 + (int8_t)code[at];
	else if (opcode == 0xe9 || (opcode & ~15u) == 0x0f80)
		next->branch = (int64_t)at + 4 + far;
	if (opcode == 0xeb || opcode == 0xe9)
		return CPU_STEP_ON;
	after = cpu_plain_bytes(opcode, rex);
	next->moves_sp = (opcode >= 0x50 && opcode <= 0x5f) || opcode == 0x68 || opcode == 0x6a;
	if (after < 0) {
		after = cpu_immediate_bytes(opcode, code + at);
		if (after < 0 || !cpu_keeps_bp(opcode, rex, code + at))
			return CPU_STEP_STOP;
		next->moves_sp = cpu_may_move_sp(opcode, rex, code + at);
		at += cpu_modrm_bytes(code + at);
	}
	if (short_number && after == 4)
		return CPU_STEP_STOP;
	next->on = at + (unsigned)after;
	return CPU_STEP_ON;
}

/* jmp *0(%rip), followed by the address */
#define CPU_JUMP_BYTES 14u

static inline void cpu_put_jump(uint8_t *code, const void *to)
{
	const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};

	__builtin_memcpy(code, jump, sizeof(jump));
	__builtin_memcpy(code + sizeof(jump), &to, sizeof(to));
}

/* jmp . */
typedef uint16_t cpu_code_unit;
#define CPU_CODE_LOOP ((cpu_code_unit)0xfeeb)

/* OCaml passes the argument in rax and the closure in rbx. The stack is aligned as C wants it; what OCaml
 * needs to find again (r14, r15) is kept by C functions; OCaml expects the result where C puts it. */
#define CPU_OCAML_THUNK(name, function)                                                            \
	__asm__(".pushsection .text\n\t.p2align 4\n\t.hidden " #name "\n\t.globl " #name           \
		"\n\t.type " #name ", @function\n" #name ":\n\tmov %rax, %rdi\n\tmov %rbx, %rsi"   \
		"\n\tjmp " #function "\n\t.size " #name ", . - " #name "\n\t.popsection")

/* caml_c_call takes C's arguments where C does, and the function in rax. */
#define CPU_OCAML5_THUNK(name, function, call)                                                     \
	__asm__(".pushsection .text\n\t.p2align 4\n\t.hidden " #name "\n\t.globl " #name           \
		"\n\t.type " #name ", @function\n" #name ":\n\tmov %rax, %rdi\n\tmov %rbx, %rsi"   \
		"\n\tlea " #function "(%rip), %rax\n\tjmp *" #call "(%rip)\n\t.size " #name        \
		", . - " #name "\n\t.popsection")

/* The function reads a word of what an address points to (mov OFFSET(%reg), %reg, or cmpq): its offset, of
 * the first such instruction among its first bytes; 0: there is none. */
static inline uint32_t cpu_offset_read(const uint8_t *function)
{
	uint32_t offset;

	for (const uint8_t *at = function; at < function + 32; at++) {
		bool reads = at[0] == 0x48 && (at[1] == 0x8b || at[1] == 0x83);

		if (!reads || (at[2] & 0xc0) != 0x80 || (at[2] & 7) == 4)
			continue;
		__builtin_memcpy(&offset, at + 3, sizeof(offset));
		return offset;
	}
	return 0;
}

/* ---- frames and addresses ---- */

/* FF /2, of all but an address relative to rip. */
static inline bool cpu_called_by_pointer(uintptr_t pc)
{
	const uint8_t *end = (const uint8_t *)pc;
	bool in_register = end[-2] == 0xff && (end[-1] & 0xf8) == 0xd0;
	bool at_register =
	    end[-2] == 0xff && (end[-1] & 0xf8) == 0x10 && end[-1] != 0x14 && end[-1] != 0x15;
	bool near_register = end[-3] == 0xff && (end[-2] & 0xf8) == 0x50 && end[-2] != 0x54;
	bool on_stack = end[-3] == 0xff && end[-2] == 0x14 && end[-1] == 0x24;
	bool near_stack = end[-4] == 0xff && end[-3] == 0x54 && end[-2] == 0x24;

	return in_register || at_register || near_register || on_stack || near_stack;
}

/* DWARF register numbers */
#define CPU_DWARF_BP 6u
#define CPU_DWARF_SP 7u
#define CPU_DWARF_PC 16u

#define CPU_HAS_LINK	       0
#define CPU_CFI_SIGNED	       0
#define CPU_SIGRETURN_ANYWHERE 0

static inline uintptr_t cpu_code_address(uintptr_t word)
{
	return word;
}

static inline uintptr_t cpu_frame_record(const uintptr_t *record, uintptr_t *return_address)
{
	*return_address = record[1];
	return record[0];
}

/* The base pointer was saved at CFA - 8 * (saved + 1); 0 = it was not. */
#define CPU_SAVED_BITS 3
#define CPU_CFA_UNIT   8

static inline bool cpu_pack_saved(int64_t cfa_offset, int64_t ra, int64_t bp, uint64_t *saved)
{
	(void)cfa_offset;
	*saved = bp ? (uint64_t)(-bp / 8 - 1) : 0;
	return ra == -8 && (!bp || (bp <= -16 && bp >= -64));
}

static inline bool cpu_saves_bp(uint64_t saved)
{
	return saved != 0;
}

static inline uintptr_t cpu_return_slot(uint64_t saved, uintptr_t base, uintptr_t cfa)
{
	(void)saved;
	(void)base;
	return cfa - 8;
}

static inline uintptr_t cpu_bp_slot(uint64_t saved, uintptr_t base, uintptr_t cfa)
{
	(void)base;
	return cfa - 8 - saved * 8;
}

struct cpu_return {
};

static inline uintptr_t cpu_read_return(uintptr_t slot, struct cpu_return *from)
{
	(void)from;
	return *(const uintptr_t *)slot;
}

static inline uintptr_t cpu_return_from(uintptr_t cfa, const struct cpu_return *from)
{
	(void)from;
	return cfa - 8;
}

static inline uintptr_t cpu_return_word(uintptr_t address, const struct cpu_return *from)
{
	(void)from;
	return address;
}

#define CPU_ELF_MACHINE	 62 /* EM_X86_64 */
#define CPU_ADDRESS_BITS 48
#define CPU_USER_BITS	 47
#define CPU_PAGE_LEAST	 4096ul

#endif
