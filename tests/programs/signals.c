/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program sees of SIGBUS, in lines that must be the same with mayfly and without:
 * signals SEE|FAULT|SENT|WAIT. FAULT and SENT end by the signal.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile sig_atomic_t came, code, masked;
static sigjmp_buf back;

static void with_info(int number, siginfo_t *info, void *context)
{
	sigset_t now;

	(void)context;
	came = number;
	code = info->si_code;
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	masked = sigismember(&now, SIGBUS) | sigismember(&now, SIGUSR1) << 1;
}

static void leave(int number)
{
	came = number;
	siglongjmp(back, 1);
}

static char *hole(void)
{
	FILE *file = tmpfile();

	return file ? mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0)
		    : MAP_FAILED;
}

static void say_action(const char *when)
{
	struct sigaction act;

	sigaction(SIGBUS, NULL, &act);
	printf("%s: %s, flags %x, SIGUSR1 %d, SIGBUS %d\n", when,
	       act.sa_handler == SIG_DFL				  ? "default"
	       : act.sa_handler == SIG_IGN				  ? "ignored"
	       : act.sa_sigaction == with_info || act.sa_handler == leave ? "ours"
									  : "unknown",
	       (unsigned int)act.sa_flags & ~0x04000000u, sigismember(&act.sa_mask, SIGUSR1),
	       sigismember(&act.sa_mask, SIGBUS));
}

static void say_mask(const char *when)
{
	sigset_t now;

	sigprocmask(SIG_BLOCK, NULL, &now);
	printf("%s: SIGBUS %d, SIGUSR1 %d\n", when, sigismember(&now, SIGBUS),
	       sigismember(&now, SIGUSR1));
}

static void see(void)
{
	struct sigaction act = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO}, old;
	sigset_t set, before;

	say_action("first");
	sigaddset(&act.sa_mask, SIGUSR1);
	printf("set: %d\n", sigaction(SIGBUS, &act, &old));
	printf("before that: %d\n", old.sa_handler == SIG_DFL);
	say_action("set");
	raise(SIGBUS);
	printf("raised: %d, %d, masked %d\n", came, code == SI_TKILL, masked);
	printf("signal: %d\n", (void *)signal(SIGBUS, leave) == (void *)with_info);
	say_action("signal");
	came = 0;
	if (!sigsetjmp(back, 1))
		*hole() = 1;
	printf("fault: %d\n", came);
	say_mask("jumped");
	act.sa_flags |= (int)SA_RESETHAND;
	sigaction(SIGBUS, &act, NULL);
	raise(SIGBUS);
	say_action("once");
	signal(SIGBUS, SIG_IGN);
	say_action("ignored");
	raise(SIGBUS);
	sigfillset(&act.sa_mask);
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGUSR1, NULL, &old);
	printf("another's mask: %d, %d\n", sigismember(&old.sa_mask, SIGBUS),
	       sigismember(&old.sa_mask, SIGUSR2));
	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	say_mask("blocked");
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &set, &before);
	printf("it was: %d\n", sigismember(&before, SIGBUS));
	say_mask("set");
}

/* One that is blocked waits, until it is asked for. */
static void wait_for_it(void)
{
	struct sigaction act = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO};
	sigset_t set;
	int number;

	sigaction(SIGBUS, &act, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGBUS);
	printf("blocked: %d", came);
	sigwait(&set, &number);
	printf(", waited for: %d\n", number == SIGBUS);
	raise(SIGBUS);
	printf("blocked: %d", came);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf(", unblocked: %d\n", came == SIGBUS);
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	free(malloc(10000000));
	if (!strcmp(what, "SEE"))
		see();
	else if (!strcmp(what, "WAIT"))
		wait_for_it();
	else if (!strcmp(what, "FAULT"))
		*hole() = 1;
	else if (!strcmp(what, "SENT"))
		kill(getpid(), SIGBUS);
	printf("end\n");
	return 0;
}
