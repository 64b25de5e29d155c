/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the agent can be loaded into the program that a file is. */
#ifndef MAYFLY_EXEC_FILE_H
#define MAYFLY_EXEC_FILE_H

#include <stdbool.h>

/* False: its loader would refuse our library, with a message of its own. True also where that cannot
 * be seen. search: a name without '/' is looked for in PATH. Safe in the child of a vfork. */
bool exec_file_fits(const char *name, bool search);

#endif
