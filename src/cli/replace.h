/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a new trace may take the place of a file. */
#ifndef MAYFLY_REPLACE_H
#define MAYFLY_REPLACE_H

#include <stdbool.h>

/* Nothing there, something that mayfly wrote, an empty file, or force. False after a line on
 * stderr. */
bool replace_allowed(const char *file, bool force);

#endif
