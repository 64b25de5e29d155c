/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colour and the pager: see terminal.h.
 *
 *	mayfly ──stdout──> pipe ──> sh -c "$MAYFLY_PAGER" ──> terminal
 *	       ──stderr──────────────────────────────────────>
 *
 * mayfly never ends before the pager, which would then compete with the shell for the terminal.
 */
#include "terminal/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "terminal/message.h"

/* ---- options ---- */

static const char *const whens[] = {"auto", "always", "never", NULL};
static enum { AUTO, ALWAYS, NEVER } colour;
static bool no_pager;

static bool take_colour(const struct given *given, void *to)
{
	int choice = ALWAYS;

	(void)to;
	if (given->value &&
	    !option_choice(given->option, given->value, whens, &choice, given->error_line))
		return false;
	colour = choice;
	return true;
}

static bool take_no_pager(const struct given *given, void *to)
{
	(void)given;
	(void)to;
	no_pager = true;
	return true;
}

const struct option_row terminal_rows[] = {
    {"color", .argument = "[=WHEN]", .choices = whens, OPTION_OWN(take_colour),
     .help = "use colours: auto (on a terminal, the default), always or never"},
    {"no-pager",
     .help = "print to the terminal directly, not through $MAYFLY_PAGER, $PAGER or less",
     OPTION_OWN(take_no_pager)},
    OPTION_END,
};

static bool is_dumb(void)
{
	const char *terminal = getenv("TERM");

	return !terminal || strcmp(terminal, "dumb") == 0;
}

bool terminal_has_colour(void)
{
	const char *no_colour = getenv("NO_COLOR");

	if (colour != AUTO)
		return colour == ALWAYS;
	return isatty(STDOUT_FILENO) && !(no_colour && *no_colour) && !is_dumb();
}

/* ---- the pager ---- */

static volatile pid_t pager; /* 0: none */

#define NOT_RUN 126 /* of sh, also 127: the command cannot be executed, or there is none */

/* Safe in signal handlers. False: the pager could not be run. */
static bool wait_for_pager(void)
{
	int status = 0;
	pid_t pid = pager;

	pager = 0;
	close(STDOUT_FILENO);
	/* ECHILD: mayfly was started with SIGCHLD ignored, and the pager has ended. */
	while (pid && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return !WIFEXITED(status) || WEXITSTATUS(status) < NOT_RUN;
}

/* SIGPIPE: the user has seen enough. */
static void on_ending_signal(int number)
{
	bool ran = wait_for_pager();

	if (number == SIGPIPE)
		_exit(ran ? CLI_OK : CLI_FAILED);
	raise(number); /* SA_RESETHAND: it ends mayfly when this returns */
}

static void watch_signals(void)
{
	static const int numbers[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction action = {.sa_handler = on_ending_signal, .sa_flags = (int)SA_RESETHAND};
	struct sigaction old;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (numbers[i] == SIGPIPE ||
		    (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL))
			sigaction(numbers[i], &action, NULL);
}

static bool is_installed(const char *program)
{
	const char *path = getenv("PATH");
	char file[4096];

	for (; path && *path; path += *path == ':') {
		int length = (int)strcspn(path, ":");

		snprintf(file, sizeof(file), "%.*s/%s", length, path, program);
		if (access(file, X_OK) == 0)
			return true;
		path += length;
	}
	return false;
}

/* NULL: none is wanted. */
static const char *pager_command(void)
{
	const char *command = getenv("MAYFLY_PAGER");

	if (!command)
		command = getenv("PAGER");
	if (!command)
		return is_installed("less") ? "less" : NULL;
	return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

static void run_pager(const char *command, const int *ends)
{
	signal(SIGPIPE, SIG_DFL);
	/* Quit if it fits on the screen, keep colours, leave the screen as it is. */
	setenv("LESS", "FRX", 0);
	setenv("LV", "-c", 0);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	close(ends[1]);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(NOT_RUN);
}

void pager_start(void)
{
	const char *command = no_pager || pager ? NULL : pager_command();
	int ends[2];
	pid_t pid;

	if (!command || is_dumb() || !isatty(STDOUT_FILENO) || pipe(ends))
		return;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_pager(command, ends);
	if (pid > 0) {
		pager = pid;
		watch_signals();
		dup2(ends[1], STDOUT_FILENO);
	}
	close(ends[0]);
	close(ends[1]);
}

int pager_finish(int status)
{
	if (!pager)
		return status;
	fflush(stdout);
	return wait_for_pager() || status ? status : CLI_FAILED; /* sh has said why */
}
