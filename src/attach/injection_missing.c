/* SPDX-License-Identifier: Apache-2.0 */
/* For CPUs on which no call is made in another process: see injection.h. */
#include "attach/injection.h"

#include <errno.h>

#include "attach/attach.h"

void (*attach_step)(unsigned int number);

const bool injection_works_here = false;
const char injection_sigreturn[] = "";
const size_t injection_sigreturn_size = 0;

int injection_stop(struct injection *i, pid_t pid, pid_t tid)
{
	(void)i, (void)pid, (void)tid;
	return ENOTSUP;
}

uint64_t injection_registers(const struct injection *i, uint64_t registers[INJECTION_REGISTERS],
			     uint64_t words[INJECTION_WORDS], size_t *word_count)
{
	(void)i, (void)registers, (void)words;
	*word_count = 0;
	return 0;
}

uint64_t injection_stack(const struct injection *i)
{
	(void)i;
	return 0;
}

int injection_call(struct injection *i, uint64_t function, void *data, size_t bytes,
		   uint64_t number)
{
	(void)i, (void)function, (void)data, (void)bytes, (void)number;
	return ENOTSUP;
}

const char injection_syscall[] = "";
const size_t injection_syscall_size = 0;

int injection_interrupt(struct injection *i, pid_t pid, pid_t tid)
{
	(void)i, (void)pid, (void)tid;
	return ENOTSUP;
}

int injection_await(struct injection *i)
{
	(void)i;
	return ENOTSUP;
}

bool injection_let_go(pid_t tid)
{
	(void)tid;
	return true;
}

void injection_let_go_later(pid_t tid)
{
	(void)tid;
}

void injection_tend_late(void)
{
}

int injection_fork(struct injection *i, uint64_t syscall_at, uint64_t exit_at, pid_t *copy)
{
	(void)i, (void)syscall_at, (void)exit_at, (void)copy;
	return ENOTSUP;
}

int injection_reap(struct injection *i, uint64_t syscall_at, pid_t copy)
{
	(void)i, (void)syscall_at, (void)copy;
	return ENOTSUP;
}

int injection_copy_calls(pid_t copy, uint64_t syscall_at, long number, uint64_t first,
			 uint64_t second)
{
	(void)copy, (void)syscall_at, (void)number, (void)first, (void)second;
	return ENOTSUP;
}

void injection_release(struct injection *i)
{
	(void)i;
}

void injection_bury(const struct injection *i)
{
	(void)i;
}
