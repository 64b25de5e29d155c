/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze_steps PID N: what `mayfly heap` does to a process, ended by SIGKILL after step N. Exit status: 0:
 * it came to its end; 1: it failed; killed: as asked for.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/attach.h"
#include "attach/freeze.h"

static unsigned int last;

static void kill_at(unsigned int number)
{
	if (number == last)
		kill(getpid(), SIGKILL);
}

int main(int count, char **words)
{
	const struct freeze_wishes wishes = {0};
	char why[FREEZE_WHY] = "";
	struct freeze f;

	if (count != 3)
		return 2;
	last = (unsigned int)atoi(words[2]);
	attach_step = kill_at;
	if (freeze_begin(&f, atoi(words[1]), &wishes, why, sizeof(why))) {
		freeze_end(&f);
		return 0;
	}
	puts(why);
	return 1;
}
