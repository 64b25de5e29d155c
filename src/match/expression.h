/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POSIX extended regular expressions, from users and from files, in bounded memory. Whether one
 * matches takes time in proportion to the text and to the expression, whatever they are: the text is
 * read once, and all ways to go on are followed at the same time (Thompson's construction).
 *
 * Characters are those of UTF-8; a byte that is not UTF-8 is one of its own, which . and [^...]
 * match. Outside of ASCII all are letters, for [:alpha:] as for \w and \b. Also \b \B \< \> \w \W \s \S \` \', as in GNU's. There
 * are no back-references, which have no such bound.
 */
#ifndef MAYFLY_EXPRESSION_H
#define MAYFLY_EXPRESSION_H

#include <stdbool.h>

struct expression;

/* NULL: *why says what is wrong, in a few words. */
struct expression *expression_new(const char *text, const char **why);
void expression_free(struct expression *e);

/* Somewhere in the text. Many threads may ask at once. */
bool expression_matches(const struct expression *e, const char *text);

#endif
