/* SPDX-License-Identifier: Apache-2.0 */
/* Processes, as users name them to attach and detach. */
#ifndef MAYFLY_PROCESS_NUMBER_H
#define MAYFLY_PROCESS_NUMBER_H

#include <stdbool.h>
#include <sys/types.h>

/* False after a line on stderr. */
bool process_number_take(const char *text, pid_t *pid);

#endif
