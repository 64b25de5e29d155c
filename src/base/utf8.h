/* SPDX-License-Identifier: Apache-2.0 */
/* Whether bytes are UTF-8. */
#ifndef MAYFLY_UTF8_H
#define MAYFLY_UTF8_H

#include <stddef.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
/* Bytes of the character of UTF-8 that text begins with; 0: it begins with none. */
size_t utf8_length(const char *text);

#endif
