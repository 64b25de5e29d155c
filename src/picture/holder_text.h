/* SPDX-License-Identifier: Apache-2.0 */
/* What holders are called. Texts go into a caller's buffer, which is returned. */
#ifndef MAYFLY_HOLDER_TEXT_H
#define MAYFLY_HOLDER_TEXT_H

#include "picture/picture.h"

#define HOLDER_TEXT 1024 /* bytes that are enough for most */

/* "g_sessions", "stack of 'worker' 2099" */
char *holder_text(char *buffer, size_t size, const struct holder *h);
/* Where that is: "orderd", "drain()"; "" */
char *holder_where(char *buffer, size_t size, const struct holder *h);
/* What several hold together, a bit for each of p->shared.sharer: "g_a, g_b, together" */
char *holders_text(char *buffer, size_t size, const struct picture *p, uint64_t holders);

#endif
