/* SPDX-License-Identifier: Apache-2.0 */
/* x86-64: what cpu.h lists. */
#ifndef MAYFLY_CPU_X86_64_H
#define MAYFLY_CPU_X86_64_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

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

#define CPU_SYSCALL_HOOK                                                                           \
	__asm__(".text\n"                                                                          \
		".globl syscall\n"                                                                 \
		".type syscall, @function\n"                                                       \
		"syscall:\n"                                                                       \
		"	.cfi_startproc\n"                                                                \
		"	endbr64\n"                                                                       \
		"	cmp $317, %rdi\n"                                                                \
		"	je 1f\n"                                                                         \
		"	mov cpu_real_syscall(%rip), %rax\n"                                              \
		"	test %rax, %rax\n"                                                               \
		"	je 1f\n"                                                                         \
		"	jmp *%rax\n"                                                                     \
		"1:\n" CPU_CALL_FIRST("hook_syscall_first") "	jmp *cpu_real_syscall(%rip)\n"       \
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

/* The CPU compares and subtracts in one instruction, which gcc 12 does not find by itself: it saves
 * 0.7 ns per allocation. */
static inline bool cpu_subtract_reaches(uint64_t *left, uint64_t size)
{
	bool reached;

	__asm__("sub %2, %0" : "+r"(*left), "=@ccbe"(reached) : "r"(size));
	return reached;
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

static inline bool cpu_ticks_are_invariant(void)
{
	unsigned a, b, c, d;

	if (!__get_cpuid(0x80000000u, &a, &b, &c, &d) || a < 0x80000007u)
		return false;
	if (!__get_cpuid(0x80000001u, &a, &b, &c, &d) || !(d & 1u << 27))
		return false; /* no rdtscp */
	return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
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

/* mov %rbx, %rsp; mov (%rsp), %rdi; test %rdi, ...: where a coroutine's function returns to. */
static inline bool cpu_is_context_end(const uint8_t *code)
{
	return __builtin_memcmp(code, "\x48\x89\xdc\x48\x8b\x3c\x24\x48\x85", CPU_CODE_BYTES) == 0;
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

/* What code says about the base pointer. 1: a frame record is made (push %rbp; mov %rsp, %rbp) or used
 * (mov of a local variable at -n(%rbp)); -1: the register is only saved (push %rbp; sub $n, %rsp); 0:
 * nothing. */
#define CPU_CLUE_BYTES 4u

static inline int cpu_record_clue(const uint8_t *code)
{
	if ((code[0] == 0x48 || code[0] == 0x4c) && (code[1] == 0x8b || code[1] == 0x89))
		return (code[2] & 0xc7) == 0x45 && code[3] >= 0x80 && code[3] % 8 == 0;
	if (code[0] != 0x55 || code[1] != 0x48)
		return 0;
	if ((code[2] == 0x89 && code[3] == 0xe5) || (code[2] == 0x8b && code[3] == 0xec))
		return 1;
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

/* OCaml passes the argument in rax. The stack is aligned as C wants it; what OCaml needs to find
 * again (r14, r15) is kept by C functions; OCaml expects the result where C puts it. */
#define CPU_OCAML_THUNK(name, function)                                                            \
	__asm__(".pushsection .text\n\t.p2align 4\n\t.hidden " #name "\n\t.globl " #name           \
		"\n\t.type " #name ", @function\n" #name ":\n\tmov %rax, %rdi\n\tjmp " #function   \
		"\n\t.size " #name ", . - " #name "\n\t.popsection")

/* caml_c_call takes C's arguments where C does, and the function in rax. */
#define CPU_OCAML5_THUNK(name, function, call)                                                     \
	__asm__(".pushsection .text\n\t.p2align 4\n\t.hidden " #name "\n\t.globl " #name           \
		"\n\t.type " #name ", @function\n" #name ":\n\tmov %rax, %rdi\n\tlea " #function   \
		"(%rip), %rax\n\tjmp *" #call "(%rip)\n\t.size " #name ", . - " #name              \
		"\n\t.popsection")

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
