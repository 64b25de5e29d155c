/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc or tcmalloc linked into the executable: the functions that its table of symbols names are led
 * to the hooks (redirect.h), so the executable's own calls are seen as well. jemalloc may have a prefix (je_,
 * _rjem_), then libc's malloc is beside it.
 */
#ifndef MAYFLY_OWN_ENTRIES_H
#define MAYFLY_OWN_ENTRIES_H

#include <stdbool.h>

#include "agent/image.h"

/* own: the executable has the program's malloc. False: nothing has been changed. */
bool own_entries_redirect(const struct image *program, bool own);

#endif
