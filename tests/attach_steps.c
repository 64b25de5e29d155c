/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach_steps attach|detach PID LIBRARY SETTINGS N: what `mayfly attach` does to a process, ended by
 * SIGKILL after step N. Exit status: 0: it came to its end; 1: it failed; killed: as asked for.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/attach.h"

static unsigned int last;

/* The part that traces is a child: its parent goes with it. */
static void kill_at(unsigned int number)
{
	if (number != last)
		return;
	kill(getppid(), SIGKILL);
	kill(getpid(), SIGKILL);
}

int main(int count, char **words)
{
	struct attach_result result;
	bool good;

	if (count != 6)
		return 2;
	last = (unsigned int)atoi(words[5]);
	attach_step = kill_at;
	good = !strcmp(words[1], "attach")
		   ? attach_load(atoi(words[2]), words[3], words[4], 20000000000ll, &result)
		   : attach_unload(atoi(words[2]), words[3], 20000000000ll, &result);
	if (!good)
		puts(result.why);
	return !good;
}
