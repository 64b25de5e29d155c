/* SPDX-License-Identifier: Apache-2.0 */
/* Processes, as users name them: see process_number.h. */
#include "cli/control/process_number.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

bool process_number_take(const char *text, pid_t *pid)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (end == text || *end || number <= 0 || number > INT_MAX)
		return cli_refuse("'%s' is not the number of a process", text);
	if (number == getpid())
		return cli_refuse("%ld is mayfly itself", number);
	*pid = (pid_t)number;
	return true;
}
