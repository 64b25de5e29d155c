/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze_steps PID N: what `mayfly heap` does to a process, ended by SIGKILL after step N. Exit status: 0:
 * it came to its end; 1: it failed; killed: as asked for.
 * freeze_steps PID N program: the process is killed after step N instead; this one goes on until that is
 * gone. Exit status: 0: it was killed; 1: there is no such step.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/attach.h"
#include "attach/freeze.h"
#include "attach/injection.h"

static unsigned int last;
static pid_t killed;
static bool done;

static void kill_at(unsigned int number)
{
	if (number != last)
		return;
	done = true;
	kill(killed, SIGKILL);
}

static int wait_for_its_end(void)
{
	while (done && !kill(killed, 0)) {
		injection_tend_late();
		usleep(1000);
	}
	return !done;
}

int main(int count, char **words)
{
	const struct freeze_wishes wishes = {0};
	char why[FREEZE_WHY] = "";
	struct freeze f;

	if (count != 3 && count != 4)
		return 2;
	killed = count == 4 ? atoi(words[1]) : getpid();
	last = (unsigned int)atoi(words[2]);
	attach_step = kill_at;
	if (freeze_begin(&f, atoi(words[1]), &wishes, why, sizeof(why))) {
		freeze_end(&f);
		return count == 4 ? wait_for_its_end() : 0;
	}
	puts(why);
	return count == 4 ? wait_for_its_end() : 1;
}
