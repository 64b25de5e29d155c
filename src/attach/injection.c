/* SPDX-License-Identifier: Apache-2.0 */
/* A call in another process: see injection.h. */
#include "attach/injection.h"

#include <elf.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/attach.h"
#include "attach/target_process.h"
#include "base/array.h"
#include "base/system/clock.h"

void (*attach_step)(unsigned int number);

#define STOP_MS	 200  /* for a thread to stop: longer only when the kernel does not let it */
#define BURY_MS	 2000 /* for a thread that was killed to be gone */
#define RED_ZONE 128

const bool injection_works_here = true;
/* mov $SYS_rt_sigreturn, %rax; syscall */
const char injection_sigreturn[] = "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05";
const size_t injection_sigreturn_size = sizeof(injection_sigreturn) - 1;

/* Results of a system call that the kernel begins again before the program sees them. */
enum { RESTARTSYS = -512, RESTARTNOINTR = -513, RESTARTNOHAND = -514, RESTART_BLOCK = -516 };

static void step(void)
{
	static unsigned int steps;

	if (attach_step)
		attach_step(steps++);
}

static int result_of(long value)
{
	return value < 0 ? errno : 0;
}

/* ---- stopping ---- */

/* A process that this one has started: how it ended, another part of this program waits for. */
static bool is_own_child(pid_t tid)
{
	int group = 0, parent = 0;
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "Tgid: %d", &group);
		sscanf(line, "PPid: %d", &parent);
	}
	if (file)
		fclose(file);
	return group == tid && parent == getpid();
}

/* Lets go of a thread that has ended: until then its process has not. */
static void let_end(pid_t tid)
{
	if (!is_own_child(tid))
		waitpid(tid, NULL, __WALL | WNOHANG);
}

static bool has_ended(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED || info->si_code == CLD_KILLED ||
	       info->si_code == CLD_DUMPED;
}

/* Never takes an end for a stop: the thread may have been killed just now. */
static bool take_stop(pid_t tid, int *status)
{
	siginfo_t info = {.si_pid = 0};

	if (waitid(P_PID, (id_t)tid, &info, __WALL | WSTOPPED | WNOHANG) || !info.si_pid)
		return false;
	*status = info.si_status << 8 | 0x7f;
	return true;
}

/* 0, EAGAIN or ESRCH. */
static int wait_for_stop(pid_t tid, int *status, int milliseconds)
{
	int64_t end = now_ns() + milliseconds * 1000000ll;
	int how = __WALL | WSTOPPED | WEXITED | WNOWAIT | (milliseconds < 0 ? 0 : WNOHANG);
	siginfo_t info;

	for (;;) {
		info.si_pid = 0;
		if (waitid(P_PID, (id_t)tid, &info, how)) {
			if (errno != EINTR)
				return ESRCH;
		} else if (info.si_pid && has_ended(&info)) {
			let_end(tid);
			return ESRCH;
		} else if (info.si_pid && take_stop(tid, status)) {
			return 0;
		}
		if (milliseconds >= 0 && now_ns() > end)
			return EAGAIN;
		if (!info.si_pid)
			usleep(100);
	}
}

static int get_state(struct injection *i)
{
	struct iovec state = {i->state, sizeof(i->state)};
	int error = result_of(ptrace(PTRACE_GETREGS, i->tid, 0, &i->registers));

	if (!error)
		error = result_of(ptrace(PTRACE_GETREGSET, i->tid, (void *)NT_X86_XSTATE, &state));
	if (!error)
		error =
		    result_of(ptrace(PTRACE_GETSIGMASK, i->tid, (void *)sizeof(i->mask), &i->mask));
	i->state_bytes = state.iov_len;
	return error;
}

/* Signals that wait to be delivered to the thread: a system call that one of them has interrupted must
 * not be begun again. */
static bool has_signals(const struct injection *i)
{
	unsigned long long pending = ~0ull, value;
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)i->pid, (int)i->tid);
	file = fopen(path, "re");
	if (!file)
		return true;
	pending = 0;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "SigPnd: %llx", &value) == 1 ||
		    sscanf(line, "ShdPnd: %llx", &value) == 1)
			pending |= value;
	fclose(file);
	return (pending & ~i->mask) != 0;
}

static bool is_interrupted(const struct user_regs_struct *r)
{
	long result = (long)r->rax;

	return (result <= RESTARTSYS && result >= RESTART_BLOCK) || result == -EINTR;
}

int injection_interrupt(struct injection *i, pid_t pid, pid_t tid)
{
	i->pid = pid;
	i->tid = tid;
	i->guarded = 0;
	i->sent = 0;
	i->stopped = i->released = i->killed = false;
	if (ptrace(PTRACE_SEIZE, tid, 0, (void *)(long)PTRACE_O_TRACESYSGOOD))
		return errno;
	step();
	i->stopped_ns = now_ns();
	return result_of(ptrace(PTRACE_INTERRUPT, tid, 0, 0));
}

/* One that was killed just now is waited for later: until then its process has not ended. */
static void let_go_of_stop(pid_t tid, int signal)
{
	if (ptrace(PTRACE_DETACH, tid, 0, (void *)(long)signal))
		injection_let_go_later(tid);
}

int injection_await(struct injection *i)
{
	pid_t tid = i->tid;
	int status, error = wait_for_stop(tid, &status, STOP_MS);

	if (error == EAGAIN) {
		/* In a wait that nothing ends. The kernel lets go of it only in a stop. */
		return EAGAIN;
	}
	if (error)
		return error;
	step();
	i->stopped = true;
	/* Any other stop than ours is of a signal, which is delivered when the thread goes on. */
	if (status >> 16 != PTRACE_EVENT_STOP || WSTOPSIG(status) != SIGTRAP) {
		i->waits = false;
		let_go_of_stop(tid, status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status));
		i->stopped = false;
		return EBUSY;
	}
	error = get_state(i);
	i->waits = !error && (long)i->registers.orig_rax >= 0 && is_interrupted(&i->registers);
	i->restarts = i->waits && (int)i->registers.rax == -EINTR && !has_signals(i);
	if (error)
		injection_release(i);
	if (i->killed)
		injection_let_go_later(tid);
	return error;
}

int injection_stop(struct injection *i, pid_t pid, pid_t tid)
{
	int error = injection_interrupt(i, pid, tid);

	return error ? error : injection_await(i);
}

bool injection_let_go(pid_t tid)
{
	int status, signal, error = wait_for_stop(tid, &status, 0);

	if (error)
		return error != EAGAIN;
	signal = status >> 16 ? 0 : WSTOPSIG(status);
	return !ptrace(PTRACE_DETACH, tid, 0, (void *)(long)signal);
}

static struct {
	pid_t *tid;
	size_t count, room;
} late;

void injection_let_go_later(pid_t tid)
{
	if (array_reserve(&late.tid, &late.room, late.count, sizeof(*late.tid)))
		late.tid[late.count++] = tid;
}

void injection_tend_late(void)
{
	for (size_t i = 0; i < late.count;)
		if (injection_let_go(late.tid[i]))
			late.tid[i] = late.tid[--late.count];
		else
			i++;
}

#define STATE_VECTORS 160 /* behind the registers of x87 */

uint64_t injection_registers(const struct injection *i, uint64_t registers[INJECTION_REGISTERS],
			     uint64_t words[INJECTION_WORDS], size_t *word_count)
{
	const struct user_regs_struct *r = &i->registers;
	const uint64_t all[INJECTION_REGISTERS] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
						   r->rbp, r->rsp, r->r8,  r->r9,  r->r10, r->r11,
						   r->r12, r->r13, r->r14, r->r15, r->rip};

	memcpy(registers, all, sizeof(all));
	*word_count = i->state_bytes >= STATE_VECTORS + sizeof(uint64_t) * INJECTION_WORDS
			  ? INJECTION_WORDS
			  : 0;
	memcpy(words, i->state + STATE_VECTORS, *word_count * sizeof(*words));
	return r->fs_base;
}

uint64_t injection_stack(const struct injection *i)
{
	return i->registers.rsp;
}

/* ---- the frame ---- */

/* struct ucontext of the kernel, as far as sigreturn reads it. */
struct context {
	uint64_t flags, link;
	uint64_t stack;
	uint32_t stack_flags, pad;
	uint64_t stack_size;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
	uint64_t eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2, state, reserved[8];
	uint64_t mask;
};

struct frame {
	uint64_t return_address;
	struct context context;
	unsigned char siginfo[128];
};

#define CONTEXT_FLAGS 7u /* UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS */
#define NO_STACK_CHANGE                                                                            \
	0xffffffffu /* an invalid value: the kernel leaves the alternate stack alone */
#define STATE_MAGIC1   0x46505853u
#define STATE_MAGIC2   0x46505845u
#define STATE_SOFTWARE 464u /* where the following struct stands */

struct state_note {
	uint32_t magic1, extended_size;
	uint64_t features;
	uint32_t size, padding[7];
};

/* Where the thread was, with a system call that was interrupted before its begin. */
static struct user_regs_struct place_of(const struct injection *i)
{
	struct user_regs_struct r = i->registers;

	if (i->waits && (i->restarts || (long)r.rax != -EINTR)) {
		r.rax = r.orig_rax;
		r.rip -= 2;
	}
	r.orig_rax = (unsigned long long)-1;
	return r;
}

static void fill_context(const struct injection *i, struct context *c)
{
	const struct user_regs_struct place = place_of(i), *r = &place;

	*c = (struct context){
	    .flags = CONTEXT_FLAGS,
	    .stack_flags = NO_STACK_CHANGE,
	    .r8 = r->r8,
	    .r9 = r->r9,
	    .r10 = r->r10,
	    .r11 = r->r11,
	    .r12 = r->r12,
	    .r13 = r->r13,
	    .r14 = r->r14,
	    .r15 = r->r15,
	    .rdi = r->rdi,
	    .rsi = r->rsi,
	    .rbp = r->rbp,
	    .rbx = r->rbx,
	    .rdx = r->rdx,
	    .rax = r->rax,
	    .rcx = r->rcx,
	    .rsp = r->rsp,
	    .rip = r->rip,
	    .eflags = r->eflags,
	    .cs = (uint16_t)r->cs,
	    .ss = (uint16_t)r->ss,
	    .mask = i->mask,
	};
}

static int write_memory(pid_t pid, uint64_t address, const void *data, size_t bytes)
{
	struct iovec local = {(void *)(uintptr_t)data, bytes}, remote = {(void *)address, bytes};
	ssize_t n = process_vm_writev(pid, &local, 1, &remote, 1, 0);

	return n == (ssize_t)bytes ? 0 : n < 0 ? errno : EFAULT;
}

static int read_memory(pid_t pid, uint64_t address, void *data, size_t bytes)
{
	struct iovec local = {data, bytes}, remote = {(void *)address, bytes};
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n == (ssize_t)bytes ? 0 : n < 0 ? errno : EFAULT;
}

/* The frame, and above it the data and the registers' state. Sets *sp and *data_at. */
static int put_frame(const struct injection *i, const void *data, size_t bytes, uint64_t *sp,
		     uint64_t *data_at)
{
	uint64_t state_bytes = i->state_bytes + sizeof(uint32_t);
	uint64_t at = i->registers.rsp - RED_ZONE;
	struct state_note note = {.magic1 = STATE_MAGIC1,
				  .extended_size = (uint32_t)state_bytes,
				  .size = (uint32_t)i->state_bytes};
	unsigned char *state = malloc(state_bytes);
	const uint32_t magic2 = STATE_MAGIC2;
	struct frame frame = {.return_address = i->sigreturn};
	int error = state ? 0 : ENOMEM;

	if (error)
		return error;
	at = (at - bytes) & ~15ull;
	*data_at = at;
	error = write_memory(i->pid, at, data, bytes);
	memcpy(state, i->state, i->state_bytes);
	/* The kernel's note about the features that are there begins this part, for ptrace. */
	memcpy(&note.features, i->state + STATE_SOFTWARE, sizeof(note.features));
	memcpy(state + STATE_SOFTWARE, &note, sizeof(note));
	memcpy(state + i->state_bytes, &magic2, sizeof(magic2));
	at = (at - state_bytes) & ~63ull;
	if (!error)
		error = write_memory(i->pid, at, state, state_bytes);
	free(state);
	fill_context(i, &frame.context);
	frame.context.state = at;
	/* As at the start of any function: a multiple of 16, less the return address. */
	at = ((at - sizeof(frame)) & ~15ull) - 8;
	*sp = at;
	return error ? error : write_memory(i->pid, at, &frame, sizeof(frame));
}

/* ---- the call ---- */

static int set_registers(const struct injection *i, const struct user_regs_struct *registers)
{
	return result_of(ptrace(PTRACE_SETREGS, i->tid, 0, registers));
}

static int set_mask(const struct injection *i, uint64_t mask)
{
	return result_of(ptrace(PTRACE_SETSIGMASK, i->tid, (void *)sizeof(mask), &mask));
}

/* Those of faults are not blocked: the kernel would take the program's handler away. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

static bool is_fault(int number)
{
	for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++)
		if (faults[k] == number)
			return true;
	return false;
}

/* What to do with a signal that has stopped the thread: *deliver it, or 0. EFAULT: the call has crashed. */
static int take_signal(struct injection *i, uint64_t data_at, int number, int *deliver)
{
	struct target_mapping m;
	uint64_t told = 0;
	siginfo_t info;

	*deliver = 0;
	if (ptrace(PTRACE_GETSIGINFO, i->tid, 0, &info) || info.si_code <= 0 || !is_fault(number)) {
		i->sent |= 1ull << (number - 1);
		return 0;
	}
	if (number != SIGBUS || !i->guarded || read_memory(i->pid, data_at, &told, sizeof(told)) ||
	    told != i->guarded || !target_process_mapping(i->pid, (uintptr_t)info.si_addr, &m) ||
	    !m.shared)
		return EFAULT;
	*deliver = number;
	return 0;
}

/* Runs the thread until it is about to make the sigreturn system call of the frame at sp: then the call has
 * returned. A handler that ran meanwhile makes the same system call, of a frame of its own. */
static int run_to_sigreturn(struct injection *i, uint64_t sp, uint64_t data_at)
{
	struct user_regs_struct r;
	int status, error, number, deliver = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, i->tid, 0, (void *)(long)deliver))
			return errno;
		error = wait_for_stop(i->tid, &status, -1);
		if (error)
			return error;
		deliver = 0;
		number = WSTOPSIG(status);
		if (number != (SIGTRAP | 0x80)) {
			/* All signals are blocked but those of faults; and SIGSTOP. */
			error = status >> 16 ? 0 : take_signal(i, data_at, number, &deliver);
			if (error)
				return error;
			continue;
		}
		error = result_of(ptrace(PTRACE_GETREGS, i->tid, 0, &r));
		if (error)
			return error;
		if (r.orig_rax == SYS_rt_sigreturn && r.rsp == sp + sizeof(uint64_t) &&
		    r.rip == i->sigreturn + injection_sigreturn_size)
			return 0;
	}
}

static int set_final(const struct injection *i)
{
	struct user_regs_struct r = i->restarts ? place_of(i) : i->registers;

	return set_registers(i, &r);
}

/* Puts the thread back where it was, in the stop of a system call that is left out. */
static int put_back(const struct injection *i)
{
	struct user_regs_struct r = place_of(i);
	struct iovec state = {(void *)(uintptr_t)i->state, i->state_bytes};
	int status, error;

	/* The thread stops once more before it is back in the program: only there the kernel begins an
	 * interrupted system call again by itself, with what is left of its time. */
	ptrace(PTRACE_INTERRUPT, i->tid, 0, 0);
	error = set_registers(i, &r);
	if (!error)
		error = result_of(ptrace(PTRACE_SETREGSET, i->tid, (void *)NT_X86_XSTATE, &state));
	if (!error)
		error = result_of(ptrace(PTRACE_CONT, i->tid, 0, 0));
	if (!error)
		error = wait_for_stop(i->tid, &status, -1);
	return error ? error : set_final(i);
}

/* The thread is where it was before the call, unless it has ended. */
static int end_call(struct injection *i, int error)
{
	int undone;

	if (error == ESRCH)
		return error;
	undone = put_back(i);
	if (!undone)
		undone = set_mask(i, i->mask);
	step();
	return error ? error : undone;
}

int injection_call(struct injection *i, uint64_t function, void *data, size_t bytes,
		   uint64_t number)
{
	struct user_regs_struct r = i->registers;
	uint64_t sp, data_at, blocked = ~0ull;
	int error = put_frame(i, data, bytes, &sp, &data_at);

	step();
	if (error)
		return error;
	r.rsp = sp;
	r.rip = function;
	r.rdi = data_at;
	r.rsi = number;
	r.rax = 0;
	r.orig_rax = (unsigned long long)-1;
	r.eflags &= ~0x400ull; /* DF */
	for (size_t k = 0; k < sizeof(faults) / sizeof(*faults); k++)
		blocked &= ~(1ull << (faults[k] - 1));
	error = set_mask(i, blocked);
	if (!error)
		error = set_registers(i, &r);
	step();
	if (!error)
		error = run_to_sigreturn(i, sp, data_at);
	if (!error)
		error = read_memory(i->pid, data_at, data, sizeof(uint64_t));
	step();
	return end_call(i, error);
}

/* ---- a fork ---- */

/* syscall; ret */
const char injection_syscall[] = "\x0f\x05\xc3";
const size_t injection_syscall_size = sizeof(injection_syscall) - 1;

/* A system call of the thread, below a frame as that of injection_call(). */
struct thread_call {
	long number;
	uint64_t argument[4];
	uint64_t data[2]; /* put on its stack */
	int stack;	  /* the argument that is the data's address; -1: none */
	long result;
	pid_t child; /* that it has made; 0: none */
};

/* Runs the thread until the call has returned to sigreturn. */
static int run_thread_call(struct injection *i, struct thread_call *call)
{
	struct user_regs_struct r;
	unsigned long child;
	int status, error;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, i->tid, 0, 0))
			return errno;
		error = wait_for_stop(i->tid, &status, -1);
		if (error)
			return error;
		if (status >> 16 == PTRACE_EVENT_CLONE &&
		    !ptrace(PTRACE_GETEVENTMSG, i->tid, 0, &child))
			call->child = (pid_t)child;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			/* All signals are blocked but SIGSTOP. */
			if (!(status >> 16))
				i->sent |= 1ull << (WSTOPSIG(status) - 1);
			continue;
		}
		error = result_of(ptrace(PTRACE_GETREGS, i->tid, 0, &r));
		if (error)
			return error;
		if (r.orig_rax == SYS_rt_sigreturn)
			return 0;
		call->result = (long)r.rax;
	}
}

static int make_thread_call(struct injection *i, uint64_t syscall_at, struct thread_call *call)
{
	struct user_regs_struct r = i->registers;
	uint64_t sp, data_at;
	int error = put_frame(i, call->data, sizeof(call->data), &sp, &data_at);

	step();
	if (error)
		return error;
	if (call->stack >= 0)
		call->argument[call->stack] = data_at;
	r.rsp = sp;
	r.rip = syscall_at;
	r.rax = (unsigned long long)call->number;
	r.rdi = call->argument[0];
	r.rsi = call->argument[1];
	r.rdx = call->argument[2];
	r.r10 = call->argument[3];
	r.orig_rax = (unsigned long long)-1;
	error = set_mask(i, ~0ull);
	if (!error)
		error = set_registers(i, &r);
	step();
	if (!error)
		error = run_thread_call(i, call);
	step();
	return end_call(i, error);
}

static int set_options(pid_t tid, long options)
{
	return result_of(ptrace(PTRACE_SETOPTIONS, tid, 0, (void *)options));
}

int injection_fork(struct injection *i, uint64_t syscall_at, uint64_t exit_at, pid_t *copy)
{
	/* No signal at its end: the lowest byte of the flags is 0. What the program closes must be
	 * closed, so the copy has no files of its own. Its first return leads to exit_at. */
	struct thread_call call = {
	    .number = SYS_clone, .argument = {CLONE_FILES}, .data = {exit_at}, .stack = 1};
	int status, error = set_options(i->tid, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE);

	if (error)
		return error;
	error = make_thread_call(i, syscall_at, &call);
	set_options(i->tid, PTRACE_O_TRACESYSGOOD);
	if (call.child && (wait_for_stop(call.child, &status, -1) ||
			   set_options(call.child, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD))) {
		kill(call.child, SIGKILL);
		return ECHILD;
	}
	step();
	*copy = call.child;
	if (!call.child && !error)
		return call.result < 0 ? (int)-call.result : ECHILD;
	return error;
}

int injection_reap(struct injection *i, uint64_t syscall_at, pid_t copy)
{
	struct thread_call call = {
	    .number = SYS_wait4, .argument = {(uint64_t)copy, 0, __WALL | WNOHANG, 0}, .stack = -1};
	int error = make_thread_call(i, syscall_at, &call);

	if (error)
		return error;
	return call.result == copy ? 0 : ECHILD;
}

int injection_copy_calls(pid_t copy, uint64_t syscall_at, long number, uint64_t first,
			 uint64_t second)
{
	struct user_regs_struct r;
	int status, error = result_of(ptrace(PTRACE_GETREGS, copy, 0, &r));

	r.rip = syscall_at;
	r.rax = (unsigned long long)number;
	r.rdi = first;
	r.rsi = second;
	r.orig_rax = (unsigned long long)-1;
	if (!error)
		error = result_of(ptrace(PTRACE_SETREGS, copy, 0, &r));
	/* Into the call, and out of it. */
	for (int stop = 0; stop < 2 && !error; stop++) {
		error = result_of(ptrace(PTRACE_SYSCALL, copy, 0, 0));
		if (!error)
			error = wait_for_stop(copy, &status, -1);
	}
	return error;
}

void injection_bury(const struct injection *i)
{
	int64_t end = now_ns() + BURY_MS * 1000000ll;

	while (i->killed && !is_own_child(i->tid) && !waitpid(i->tid, NULL, __WALL | WNOHANG)) {
		if (now_ns() > end) {
			injection_let_go_later(i->tid);
			return;
		}
		usleep(100);
	}
}

void injection_release(struct injection *i)
{
	if (!i->stopped)
		return;
	if (i->state_bytes)
		set_final(i);
	for (int number = 1; number <= 64; number++)
		if (i->sent >> (number - 1) & 1)
			syscall(SYS_tgkill, i->pid, i->tid, number);
	i->released = true;
	i->killed = ptrace(PTRACE_DETACH, i->tid, 0, 0) != 0;
	i->stopped_ns = now_ns() - i->stopped_ns;
	i->stopped = false;
	step();
}
