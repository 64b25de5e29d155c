/* SPDX-License-Identifier: Apache-2.0 */
/* What process.c and exec.c share. */
#ifndef MAYFLY_PROCESS_H
#define MAYFLY_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

/* A text at an address that may be wrong, for a function that would only fail for it. In a sandbox
 * the address cannot be checked: "". text: room for SPOOL_TEXT_BYTES + 1. */
const char *process_text(char *text, const char *from);

/* The path of an open file, cut if need be; "" in a sandbox. text: room for SPOOL_TEXT_BYTES + 1. Its length. */
size_t process_file(char *text, int fd);

/* False in the child of a vfork, where the agent seems to be on. */
bool process_is_this(void);

#endif
