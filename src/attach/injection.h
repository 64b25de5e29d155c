/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of another process calls a function, and continues as if it had not. The part that knows the
 * CPU.
 *
 *	injection_stop()	the thread stops
 *	injection_call()	it calls the function, once or several times; other threads run
 *	injection_release()	it continues
 *
 * The call runs below a signal frame that describes where the thread was, and its signals are blocked
 * meanwhile. When the function returns, sigreturn restores the thread, even if nobody traces it any more.
 * Source of the frame's layout: Linux, arch/x86/include/uapi/asm/sigcontext.h, signal_64.c.
 */
#ifndef MAYFLY_INJECTION_H
#define MAYFLY_INJECTION_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define INJECTION_STATE_BYTES 16384u /* of the floating-point registers, at most */

/* The code that a signal handler returns to, by its bytes. */
extern const char injection_sigreturn[];
extern const size_t injection_sigreturn_size;
extern const bool injection_works_here; /* on this CPU */

struct injection {
	pid_t pid, tid;
	bool stopped;
	bool released;
	bool killed;   /* it could not be released any more */
	bool waits;    /* it waited in a system call, which the stop has interrupted */
	bool restarts; /* that is begun again, as the stop has interrupted it, and no signal has */
	uint64_t sigreturn; /* where the code above is in the process */
	/* Not 0: while the data begins with this, the function handles a SIGBUS of pages that are shared. */
	uint64_t guarded;
	uint64_t sent;	    /* signals that came from others meanwhile: sent again at the release */
	int64_t stopped_ns; /* since when */
	struct user_regs_struct registers;
	size_t state_bytes;
	uint64_t mask; /* of its signals */
	_Alignas(64) unsigned char state[INJECTION_STATE_BYTES];
};

/* 0 or an errno; EAGAIN: it did not stop in time, and runs on. */
int injection_stop(struct injection *i, pid_t pid, pid_t tid);
/* The same in two steps, so that many threads stop at once: 0 or an errno. After a failure of the second
 * with EAGAIN, the thread stops as soon as the kernel lets it; injection_let_go() ends that. */
int injection_interrupt(struct injection *i, pid_t pid, pid_t tid);
int injection_await(struct injection *i);
/* Such a thread runs on if it has stopped. True: nothing is left to do. */
bool injection_let_go(pid_t tid);
/* injection_tend_late() lets this thread go. A process that goes on calls that now and then, in the thread that
 * traces. */
void injection_let_go_later(pid_t tid);
void injection_tend_late(void);

#define INJECTION_REGISTERS                                                                        \
	17u /* in the order of DWARF: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 ..., pc */
#define INJECTION_WORDS 32u

/* The registers of the stopped thread, and the first part of the vector registers as words. Returns where
 * its thread-local variables are. */
uint64_t injection_registers(const struct injection *i, uint64_t registers[INJECTION_REGISTERS],
			     uint64_t words[INJECTION_WORDS], size_t *word_count);

/* The stack pointer, for a look at the room below. */
uint64_t injection_stack(const struct injection *i);

/* function(data, number), with a copy of data on the thread's stack, of which the first 8 bytes come back.
 * What the function returns is lost. 0 or an errno: EFAULT: the call has crashed, and was undone; ESRCH:
 * the thread has ended. */
int injection_call(struct injection *i, uint64_t function, void *data, size_t bytes,
		   uint64_t number);

/* The bytes of a system call and a return. */
extern const char injection_syscall[];
extern const size_t injection_syscall_size;

/* The thread forks a copy of its process, with the files open in both as one, whose end sends no signal:
 * no handler of fork() runs, and only a wait() that asks for such children finds it. The copy is stopped,
 * traced by the caller, and ends with it; until then it has run nothing, and whatever lets go of it, it
 * would call exit_at. syscall_at: where injection_syscall stands in the process. 0 or an errno. */
int injection_fork(struct injection *i, uint64_t syscall_at, uint64_t exit_at, pid_t *copy);
/* The thread waits for such a copy, which has ended. */
int injection_reap(struct injection *i, uint64_t syscall_at, pid_t copy);
/* A stopped copy makes a system call, instead of whatever it was about to do. */
int injection_copy_calls(pid_t copy, uint64_t syscall_at, long number, uint64_t first,
			 uint64_t second);

void injection_release(struct injection *i);
/* Until a thread that was killed while it was stopped has been waited for, its process has not ended.
 * To be called after all threads are released, and for the first thread of the process last. */
void injection_bury(const struct injection *i);

#endif
