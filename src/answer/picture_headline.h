/* SPDX-License-Identifier: Apache-2.0 */
/* What a picture of the heap says, in one sentence: who holds the most. */
#ifndef MAYFLY_PICTURE_HEADLINE_H
#define MAYFLY_PICTURE_HEADLINE_H

#include <stddef.h>

#include <mayfly/trace.h>

/* "94.7 % of 9.41 GB is held by g_sessions, a variable of orderd." Returns the buffer; "": nothing is held. */
char *picture_headline_text(char *buffer, size_t size, const struct mayfly_picture *p);

/* What the picture says is lost: nothing points to it, or only lost blocks do. */
bool holder_is_lost(enum mayfly_holder_kind kind);

#endif
