/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that depends on the CPU: system calls without libc (they touch neither errno nor
 * cancellation), registers, the time stamp counter, the layout of a signal frame. x86-64 Linux.
 */
#ifndef MAYFLY_CPU_H
#define MAYFLY_CPU_H

#include <cpuid.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifndef __x86_64__
#error "no support for this CPU yet: write its part of this header"
#endif

/* ---- raw system calls: the result, or -errno ---- */

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

static inline bool sys_failed(long result)
{
	return (unsigned long)result > -4096ul;
}

static inline long sys_mmap(void *address, size_t length, int protection, int flags, int fd,
			    int64_t offset)
{
	return sys_call6(SYS_mmap, (long)address, (long)length, protection, flags, fd, offset);
}

static inline long sys_munmap(void *address, size_t length)
{
	return sys_call3(SYS_munmap, (long)address, (long)length, 0);
}

static inline long sys_madvise(void *address, size_t length, int advice)
{
	return sys_call3(SYS_madvise, (long)address, (long)length, advice);
}

static inline long sys_mprotect(void *address, size_t length, int protection)
{
	return sys_call3(SYS_mprotect, (long)address, (long)length, protection);
}

static inline long sys_openat(int directory, const char *path, int flags, int mode)
{
	return sys_call4(SYS_openat, directory, (long)path, flags, mode);
}

static inline long sys_close(int fd)
{
	return sys_call3(SYS_close, fd, 0, 0);
}

static inline long sys_read(int fd, void *buffer, size_t length)
{
	return sys_call3(SYS_read, fd, (long)buffer, (long)length);
}

static inline long sys_write(int fd, const void *buffer, size_t length)
{
	return sys_call3(SYS_write, fd, (long)buffer, (long)length);
}

static inline long sys_fallocate(int fd, int mode, int64_t offset, int64_t length)
{
	return sys_call4(SYS_fallocate, fd, mode, offset, length);
}

static inline long sys_readlinkat(int directory, const char *path, char *buffer, size_t length)
{
	return sys_call4(SYS_readlinkat, directory, (long)path, (long)buffer, (long)length);
}

static inline long sys_fcntl(int fd, int command, long argument)
{
	return sys_call3(SYS_fcntl, fd, command, argument);
}

static inline long sys_lseek(int fd, int64_t offset, int whence)
{
	return sys_call3(SYS_lseek, fd, offset, whence);
}

static inline long sys_unlinkat(int directory, const char *path, int flags)
{
	return sys_call3(SYS_unlinkat, directory, (long)path, flags);
}

/* Do the paths lead to one file? */
static inline bool sys_same_file(const char *a, const char *b)
{
	/* struct stat of the kernel: 144 bytes, device and inode first. */
	uint64_t x[18], y[18];

	return !sys_failed(sys_call3(SYS_stat, (long)a, (long)x, 0)) &&
	       !sys_failed(sys_call3(SYS_stat, (long)b, (long)y, 0)) && x[0] == y[0] &&
	       x[1] == y[1];
}

static inline long sys_getcwd(char *buffer, size_t length)
{
	return sys_call3(SYS_getcwd, (long)buffer, (long)length, 0);
}

static inline long sys_sched_yield(void)
{
	return sys_call3(SYS_sched_yield, 0, 0, 0);
}

static inline long sys_getrandom(void *buffer, size_t length, unsigned flags)
{
	return sys_call3(SYS_getrandom, (long)buffer, (long)length, flags);
}

static inline long sys_prctl(long option, long a, long b, long c)
{
	return sys_call4(SYS_prctl, option, a, b, c);
}

static inline long sys_getpid(void)
{
	return sys_call3(SYS_getpid, 0, 0, 0);
}

static inline long sys_getppid(void)
{
	return sys_call3(SYS_getppid, 0, 0, 0);
}

static inline long sys_gettid(void)
{
	return sys_call3(SYS_gettid, 0, 0, 0);
}

/* The soft limit of this process; RLIM_INFINITY, all ones, when it cannot be read. */
static inline uint64_t sys_soft_limit(int resource)
{
	uint64_t limit[2];

	if (sys_failed(sys_call4(SYS_prlimit64, 0, resource, 0, (long)limit)))
		return UINT64_MAX;
	return limit[0];
}

/* Can the 8 bytes at this address be read? A sigprocmask with an unknown `how` fails in any case,
 * but reads the new mask first: EFAULT if it cannot. It needs no descriptor and no memory. NULL
 * would mean no new mask. */
static inline bool sys_readable(uintptr_t address)
{
	const long efault = -14;

	return address && sys_call4(SYS_rt_sigprocmask, 0x7fff, (long)address, 0, 8) != efault;
}

/* ---- registers ---- */

static inline uintptr_t cpu_thread_pointer(void)
{
	uintptr_t pointer;

	__asm__("mov %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

/* The state of the caller of the function that this is inlined into, as after its return.
 * __builtin_frame_address makes the compiler keep a frame pointer: saved rbp, return address. */
#define cpu_caller(pc_out, sp_out, bp_out)                                                         \
	do {                                                                                       \
		const uintptr_t *cpu_frame_ = __builtin_frame_address(0);                          \
		(bp_out) = cpu_frame_[0];                                                          \
		(pc_out) = cpu_frame_[1];                                                          \
		(sp_out) = (uintptr_t)(cpu_frame_ + 2);                                            \
	} while (0)

/* The state right here. A walk from here goes through the frames of this library first. */
#define cpu_here(pc_out, sp_out, bp_out)                                                           \
	__asm__ volatile("lea 0f(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2\n0:"                 \
			 : "=&r"(pc_out), "=&r"(sp_out), "=r"(bp_out))

/* first(argument 1, argument 2, where the return address is), at the start of a function that goes
 * on with registers and stack as they came. */
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

/*
 * The hook of syscall(): jumps to cpu_real_syscall with registers and stack as they came (a child
 * of clone or vfork returns through them), except for number SYS_seccomp, which it announces
 * first. While cpu_real_syscall is NULL, hook_syscall_first looks it up.
 */
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

/*
 * A hook that leaves no frame: `first`, then a jump to *real. For functions that look at who calls
 * them (dlopen: whose RUNPATH) or return twice on one stack (vfork).
 */
#define CPU_JUMP_HOOK(name, real, first)                                                           \
	__asm__(".text\n"                                                                          \
		".globl " name "\n"                                                                \
		".type " name ", @function\n" name ":\n"                                           \
		"	.cfi_startproc\n"                                                                \
		"	endbr64\n" CPU_CALL_FIRST(first) "	jmp *" real "(%rip)\n"             \
							 "	.cfi_endproc\n"                         \
							 ".size " name ", . - " name "\n")

/* In `first` above, without arguments on the stack: the state in the caller of the hook. */
#define cpu_jump_caller(return_address, pc_out, sp_out, bp_out)                                    \
	do {                                                                                       \
		const uintptr_t *cpu_frame_ = __builtin_frame_address(0);                          \
		(bp_out) = cpu_frame_[0];                                                          \
		(pc_out) = *(const uintptr_t *)(return_address);                                   \
		(sp_out) = (uintptr_t)((const uintptr_t *)(return_address) + 1);                   \
	} while (0)

/* Makes the compiler hold the value in a register: what follows cannot become a branch on how it
 * was computed. */
#define CPU_KEEP(value) __asm__("" : "+r"(value))

/* Subtracts; true when that reaches 0 or below, and *left is then of no use. The CPU compares and
 * subtracts in one instruction, which gcc 12 does not find by itself: 0.7 ns per allocation. */
static inline bool cpu_subtract_reaches(uint64_t *left, uint64_t size)
{
	bool reached;

	__asm__("sub %2, %0" : "+r"(*left), "=@ccbe"(reached) : "r"(size));
	return reached;
}

/* ---- time ---- */

static inline uint64_t cpu_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

/* Not before all earlier loads are done: another thread's store that one of them has seen happened
 * before. */
static inline uint64_t cpu_ticks_in_order(void)
{
	unsigned processor;

	return __builtin_ia32_rdtscp(&processor);
}

/* Does the counter run at one rate on all cores and in all sleep states? */
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
#define CPU_UCONTEXT_BP 120u /* 40 + 8 * REG_RBP */
#define CPU_UCONTEXT_SP 160u /* 40 + 8 * REG_RSP */
#define CPU_UCONTEXT_PC 168u /* 40 + 8 * REG_RIP */

/* The first instructions of code that is known by its look. */
#define CPU_CODE_BYTES 9u

/* mov $SYS_rt_sigreturn, %rax; syscall: where a handler returns to. */
#define CPU_SIGRETURN_CODE "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"

/* mov %rbx, %rsp; mov (%rsp), %rdi; test %rdi, ...: where a coroutine's function returns to. */
#define CPU_CONTEXT_CODE "\x48\x89\xdc\x48\x8b\x3c\x24\x48\x85"

/* ---- DWARF register numbers ---- */

#define CPU_DWARF_BP 6u
#define CPU_DWARF_SP 7u
#define CPU_DWARF_PC 16u

/* Return addresses fit into this many bits. */
#define CPU_ADDRESS_BITS 48

#endif
