/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of prctl() and syscall(), by which a program installs seccomp filters. */
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"
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
HIDDEN void hook_syscall_first(long number, long operation);

void hook_syscall_first(long number, long operation)
{
	if (!cpu_real_syscall)
		cpu_real_syscall = real_dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_seccomp && atomic_load(&agent_state) == AGENT_ON)
		enter_sandbox();
	if (number == SYS_seccomp && operation == SECCOMP_SET_MODE_STRICT)
		lose_clock();
}

CPU_SYSCALL_HOOK;
