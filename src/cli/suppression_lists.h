/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lists of suppressions. */
#ifndef MAYFLY_SUPPRESSION_LISTS_H
#define MAYFLY_SUPPRESSION_LISTS_H

#include "answer/suppressions.h"

/* Both return false after a line on stderr. The name of the file must stay. */
bool suppressions_add_default(struct suppressions *s);
bool suppressions_add_file(struct suppressions *s, const char *path);

#endif
