/* SPDX-License-Identifier: Apache-2.0 */
/* AArch64: what cpu.h lists. */
#ifndef MAYFLY_CPU_AARCH64_H
#define MAYFLY_CPU_AARCH64_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/cpu/step.h"

/* ---- system calls ---- */

static inline long sys_call6(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

static inline long sys_call4(long number, long a, long b, long c, long d)
{
	return sys_call6(number, a, b, c, d, 0, 0);
}

static inline long sys_call3(long number, long a, long b, long c)
{
	return sys_call6(number, a, b, c, 0, 0, 0);
}

/* ---- registers ---- */

/* glibc's struct pthread lies just below it, and the thread's stack below that: one mapping. */
static inline uintptr_t cpu_thread_pointer(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

/* The bits above the address hold a signature if the function signs its return address
 * (-mbranch-protection=pac-ret). */
static inline uintptr_t cpu_code_address(uintptr_t word)
{
	return word & 0xffffffffffffull;
}

/* x29 and x30 of the caller */
static inline uintptr_t cpu_frame_record(const uintptr_t *record, uintptr_t *return_address)
{
	*return_address = cpu_code_address(record[1]);
	return record[0];
}

/* __builtin_frame_address makes the compiler keep a frame record. It lies anywhere in the frame. */
#define cpu_caller(pc_out, sp_out, bp_out)                                                         \
	do {                                                                                       \
		uintptr_t cpu_pc_;                                                                 \
		(bp_out) = cpu_frame_record(__builtin_frame_address(0), &cpu_pc_);                 \
		(pc_out) = cpu_pc_;                                                                \
		(sp_out) = (uintptr_t)__builtin_dwarf_cfa();                                       \
	} while (0)

/* The frame's address, which is x29, is an input, so that x30 has been saved. */
#define cpu_here(pc_out, sp_out, bp_out)                                                           \
	do {                                                                                       \
		(bp_out) = (uintptr_t)__builtin_frame_address(0);                                  \
		__asm__ volatile("adr %0, 0f\n\tmov %1, sp\n0:"                                    \
				 : "=&r"(pc_out), "=&r"(sp_out)                                    \
				 : "r"(bp_out));                                                   \
	} while (0)

/* first(argument 1, argument 2, where the return address is), at the start of a function that then
 * continues with registers and stack as they came. x8 is the address of a struct that is returned. */
#define CPU_CALL_FIRST(first)                                                                      \
	"	stp x29, x30, [sp, #-96]!\n"                                                             \
	"	.cfi_def_cfa_offset 96\n"                                                                \
	"	.cfi_offset 29, -96\n"                                                                   \
	"	.cfi_offset 30, -88\n"                                                                   \
	"	mov x29, sp\n"                                                                           \
	"	stp x0, x1, [sp, #16]\n"                                                                 \
	"	stp x2, x3, [sp, #32]\n"                                                                 \
	"	stp x4, x5, [sp, #48]\n"                                                                 \
	"	stp x6, x7, [sp, #64]\n"                                                                 \
	"	str x8, [sp, #80]\n"                                                                     \
	"	add x2, sp, #8\n"                                                                        \
	"	bl " first "\n"                                                                    \
	"	mov x16, x0\n"                                                                           \
	"	ldp x0, x1, [sp, #16]\n"                                                                 \
	"	ldp x2, x3, [sp, #32]\n"                                                                 \
	"	ldp x4, x5, [sp, #48]\n"                                                                 \
	"	ldp x6, x7, [sp, #64]\n"                                                                 \
	"	ldr x8, [sp, #80]\n"                                                                     \
	"	ldp x29, x30, [sp], #96\n"                                                               \
	"	.cfi_restore 29\n"                                                                       \
	"	.cfi_restore 30\n"                                                                       \
	"	.cfi_def_cfa_offset 0\n"

#define CPU_JUMP_TO(real)                                                                          \
	"	adrp x16, " real "\n"                                                              \
	"	ldr x16, [x16, #:lo12:" real "]\n"                                                 \
	"	br x16\n"

/* hint #34 is bti c. */
#define CPU_HOOK(name, body)                                                                       \
	__asm__(".text\n\t.p2align 2\n"                                                            \
		".globl " name "\n"                                                                \
		".type " name ", @function\n" name ":\n"                                           \
		"	.cfi_startproc\n"                                                                \
		"	hint #34\n" body "	.cfi_endproc\n"                                         \
		".size " name ", . - " name "\n")

/* 277 is SYS_seccomp, 220 SYS_clone, 435 SYS_clone3. */
#define CPU_SYSCALL_HOOK                                                                           \
	CPU_HOOK("syscall",                                                                        \
		 "	cmp x0, #277\n"                                                                 \
		 "	b.eq 1f\n"                                                                      \
		 "	cmp x0, #220\n"                                                                 \
		 "	b.eq 1f\n"                                                                      \
		 "	cmp x0, #435\n"                                                                 \
		 "	b.eq 1f\n"                                                                      \
		 "	adrp x16, cpu_real_syscall\n"                                                   \
		 "	ldr x16, [x16, #:lo12:cpu_real_syscall]\n"                                      \
		 "	cbz x16, 1f\n"                                                                  \
		 "	br x16\n"                                                                       \
		 "1:\n" CPU_CALL_FIRST("hook_syscall_first") "	cbnz x16, 2f\n" CPU_JUMP_TO(       \
		     "cpu_real_syscall") "2:	br x16\n")

#define CPU_JUMP_HOOK(name, real, first) CPU_HOOK(name, CPU_CALL_FIRST(first) CPU_JUMP_TO(real))

#define CPU_ANSWER_HOOK(name, real, first)                                                         \
	CPU_HOOK(name, CPU_CALL_FIRST(first) "	cbnz x16, 1f\n" CPU_JUMP_TO(                       \
			   real) "1:	mov x0, x16\n"                                                \
				 "	ret\n")

/* See CPU_CALL_FIRST: x29, x30 and 80 bytes of arguments. */
#define cpu_jump_caller(return_address, pc_out, sp_out, bp_out)                                    \
	do {                                                                                       \
		const uintptr_t *cpu_record_ = (const uintptr_t *)(return_address)-1;              \
		uintptr_t cpu_pc_;                                                                 \
		(bp_out) = cpu_frame_record(cpu_record_, &cpu_pc_);                                \
		(pc_out) = cpu_pc_;                                                                \
		(sp_out) = (uintptr_t)(cpu_record_ + 12);                                          \
	} while (0)

/* R_AARCH64_ABS64, _GLOB_DAT, _JUMP_SLOT */
#define CPU_SLOT_IS_DATA(relocation)  ((relocation) == 257)
#define CPU_SLOT_IS_CONST(relocation) ((relocation) == 1025 || (relocation) == 1026)
#define CPU_SLOT_IS_LAZY(relocation)  ((relocation) == 1026)

#define CPU_KEEP(value) __asm__("" : "+r"(value))

static inline bool cpu_count_down(uint64_t *left, uint64_t size)
{
	bool more = *left > size;

	*left -= size;
	return more;
}

static inline bool cpu_is_zero(const _Atomic uint8_t *byte)
{
	return __atomic_load_n((const uint8_t *)byte, __ATOMIC_RELAXED) == 0;
}

/* ---- time ---- */

/* The counter runs at 1 GHz from ARMv8.6 on, and at 24 to 100 MHz before that. */
#define CPU_CLOCKSOURCE	 "arch_sys_counter"
#define CPU_TICKS_PER_NS 1u

static inline uint64_t cpu_ticks(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

static inline uint64_t cpu_ticks_in_order(void)
{
	uint64_t ticks;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
	return ticks;
}

/* All CPUs have the same counter. */
static inline uint64_t cpu_ticks_at(unsigned *processor)
{
	*processor = 0;
	return cpu_ticks_in_order();
}

/* A call that goes on for long takes a cycle or more: 8 in a nanosecond are more than any CPU makes. 512:
 * instructions that it has begun before it reads the counter, or after. */
static inline uint64_t cpu_calls_most(uint64_t ticks)
{
	uint64_t rate;

	__asm__("mrs %0, cntfrq_el0" : "=r"(rate));
	return rate ? (ticks + 1) * (8000000000u / rate + 1) + 512 : UINT64_MAX;
}

static inline bool cpu_ticks_are_invariant(void)
{
	return true;
}

static inline void cpu_relax(void)
{
	__asm__ volatile("yield");
}

/* ---- signal frames ---- */

/* The kernel's frame: a siginfo_t of 128 bytes, then the struct ucontext, whose registers begin 184
 * bytes after its start. */
#define CPU_UCONTEXT_BP	  544u /* 312 + 8 * 29 */
#define CPU_UCONTEXT_LINK 552u
#define CPU_UCONTEXT_SP	  560u
#define CPU_UCONTEXT_PC	  568u

/* ---- code that is recognised by its bytes, and code that is written ---- */

#define CPU_CODE_BYTES 8u

/* mov x8, #SYS_rt_sigreturn; svc #0: where a handler returns to. */
#define CPU_SIGRETURN_CODE     "\x68\x11\x80\xd2\x01\x00\x00\xd4"
#define CPU_SIGRETURN_ANYWHERE 1

/* nop; mov x0, x19: where a coroutine's function
 * returns to. Before the nop ends what the rules cover. */
static inline bool cpu_is_context_end(const uint8_t *code)
{
	uint32_t words[2];

	__builtin_memcpy(words, code, sizeof(words));
	return words[0] == 0xd503201f && words[1] == 0xaa1303e0;
}

/* OCaml 5 code of arm64 is not known yet. */
#define CPU_STACK_CHECK_CFA    16
#define CPU_STACK_CHECK_BEFORE 4u
#define CPU_STACK_CHECK_AFTER  4u

static inline bool cpu_is_stack_check(const uint8_t *pc)
{
	(void)pc;
	return false;
}

/* ldr x16, .+8; br x16, followed by the address */
#define CPU_JUMP_BYTES 16u

static inline void cpu_put_jump(uint8_t *code, const void *to)
{
	const uint32_t jump[] = {0x58000050, 0xd61f0200};

	__builtin_memcpy(code, jump, sizeof(jump));
	__builtin_memcpy(code + sizeof(jump), &to, sizeof(to));
}

/* b . */
typedef uint32_t cpu_code_unit;
#define CPU_CODE_LOOP ((cpu_code_unit)0x14000000)

/* OCaml passes the argument in x0 and expects the result there; what it needs to find again (x26 to
 * x28) is kept by C functions. */
#define CPU_OCAML_THUNK(name, function)                                                            \
	__asm__(".pushsection .text\n\t.p2align 4\n\t.hidden " #name "\n\t.globl " #name           \
		"\n\t.type " #name ", @function\n" #name ":\n\thint #34\n\tb " #function           \
		"\n\t.size " #name ", . - " #name "\n\t.popsection")

/* caml_c_call takes C's arguments where C does, and the function in x15. */
#define CPU_OCAML5_THUNK(name, function, call)                                                     \
	__asm__(".pushsection .text\n\t.p2align 4\n\t.hidden " #name "\n\t.globl " #name           \
		"\n\t.type " #name ", @function\n" #name ":\n\thint #34\n\tadrp x15, " #function   \
		"\n\tadd x15, x15, #:lo12:" #function "\n\tadrp x16, " #call                       \
		"\n\tldr x16, [x16, #:lo12:" #call "]\n\tbr x16\n\t.size " #name ", . - " #name    \
		"\n\t.popsection")

/* As for x86-64, where programs are attached to. */
static inline uint32_t cpu_offset_read(const uint8_t *function)
{
	(void)function;
	return 0;
}

/* ---- frames and addresses ---- */

/* DWARF register numbers: x29, sp, and x30, which has a function's return address. */
#define CPU_DWARF_BP 29u
#define CPU_DWARF_SP 31u
#define CPU_DWARF_PC 30u

#define CPU_HAS_LINK   1
#define CPU_CFI_SIGNED 1

/*
 * The low end of a frame has the frame record, as gcc makes it, or the saved registers begin with x30
 * without x29. Arguments for functions that are called may lie below it.
 *
 *	0 to 7	 x30 at base + 8 * saved, x29 not saved
 *	8 to 14	 x29 and x30 at base + 16 * (saved - 8)
 *	15	 x29 and x30 at CFA - 16: clang
 */
#define CPU_SAVED_BITS 4
#define CPU_CFA_UNIT   16

static inline bool cpu_pack_saved(int64_t cfa_offset, int64_t ra, int64_t bp, uint64_t *saved)
{
	int64_t at = cfa_offset + (bp ? bp : ra);

	if (ra >= 0 || at < 0 || at % 8 != 0)
		return false;
	if (bp == 0) {
		*saved = (uint64_t)at / 8;
		return at <= 56;
	}
	*saved = bp == -16 ? 15 : (uint64_t)at / 16 + 8;
	return ra == bp + 8 && (bp == -16 || (at % 16 == 0 && at <= 96));
}

static inline bool cpu_saves_bp(uint64_t saved)
{
	return saved >= 8;
}

/* The slot of the first word that was saved. */
static inline uintptr_t cpu_bp_slot(uint64_t saved, uintptr_t base, uintptr_t cfa)
{
	uintptr_t low = base + ((saved & 7) << (3 + (saved >> 3)));

	return saved == 15 ? cfa - 16 : low;
}

static inline uintptr_t cpu_return_slot(uint64_t saved, uintptr_t base, uintptr_t cfa)
{
	return cpu_bp_slot(saved, base, cfa) + (saved & 8);
}

struct cpu_return {
	uintptr_t slot, word;
};

static inline uintptr_t cpu_read_return(uintptr_t slot, struct cpu_return *from)
{
	from->slot = slot;
	from->word = *(const uintptr_t *)slot;
	return cpu_code_address(from->word);
}

static inline uintptr_t cpu_return_from(uintptr_t cfa, const struct cpu_return *from)
{
	(void)cfa;
	return from->slot;
}

static inline uintptr_t cpu_return_word(uintptr_t address, const struct cpu_return *from)
{
	(void)address;
	return from->word;
}

/* ---- code without rules ---- */

#define CPU_CODE_STEP  4u
#define CPU_CALL_BYTES 4u

/* bl; blr; blraaz, blrabz; blraa, blrab */
static inline bool cpu_is_call_before(const uint8_t *code)
{
	uint32_t word;

	__builtin_memcpy(&word, code, sizeof(word));
	return word >> 26 == 0x25 || (word & 0xfffffc1f) == 0xd63f0000 ||
	       (word & 0xfffff81f) == 0xd63f081f || (word & 0xfffff800) == 0xd73f0800;
}

/* A store of two registers, of which one is x30, or of x30 alone, at the stack pointer. */
static inline bool cpu_saves_link(uint32_t word)
{
	bool pair = (word & 0xfe4003e0) == 0xa80003e0;
	bool alone = (word & 0xffe00fff) == 0xf8000ffe || (word & 0xffc003ff) == 0xf90003fe;

	return alone || (pair && ((word & 31) == 30 || (word >> 10 & 31) == 30));
}

/*
 * Where x29 and x30 are stored one after the other and x29 is set at once:
 *
 *	stp x29, x30, [sp, #-N]!; mov x29, sp					N
 *	sub sp, sp, #N;		stp x29, x30, [sp, #N-16]; add x29, sp, #N-16	16
 *	stp xA, xB, [sp, #-N]!; stp x29, x30, [sp, #N-16]; add x29, sp, #N-16	16
 *
 * Any other place where x30 is saved says that the rest cannot be known.
 */
#define CPU_CLUE_BYTES 12u

static inline int cpu_record_clue(const uint8_t *code)
{
	uint32_t word[3], size, at;

	__builtin_memcpy(word, code, sizeof(word));
	if ((word[0] & 0xffe07fff) == 0xa9a07bfd) {
		size = 8 * (128 - (word[0] >> 15 & 127));
		return word[1] == 0x910003fd && size % 16 == 0 ? (int)size : -1;
	}
	if ((word[1] & 0xffe07fff) == 0xa9007bfd) {
		at = 8 * (word[1] >> 15 & 63);
		size = 0;
		if ((word[0] & 0xffc003ff) == 0xd10003ff)
			size = word[0] >> 10 & 0xfff;
		else if ((word[0] & 0xffe003e0) == 0xa9a003e0 && !cpu_saves_link(word[0]))
			size = 8 * (128 - (word[0] >> 15 & 127));
		return size == at + 16 && word[2] == (0x910003fd | at << 10) ? 16 : -1;
	}
	/* The store of the second and third form is seen one instruction earlier. */
	return cpu_saves_link(word[0]) && (word[0] & 0xffe07fff) != 0xa9007bfd ? -1 : 0;
}

/* No such interpreter is known for arm64. */
#define CPU_RETURN_ENTRY_BYTES 4u

static inline bool cpu_is_return_entry(const uint8_t *code)
{
	(void)code;
	return false;
}

#define CPU_STEP_BYTES 8u

/* One instruction. Those that may write x29, and those that call, return or jump elsewhere end it. */
static inline enum cpu_step cpu_step_code(const uint8_t *code, struct cpu_next *next)
{
	uint32_t word[2];
	bool store;

	__builtin_memcpy(word, code, sizeof(word));
	/* mov sp, x29; ldp x29, x30, [sp], #n */
	if (word[0] == 0x910003bf && (word[1] & 0xffc07fff) == 0xa8c07bfd)
		return CPU_STEP_LEAVES;
	if (word[0] >> 26 == 5) { /* b */
		next->branch = (int64_t)((uint64_t)word[0] << 38) >> 36;
		return CPU_STEP_ON;
	}
	next->on = 4;
	/* b.cond, cbz, cbnz have 19 bits at bit 5; tbz, tbnz 14 bits */
	if (word[0] >> 24 == 0x54 || (word[0] & 0x7e000000) == 0x34000000) {
		next->branch = (int64_t)((uint64_t)(word[0] >> 5) << 45) >> 43;
		return CPU_STEP_ON;
	}
	if ((word[0] & 0x7e000000) == 0x36000000) {
		next->branch = (int64_t)((uint64_t)(word[0] >> 5) << 50) >> 48;
		return CPU_STEP_ON;
	}
	if ((word[0] & 0x1c000000) == 0x14000000) /* other jumps, calls, system instructions */
		return CPU_STEP_STOP;
	/* str and stp, without change of the base, only read registers. */
	store = (word[0] & 0x3ac00000) == 0x28000000 || (word[0] & 0x3bc00000) == 0x39000000;
	if (!store &&
	    ((word[0] & 31) == 29 || (word[0] >> 10 & 31) == 29 || (word[0] >> 5 & 31) == 29))
		return CPU_STEP_STOP;
	return CPU_STEP_ON;
}

#define CPU_ELF_MACHINE	 183 /* EM_AARCH64 */
#define CPU_ADDRESS_BITS 48
#define CPU_USER_BITS	 48
#define CPU_PAGE_LEAST	 4096ul

#endif
