/* SPDX-License-Identifier: Apache-2.0 */
/* Running a program without getting in its way: see child.h. */
#include "record/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/process_file.h"

/* All are blocked in mayfly while the program runs, and read from a signalfd. */
static const int watched[] = {SIGCHLD, SIGINT,	SIGQUIT, SIGTERM, SIGHUP, SIGUSR1,
			      SIGUSR2, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU};

static void watched_set(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++)
		sigaddset(set, watched[i]);
}

static void become(struct child *c, char **argv, const int *go, const int *failed,
		   void (*prepare)(void *context), void *context)
{
	ssize_t n;
	char byte;
	int error;

	close(go[1]);
	close(failed[0]);
	do
		n = read(go[0], &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(125);
	prepare(context);
	sigaction(SIGCHLD, &c->chld, NULL);
	sigaction(SIGXFSZ, &c->xfsz, NULL);
	sigaction(SIGPIPE, &c->pipe, NULL);
	setrlimit(RLIMIT_FSIZE, &c->file_size);
	setrlimit(RLIMIT_NOFILE, &c->files);
	sigprocmask(SIG_SETMASK, &c->mask, NULL);
	execvp(argv[0], argv);
	error = errno;
	while (write(failed[1], &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(126);
}

/* The limits that mayfly was started with are the program's; they are not meant for what mayfly
 * writes. */
static void raise_limit(int which, struct rlimit *before)
{
	struct rlimit raised;

	getrlimit(which, before);
	raised = *before;
	raised.rlim_cur = raised.rlim_max;
	setrlimit(which, &raised);
}

static void close_pair(const int *pair)
{
	close(pair[0]);
	close(pair[1]);
}

static int make_pipes(int *go, int *failed)
{
	if (pipe2(go, O_CLOEXEC))
		return errno;
	if (pipe2(failed, O_CLOEXEC)) {
		int error = errno;

		close_pair(go);
		return error;
	}
	return 0;
}

static int child_watch_signals(struct child *c)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, normal = {.sa_handler = SIG_DFL};
	sigset_t set;

	watched_set(&set);
	c->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (c->signals < 0)
		return errno;
	sigprocmask(SIG_BLOCK, &set, &c->mask);
	/* Where SIGCHLD is ignored a child's status is lost. */
	sigaction(SIGCHLD, &normal, &c->chld);
	/* A full disk or a closed pipe is an error to be told, not the end of mayfly. */
	sigaction(SIGXFSZ, &ignore, &c->xfsz);
	sigaction(SIGPIPE, &ignore, &c->pipe);
	return 0;
}

int child_fork(struct child *c, char **argv, void (*prepare)(void *context), void *context)
{
	int go[2], failed[2];
	int error;

	memset(c, 0, sizeof(*c));
	raise_limit(RLIMIT_FSIZE, &c->file_size);
	raise_limit(RLIMIT_NOFILE, &c->files);
	error = make_pipes(go, failed);
	if (error)
		return error;
	error = child_watch_signals(c);
	if (!error) {
		c->pid = fork();
		if (c->pid < 0)
			error = errno;
	}
	if (error) {
		close_pair(go);
		close_pair(failed);
		return error;
	}
	if (!c->pid)
		become(c, argv, go, failed, prepare, context);
	close(go[0]);
	close(failed[1]);
	c->go = go[1];
	c->failed = failed[0];
	return 0;
}

void child_hold_signals(sigset_t *before)
{
	sigset_t set;

	watched_set(&set);
	sigprocmask(SIG_BLOCK, &set, before);
}

pid_t child_own_pid(const struct child *c)
{
	return c->pid_inside ? c->pid_inside : c->pid;
}

int child_adopt(struct child *c, pid_t pid)
{
	memset(c, 0, sizeof(*c));
	c->pid = pid;
	c->pid_inside = process_number_inside(pid);
	c->adopted = true;
	c->process = (int)syscall(SYS_pidfd_open, pid, 0);
	raise_limit(RLIMIT_FSIZE, &c->file_size);
	raise_limit(RLIMIT_NOFILE, &c->files);
	return child_watch_signals(c);
}

static void look_at_adopted(struct child *c)
{
	struct pollfd poll_fd = {.fd = c->process, .events = POLLIN};

	if (c->process >= 0 ? poll(&poll_fd, 1, 0) > 0 : kill(c->pid, 0) && errno == ESRCH) {
		c->ended = true;
		c->ended_ns = now_ns();
	}
}

static void reap(struct child *c)
{
	while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR)
		;
	c->ended = true;
}

int child_run(struct child *c)
{
	char byte = 0;
	ssize_t n;
	int error;

	while (write(c->go, &byte, 1) < 0 && errno == EINTR)
		;
	close(c->go);
	/* Ends without data when the exec closes the other end. */
	do
		n = read(c->failed, &error, sizeof(error));
	while (n < 0 && errno == EINTR);
	close(c->failed);
	if (n != (ssize_t)sizeof(error))
		return 0;
	reap(c);
	return error;
}

void child_cancel(struct child *c)
{
	close(c->go);
	close(c->failed);
	reap(c);
}

static void child_look_last(struct child *c)
{
	siginfo_t info = {.si_pid = 0};

	if (c->ended || !c->ending ||
	    waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid)
		return;
	c->ending(c->context);
	c->ending = NULL;
}

static void child_look(struct child *c)
{
	struct rusage usage;
	int status;
	pid_t pid;

	if (c->adopted) {
		look_at_adopted(c);
		return;
	}
	child_look_last(c);
	while (!c->ended &&
	       (pid = wait4(c->pid, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage))) {
		if (pid < 0) {
			if (errno == EINTR)
				continue;
			/* Somebody else has reaped it; how it ended is not known. */
			status = 0;
			usage = (struct rusage){0};
			c->ended = true;
		} else if (WIFSTOPPED(status)) {
			c->stopped = true;
			c->stop_signal = WSTOPSIG(status);
			continue;
		} else if (WIFCONTINUED(status)) {
			c->stopped = false;
			c->stop_signal = 0;
			continue;
		}
		c->ended = true;
		c->ended_ns = now_ns();
		c->status = status;
		c->usage = usage;
	}
}

/* Signals from the terminal (SI_KERNEL) go to the whole process group, so the program has them
 * already; the same is true of signals that the program sends to its group. A signal for mayfly
 * alone is meant for the program. Such a signal looks like one that another process sent to the
 * group: in that case the program gets it twice. This matters for the two signals that ask for an
 * interactive stop, so they are not forwarded when they come from within the group. */
static void forward(const struct child *c, const struct signalfd_siginfo *info)
{
	int number = (int)info->ssi_signo;
	pid_t sender = (pid_t)info->ssi_pid;

	if (info->ssi_code > 0 || sender == c->pid)
		return;
	if ((number == SIGINT || number == SIGQUIT) && sender > 0 && getpgid(sender) == getpgrp())
		return;
	kill(c->pid, number);
}

void child_signals(struct child *c)
{
	struct signalfd_siginfo info;

	while (read(c->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGCHLD:
			break;
		case SIGINT:
		case SIGQUIT:
		case SIGTERM:
		case SIGHUP:
			c->interrupted = true;
			/* fall through */
		default:
			if (!c->ended && !c->adopted)
				forward(c, &info);
		}
	}
	child_look(c);
}

enum place { NO_TERMINAL, BACKGROUND, FOREGROUND };

static enum place where_are_we(void)
{
	int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
	enum place place;

	if (terminal < 0)
		return NO_TERMINAL;
	place = tcgetpgrp(terminal) == getpgrp() ? FOREGROUND : BACKGROUND;
	close(terminal);
	return place;
}

/* Stops mayfly the way the program was stopped, which the shell that started it sees. Returns when
 * it has been continued. */
static void stop_by(int number)
{
	struct sigaction normal = {.sa_handler = SIG_DFL}, before;
	sigset_t set;

	if (number == SIGSTOP) {
		raise(SIGSTOP);
		return;
	}
	sigemptyset(&set);
	sigaddset(&set, number);
	sigaction(number, &normal, &before);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &set, NULL); /* here it stops */
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(number, &before, NULL);
}

void child_stop_too(struct child *c)
{
	enum place place = where_are_we();
	int number = c->stop_signal;

	c->stop_signal = 0;
	/* Without a terminal there is no shell that would continue both. Programs stop themselves
	 * with SIGSTOP after they have tidied up the screen, but other processes also use it to
	 * hold a program for a while. */
	if (place == NO_TERMINAL || (number == SIGSTOP && place != FOREGROUND))
		return;
	stop_by(number);
	/* The shell continues the whole group; somebody else perhaps only mayfly. */
	child_look(c);
	if (c->stopped && !c->ended)
		kill(c->pid, SIGCONT);
	c->stop_signal = 0;
}

void child_release_signals(struct child *c)
{
	struct signalfd_siginfo info;
	sigset_t mask = c->mask;

	/* The Ctrl-C that ended the program must not end what follows. */
	while (read(c->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		;
	close(c->signals);
	sigaddset(&mask, SIGUSR1);
	sigaddset(&mask, SIGUSR2);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

int child_exit_status(const struct child *c)
{
	return WIFSIGNALED(c->status) ? 128 + WTERMSIG(c->status) : WEXITSTATUS(c->status);
}
