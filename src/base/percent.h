/* SPDX-License-Identifier: Apache-2.0 */
/* Texts as they stand in a URL. */
#ifndef MAYFLY_PERCENT_H
#define MAYFLY_PERCENT_H

#include <stdbool.h>

/* In place: "a%20b+c" -> "a b c". False: it is no such text, or has a zero in it. */
bool percent_decode(char *text);

#endif
