/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that users write: lists of suppressions, rules for what is the program's own code. */
#ifndef MAYFLY_LIST_FILE_H
#define MAYFLY_LIST_FILE_H

#include <stddef.h>

/* The whole file, to be freed; NULL after a line on stderr. */
char *list_file_read(const char *path, size_t *size);

#endif
