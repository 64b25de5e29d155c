/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGBUS of the spool: see fault.h. A signal that is blocked ends the program when it is a fault, so
 * threads that block SIGBUS do so in name only (`blocked`), until one is sent to them: it then waits,
 * really blocked, as it would without us.
 *
 * Not covered: a program that sets its handler by a system call of its own (Go), or by the old names
 * of signal(); one that ignores SIGBUS; threads that had it blocked before mayfly attached.
 */
#include "agent/fault.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"
#include "agent/real.h"
#include "agent/spool_file.h"

typedef int sigaction_call(int, const struct sigaction *, struct sigaction *);
typedef void (*handler)(int);
typedef handler signal_call(int, handler);
typedef int sigmask_call(int, const sigset_t *, sigset_t *);

static struct {
	sigaction_call *sigaction;
	signal_call *signal;
	sigmask_call *pthread_sigmask, *sigprocmask;
} next;

static _Atomic bool guarded;
/* What the program wants for SIGBUS, in one of two places: the handler may read it at any time. */
static struct sigaction wanted[2];
static _Atomic uint32_t wanted_at;
static struct agent_lock wanted_lock;
static _Atomic uint64_t masked; /* signals whose handlers block SIGBUS, in name only */
static AGENT_PER_THREAD bool blocked;

static void look_up(void)
{
	if (next.sigprocmask)
		return;
	REAL_LOOK_UP(next.sigaction, sigaction);
	REAL_LOOK_UP(next.signal, signal);
	REAL_LOOK_UP(next.pthread_sigmask, pthread_sigmask);
	REAL_LOOK_UP(next.sigprocmask, sigprocmask);
}

/* ---- the signal ---- */

static void act_by_default(void)
{
	struct sigaction act = {.sa_handler = SIG_DFL};

	atomic_store(&guarded, false);
	next.sigaction(SIGBUS, &act, NULL);
}

/* The signal was sent to a thread that blocks it in name only: it is blocked in truth from now on, and
 * waits. */
static void keep_waiting(siginfo_t *info, ucontext_t *context)
{
	long pid = sys_getpid();

	sigaddset(&context->uc_sigmask, SIGBUS);
	if (info->si_code == SI_TKILL)
		sys_call4(SYS_rt_tgsigqueueinfo, pid, sys_gettid(), SIGBUS, (long)info);
	else
		sys_call3(SYS_rt_sigqueueinfo, pid, SIGBUS, (long)info);
}

static void pass_on(int number, siginfo_t *info, void *context)
{
	struct sigaction act = wanted[atomic_load(&wanted_at)];
	bool sent = info->si_code <= 0;

	if (blocked && sent) {
		keep_waiting(info, context);
	} else if (blocked || act.sa_handler == SIG_DFL || (act.sa_handler == SIG_IGN && !sent)) {
		/* A fault happens again when we return. */
		act_by_default();
		if (sent)
			sys_call3(SYS_tgkill, sys_getpid(), sys_gettid(), SIGBUS);
	} else if (act.sa_handler != SIG_IGN) {
		if (act.sa_flags & (int)SA_RESETHAND)
			wanted[atomic_load(&wanted_at)].sa_handler = SIG_DFL;
		if (act.sa_flags & SA_SIGINFO)
			act.sa_sigaction(number, info, context);
		else
			act.sa_handler(number);
	}
}

static void on_bus(int number, siginfo_t *info, void *context)
{
	int error = errno;

	if (info->si_code > 0 && spool_file_lost((uintptr_t)info->si_addr))
		agent_off(SPOOL_OFF_LOST, 0, SPOOL_LOST_TEXT);
	else
		pass_on(number, info, context);
	errno = error;
}

/* ---- its actions ---- */

/* The action that is set where the program wants this one. */
static struct sigaction ours_for(const struct sigaction *act)
{
	struct sigaction ours = *act;

	ours.sa_sigaction = on_bus;
	ours.sa_flags = (ours.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
	if (act->sa_handler == SIG_DFL) {
		ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
		sigemptyset(&ours.sa_mask);
	}
	return ours;
}

static int change_wanted(const struct sigaction *act, struct sigaction *old)
{
	struct sigaction before = wanted[atomic_load(&wanted_at)], ours;
	uint32_t at;
	int result = 0;

	if (act) {
		at = !atomic_load(&wanted_at);
		wanted[at] = *act;
		ours = ours_for(act);
		result = next.sigaction(SIGBUS, act->sa_handler == SIG_IGN ? act : &ours, NULL);
		if (!result)
			atomic_store(&wanted_at, at);
	}
	if (old && !result)
		*old = before;
	return result;
}

EXPORT int sigaction(int number, const struct sigaction *act, struct sigaction *old)
{
	uint64_t bit = number > 0 && number <= 64 ? 1ull << (number - 1) : 0, before;
	struct sigaction changed;
	int result;

	look_up();
	if (!atomic_load(&guarded))
		return next.sigaction(number, act, old);
	if (number == SIGBUS) {
		if (!agent_lock(&wanted_lock))
			return next.sigaction(number, act, old);
		result = change_wanted(act, old);
		agent_unlock(&wanted_lock);
		return result;
	}
	before = atomic_load(&masked) & bit;
	if (act) {
		changed = *act;
		sigdelset(&changed.sa_mask, SIGBUS);
		if (sigismember(&act->sa_mask, SIGBUS))
			atomic_fetch_or(&masked, bit);
		else
			atomic_fetch_and(&masked, ~bit);
	}
	result = next.sigaction(number, act ? &changed : NULL, old);
	if (old && !result && before)
		sigaddset(&old->sa_mask, SIGBUS);
	return result;
}

EXPORT handler signal(int number, handler function)
{
	struct sigaction act = {.sa_handler = function, .sa_flags = SA_RESTART}, old;

	look_up();
	if (number != SIGBUS || !atomic_load(&guarded) || function == SIG_ERR)
		return next.signal(number, function);
	sigaddset(&act.sa_mask, SIGBUS);
	return sigaction(number, &act, &old) ? SIG_ERR : old.sa_handler;
}

/* ---- masks ---- */

static int change_mask(sigmask_call *real_one, int how, const sigset_t *set, sigset_t *old)
{
	bool was = blocked, has = false;
	sigset_t changed;
	int result;

	if (!atomic_load(&guarded))
		return real_one(how, set, old);
	if (set) {
		has = sigismember(set, SIGBUS) == 1;
		changed = *set;
		if (how != SIG_UNBLOCK)
			sigdelset(&changed, SIGBUS);
	}
	/* Set before the call: a signal that waits is delivered during it. */
	if (set && (has || how == SIG_SETMASK))
		blocked = has && how != SIG_UNBLOCK;
	result = real_one(how, set ? &changed : NULL, old);
	if (result)
		blocked = was;
	else if (old && was)
		sigaddset(old, SIGBUS);
	return result;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	look_up();
	return change_mask(next.pthread_sigmask, how, set, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	look_up();
	return change_mask(next.sigprocmask, how, set, old);
}

/* ---- for the agent ---- */

bool fault_guard(void)
{
	struct sigaction ours;
	sigset_t now;

	look_up();
	if (atomic_load(&guarded))
		return true;
	if (!next.sigaction || !next.signal || !next.pthread_sigmask || !next.sigprocmask ||
	    next.sigaction(SIGBUS, NULL, &wanted[atomic_load(&wanted_at)]))
		return false;
	if (wanted[atomic_load(&wanted_at)].sa_handler == SIG_IGN)
		return false;
	ours = ours_for(&wanted[atomic_load(&wanted_at)]);
	if (next.sigaction(SIGBUS, &ours, NULL))
		return false;
	atomic_store(&guarded, true);
	if (!next.pthread_sigmask(SIG_SETMASK, NULL, &now) && sigismember(&now, SIGBUS) == 1) {
		sigemptyset(&now);
		sigaddset(&now, SIGBUS);
		next.pthread_sigmask(SIG_UNBLOCK, &now, NULL);
		blocked = true;
	}
	return true;
}

void fault_leave(void)
{
	const struct sigaction *act = &wanted[atomic_load(&wanted_at)];
	struct sigaction now;

	if (!atomic_exchange(&guarded, false) || next.sigaction(SIGBUS, NULL, &now))
		return;
	if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_bus)
		next.sigaction(SIGBUS, act, NULL);
}
