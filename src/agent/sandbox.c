/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of prctl() and syscall(), by which a program installs seccomp filters, and makes processes
 * that libc knows nothing of.
 */
#include <errno.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
#include "agent/life.h"
#include "agent/real.h"
#include "agent/unwind/walk.h"

/* A filter may kill the process for any system call that the program itself does not make. */
static void enter_sandbox(void)
{
	atomic_store(&agent_sandboxed, 1);
	walk_enter_sandbox();
}

/* From here on, reading the time stamp counter would kill the thread, also inside clock_gettime();
 * the same holds for strict mode. */
static void lose_clock(void)
{
	agent_off(SPOOL_OFF_SANDBOX, 0, "the program has given up its right to read the clock");
}

EXPORT int prctl(int option, ...)
{
	unsigned long a[4];
	va_list list;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(list, unsigned long);
	va_end(list);
	if (option == PR_SET_SECCOMP && atomic_load(&agent_state) == AGENT_ON)
		enter_sandbox();
	if ((option == PR_SET_SECCOMP && a[0] == SECCOMP_MODE_STRICT) ||
	    (option == PR_SET_TSC && a[0] == PR_TSC_SIGSEGV))
		lose_clock();
	return real.prctl(option, a[0], a[1], a[2], a[3]);
}

/* Named by the assembly of CPU_SYSCALL_HOOK only. */
HIDDEN void *cpu_real_syscall;
HIDDEN const void *hook_syscall_first(long number, long argument);

/* A child that has its own memory, and goes on where its parent does. */
static long make_process(long number, long a, long b, long c, long d, long e)
{
	long (*call)(long, ...);
	const struct clone_args *args = (const struct clone_args *)a;

	memcpy(&call, &cpu_real_syscall, sizeof(call));
	/* A child with a stack of its own returns to the address on that stack: no frame of ours may be there. */
	if (self.busy || (number == SYS_clone ? b : number == SYS_clone3 ? (long)args->stack : 0))
		return call(number, a, b, c, d, e);
	life_before_fork();
	long result = call(number, a, b, c, d, e);
	int error = errno;
	if (result)
		life_after_fork_parent();
	else
		life_after_fork_child();
	errno = error;
	return result;
}

/* Not when it shares the memory: then it may return through the same stack as its parent. With other
 * thread-local memory, nothing here would be the thread's. */
static bool copies_memory(long number, long argument)
{
	uint64_t flags = (uint64_t)argument;

	if (number == SYS_clone3) {
		const struct clone_args *args = (const struct clone_args *)argument;

		if (agent_sandboxed || argument % 8 || !sys_readable((uintptr_t)&args->flags) ||
		    !sys_readable((uintptr_t)&args->stack))
			return false;
		flags = args->flags;
	}
#ifdef SYS_fork
	if (number == SYS_fork)
		flags = 0;
#endif
	return !(flags & (CLONE_VM | CLONE_SETTLS));
}

static bool makes_process(long number)
{
#ifdef SYS_fork
	if (number == SYS_fork)
		return true;
#endif
	return number == SYS_clone || number == SYS_clone3;
}

const void *hook_syscall_first(long number, long argument)
{
	bool on = atomic_load(&agent_state) == AGENT_ON;

	if (!cpu_real_syscall)
		cpu_real_syscall = real_dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_seccomp && on)
		enter_sandbox();
	if (number == SYS_seccomp && argument == SECCOMP_SET_MODE_STRICT)
		lose_clock();
	return makes_process(number) && on && copies_memory(number, argument)
		   ? (const void *)make_process
		   : NULL;
}

CPU_SYSCALL_HOOK;
