/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the browser: $BROWSER, a list of commands with ':' between them, or xdg-open. The command
 * may return at once or run as long as the browser does, so a thread waits for it.
 */
#include "cli/view/browser.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "terminal/message.h"

extern char **environ;

#define COMMAND_BYTES 4096

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

bool browser_is_elsewhere(void)
{
	return is_set("SSH_CONNECTION") || is_set("SSH_TTY");
}

bool browser_is_here(void)
{
	/* A browser that runs as root because of sudo is not the user's, and most refuse to. */
	return (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) && !browser_is_elsewhere() &&
	       !is_set("SUDO_USER");
}

/* One command of the list, with the address for its %s or after it. False: too long. */
static bool command_text(char *text, const char *command, size_t length, const char *url)
{
	const char *place = memmem(command, length, "%s", 2);
	size_t before = place ? (size_t)(place - command) : length;
	const char *after = place ? place + 2 : command + length;
	int used = snprintf(text, COMMAND_BYTES, "%.*s%s%s%.*s", (int)before, command,
			    place ? "" : " ", url, (int)(command + length - after), after);

	return used > 0 && used < COMMAND_BYTES;
}

/* In a session of its own, so that the Ctrl-C that ends mayfly does not end the browser. What it
 * prints is not the user's concern. */
static bool run_command(char *text)
{
	char shell[] = "/bin/sh", option[] = "-c";
	char *arguments[] = {shell, option, text, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none;
	int status = -1;
	pid_t pid;
	bool good;

	sigemptyset(&none);
	posix_spawnattr_init(&how);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
					   POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&how, &none);
	sigaddset(&none, SIGPIPE); /* mayfly record ignores both */
	sigaddset(&none, SIGXFSZ);
	posix_spawnattr_setsigdefault(&how, &none);
	posix_spawn_file_actions_init(&files);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	good = posix_spawn(&pid, shell, &files, &how, arguments, environ) == 0 &&
	       waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	return good;
}

static bool open_by(const char *list, const char *url)
{
	char text[COMMAND_BYTES];

	while (*list) {
		size_t length = strcspn(list, ":");

		if (length && command_text(text, list, length, url) && run_command(text))
			return true;
		list += length + (list[length] == ':');
	}
	return false;
}

static void *open_browser(void *context)
{
	char *url = context;

	if (!open_by(is_set("BROWSER") ? getenv("BROWSER") : "xdg-open", url))
		cli_error("no browser could be started; open that address yourself");
	free(url);
	return NULL;
}

void browser_open(const char *url)
{
	char *copy = strdup(url);
	pthread_attr_t detached;
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	if (!copy || pthread_create(&thread, &detached, open_browser, copy) != 0)
		free(copy);
	pthread_attr_destroy(&detached);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}
